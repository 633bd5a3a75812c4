//! ptrace(2), the tracer's side. Whether it may is Linux' decision in every case: the
//! request, or a harmless one, is made by the worker of the tracer, and is about the worker
//! of the tracee. Before a thread is its tracer's here the module says that it is on Linux.

use super::held::{ask, hold, is_mine, keep, linux, look, stand, trace};
use super::tracee::{begin, end};
use super::{memory, queries, registers};
use crate::base::user::put;
use crate::gate::park;
use crate::link::delegate;
use crate::parts::tracee::{BLOCKS, CALLS, PERMITTED, SEIZED, UNTOLD};
use crate::process::rights;
use crate::process::spaces;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::process::waited;
use crate::process::workers;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::service::MAY_SUSPEND;
use hanare_core::errno::{self, Result};
use hanare_core::gate::{Parking, Who};
use hanare_core::ptrace::{
    Stop, event, index, option, permits_call, request, stopped, syscall_info,
};
use hanare_core::rseq;
use hanare_core::signal::{self, SIGBUS, SIGTRAP};
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_getppid;
use zerocopy::IntoBytes;

/// ptrace(2).
pub fn call(a: &[u64; 6]) -> Result<u64> {
    let what = a[0];
    if what == request::TRACEME {
        return traceme();
    }
    let Some(thread) = spaces::find_thread(&thread::current().process, a[1] as u32) else {
        return without_thread(a);
    };
    let (addr, data) = (a[2], a[3]);
    match what {
        request::ATTACH | request::SEIZE => attach(&thread, a),
        request::CONT | request::SYSCALL | request::SINGLESTEP | request::SINGLEBLOCK => {
            resume(&thread, what, a)
        }
        request::KILL => {
            let result = linux(*a);
            if is_mine(&thread) {
                park::let_go(&thread);
            }
            result
        }
        request::DETACH => {
            let mine = is_mine(&thread);
            let given = if mine { give(&thread, data) } else { data };
            let result = linux([a[0], a[1], a[2], given, 0, 0]);
            if result.is_err() {
                thread.ptrace.state.lock().given = 0;
            }
            let result = result?;
            if mine || !thread.ptrace.is_on() {
                end(&thread);
            }
            Ok(result)
        }
        request::GETSIGINFO | request::SETSIGINFO | request::INTERRUPT | request::LISTEN => {
            linux(*a)
        }
        request::PEEKSIGINFO => queries::pending_signals(&thread, addr, data),
        request::SETOPTIONS => set_options(&thread, data),
        request::PEEKTEXT | request::PEEKDATA => memory::peek(&thread, a),
        request::POKETEXT | request::POKEDATA => memory::poke(&thread, addr, data),
        request::GETEVENTMSG => {
            let thread = hold(&thread)?;
            let message = thread.ptrace.state.lock().stop.message();
            put(UserAddr::of(data), &message.to_le_bytes())
        }
        request::GETSIGMASK => queries::mask(&thread, addr, data),
        request::SETSIGMASK => queries::set_mask(&thread, addr, data),
        request::SECCOMP_GET_METADATA => queries::filter_metadata(&thread, a),
        request::SECCOMP_GET_FILTER => queries::filter_program(&thread, a),
        request::GET_RSEQ_CONFIGURATION => {
            let thread = hold(&thread)?;
            let area = thread.rseq.area();
            let words = [
                area.map_or(0, |a| a.addr),
                area.map_or(0, |a| rseq::SIZE | u64::from(a.signature) << 32),
                0,
            ];
            let bytes = words.as_bytes();
            put(UserAddr::of(data), &bytes[..bytes.len().min(addr as usize)])?;
            Ok(bytes.len() as u64)
        }
        request::GET_SYSCALL_INFO => {
            let words = look(&thread, |s| s.words())?;
            let stop = thread.ptrace.state.lock().stop;
            let (bytes, size) =
                syscall_info(stop, thread.ptrace.wants(option::TRACESYSGOOD), &words);
            put(UserAddr::of(data), &bytes[..size.min(addr as usize)])?;
            Ok(size as u64)
        }
        _ => registers::request(&thread, what, addr, data),
    }
}

