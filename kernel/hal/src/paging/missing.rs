//! Leaves of a user address space that are not there.

use super::{LARGE, NoMemory, PageTable, SMALL, TableSource, get, index, set};
use crate::pte::{self, Entry};
use core::ops::Range;

impl PageTable {
    /// Sets small leaves where none is in a range: each to what `entry` says of its address,
    /// if anything, with `VALID` added.
    ///
    /// # Errors
    /// There was no page for a table: those below what it is for are set.
    pub fn map_missing(
        &mut self,
        range: Range<u64>,
        source: &mut dyn TableSource,
        entry: &mut dyn FnMut(u64) -> Option<Entry>,
    ) -> Result<(), NoMemory> {
        let Range { start: mut addr, end } = range;
        assert!(end <= 1 << 47 && addr.is_multiple_of(SMALL));
        while addr < end {
            let stop = end.min((addr & !(LARGE - 1)) + LARGE);
            let is_large =
                self.table(addr, 1).is_some_and(|pd| get(pd, index(addr, 1)).has(pte::LARGE));
            if !is_large {
                let table = self.create(addr, 0, source)?;
                for addr in (addr..stop).step_by(SMALL as usize) {
                    let place = index(addr, 0);
                    if !get(table, place).has(pte::VALID)
                        && let Some(entry) = entry(addr)
                    {
                        set(table, place, entry | pte::VALID);
                    }
                }
            }
            addr = stop;
        }
        Ok(())
    }

    /// Whether the small pages around `addr` have a table, though maybe none is there.
    pub fn has_small_table(&self, addr: u64) -> bool {
        self.table(addr, 0).is_some()
    }

    /// The first address in a range that a leaf beginning there covers, else its end.
    pub fn first_leaf(&self, range: Range<u64>) -> u64 {
        let Range { start: mut addr, end } = range;
        while addr < end {
            let stop = end.min((addr & !(LARGE - 1)) + LARGE);
            if let Some(pd) = self.table(addr, 1) {
                let e = get(pd, index(addr, 1));
                if e.has(pte::LARGE) {
                    return addr;
                }
                if e.has(pte::PRESENT) {
                    let table = e.frame();
                    let mut pages = (addr..stop).step_by(SMALL as usize);
                    if let Some(found) =
                        pages.find(|&addr| get(table, index(addr, 0)).has(pte::VALID))
                    {
                        return found;
                    }
                }
            }
            addr = stop;
        }
        end
    }
}
