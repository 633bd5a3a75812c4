//! From the hardware layer into the kernel: system calls, exceptions, interrupts.

use crate::{calls, machinecheck, mm};
use crate::gate::{observe, ptrace, rseq};
use crate::gate::debugregs::{self, Cause};
use crate::sched::{cpus, panic};
use crate::sched::wait::wait_for_quota;
use crate::signal::signals;
use core::sync::atomic::Ordering;
use hanare_hal::apic;
use hanare_hal::traps::{self, Handlers, Regs, vector};
use hanare_hal::{cpu, percpu, shared};

/// Installed at boot.
pub static HANDLERS: Handlers = Handlers { syscall, user_exception, kernel_fault, interrupt, machine_check: machinecheck::in_kernel, fatal: panic::fatal_trap };

fn syscall(regs: &mut Regs) -> bool {
    calls::entry(regs);
    // Registers that came from elsewhere (sigreturn, exec) are all to be restored;
    // the fast return loses two of them.
    leave(regs) && regs.orig_rax != NO_CALL
}

/// `orig_rax` of registers that do not belong to a system call.
pub const NO_CALL: u64 = u64::MAX;

/// Everything that has to happen before user mode; true if the fast return is right.
#[inline]
fn leave(regs: &mut Regs) -> bool {
    !cpus::take_attention() || attend(regs)
}

#[inline(never)]
fn attend(regs: &mut Regs) -> bool {
    let mut fast = true;
    loop {
        wait_for_quota();
        cpus::before_user();
        fast &= !rseq::before_user(cpus::current(), regs);
        fast &= signals::deliver(regs);
        if regs.rip >= 1 << 47 {
            // A handler or a frame says so: the CPU would refuse, as on Linux.
            regs.orig_rax = 0;
            signals::raise_exception(regs, vector::PROTECTION);
            regs.orig_rax = NO_CALL;
            continue;
        }
        // Whatever was waited for there may have left something to do.
        if !cpus::take_attention() {
            return fast;
        }
    }
}

/// The same for a thread that enters user mode for the first time.
pub fn to_user(regs: &mut Regs) {
    cpus::request_attention();
    leave(regs);
}

fn user_exception(regs: &mut Regs, v: u8) {
    if v == vector::PAGE_FAULT {
        shared::cpu(percpu::index()).count_page_fault();
        let addr = cpu::cr2();
        if let Err(signal) = mm::fault::in_user_mode(addr, regs.orig_rax) {
            signals::raise_fault(signal, addr, regs);
        }
    } else if v == vector::DEBUG {
        debug_exception(regs);
    } else if v == vector::MACHINE_CHECK {
        machinecheck::in_program(regs);
    } else if !observe::debug::exception(regs, v) {
        signals::raise_exception(regs, v);
    }
    leave(regs);
}

fn debug_exception(regs: &mut Regs) {
    match debugregs::exception(regs) {
        Cause::Stale => {}
        Cause::Met(which, _) if observe::watch::met(regs, which) => {}
        Cause::Met(_, false) => signals::raise_watched(regs),
        Cause::Met(_, true) | Cause::Other => {
            if !observe::debug::exception(regs, vector::DEBUG) && !ptrace::stepped(regs) {
                signals::raise_exception(regs, vector::DEBUG);
            }
        }
    }
}

fn kernel_fault(addr: u64, write: bool) -> bool {
    shared::cpu(percpu::index()).count_page_fault();
    let Some(thread) = cpus::try_current() else { return false };
    if thread.in_place.load(Ordering::Relaxed) {
        return false;
    }
    let error = mm::fault::USER | if write { mm::fault::WRITE } else { 0 };
    // For a killed process nothing is brought in, and the copy must not be tried again for ever.
    mm::fault::user(addr, error).is_ok() && !thread.process.is_killed()
}

fn interrupt(regs: &mut Regs, v: u8, from_user: bool) {
    if v != 0xff {
        apic::eoi();
    }
    if v == apic::TIMER_VECTOR {
        cpus::on_timer();
    } else if from_user {
        cpus::on_ring();
    }
    if from_user {
        let nmis = traps::take_nmis();
        if nmis != 0 {
            crate::info!("{nmis} NMIs came that nobody asked for (a watchdog, a button, failing hardware); going on");
        }
        cpus::request_attention();
        leave(regs);
    }
}
