//! Large pages again, after a write behind a fork has split them and its other side is gone.

use super::address_space::AddressSpace;
use crate::base::frames;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_owned, pte_bits};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, Leaf, SMALL};
use hanare_hal::pte::{self, Bits, Entry};

impl AddressSpace {
    /// Makes `page`, which is there and read-only, writable as a part of a large page. The small
    /// pages around it have to be one block of memory that is not shared. False: they are not, or
    /// do not become one.
    pub(in crate::mm) fn join_large(&mut self, vma: &Vma<FileRef>, page: u64) -> bool {
        let base = page & !(LARGE - 1);
        let end = base + LARGE;
        let fits = base >= vma.start && end <= vma.end && matches!(vma.backing, Backing::Anonymous);
        // What is written of it is to be seen by small pages as long as it has such.
        let kept_apart = VmaFlags::NOHUGE | VmaFlags::STACK | VmaFlags::SOFT_CLEAN;
        if !fits || vma.flags.intersects(kept_apart) || vma.prot.is_empty() {
            return false;
        }
        // The common refusals first: a look at three pages.
        let Some(first) =
            self.table.find(base).filter(|l| l.size == SMALL && l.frame().is_aligned(LARGE))
        else {
            return false;
        };
        let follows = |l: Leaf| is_owned(l.entry) && l.frame() == first.frame() + (l.addr - base);
        let quick = [page, end - SMALL].iter().all(|&a| {
            self.table.find(a).is_some_and(|l| follows(l) && !frames::is_shared(l.frame()))
        });
        if !quick {
            return false;
        }
        let (mut pages, mut seen) = (0, Bits::NONE);
        self.table.update(base..end, &mut |l| {
            pages += u64::from(follows(l));
            seen |= l.entry.only(pte::SEEN | pte::SEEN_WRITE | pte::LENT);
            l.entry
        });
        if pages != LARGE / SMALL || !frames::join(first.frame(), 9) {
            return false;
        }
        if seen.has(pte::LENT) {
            self.written_by_linux += LARGE / SMALL; // of the large page, what Linux may of one of its
        }
        let entry = first.frame() | pte_bits(vma.prot) | pte::DIRTY | seen;
        self.table.update(base..end, &mut |_| Entry::NONE);
        self.flush(PageRange::of(base, end));
        if self.map_large(base, entry) {
            return true;
        }
        // Cannot be, for the tables exist; but no page is lost if it is.
        frames::split(first.frame(), 9);
        for at in (base..end).step_by(SMALL as usize) {
            let _ = self.table.map_small(at, entry.behind(at - base), &mut self.tables);
        }
        true
    }
}
