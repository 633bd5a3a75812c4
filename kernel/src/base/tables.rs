//! Page table pages, from the zones of frames.

use crate::base::frames::{alloc_user_zeroed, alloc_zeroed, free};
use hanare_core::ledger::{FrameOwner, Subject};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::TableSource;

/// Page table pages from the zones, for an owner.
#[derive(Clone, Copy)]
pub struct Tables(pub FrameOwner);

impl Tables {
    /// The kernel's own; also for code that only frees some.
    pub fn kernel() -> Tables {
        Tables(FrameOwner::kernel(Subject::Tables))
    }
}

impl TableSource for Tables {
    fn alloc_table(&mut self) -> Option<PhysAddr> {
        alloc_zeroed(self.0)
    }
    fn free_table(&mut self, paddr: PhysAddr) {
        free(paddr, 0);
    }
}

/// Page table pages for what an application maps: they leave the kernel its share.
#[derive(Clone, Copy)]
pub struct UserTables(pub FrameOwner);

impl TableSource for UserTables {
    fn alloc_table(&mut self) -> Option<PhysAddr> {
        alloc_user_zeroed(self.0)
    }
    fn free_table(&mut self, paddr: PhysAddr) {
        free(paddr, 0);
    }
}