/// Of a process of Linux all is as there. A worker that is left of a thread goes on in its
/// own affairs, of which the tracer hears nothing.
fn without_thread(a: &[u64; 6]) -> Result<u64> {
    if !workers::is_worker(a[1] as u32) {
        return linux(*a);
    }
    match a[0] {
        request::CONT | request::SYSCALL | request::SINGLESTEP | request::SINGLEBLOCK => {
            linux([request::CONT, a[1], 0, a[3], 0, 0])
        }
        request::SETOPTIONS => linux([request::SETOPTIONS, a[1], 0, a[3] & option::EXITKILL, 0, 0]),
        request::KILL
        | request::DETACH
        | request::GETSIGINFO
        | request::SETSIGINFO
        | request::INTERRUPT
        | request::LISTEN => linux(*a),
        request::ATTACH | request::SEIZE => Err(errno::EPERM),
        _ => Err(errno::ESRCH),
    }
}

/// PTRACE_TRACEME. The parent has to be a program of the LWK, too: another one would get
/// the worker's registers.
fn traceme() -> Result<u64> {
    let me = thread::current_arc();
    let parent = delegate::linux(__NR_getppid, [0; 6])?;
    let parent = spaces::find_thread(&me.process, parent as u32).ok_or(errno::EPERM)?;
    linux([request::TRACEME, 0, 0, 0, 0, 0])?;
    // Or another thread of it, as it turns out when that first asks.
    begin(&me, Some(&parent), 0, 0);
    Ok(0)
}

fn attach(thread: &Arc<Thread>, a: &[u64; 6]) -> Result<u64> {
    let seizes = a[0] == request::SEIZE;
    let options = if seizes { a[3] } else { 0 };
    if options & !option::SERVED != 0 {
        return Err(errno::EIO);
    }
    linux([a[0], a[1], a[2], if seizes { options & option::LINUX } else { a[3] }, 0, 0])?;
    suspends(thread, options)?;
    trace(thread, if seizes { SEIZED } else { 0 }, options)?;
    if thread.process.is_paused() {
        park::hold(thread); // Linux keeps it stopped
    }
    cpus::kick(thread);
    Ok(0)
}

fn set_options(thread: &Arc<Thread>, options: u64) -> Result<u64> {
    if options & !option::SERVED != 0 {
        return Err(errno::EINVAL);
    }
    let thread = hold(thread)?;
    linux([request::SETOPTIONS, u64::from(thread.slot.tid()), 0, options & option::LINUX, 0, 0])?;
    suspends(&thread, options)?;
    thread.ptrace.options.store(options, Ordering::Relaxed);
    Ok(0)
}

/// Whether Linux has given the running thread the option that suspends a tracee's filters, if that is among these.
fn suspends(thread: &Thread, options: u64) -> Result<()> {
    if options & option::SUSPEND_SECCOMP == 0 {
        return Ok(());
    }
    rights::may(MAY_SUSPEND, thread.slot.tid(), &thread.process)
}

/// PTRACE_CONT and its like: for Linux they are all the same.
fn resume(thread: &Arc<Thread>, what: u64, a: &[u64; 6]) -> Result<u64> {
    let thread = &if is_mine(thread) { thread.clone() } else { hold(thread)? };
    let own = &thread.ptrace;
    let mode = |flags: u32, steps: bool| {
        own.clear(CALLS | BLOCKS);
        own.set(flags);
        thread.parking.change(|parking, _| parking.step(Who::Tracer, steps));
    };
    let flags = own.flags.load(Ordering::SeqCst) & (CALLS | BLOCKS);
    let before = (flags, thread.parking.now().steps(Who::Tracer));
    let stop = {
        let mut state = own.state.lock();
        let before = (state.stop, state.reported);
        state.is_answered = matches!(state.stop, Stop::Event(event::SECCOMP, _));
        if state.reported {
            (state.stop, state.reported) = (Stop::Signal, false);
        }
        before
    };
    match what {
        request::SYSCALL => mode(CALLS, false),
        request::SINGLESTEP => mode(0, true),
        request::SINGLEBLOCK => mode(BLOCKS, true),
        _ => mode(0, false),
    }
    let given = if stop.1 { give_at(thread, stop.0, a[3]) } else { a[3] };
    let signal = give_up_call(thread, given);
    let result = linux([request::CONT, a[1], 0, signal, 0, 0]);
    if result.is_err() {
        mode(before.0, before.1);
        let mut state = own.state.lock();
        (state.stop, state.reported) = stop;
        (state.given, state.is_answered) = (0, false);
        return result;
    }
    park::let_go(thread);
    Ok(0)
}

