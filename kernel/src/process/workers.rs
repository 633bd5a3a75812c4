//! The workers behind the slots of a process.
//!
//! The worker of a thread that ended ends too, so that its thread id is gone. It leaves a new one
//! behind (`Control::ThreadRenew`) for the next thread, or two where none waits yet. So making a
//! thread waits for Linux only where no worker is there yet.
//!
//! What Linux keeps for each thread (credentials, capabilities, namespaces, priorities …) a new
//! thread has from its creator, and a worker from the worker before it. A thread's *attributes* are
//! a number that stands for all that. A thread gets a new number whenever it changes such a thing,
//! and passes it on to the threads it makes. A worker is taken over only by a thread whose creator
//! has the same attributes. Slot 0 is the worker with the process' own id: it serves the first
//! thread, and after an execve the thread that called it.
//!
//! Attributes are also rights, and a program that can have Linux write to a slot can have the
//! worker behind it do something. So no worker without a thread keeps attributes that no living
//! thread has (`shed`). When a thread changes its own, or ends, such workers are sent away and
//! waited for. The first worker, whose id is the process', becomes like one that lives.

use crate::link::{bells, delegate, direct};
use crate::process::Process;
use crate::process::leaving::{self, PATIENCE_NS};
use crate::process::servers;
use crate::process::slots::{Spare, Taken};
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::sched::{cpus, hold};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::control::Control;
use hanare_core::errno::{self, Errno, Result};
use hanare_hal::{cpu, shared};
use hanare_ikc::{Answer, BellRef, SlotRef};
use linux_raw_sys::general::{__NR_prctl, __NR_sched_yield, __NR_tgkill};

static NEXT_ATTRIBUTES: AtomicU64 = AtomicU64::new(1);

/// How long the only thread of a process waits for workers without a thread, ns.
const PATIENCE_ALONE_NS: u64 = 60_000_000_000;
/// Workers that wait for threads, at most; those of further threads leave none behind.
const SPARES_MAX: usize = 16;

/// The running thread changed something that Linux keeps for each thread. Servers end that are like
/// no thread.
pub fn attributes_changed(thread: &Thread) {
    attributes_changed_of(thread, thread);
}

/// Like [`attributes_changed`], of a thread of the running one's process.
pub fn attributes_changed_of(me: &Thread, thread: &Thread) {
    attributes_differ(thread);
    shed_servers(me);
}

/// Gives the thread attributes that no other thread has: Linux keeps something of its own for it.
pub fn attributes_differ(thread: &Thread) {
    thread.process.attributes_vary.store(true, Ordering::Relaxed);
    thread.attributes.store(NEXT_ATTRIBUTES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
}

/// The running thread changed its rights. When this returns no worker without a thread has
/// rights that no thread of the process has.
pub fn rights_changed(thread: &Thread) {
    attributes_differ(thread);
    // Servers have the rights from before. The program's calls do not go by the box any more.
    thread.process.pool.close();
    servers::end_all(thread);
    shed(thread);
}

/// The running thread is about to end, others stay, and have or have not its rights.
pub fn rights_end(thread: &Thread) {
    if thread.process.attributes_vary.load(Ordering::Relaxed) {
        shed_servers(thread);
        shed(thread);
    }
}

/// Ends servers whose attributes no thread has: no call may use them, they cannot take on others,
/// and they keep descriptors open.
fn shed_servers(me: &Thread) {
    let p = &me.process;
    let attributes = p.pool.attributes.load(Ordering::SeqCst);
    let is_like =
        |t: &Arc<Thread>| !t.exits() && t.attributes.load(Ordering::Relaxed) == attributes;
    if p.pool.servers() != 0 && !p.with_threads(|all| all.iter().any(is_like)) {
        servers::end_all(me);
    }
}

/// Waits until threads of the running process that have called exit(2) have given their workers
/// away: then Linux can be asked about those. Not for ever, since one may wait for a page of its
/// memory. A thread that has joined one takes it for gone; so has Linux, nearly.
pub fn await_exits(me: &Thread) {
    let deadline = cpus::deadline(PATIENCE_NS);
    while me.process.is_being_left() && !me.must_end() && cpu::rdtsc() < deadline {
        let _ = delegate::linux(me, __NR_sched_yield, [0; 6]); // the one that ends may need our worker's CPU
        cpus::yield_now();
    }
}

/// The number of the bell of a slot that is, or was, used.
fn bell_number(p: &Process, index: u32) -> u32 {
    p.memory().bell(index).expect("of a slot that was used")
}

/// The bell with that number.
fn bell_of(p: &Process, index: u32) -> BellRef<'static> {
    shared::bell(bell_number(p, index))
}

