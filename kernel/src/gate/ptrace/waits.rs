//! wait4(2) and waitid(2) of a process that has tracees.
//!
//! Linux tells any thread of a process of the stops of tracees that one of them traces, unless it
//! is asked not to (`__WNOTHREAD`). What Linux lets only the tracer do about such a stop waits
//! until that one asks for anything ([`catch_up`]).

use super::held::{ask, is_mine, keep, linux, stand, suspends, trace};
use crate::base::user::put;
use crate::gate::park;
use crate::parts::tracee::{HEARD, PERMITTED, SEIZED, UNTOLD};
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::process::waited::{self, Place};
use crate::process::workers;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::{Stop, event, index, option, request, stopped};
use hanare_core::signal::{SIGBUS, SIGTRAP};
use hanare_hal::usercopy::UserAddr;

/// si_code of the SIGBUS that only interrupts (`Control::Interrupt`).
pub const INTERRUPT: i32 = -0x4a;

/// wait4(2) and waitid(2) of a process that has tracees; `forward` has Linux execute them.
pub fn wait(
    me: &Thread,
    call: waited::Call,
    args: [u64; 6],
    forward: impl Fn([u64; 6], &Place<'_>) -> Result<u64>,
) -> Result<u64> {
    catch_up(me);
    loop {
        let (made, place) = Place::of(me, call, args)?;
        let result = forward(made, &place)?;
        waited::waited(me, call, &args, &place, result)?;
        let seen = match call {
            waited::Call::Wait4 => Seen::by_wait4(result, &place),
            waited::Call::Waitid => Seen::by_waitid(&place),
        };
        match seen {
            Some(seen) if seen.settle(me) => {}
            _ => return Ok(result),
        }
    }
}

/// The status of a stop for SECCOMP_RET_TRACE.
const ASKS_TRACER: u32 = SIGTRAP | event::SECCOMP << 8;

/// A child that is stopped, as wait(2) tells it.
struct Seen {
    pid: u32,
    /// Signal, and above it an event of Linux'.
    status: u32,
    /// Address in the program where the status was written; 0: nowhere.
    at: u64,
    /// Bits by which the status is shifted there.
    shift: u32,
}

impl Seen {
    fn by_wait4(pid: u64, place: &Place<'_>) -> Option<Seen> {
        let told = stopped(place.word(0).ok()?)?;
        (pid != 0).then_some(Seen {
            pid: pid as u32,
            status: told.signal | told.event << 8,
            at: place.of_program(0),
            shift: 8,
        })
    }

    fn by_waitid(place: &Place<'_>) -> Option<Seen> {
        const CLD_TRAPPED: u32 = 4;
        let word = |at| place.word(at).ok();
        let (code, pid) = (word(waited::SI_CODE)?, word(waited::SI_PID)?);
        (pid != 0 && matches!(code, CLD_TRAPPED | waited::CLD_STOPPED)).then_some(Seen {
            pid,
            status: word(waited::SI_STATUS)?,
            at: place.of_program(waited::SI_STATUS),
            shift: 0,
        })
    }

    /// Has the thread stop, and finds out what kind of stop it is. True: the stop is over already,
    /// and the tracer is not told of it.
    fn settle(&self, me: &Thread) -> bool {
        let thread = spaces::find_thread(&me.process, self.pid);
        let is_mine =
            thread.as_ref().is_none_or(|thread| is_mine(me, thread) || ask(me, thread).is_ok());
        let ours = is_mine && (thread.is_some() || workers::is_worker(me, self.pid));
        let is_over = if !ours {
            None
        } else if self.status == SIGBUS && only_interrupts(me, self.pid) {
            Some(linux(me, [request::CONT, self.pid.into(), 0, SIGBUS.into(), 0, 0]).is_ok())
        } else {
            (self.status == ASKS_TRACER).then(|| answer_filter(me, self.pid, thread.as_deref()))
        };
        if let Some(is_over) = is_over {
            thread.iter().filter(|_| is_over).for_each(|thread| let_go(thread));
            return is_over;
        }
        let Some(thread) = thread else { return false };
        if keep(me, &thread).is_err() {
            return false; // a child that is not traced
        }
        let thread = match stand(me, thread.clone()) {
            Ok(thread) => thread,
            Err(_) if !is_mine || thread.process.is_killed() => thread,
            Err(_) => return true, // it ends, and its worker goes on
        };
        self.tell(&thread);
        thread.ptrace.state.lock().heard = if is_mine { 0 } else { self.status };
        if is_mine {
            of_tracer(me, &thread);
        } else {
            thread.ptrace.set(HEARD);
            me.process.hears_for_others.store(true, Ordering::Release);
        }
        false
    }

    /// Tells the program what kind of stop that of the thread is, where Linux knows nothing but
    /// SIGTRAP.
    fn tell(&self, thread: &Thread) {
        if self.status != SIGTRAP {
            return;
        }
        let good = thread.ptrace.options.load(Ordering::Relaxed) & option::TRACESYSGOOD != 0;
        let stop = {
            let mut state = thread.ptrace.state.lock();
            state.reported = true;
            state.stop
        };
        let status = stop.status(good);
        if status != self.status && self.at != 0 {
            let low = if self.shift == 0 { 0 } else { 0x7f };
            let _ = put(UserAddr::of(self.at), &(status << self.shift | low).to_le_bytes());
        }
    }
}

/// Lets a thread go that was held since another thread of the tracer's process had heard of a stop
/// of its worker's, which is over.
fn let_go(thread: &Thread) {
    if core::mem::take(&mut thread.ptrace.state.lock().heard) != 0 {
        thread.ptrace.clear(HEARD);
        park::let_go(thread);
    }
}

/// The LWK has the worker leave its call (`Control::Interrupt`).
fn only_interrupts(me: &Thread, pid: u32) -> bool {
    code_of_stop(me, pid) == Ok(INTERRUPT)
}

/// Whether the worker `pid` is about to make a call that its filter leaves to a tracer.
pub fn asks_tracer(me: &Thread, pid: u32) -> bool {
    code_of_stop(me, pid) == Ok(ASKS_TRACER as i32)
}

/// The si_code of the stop in which the worker `pid` is.
fn code_of_stop(me: &Thread, pid: u32) -> Result<i32> {
    let at = me.write_scratch(&[0; 128])?;
    linux(me, [request::GETSIGINFO, pid.into(), 0, at, 0, 0])?;
    Ok(me.process.memory().control::<i32>(at + 8))
}

/// The worker `pid` is about to make a call that its filter leaves to a tracer. The tracer has been
/// asked by the thread itself, which then waits for this call of its worker's, with these
/// arguments. Any other call, which the worker was made to make, has no tracer. True: the worker
/// goes on.
pub fn answer_filter(me: &Thread, pid: u32, thread: Option<&Thread>) -> bool {
    const ORIG_RAX: u64 = 8 * index::ORIG_RAX as u64;
    let is_permitted = thread.zip(call_of_worker(me, pid).ok()).is_some_and(|(thread, call)| {
        thread.ptrace.has(PERMITTED)
            && thread.ptrace.state.lock().permitted.permits(call.0, &call.1)
    });
    let pid = u64::from(pid);
    if !is_permitted && linux(me, [request::POKEUSER, pid, ORIG_RAX, u64::MAX, 0, 0]).is_err() {
        return false;
    }
    linux(me, [request::CONT, pid, 0, 0, 0, 0]).is_ok()
}

/// Number and arguments of the call that the worker `pid`, which is stopped for its filter, is
/// about to make.
///
/// # Errors
/// `ENOSYS`: the call is one of 32-bit programs (`int 0x80`), which has other arguments and another
/// meaning of the number. Linux' errors.
fn call_of_worker(me: &Thread, pid: u32) -> Result<(u32, [u64; 6])> {
    /// `PTRACE_SYSCALL_INFO_SECCOMP` and `AUDIT_ARCH_X86_64`: the first word of the structure.
    const SECCOMP_X86_64: u64 = 3 | 0xc000_003e << 32;
    /// Words of `struct ptrace_syscall_info` up to the arguments' end: what and where, instruction
    /// and stack pointer, number.
    const WORDS: usize = 4 + 6;
    let at = me.write_scratch(&[0; 8 * WORDS])?;
    linux(me, [request::GET_SYSCALL_INFO, pid.into(), 8 * WORDS as u64, at, 0, 0])?;
    let [what, _, _, number, arguments @ ..]: [u64; WORDS] = me.process.memory().control(at);
    if what != SECCOMP_X86_64 {
        return Err(errno::ENOSYS);
    }
    Ok((number as u32, arguments))
}

/// A stop of which another thread has heard, and which is nothing of the program's.
pub enum Heard {
    /// The worker is about to make a call that its filter leaves to a tracer.
    AsksTracer,
    /// The worker leaves its call.
    Interrupts,
}

impl Heard {
    /// Takes such a stop of a tracee of the caller's, which is about to go on.
    pub fn take(me: &Thread, thread: &Thread) -> Option<Heard> {
        match core::mem::take(&mut thread.ptrace.state.lock().heard) {
            ASKS_TRACER => Some(Heard::AsksTracer),
            SIGBUS if only_interrupts(me, thread.tid()) => Some(Heard::Interrupts),
            _ => None,
        }
    }
}

/// Does what is left to be done about stops of the caller's tracees of which another thread of its
/// process has heard.
pub fn catch_up(me: &Thread) {
    let p = &me.process;
    if !p.hears_for_others.swap(false, Ordering::Acquire) {
        return;
    }
    spaces::each_thread(|thread| {
        let tracer = || thread.ptrace.state.lock().tracer.upgrade();
        if !thread.ptrace.has(HEARD) || !tracer().is_none_or(|t| Arc::ptr_eq(&t.process, p)) {
            return;
        }
        if is_mine(me, thread) || ask(me, thread).is_ok() && keep(me, thread).is_ok() {
            thread.ptrace.clear(HEARD);
            of_tracer(me, thread);
        } else {
            p.hears_for_others.store(true, Ordering::Release);
        }
    });
}

/// Does what only the tracer may do about the stop of a thread: tells Linux of inherited options,
/// and takes over a new child. Any thread of its process may have heard of the stop.
fn of_tracer(me: &Thread, thread: &Arc<Thread>) {
    let own = &thread.ptrace;
    if own.clear(UNTOLD) {
        let options = core::mem::take(&mut own.state.lock().untold);
        let tid = thread.tid().into();
        let tell = |options| linux(me, [request::SETOPTIONS, tid, 0, options, 0, 0]);
        if let Ok(options) = inherit(me, thread, options, tell) {
            own.options.store(options, Ordering::Relaxed);
        }
    }
    let stop = {
        let state = own.state.lock();
        state.reported.then_some(state.stop)
    };
    stop.into_iter().for_each(|stop| take(me, thread, stop));
}

/// Tells Linux of the options that a child has from its parent. Gives those that it has then. On
/// Linux, children inherit the option that suspends filters even if the tracer has lost that right.
/// Here the option is not to be had then.
fn inherit(
    me: &Thread,
    thread: &Thread,
    options: u64,
    tell: impl Fn(u64) -> Result<u64>,
) -> Result<u64> {
    let without = options & !option::SUSPEND_SECCOMP;
    match tell(options & option::LINUX) {
        Err(errno::EPERM) if without != options => {
            tell(without & option::LINUX)?;
            Ok(without)
        }
        told => {
            told?;
            Ok(if suspends(me, thread, options).is_ok() { options } else { without })
        }
    }
}

/// The tracer has heard of a stop: a child that it is told of is its own from now on, and
/// stops.
fn take(me: &Thread, thread: &Thread, stop: Stop) {
    let Stop::Event(event::FORK | event::VFORK | event::CLONE, tid) = stop else { return };
    let Some(child) = spaces::find_thread(&me.process, tid as u32).filter(|c| !c.ptrace.is_on())
    else {
        return;
    };
    let options = thread.ptrace.options.load(Ordering::Relaxed);
    if thread.ptrace.has(SEIZED) {
        let seize = |options| linux(me, [request::SEIZE, tid, 0, options, 0, 0]);
        let Ok(options) = inherit(me, &child, options, seize) else { return };
        if trace(me, &child, SEIZED, options).is_ok() {
            let _ = linux(me, [request::INTERRUPT, tid, 0, 0, 0, 0]);
        }
    } else if linux(me, [request::ATTACH, tid, 0, 0, 0, 0]).is_ok()
        // The option that suspends filters only when Linux has it, too (`of_tracer`).
        && trace(me, &child, UNTOLD, options & !option::SUSPEND_SECCOMP).is_ok()
    {
        child.ptrace.state.lock().untold = options;
    }
}