/// Has a thread at its last stop take a signal that its tracer gives; which one Linux is to give the worker.
fn give(thread: &Thread, signal: u64) -> u64 {
    let (stop, reported) = {
        let state = thread.ptrace.state.lock();
        (state.stop, state.reported)
    };
    if reported { give_at(thread, stop, signal) } else { signal }
}

/// At the beginning or the end of a call the thread sends the signal to itself; at an event none is given. What is no
/// signal, Linux refuses.
fn give_at(thread: &Thread, stop: Stop, signal: u64) -> u64 {
    let given = u32::try_from(signal).ok().filter(|&s| signal::is_valid(s));
    match (stop, given) {
        (Stop::Entry | Stop::Exit, Some(signal)) => {
            thread.ptrace.state.lock().given = signal;
            0
        }
        (Stop::Event(..), Some(_)) => 0,
        _ => signal,
    }
}

/// si_code of the SIGBUS that only interrupts (`Control::Interrupt`).
const INTERRUPT: i32 = -0x4a;

/// Registers were set of a thread that waits for Linux in a call: its worker has to leave
/// the call, by a signal that nobody sees, where the tracer gives it none.
fn give_up_call(thread: &Thread, signal: u64) -> u64 {
    if signal != 0 || !thread.parking.now().contains(Parking::IN_KERNEL | Parking::SET) {
        return signal;
    }
    let mut info = [0u64; 16];
    (info[0], info[1]) = (SIGBUS.into(), u64::from(INTERRUPT as u32));
    let me = thread::current();
    let scratch = me.process.write_scratch(me.slot_index, info.as_bytes());
    let set = scratch
        .and_then(|at| linux([request::SETSIGINFO, u64::from(thread.slot.tid()), 0, at, 0, 0]));
    if set.is_ok() { SIGBUS.into() } else { 0 }
}

