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

/// A device as `IOCTL_STATUS` shows it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GrantStatus {
    /// Zero-terminated name of the LWK's driver; empty: there is no device.
    pub driver: [u8; GRANT_NAME_BYTES],
    /// `GRANT_*`; 0: the LWK does not run.
    pub state: u32,
    /// Address of the function: PCI domain.
    pub domain: u32,
    /// PCI bus.
    pub bus: u32,
    /// Number on the bus: device << 3 | function.
    pub function: u32,
    /// Uses since boot.
    pub uses: u64,
}

/// Commands that a queue of a controller holds, and answers of it: a page of commands.
pub const QUEUE_ENTRIES: u32 = 64;

/// Pair of queues that the module has made on an NVMe controller for a CPU of the LWK's. Written by
/// the module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GrantQueue {
    /// Counts the pairs: all commands of an earlier one are over, and the queues are empty. 0:
    /// there has been none.
    pub round: u32,
    /// Number by which the controller knows the pair; 0: there is none now. Written before `round`.
    pub id: u32,
}

/// Queues of a controller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GrantQueues {
    /// Place in the shared region of a [`GrantQueue`] for each CPU; 0: the device has no queues.
    pub offset: u32,
    /// Place there of two pages for each CPU: commands, and answers.
    pub pages_offset: u32,
    /// Bytes from one doorbell to the next in its registers.
    pub doorbell_stride: u32,
    /// Most bytes of a command; 0: as many as one can say.
    pub transfer_max: u32,
}

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
    /// Queues that the module has made on it.
    pub queues: GrantQueues,
}
