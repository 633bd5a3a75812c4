//! A tracee that its tracer holds: Linux has been asked, and the registers are there to be seen.

use super::tracee::{begin, set_tracer};
use crate::gate::park;
use crate::link::delegate;
use crate::parts::registers::Snapshot;
use crate::parts::tracee::GONE;
use crate::process::thread::Thread;
use crate::process::{rights, spaces};
use crate::sched::cpus;
use alloc::sync::Arc;
use hanare_abi::service::{MAY_HEAR, MAY_SUSPEND, MAY_TRACE};
use hanare_core::errno::{self, Result};
use hanare_core::gate::Parking;
use hanare_core::ptrace::{option, request};
use linux_raw_sys::general::__NR_ptrace;

/// How often a thread that does not trace another one itself looks whether that one's registers are
/// there, ns.
const LOOK_NS: u64 = 1_000_000;

/// ptrace(2) of the calling thread's worker.
pub fn linux(me: &Thread, args: [u64; 6]) -> Result<u64> {
    delegate::linux(me, __NR_ptrace, args)
}

/// The running thread `me` traces `thread` from now on, if it does so on Linux.
pub fn trace(me: &Thread, thread: &Arc<Thread>, flags: u32, options: u64) -> Result<()> {
    rights::may(me, MAY_TRACE, thread.tid(), &thread.process)?;
    begin(thread, Some(&me.arc()), flags, options);
    Ok(())
}

/// Whether the running thread `me` traces `thread`.
pub fn is_mine(me: &Thread, thread: &Thread) -> bool {
    let state = thread.ptrace.state.lock();
    thread.ptrace.is_on() && state.tracer.as_ptr() == core::ptr::from_ref(me)
}

/// Asks Linux whether `me` traces `thread` and that is stopped.
pub fn ask(me: &Thread, thread: &Thread) -> Result<()> {
    let scratch = me.write_scratch(&[0; 8])?;
    linux(me, [request::PEEKUSER, u64::from(thread.tid()), 0, scratch, 0, 0]).map(drop)
}

/// Has the thread, whose worker is stopped, stop too; the thread that has its id then ([`stand`]).
/// `ESRCH`: it is not stopped, or is not the caller's tracee.
pub fn hold(me: &Thread, thread: &Arc<Thread>) -> Result<Arc<Thread>> {
    if !(is_mine(me, thread) && thread.parking.now().contains(Parking::HELD)) {
        ask(me, thread)?;
        keep(me, thread)?;
    }
    stand(me, thread.clone())
}

/// The thread, which the caller traces, or another thread of its process does, goes on no more from
/// now on.
pub fn keep(me: &Thread, thread: &Arc<Thread>) -> Result<()> {
    let may = |what| rights::may(me, what, thread.tid(), &thread.process);
    if !thread.ptrace.is_on() {
        trace(me, thread, 0, 0).or_else(|_| may(MAY_HEAR))?;
    } else if !is_mine(me, thread) {
        match may(MAY_TRACE) {
            Ok(()) => set_tracer(thread, &me.arc()),
            Err(_) => may(MAY_HEAR)?,
        }
    }
    park::hold(thread);
    cpus::kick(thread.task());
    Ok(())
}

/// Waits until the thread, which is kept, has left its registers. If another one goes on for it
/// meanwhile, in a space of its own (execve), that one is waited for, and given. `ESRCH`: it has
/// ended.
pub fn stand(me: &Thread, mut thread: Arc<Thread>) -> Result<Arc<Thread>> {
    loop {
        let tid = thread.tid(); // not later: with its process the slot goes
        let has_ended = || thread.ptrace.has(GONE) || thread.must_end();
        let is_there = || thread.parking.now().contains(Parking::REGISTERS);
        // Only its tracer is kicked.
        while !(is_there() || has_ended() || me.must_end()) {
            let look = if is_mine(me, &thread) { cpus::NEVER } else { cpus::deadline(LOOK_NS) };
            cpus::until(|| is_there() || has_ended() || me.must_end(), look);
        }
        if !has_ended() {
            return Ok(thread);
        }
        let Some(next) = spaces::successor(&thread, tid) else {
            // On Linux it would be killed where it stands. What is left of its worker is needed: it
            // goes on without the tracer's doing.
            let _ = linux(me, [request::CONT, tid.into(), 0, 0, 0, 0]);
            return Err(errno::ESRCH);
        };
        keep(me, &next)?;
        thread = next;
    }
}

/// Whether Linux has given the running thread `me` the option that suspends a tracee's filters, if
/// that is among these.
pub fn suspends(me: &Thread, thread: &Thread, options: u64) -> Result<()> {
    if options & option::SUSPEND_SECCOMP == 0 {
        return Ok(());
    }
    rights::may(me, MAY_SUSPEND, thread.tid(), &thread.process)
}

/// Looks at the registers of a thread that is stopped.
pub fn look<R>(me: &Thread, thread: &Arc<Thread>, f: impl FnOnce(&Snapshot) -> R) -> Result<R> {
    let thread = hold(me, thread)?;
    thread.parking.change(|_, left| left.as_deref().map(f)).ok_or(errno::ESRCH)
}

/// Sets registers of a thread that is stopped.
pub fn set(
    me: &Thread,
    thread: &Arc<Thread>,
    f: impl FnOnce(&mut Snapshot) -> Result<()>,
) -> Result<u64> {
    let thread = hold(me, thread)?;
    thread.parking.change(|parking, left| {
        let result = f(left.as_mut().ok_or(errno::ESRCH)?);
        parking.insert(Parking::SET); // as far as it came
        result.map(|()| 0)
    })
}
