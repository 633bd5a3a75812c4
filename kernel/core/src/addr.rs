//! Addresses that must not be mixed up, and page arithmetic.

use core::fmt;
use core::ops::{Add, Sub};

pub use hanare_abi::{LARGE_PAGE_SIZE, PAGE_SIZE};

/// log2 of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();
/// log2 of [`LARGE_PAGE_SIZE`].
pub const LARGE_PAGE_SHIFT: u32 = LARGE_PAGE_SIZE.trailing_zeros();
/// Bytes of a huge (1 GiB) page.
pub const HUGE_PAGE_SIZE: u64 = 1 << 30;
/// Base pages in a large page: 512.
pub const PAGES_PER_LARGE: u64 = LARGE_PAGE_SIZE / PAGE_SIZE;
/// Buddy order of a large page.
pub const LARGE_PAGE_ORDER: u32 = LARGE_PAGE_SHIFT - PAGE_SHIFT;

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

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Start of the page it lies in.
            #[must_use]
            pub const fn page_down(self) -> Self {
                Self(page_down(self.0))
            }

            /// See [`page_up`].
            #[must_use]
            pub const fn page_up(self) -> Self {
                Self(page_up(self.0))
            }

            /// Rounds down to a power of two.
            #[must_use]
            pub const fn align_down(self, align: u64) -> Self {
                Self(align_down(self.0, align))
            }

            /// Offset inside its page, 0..4096.
            #[must_use]
            pub const fn page_offset(self) -> u64 {
                self.0 & (PAGE_SIZE - 1)
            }

            /// Whether it is a multiple of `align` (a power of two).
            #[must_use]
            pub const fn is_aligned(self, align: u64) -> bool {
                self.0 & (align - 1) == 0
            }

            /// The sum, unless it passes 2^64.
            #[must_use]
            pub const fn checked_add(self, bytes: u64) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl From<u64> for $name {
            fn from(value: u64) -> Self {
                Self(value)
            }
        }

        impl From<$name> for u64 {
            fn from(value: $name) -> u64 {
                value.0
            }
        }

        impl Add<u64> for $name {
            type Output = Self;
            fn add(self, bytes: u64) -> Self {
                Self(self.0 + bytes)
            }
        }

        impl Sub<u64> for $name {
            type Output = Self;
            fn sub(self, bytes: u64) -> Self {
                Self(self.0 - bytes)
            }
        }

        impl Sub for $name {
            type Output = u64;
            fn sub(self, other: Self) -> u64 {
                self.0 - other.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address! {
    /// A physical address.
    PhysAddr
}

address! {
    /// An address that an application gave: a claim, to be checked before use.
    UserAddr
}

impl PhysAddr {
    /// Frame it lies in.
    #[must_use]
    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 >> PAGE_SHIFT)
    }
}

impl UserAddr {
    /// End of `len` bytes from here, if all of them are application addresses
    /// (below [`hanare_abi::layout::USER_MAX`]).
    #[must_use]
    pub const fn checked_end(self, len: u64) -> Option<Self> {
        match self.0.checked_add(len) {
            Some(end) if end <= hanare_abi::layout::USER_MAX => Some(Self(end)),
            _ => None,
        }
    }
}

/// A page frame number: physical address / 4096.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Pfn(pub u64);

impl Pfn {
    /// Physical address of the frame's first byte.
    #[must_use]
    pub const fn addr(self) -> PhysAddr {
        PhysAddr(self.0 << PAGE_SHIFT)
    }

    /// Whether a block of `order` may start here.
    #[must_use]
    pub const fn is_aligned(self, order: u32) -> bool {
        self.0 & ((1 << order) - 1) == 0
    }
}

impl From<PhysAddr> for Pfn {
    fn from(address: PhysAddr) -> Self {
        address.pfn()
    }
}

impl From<Pfn> for PhysAddr {
    fn from(pfn: Pfn) -> Self {
        pfn.addr()
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
    fn rounding() {
        assert_eq!(page_down(0x1fff), 0x1000);
        assert_eq!(page_up(0x1001), 0x2000);
        assert_eq!(page_up(0x1000), 0x1000);
        assert_eq!(page_up(u64::MAX), 0);
        assert_eq!(align_up(u64::MAX, 16), None);
        assert_eq!(align_up(17, 16), Some(32));
        assert_eq!(pages_of(0), 0);
        assert_eq!(pages_of(4097), 2);
        assert_eq!(PhysAddr(0x20_1234).pfn(), Pfn(0x201));
        assert_eq!(Pfn(0x201).addr(), PhysAddr(0x20_1000));
        assert!(Pfn(0x200).is_aligned(LARGE_PAGE_ORDER));
        assert_eq!(UserAddr(u64::MAX).checked_end(1), None);
        assert_eq!(UserAddr(0x1000).checked_end(1), Some(UserAddr(0x1001)));
    }
}
