//! A traced thread stops for its tracer, and goes on with what that has changed.

use crate::gate::park;
use crate::link::{delegate, services};
use crate::parts::signals::Interrupted;
use crate::parts::tracee::{
    BLOCKS, CALLS, EXECED, GIVEN, HEARD, PERMITTED, REPLACED, SEIZED, TOLD, TRACED, TRACER, UNTOLD,
};
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use hanare_abi::control::{Control, Mirror};
use hanare_abi::service::{MAY_BE_TRACED, SERVICE_MAY};
use hanare_core::errno;
use hanare_core::gate::Who;
use hanare_core::link::Call;
use hanare_core::ptrace::permitted::Permitted;
use hanare_core::ptrace::{Stop, event, in_order, option};
use hanare_core::signal::{self, QueuedSignal, SigInfo};
use hanare_core::syscalls::{self, Restart};
use hanare_hal::traps::{self, Regs};
use zerocopy::IntoBytes;

/// The thread is traced from now on, by `tracer` if that is known already.
pub fn begin(thread: &Arc<Thread>, tracer: Option<&Arc<Thread>>, flags: u32, options: u64) {
    let own = &thread.ptrace;
    own.options.store(options, Ordering::Relaxed);
    if let Some(tracer) = tracer {
        set_tracer(thread, tracer);
    }
    let p = &thread.process;
    p.with_threads(|_| {
        own.set(TRACED | flags);
        p.observed.set_ptraced(true);
    });
}

pub fn set_tracer(thread: &Thread, tracer: &Arc<Thread>) {
    tracer.ptrace.set(TRACER);
    tracer.process.traces.store(true, Ordering::Relaxed);
    thread.ptrace.state.lock().tracer = Arc::downgrade(tracer);
}

/// The thread is traced no more, nor is the one that goes on for it ([`continue_as`]).
pub fn end(thread: &Arc<Thread>) {
    let tid = thread.tid(); // it was found just now, or runs: not later, when its process may be gone
    end_of(thread);
    // Looked for when `thread` is seen not to be traced any more: a thread that goes on for it and
    // has not seen that is there.
    if let Some(next) = spaces::successor(thread, tid) {
        end_of(&next);
    }
}

fn end_of(thread: &Arc<Thread>) {
    let own = &thread.ptrace;
    let p = &thread.process;
    // Under one lock with `begin` and with what enters a thread. A traced thread must not find the
    // flag off, or its calls would go without a stop. (`hanare_core::ptrace`, tests:
    // `the_flag_is_on_while_a_thread_is_traced`.)
    p.with_threads(|all| {
        own.clear(TRACED | SEIZED | CALLS | BLOCKS | EXECED | TOLD | UNTOLD | HEARD | REPLACED);
        p.observed.set_ptraced(all.iter().any(|t| t.ptrace.is_on()));
    });
    thread.parking.change(|parking, _| parking.step(Who::Tracer, false));
    own.options.store(0, Ordering::Relaxed);
    let mut state = own.state.lock();
    (state.tracer, state.heard) = (Weak::new(), 0);
    drop(state);
    park::let_go(thread);
}

/// A SIGTRAP for the tracer's sake; what it lets through waits for delivery.
fn signal_stop(thread: &Thread, regs: &mut Regs, info: SigInfo) {
    signal_stop_of(thread, regs, QueuedSignal { signal: signal::SIGTRAP, info });
}

/// As [`signal_stop`], of another signal.
fn signal_stop_of(thread: &Thread, regs: &mut Regs, queued: QueuedSignal) {
    if let Some(queued) = stop(thread, regs, queued, Stop::Signal) {
        let _ = thread.signals.lock().queue(queued.signal, queued.info);
    }
}

/// The thread has a new program: as if a SIGTRAP were sent to it.
pub fn exec_stop(thread: &Thread, regs: &mut Regs) {
    thread.ptrace.clear(EXECED);
    let pid = thread.process.pid();
    let uid = thread.ids.lock().uid;
    as_execve(thread, regs, |regs| {
        signal_stop(thread, regs, SigInfo::user(signal::SIGTRAP, pid, uid));
    });
}

