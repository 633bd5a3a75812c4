//! Counting the mappings of pages that a fork shares: runs of small ones, and large ones.

use super::frames::{LARGE_ORDER, MARK_SEEN, pfn, share_run, with_zone};
use hanare_core::buddy::{Frame, Zone};
use hanare_hal::addr::PhysAddr;

/// Single pages that get one more mapping each (fork), many at once where they lie one behind the
/// other. Before the lock of their address space is given back they are to be
/// [`finish`](Sharing::finish)ed.
#[derive(Default)]
pub struct Sharing {
    first: PhysAddr,
    pages: usize,
}

impl Sharing {
    /// One more mapping of a page.
    pub fn add(&mut self, paddr: PhysAddr) {
        if paddr != self.first + self.pages as u64 * 4096 {
            self.finish();
            self.first = paddr;
        }
        self.pages += 1;
    }

    /// Counts those that are not counted yet.
    pub fn finish(&mut self) {
        share_run(self.first, core::mem::take(&mut self.pages));
    }
}

/// The frames that count the mappings of a large page: its block's first one or, where another
/// space that has the page has split the block, each of them.
fn counting<'a>(z: &'a mut Zone<'static>, paddr: PhysAddr) -> &'a mut [Frame] {
    let is_block = z.block_order(pfn(paddr)) == Some(LARGE_ORDER);
    z.frames_mut(pfn(paddr), if is_block { 1 } else { 1 << LARGE_ORDER })
}

/// One more mapping of a large page (fork).
pub fn share_large(paddr: PhysAddr) {
    with_zone(paddr, |z| counting(z, paddr).iter_mut().for_each(|f| f.refs += 1));
}

/// Whether a large page has more than one mapping, or one of the small pages into which another
/// space has split it.
pub fn is_large_shared(paddr: PhysAddr) -> bool {
    with_zone(paddr, |z| counting(z, paddr).iter().any(|f| f.refs > 1))
}

/// As [`mark_seen`], of a large page.
pub fn mark_large_seen(paddr: PhysAddr) {
    with_zone(paddr, |z| counting(z, paddr).iter_mut().for_each(|f| f.marks |= MARK_SEEN));
}
