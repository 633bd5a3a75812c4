//! Signals that a program itself causes (exceptions, calls that may not be made, frames that cannot
//! be), and the beginning and end of handlers.

use crate::gate::{coredump, fatal, observe, park, ptrace, rseq};
use crate::mm::pages::access::Signal as Fault;
use crate::parts::signals::Trap;
use crate::process::thread::Thread;
use crate::process::{self, oom};
use crate::sched::{cpus, panic};
use crate::signal::{sigframe, unhandled};
use hanare_core::errno::Result;
use hanare_core::signal::{self, AltStack, Disposition, QueuedSignal, SigAction, SigInfo};
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::{Regs, vector};

/// A page fault that could not be served.
pub fn fault(thread: &Thread, fault: Fault, addr: u64, regs: &mut Regs) {
    let (signal, code) = match fault {
        Fault::NotMapped => (signal::SIGSEGV, signal::SEGV_MAPERR),
        Fault::NotAllowed => (signal::SIGSEGV, signal::SEGV_ACCERR),
        Fault::Bus => (signal::SIGBUS, signal::BUS_ADRERR),
        Fault::BadMemory => {
            trapped(thread, Trap::page_fault(regs.orig_rax, addr));
            return bad_memory(thread, addr, regs);
        }
        Fault::NoMemory => {
            oom::kill_own(thread);
            return fatal::die(thread, signal::SIGKILL);
        }
    };
    trapped(thread, Trap::page_fault(regs.orig_rax, addr));
    force(thread, signal, SigInfo::fault(signal, code, addr), regs, Cause::Exception);
}

/// The program used memory at `addr` that is bad.
pub fn bad_memory(thread: &Thread, addr: u64, regs: &mut Regs) {
    force(thread, signal::SIGBUS, SigInfo::bad_memory(addr), regs, Cause::Exception);
}

/// An exception is about to raise a signal.
fn trapped(thread: &Thread, trap: Trap) {
    thread.signals.lock().trap = trap;
}

/// An exception that tells no address is about to raise a signal.
fn trapped_by(thread: &Thread, v: u8, error: u64) {
    let cr2 = thread.signals.lock().trap.cr2;
    trapped(thread, Trap { number: u64::from(v), error, cr2 });
}

/// Any other exception of the application.
pub fn exception(thread: &Thread, regs: &mut Regs, v: u8) {
    let (signal, info) = match v {
        vector::DIVIDE => fault_at(signal::SIGFPE, signal::FPE_INTDIV, regs.rip),
        vector::BREAKPOINT => (signal::SIGTRAP, SigInfo::kernel(signal::SIGTRAP)),
        vector::INVALID_OPCODE => fault_at(signal::SIGILL, signal::ILL_ILLOPN, regs.rip),
        vector::X87 | vector::SIMD => match float_code(v == vector::X87) {
            Some(code) => fault_at(signal::SIGFPE, code, regs.rip),
            None => return, // it is over
        },
        vector::ALIGNMENT => fault_at(signal::SIGBUS, signal::BUS_ADRALN, 0),
        vector::STACK | vector::NOT_PRESENT => (signal::SIGBUS, SigInfo::kernel(signal::SIGBUS)),
        _ => (signal::SIGSEGV, SigInfo::kernel(signal::SIGSEGV)),
    };
    trapped_by(thread, v, if v == vector::BREAKPOINT { 0 } else { regs.orig_rax });
    force(thread, signal, info, regs, Cause::Exception);
}

/// Which float exception the running thread has met.
fn float_code(x87: bool) -> Option<i32> {
    let mut state = FpuState::new();
    state.save();
    signal::float_code(state.bytes(), x87)
}

/// The thread has met an address of its debug registers.
pub fn watched(thread: &Thread, regs: &mut Regs) {
    debug_trap(thread, regs, signal::TRAP_HWBKPT);
}

/// The thread has `stepped`, or executed `int1`.
pub fn debug(thread: &Thread, regs: &mut Regs, stepped: bool) {
    debug_trap(thread, regs, if stepped { signal::TRAP_TRACE } else { signal::TRAP_BRKPT });
}

fn debug_trap(thread: &Thread, regs: &mut Regs, code: i32) {
    let (signal, info) = fault_at(signal::SIGTRAP, code, regs.rip);
    trapped_by(thread, vector::DEBUG, 0);
    force(thread, signal, info, regs, Cause::Exception);
}

fn fault_at(signal: u32, code: i32, addr: u64) -> (u32, SigInfo) {
    (signal, SigInfo::fault(signal, code, addr))
}