fn has(threads: &[Arc<Thread>], attributes: u64) -> bool {
    threads.iter().any(|t| t.attributes.load(Ordering::Relaxed) == attributes)
}

/// Sends away workers without a thread whose attributes no living thread has, and waits for
/// their end; the first worker takes over those of a thread that lives.
#[expect(
    clippy::disallowed_methods,
    reason = "a thread that gives rights up is not refused: short lists, if need be of the reserve"
)]
fn shed(me: &Thread) {
    let p = &me.process;
    let alive: Vec<_> = p.threads().filter(|t| !t.exits()).collect();
    let unheld = |attributes: u64| !has(&alive, attributes);
    let (spares, leader) = {
        let mut s = p.slots.lock();
        let spares: Vec<Spare> = s.spare.extract_if(.., |s| unheld(s.attributes)).collect();
        (spares, s.leader.take_if(|attributes| unheld(*attributes)))
    };
    let leaving = spares.into_iter().map(|s| send_away(me, s)).collect();
    // The thread that ends is the first one: its worker is not free yet, and does it itself.
    let is_leader = me.port.slot_index == p.first_slot
        && me.exits()
        && unheld(me.attributes.load(Ordering::Relaxed));
    if is_leader {
        let like = alive
            .iter()
            .find(|t| delegate::ask(me, Control::Succeed { tid: t.tid() }).result().is_ok());
        if let Some(like) = like {
            me.attributes.store(like.attributes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    } else if leader.is_some() {
        follow(me, &alive);
    }
    await_end(me, leaving, None);
}

/// The first worker, which no thread has now, becomes like a thread that lives, or ends.
fn follow(me: &Thread, alive: &[Arc<Thread>]) {
    let p = &me.process;
    let Some(slot) = p.memory().slot(p.first_slot) else { return };
    settle(me, p.first_slot, slot);
    for like in alive {
        let succeed = Control::Succeed { tid: like.tid() };
        direct::ask_worker(p.memory().id, p.first_slot, slot, succeed);
        if settle(me, p.first_slot, slot) == Some(Answer::Done(0)) {
            p.slots.lock().leader = Some(like.attributes.load(Ordering::Relaxed));
            return;
        }
    }
    direct::ask_worker(p.memory().id, p.first_slot, slot, Control::ThreadExit);
    p.slots.lock().leader_gone = true;
    // Not by its id: of a zombie Linux says that it is there.
    while slot.has_worker() && !me.must_end() {
        let _ = delegate::linux(me, __NR_sched_yield, [0; 6]);
        cpus::yield_now();
    }
}

/// Whether the first thread has ended, and its worker too: execve of another one is Linux'.
pub fn is_leader_gone(p: &Process) -> bool {
    p.slots.lock().leader_gone
}

/// A slot and a worker for a thread that the running one makes. `own`: CLONE_FS and
/// CLONE_FILES, where the thread does not share that with its creator.
pub fn take(me: &Thread, own: u64) -> Result<Taken> {
    let p = &me.process;
    let attributes = me.attributes.load(Ordering::Relaxed);
    loop {
        // A lock taken in the condition would be held in the loop.
        let spare = if own == 0 { p.slots.lock().take_spare(attributes) } else { None };
        let Some(s) = spare else { break };
        settle(me, s.index, s.slot);
        let Some(tid) = id_of(p, s.bell) else {
            // Linux had no thread to give, or the process is killed.
            drop_slot(p, s.index, s.slot);
            if p.is_killed() {
                return Err(errno::EAGAIN);
            }
            continue;
        };
        let wanted = *me.name.lock();
        if wanted != s.name {
            name(me, &s, &wanted.unwrap_or_default());
        }
        return Ok(Taken { index: s.index, slot: s.slot, tid });
    }
    let retired = retire(me);
    retired.iter().filter(|&&tid| tid != 0).for_each(|&tid| p.slots.lock().forget(tid));
    let start = || {
        let index = p.slots.lock().take_empty(p.memory()).ok_or(errno::EAGAIN)?;
        start_worker(me, index, own)
    };
    match start() {
        Err(errno::EAGAIN) => {
            let deadline = Some(cpus::deadline(PATIENCE_NS));
            let has_room = retired.is_some_and(|tid| leaving::wait(me, tid, deadline));
            if dismiss(me) || has_room { start() } else { Err(errno::EAGAIN) }
        }
        taken => taken,
    }
}

/// PR_SET_NAME of a worker that served another thread before. The new thread does not do this
/// itself: its maker may give it another name at once.
fn name(me: &Thread, s: &Spare, name: &[u8; 16]) {
    let p = &me.process;
    const SET_NAME: u64 = 15;
    let Ok(at) = p.memory().write_scratch(s.index, name) else { return };
    if s.slot.lwk_post(__NR_prctl, [SET_NAME, at, 0, 0, 0, 0]) {
        direct::ring_worker(p.memory().id, s.index, &s.slot);
    }
    settle(me, s.index, s.slot);
}

/// Whether the id is that of a thread that has ended and whose worker has not yet. After that Linux
/// may give the id to any thread.
fn is_leaving(me: &Thread, p: &Process, tid: u32) -> bool {
    let is_known = p.slots.lock().gone.contains(&tid);
    let pid = u64::from(p.pid());
    // Another process may ask, whose proxy may lie: the answer is for that one and changes nothing
    // here.
    is_known && delegate::linux(me, __NR_tgkill, [pid, tid.into(), 0, 0, 0, 0]) != Err(errno::ESRCH)
}

/// The id of the worker of a slot, given its bell, if the module knows it as one of the process'.
fn id_of(p: &Process, bell: BellRef<'static>) -> Option<u32> {
    bell.worker(p.memory().id, p.first_slot)
}

/// The slot has no worker for a thread: none came, or the module knows none. A thread of Linux'
/// that serves the slot all the same is told to end, before another one may come.
fn drop_slot(p: &Process, index: u32, slot: SlotRef<'static>) {
    if !slot.has_worker() || p.is_killed() {
        return p.slots.lock().add_dropped(index);
    }
    direct::ask_worker(p.memory().id, index, slot, Control::ThreadExit);
    p.slots.lock().add_ending(index, slot);
}

fn start_worker(me: &Thread, index: u32, own: u64) -> Result<Taken> {
    let p = &me.process;
    let slot = p.memory().slot(index).ok_or(errno::ENOMEM)?;
    let bell = bell_of(p, index);
    bell.forget_worker();
    slot.lwk_reset();
    slot.set_poll_us(direct::worker_poll_us());
    let made = delegate::result_of(me, Control::Thread { slot: index, own })
        .and_then(|_| id_of(p, bell).ok_or(errno::EAGAIN));
    match made {
        Ok(tid) => Ok(Taken { index, slot, tid }),
        Err(e) => {
            drop_slot(p, index, slot);
            Err(e)
        }
    }
}

/// Sends the worker of one spare slot away: no thread has its attributes any more. Gives its thread
/// id.
fn retire(me: &Thread) -> Option<u32> {
    let s = me.process.slots.lock().spare.pop()?;
    Some(send_away(me, s))
}

/// Sends a spare worker away, whose thread id it gives.
fn send_away(me: &Thread, s: Spare) -> u32 {
    let p = &me.process;
    settle(me, s.index, s.slot);
    let tid = id_of(p, s.bell).unwrap_or(0);
    if s.slot.has_worker() {
        direct::ask_worker(p.memory().id, s.index, s.slot, Control::ThreadExit);
    }
    p.slots.lock().add_ending(s.index, s.slot);
    tid
}

/// To Linux, workers without a thread are threads of the process all the same: where
/// their number matters they are sent away, and they and those of threads that ended a
/// short while ago are waited for. Whether there were any.
#[expect(
    clippy::disallowed_methods,
    reason = "no more than SPARES_MAX and GONE_MAX ids, if need be of the reserve"
)]
pub fn dismiss(me: &Thread) -> bool {
    let p = &me.process;
    await_exits(me);
    let mut leaving: Vec<u32> = core::iter::from_fn(|| retire(me)).collect();
    let any = servers::end_all(me) | !leaving.is_empty();
    leaving.extend(p.slots.lock().gone.iter());
    // Where a thread is alone none of them can be in a call of another one: only a CPU that stands
    // still makes them late.
    let patience = if p.thread_count() == 1 { PATIENCE_ALONE_NS } else { PATIENCE_NS };
    await_end(me, leaving, Some(cpus::deadline(patience)));
    leaving::until_uncounted(me);
    any
}

