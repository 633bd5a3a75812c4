//! The per-CPU block behind GS while in the kernel. The assembly in `traps`
//! knows the first fields by offset.

use core::arch::asm;
use core::cell::UnsafeCell;

/// Offsets used by assembly.
pub(crate) const KERNEL_RSP: usize = 0;
pub(crate) const USER_RSP: usize = 8;
pub(crate) const INDEX: usize = 16;

#[repr(C, align(64))]
struct Block {
    kernel_rsp: u64,
    user_rsp: u64,
    index: u64,
}

struct Blocks(UnsafeCell<[Block; crate::boot::CPUS_MAX]>);
// SAFETY: each CPU touches only its own element.
unsafe impl Sync for Blocks {}
static BLOCKS: Blocks = Blocks(UnsafeCell::new([const { Block { kernel_rsp: 0, user_rsp: 0, index: 0 } }; crate::boot::CPUS_MAX]));

/// Points GS of the calling CPU at its block.
pub fn init(cpu: usize) {
    assert!(cpu < crate::boot::CPUS_MAX);
    // SAFETY: element `cpu` belongs to this CPU; GS bases are set before any trap.
    unsafe {
        let block = BLOCKS.0.get().cast::<Block>().add(cpu);
        (*block).index = cpu as u64;
        crate::cpu::wrmsr(crate::cpu::msr::GS_BASE, block as u64);
        crate::cpu::wrmsr(crate::cpu::msr::KERNEL_GS_BASE, 0);
    }
}

/// Index of the calling CPU in the instance.
#[inline]
pub fn index() -> usize {
    let v: u64;
    // SAFETY: GS points at this CPU's block since `init`.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) v, const INDEX, options(nostack, readonly, preserves_flags)) };
    v as usize
}

/// Sets the stack that the next entry from user mode uses.
pub(crate) fn set_kernel_rsp(top: u64) {
    // SAFETY: as above; the field is written only here.
    unsafe { asm!("mov gs:[{}], {}", const KERNEL_RSP, in(reg) top, options(nostack, preserves_flags)) };
}
