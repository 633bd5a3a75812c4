//! Signals: what is pending, what Linux forwards, faults, and delivery.
//!
//! Linux keeps dispositions that need no handler (see `docs/architecture.md`);
//! here is what the application catches or dies of.

use crate::base::heap;
use crate::base::user::{self, UserAddr, put};
use crate::link::delegate;
use crate::mm::map::limits;
use crate::process::thread::Thread;
use crate::process::{Process, cputimers};
use crate::sched::cpus;
use crate::signal::pending;
use alloc::sync::Arc;
use hanare_abi::control::{Control, Mirror};
use hanare_abi::signal::stays_blocked;
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, QueuedSignal, SigInfo, SigSet};
use zerocopy::IntoBytes;

/// `REQUEST_SIGNAL`. `EAGAIN`: Linux is to find another thread that takes it.
pub fn from_linux(p: &Arc<Process>, signal: u32, slot: u32, info: &[u64; 16]) -> Result<()> {
    let mut info = SigInfo::from_words(info);
    cputimers::tell(p, &mut info);
    let thread = p.thread(slot);
    let directed = info.code == signal::SI_QUEUE
        && thread.as_ref().is_some_and(|t| t.signals.lock().directed.take(signal));
    let is_marked = pending::is_to_be_marked(p, &info) && p.signals.lock().directed.take(signal);
    let to_all = is_marked || cputimers::is_for_process(p, &info);
    let is_held = signal::is_valid(signal) && stays_blocked(signal, info.code);
    let holds = thread.as_ref().filter(|_| is_held);
    if let Some(thread) = holds {
        thread.signals.lock().worker_blocks(signal);
    }
    if !signal::is_valid(signal) || p.signals.lock().actions.ignores(signal) {
        if let Some(thread) = holds {
            cpus::kick(thread.task()); // by the time of the next one it may have a handler again
        }
        return Ok(());
    }
    if thread.as_ref().is_some_and(|t| t.ptrace.takes(QueuedSignal { signal, info })) {
        return Ok(());
    }
    // Sent to the process (SI_USER, SI_QUEUE, SI_KERNEL) or to this thread: they are
    // pending apart, as on Linux. A thread that has ended leaves it to the others.
    let room = limits::room_for_mappings(0);
    let for_thread = SigSet::of(signal::SIGPIPE).with(signal::SIGXFSZ).contains(signal);
    let to_process = is_for_process(info.code) && !for_thread && !directed
        || signal == signal::SIGCHLD
        || to_all;
    let taken =
        thread.as_ref().is_some_and(|t| t.signals.lock().take(signal, info, to_process, room));
    if !taken && !pending::never_blocked(p).contains(signal) {
        if is_marked {
            p.signals.lock().directed.sent(signal); // it comes again
        }
        return Err(errno::EAGAIN); // the others may be in calls of Linux', which only Linux interrupts
    }
    if !taken {
        heap::fallible(|| p.signals.lock().pending.add(signal, info, room));
        retarget(p);
    }
    if let Some(thread) = thread {
        cpus::kick(thread.task()); // also to give back what it blocks
    }
    Ok(())
}

/// Whether a signal with this `si_code` is one for a process (kill, sigqueue, the kernel), as far
/// as that tells.
fn is_for_process(code: i32) -> bool {
    matches!(code, signal::SI_USER | signal::SI_QUEUE | signal::SI_KERNEL)
}

/// A thread ends, and has its worker still: what it was to take for the process is the others'
/// business. They may be in calls of Linux', so that it goes there; where another one's execve
/// ends it, that one takes it.
pub fn leave(p: &Process, thread: &Thread) {
    {
        let mut s = thread.signals.lock();
        s.set(SigSet::ALL); // nothing more is left to it
        s.pending.clear(); // as on Linux; the first thread's worker may serve the next program
    }
    requeue(p, thread, SigSet::ALL);
    pending::give_back_blocked(thread);
    retarget(p);
}

