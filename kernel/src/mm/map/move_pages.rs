//! Moving pages to other addresses.

use super::address_space::AddressSpace;
use crate::base::{heap, lists};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_hal::paging::{LARGE, SMALL};
use hanare_hal::pte::{self, Bits, Entry};

impl AddressSpace {
    /// Maps the pages of a range, which Linux has forgotten, at `target`, too, where nothing
    /// is. `ENOMEM`, for tables: then none is.
    pub fn place_leaves(&mut self, range: PageRange, target: u64) -> Result<()> {
        let (start, end) = (range.start(), range.end());
        let placed_at = PageRange::of(target, target + range.len());
        self.split_edges(range)?;
        if !target.wrapping_sub(start).is_multiple_of(LARGE) {
            self.split_all(range)?;
        }
        let mut leaves = heap::with_room((LARGE / SMALL) as usize)?;
        self.coherence.arrive(placed_at);
        for part in (start..end).step_by(LARGE as usize) {
            leaves.clear();
            self.table.update(part..end.min(part + LARGE), &mut |l| {
                lists::push_within(&mut leaves, l);
                l.entry
            });
            let placed = leaves.iter().all(|l| {
                let to = target + (l.addr - start);
                // What moves is soft-dirty, as on Linux. A write may come while it is at both
                // places.
                let noted = if l.entry.has(pte::WRITE) { pte::DIRTY } else { Bits::NONE };
                let entry = l.entry & !(pte::SEEN | pte::SEEN_WRITE | pte::SOFT_CLEAN) | noted;
                if l.size == LARGE {
                    self.map_large(to, entry)
                } else {
                    self.table.map_small(to, entry, &mut self.tables).is_ok()
                }
            });
            if !placed {
                self.displace_leaves(placed_at);
                return Err(errno::ENOMEM);
            }
        }
        Ok(())
    }

    /// Undoes one of the two mappings of such pages.
    pub fn displace_leaves(&mut self, range: PageRange) {
        self.table.update(range.addresses(), &mut |_| Entry::NONE);
        self.flush(range);
    }
}
