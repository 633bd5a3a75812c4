//! Addresses of memory that must not be mixed up with virtual ones.

use core::fmt;
use core::ops::{Add, Sub};
use hanare_abi::PAGE_SIZE;
use hanare_abi::frame::{GivenPage, PhysFrame};

/// A physical address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

impl PhysAddr {
    /// Bits that the address of a frame may have.
    pub const FRAME_MASK: u64 = PhysFrame::MASK;

    /// First byte of a frame that the other side names.
    #[must_use]
    pub const fn of_frame(frame: PhysFrame) -> Self {
        Self(frame.address())
    }

    /// Frame in which it lies, as the other side is told of it.
    #[must_use]
    pub const fn frame(self) -> PhysFrame {
        PhysFrame::holding(self.0)
    }

    /// Page of this frame, as the other side is given it, with `PAGE_*` of `hanare_abi::request`.
    #[must_use]
    pub const fn given(self, rights: u64) -> GivenPage {
        GivenPage::of_word(self.0 | rights)
    }

    /// Start of the page it lies in.
    #[must_use]
    pub const fn page_down(self) -> Self {
        Self(self.0 & !(PAGE_SIZE - 1))
    }

    /// Whether the address is a multiple of `align` (a power of two).
    #[must_use]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }
}

/// So many bytes further.
impl Add<u64> for PhysAddr {
    type Output = Self;
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// Bytes between two.
impl Sub for PhysAddr {
    type Output = u64;
    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PhysAddr({:#x})", self.0)
    }
}

impl fmt::LowerHex for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}
