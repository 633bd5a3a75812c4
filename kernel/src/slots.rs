//! Slots of a process and the workers behind them.
//!
//! The worker of a thread that ended ends too, so that its thread id is gone, and leaves a
//! new one behind (`OP_THREAD_RENEW`), or two where none waits yet, for the next threads:
//! making one waits for Linux only where none is there yet. What Linux keeps for each thread (credentials,
//! capabilities, namespaces, priorities …) a new thread has from its creator; so a
//! worker is taken over only by a thread whose creator has the same *attributes*: a
//! number that a thread gets anew whenever it changes such a thing, and passes on to
//! the threads it makes; a worker has from the one before it what a thread has from its
//! creator. Slot 0 is the worker with the process' own id: it serves the
//! first thread, and after an execve the thread that called it.

use crate::process::Process;
use crate::thread::Thread;
use crate::{cpus, delegate};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::slot::{OP_NOP, OP_SUCCEED, OP_THREAD, OP_THREAD_EXIT, OP_THREAD_RENEW, RESULT_NOT_STARTED};
use hanare_core::errno::{self, Errno, Result};
use hanare_hal::cpu;
use hanare_ikc::SlotRef;

static NEXT_ATTRIBUTES: AtomicU64 = AtomicU64::new(1);

/// Workers that wait for threads, at most; those of further threads leave none behind.
const SPARES_MAX: usize = 16;
/// Ids of ended threads that are remembered.
const GONE_MAX: usize = 64;
const TGKILL: u32 = 234;

/// A worker without a thread; it may be on its way (see [`settle`]).
struct Spare {
    index: u32,
    slot: SlotRef<'static>,
    attributes: u64,
    name: Option<[u8; 16]>,
}

/// Slots of a process.
pub struct Slots {
    /// All that were ever taken for it.
    taken: Vec<u32>,
    spare: Vec<Spare>,
    /// Without a worker.
    dropped: Vec<u32>,
    /// Their workers were told to end.
    ending: Vec<(u32, SlotRef<'static>)>,
    /// The first thread has ended: its worker is free.
    leader_free: bool,
    /// Ids of threads that ended last, whose workers may not have ended yet.
    gone: VecDeque<u32>,
}

/// A slot with its worker, for a new thread.
pub struct Taken {
    /// Index.
    pub index: u32,
    /// The slot.
    pub slot: SlotRef<'static>,
    /// What the worker's thread has to be called.
    pub name: Option<[u8; 16]>,
}

impl Slots {
    /// Of a new process: the first thread's.
    pub fn first(slot: u32) -> Slots {
        Slots { taken: vec![slot], spare: Vec::new(), dropped: Vec::new(), ending: Vec::new(), leader_free: false, gone: VecDeque::new() }
    }

    /// All of them, which the process does not need any more.
    pub fn all(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.taken)
    }

    /// A worker that fits, if possible one that is there, else the one that comes first.
    fn take_spare(&mut self, attributes: u64) -> Option<Spare> {
        let fits = |s: &Spare| s.attributes == attributes;
        let there = |s: &Spare| fits(s) && (s.slot.is_idle() || s.slot.lwk_poll().is_some());
        let i = self.spare.iter().position(there).or_else(|| self.spare.iter().position(fits))?;
        Some(self.spare.remove(i))
    }

    /// The thread `tid` has ended.
    fn forget(&mut self, tid: u32) {
        if self.gone.len() == GONE_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back(tid);
    }

    /// A slot without a worker.
    fn take_empty(&mut self, p: &Process) -> Option<u32> {
        if let Some(at) = self.ending.iter().position(|(_, slot)| slot.tid() == 0) {
            return Some(self.ending.swap_remove(at).0);
        }
        if let Some(i) = self.dropped.pop() {
            return Some(i);
        }
        p.take_slot().inspect(|&slot| self.taken.push(slot))
    }
}

