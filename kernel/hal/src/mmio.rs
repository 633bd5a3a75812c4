//! Registers of devices that the module has granted, mapped uncached in the kernel's half.

use crate::shared;
use core::marker::PhantomData;
use hanare_abi::grant::{GRANT_REGION_MAX, GRANT_REGIONS, GRANTS_MAX};

/// Where they are mapped, a place for each region behind the other.
const BASE: u64 = 0xffff_fe10_0000_0000;

/// Most pages of Linux' that are mapped behind all registers: those of a table.
pub(crate) const LINUX_PAGES: usize = 512;

/// Address at which a page of Linux' is mapped, for reading.
pub(crate) const fn place_of_linuxs(number: usize) -> u64 {
    place(GRANTS_MAX as u32, 0) + number as u64 * 4096
}

/// Address at which a region is mapped.
pub(crate) const fn place(grant: u32, region: usize) -> u64 {
    BASE + (grant as u64 * GRANT_REGIONS as u64 + region as u64) * GRANT_REGION_MAX
}

/// Whether registers may be mapped at an address, which a look may change, or pages of Linux'.
pub(crate) fn contains(addr: u64) -> bool {
    (BASE..place_of_linuxs(LINUX_PAGES)).contains(&addr)
}

/// Registers of a device, from an offset of 0 on, for the time of a use.
#[derive(Clone, Copy, Debug)]
pub struct Registers<'a> {
    start: u64,
    size: u64,
    in_use: PhantomData<&'a ()>,
}

/// A region of registers of a granted device.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    start: u64,
    size: u64,
}

impl Region {
    /// Region of a granted device. `None`: it has no such registers.
    #[must_use]
    pub fn of(grant: u32, region: usize) -> Option<Region> {
        let size = shared::grant_region_bytes(grant, region);
        (size != 0).then_some(Region { start: place(grant, region), size })
    }

    /// Registers of the region, as long as `_use` lasts.
    #[must_use]
    #[inline(always)]
    pub const fn registers<T>(self, _use: &T) -> Registers<'_> {
        Registers { start: self.start, size: self.size, in_use: PhantomData }
    }
}

impl Registers<'_> {
    /// Number of bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    #[inline(always)]
    fn at<T>(&self, offset: u64) -> *mut T {
        let bytes = size_of::<T>() as u64;
        let is_there = offset.checked_add(bytes).is_some_and(|end| end <= self.size);
        assert!(is_there && offset.is_multiple_of(bytes), "a register of the device");
        (self.start + offset) as *mut T
    }

    /// Reads four bytes.
    ///
    /// # Panics
    /// Where there are no registers.
    #[must_use]
    pub fn read32(&self, offset: u64) -> u32 {
        // SAFETY: `at` says that the register is one of a granted device, which `devices::map` has
        // mapped for good; a device that is gone reads as ones.
        unsafe { self.at::<u32>(offset).read_volatile() }
    }

    /// Writes four bytes.
    ///
    /// # Panics
    /// Where there are no registers.
    #[inline(always)]
    pub fn write32(&self, offset: u64, value: u32) {
        // SAFETY: as in `read32`.
        unsafe { self.at::<u32>(offset).write_volatile(value) };
    }

    /// Reads eight bytes.
    ///
    /// # Panics
    /// Where there are no registers.
    #[must_use]
    pub fn read64(&self, offset: u64) -> u64 {
        // SAFETY: as in `read32`.
        unsafe { self.at::<u64>(offset).read_volatile() }
    }

    /// Writes eight bytes.
    ///
    /// # Panics
    /// Where there are no registers.
    pub fn write64(&self, offset: u64, value: u64) {
        // SAFETY: as in `read32`.
        unsafe { self.at::<u64>(offset).write_volatile(value) };
    }
}
