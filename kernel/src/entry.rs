//! From the hardware layer into the kernel: system calls, exceptions, interrupts.

use crate::calls::dispatch;
use crate::gate::debugregs::{self, Cause};
use crate::gate::{deliver, observe, park, raise, rseq};
use crate::mm;
use crate::process::thread;
use crate::route::utility;
use crate::sched::{cpus, machinecheck, panic, wait};
use crate::signal::unhandled;
use core::sync::atomic::Ordering;
use hanare_abi::observe::OBSERVED_STEP;
use hanare_core::signal::SIGTRAP;
use hanare_hal::traps::{self, Handlers, NO_CALL, Regs, vector};
use hanare_hal::{cpu, shared};

/// Installed at boot.
pub static HANDLERS: Handlers = Handlers {
    calls: &dispatch::CALLS,
    syscall,
    leave,
    user_exception,
    kernel_fault,
    timer: cpus::on_timer,
    interrupt,
    machine_check: machinecheck::in_kernel,
    fatal: panic::fatal_trap,
};

fn syscall(regs: &mut Regs) -> bool {
    serve(regs);
    leave(regs)
}

fn serve(regs: &mut Regs) {
    if thread::current().process.observed.is_on() {
        observe::call(regs, dispatch::serve);
    } else {
        dispatch::serve(regs, regs.orig_rax);
    }
}

/// Does all that has to happen before user mode. True: the fast return is right. It loses two
/// registers; registers that came from elsewhere (sigreturn, exec) are all to be restored.
fn leave(regs: &mut Regs) -> bool {
    let fast = gate(regs);
    if thread::current().utility.is_wanted() {
        leave_to_linux(regs);
        return false;
    }
    fast
}

/// A utility thread goes on on Linux, until it has to be in user mode here. When it comes back it
/// passes the gate in any case: signals may have come, or the order to end, and its registers are
/// what its proxy says.
#[cold]
fn leave_to_linux(regs: &mut Regs) {
    loop {
        let is_to_leave_again = utility::execute(regs, serve);
        cpus::request_attention();
        gate(regs);
        if !is_to_leave_again {
            return;
        }
    }
}

/// As [`leave`], for one that enters user mode on the LWK.
fn gate(regs: &mut Regs) -> bool {
    let mut fast = true;
    while cpus::take_attention() {
        wait::for_quota();
        cpus::before_user();
        fast &= !rseq::before_user(thread::current(), regs).unwrap_or_else(|_| {
            raise::exception(regs, vector::PROTECTION);
            true
        });
        fast &= deliver::deliver(regs);
        if regs.rip >= 1 << 47 {
            // A handler or a frame says so: the CPU would refuse, as on Linux.
            regs.orig_rax = 0;
            raise::exception(regs, vector::PROTECTION);
            regs.orig_rax = NO_CALL;
            cpus::request_attention();
        }
        // Whatever was waited for there may have left something to do.
    }
    fast && regs.orig_rax != NO_CALL
}

/// As [`leave`], for a thread that enters user mode for the first time, see `user_mode`.
pub fn prepare(regs: &mut Regs) {
    leave(regs);
}

fn user_exception(regs: &mut Regs, v: u8) {
    if v == vector::PAGE_FAULT {
        shared::here().count_page_fault();
        let addr = cpu::cr2();
        if let Err(signal) = mm::fault::in_user_mode(thread::current(), addr, regs.orig_rax) {
            raise::fault(signal, addr, regs);
        }
    } else if v == vector::DEBUG {
        debug_exception(regs);
    } else if v == vector::MACHINE_CHECK {
        machine_check(regs);
    } else if v != vector::BREAKPOINT || !observe::debug::breakpoint(thread::current(), regs) {
        raise::exception(regs, v);
    }
    leave(regs);
}

fn machine_check(regs: &mut Regs) {
    let Some(paddr) = machinecheck::in_user_mode(regs) else { return };
    let thread = thread::current();
    crate::info!(
        "machine check: {} used bad memory at {paddr:#x}, ip {:#x}",
        unhandled::name_of(thread),
        regs.rip
    );
    let addr = mm::bad::forget(&thread.caller(), paddr.page_down());
    raise::bad_memory(addr, regs);
}

fn debug_exception(regs: &mut Regs) {
    match debugregs::exception(regs) {
        Cause::Stale => {}
        Cause::Met(which, _) if observe::watch::met(regs, which) => {}
        Cause::Met(_, false) => raise::watched(regs),
        Cause::Met(_, true) | Cause::Other => {
            let thread = thread::current();
            let trap = park::trapped(thread, regs);
            if trap.debugger {
                observe::debug::report(thread, regs, OBSERVED_STEP, SIGTRAP, 0);
            }
            if trap.tracer || trap.program {
                raise::exception(regs, vector::DEBUG);
            }
        }
    }
}

fn kernel_fault(addr: u64, write: bool) -> bool {
    shared::here().count_page_fault();
    let Some(thread) = thread::try_current() else { return false };
    if thread.in_place.load(Ordering::Relaxed) {
        return false;
    }
    let error = mm::access::USER | if write { mm::access::WRITE } else { 0 };
    // For a killed process nothing is brought in, and the copy must not be tried again for ever.
    mm::fault::user(thread, addr, error).is_ok() && !thread.process.is_killed()
}

fn interrupt(regs: &mut Regs) {
    let nmis = traps::take_nmis();
    if nmis != 0 {
        crate::info!(
            "{nmis} NMIs came that nobody asked for (a watchdog, a button, failing hardware); going on"
        );
    }
    cpus::request_attention();
    leave(regs);
}
