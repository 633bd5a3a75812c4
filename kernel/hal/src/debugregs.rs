//! The debug registers of the calling CPU (SDM volume 3, chapter 18).

use crate::cpu::{msr, rdmsr, wrmsr};
use core::arch::asm;

/// DR6 when nothing was met.
const STATUS_NONE: u64 = 0xffff_0ff0;

/// Loads addresses and DR7. Only addresses of user mode may be on, and no general detect:
/// what the kernel does is nothing that the handler of debug exceptions looks at.
pub fn load(addresses: &[u64; 4], control: u64) {
    debug_assert!(control >> 13 & 1 == 0 && addresses.iter().all(|a| *a < 1 << 47));
    // SAFETY: the exceptions that this may raise are handled, also in the kernel (`traps`,
    // on a stack of their own). DR7 first: no address waits for what another one did.
    unsafe {
        asm!("mov dr7, {}", in(reg) 1u64 << 10, options(nostack, preserves_flags));
        asm!("mov dr0, {}", in(reg) addresses[0], options(nostack, preserves_flags));
        asm!("mov dr1, {}", in(reg) addresses[1], options(nostack, preserves_flags));
        asm!("mov dr2, {}", in(reg) addresses[2], options(nostack, preserves_flags));
        asm!("mov dr3, {}", in(reg) addresses[3], options(nostack, preserves_flags));
        asm!("mov dr7, {}", in(reg) control, options(nostack, preserves_flags));
    }
}

/// Why the debug exception came (DR6), once.
pub fn take_status() -> u64 {
    let status: u64;
    // SAFETY: DR6 is only looked at here; the CPU never clears it.
    unsafe {
        asm!("mov {}, dr6", out(reg) status, options(nostack, preserves_flags));
        asm!("mov dr6, {}", in(reg) STATUS_NONE, options(nostack, preserves_flags));
    }
    status
}

/// Has the trap flag mean a trap after the next branch, not after each instruction
/// (IA32_DEBUGCTL.BTF). CPUs of virtual machines may not know it: there a step stays one
/// instruction.
pub fn step_blocks(on: bool) {
    const BTF: u64 = 2;
    let others = rdmsr(msr::DEBUGCTL) & !BTF;
    // SAFETY: the bit says only when the trap flag traps, and the kernel runs without that flag.
    unsafe { wrmsr(msr::DEBUGCTL, if on { others | BTF } else { others }) };
}