/// Has the tracer see the registers of a new program as those of the execve that it is still in.
/// All of the registers are to be restored.
fn as_execve<R>(thread: &Thread, regs: &mut Regs, f: impl FnOnce(&mut Regs) -> R) -> R {
    regs.orig_rax = thread.ptrace.state.lock().call;
    thread.ptrace.set(REPLACED);
    let result = f(regs);
    thread.ptrace.clear(REPLACED);
    regs.orig_rax = traps::NO_CALL;
    result
}

/// A step is over that the CPU does not trap after.
pub fn step_stop(thread: &Thread, regs: &mut Regs) {
    if thread.parking.change(|parking, _| parking.take_step(Who::Tracer)) {
        signal_stop(thread, regs, SigInfo::fault(signal::SIGTRAP, signal::TRAP_BRKPT, regs.rip));
    }
}

/// Stops for the tracer by a signal; gives it if the tracer lets it through.
fn stop(
    thread: &Thread,
    regs: &mut Regs,
    queued: QueuedSignal,
    stop: Stop,
) -> Option<QueuedSignal> {
    let own = &thread.ptrace;
    let raw = stop != Stop::Signal;
    cpus::request_attention();
    // The worker may have stopped for another signal meanwhile, of which the tracer knows: it waits
    // for the registers, and the stop that begins here comes only after that one.
    park::leave(thread, regs, raw);
    {
        let mut state = own.state.lock();
        (state.stop, state.reported, state.let_through, state.given) = (stop, false, None, 0);
        state.is_answered = false;
    }
    own.trapping.store(queued.signal, Ordering::SeqCst);
    let sent = thread
        .write_scratch(queued.info.as_bytes())
        .and_then(|_| delegate::result_of(thread, Control::Trap { signal: queued.signal }));
    own.trapping.store(0, Ordering::SeqCst);
    park::go_on(thread, regs, raw);
    let let_through = {
        let mut state = own.state.lock();
        (state.stop, state.reported) = (Stop::Signal, false);
        state.let_through.take()
    };
    match sent {
        Ok(_) => let_through,
        // Linux takes no more signals: as if there were no tracer.
        Err(_) => Some(queued),
    }
}

/// Stops at something that is not a signal. The signal that the tracer gives there, or 0.
pub fn report(thread: &Thread, regs: &mut Regs, what: Stop) -> u32 {
    let uid = thread.ids.lock().uid;
    let good = thread.ptrace.wants(option::TRACESYSGOOD);
    let mut info = SigInfo::user(signal::SIGTRAP, thread.tid(), uid);
    info.code = what.code(good);
    // The SIGTRAP is none that the program could get.
    let _ = stop(thread, regs, QueuedSignal { signal: signal::SIGTRAP, info }, what);
    core::mem::take(&mut thread.ptrace.state.lock().given)
}

/// Sends a signal that the tracer has given at the beginning or the end of a call to the thread.
/// The tracer hears of it as of any other one.
fn send_given(thread: &Thread, regs: &mut Regs, signal: u32) {
    if signal == 0 || thread.must_end() {
        return;
    }
    let info = SigInfo::kernel(signal);
    let action = thread.process.signals.lock().actions.get(signal);
    let is_blocked = thread.signals.lock().mask.contains(signal);
    if thread.ptrace.has(TRACED)
        && !is_blocked
        && signal::mirror(signal, &action) == Mirror::Forward
    {
        // The call is over, and the tracer is to see its result.
        return signal_stop_of(thread, regs, QueuedSignal { signal, info });
    }
    send(thread, signal, info);
}

