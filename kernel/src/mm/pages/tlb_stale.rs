//! Work that a change of an address space leaves to be done for other CPUs: they drop translations
//! from their TLBs, then frames and tables are free.

use crate::base::chain::{Chain, Run};
use crate::base::tables::UserTables;
use crate::sched::tlb;
use hanare_core::pagerange::PageRange;
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::TableSource;

/// Work for when the lock of an address space is given back: other CPUs drop `range` from their
/// TLBs, then the rest is free.
#[derive(Default)]
pub struct Stale {
    range: Option<PageRange>,
    /// Frames that lost their last mapping.
    pub(in crate::mm) blocks: Chain,
    tables: Chain,
}

impl Stale {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.range.is_none() && self.blocks.is_empty()
    }

    /// Whether a table was replaced.
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// A range that other CPUs may still have in their TLBs.
    pub(in crate::mm) fn add(&mut self, range: PageRange) {
        self.range = Some(tlb::join(self.range, range));
    }

    /// Asks the CPUs. With the lock: the CPU that takes it next has dropped what is stale.
    pub fn post(&self, active: &tlb::CpuSet) {
        if let Some(range) = self.range {
            tlb::post_flush(active, range);
        }
    }

    /// Waits until they have, and frees the rest. Without the lock.
    pub fn settle(self, active: &tlb::CpuSet) {
        if self.range.is_some() {
            tlb::wait_for_flush(active);
        }
        self.blocks.free();
        self.tables.free();
    }
}

/// Table pages for a change of an address space; what is replaced is freed when no
/// CPU can walk it any more.
pub struct StaleTables<'a>(pub &'a mut Stale, pub UserTables);

impl TableSource for StaleTables<'_> {
    fn alloc_table(&mut self) -> Option<PhysAddr> {
        self.1.alloc_table()
    }
    fn free_table(&mut self, paddr: PhysAddr) {
        self.0.tables.push(Run::of(paddr, false));
    }
}