/// The running thread changed something that Linux keeps for each thread.
pub fn attributes_changed(thread: &Thread) {
    thread.attributes.store(NEXT_ATTRIBUTES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
}

/// A slot and a worker for a thread that the running one makes. `own`: CLONE_FS and
/// CLONE_FILES, where the thread does not share that with its creator.
pub fn take(p: &Process, own: u64) -> Result<Taken> {
    let me = cpus::current();
    let attributes = me.attributes.load(Ordering::Relaxed);
    while own == 0 {
        let spare = p.slots.lock().take_spare(attributes);
        let Some(s) = spare else { break };
        settle(me, s.slot);
        if s.slot.tid() == 0 && !p.is_killed() {
            p.slots.lock().dropped.push(s.index); // Linux had no thread to give
            continue;
        }
        let wanted = *me.name.lock();
        let name = (wanted != s.name).then(|| wanted.unwrap_or_default());
        return Ok(Taken { index: s.index, slot: s.slot, name });
    }
    let _ = retire(p);
    let index = p.slots.lock().take_empty(p).ok_or(errno::EAGAIN)?;
    start_worker(p, index, own)
}

/// Whether the id is that of a thread that has ended and whose worker has not yet. After that
/// Linux may give it to anybody.
pub fn is_leaving(p: &Process, tid: u32) -> bool {
    if !p.slots.lock().gone.contains(&tid) {
        return false;
    }
    let pid = u64::from(p.identity.lock().pid);
    let is_there = delegate::linux(TGKILL, [pid, tid.into(), 0, 0, 0, 0]) != Err(errno::ESRCH);
    if !is_there {
        p.slots.lock().gone.retain(|&t| t != tid);
    }
    is_there
}

fn start_worker(p: &Process, index: u32, own: u64) -> Result<Taken> {
    let slot = p.slot(index).ok_or(errno::ENOMEM)?;
    slot.lwk_reset();
    slot.set_poll_us(delegate::worker_poll_us());
    let made = loop {
        match delegate::linux(OP_THREAD, [u64::from(index), own, 0, 0, 0, 0]) {
            Err(Errno(e)) if i64::from(-e) == RESULT_NOT_STARTED => {}
            other => break other,
        }
    };
    match made {
        Ok(_) => Ok(Taken { index, slot, name: None }),
        Err(e) => {
            p.slots.lock().dropped.push(index);
            Err(e)
        }
    }
}

/// Sends the worker of one spare slot away: its attributes are nobody's any more. Gives
/// its thread id.
fn retire(p: &Process) -> Option<u32> {
    let s = p.slots.lock().spare.pop()?;
    settle(cpus::current(), s.slot);
    let tid = s.slot.tid();
    if tid != 0 && s.slot.lwk_post(OP_THREAD_EXIT, [0; 6]) {
        delegate::ring_worker(p, s.index);
    }
    p.slots.lock().ending.push((s.index, s.slot));
    Some(tid)
}

/// To Linux, workers without a thread are threads of the process all the same: where
/// their number matters they are sent away, and they and those of threads that ended a
/// short while ago are waited for. Whether there were any.
pub fn dismiss(p: &Process) -> bool {
    const SCHED_YIELD: u32 = 24;
    const PATIENCE_NS: u64 = 1_000_000_000;
    let me = cpus::current();
    let mut leaving: Vec<u32> = core::iter::from_fn(|| retire(p)).collect();
    let any = !leaving.is_empty();
    leaving.extend(p.slots.lock().gone.iter());
    let pid = u64::from(p.identity.lock().pid);
    let deadline = cpus::deadline(PATIENCE_NS);
    // An id may have been given to a thread that lives.
    leaving.retain(|&tid| tid != 0 && p.threads().iter().all(|t| t.slot.tid() != tid));
    for tid in leaving {
        while delegate::linux(TGKILL, [pid, tid.into(), 0, 0, 0, 0]).is_ok() && cpu::rdtsc() < deadline && !me.must_end() {
            let _ = delegate::linux(SCHED_YIELD, [0; 6]); // the one that ends may need our worker's CPU
        }
    }
    any
}

/// The thread of a slot has ended: its worker, with all signals blocked, ends too,
/// leaving one behind for the next thread unless there are enough or the program is
/// replaced. The first worker stays. The answer to the call is not awaited here.
pub fn give(p: &Process, thread: &Thread) {
    let (index, slot) = (thread.slot_index, thread.slot);
    let (attributes, name) = (thread.attributes.load(Ordering::Relaxed), *thread.name.lock());
    slot.set_sigmask(u64::MAX);
    slot.set_robust_list(0); // it was walked, and its memory may go
    let second = if thread.dying.load(Ordering::Relaxed) { None } else { second_spare(p, index) };
    let asleep = {
        // Posted under the lock: who takes the spare worker waits for the answer.
        let mut s = p.slots.lock();
        if index == p.first_slot {
            s.leader_free = true;
            slot.lwk_post(OP_NOP, [0; 6])
        } else {
            s.forget(slot.tid());
            if thread.dying.load(Ordering::Relaxed) || s.spare.len() >= SPARES_MAX {
                s.ending.push((index, slot));
                s.dropped.extend(second.map(|(index, _)| index));
                slot.lwk_post(OP_THREAD_EXIT, [0; 6])
            } else {
                s.spare.push(Spare { index, slot, attributes, name });
                let other = second.map_or(0, |(index, _)| u64::from(index));
                s.spare.extend(second.map(|(index, slot)| Spare { index, slot, attributes, name }));
                slot.lwk_post(OP_THREAD_RENEW, [other, 0, 0, 0, 0, 0])
            }
        }
    };
    if asleep {
        delegate::ring_worker(p, index);
    }
}

/// A slot for a second waiting worker, where the one of thread `index` would be the only
/// one: a program that makes a thread when the last one has ended need not wait for
/// Linux then. A request is there, to which the worker's coming is the answer.
fn second_spare(p: &Process, index: u32) -> Option<(u32, SlotRef<'static>)> {
    let empty = {
        let mut s = p.slots.lock();
        if index != p.first_slot && s.spare.is_empty() { s.take_empty(p) } else { None }
    }?;
    let Some(slot) = p.slot(empty) else {
        p.slots.lock().dropped.push(empty);
        return None;
    };
    slot.lwk_reset();
    slot.set_poll_us(delegate::worker_poll_us());
    slot.set_sigmask(u64::MAX);
    slot.set_robust_list(0);
    let _ = slot.lwk_post(OP_NOP, [0; 6]);
    Some((empty, slot))
}

/// A worker that got no thread after all.
pub fn return_taken(p: &Process, taken: &Taken, creator: &Thread) {
    let attributes = creator.attributes.load(Ordering::Relaxed);
    p.slots.lock().spare.push(Spare { index: taken.index, slot: taken.slot, attributes, name: None });
}

/// The first slot, for the running thread, which has replaced the program while the
/// first thread has ended. The worker there becomes to Linux what its own one is. False: it
/// cannot, so that rights, namespaces or descriptors would change; or the process is killed.
pub fn take_first(p: &Process, slot: SlotRef<'static>) -> bool {
    let me = cpus::current();
    while !core::mem::take(&mut p.slots.lock().leader_free) && !p.is_killed() {
        cpus::yield_now(); // its thread is about to give it away
    }
    settle(me, slot);
    if slot.lwk_post(OP_SUCCEED, [me.slot.tid().into(), 0, 0, 0, 0, 0]) {
        delegate::ring_worker(p, p.first_slot);
    }
    if settle(me, slot) == Some(0) && !p.is_killed() {
        return true;
    }
    p.slots.lock().leader_free = true;
    false
}

/// Waits for the answer to the call that [`give`] left behind, if there is one.
fn settle(thread: &Thread, slot: SlotRef<'static>) -> Option<i64> {
    struct Settled<'a>(&'a Thread, SlotRef<'static>, Cell<Option<i64>>);
    impl cpus::Wait for Settled<'_> {
        fn ready(&self) -> bool {
            if self.2.get().is_none() {
                self.2.set(self.1.lwk_poll());
            }
            self.2.get().is_some() || self.1.is_idle() || self.0.process.is_killed()
        }
        fn announce(&self, asleep: bool) {
            if asleep {
                self.1.set_cpu(hanare_hal::percpu::index() as u32);
                let _ = self.1.lwk_prepare_sleep();
            } else {
                self.1.lwk_awake();
            }
        }
    }
    if slot.is_idle() {
        return None;
    }
    let settled = Settled(thread, slot, Cell::new(None));
    cpus::wait(&settled, 1);
    settled.2.get()
}
