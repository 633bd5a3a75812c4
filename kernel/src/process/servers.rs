//! The servers of a process' request boxes (`route/boxed.rs`): threads of its proxy that execute
//! calls of any of its threads.
//!
//! To Linux they are threads of the process like the workers behind slots (`workers`). A server has
//! what Linux keeps for each thread from the worker that made it. So it executes calls of threads
//! with the same attributes only. It ends where a thread gives up rights, or where the number of
//! threads matters.

use crate::link::pool::{self, Place, Places, Pool};
use crate::link::{delegate, direct};
use crate::process::Process;
use crate::process::leaving::{self, PATIENCE_NS};
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_abi::requestbox::{ALL_SERVERS, BOX_SERVERS};
use hanare_core::link::Call;
use hanare_core::link::pool::{is_threads_own, names_thread};
use hanare_core::signal::{SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ, SigSet};
use hanare_core::syscalls::arguments::Argument;
use hanare_core::syscalls::{self, By};
use hanare_hal::usercopy::{self, UserAddr};
use hanare_ikc::SlotRef;
use zerocopy::IntoBytes;

/// Signals that a call may raise for the thread that executes it.
const RAISED: SigSet = SigSet::of(SIGPIPE).with(SIGXFSZ).with(SIGTTIN).with(SIGTTOU);
/// Bytes of a path that are looked at.
const LOOKED_AT: usize = 256;

/// Whether a server may execute a call of the running thread `me`. To Linux the thread must be as
/// when servers were made. Its worker knows its mask, so that it takes its signals, and no other
/// process has the memory.
pub fn may_execute(me: &Thread, by: By, call: &Call) -> bool {
    me.signals.is_told()
        && me.port.slot.robust_list() == me.robust_list.load(Ordering::Relaxed)
        && me.seccomp.mode() == 0
        && !me.process.memory().is_shared()
        // As its worker has been told: the proxy could have changed it, and hurts its own process.
        && (by == By::Any || SigSet(me.port.slot.sigmask()).intersection(RAISED).is_empty())
        && !names_own(me, call)
}

/// Whether servers have what Linux keeps for the running thread.
pub fn are_like(me: &Thread) -> bool {
    me.attributes.load(Ordering::Relaxed) == me.process.pool.attributes.load(Ordering::SeqCst)
}

/// Whether a path of the call means something of the calling thread in /proc. What only the thread
/// itself may write is written by calls without a path: the process' go directly from then on.
fn names_own(me: &Thread, call: &Call) -> bool {
    let is_path = |argument: &Argument| matches!(argument, Argument::Text);
    syscalls::arguments(call.nr.into()).iter().zip(call.args).any(|(argument, at)| {
        let mut bytes = [0; LOOKED_AT];
        is_path(argument)
            && usercopy::read_string(UserAddr::of(at), &mut bytes)
                .is_ok_and(|path| path.is_none_or(|path| is_own(me, path)))
    })
}

/// Whether a path depends on the calling thread ([`names_own`]). One whose file only that thread
/// may write closes the boxes.
fn is_own(me: &Thread, path: &[u8]) -> bool {
    if is_threads_own(path) {
        close(&me.process);
        return true;
    }
    names_thread(path)
}

/// Has the running thread's worker start one more server of the box with this number. False: there
/// is none to be had.
pub fn add(me: &Thread, number: usize) -> bool {
    let (p, pool) = (&me.process, &me.process.pool);
    if !pool.make_boxes(|| p.memory().request_boxes()) {
        return false;
    }
    let cpus = &pool::options().server_cpus[number];
    let Some((number, index, slot)) = place(me, pool, number) else { return false };
    let has_cpus = !cpus.is_empty();
    // Not in the page of the running thread's slot, where arguments of its call may lie.
    if has_cpus && p.space.memory.write_scratch(index, cpus.words.as_bytes()).is_err() {
        return false;
    }
    slot.lwk_reset();
    slot.set_poll_us(direct::worker_poll_us());
    let request = Control::Server { slot: index, number: number as u32, has_cpus };
    let tid = delegate::result_of(me, request);
    let made = tid.is_ok();
    let mut places = pool.places.lock();
    places[number].is_used = made;
    if let Ok(tid) = tid {
        // The server before, whose thread may still be ending.
        match core::mem::replace(&mut places[number].tid, tid as u32) {
            0 => {}
            before => p.slots.lock().forget(before),
        }
        pool.enter(number, index);
    }
    drop(places);
    // A thread that closes the box ends the servers that there are by then.
    if made && pool.is_closed() {
        end_all(me);
        return false;
    }
    made
}