/// Has the proxy make another process, whose id on Linux this gives. There may be no more processes
/// and threads (RLIMIT_NPROC, a cgroup's limit): then workers without a thread go first.
pub fn make_process(me: &Thread, request: Control) -> Result<u64> {
    loop {
        let outcome = delegate::ask(me, request);
        if !(outcome.is_refused(errno::EAGAIN) && dismiss(me)) {
            return outcome.result().map_err(Errno::from);
        }
    }
}

/// Waits until Linux has no task of the process with these ids, at most until a deadline. Those
/// that have ended are asked for no more.
fn await_end(me: &Thread, leaving: Vec<u32>, deadline: Option<u64>) {
    for tid in leaving {
        if leaving::wait(me, tid, deadline) {
            me.process.slots.lock().gone.retain(|&gone| gone != tid);
        }
    }
}

/// Takes a thread that ends from the process' list, as [`Process::begin_leaving`] says. At each
/// moment its id is in that list or remembered ([`had_thread`]).
pub fn begin_leaving(p: &Process, thread: &Thread) -> (bool, bool) {
    let mut slots = p.slots.lock();
    if thread.port.slot_index != p.first_slot {
        slots.forget(thread.tid());
    }
    p.begin_leaving(thread)
}

/// The thread of a slot has ended: its worker, with all signals blocked, ends too. It leaves one
/// behind for the next thread unless there are enough or the program is replaced (`dismissed`). The
/// first worker stays, unless a thread waits for its end. The answer to the call is not awaited
/// here.
pub fn give(p: &Process, thread: &Thread, dismissed: bool) {
    let (index, slot, bell) =
        (thread.port.slot_index, thread.port.slot, bell_of(p, thread.port.slot_index));
    let (attributes, name) = (thread.attributes.load(Ordering::Relaxed), *thread.name.lock());
    slot.set_sigmask(u64::MAX);
    slot.set_robust_list(0); // it was walked, and its memory may go
    // A worker for the next thread, which has its creator's attributes. One that exits makes none,
    // and has looked for such workers already (`rights_end`).
    let has_same =
        |t: Arc<Thread>| !t.exits() && t.attributes.load(Ordering::Relaxed) == attributes;
    let is_useful = || !p.attributes_vary.load(Ordering::Relaxed) || p.threads().any(has_same);
    let second = if dismissed || !is_useful() { None } else { second_spare(p, index) };
    hold::at("slot-given");
    let asleep = {
        // Posted under the lock: a thread that takes the spare worker waits for the answer.
        let mut s = p.slots.lock();
        // Under it, too: a thread that has changed its rights looks for such workers afterwards.
        let useful = is_useful();
        let has_waiters = thread.has_waiters_on_linux.load(Ordering::Relaxed);
        if index == p.first_slot && !dismissed && (!useful || has_waiters) {
            s.leader_gone = true;
            slot.lwk_ask(Control::ThreadExit)
        } else if index == p.first_slot {
            s.leader = Some(attributes);
            slot.lwk_ask(Control::TakeMask)
        } else {
            bell.forget_worker();
            if dismissed || !useful || s.spare.len() >= SPARES_MAX {
                s.add_ending(index, slot);
                second.into_iter().for_each(|(index, ..)| s.add_dropped(index));
                slot.lwk_ask(Control::ThreadExit)
            } else {
                s.add_spare(Spare { index, slot, bell, attributes, name });
                let other = second.map_or(0, |(index, ..)| index);
                second.into_iter().for_each(|(index, slot, bell)| {
                    s.add_spare(Spare { index, slot, bell, attributes, name });
                });
                slot.lwk_ask(Control::ThreadRenew { other })
            }
        }
    };
    if asleep {
        direct::ring_worker(p.memory().id, index, &slot);
    }
}

