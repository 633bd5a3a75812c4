//! Putting pages into an address space, and giving them the rights of their mapping.

use super::address_space::is_lost;
use super::content::FileRef;
use super::{AddressSpace, pte_bits};
use crate::base::frames;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::memory;
use hanare_hal::paging::{LARGE, SMALL};

/// Pages of an anonymous mapping brought in around a small fault.
const AROUND: u64 = 16;
/// Like [`AROUND`], where the program wants no large pages (stacks of threads): ten thousand of
/// these use a page or two each.
const AROUND_SPARSE: u64 = 4;
/// What was done to a page that is to be written.
pub(super) enum Gained {
    /// It can be.
    Done,
    /// It can be, and is a copy now; the old frame is the caller's to give up.
    Copied(u64),
    /// Nothing: it has to be copied, and Linux has to forget it first.
    Seen,
}

impl AddressSpace {
    /// Maps a frame that is the kernel's, for all.
    pub(super) fn map_fixed(
        &mut self,
        vma: &Vma<FileRef>,
        addr: u64,
        frame: u64,
    ) -> Result<(), ()> {
        let entry = frame | pte_bits(vma.prot) | hanare_hal::paging::pte::FOREIGN;
        match self.table.map_small(addr & !(SMALL - 1), entry, &mut frames::UserTables) {
            Ok(()) => {
                // Counted as it is when it goes, and charged to nobody.
                self.add_foreign(1);
                Ok(())
            }
            Err(_) => Err(()),
        }
    }

    /// Whether Linux is being asked to forget a page of a range.
    pub(super) fn forgets(&self, start: u64, end: u64) -> bool {
        self.forgetting.iter().any(|page| (start..end).contains(page))
    }

    /// A thread's `page` has been forgotten: Linux may have it again.
    pub(super) fn given_again(&mut self, page: u64) {
        if let Some(at) = self.forgetting.iter().position(|&p| p == page) {
            self.forgetting.swap_remove(at);
        }
    }

    /// Gives a present page the rights of its mapping; if it is shared it is replaced by a
    /// copy, once Linux has `forgotten` it if it had seen it in this space: what it still
    /// wrote there would not be in the copy, and it would go on reading the old frame.
    pub(super) fn make_writable(
        &mut self,
        vma: &Vma<FileRef>,
        page: u64,
        forgotten: bool,
    ) -> Result<Gained, ()> {
        use hanare_hal::paging::pte;
        let Some(leaf) = self.table.find(page) else { return Ok(Gained::Done) };
        let foreign = leaf.entry & pte::FOREIGN != 0;
        if foreign
            || leaf.size == LARGE
            || !vma.prot.contains(Prot::WRITE)
            || !frames::is_shared(leaf.frame())
        {
            let is_files = leaf.size == SMALL
                && !foreign
                && vma.prot.contains(Prot::WRITE)
                && matches!(vma.backing, Backing::PrivateFile { .. });
            if is_files && !self.take(leaf.frame()) {
                return Err(());
            }
            self.refresh(page, vma.prot);
            return Ok(Gained::Done);
        }
        if leaf.entry & pte::SEEN != 0 && !forgotten {
            return Ok(Gained::Seen);
        }
        let new = self.alloc(page).ok_or(())?;
        memory::copy(new, leaf.frame(), SMALL as usize);
        if self.table.map_small(page, new | pte_bits(vma.prot), &mut frames::UserTables).is_err() {
            frames::free(new, 0);
            return Err(());
        }
        self.flush(page, page + SMALL);
        Ok(Gained::Copied(leaf.frame()))
    }

    /// Sets the rights of an existing small or large leaf from the mapping's.
    pub(super) fn refresh(&mut self, addr: u64, prot: Prot) {
        use hanare_hal::paging::pte;
        let Some(leaf) = self.table.find(addr).filter(|l| !is_lost(l)) else { return };
        self.table.update(leaf.addr, leaf.addr + leaf.size, &mut |l| {
            let keep =
                l.entry & (pte::ADDRESS | pte::LARGE | pte::SEEN | pte::FOREIGN | pte::VALID);
            keep | pte_bits(prot)
        });
        hanare_hal::cpu::flush_page(addr);
    }

    /// Brings in zeroed memory around `addr`: a large page where the mapping
    /// covers one and nothing is there yet, else up to [`AROUND`] or [`AROUND_SPARSE`] small ones.
    pub(super) fn populate_anonymous(&mut self, vma: &Vma<FileRef>, addr: u64) -> Result<(), ()> {
        if self.populate_large(vma, addr & !(LARGE - 1)) {
            return Ok(());
        }
        let around =
            SMALL * if vma.flags.contains(VmaFlags::NOHUGE) { AROUND_SPARSE } else { AROUND };
        let window = addr & !(around - 1);
        let start = window.max(vma.start);
        let end = (window + around).min(vma.end);
        let page = addr & !(SMALL - 1);
        // The page asked for first: the others only as long as memory lasts.
        self.populate_small(vma, page)?;
        for at in (start..end).step_by(SMALL as usize) {
            if self.table.find(at).is_none() && self.populate_small(vma, at).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn populate_small(&mut self, vma: &Vma<FileRef>, page: u64) -> Result<(), ()> {
        let frame = self.alloc(page).ok_or(())?;
        memory::zero(frame, SMALL as usize);
        if self.table.map_small(page, frame | pte_bits(vma.prot), &mut frames::UserTables).is_err()
        {
            frames::free(frame, 0);
            return Err(());
        }
        self.add_resident(1);
        Ok(())
    }

    /// Brings in a zeroed large page at `large`, if the mapping covers it, nothing
    /// is there yet, and there is one.
    pub(super) fn populate_large(&mut self, vma: &Vma<FileRef>, large: u64) -> bool {
        let fits = large >= vma.start
            && large + LARGE <= vma.end
            && !vma.flags.intersects(VmaFlags::NOHUGE | VmaFlags::STACK);
        if !fits || !self.table.is_large_free(large) {
            return false;
        }
        let is_needed = vma.flags.contains(VmaFlags::HUGETLB);
        let Some(frame) = self.alloc_large(large, is_needed) else { return false };
        memory::zero(frame, LARGE as usize);
        let mapped = self.map_large(large, frame | pte_bits(vma.prot));
        if mapped {
            self.add_resident(512);
        } else {
            frames::free(frame, 9);
        }
        mapped
    }
}
