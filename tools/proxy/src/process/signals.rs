//! Signals of the process, told to the LWK.
//!
//! For each signal Linux keeps one of three dispositions (`Control::SignalAction`):
//! default, ignore, or *forward*: our handler tells the LWK (`IOCTL_SIGNAL`),
//! which queues the signal and delivers it to the application or ends it.
//!
//! # A signal interrupts the call, and only the call
//!
//! How that is: `ikc/src/abort.rs`, which a model explores. Here is where an instruction of
//! `abortable_call` is told ([`place`]), and what the handler does about it.
//!
//! # Timers and real-time signals
//!
//! Their signals stay blocked until the worker takes its next request
//! ([`stays_blocked`] says why). The LWK knows, and makes a request when the application's
//! handler has returned.
//!
//! # Signals that the thread blocks
//!
//! Linux hears of a mask with the next call only. So it may have this worker take a signal for the
//! process that its thread blocks by now, while the thread that is to have it waits in a call of
//! Linux'. The LWK refuses the signal (`EAGAIN`): it is blocked here as well, as for a timer, and
//! sent once more. Where all block it, it so comes to wait on Linux.
//!
//! # SIGBUS
//!
//! is how the module tells a worker that is blocked in a call of the LWK's death:
//! with a kernel's si_code and an address of the device's mapping. So it is never
//! ignored, nor blocked by [`applied`]; the LWK knows what the application wants.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hanare_abi::control::Mirror;
use hanare_abi::ioctl::{IOCTL_LAST, IOCTL_SIGNAL, Last, Signal};
use hanare_abi::layout::{MESSAGES_END, USER_MIN};
use hanare_abi::signal::stays_blocked;
use hanare_abi::utility::{INTERRUPT_CODE, LEFT_CALL, LEFT_FAULT, LEFT_SIGNAL, LEFT_TRAP};
use hanare_ikc::GoOn;
use linux_raw_sys::errno::{EAGAIN, EINTR, EINVAL, EIO};
use linux_raw_sys::general::*;

use crate::base::message::{EXIT_HANARE, die, print};
use crate::process::{self, servers};
use crate::sys::arch::{abort_address, current_worker, done_address, place};
use crate::sys::signal::{self, Action, Frame, Info, LAST, Mask, Place, bit};
use crate::sys::utility;
use crate::sys::worker::{Role, Worker};
use crate::sys::{self, Errno};

/// Signals that Linux ignores by default, or that stop or continue a process:
/// Linux handles them unless the application catches them.
const NOT_FATAL: Mask = bit(SIGCHLD)
    | bit(SIGCONT)
    | bit(SIGSTOP)
    | bit(SIGTSTP)
    | bit(SIGTTIN)
    | bit(SIGTTOU)
    | bit(SIGURG)
    | bit(SIGWINCH);

/// Raised by the CPU for a fault of the proxy itself.
const FAULTS: Mask = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE);

/// Whether the default action of `signal` ends the process.
fn fatal(signal: u32) -> bool {
    NOT_FATAL & bit(signal) == 0
}

/// Forwards everything that would end the process and is not ignored, as a new program needs it.
/// All signals are blocked.
pub fn forward_fatal() {
    let signals = !NOT_FATAL & !bit(SIGKILL);
    if let Err(error) = signal::forward_all(process::get().space.fd, signals, bit(SIGBUS)) {
        die(EXIT_HANARE, format_args!("cannot take signals: {error}"));
    }
}

/// The signals whose actions were changed since the last execve.
static CHANGED: AtomicU64 = AtomicU64::new(0);

/// After execve: what was caught has its default action again.
pub fn reset_caught() {
    let changed = CHANGED.swap(0, Ordering::Relaxed);
    for signal in (1..=LAST).filter(|&signal| changed & bit(signal) != 0) {
        if let Ok(Action::Forward { .. }) = signal::action(signal) {
            let action =
                if fatal(signal) { Action::Forward { restart: false } } else { Action::Default };
            let _ = signal::set_action(signal, action);
        }
    }
}

/// `Control::SignalAction`: sets the proxy's disposition of `signal` to what stands for the
/// program's.
pub fn mirror(signal: u32, disposition: Mirror, flags: u64) -> sys::Result<()> {
    let signal = valid(signal)?;
    let restart = flags & u64::from(SA_RESTART) != 0;
    let action = match disposition {
        // With servers its handler ends calls on behalf of other signals: whether they are made
        // again is the LWK's to say.
        _ if signal == SIGBUS && servers::are_used() => Action::Forward { restart: false },
        Mirror::Default | Mirror::Ignore if signal == SIGBUS => Action::Forward { restart },
        Mirror::Ignore if forwards_raised(signal) => Action::Forward { restart: true },
        Mirror::Default => Action::Default,
        Mirror::Ignore => Action::Ignore,
        Mirror::Forward => Action::Forward { restart },
    };
    CHANGED.fetch_or(bit(signal), Ordering::Relaxed);
    signal::set_action_and(signal, action, flags)
}