/// A slot for a second waiting worker, where the one of thread `index` would be the only
/// one: a program that makes a thread when the last one has ended need not wait for
/// Linux then. A request is there, to which the worker's coming is the answer.
fn second_spare(p: &Process, index: u32) -> Option<(u32, SlotRef<'static>, BellRef<'static>)> {
    let empty = {
        let mut s = p.slots.lock();
        if index != p.first_slot && s.spare.is_empty() { s.take_empty(p.memory()) } else { None }
    }?;
    let Some(slot) = p.memory().slot(empty) else {
        p.slots.lock().add_dropped(empty);
        return None;
    };
    let bell = bell_of(p, empty);
    bell.forget_worker();
    slot.lwk_reset();
    slot.set_poll_us(direct::worker_poll_us());
    slot.set_sigmask(u64::MAX);
    slot.set_robust_list(0);
    let _ = slot.lwk_ask(Control::TakeMask);
    Some((empty, slot, bell))
}

/// A worker that got no thread after all.
pub fn return_taken(p: &Process, taken: &Taken, creator: &Thread) {
    let attributes = creator.attributes.load(Ordering::Relaxed);
    p.slots.lock().add_spare(Spare {
        index: taken.index,
        slot: taken.slot,
        bell: bell_of(p, taken.index),
        attributes,
        name: *creator.name.lock(),
    });
}