/// Linux sends it: it waits there, ends or stops the process, or is forwarded.
fn send(thread: &Thread, signal: u32, info: SigInfo) {
    let _ = thread.write_scratch(info.as_bytes()).and_then(|_| {
        let request = Control::RequeueSignal { signal, for_process: false, is_back: false };
        delegate::result_of(thread, request)
    });
}

pub fn report_event(thread: &Thread, regs: &mut Regs, event: u32, message: u32) {
    report(thread, regs, Stop::Event(event, message.into())); // what is given there Linux drops
    thread.ptrace.set(TOLD);
}

/// A signal of the program's own doing: the tracer hears of it first.
pub fn on_forced(thread: &Thread, queued: QueuedSignal, regs: &mut Regs) -> Option<QueuedSignal> {
    if !thread.ptrace.has(TRACED) || queued.signal == signal::SIGKILL {
        return Some(queued);
    }
    stop(thread, regs, queued, Stop::Signal)
}

/// A system call begins. False: it is not made.
pub fn enter(thread: &Thread, regs: &mut Regs) -> bool {
    if !thread.ptrace.has(TRACED) {
        return true;
    }
    cpus::request_attention();
    thread.ptrace.state.lock().call = regs.orig_rax;
    regs.rax = errno::ENOSYS.as_return() as u64;
    if !thread.ptrace.has(CALLS) {
        return true;
    }
    let given = report(thread, regs, Stop::Entry);
    thread.ptrace.set(TOLD);
    let is_made = regs.orig_rax as i32 >= 0 && !thread.must_end();
    if given == 0 { is_made } else { give_at_entry(thread, regs, given, is_made) }
}

/// Whether the call is still to be made (it was to be if `is_made`), at whose beginning the tracer
/// has given a signal. One that waits is interrupted before it begins; the signal comes behind any
/// other.
fn give_at_entry(thread: &Thread, regs: &mut Regs, given: u32, is_made: bool) -> bool {
    let restart = syscalls::row(regs.orig_rax).map_or(Restart::Never, |row| row.restart);
    if given == signal::SIGKILL {
        send(thread, given, SigInfo::kernel(given));
        return false;
    }
    if !is_made || restart == Restart::Never {
        thread.ptrace.state.lock().given_at_entry = given;
        thread.ptrace.set(GIVEN);
        return is_made;
    }
    send(thread, given, SigInfo::kernel(given));
    if !thread.has_signal() {
        return !thread.must_end(); // blocked, or the tracer has not let it through
    }
    thread.signals.lock().set_interrupted(Interrupted::Local(restart));
    false
}

/// The running thread's filters leave a call to its tracer, which gets to know `data`. False: it is
/// not made.
pub fn permits(thread: &Thread, regs: &mut Regs, data: u32) -> bool {
    report_event(thread, regs, event::SECCOMP, data);
    // The end of the stop proves nothing: a proxy may have left it out.
    if !core::mem::take(&mut thread.ptrace.state.lock().is_answered) {
        regs.rax = errno::ENOSYS.as_return() as u64;
        return false;
    }
    regs.orig_rax as i32 >= 0 && !thread.must_end()
}

/// The running thread makes the call, with this number, that its tracer has let through: its worker
/// may, too.
pub fn permit(thread: &Thread, number: Option<u32>) {
    let own = &thread.ptrace;
    if let Some(number) = number {
        own.state.lock().permitted = Permitted::new(number);
        own.set(PERMITTED);
    } else {
        own.clear(PERMITTED);
    }
}

/// The running thread, which is observed, asks its worker for a call. For a call that its tracer
/// has let through, the worker may make this one and no other.
pub fn asks_call(thread: &Thread, call: &Call) {
    if thread.ptrace.has(PERMITTED) {
        thread.ptrace.state.lock().permitted.asks_call(call.nr, call.args);
    }
}

/// The running thread asks its worker for `request`. For a call that its tracer has let through,
/// the worker may make the clone or execve that `request` stands for, and no other call.
pub fn asks(thread: &Thread, request: &Control) {
    if thread.ptrace.has(PERMITTED) {
        thread.ptrace.state.lock().permitted.asks(request);
    }
}