/// The process has utility threads: what their code raises is forwarded even if the program ignores
/// it.
static FORWARDS_RAISED: AtomicBool = AtomicBool::new(false);

fn forwards_raised(signal: u32) -> bool {
    utility::SYNCHRONOUS & bit(signal) != 0 && FORWARDS_RAISED.load(Ordering::Relaxed)
}

/// Forwards what the code of utility threads raises, from now on: Linux would end a process that
/// ignores it.
pub fn forward_raised() -> sys::Result<()> {
    FORWARDS_RAISED.store(true, Ordering::Relaxed);
    for signal in (1..=LAST).filter(|&signal| forwards_raised(signal)) {
        if signal::action(signal)? == Action::Ignore {
            signal::set_action(signal, Action::Forward { restart: true })?;
        }
    }
    Ok(())
}

/// `Control::SignalAction`: ignores all of `signals`, too.
pub fn ignore(signals: Mask) {
    for signal in (1..=LAST).filter(|&signal| signals & bit(signal) != 0) {
        let _ = mirror(signal, Mirror::Ignore, 0); // the LWK asks for no signal that has no disposition
    }
}

/// The mask a worker sets when the application wants `mask`.
pub fn applied(mask: Mask) -> Mask {
    mask & !bit(SIGBUS)
}

/// A signal number that came from the LWK.
pub fn valid(signal: u32) -> sys::Result<u32> {
    Some(signal).filter(|signal| (1..=LAST).contains(signal)).ok_or(Errno(EINVAL))
}

/// The handler: all signals are blocked, the stack is the worker's own.
pub fn taken(signal: u32, info: &Info, frame: &mut Frame) {
    let worker = current_worker();
    if frame.is_of_program() {
        return taken_in_code(worker, signal, info, frame);
    }
    if signal == SIGBUS && info.code() == INTERRUPT {
        return interrupted(worker, frame);
    }
    if FAULTS & bit(signal) != 0 && frame.raised(info) {
        own_fault(signal, info, frame);
    }
    if tell(worker, signal, info, frame) {
        redirect(worker.call.load(Ordering::Relaxed), frame);
        interrupt_server(worker);
    }
}

/// Tells the LWK of a signal. False: it is to stay with Linux, blocked here.
fn tell(worker: &Worker, signal: u32, info: &Info, frame: &mut Frame) -> bool {
    let mut request = Signal { signal, slot: worker.slot(), info: info.words };
    match sys::ioctl(process::get().space.fd, IOCTL_SIGNAL, &mut request) {
        Ok(()) => {
            worker.interrupted.mark();
            let raised = if frame.is_of_program() { utility::SYNCHRONOUS } else { FAULTS };
            if stays_blocked(signal, info.code()) && raised & bit(signal) == 0 {
                worker.held.store(true, Ordering::Relaxed);
                frame.block(signal);
            }
            true
        }
        Err(Errno(EAGAIN)) => {
            worker.held.store(true, Ordering::Relaxed);
            frame.block(signal);
            signal::give_back(process::get().space.fd, signal, info);
            false
        }
        Err(Errno(EIO)) => process::lwk_died(),
        // No thread there to ask (not started yet, or ending): Linux' default.
        Err(_) => end_by(signal),
    }
}

/// si_code of a system call that a filter has trapped.
const SYS_SECCOMP: i32 = 1;

/// Whether a signal is for a system call, of this architecture, that a filter has trapped.
pub fn is_call(signal: u32, info: &Info) -> bool {
    const X86_64: u64 = 0xc000_003e;
    signal == SIGSYS && info.code() == SYS_SECCOMP && info.words[3] >> 32 == X86_64
}

/// As [`taken`], where the signal has interrupted the code of a utility thread: the thread leaves
/// it. What its own instruction has raised the LWK is to see, not Linux.
fn taken_in_code(worker: &Worker, signal: u32, info: &Info, frame: &mut Frame) {
    const INT_80: u64 = 2; // bytes of the instruction
    const OVER: [u64; 3] = [1, 3, 4]; // debug exception, breakpoint, overflow: none is raised by the next instruction
    let by_kernel = info.code() > 0 && utility::is_code(frame.rip());
    if is_call(signal, info) {
        utility::leave(worker, frame, LEFT_CALL);
    }
    if signal == SIGSYS && info.code() == SYS_SECCOMP {
        frame.step_back(INT_80); // it is not a call there either
        utility::leave(worker, frame, LEFT_FAULT);
    }
    if (FAULTS | bit(SIGTRAP)) & bit(signal) != 0 && by_kernel {
        let trap = frame.trap();
        let is_over = matches!(signal, SIGTRAP | SIGSEGV) && OVER.contains(&trap);
        utility::leave(worker, frame, if is_over { LEFT_TRAP + trap } else { LEFT_FAULT });
    }
    if signal == SIGBUS && info.code() == INTERRUPT {
        worker.interrupted.mark();
    } else if !tell(worker, signal, info, frame) {
        return;
    }
    utility::leave(worker, frame, LEFT_SIGNAL)
}