/// wait4(2) and waitid(2) of a process that has tracees; `forward` has Linux execute them.
pub fn wait(
    call: waited::Call,
    args: [u64; 6],
    forward: impl Fn([u64; 6]) -> Result<u64>,
) -> Result<u64> {
    let me = thread::current();
    loop {
        let mut made = args;
        let mut scratch = 0;
        if call == waited::Call::Wait4 && args[1] == 0 {
            scratch = me.process.write_scratch(me.slot_index, &[0; 8])?;
            made[1] = scratch;
        }
        let result = forward(made)?;
        waited::waited(&me.process, call, &args, result)?;
        let seen = match call {
            waited::Call::Wait4 => Seen::by_wait4(result, made[1], scratch),
            waited::Call::Waitid => Seen::by_waitid(args[2]),
        };
        match seen {
            Some(seen) if seen.settle() => {}
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
    /// Where the program has it from; 0: nowhere.
    at: u64,
    /// How far the status is shifted there.
    shift: u32,
}

impl Seen {
    fn by_wait4(pid: u64, at: u64, scratch: u64) -> Option<Seen> {
        let me = thread::current();
        let status = if scratch != 0 {
            me.process.control(scratch)
        } else {
            usercopy::read_u32(UserAddr::of(at)).ok()?
        };
        let told = stopped(status)?;
        (pid != 0).then_some(Seen {
            pid: pid as u32,
            status: told.signal | told.event << 8,
            at: if scratch != 0 { 0 } else { at },
            shift: 8,
        })
    }

    fn by_waitid(info: u64) -> Option<Seen> {
        const CODE: u64 = 8;
        const PID: u64 = 16;
        const STATUS: u64 = 24;
        const CLD_TRAPPED: u32 = 4;
        const CLD_STOPPED: u32 = 5;
        let word = |at| usercopy::read_u32(UserAddr::behind(info, at)).ok();
        let code = if info == 0 { return None } else { word(CODE)? };
        let pid = word(PID)?;
        (pid != 0 && matches!(code, CLD_TRAPPED | CLD_STOPPED)).then_some(Seen {
            pid,
            status: word(STATUS)?,
            at: info + STATUS,
            shift: 0,
        })
    }

    /// Has the thread stop, and says what kind of stop it is. True: the stop is nothing to
    /// be seen; it is over.
    fn settle(&self) -> bool {
        let thread = spaces::find_thread(&thread::current().process, self.pid);
        let ours = thread.is_some() || workers::is_worker(self.pid);
        if ours && self.status == SIGBUS && self.only_interrupts() {
            return linux([request::CONT, self.pid.into(), 0, SIGBUS.into(), 0, 0]).is_ok();
        }
        if ours && self.status == ASKS_TRACER {
            return self.answer_filter(thread.as_deref());
        }
        let Some(thread) = thread else { return false };
        if !is_mine(&thread) && ask(&thread).is_err() || keep(&thread).is_err() {
            return false; // a child that is not traced
        }
        let thread = match stand(thread.clone()) {
            Ok(thread) => thread,
            Err(_) if thread.process.is_killed() => thread,
            Err(_) => return true, // it ends, and its worker goes on
        };
        let own = &thread.ptrace;
        if own.clear(UNTOLD) {
            let options = core::mem::take(&mut own.state.lock().untold);
            let told =
                linux([request::SETOPTIONS, self.pid.into(), 0, options & option::LINUX, 0, 0]);
            if told.is_ok() && suspends(&thread, options).is_ok() {
                own.options.store(options, Ordering::Relaxed);
            }
        }
        if self.status != SIGTRAP {
            return false;
        }
        let good = own.options.load(Ordering::Relaxed) & option::TRACESYSGOOD != 0;
        let stop = {
            let mut state = own.state.lock();
            state.reported = true;
            state.stop
        };
        let status = stop.status(good);
        if status != self.status && self.at != 0 {
            let low = if self.shift == 0 { 0 } else { 0x7f };
            let _ = put(UserAddr::of(self.at), &(status << self.shift | low).to_le_bytes());
        }
        take(&thread, stop);
        false
    }

    /// The worker is about to make a call that its filter leaves to a tracer. The tracer has been asked by the thread
    /// itself, which then waits for this call of its worker's. Any other one, which somebody has had the worker make, has
    /// no tracer. True: the worker goes on.
    fn answer_filter(&self, thread: Option<&Thread>) -> bool {
        const ORIG_RAX: u64 = 8 * index::ORIG_RAX as u64;
        let pid = u64::from(self.pid);
        let me = thread::current();
        let number = me.process.write_scratch(me.slot_index, &[0; 8]).and_then(|at| {
            linux([request::PEEKUSER, pid, ORIG_RAX, at, 0, 0])?;
            Ok(me.process.control::<u64>(at))
        });
        let is_permitted = thread.zip(number.ok()).is_some_and(|(thread, number)| {
            thread.ptrace.has(PERMITTED)
                && permits_call(thread.ptrace.state.lock().permitted, number as u32)
        });
        if !is_permitted && linux([request::POKEUSER, pid, ORIG_RAX, u64::MAX, 0, 0]).is_err() {
            return false;
        }
        linux([request::CONT, pid, 0, 0, 0, 0]).is_ok()
    }

    /// The LWK has the worker leave its call (`Control::Interrupt`).
    fn only_interrupts(&self) -> bool {
        let me = thread::current();
        let code = me.process.write_scratch(me.slot_index, &[0; 128]).and_then(|at| {
            linux([request::GETSIGINFO, self.pid.into(), 0, at, 0, 0])?;
            Ok(me.process.control::<i32>(at + 8))
        });
        code == Ok(INTERRUPT)
    }
}

/// The tracer has heard of a stop: a child that it is told of is its own from now on, and
/// stops.
fn take(thread: &Thread, stop: Stop) {
    let Stop::Event(event::FORK | event::VFORK | event::CLONE, tid) = stop else { return };
    let Some(child) =
        spaces::find_thread(&thread::current().process, tid as u32).filter(|c| !c.ptrace.is_on())
    else {
        return;
    };
    let options = thread.ptrace.options.load(Ordering::Relaxed);
    let seized = thread.ptrace.has(SEIZED);
    let how = if seized { request::SEIZE } else { request::ATTACH };
    if linux([how, tid, 0, if seized { options & option::LINUX } else { 0 }, 0, 0]).is_err() {
        return;
    }
    if seized && suspends(&child, options).is_err() {
        return;
    }
    if !seized {
        // The option that suspends filters only when Linux has it, too (`settle`).
        if trace(&child, UNTOLD, options & !option::SUSPEND_SECCOMP).is_ok() {
            child.ptrace.state.lock().untold = options;
        }
    } else if trace(&child, SEIZED, options).is_ok() {
        let _ = linux([request::INTERRUPT, tid, 0, 0, 0, 0]);
    }
}
