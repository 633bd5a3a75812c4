//! The per-CPU block behind GS while in the kernel, in two parts: user mode's page tables have one
//! where it has tables of its own ([`crate::isolation`]), and not the other.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32};
use hanare_ikc::wake::Attention;

/// Most CPUs one instance can have.
pub const CPUS_MAX: usize = 256;

/// Offsets from GS of what the assembly uses of a block.
pub(crate) const USER_RSP: usize = offset_of!(Block, user_rsp);
pub(crate) const KERNEL_CR3: usize = offset_of!(Block, kernel_cr3);
pub(crate) const USER_CR3: usize = offset_of!(Block, user_cr3);
pub(crate) const ENTRY_TOP: usize = offset_of!(Block, entry_top);
pub(crate) const VERW_SELECTOR: usize = offset_of!(Block, verw_selector);
pub(crate) const KERNEL_PREDICTION: usize = offset_of!(Block, kernel_prediction);
pub(crate) const USER_PREDICTION: usize = offset_of!(Block, user_prediction);
/// Offsets from GS of what is hidden from user mode: as far behind each CPU's block.
const HIDDEN: usize = offset_of!(All, hidden);
pub(crate) const KERNEL_RSP: usize = HIDDEN + offset_of!(Hidden, kernel_rsp);
const INDEX: usize = HIDDEN + offset_of!(Hidden, index);
const SPACE: usize = HIDDEN + offset_of!(Hidden, space);
const TASK: usize = HIDDEN + offset_of!(Hidden, task);
const MAILBOX: usize = HIDDEN + offset_of!(Hidden, mailbox);
pub(crate) const ATTENTION: usize = HIDDEN + offset_of!(Hidden, attention);
pub(crate) const WATCHED: usize = HIDDEN + offset_of!(Hidden, watched);
pub(crate) const JUDGED: usize = HIDDEN + offset_of!(Hidden, judged);

/// Bytes from one CPU's block to the next one's, and likewise of what is hidden.
const STRIDE: usize = 256;

/// The part that entries need before they have the kernel's page tables, and exits after they have
/// given them up. User mode's page tables have it, and with Meltdown a program reads it: no address
/// of an object of the kernel's stands here.
#[repr(C, align(256))]
struct Block {
    user_rsp: u64,
    /// Page tables of the running thread, for the kernel and (`isolation`) for user mode.
    kernel_cr3: u64,
    user_cr3: u64,
    /// End of `entry_stack`, and what `verw` looks at.
    entry_top: u64,
    verw_selector: u64,
    /// Values of SPEC_CTRL for the kernel and for user mode, where entries and exits write it
    /// ([`crate::speculation`]).
    kernel_prediction: u32,
    user_prediction: u32,
    /// The stack of traps from user mode before they have the kernel's page table. A frame of seven
    /// words and two.
    entry_stack: [u64; 26],
}
const _: () = assert!(size_of::<Block>() == STRIDE);

/// The rest, which only the kernel's page tables have. One cache line: each system call reads most
/// of it.
#[repr(C, align(256))]
struct Hidden {
    kernel_rsp: u64,
    index: u64,
    /// The address space that this CPU had last.
    space: u64,
    /// Addresses: of what the kernel says runs here, of this CPU's mailbox, and of what a system
    /// call looks at, a word before it leaves, a word and a byte when it comes. Not 0 there: it
    /// goes the long way.
    task: u64,
    mailbox: u64,
    attention: u64,
    watched: u64,
    judged: u64,
}
const _: () = assert!(size_of::<Hidden>() == STRIDE && offset_of!(Hidden, judged) < 64);

/// Two arrays with the same stride, so that one GS base reaches a CPU's part of either at a
/// constant offset. Each is on pages of its own.
#[repr(C, align(4096))]
struct All {
    blocks: [Block; CPUS_MAX],
    hidden: [Hidden; CPUS_MAX],
}
const _: () = assert!(HIDDEN.is_multiple_of(4096));

struct Blocks(UnsafeCell<All>);
// SAFETY: each CPU touches only its own elements.
unsafe impl Sync for Blocks {}
static BLOCKS: Blocks = Blocks(UnsafeCell::new(All {
    blocks: [const {
        Block {
            user_rsp: 0,
            kernel_cr3: 0,
            user_cr3: 0,
            entry_top: 0,
            verw_selector: 0,
            kernel_prediction: 0,
            user_prediction: 0,
            entry_stack: [0; 26],
        }
    }; CPUS_MAX],
    hidden: [const {
        Hidden {
            kernel_rsp: 0,
            index: 0,
            space: 0,
            task: 0,
            mailbox: 0,
            attention: 0,
            watched: 0,
            judged: 0,
        }
    }; CPUS_MAX],
}));

/// Address of a CPU's block.
fn block_of(cpu: usize) -> *mut Block {
    BLOCKS.0.get().cast::<Block>().wrapping_add(cpu)
}

/// Points GS of the calling CPU at its block.
pub fn init(cpu: usize) {
    assert!(cpu < CPUS_MAX);
    let block = block_of(cpu);
    // SAFETY: the elements `cpu` belong to this CPU; GS bases are set before any trap.
    unsafe {
        (*block.byte_add(HIDDEN).cast::<Hidden>()).index = cpu as u64;
        (*block).entry_top = block.add(1) as u64;
        (*block).verw_selector = u64::from(crate::selectors::KERNEL_DS);
        crate::cpu::wrmsr(crate::cpu::msr::GS_BASE, block as u64);
        crate::cpu::wrmsr(crate::cpu::msr::KERNEL_GS_BASE, 0);
    }
}

/// Address and bytes of a CPU's block, without what is hidden.
pub(crate) fn place(cpu: usize) -> (u64, u64) {
    (block_of(cpu) as u64, STRIDE as u64)
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
    block() + STRIDE as u64
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
        // `init` asserts it, and no code writes it again.
        core::hint::assert_unchecked(v < CPUS_MAX as u64);
    };
    v as usize
}

/// Task of the calling CPU, by [`set_task`].
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

/// Address of the CPU's mailbox; 0 before it is known.
#[inline(always)]
pub(crate) fn mailbox() -> u64 {
    let v;
    // SAFETY: as above.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) v, const MAILBOX, options(nostack, readonly, preserves_flags))
    };
    v
}

/// Sets the task that runs on the calling CPU.
pub fn set_task(task: u64) {
    // SAFETY: GS points at this CPU's block; the field is written only here.
    unsafe { asm!("mov gs:[{}], {}", const TASK, in(reg) task, options(nostack, preserves_flags)) };
}

/// Sets the attention word that a system call looks at before it returns to user mode.
pub fn set_attention(attention: &'static Attention) {
    let at = core::ptr::from_ref(attention) as u64;
    // SAFETY: as above.
    unsafe {
        asm!("mov gs:[{}], {}", const ATTENTION, in(reg) at, options(nostack, preserves_flags))
    };
}

/// Says what a system call looks at when it comes: whether its process is watched, and whether its
/// thread's calls are judged.
///
/// # Safety
/// Both are there as long as the calling CPU may come from user mode without having been told of
/// others.
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
