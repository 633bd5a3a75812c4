//! Entries of page tables, and the bits of them.

use crate::addr::PhysAddr;
use core::ops::{BitAnd, BitOr, BitOrAssign, Not};
use x86_64::structures::paging::PageTableFlags as Flags;

/// Bits of an entry: the CPU's, and our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bits(u64);

/// An entry, a word that is changed atomically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(u64);

#[allow(missing_docs)]
mod bits {
    use super::{Bits, Flags, PhysAddr};

    pub const PRESENT: Bits = Bits(Flags::PRESENT.bits());
    pub const WRITE: Bits = Bits(Flags::WRITABLE.bits());
    pub const USER: Bits = Bits(Flags::USER_ACCESSIBLE.bits());
    pub const WRITE_THROUGH: Bits = Bits(Flags::WRITE_THROUGH.bits());
    pub const NO_CACHE: Bits = Bits(Flags::NO_CACHE.bits());
    pub const UNCACHED: Bits = WRITE_THROUGH.with(NO_CACHE);
    pub const ACCESSED: Bits = Bits(Flags::ACCESSED.bits());
    pub const DIRTY: Bits = Bits(Flags::DIRTY.bits());
    pub const LARGE: Bits = Bits(Flags::HUGE_PAGE.bits());
    pub const GLOBAL: Bits = Bits(Flags::GLOBAL.bits());
    pub const SEEN: Bits = Bits(Flags::BIT_9.bits());
    pub const VALID: Bits = Bits(Flags::BIT_11.bits());
    pub const SEEN_WRITE: Bits = Bits(Flags::BIT_52.bits());
    pub const SOFT_CLEAN: Bits = Bits(Flags::BIT_53.bits());
    pub const USED: Bits = Bits(Flags::BIT_54.bits());
    pub const LENT: Bits = Bits(Flags::BIT_55.bits());
    pub const NO_EXECUTE: Bits = Bits(Flags::NO_EXECUTE.bits());
    pub const ADDRESS: Bits = Bits(PhysAddr::FRAME_MASK);
    pub const KIND: Bits =
        Bits(super::KIND_LOW | super::KIND_HIGH << super::KIND_HIGH_SHIFT).with(super::CACHE);
}
pub use bits::*;

/// Lowest bit of the code of a frame's kind: bit 10 of an entry.
const KIND_LOW: u64 = Flags::BIT_10.bits();
const KIND_LOW_SHIFT: u32 = KIND_LOW.trailing_zeros();
/// The three bits above it: bits 56 to 58 of a leaf, of which the CPU makes nothing.
const KIND_HIGH: u64 = 7;
const KIND_HIGH_SHIFT: u32 = 56;

/// Bits that choose the memory type of a small leaf. The highest of the three says of an entry for
/// 2 MiB that it is a leaf; such a leaf has bit 12 for the memory type.
const CACHE: Bits = WRITE_THROUGH.with(NO_CACHE).with(LARGE);

/// A link's bit for the piece of the table below that has entry `index`: 52 to 59, of which the CPU
/// makes nothing there.
pub(crate) const fn used(index: usize) -> Bits {
    Bits(1 << (USED_SHIFT + index / PIECE))
}

/// [`used`] of all entries.
pub(crate) const ALL_USED: Bits = Bits(0xff << USED_SHIFT);

/// Entries of a table for which its link has one bit.
pub(crate) const PIECE: usize = 64;
const USED_SHIFT: usize = 52;

impl Bits {
    /// None of them.
    pub const NONE: Bits = Bits(0);

    /// These and others, in constants.
    #[must_use]
    pub const fn with(self, others: Bits) -> Bits {
        Bits(self.0 | others.0)
    }

    /// Bits for the code of a frame's kind, of four bits.
    #[must_use]
    pub const fn of_kind(code: u8) -> Bits {
        let (low, high) = (code as u64 & 1, code as u64 >> 1 & KIND_HIGH);
        Bits(low << KIND_LOW_SHIFT | high << KIND_HIGH_SHIFT)
    }

