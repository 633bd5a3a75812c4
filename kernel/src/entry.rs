//! From the hardware layer into the kernel: system calls, exceptions, interrupts. The processor
//! hands over no thread, so each entry here asks for the running one, once.

use crate::calls::dispatch;
use crate::gate::debugregs::{self, Cause};
use crate::gate::{deliver, observe, park, raise, rseq};
use crate::mm::change::poison;
use crate::mm::fault::thread as fault;
use crate::mm::pages::access;
use crate::process::thread::{self, Thread};
use crate::route::utility;
use crate::sched::{cpus, machinecheck, panic, wait};
use crate::signal::unhandled;
use core::sync::atomic::Ordering;
use hanare_abi::observe::OBSERVED_STEP;
use hanare_core::signal::SIGTRAP;
use hanare_hal::traps::{self, Handlers, NO_CALL, Regs, vector};
use hanare_hal::usercopy::UserAddr;
use hanare_hal::{apic, cpu, shared};

/// Installed at boot.
pub static HANDLERS: Handlers = Handlers {
    calls: &dispatch::CALLS,
    syscall,
    leave,
    user_exception,
    kernel_fault,
    interrupt,
    interrupted,
    machine_check: machinecheck::in_kernel,
    fatal: panic::fatal_trap,
};

fn syscall(regs: &mut Regs) -> bool {
    let me = thread::current();
    serve(me, regs);
    go_to_user(me, regs)
}

fn serve(me: &'static Thread, regs: &mut Regs) {
    if me.process.observed.is_on() {
        observe::call(me, regs, dispatch::serve);
    } else {
        dispatch::serve(me, regs, regs.orig_rax);
    }
}

fn leave(regs: &mut Regs) -> bool {
    go_to_user(thread::current(), regs)
}

/// Does all that has to happen before user mode. True: the fast return is right. It loses two
/// registers; registers that came from elsewhere (sigreturn, exec) are all to be restored.
fn go_to_user(me: &'static Thread, regs: &mut Regs) -> bool {
    let fast = gate(me, regs);
    if me.utility.is_wanted() {
        leave_to_linux(me, regs);
        return false;
    }
    fast
}

/// A utility thread goes on on Linux, until it has to be in user mode here. When it comes back it
/// passes the gate in any case: signals may have come, or the order to end, and its registers are
/// what its proxy says.
#[cold]
fn leave_to_linux(me: &'static Thread, regs: &mut Regs) {
    loop {
        let is_to_leave_again = utility::execute(me, regs, serve);
        cpus::request_attention();
        gate(me, regs);
        if !is_to_leave_again {
            return;
        }
    }
}

/// As [`go_to_user`], for one that enters user mode on the LWK.
fn gate(me: &Thread, regs: &mut Regs) -> bool {
    let mut fast = true;
    while cpus::take_attention() {
        wait::for_quota();
        cpus::before_user();
        fast &= !rseq::before_user(me, regs).unwrap_or_else(|_| {
            raise::force_segv(me, regs);
            true
        });
        fast &= deliver::deliver(me, regs);
        if regs.rip >= 1 << 47 {
            raise_at_kernel_address(me, regs);
        }
        // Whatever was waited for there may have left something to do.
    }
    fast && regs.orig_rax != NO_CALL
}

/// A handler or a frame has the thread go on where no program is. As on Linux, the CPU refuses an
/// address that is none, and finds nothing for a program at one of the kernel's.
#[cold]
fn raise_at_kernel_address(me: &Thread, regs: &mut Regs) {
    let is_canonical = regs.rip >= 0u64.wrapping_sub(1 << 47);
    let addr = regs.rip;
    if is_canonical {
        regs.orig_rax = access::USER | access::FETCH;
        raise::fault(me, access::Signal::NotMapped, addr, regs);
    } else {
        regs.orig_rax = 0;
        raise::exception(me, regs, vector::PROTECTION);
    }
    regs.orig_rax = NO_CALL;
    cpus::request_attention();
}

/// As [`go_to_user`], for a thread that enters user mode for the first time, see `user_mode`.
pub fn prepare(regs: &mut Regs) {
    leave(regs);
}

fn user_exception(regs: &mut Regs, v: u8) {
    let me = thread::current();
    if v == vector::PAGE_FAULT {
        shared::here().count_page_fault();
        let addr = cpu::cr2();
        if let Err(signal) = fault::in_user_mode(me, UserAddr::of(addr), regs.orig_rax) {
            raise::fault(me, signal, addr, regs);
        }
    } else if v == vector::DEBUG {
        debug_exception(me, regs);
    } else if v == vector::MACHINE_CHECK {
        machine_check(me, regs);
    } else if v != vector::BREAKPOINT || !observe::debug::breakpoint(me, regs) {
        raise::exception(me, regs, v);
    }
    go_to_user(me, regs);
}

fn machine_check(me: &Thread, regs: &mut Regs) {
    let Some(paddr) = machinecheck::in_user_mode(regs) else { return };
    crate::info!(
        "machine check: {} used bad memory at {paddr:#x}, ip {:#x}",
        unhandled::name_of(me),
        regs.rip
    );
    let addr = poison::forget(&me.caller(), paddr.page_down());
    raise::bad_memory(me, addr, regs);
}

fn debug_exception(me: &Thread, regs: &mut Regs) {
    match debugregs::exception(me, regs) {
        Cause::Stale => {}
        Cause::Met(which, _) if observe::watch::met(me, regs, which) => {}
        Cause::Met(_, false) => raise::watched(me, regs),
        Cause::Met(_, stepped) | Cause::Other(stepped) => {
            let trap = park::trapped(me, regs);
            if trap.debugger {
                observe::debug::report(me, regs, OBSERVED_STEP, SIGTRAP, 0);
            }
            if trap.tracer || trap.program {
                raise::debug(me, regs, stepped);
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
    let error = access::USER | if write { access::WRITE } else { 0 };
    // For a killed process nothing is brought in, and the copy must not be tried again for ever.
    fault::user(thread, UserAddr::of(addr), error).is_ok() && !thread.process.is_killed()
}

/// The work of an interrupt. A peer's has none: it ends a halt, or has the CPU pass the gate.
fn interrupt(vec: u8) {
    if vec == apic::TIMER_VECTOR {
        cpus::on_timer();
    }
}

fn interrupted(regs: &mut Regs) {
    let nmis = traps::take_nmis();
    if nmis != 0 {
        crate::info!(
            "{nmis} NMIs came that nobody asked for (a watchdog, a button, failing hardware); going on"
        );
    }
    cpus::request_attention();
    leave(regs);
}
