//! Pages that Linux fills for the kernel itself.

use crate::base::{frames, heap};
use alloc::vec::Vec;
use hanare_abi::frame::Extent;
use hanare_core::errno::{self, Result};
use hanare_core::ledger::FrameOwner;
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;

/// 2^n pages.
pub struct Pages {
    frame: PhysAddr,
    order: u32,
}

impl Pages {
    /// 2^`order` pages, for an owner.
    pub fn new(order: u32, owner: FrameOwner) -> Result<Pages> {
        Ok(Pages { frame: frames::alloc_user(order, owner).ok_or(errno::ENOMEM)?, order })
    }

    /// The pages as an extent, for a service.
    pub fn extent(&self) -> u64 {
        Extent::of(self.frame.frame(), 1 << self.order).word()
    }

    /// Up to a page, from `offset` on.
    pub fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = heap::zeroed(count.min(4096))?;
        memory::read(self.frame + offset, &mut bytes);
        Ok(bytes)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        frames::free(self.frame, self.order);
    }
}
