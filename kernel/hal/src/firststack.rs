//! The stack on which the first CPU starts, and the guard page below it.

use core::cell::UnsafeCell;

pub(crate) const FIRST_STACK_SIZE: usize = 68 << 10;

/// The first CPU's stack until (and while) it idles. The kernel's page table leaves its lowest page
/// out.
#[repr(C, align(4096))]
pub(crate) struct Stack(UnsafeCell<[u8; FIRST_STACK_SIZE]>);
// SAFETY: used as raw stack memory by exactly one CPU.
unsafe impl Sync for Stack {}
pub(crate) static FIRST_STACK: Stack = Stack(UnsafeCell::new([0; FIRST_STACK_SIZE]));

/// Address of the page below the first CPU's stack that is not mapped.
pub(crate) fn first_guard() -> u64 {
    FIRST_STACK.0.get() as u64
}

/// Whether `addr` lies in that page.
pub fn is_first_guard(addr: u64) -> bool {
    addr & !4095 == first_guard()
}
