//! The end of the LWK: say why, stop the other CPUs, tell Linux, park.

use crate::sched::park;
use core::panic::PanicInfo;
use hanare_abi::boot::{CPU_ONLINE, EVENT_PANIC};
use hanare_hal::traps::Regs;
use hanare_hal::{apic, context, cpu, percpu, shared};

#[panic_handler]
fn on_panic(info: &PanicInfo<'_>) -> ! {
    if park::begin_panic() {
        park::park();
    }
    crate::base::log::break_lock();
    crate::info!("LWK panic: {info}");
    backtrace(context::backtrace());
    stop();
}

/// An exception in the kernel that nothing resolves.
pub fn fatal_trap(regs: &Regs, vector: u8) -> ! {
    if vector == hanare_hal::traps::vector::NMI && park::has_panicked() {
        park::park();
    }
    if park::begin_panic() {
        park::park();
    }
    crate::base::log::break_lock();
    crate::info!(
        "LWK panic: exception {vector} error {:#x} in the kernel at {:#x}, address {:#x}",
        regs.orig_rax,
        regs.rip,
        cpu::cr2()
    );
    if vector == hanare_hal::traps::vector::DOUBLE_FAULT {
        tell_overflow(cpu::cr2());
    }
    dump(regs);
    backtrace(context::callers(regs.rbp));
    stop();
}

/// Logs the owner of the stack on which a fault found no room, so that a double fault came.
fn tell_overflow(addr: u64) {
    let thread = crate::sched::cpus::try_current().filter(|t| t.has_overflown(addr));
    if let Some(t) = thread {
        let (tid, space) = t.runs().ids();
        crate::info!(
            "LWK panic: the kernel stack of thread {} in space {} has overflown",
            tid,
            space
        );
    } else if let Some((name, cpu)) = crate::base::stacks::overflown_of_cpu(addr) {
        crate::info!("LWK panic: the {name} stack of cpu{cpu} has overflown");
    }
}

/// Prints registers, four to a line.
pub fn dump(r: &Regs) {
    crate::info!(
        "rip {:#018x} rsp {:#018x} rflags {:#x} cs {:#x} error {:#x}",
        r.rip,
        r.rsp,
        r.rflags,
        r.cs,
        r.orig_rax
    );
    crate::info!("rax {:#018x} rbx {:#018x} rcx {:#018x} rdx {:#018x}", r.rax, r.rbx, r.rcx, r.rdx);
    crate::info!("rsi {:#018x} rdi {:#018x} rbp {:#018x} r8  {:#018x}", r.rsi, r.rdi, r.rbp, r.r8);
    crate::info!("r9  {:#018x} r10 {:#018x} r11 {:#018x} r12 {:#018x}", r.r9, r.r10, r.r11, r.r12);
    crate::info!("r13 {:#018x} r14 {:#018x} r15 {:#018x}", r.r13, r.r14, r.r15);
}

fn backtrace(callers: impl Iterator<Item = u64>) {
    for (i, rip) in callers.take(16).enumerate() {
        crate::info!("  #{i} {rip:#x}");
    }
}

/// Most time that the other CPUs are waited for, ms.
const PATIENCE_MS: u64 = 1000;

fn stop() -> ! {
    // So early there are no other CPUs yet, and the module looks at the mark.
    if !apic::is_ready() {
        shared::set_panicked();
        park::park();
    }
    let me = percpu::index();
    let others = || (0..shared::params().cpu_count as usize).filter(|&i| i != me);
    for i in others() {
        apic::send_nmi(shared::cpu(i).apic_id());
    }
    // From the flag on Linux does not wait for CPUs that may still write to pages of its own.
    let start = cpu::rdtsc();
    while others().any(|i| shared::cpu(i).state() == CPU_ONLINE)
        && cpu::rdtsc().wrapping_sub(start) < u64::from(shared::params().tsc_khz) * PATIENCE_MS
    {
        cpu::pause();
    }
    shared::set_panicked();
    crate::sched::doorbell::ring_raw(0, EVENT_PANIC << hanare_abi::boot::EVENT_SHIFT);
    park::park()
}