/// A number and a slot for one more server of a box: of one that has ended, or new ones.
fn place(me: &Thread, pool: &Pool, of_box: usize) -> Option<(usize, u32, SlotRef<'static>)> {
    let p = &me.process;
    let mut places = pool.places.lock();
    // Its thread may still be in its last call.
    let has_ended = |place: &Place| place.slot.is_none_or(|(_, slot)| !slot.has_worker());
    let have_ended = || places.iter().all(|place| !place.is_used && has_ended(place));
    if !(are_like(me) || have_ended() && pool.change(me.attributes.load(Ordering::Relaxed))) {
        return None;
    }
    let mut numbers = of_box * BOX_SERVERS..(of_box + 1) * BOX_SERVERS;
    let number = numbers.find(|&number| !places[number].is_used && has_ended(&places[number]))?;
    if places[number].slot.is_none() {
        let index = p.slots.lock().take_empty(p.memory())?;
        let Some(slot) = p.memory().slot(index) else {
            p.slots.lock().add_dropped(index);
            return None;
        };
        places[number].slot = Some((index, slot));
    }
    let (index, slot) = places[number].slot?;
    Some((number, index, slot))
}

/// Tells a server of the box with this number to end that sleeps, if there is one.
pub fn end_one(p: &Process, number: usize) {
    if let Some(number) = p.pool.take_idle(number) {
        let told = tell(p, &mut p.pool.places.lock()[number], number);
        told.into_iter().for_each(|told| ring(p, told));
    }
}

/// Tells all servers of the running process to end, which they do after the call that they are in.
/// Waits for them and for those told earlier: for those that execute calls of other threads not for
/// ever. Whether any has been told, or has ended.
pub fn end_all(me: &Thread) -> bool {
    let p = &me.process;
    if !p.pool.has_served() {
        return false;
    }
    let before = living(&p.pool.places.lock());
    let (any, tids) = tell_all(p);
    await_end(me, &tids);
    any || living(&p.pool.places.lock()) < before
}

/// Calls of the process do not go by the box any more. Servers end after the calls that they are
/// in, without being waited for.
pub fn close(p: &Process) {
    p.pool.close();
    if p.pool.has_served() {
        let _ = tell_all(p);
    }
}

/// A thread has ended: one that is left alone needs no servers where its calls go directly. They
/// end without being waited for. Servers of several threads stay, since there may soon be as many
/// threads again as they are for.
pub fn leave_alone(p: &Process) {
    if p.pool.servers() != 0 && !p.pool.is_open() && p.thread_count() == 1 {
        let _ = tell_all(p);
    }
}

/// How many servers there are, told to end or not.
fn living(places: &Places) -> usize {
    places.iter().filter(|place| place.slot.is_some_and(|(_, slot)| slot.has_worker())).count()
}

/// Tells all servers to end. Whether there were any to be told, and the ids of those that may live.
fn tell_all(p: &Process) -> (bool, [u32; ALL_SERVERS]) {
    let (tids, told): (_, [_; ALL_SERVERS]) = {
        let mut places = p.pool.places.lock();
        // A thread that says that it ends is a thread to Linux for a while yet.
        let tids = core::array::from_fn(|number| places[number].tid);
        (tids, core::array::from_fn(|number| tell(p, &mut places[number], number)))
    };
    let any = told.iter().any(Option::is_some);
    told.into_iter().flatten().for_each(|told| ring(p, told));
    if any {
        p.kick_all(); // calls in the box are their own workers' now
    }
    (any, tids)
}

/// Waits until servers with these ids have ended. Those that execute calls of other threads may not
/// end for a while: these threads have what the servers have.
fn await_end(me: &Thread, tids: &[u32]) {
    let p = &me.process;
    let attributes = p.pool.attributes.load(Ordering::Relaxed);
    let others = |t: &Arc<Thread>| {
        !core::ptr::eq(&**t, me) && t.attributes.load(Ordering::Relaxed) == attributes
    };
    let is_shared = p.with_threads(|all| all.iter().any(others));
    let deadline = is_shared.then(|| cpus::deadline(PATIENCE_NS));
    for (number, &tid) in tids.iter().enumerate() {
        // Linux may give the id to another thread one day.
        if leaving::wait(me, tid, deadline) && tid != 0 {
            let place = &mut p.pool.places.lock()[number];
            if !place.is_used && place.tid == tid {
                place.tid = 0;
            }
        }
    }
}

/// A server that has been told to end.
#[derive(Clone, Copy)]
struct Told {
    index: u32,
    slot: SlotRef<'static>,
}

/// Tells server `number` to end, if there is one at its place; it has to be rung.
fn tell(p: &Process, place: &mut Place, number: usize) -> Option<Told> {
    let (index, slot) = place.slot.filter(|_| place.is_used)?;
    place.is_used = false;
    p.pool.leave(number);
    let _ = slot.lwk_ask(Control::ThreadExit);
    Some(Told { index, slot })
}

/// Rings it: what it says of its sleep is in the box, not in its slot.
fn ring(p: &Process, told: Told) {
    direct::ring_worker(p.memory().id, told.index, &told.slot);
}
