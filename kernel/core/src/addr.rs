//! Page arithmetic, and the numbers of frames.

use core::fmt;
use core::ops::{Add, Sub};

pub use hanare_abi::PAGE_SIZE;

/// Rounds down to a multiple of `align` (a power of two).
#[must_use]
pub const fn align_down(value: u64, align: u64) -> u64 {
    debug_assert!(align.is_power_of_two());
    value & !(align - 1)
}

/// Rounds up to a multiple of `align` (a power of two); `None` beyond 2^64.
#[must_use]
pub const fn align_up(value: u64, align: u64) -> Option<u64> {
    debug_assert!(align.is_power_of_two());
    match value.checked_add(align - 1) {
        Some(sum) => Some(sum & !(align - 1)),
        None => None,
    }
}

/// Start of the page that holds `value`.
#[must_use]
pub const fn page_down(value: u64) -> u64 {
    align_down(value, PAGE_SIZE)
}

/// First page boundary at or above `value`. Wraps to 0 in the last page of the
/// 64-bit range, as Linux' `PAGE_ALIGN`: callers check a length for 0 afterwards.
#[must_use]
pub const fn page_up(value: u64) -> u64 {
    value.wrapping_add(PAGE_SIZE - 1) & !(PAGE_SIZE - 1)
}

/// Number of pages that `bytes` occupy, starting on a page boundary.
#[must_use]
pub const fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE)
}

/// Whether `value` is a multiple of [`PAGE_SIZE`].
#[must_use]
pub const fn is_page_aligned(value: u64) -> bool {
    value & (PAGE_SIZE - 1) == 0
}

/// A page frame number: physical address / 4096.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Pfn(pub u64);

impl Pfn {
    /// Whether a block of `order` may start here.
    #[must_use]
    pub const fn is_aligned(self, order: u32) -> bool {
        self.0 & ((1 << order) - 1) == 0
    }
}

impl Add<u64> for Pfn {
    type Output = Self;
    fn add(self, pages: u64) -> Self {
        Self(self.0 + pages)
    }
}

impl Sub for Pfn {
    type Output = u64;
    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pfn({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_alignment_round_without_overflow() {
        assert_eq!(page_down(0x1fff), 0x1000);
        assert_eq!(page_up(0x1001), 0x2000);
        assert_eq!(page_up(0x1000), 0x1000);
        assert_eq!(page_up(u64::MAX), 0);
        assert_eq!(align_up(u64::MAX, 16), None);
        assert_eq!(align_up(17, 16), Some(32));
        assert_eq!(pages_of(0), 0);
        assert_eq!(pages_of(4097), 2);
        assert!(Pfn(0x200).is_aligned(9));
    }
}