/// The first slot, for the running thread, which has replaced the program while the
/// first thread has ended. The worker there becomes to Linux what its own one is. False: it
/// cannot, so that rights, namespaces or descriptors would change; or the process is killed.
pub fn take_first(me: &Thread, slot: SlotRef<'static>) -> bool {
    let p = &me.process;
    let attributes = loop {
        let mut s = p.slots.lock();
        if s.leader_gone || p.is_killed() {
            return false;
        }
        if let Some(attributes) = s.leader.take() {
            break attributes;
        }
        drop(s);
        cpus::yield_now(); // its thread is about to give it away
    };
    settle(me, p.first_slot, slot);
    direct::ask_worker(p.memory().id, p.first_slot, slot, Control::Succeed { tid: me.tid() });
    if settle(me, p.first_slot, slot) == Some(Answer::Done(0)) && !p.is_killed() {
        return true;
    }
    p.slots.lock().leader = Some(attributes);
    false
}

/// Waits for the answer to the call that [`give`] left behind, if there is one.
fn settle(thread: &Thread, index: u32, slot: SlotRef<'static>) -> Option<Answer> {
    struct Settled<'a>(&'a Thread, SlotRef<'static>, Cell<Option<Answer>>, u32);
    impl cpus::Wait for Settled<'_> {
        fn ready(&self) -> bool {
            if self.2.get().is_none() {
                self.2.set(self.1.lwk_poll());
            }
            self.2.get().is_some() || self.1.is_idle() || self.0.process.is_killed()
        }
        fn announce(&self, asleep: bool) {
            if asleep {
                bells::expect_ring(self.0.process.memory().id, &self.1, self.3);
            } else {
                self.1.lwk_awake();
            }
        }
    }
    if slot.is_idle() {
        return None;
    }
    let bell = bell_number(&thread.process, index);
    let mut settled = Settled(thread, slot, Cell::new(None), bell);
    cpus::wait(&mut settled, 1);
    settled.2.get()
}

/// Whether `tid` was a thread of the process and is none any more, though its worker may still be
/// there on Linux.
pub fn had_thread(me: &Thread, p: &Process, tid: u32) -> bool {
    let lives = |t: &Arc<Thread>| t.tid() == tid && !t.exits();
    if tid == p.pid() || p.with_threads(|all| all.iter().any(lives)) {
        return false;
    }
    p.with_threads(|all| all.iter().any(|t| t.tid() == tid)) || is_leaving(me, p, tid)
}

/// Whether `tid` is that of a worker without a thread, which has ended.
pub fn is_worker(me: &Thread, tid: u32) -> bool {
    spaces::all().any(|space| space.processes().any(|p| had_thread(me, &p, tid) || p.pid() == tid))
}
