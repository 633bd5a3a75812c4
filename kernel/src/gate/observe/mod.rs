//! Watching processes from outside: traces ([`trace`]) and debuggers ([`debug`]).
//!
//! A process without an observer pays one look at a flag per system call. A session belongs to a
//! descriptor on Linux; the module has checked that its owner may trace the process, and speaks for
//! it (`abi/src/observe.rs`).

pub mod debug;
pub mod trace;
pub mod watch;

use crate::base::accounts::Account;
use crate::base::lock::{Mutex, rank};
use crate::base::{heap, lists};
use crate::gate::{park, ptrace};
use crate::parts::observed::{Debugger, SAID, TRACED, Trace};
use crate::process::Process;
use crate::process::spaces;
use crate::process::thread::Thread;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::observe::*;
use hanare_abi::request::GROUPS_WORDS;
use hanare_core::errno::{self, Result};
use hanare_hal::traps::Regs;
use hanare_ikc::{RequestCall, RequestRef};
use linux_raw_sys::general::{__NR_exit, __NR_exit_group};

/// State that the child of a fork takes over: the trace, breakpoints, the auxiliary vector.
#[derive(Default)]
pub struct Inherited {
    trace: Option<trace::Expected>,
    breakpoints: Vec<(u64, u8)>,
    auxv: Vec<u8>,
}

impl Inherited {
    /// State that a child of `p` inherits.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn of(p: &Process) -> Result<Inherited> {
        let o = &p.observed;
        let auxv = heap::copied(&o.auxv.lock())?;
        if !o.is_on() {
            return Ok(Inherited { auxv, ..Inherited::default() });
        }
        let debugger = o.debugger.lock();
        let breakpoints = debugger.as_ref().map_or(Ok(Vec::new()), |d| d.breakpoints())?;
        drop(debugger);
        let trace = o.trace.lock().as_ref().filter(|t| t.follows()).cloned();
        Ok(Inherited { trace: trace.as_ref().map(Trace::will_watch), breakpoints, auxv })
    }

    /// From a process that shares its memory with the new one: breakpoints are there.
    pub fn of_sharer(p: &Process) -> Result<Inherited> {
        Ok(Inherited { breakpoints: Vec::new(), ..Inherited::of(p)? })
    }

    /// Gives the observation to the child, before its first thread runs.
    pub fn give(self, p: &Process) {
        *p.observed.auxv.lock() = self.auxv;
        for (addr, byte) in self.breakpoints {
            let _ = crate::mm::change::patch::write(p.memory(), addr, &[byte]);
        }
        if let Some(t) = self.trace {
            t.watch(p);
        }
    }
}

enum Session {
    Trace(Arc<Trace>),
    Debug(Arc<Debugger<Process>>),
}

static SESSIONS: Mutex<BTreeMap<u32, Session>, rank::Sessions> = Mutex::new(BTreeMap::new());

/// Memory of the list if it is empty.
pub fn trim() {
    heap::trim_list(&SESSIONS);
}

/// `REQUEST_OBSERVE`.
pub fn request(r: &RequestRef<'_>, call: &RequestCall) -> Result<()> {
    let [op, session, a, b] = call.args;
    let (op, session) = (op as u32, session as u32);
    match op {
        OBSERVE_CLOSE => {
            let debugger = match SESSIONS.lock().get(&session) {
                Some(Session::Debug(d)) => Some(d.clone()),
                _ => None,
            };
            debugger.map_or(Ok(()), |d| d.close(a != 0))?;
            let session = SESSIONS.lock().remove(&session);
            if let Some(Session::Trace(t)) = session {
                t.close();
            }
            return Ok(());
        }
        OBSERVE_TRACE | OBSERVE_DEBUG => return open(op, session, call.space, r, a, b),
        _ => {}
    }
    let debugger = match SESSIONS.lock().get(&session) {
        None => return Err(errno::EINVAL),
        Some(Session::Trace(t)) if op == OBSERVE_STATUS => {
            r.set_arg(0, t.watched());
            return Ok(());
        }
        Some(Session::Trace(_)) => return Err(errno::EINVAL),
        Some(Session::Debug(d)) => d.clone(),
    };
    debugger.request(op, a, b, r)
}