/// A signal that a system call raises instead of being made: handled now, or the end.
pub fn force_call(thread: &Thread, queued: QueuedSignal, regs: &mut Regs) {
    cpus::request_attention();
    force(thread, queued.signal, queued.info, regs, Cause::Kernel);
    regs.orig_rax = hanare_hal::traps::NO_CALL;
}

/// A frame cannot be taken or made: SIGSEGV, as Linux' force_sig().
pub fn force_segv(thread: &Thread, regs: &mut Regs) {
    force(thread, signal::SIGSEGV, SigInfo::kernel(signal::SIGSEGV), regs, Cause::Kernel);
}

/// The source of a signal that the program itself caused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// An exception of the processor, which the log tells of.
    Exception,
    /// A system call, or a frame that cannot be made.
    Kernel,
}

/// A signal of the program's own doing: handled now, or the end.
fn force(thread: &Thread, raised: u32, info: SigInfo, regs: &mut Regs, cause: Cause) {
    let queued = QueuedSignal { signal: raised, info };
    if thread.must_end() {
        // What was read or written may be missing for that very reason.
        process::end_thread(thread);
    }
    observe::trace::signal(thread, &queued);
    let Some(queued) = observe::debug::on_signal(thread, queued, regs) else { return };
    let Some(queued) = ptrace::on_forced(thread, queued, regs) else { return };
    let mask = thread.signals.lock().mask;
    let disposition =
        signal::decide_forced(queued.signal, &thread.process.signals.lock().actions, mask);
    match disposition {
        Disposition::Handle(action) => handle(thread, &queued, &action, regs),
        _ => {
            if cause == Cause::Exception && queued.signal == raised && !thread.ptrace.is_on() {
                let trap = thread.signals.lock().trap;
                unhandled::log(thread, raised, trap, regs);
            }
            if crate::base::log::debug_enabled() {
                panic::dump(regs);
            }
            match disposition {
                Disposition::Terminate { core: true } => coredump::die(thread, &queued, regs),
                _ => fatal::die(thread, queued.signal),
            }
        }
    }
}

/// Has the handler run, on the way to user mode. Where it cannot begin: SIGSEGV, which may have
/// a handler on a stack of its own, or the end.
pub fn handle(thread: &Thread, queued: &QueuedSignal, action: &SigAction, regs: &mut Regs) {
    park::stepped(thread, regs);
    let leaves_section = rseq::before_handler(thread, regs);
    match (begin_handler(thread, queued, action, regs), queued.signal) {
        (Err(_), signal::SIGSEGV) => fatal::die(thread, signal::SIGSEGV),
        (Err(_), _) => force_segv(thread, regs),
        (Ok(()), _) if leaves_section.is_ok() => {}
        (Ok(()), signal::SIGSEGV) => end_behind_handler(thread),
        (Ok(()), _) => force_segv(thread, regs), // its handler runs before this one
    }
}

/// A handler of SIGSEGV begins, and another SIGSEGV follows, which ends the process: as on Linux,
/// as soon as the handler lets it through.
fn end_behind_handler(thread: &Thread) {
    let mut own = thread.signals.lock();
    let queued = own.queue(signal::SIGSEGV, SigInfo::kernel(signal::SIGSEGV));
    let is_kept = own.mask.contains(signal::SIGSEGV) && queued.is_ok();
    drop(own);
    let default = thread.process.signals.lock().actions.set(signal::SIGSEGV, SigAction::default());
    if !is_kept || default.is_err() {
        fatal::die(thread, signal::SIGSEGV);
    }
}

/// Builds the frame and points the registers at the handler.
///
/// # Errors
/// The frame cannot be made; the signal mask is as it was.
fn begin_handler(
    thread: &Thread,
    queued: &QueuedSignal,
    action: &SigAction,
    regs: &mut Regs,
) -> Result<()> {
    let (alt, mask, trap) = {
        let s = thread.signals.lock();
        (s.alt, s.lasting, s.trap)
    };
    sigframe::build(queued, action, regs, &alt, mask, trap)?;
    let mut s = thread.signals.lock();
    let mask = action.mask_in_handler(queued.signal, s.mask);
    s.set(mask);
    if s.alt.flags & signal::SS_AUTODISARM != 0 {
        s.alt = AltStack::DISABLED;
    }
    Ok(())
}

/// rt_sigreturn: takes the frame back. A bad frame raises SIGSEGV.
pub fn sigreturn(thread: &Thread, regs: &mut Regs) {
    regs.rax = 0;
    regs.orig_rax = hanare_hal::traps::NO_CALL;
    if sigframe::restore(thread, regs).is_err() {
        cpus::request_attention();
        force_segv(thread, regs);
    }
}