    /// Bits of a small leaf that choose its memory type (`hanare_core::pat`), as the CPU reads
    /// them.
    #[must_use]
    pub const fn of_cache(bits: u64) -> Bits {
        Bits(bits & CACHE.0)
    }

    /// An entry with these bits and no frame, never present.
    #[must_use]
    pub const fn alone(self) -> Entry {
        Entry(self.0)
    }

    /// These but for others.
    #[must_use]
    pub const fn without(self, others: Bits) -> Bits {
        Bits(self.0 & !others.0)
    }

    /// Whether one of `others` is among them.
    #[must_use]
    pub const fn has(self, others: Bits) -> bool {
        self.0 & others.0 != 0
    }
}

impl Entry {
    /// There is none.
    pub const NONE: Entry = Entry(0);

    /// Entry of the word that the CPU reads.
    #[must_use]
    pub(crate) const fn of_raw(word: u64) -> Entry {
        Entry(word)
    }

    /// Word of the entry, as the CPU reads it.
    #[must_use]
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether the entry has one of these bits.
    #[must_use]
    pub const fn has(self, bits: Bits) -> bool {
        self.0 & bits.0 != 0
    }

    /// Which of these bits it has.
    #[must_use]
    pub const fn only(self, bits: Bits) -> Bits {
        Bits(self.0 & bits.0)
    }

    /// Code of the frame's kind, of four bits, as [`Bits::of_kind`] was given it.
    #[must_use]
    #[inline(always)] // for each leaf of a range that goes
    pub const fn kind_code(self) -> u8 {
        let (low, high) = (self.0 >> KIND_LOW_SHIFT & 1, self.0 >> KIND_HIGH_SHIFT & KIND_HIGH);
        (low | high << 1) as u8
    }

    /// Frame that the entry leads to.
    #[must_use]
    pub const fn frame(self) -> PhysAddr {
        PhysAddr(self.0 & ADDRESS.0)
    }

    /// With a frame so many bytes further.
    #[must_use]
    pub const fn behind(self, bytes: u64) -> Entry {
        Entry(self.0 + bytes)
    }

    /// As it is kept in memory, and back: one that is not present has its address inverted.
    ///
    /// L1TF (CVE-2018-3620): a load through an entry that is not present goes on speculatively with
    /// its address, and gets what the L1 cache has of it. So that address is to be none of
    /// memory's: as on Linux (Documentation/admin-guide/hw-vuln/l1tf.rst, "PTE inversion") it is
    /// inverted, which holds as long as memory ends below half of what the CPU can address.
    pub(crate) const fn inverted(self) -> Entry {
        let is_hidden = self.0 & (VALID.0 | PRESENT.0) == VALID.0;
        if is_hidden { Entry(self.0 ^ ADDRESS.0) } else { self }
    }
}

/// An entry of a frame.
impl BitOr<Bits> for PhysAddr {
    type Output = Entry;
    fn bitor(self, bits: Bits) -> Entry {
        Entry(self.0 | bits.0)
    }
}

impl BitOr<Bits> for Entry {
    type Output = Entry;
    fn bitor(self, bits: Bits) -> Entry {
        Entry(self.0 | bits.0)
    }
}

impl BitAnd<Bits> for Entry {
    type Output = Entry;
    fn bitand(self, bits: Bits) -> Entry {
        Entry(self.0 & bits.0)
    }
}

impl BitOr for Bits {
    type Output = Bits;
    fn bitor(self, others: Bits) -> Bits {
        self.with(others)
    }
}

impl BitOrAssign for Bits {
    fn bitor_assign(&mut self, others: Bits) {
        *self = self.with(others);
    }
}

impl BitAnd for Bits {
    type Output = Bits;
    fn bitand(self, others: Bits) -> Bits {
        Bits(self.0 & others.0)
    }
}

impl Not for Bits {
    type Output = Bits;
    fn not(self) -> Bits {
        Bits(!self.0)
    }
}