fn open(op: u32, session: u32, space: u32, r: &RequestRef<'_>, a: u64, b: u64) -> Result<()> {
    if SESSIONS.lock().contains_key(&session) {
        return Err(errno::EBUSY);
    }
    let p = spaces::find(space).and_then(|s| s.first()).ok_or(errno::ESRCH)?;
    heap::room_for_entry::<u32, Session>()?;
    let user = r.words().first().map_or(0, |&user| user as u32);
    let account = Account::of(user, &[0; GROUPS_WORDS])?;
    let new = if op == OBSERVE_TRACE {
        let t = Trace::new(session, a, b, &account)?;
        // One whose tracer is gone stays until the next call.
        if p.observed.trace.lock().as_ref().is_some_and(|t| !t.is_closed()) {
            return Err(errno::EBUSY);
        }
        let (frame, bytes) = t.place().ok_or(errno::ENOMEM)?;
        t.watch(&p);
        r.set_arg(0, frame.0);
        r.set_arg(1, bytes);
        Session::Trace(t)
    } else {
        Session::Debug(Debugger::new(session, &p, account)?)
    };
    lists::insert_within(&mut SESSIONS.lock(), session, new);
    Ok(())
}

/// A system call of a process that is watched, which `serve` serves.
#[inline(never)] // its records need a large frame, which no other call is to set up
pub fn call(
    thread: &'static Thread,
    regs: &mut Regs,
    serve: fn(&'static Thread, &mut Regs, u64) -> Option<()>,
) {
    park::disarm(thread, regs);
    if !ptrace::enter(thread, regs) {
        return ptrace::leave(thread, regs);
    }
    let number = regs.orig_rax as u32;
    let args = regs.arguments();
    thread.observe.asked.store(0, Ordering::Relaxed);
    if number == __NR_exit_group || number == __NR_exit && thread.process.thread_count() == 1 {
        thread
            .process
            .observed
            .exit_status
            .store((args[0] as u32 & 0xff) << 8 | SAID, Ordering::Relaxed);
    }
    let entered = trace::enter(thread, number.into(), args);
    let returned = serve(thread, regs, number.into()).is_some();
    if let Some(entered) = entered {
        entered.leave(thread, if returned { regs.rax as i64 } else { 0 });
    }
    ptrace::leave(thread, regs);
}

/// Notes that the worker is asked for a call, or for something of the LWK's own, if the process is
/// observed.
pub fn asks(thread: &Thread, is_call: bool) {
    if thread.process.observed.is_on() {
        let what = if is_call { 2 } else { 1 };
        thread.observe.asked.fetch_max(what, Ordering::Relaxed);
    }
}

/// The process ends by a signal.
pub fn killed_by(thread: &Thread, signal: u32) {
    let o = &thread.process.observed;
    if o.is_on() {
        o.exit_status.store(signal | SAID, Ordering::Relaxed);
        trace::killed(thread, signal);
    }
}

/// A thread is gone; of the process itself, if it was the last.
pub fn thread_gone(p: &Process) {
    if p.observed.is_on() {
        debug::thread_gone(p);
    }
}

/// The process of `old`, which is in an execve, goes on as `new`.
pub fn continue_as(old: &Thread, new: &Process) {
    let trace = old.process.observed.trace.lock().take();
    if let Some(trace) = trace {
        trace::has_left(&trace, old);
        *new.observed.trace.lock() = Some(trace);
        new.observed.set(TRACED, true);
    }
}

/// The process is gone.
pub fn gone(p: &Process) {
    let o = &p.observed;
    if o.is_on() {
        let trace = o.trace.lock().take();
        if let Some(t) = trace {
            t.gone(p);
        }
        let debugger = o.debugger.lock().take();
        if let Some(d) = debugger {
            let status = o.exit_status.load(Ordering::Relaxed);
            d.ended(if status & SAID != 0 { status & !SAID } else { hanare_core::signal::SIGKILL });
        }
        o.flags.store(0, Ordering::Relaxed);
    }
}
