//! Threads and processes that Linux has already, and the LWK not yet: it learns their ids late.
//!
//! A tracer that attaches to one in between would get the registers of its worker, and could set
//! them.

use crate::process::Process;
use crate::process::spaces;
use crate::process::thread::{self, Thread};
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_hal::cpu;

/// Most time that an attachment waits, ns: Linux may have stopped the worker of a newborn.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Time between two looks of an attachment, which no newborn wakes, ns.
const LOOK_NS: u64 = 1_000_000;

/// Number of births so far.
static BIRTHS: AtomicU64 = AtomicU64::new(0);

/// A birth that goes on until this is dropped: the newborn can be found by its id, or is not going
/// to be there.
pub struct Bearing<'a> {
    maker: &'a Thread,
    number: u64,
}

impl<'a> Bearing<'a> {
    /// `maker` is about to have Linux make a thread or a process.
    pub fn by(maker: &'a Thread) -> Self {
        Bearing { maker, number: begin(maker) }
    }
}

impl Drop for Bearing<'_> {
    fn drop(&mut self) {
        end(self.maker, self.number);
    }
}

/// Begins a birth, of which `thread` has the number: the maker, or the newborn where that is
/// listed before. Gives the number.
pub fn begin(thread: &Thread) -> u64 {
    let number = BIRTHS.fetch_add(1, Ordering::SeqCst) + 1;
    thread.birth_number.store(number, Ordering::SeqCst);
    number
}

/// Ends the birth with this number, unless `thread` has the number of a later one by now: a newborn
/// that has begun may be a maker itself.
pub fn end(thread: &Thread, number: u64) {
    let _ = thread.birth_number.compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst);
}

/// Ends the birth of a newborn, which begins.
pub fn has_begun(newborn: &Thread) {
    newborn.birth_number.store(0, Ordering::SeqCst);
}

/// Whether one of the first `count` births goes on that is the asker's user's, or any where that is
/// root: no other user may attach to a newborn, and births of others may take for ever.
fn goes_on(asker: &Thread, count: u64) -> bool {
    let is_one = |t: &Thread| (1..=count).contains(&t.birth_number.load(Ordering::SeqCst));
    let has_one = |p: &Arc<Process>| p.with_threads(|all| all.iter().any(|t| is_one(t)));
    let user = asker.process.memory().account.user();
    spaces::all()
        .filter(|space| user.uid() == 0 || Arc::ptr_eq(space.memory.account.user(), user))
        .any(|space| space.processes().any(|p| has_one(&p)))
}

/// Lets births that go on end before the running thread attaches to `tid`, which may be the id of a
/// newborn.
pub fn before_attachment(tid: u32) {
    let me = thread::current();
    if spaces::find_thread(&me.process, tid).is_some() {
        return;
    }
    let (count, over) = (BIRTHS.load(Ordering::SeqCst), cpus::deadline(PATIENCE_NS));
    let leaves = || me.must_end() || me.process.is_dumping();
    let is_over = || leaves() || !goes_on(me, count) || cpu::rdtsc() >= over;
    while !is_over() {
        // Not `is_over`: the scheduler asks at each of its steps, with its queue locked.
        cpus::until(leaves, cpus::deadline(LOOK_NS));
    }
}
