//! Devices of Linux' of which drivers of the LWK have a part (`docs/drivers.md`).

use crate::LARGE_PAGE_SIZE;
use crate::frame::PhysFrame;

/// Most devices of an instance.
pub const GRANTS_MAX: usize = 4;
/// Most regions of registers of a device (BARs of a PCI function).
pub const GRANT_REGIONS: usize = 6;
/// Bytes of a driver's name, with a zero at the end.
pub const GRANT_NAME_BYTES: usize = 16;
/// Bytes of a region that the LWK maps at most, from its start on.
pub const GRANT_REGION_MAX: u64 = 16 << 20;
/// Memory that has one address for DMA behind the other, bytes.
pub const DMA_PIECE: u64 = LARGE_PAGE_SIZE;

/// Linux' driver has the device.
pub const GRANT_THERE: u32 = 1;
/// Linux' driver has let go of it, or is about to.
pub const GRANT_GONE: u32 = 2;

/// Registers of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GrantRegion {
    /// Physical address of the first byte, page aligned.
    pub base: PhysFrame,
    /// Length in bytes; 0: there are none.
    pub size: u64,
}

/// Uses of a device on a CPU (free running), written by that CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GrantUses {
    /// Uses that have begun there.
    pub begun: u32,
    /// Uses that have ended there.
    pub ended: u32,
}

/// A device. Written by the module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// `GRANT_*`: the only word that changes while the LWK runs.
    pub state: u32,
    /// 1: a block device.
    pub is_block: u32,
    /// Device number, as `st_rdev` has it.
    pub device: u64,
    /// Zero-terminated name of the LWK's driver.
    pub driver: [u8; GRANT_NAME_BYTES],
    /// Registers of the device.
    pub regions: [GrantRegion; GRANT_REGIONS],
}
