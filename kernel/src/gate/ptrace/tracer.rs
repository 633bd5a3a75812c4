//! ptrace(2), the tracer's side. Whether it may is Linux' decision in every case: the
//! request, or a harmless one, is made by the worker of the tracer, and is about the worker
//! of the tracee. Before a thread is its tracer's here the module says that it is on Linux.

use super::held::{hold, is_mine, linux, look, suspends, trace};
use super::tracee::{begin, end};
use super::waits::{self, Heard, INTERRUPT};
use super::{memory, queries, registers};
use crate::base::user::put;
use crate::gate::park;
use crate::link::delegate;
use crate::parts::tracee::{BLOCKS, CALLS, SEIZED};
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::gate::{Parking, Who};
use hanare_core::ptrace::{Stop, event, option, request, syscall_info};
use hanare_core::rseq;
use hanare_core::signal::{self, SIGBUS};
use hanare_hal::usercopy::UserAddr;
use linux_raw_sys::general::__NR_getppid;
use zerocopy::IntoBytes;

/// Serves ptrace(2).
pub fn call(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    let what = a[0];
    if what == request::TRACEME {
        return traceme(me);
    }
    waits::catch_up(me);
    let Some(thread) = spaces::find_thread(&me.process, a[1] as u32) else {
        return without_thread(me, a);
    };
    let (addr, data) = (a[2], a[3]);
    match what {
        request::ATTACH | request::SEIZE => attach(me, &thread, a),
        request::CONT | request::SYSCALL | request::SINGLESTEP | request::SINGLEBLOCK => {
            resume(me, &thread, what, a)
        }
        request::KILL => {
            let result = linux(me, *a);
            if is_mine(me, &thread) {
                park::let_go(&thread);
            }
            result
        }
        request::DETACH => {
            let mine = is_mine(me, &thread);
            let given = match mine.then(|| Heard::take(me, &thread)) {
                Some(Some(Heard::Interrupts)) => SIGBUS.into(),
                Some(_) => give(&thread, data),
                None => data,
            };
            let result = linux(me, [a[0], a[1], a[2], given, 0, 0]);
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
            linux(me, *a)
        }
        request::PEEKSIGINFO => queries::pending_signals(me, &thread, addr, data),
        request::SETOPTIONS => set_options(me, &thread, data),
        request::PEEKTEXT | request::PEEKDATA => memory::peek(me, &thread, a),
        request::POKETEXT | request::POKEDATA => memory::poke(me, &thread, addr, data),
        request::GETEVENTMSG => {
            let thread = hold(me, &thread)?;
            let message = thread.ptrace.state.lock().stop.message();
            put(UserAddr::of(data), &message.to_le_bytes())
        }
        request::GETSIGMASK => queries::mask(me, &thread, addr, data),
        request::SETSIGMASK => queries::set_mask(me, &thread, addr, data),
        request::SECCOMP_GET_METADATA => queries::filter_metadata(me, &thread, a),
        request::SECCOMP_GET_FILTER => queries::filter_program(me, &thread, a),
        request::GET_RSEQ_CONFIGURATION => {
            let thread = hold(me, &thread)?;
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
            let words = look(me, &thread, |s| s.words())?;
            let stop = thread.ptrace.state.lock().stop;
            let (bytes, size) =
                syscall_info(stop, thread.ptrace.wants(option::TRACESYSGOOD), &words);
            put(UserAddr::of(data), &bytes[..size.min(addr as usize)])?;
            Ok(size as u64)
        }
        _ => registers::request(me, &thread, what, addr, data),
    }
}

/// Requests about a task that is no thread of the LWK. Linux answers those about its own processes.
/// A worker that a thread has left behind goes on in its own affairs, of which the tracer hears
/// nothing.
fn without_thread(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    if !workers::is_worker(me, a[1] as u32) {
        return linux(me, *a);
    }
    match a[0] {
        request::CONT | request::SYSCALL | request::SINGLESTEP | request::SINGLEBLOCK => {
            if !waits::asks_tracer(me, a[1] as u32) {
                return linux(me, [request::CONT, a[1], 0, a[3], 0, 0]);
            }
            if waits::answer_filter(me, a[1] as u32, None) { Ok(0) } else { Err(errno::ESRCH) }
        }
        request::SETOPTIONS => {
            linux(me, [request::SETOPTIONS, a[1], 0, a[3] & option::EXITKILL, 0, 0])
        }
        request::KILL
        | request::DETACH
        | request::GETSIGINFO
        | request::SETSIGINFO
        | request::INTERRUPT
        | request::LISTEN => linux(me, *a),
        request::ATTACH | request::SEIZE => Err(errno::EPERM),
        _ => Err(errno::ESRCH),
    }
}

/// PTRACE_TRACEME. The parent has to be a program of the LWK, too: another one would get
/// the worker's registers.
fn traceme(me: &Thread) -> Result<u64> {
    let parent = delegate::linux(me, __NR_getppid, [0; 6])?;
    let first = spaces::find_thread(&me.process, parent as u32).ok_or(errno::EPERM)?;
    linux(me, [request::TRACEME, 0, 0, 0, 0, 0])?;
    // The thread that has made this process, or another one, as it turns out when that first asks.
    let creator = me.process.creator.load(Ordering::Relaxed);
    let parent = first.process.threads().find(|t| t.tid() == creator).unwrap_or(first.clone());
    begin(&me.arc(), Some(&parent), 0, 0);
    Ok(0)
}

