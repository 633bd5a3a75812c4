//! futex_waitv(2): waiting on several words at once.
//!
//! Words of the program's own memory are waited on here, those in memory that Linux
//! shares among processes on Linux. Of a mixture Linux has all: to it the words of the
//! program are private ones, and who wakes them here wakes them there, too.

use crate::base::user;
use crate::base::{heap, lists};
use crate::calls::delegated;
use crate::parts::futexes::Futexes;
use crate::process::Process;
use crate::process::futex::{self, Sleeper, Word};
use crate::process::thread::{self, Thread};
use crate::process::until::Until;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::futex::MATCH_ANY;
use hanare_core::syscalls::{Restart, Row};
use hanare_core::time::Clock;
use hanare_hal::usercopy::{self, UserAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MOST: u64 = 128;
const SIZE_32: u32 = 2;
const PRIVATE: u32 = 128;

/// `struct futex_waitv`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Waiter {
    value: u64,
    addr: u64,
    flags: u32,
    reserved: u32,
}

impl Waiter {
    fn key(&self) -> u64 {
        Word::new(self.addr, self.flags & PRIVATE == 0).key()
    }
}

/// futex_waitv(2): the index of a word that was woken.
pub fn futex_waitv(row: &Row, a: &[u64; 6]) -> Result<u64> {
    let (count, flags) = (a[1] as u32, a[2] as u32);
    if flags != 0 || count == 0 || u64::from(count) > MOST || a[0] == 0 {
        return Err(errno::EINVAL);
    }
    let until = timeout(a[3], a[4] as i32)?;
    let words = words(a[0], count as usize)?;
    let p = &thread::current().process;
    let is_linux = |w: &Waiter| w.flags & PRIVATE == 0 && futex::is_linux(p, w.addr);
    let on_linux = lists::collected(words.iter().map(is_linux))?;
    if on_linux.iter().all(|&l| l) {
        return delegated::forward(row, *a);
    }
    heap::room(words.len() * Futexes::<Thread>::ENTRY_BYTES)?;
    let mixed = on_linux.contains(&true);
    let thread = thread::current();
    thread.futex_woken.store(false, Ordering::Relaxed);
    let local = || words.iter().enumerate().filter(|&(i, _)| !on_linux[i]);
    for (i, w) in local() {
        if let Err(e) = queue(p, i, w, mixed) {
            // Something may have been woken meanwhile, which counts.
            return give_up(p, local().filter(|&(j, _)| j < i)).ok_or(e);
        }
    }
    if mixed {
        return wait_on_linux(row, a, &words, &on_linux);
    }
    futex::wait_until(thread, until);
    match give_up(p, local()) {
        Some(index) => Ok(index),
        None => futex::interrupted(thread, until, Restart::Sys),
    }
}

/// The timeout, a time of one of two clocks.
fn timeout(pointer: u64, clock: i32) -> Result<Until> {
    if pointer == 0 {
        return Ok(Until::NEVER);
    }
    let clock = Clock::from_id(clock)
        .filter(|c| matches!(c, Clock::Realtime | Clock::Monotonic))
        .ok_or(errno::EINVAL)?;
    let ns = futex::read_timespec(pointer)?;
    Ok(Until::at(&thread::current().process, clock, ns))
}

fn words(addr: u64, count: usize) -> Result<Vec<Waiter>> {
    let mut words = lists::filled(count, Waiter::default())?;
    user::read(UserAddr::of(addr), words.as_mut_bytes())?;
    if words.iter().any(|w| w.flags & !PRIVATE != SIZE_32 || w.reserved != 0) {
        return Err(errno::EINVAL);
    }
    if words.iter().any(|w| w.addr % 4 != 0) {
        return Err(errno::EINVAL);
    }
    Ok(words)
}

/// Waits on one word if it has the value wanted.
fn queue(p: &Process, index: usize, w: &Waiter, mixed: bool) -> Result<()> {
    futex::with_queues(p, w.addr, |queues| {
        let same = usercopy::read_u32(UserAddr::of(w.addr))? == w.value as u32;
        if same {
            let sleeper = Sleeper::one_of(index, mixed.then_some(w.addr));
            return Ok(queues.push(w.key(), sleeper, MATCH_ANY));
        }
        Ok(Err(errno::EAGAIN))
    })?
}

/// Waits no more on `words`, which were queued; the last of those that were woken.
fn give_up<'a>(p: &Process, words: impl Iterator<Item = (usize, &'a Waiter)>) -> Option<u64> {
    let mut queues = p.futexes.lock();
    let mut woken = None;
    for (i, w) in words {
        if !queues.remove(w.key(), &Sleeper::one_of(i, None)) {
            woken = Some(i as u64);
        }
    }
    woken
}

/// The rest of a wait on words of both kinds.
fn wait_on_linux(row: &Row, a: &[u64; 6], words: &[Waiter], on_linux: &[bool]) -> Result<u64> {
    let thread = thread::current();
    let p = &thread.process;
    let kinds = || on_linux.iter().copied();
    let told = words
        .iter()
        .zip(kinds())
        .map(|(w, linux)| Waiter { flags: if linux { w.flags } else { w.flags | PRIVATE }, ..*w });
    let scratch =
        lists::collected(told).and_then(|told| p.write_scratch(thread.slot_index, told.as_bytes()));
    let result =
        scratch.and_then(|scratch| delegated::forward(row, [scratch, a[1], a[2], a[3], a[4], 0]));
    let local = words.iter().enumerate().zip(kinds()).filter(|(_, linux)| !linux).map(|(w, _)| w);
    match give_up(p, local) {
        Some(index) if result.is_err() => {
            thread.signals.lock().clear_interrupted();
            Ok(index)
        }
        _ => result,
    }
}