/// si_code of a SIGBUS that one worker sends another, or the LWK: nothing but an interruption.
const INTERRUPT: i32 = INTERRUPT_CODE;

/// Has come to a worker, whose thread has to leave its call, or to a server.
fn interrupted(worker: &Worker, frame: &mut Frame) {
    if let Role::Server(number) = worker.role {
        // Late, or sent by another process, it is for no call, and Linux ends the one of another
        // thread by EINTR all the same. With the mark the LWK learns of that, and makes the call
        // again.
        servers::forget_signal(process::get(), number);
    }
    worker.interrupted.mark();
    redirect(worker.call.load(Ordering::Relaxed), frame);
    interrupt_server(worker);
}

/// Where the call of the worker's thread is in the request box: the signal keeps it from being
/// started, or goes to the server that executes it.
fn interrupt_server(worker: &Worker) {
    if !matches!(worker.role, Role::Server(_)) {
        servers::interrupt(process::get(), worker, |tid| {
            let _ = interrupt(tid);
        });
    }
}

/// `Control::Interrupt`: ends the call of another worker, by a signal to its thread.
pub fn interrupt(tid: u32) -> sys::Result<()> {
    signal::queue(process::get().space.fd, tid, SIGBUS, INTERRUPT)
}

/// Keeps call `nr`, where the signal met it, from being started (again).
fn redirect(nr: u32, frame: &mut Frame) {
    let is_rest = frame.rax() == u64::from(__NR_restart_syscall) && nr != __NR_restart_syscall;
    match hanare_ikc::redirect::<{ hanare_ikc::REAL }>(place(frame.rip()), is_rest) {
        GoOn::There => {}
        GoOn::Abort => frame.go_to(abort_address(), frame.rax()),
        GoOn::Interrupted => frame.go_to(done_address(), -i64::from(EINTR) as u64),
    }
}

/// The proxy itself did something wrong, or the LWK's memory went away.
fn own_fault(signal: u32, info: &Info, frame: &Frame) -> ! {
    let address = info.address();
    if signal == SIGBUS && (USER_MIN..MESSAGES_END).contains(&address) {
        process::lwk_died();
    }
    print(format_args!(
        "hanare-proxy failed: signal {signal} at {:#x}, address {address:#x}; please report this",
        frame.rip()
    ));
    end_by(signal)
}

/// Ends the process by `signal` with its default action.
pub fn end_by(signal: u32) -> ! {
    let _ = signal::set_action(signal, Action::Default);
    let fd = process::get().space.fd;
    let _ = sys::ioctl(fd, IOCTL_LAST, &mut Last { signal, reserved: 0 });
    signal::set_mask(!0);
    signal::raise(fd, signal);
    signal::set_mask(!bit(signal));
    // Not reached.
    sys::exit(128 + signal)
}

/// `Control::Trap`: has Linux deliver `signal` to this thread, which stops for its tracer first.
/// As for a fault, nothing keeps the signal back.
/// Afterwards this thread blocks what `mask` says by then: the tracer may have had the program's
/// mask set.
pub fn trap(worker: &Worker, signal: u32, info: u64, mask: impl Fn() -> Mask) -> sys::Result<()> {
    let signal = valid(signal)?;
    let before = signal::action(signal)?;
    let forwarded = matches!(before, Action::Forward { .. });
    if !forwarded {
        signal::set_action(signal, Action::Forward { restart: false })?;
    }
    let before_stop = signal::set_mask(!0);
    let sent = requeue(signal, info, Place { process: false, first: false });
    signal::set_mask(before_stop & !bit(signal));
    signal::set_mask(mask());
    worker.held.store(true, Ordering::Relaxed);
    if !forwarded {
        signal::set_action(signal, before)?;
    }
    sent
}

/// Makes `signal` pending with the siginfo at `info`, an address in the control window.
fn requeue(signal: u32, info: u64, place: Place) -> sys::Result<()> {
    let space = &process::get().space;
    signal::requeue(space.fd, signal, space.window.read_words(info), place)
}

/// `Control::RequeueSignal`.
pub fn give_to_linux(signal: u32, info: u64, place: Place) -> sys::Result<()> {
    requeue(valid(signal)?, info, place)
}

/// `Control::StopSignal`: stops the process by `signal`; back when it is continued.
pub fn stop_by(signal: u32) -> sys::Result<()> {
    let signal = valid(signal)?;
    if fatal(signal) {
        return Err(Errno(EINVAL));
    }
    let before = signal::action(signal)?;
    let mask = signal::set_mask(!0);
    // SIGSTOP has no other action, and says so.
    let changed = signal::set_action(signal, Action::Default).is_ok();
    signal::raise(process::get().space.fd, signal);
    signal::set_mask(mask & !bit(signal));
    if changed {
        signal::set_action(signal, before)?;
    }
    signal::set_mask(mask);
    Ok(())
}
