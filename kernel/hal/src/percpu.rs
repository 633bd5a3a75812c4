//! The per-CPU block behind GS while in the kernel. The assembly in `traps`
//! knows the first fields by offset.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, AtomicU32};
use hanare_ikc::wake::Attention;

/// Most CPUs one instance can have.
pub const CPUS_MAX: usize = 256;

/// Offsets used by assembly.
pub(crate) const KERNEL_RSP: usize = 0;
pub(crate) const USER_RSP: usize = 8;
pub(crate) const INDEX: usize = 16;
pub(crate) const KERNEL_CR3: usize = 24;
pub(crate) const USER_CR3: usize = 32;
pub(crate) const ENTRY_TOP: usize = 40;
pub(crate) const VERW_SELECTOR: usize = 48;
pub(crate) const KERNEL_PREDICTION: usize = 56;
pub(crate) const USER_PREDICTION: usize = 60;
const SPACE: usize = 64;
const TASK: usize = 72;
const MAILBOX: usize = 80;
pub(crate) const ATTENTION: usize = 88;
pub(crate) const WATCHED: usize = 96;
pub(crate) const JUDGED: usize = 104;

#[repr(C, align(512))]
struct Block {
    kernel_rsp: u64,
    user_rsp: u64,
    index: u64,
    /// Page tables of the running thread, for the kernel and (`isolation`) for user mode.
    kernel_cr3: u64,
    user_cr3: u64,
    /// End of `entry_stack`, and what `verw` looks at.
    entry_top: u64,
    verw_selector: u64,
    /// What entries and exits write to SPEC_CTRL, where they do ([`crate::speculation`]).
    kernel_prediction: u32,
    user_prediction: u32,
    /// The address space that this CPU had last.
    space: u64,
    /// Addresses: of what the kernel says runs here, of this CPU's mailbox, and of what a system call looks at,
    /// a word before it leaves, a word and a byte when it comes. Not 0 there: it goes the long way.
    task: u64,
    mailbox: u64,
    attention: u64,
    watched: u64,
    judged: u64,
    /// The stack of traps from user mode before they have the kernel's page table. A frame of seven words and two.
    entry_stack: [u64; 50],
}
const _: () = assert!(size_of::<Block>() == 512);
const _: () = assert!(core::mem::offset_of!(Block, kernel_cr3) == KERNEL_CR3);
const _: () = assert!(core::mem::offset_of!(Block, user_cr3) == USER_CR3);
const _: () = assert!(core::mem::offset_of!(Block, entry_top) == ENTRY_TOP);
const _: () = assert!(core::mem::offset_of!(Block, verw_selector) == VERW_SELECTOR);
const _: () = assert!(core::mem::offset_of!(Block, kernel_prediction) == KERNEL_PREDICTION);
const _: () = assert!(core::mem::offset_of!(Block, user_prediction) == USER_PREDICTION);
const _: () = assert!(core::mem::offset_of!(Block, space) == SPACE);
const _: () = assert!(core::mem::offset_of!(Block, task) == TASK);
const _: () = assert!(core::mem::offset_of!(Block, mailbox) == MAILBOX);
const _: () = assert!(core::mem::offset_of!(Block, attention) == ATTENTION);
const _: () = assert!(core::mem::offset_of!(Block, watched) == WATCHED);
const _: () = assert!(core::mem::offset_of!(Block, judged) == JUDGED);

/// On pages of their own: user mode's page tables may have them.
#[repr(C, align(4096))]
struct Blocks(UnsafeCell<[Block; CPUS_MAX]>);
// SAFETY: each CPU touches only its own element.
unsafe impl Sync for Blocks {}
static BLOCKS: Blocks = Blocks(UnsafeCell::new(
    [const {
        Block {
            kernel_rsp: 0,
            user_rsp: 0,
            index: 0,
            kernel_cr3: 0,
            user_cr3: 0,
            entry_top: 0,
            verw_selector: 0,
            kernel_prediction: 0,
            user_prediction: 0,
            space: 0,
            task: 0,
            mailbox: 0,
            attention: 0,
            watched: 0,
            judged: 0,
            entry_stack: [0; 50],
        }
    }; CPUS_MAX],
));

/// Points GS of the calling CPU at its block.
pub fn init(cpu: usize) {
    assert!(cpu < CPUS_MAX);
    // SAFETY: element `cpu` belongs to this CPU; GS bases are set before any trap.
    unsafe {
        let block = BLOCKS.0.get().cast::<Block>().add(cpu);
        (*block).index = cpu as u64;
        (*block).entry_top = block.add(1) as u64;
        (*block).verw_selector = u64::from(crate::selectors::KERNEL_DS);
        crate::cpu::wrmsr(crate::cpu::msr::GS_BASE, block as u64);
        crate::cpu::wrmsr(crate::cpu::msr::KERNEL_GS_BASE, 0);
    }
}

