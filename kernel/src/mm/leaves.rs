//! Moving pages to other addresses.

use super::AddressSpace;
use crate::base::{heap, lists};
use hanare_core::errno::{self, Result};
use hanare_hal::paging::{LARGE, SMALL};
use hanare_hal::pte::{self, Bits, Entry};

impl AddressSpace {
    /// Maps the pages of `start..end`, which Linux has forgotten, at `target`, too, where nothing
    /// is. `ENOMEM`, for tables: then none is.
    pub fn place_leaves(&mut self, start: u64, end: u64, target: u64) -> Result<()> {
        self.split_edges(start, end)?;
        if !target.wrapping_sub(start).is_multiple_of(LARGE) {
            self.split_all(start, end)?;
        }
        let mut leaves = heap::with_room((LARGE / SMALL) as usize)?;
        self.moves = self.moves.wrapping_add(1);
        self.coherence.disturb((target, target + (end - start))); // CPUs have them at the old addresses
        for part in (start..end).step_by(LARGE as usize) {
            leaves.clear();
            self.table.update(part, end.min(part + LARGE), &mut |l| {
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
                self.displace_leaves(target, target + (end - start));
                return Err(errno::ENOMEM);
            }
        }
        Ok(())
    }

    /// Undoes one of the two mappings of such pages.
    pub fn displace_leaves(&mut self, start: u64, end: u64) {
        self.table.update(start, end, &mut |_| Entry::NONE);
        self.flush(start, end);
    }
}
