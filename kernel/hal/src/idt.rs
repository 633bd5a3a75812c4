//! The interrupt descriptor table, one for all CPUs.

use crate::selectors::KERNEL_CS;
use core::arch::asm;
use core::cell::UnsafeCell;

const GATES: usize = 256;

/// The IDT, on a page of its own: user mode's page tables may have it.
#[repr(C, align(4096))]
struct Idt(UnsafeCell<[[u64; 2]; GATES]>);
// SAFETY: written by the first CPU before it is loaded anywhere.
unsafe impl Sync for Idt {}
static IDT: Idt = Idt(UnsafeCell::new([[0; 2]; GATES]));

/// Gate of a vector: where the processor goes on, and on which stack.
pub(crate) struct Gate {
    /// Address of the code.
    pub target: u64,
    /// Entry of the interrupt stack table (`gdt`); 0: the stack is the one that is used anyway.
    pub ist: u8,
    /// Whether user code may raise it by `int`.
    pub user: bool,
}

/// Where the table begins and ends.
pub(crate) fn place() -> (u64, u64) {
    let start = IDT.0.get() as u64;
    (start, start + size_of::<Idt>() as u64)
}

/// Fills the table (first CPU, once, before it is loaded).
pub(crate) fn fill(gate_of: impl Fn(u8) -> Gate) {
    for vector in 0..=u8::MAX {
        let Gate { target, ist, user } = gate_of(vector);
        let dpl: u64 = if user { 3 } else { 0 };
        let low = target & 0xffff
            | u64::from(KERNEL_CS) << 16
            | u64::from(ist) << 32
            | (0x8e | dpl << 5) << 40
            | (target >> 16 & 0xffff) << 48;
        // SAFETY: no CPU uses the table yet.
        unsafe { (*IDT.0.get())[usize::from(vector)] = [low, target >> 32] };
    }
}

/// Loads the table on the calling CPU.
pub(crate) fn load() {
    let base = IDT.0.get() as u64;
    let mut pointer = [0u16; 5];
    pointer[0] = (size_of::<Idt>() - 1) as u16;
    for i in 0..4 {
        pointer[1 + i] = (base >> (16 * i)) as u16;
    }
    // SAFETY: the table is filled and static.
    unsafe { asm!("lidt [{}]", in(reg) &pointer, options(readonly, nostack)) };
}