fn attach(me: &Thread, thread: &Arc<Thread>, a: &[u64; 6]) -> Result<u64> {
    let seizes = a[0] == request::SEIZE;
    let options = if seizes { a[3] } else { 0 };
    if options & !option::SERVED != 0 {
        return Err(errno::EIO);
    }
    linux(me, [a[0], a[1], a[2], if seizes { options & option::LINUX } else { a[3] }, 0, 0])?;
    suspends(me, thread, options)?;
    trace(me, thread, if seizes { SEIZED } else { 0 }, options)?;
    if thread.process.is_paused() {
        park::hold(thread); // Linux keeps it stopped
    }
    cpus::kick(thread.task());
    Ok(0)
}

fn set_options(me: &Thread, thread: &Arc<Thread>, options: u64) -> Result<u64> {
    if options & !option::SERVED != 0 {
        return Err(errno::EINVAL);
    }
    let thread = hold(me, thread)?;
    linux(me, [request::SETOPTIONS, u64::from(thread.tid()), 0, options & option::LINUX, 0, 0])?;
    suspends(me, &thread, options)?;
    thread.ptrace.options.store(options, Ordering::Relaxed);
    Ok(0)
}

/// Sets how the thread goes on: to its next call, by steps of instructions or of branches, or
/// freely.
fn set_mode(thread: &Thread, what: u64) {
    let (flags, steps) = match what {
        request::SYSCALL => (CALLS, false),
        request::SINGLESTEP => (0, true),
        request::SINGLEBLOCK => (BLOCKS, true),
        _ => (0, false),
    };
    put_mode(thread, flags, steps);
}

fn put_mode(thread: &Thread, flags: u32, steps: bool) {
    thread.ptrace.clear(CALLS | BLOCKS);
    thread.ptrace.set(flags);
    thread.parking.change(|parking, _| parking.step(Who::Tracer, steps));
}

/// PTRACE_CONT and its like: for Linux they are all the same.
fn resume(me: &Thread, thread: &Arc<Thread>, what: u64, a: &[u64; 6]) -> Result<u64> {
    let thread = &if is_mine(me, thread) { thread.clone() } else { hold(me, thread)? };
    let own = &thread.ptrace;
    let flags = own.flags.load(Ordering::SeqCst) & (CALLS | BLOCKS);
    let before = (flags, thread.parking.now().steps(Who::Tracer));
    let heard = Heard::take(me, thread);
    if let Some(Heard::AsksTracer) = heard {
        set_mode(thread, what);
        if !waits::answer_filter(me, a[1] as u32, Some(thread)) {
            return Err(errno::ESRCH);
        }
        park::let_go(thread);
        return Ok(0);
    }
    let stop = {
        let mut state = own.state.lock();
        let before = (state.stop, state.reported);
        // Of a stop that the tracer has not heard of it has decided nothing.
        state.is_answered = state.reported && matches!(state.stop, Stop::Event(event::SECCOMP, _));
        if state.reported {
            (state.stop, state.reported) = (Stop::Signal, false);
        }
        before
    };
    set_mode(thread, what);
    let given = if stop.1 { give_at(thread, stop.0, a[3]) } else { a[3] };
    let given = if let Some(Heard::Interrupts) = heard { SIGBUS.into() } else { given };
    let signal = give_up_call(me, thread, given);
    let result = linux(me, [request::CONT, a[1], 0, signal, 0, 0]);
    if result.is_err() {
        put_mode(thread, before.0, before.1);
        let mut state = own.state.lock();
        (state.stop, state.reported) = stop;
        (state.given, state.is_answered) = (0, false);
        return result;
    }
    park::let_go(thread);
    Ok(0)
}

/// Has a thread at its last stop take a signal that its tracer gives; which one Linux is to give
/// the worker.
fn give(thread: &Thread, signal: u64) -> u64 {
    let (stop, reported) = {
        let state = thread.ptrace.state.lock();
        (state.stop, state.reported)
    };
    if reported { give_at(thread, stop, signal) } else { signal }
}

/// At the beginning or the end of a call the thread sends the signal to itself; at an event none is
/// given. What is no signal, Linux refuses.
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

/// Registers were set of a thread that waits for Linux in a call. Its worker has to leave the call:
/// by a signal that the program does not see, where the tracer gives it none.
fn give_up_call(me: &Thread, thread: &Thread, signal: u64) -> u64 {
    if signal != 0 || !thread.parking.now().contains(Parking::IN_KERNEL | Parking::SET) {
        return signal;
    }
    let mut info = [0u64; 16];
    (info[0], info[1]) = (SIGBUS.into(), u64::from(INTERRUPT as u32));
    let scratch = me.write_scratch(info.as_bytes());
    let set = scratch
        .and_then(|at| linux(me, [request::SETSIGINFO, u64::from(thread.tid()), 0, at, 0, 0]));
    if set.is_ok() { SIGBUS.into() } else { 0 }
}
