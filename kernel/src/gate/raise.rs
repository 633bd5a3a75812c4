//! Signals that a program itself causes (exceptions, calls that may not be made, frames that cannot
//! be), and the beginning and end of handlers.

use crate::gate::{coredump, fatal, observe, park, ptrace, rseq};
use crate::mm::access::Signal as Fault;
use crate::parts::signals::Trap;
use crate::process::thread::Thread;
use crate::process::{self, oom, thread};
use crate::sched::{cpus, panic};
use crate::signal::{sigframe, unhandled};
use hanare_core::errno::Result;
use hanare_core::signal::{self, AltStack, Disposition, QueuedSignal, SigAction, SigInfo};
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::{Regs, vector};

/// A page fault that could not be served.
pub fn fault(fault: Fault, addr: u64, regs: &mut Regs) {
    let (signal, code) = match fault {
        Fault::NotMapped => (signal::SIGSEGV, signal::SEGV_MAPERR),
        Fault::NotAllowed => (signal::SIGSEGV, signal::SEGV_ACCERR),
        Fault::Bus => (signal::SIGBUS, signal::BUS_ADRERR),
        Fault::BadMemory => {
            trapped(Trap::page_fault(regs.orig_rax, addr));
            return bad_memory(addr, regs);
        }
        Fault::NoMemory => {
            oom::kill_current();
            return fatal::die(signal::SIGKILL);
        }
    };
    trapped(Trap::page_fault(regs.orig_rax, addr));
    force(signal, SigInfo::fault(signal, code, addr), regs, Cause::Exception);
}

/// The program used memory at `addr` that is bad.
pub fn bad_memory(addr: u64, regs: &mut Regs) {
    force(signal::SIGBUS, SigInfo::bad_memory(addr), regs, Cause::Exception);
}

/// An exception is about to raise a signal.
fn trapped(trap: Trap) {
    thread::current().signals.lock().trap = trap;
}

/// An exception that tells no address is about to raise a signal.
fn trapped_by(v: u8, error: u64) {
    let cr2 = thread::current().signals.lock().trap.cr2;
    trapped(Trap { number: u64::from(v), error, cr2 });
}

/// Any other exception of the application.
pub fn exception(regs: &mut Regs, v: u8) {
    let (signal, info) = match v {
        vector::DIVIDE => fault_at(signal::SIGFPE, signal::FPE_INTDIV, regs.rip),
        vector::DEBUG => fault_at(signal::SIGTRAP, signal::TRAP_TRACE, regs.rip),
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
    trapped_by(v, if matches!(v, vector::DEBUG | vector::BREAKPOINT) { 0 } else { regs.orig_rax });
    force(signal, info, regs, Cause::Exception);
}

/// Which float exception the running thread has met.
fn float_code(x87: bool) -> Option<i32> {
    let mut state = FpuState::new();
    state.save();
    signal::float_code(state.bytes(), x87)
}

/// The thread has met an address of its debug registers.
pub fn watched(regs: &mut Regs) {
    let (signal, info) = fault_at(signal::SIGTRAP, signal::TRAP_HWBKPT, regs.rip);
    trapped_by(vector::DEBUG, 0);
    force(signal, info, regs, Cause::Exception);
}

fn fault_at(signal: u32, code: i32, addr: u64) -> (u32, SigInfo) {
    (signal, SigInfo::fault(signal, code, addr))
}

/// A signal that a system call raises instead of being made: handled now, or the end.
pub fn force_call(queued: QueuedSignal, regs: &mut Regs) {
    cpus::request_attention();
    force(queued.signal, queued.info, regs, Cause::Kernel);
    regs.orig_rax = hanare_hal::traps::NO_CALL;
}

/// A frame cannot be taken or made: SIGSEGV, as Linux' force_sig().
pub fn force_segv(regs: &mut Regs) {
    force(signal::SIGSEGV, SigInfo::kernel(signal::SIGSEGV), regs, Cause::Kernel);
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
fn force(raised: u32, info: SigInfo, regs: &mut Regs, cause: Cause) {
    let queued = QueuedSignal { signal: raised, info };
    let thread = thread::current();
    if thread.must_end() {
        // What was read or written may be missing for that very reason.
        process::end_thread(&thread.process, thread);
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
                _ => fatal::die(queued.signal),
            }
        }
    }
}

/// Has the handler run, on the way to user mode. Where it cannot begin: SIGSEGV, which may have
/// a handler on a stack of its own, or the end.
pub fn handle(thread: &Thread, queued: &QueuedSignal, action: &SigAction, regs: &mut Regs) {
    park::stepped(thread, regs);
    if begin_handler(thread, queued, action, regs).is_err() {
        match queued.signal {
            signal::SIGSEGV => fatal::die(signal::SIGSEGV),
            _ => force_segv(regs),
        }
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
    rseq::before_handler(thread, regs)?;
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
pub fn sigreturn(regs: &mut Regs) {
    regs.rax = 0;
    regs.orig_rax = hanare_hal::traps::NO_CALL;
    if sigframe::restore(regs).is_err() {
        cpus::request_attention();
        force_segv(regs);
    }
}