/// Gives signals of `set` that the thread was to take for the process back to the process. Whether
/// there were any.
fn requeue(p: &Process, thread: &Thread, set: SigSet) -> bool {
    // One after the other: a thread's signals and its process' are not locked together.
    let next = || thread.signals.lock().give_up(set);
    let mut any = false;
    while let Some(queued) = next() {
        heap::fallible(|| p.signals.lock().pending.add(queued.signal, queued.info, true));
        any = true;
    }
    any
}

/// A thread blocks signals or has ended: what is pending for the process is another's business.
pub fn retarget(p: &Process) {
    let pending = p.signals.lock().pending.set();
    if pending.is_empty() {
        return;
    }
    let takes = |t: &Arc<Thread>| !pending.difference(t.signals.lock().mask).is_empty();
    // The one that is longest there, as Linux prefers the first.
    if let Some(thread) = p.threads().filter(takes).last() {
        cpus::kick(thread.task());
    }
}

/// kill, tkill, tgkill to oneself, where the signal would come right back: queued here, or dropped
/// if nothing comes of it. False: it is Linux' business (another target, blocked so that Linux
/// keeps it pending, or a default that Linux applies).
pub fn send_to_self(thread: &Thread, signal: u64, code: i32, own: bool) -> bool {
    if signal == 0
        || signal > 64
        || !own
        || thread.ptrace.is_on()
        || SigSet::UNBLOCKABLE.contains(signal as u32)
    {
        return false;
    }
    let signal = signal as u32;
    let pid = thread.process.pid();
    let uid = thread.ids.lock().uid;
    let action = thread.process.signals.lock().actions.get(signal);
    let mut s = thread.signals.lock();
    if s.mask.contains(signal) {
        return false;
    }
    let job_control = SigSet::STOP.with(signal::SIGCONT).contains(signal);
    match signal::mirror(signal, &action) {
        Mirror::Forward => {}
        // Nothing would happen.
        Mirror::Default | Mirror::Ignore => {
            return !job_control && !thread.process.observed.is_on();
        }
    }
    let mut info = SigInfo::user(signal, pid, uid);
    info.code = code;
    cpus::request_attention();
    heap::fallible(|| s.pending.queue(signal, info)).is_ok()
}

/// The mask is that which user mode will have: what it blocks goes elsewhere, and Linux
/// sends what it does not block and the worker does.
pub fn settle(thread: &Thread) {
    if thread.signals.lock().is_settled(&thread.process.signals.lock().pending) {
        return;
    }
    thread.signals.lock().let_in();
    pass_on_blocked(thread);
    pending::give_back_blocked(thread);
    let keeps_back = thread.signals.lock().keeps_back();
    if keeps_back {
        cpus::request_attention();
        let _ = delegate::ask(thread, Control::TakeMask);
    }
}

/// Passes signals of the process that the thread was to take, and blocks now, on to other threads.
fn pass_on_blocked(thread: &Thread) {
    let mask = thread.signals.lock().mask;
    if requeue(&thread.process, thread, mask) {
        retarget(&thread.process);
    }
}

/// rt_sigprocmask.
pub fn procmask(thread: &Thread, how: u64, new: UserAddr, old: UserAddr, size: u64) -> Result<u64> {
    if size != 8 {
        return Err(errno::EINVAL);
    }
    let before = thread.signals.lock().mask;
    if !new.is_null() {
        let set = SigSet(user::get::<u64>(new)?);
        let now = match how {
            0 => before.union(set),
            1 => before.difference(set),
            2 => set,
            _ => return Err(errno::EINVAL),
        };
        set_mask(thread, now.blockable());
    }
    if !old.is_null() {
        put(old, before.as_bytes())?;
    }
    Ok(0)
}

/// Sets the mask; the worker learns of it with the next call, at once if signals
/// may be waiting on Linux that are not blocked any more.
pub fn set_mask(thread: &Thread, mask: SigSet) {
    cpus::request_attention();
    let (unblocked, blocked) = {
        let mut s = thread.signals.lock();
        let blocked = !mask.difference(s.mask).is_empty();
        s.set(mask);
        (!s.applied.difference(mask).is_empty(), blocked)
    };
    if blocked {
        retarget(&thread.process);
    }
    if unblocked {
        let _ = delegate::ask(thread, Control::TakeMask);
    }
}