/// A system call is over.
pub fn leave(thread: &Thread, regs: &mut Regs) {
    let own = &thread.ptrace;
    park::stepped(thread, regs);
    let replaced = own.clear(REPLACED);
    let at_entry =
        if own.clear(GIVEN) { core::mem::take(&mut own.state.lock().given_at_entry) } else { 0 };
    let mut at_exit = 0;
    if own.has(TRACED) && !thread.must_end() {
        cpus::request_attention();
        // A stop that lies within the call for us comes behind it on Linux.
        if own.clear(TOLD) && own.has(CALLS) {
            let interrupted = thread.signals.lock().is_interrupted();
            if interrupted {
                regs.rax = park::restart_code(regs);
            }
            let tell = |regs: &mut Regs| report(thread, regs, Stop::Exit);
            at_exit = if replaced { as_execve(thread, regs, tell) } else { tell(regs) };
        }
    }
    if (at_entry != 0 || at_exit != 0) && own.has(EXECED) {
        exec_stop(thread, regs); // Linux sends this one first
    }
    for signal in in_order(at_entry, at_exit) {
        let give = |regs: &mut Regs| send_given(thread, regs, signal);
        if replaced { as_execve(thread, regs, give) } else { give(regs) }
    }
}

/// The thread `old` has replaced the program, and `new` goes on for it, with the id and the
/// worker of the first one.
pub fn succeed(old: &Thread, new: &Arc<Thread>) {
    if old.process.first_traced.load(Ordering::Relaxed) {
        take_over(old, new);
    }
}

/// The thread `old` has replaced the program, and `new`, by which it is known already, goes on for
/// it in another space, with its worker.
pub fn continue_as(old: &Thread, new: &Arc<Thread>) {
    if !old.ptrace.has(TRACED) {
        return;
    }
    take_over(old, new);
    // Its end is not that of a tracee.
    if !old.ptrace.clear(TRACED) {
        end_of(new); // the tracer has let go of it meanwhile
    }
}

fn take_over(old: &Thread, new: &Arc<Thread>) {
    let own = &old.ptrace;
    let tracer = own.state.lock().tracer.upgrade();
    let kept = own.flags.load(Ordering::SeqCst) & (SEIZED | CALLS | BLOCKS | TOLD | GIVEN);
    let steps = old.parking.now().steps(Who::Tracer);
    new.parking.change(|parking, _| parking.step(Who::Tracer, steps));
    let (given_at_entry, call) = {
        let state = own.state.lock();
        (state.given_at_entry, state.call)
    };
    begin(new, tracer.as_ref(), kept, own.options.load(Ordering::Relaxed));
    let mut state = new.ptrace.state.lock();
    (state.former, state.given_at_entry, state.call) = (old.tid(), given_at_entry, call);
}

/// The thread gets rights from a program that it is about to run. A tracer that traces it on Linux
/// no more is not to have them.
pub fn on_rights(thread: &Thread) {
    if thread.ptrace.is_on()
        && services::by_worker(thread, SERVICE_MAY, &[0, 0, MAY_BE_TRACED], &[]).is_err()
    {
        end(&thread.arc());
    }
}

/// A new program begins.
pub fn on_exec(thread: &Thread, regs: &mut Regs) {
    let own = &thread.ptrace;
    if own.wants(option::TRACEEXEC) {
        let former = core::mem::take(&mut own.state.lock().former);
        let former = if former == 0 { thread.tid() } else { former };
        let result = core::mem::replace(&mut regs.rax, errno::ENOSYS.as_return() as u64);
        as_execve(thread, regs, |regs| report_event(thread, regs, event::EXEC, former));
        regs.rax = result;
    } else if own.has(TRACED) && !own.has(SEIZED) {
        own.set(EXECED | TOLD);
    }
    if own.has(TRACED) {
        own.set(REPLACED);
    }
}