/// Address and bytes of a CPU's block.
pub(crate) fn place(cpu: usize) -> (u64, u64) {
    (BLOCKS.0.get().cast::<Block>().wrapping_add(cpu) as u64, size_of::<Block>() as u64)
}

/// Says what entries and exits of the calling CPU write to SPEC_CTRL.
pub(crate) fn set_predictions(kernel: u32, user: u32) {
    // SAFETY: GS points at this CPU's block; the fields are written only here.
    unsafe {
        asm!("mov gs:[{}], {:e}", const KERNEL_PREDICTION, in(reg) kernel, options(nostack, preserves_flags));
        asm!("mov gs:[{}], {:e}", const USER_PREDICTION, in(reg) user, options(nostack, preserves_flags));
    }
}

/// Says which page tables entries and exits of the calling CPU are to load.
pub(crate) fn set_tables(kernel: u64, user: u64) {
    // SAFETY: GS points at this CPU's block; the fields are written only here.
    unsafe {
        asm!("mov gs:[{}], {}", const KERNEL_CR3, in(reg) kernel, options(nostack, preserves_flags));
        asm!("mov gs:[{}], {}", const USER_CR3, in(reg) user, options(nostack, preserves_flags));
    }
}

/// Notes the address space that the calling CPU has from now on; which it had before.
pub(crate) fn replace_space(id: u64) -> u64 {
    let before;
    // SAFETY: as in `set_tables`.
    unsafe {
        asm!("xchg gs:[{}], {}", const SPACE, inout(reg) id => before, options(nostack, preserves_flags))
    };
    before
}

/// End of the calling CPU's small stack.
pub(crate) fn entry_top() -> u64 {
    block() + size_of::<Block>() as u64
}

/// Address of the calling CPU's block.
pub(crate) fn block() -> u64 {
    crate::cpu::rdmsr(crate::cpu::msr::GS_BASE)
}

/// Index of the calling CPU in the instance.
#[inline]
pub fn index() -> usize {
    let v: u64;
    // SAFETY: GS points at this CPU's block since `init`, which sets the index, below the maximum.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) v, const INDEX, options(nostack, readonly, preserves_flags));
        // `init` asserts it, and nobody writes it again.
        core::hint::assert_unchecked(v < CPUS_MAX as u64);
    };
    v as usize
}

/// What [`set_task`] said.
#[inline(always)]
pub fn task() -> u64 {
    let v;
    // SAFETY: as above.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) v, const TASK, options(nostack, readonly, preserves_flags))
    };
    v
}

/// Says where the calling CPU's mailbox is.
pub(crate) fn set_mailbox(at: u64) {
    // SAFETY: GS points at this CPU's block; the field is written only here.
    unsafe {
        asm!("mov gs:[{}], {}", const MAILBOX, in(reg) at, options(nostack, preserves_flags))
    };
}

/// Where it is; 0 before that was said.
#[inline(always)]
pub(crate) fn mailbox() -> u64 {
    let v;
    // SAFETY: as above.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) v, const MAILBOX, options(nostack, readonly, preserves_flags))
    };
    v
}

/// Says what runs on the calling CPU.
pub fn set_task(task: u64) {
    // SAFETY: GS points at this CPU's block; the field is written only here.
    unsafe { asm!("mov gs:[{}], {}", const TASK, in(reg) task, options(nostack, preserves_flags)) };
}

/// Says what a system call looks at before it returns to user mode.
pub fn set_attention(attention: &'static Attention) {
    let at = core::ptr::from_ref(attention) as u64;
    // SAFETY: as above.
    unsafe {
        asm!("mov gs:[{}], {}", const ATTENTION, in(reg) at, options(nostack, preserves_flags))
    };
}

/// Says what a system call looks at when it comes: whether its process is watched, and whether its thread's calls
/// are judged.
///
/// # Safety
/// Both are there as long as the calling CPU may come from user mode without having been told of others.
pub unsafe fn set_looked_at(watched: *const AtomicU32, judged: *const AtomicU8) {
    // SAFETY: as above.
    unsafe {
        asm!("mov gs:[{}], {}", const WATCHED, in(reg) watched, options(nostack, preserves_flags));
        asm!("mov gs:[{}], {}", const JUDGED, in(reg) judged, options(nostack, preserves_flags));
    }
}

/// End of the stack that the next entry from user mode uses; 0 before that was said.
pub(crate) fn kernel_rsp() -> u64 {
    let v;
    // SAFETY: GS points at this CPU's block.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) v, const KERNEL_RSP, options(nostack, readonly, preserves_flags))
    };
    v
}

/// Sets the stack that the next entry from user mode uses.
pub(crate) fn set_kernel_rsp(top: u64) {
    // SAFETY: as above; the field is written only here.
    unsafe {
        asm!("mov gs:[{}], {}", const KERNEL_RSP, in(reg) top, options(nostack, preserves_flags))
    };
}
