//! Putting pages into an address space, and giving them the rights of their mapping.

use super::address_space::AddressSpace;
use super::address_space::is_shared;
use crate::base::frames;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_lost, new_page_bits, sight, sight_bits, with_rights};
use crate::mm::pages::entry::{is_owned, kind_bits, pages_of, pte_bits};
use hanare_core::coherence::{Change, ForWrite, for_write};
use hanare_core::framekind::FrameKind;
use hanare_core::pagerange::PageRange;
use hanare_core::rss::Counted;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::{LARGE, Leaf, SMALL};
use hanare_hal::pte::{self, Bits, Entry};
use hanare_hal::{cpu, memory};

/// Pages of an anonymous mapping brought in around a small fault beside a page that is there: the
/// program goes on.
const AROUND: u64 = 16;
/// Like [`AROUND`], where it begins: most programs need two or three pages of a stack or a heap,
/// and to clear a page costs as much as a fault. Also where the program wants no large pages
/// (stacks of threads): ten thousand of these use a page or two each.
const AROUND_SPARSE: u64 = 4;
/// Whether a page is brought in because it is accessed, or ahead of that: then its entry says so
/// ([`pte::ACCESSED`] is clear) until a CPU uses it, and mincore(2) does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::mm) enum Why {
    /// The page is read.
    Read,
    /// The page is written.
    Written,
    /// The page is likely to be accessed, or was promised.
    Ahead,
}

/// The result for a page that is to be written.
pub(in crate::mm) enum Gained {
    /// The page can be written to.
    Done,
    /// The page is a copy now, which can be written to; the caller gives up the old frame.
    Copied(PhysAddr),
    /// Nothing: it is to be copied, once CPUs have dropped it, when the lock is given back, and
    /// Linux has forgotten it, if `ask`.
    Waits {
        /// Linux has to be asked first, since it may have the page.
        ask: bool,
    },
    /// Nothing: a fork is under way, and gives the child a copy of the page. Then threads that wait
    /// for [settled](crate::mm::change::reserve) addresses are told.
    Forks,
}

impl AddressSpace {
    /// Maps a frame that is the kernel's, for all.
    pub(in crate::mm) fn map_fixed(
        &mut self,
        vma: &Vma<FileRef>,
        addr: u64,
        frame: PhysAddr,
    ) -> Result<(), ()> {
        let entry = frame | new_page_bits(vma, vma.prot) | kind_bits(FrameKind::Kernel);
        match self.table.map_small(addr & !(SMALL - 1), entry, &mut self.tables) {
            Ok(()) => {
                // Counted as it is when it goes, and charged to no account.
                self.count_mapped(1, Counted::Foreign);
                Ok(())
            }
            Err(_) => Err(()),
        }
    }

    /// Maps a page of Linux' where none is, or where one is to be written that could not be. It is
    /// written, if `write`.
    pub(in crate::mm) fn map_linuxs(
        &mut self,
        addr: u64,
        (frame, kind): (PhysAddr, FrameKind),
        rights: Prot,
        write: bool,
    ) -> Result<(), ()> {
        let known = self.table.find(addr);
        if known.is_some_and(|l| !write || l.entry.has(pte::WRITE)) {
            return Ok(());
        }
        let written = if write { pte::DIRTY } else { Bits::NONE };
        let entry = frame | pte_bits(rights) | written | kind_bits(kind);
        self.table.map_small(addr, entry, &mut self.tables).map_err(|_| ())?;
        if known.is_none() {
            self.count_mapped(1, Counted::Foreign);
        }
        cpu::flush_page(addr);
        Ok(())
    }

    /// Gives a page that is there the rights of its mapping; if it is shared it is replaced by a
    /// copy (see [`unshare`](Self::unshare)).
    pub(in crate::mm) fn make_writable(
        &mut self,
        vma: &Vma<FileRef>,
        page: u64,
        change: &mut Change,
    ) -> Result<Gained, ()> {
        let Some(leaf) = self.table.find(page) else { return Ok(Gained::Done) };
        let is_owned = is_owned(leaf.entry);
        if !is_owned || !vma.prot.contains(Prot::WRITE) || !is_shared(&leaf) {
            let is_files = leaf.size == SMALL
                && is_owned
                && vma.prot.contains(Prot::WRITE)
                && matches!(vma.backing, Backing::PrivateFile { .. });
            if is_files && !self.take(leaf.frame()) {
                return Err(());
            }
            self.refresh(page, vma.prot);
            return Ok(Gained::Done);
        }
        // Of a large page one of the small ones.
        match self.find_small(page).map_err(|_| ())? {
            Some(leaf) => self.unshare(&leaf, vma.prot, change),
            None => Ok(Gained::Done),
        }
    }

    /// Replaces a small page whose frame other spaces have, too, by a copy. Before that no CPU may
    /// have a translation of it: one would go on reading the old frame while another writes the
    /// copy, or, just after a fork, write what the copy has not. Nor may Linux, for the same
    /// reason.
    ///
    /// # Errors
    /// There is no memory; the page is as it was.
    pub(in crate::mm) fn unshare(
        &mut self,
        leaf: &Leaf,
        prot: Prot,
        change: &mut Change,
    ) -> Result<Gained, ()> {
        let page = PageRange::of(leaf.addr, leaf.addr + SMALL);
        let is_present = leaf.entry.has(pte::PRESENT);
        let mut prepared = change.prepared(page, is_present);
        prepared.is_flushed |= self.is_alone();
        let needed = for_write(sight(leaf.entry), true, leaf.entry.has(pte::LENT), prepared);
        if needed == ForWrite::Wait {
            return Ok(Gained::Forks);
        }
        if is_present {
            self.table.update(page.addresses(), &mut |l| l.entry & !pte::PRESENT);
            self.coherence.disturb(page);
        }
        if self.table.is_active() {
            cpu::flush_page(page.start());
        }
        let copied = match needed {
            ForWrite::Prepare { ask } => {
                let stale = self.coherence.to_flush(page, PageRange::of(0, 1 << 47));
                self.flush(stale);
                self.reserve(change, page).map_err(|_| ()).map(|_| Gained::Waits { ask })
            }
            ForWrite::Allow | ForWrite::Copy | ForWrite::Wait => self.copy_page(leaf, prot),
        };
        if copied.is_err() {
            self.refresh(page.start(), prot - Prot::WRITE);
        }
        copied
    }

    fn copy_page(&mut self, leaf: &Leaf, prot: Prot) -> Result<Gained, ()> {
        let new = self.alloc(leaf.addr).ok_or(())?;
        memory::copy(new, leaf.frame(), SMALL as usize);
        let entry = new | pte_bits(prot) | pte::DIRTY;
        if self.table.map_small(leaf.addr, entry, &mut self.tables).is_err() {
            frames::free(new, 0);
            return Err(());
        }
        Ok(Gained::Copied(leaf.frame()))
    }

    /// Sets the rights of an existing small or large leaf from the mapping's. One that can be
    /// written then was, or is about to be.
    pub(in crate::mm) fn refresh(&mut self, addr: u64, prot: Prot) {
        let Some(leaf) = self.table.find(addr).filter(|l| !is_lost(l)) else { return };
        self.table.update(pages_of(&leaf).addresses(), &mut |l| {
            let seen = sight_bits(sight(l.entry));
            if prot.contains(Prot::WRITE) {
                with_rights(l.entry & !pte::SOFT_CLEAN, prot) | pte::DIRTY | pte::ACCESSED | seen
            } else {
                with_rights(l.entry, prot) | seen
            }
        });
        cpu::flush_page(addr);
    }

    /// Brings in zeroed memory around `addr`: a large page where the mapping covers one and nothing
    /// is there yet, else up to [`AROUND`] or [`AROUND_SPARSE`] small ones. `written`: the page
    /// counts as written.
    pub(in crate::mm) fn populate_anonymous(
        &mut self,
        vma: &Vma<FileRef>,
        addr: u64,
        written: bool,
    ) -> Result<(), ()> {
        let why = if written { Why::Written } else { Why::Read };
        if self.populate_large(vma, addr & !(LARGE - 1), why) {
            return Ok(());
        }
        let page = addr & !(SMALL - 1);
        let goes_on = !vma.flags.contains(VmaFlags::NOHUGE)
            && [page.wrapping_sub(SMALL), page + SMALL]
                .iter()
                .any(|&at| self.table.find(at).is_some());
        let around = SMALL
            * match goes_on {
                _ if vma.flags.contains(VmaFlags::LOCK_ON_FAULT) => 1, // what is accessed and no more
                true => AROUND,
                false => AROUND_SPARSE,
            };
        let window = addr & !(around - 1);
        let start = window.max(vma.start);
        let end = (window + around).min(vma.end);
        // The page asked for first: the others only as long as memory lasts.
        self.populate_small(vma, page, why)?;
        for at in (start..end).step_by(SMALL as usize) {
            if self.table.find(at).is_none() && self.populate_small(vma, at, Why::Ahead).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn populate_small(&mut self, vma: &Vma<FileRef>, page: u64, why: Why) -> Result<(), ()> {
        let frame = self.alloc(page).ok_or(())?;
        memory::zero(frame, SMALL as usize);
        let entry = entry_for(frame, vma, why);
        if self.table.map_small(page, entry, &mut self.tables).is_err() {
            frames::free(frame, 0);
            return Err(());
        }
        self.count_mapped(1, Counted::Own);
        Ok(())
    }

    /// Brings in a zeroed large page at `large`, if the mapping covers it, nothing
    /// is there yet, and there is one.
    pub(in crate::mm) fn populate_large(
        &mut self,
        vma: &Vma<FileRef>,
        large: u64,
        why: Why,
    ) -> bool {
        let fits = large >= vma.start
            && large + LARGE <= vma.end
            && !vma.flags.intersects(VmaFlags::NOHUGE | VmaFlags::STACK);
        if !fits || !self.table.is_large_free(large) {
            return false;
        }
        let is_needed = vma.flags.contains(VmaFlags::HUGETLB);
        let Some(frame) = self.alloc_large(large, is_needed) else { return false };
        memory::zero(frame, LARGE as usize);
        let mapped = self.map_large(large, entry_for(frame, vma, why));
        if mapped {
            self.count_mapped(512, Counted::Own);
        } else {
            frames::free(frame, 9);
        }
        mapped
    }
}

/// The entry of a new anonymous page. Where soft-dirty bits were cleared it counts as written once
/// a write to it was seen.
fn entry_for(frame: PhysAddr, vma: &Vma<FileRef>, why: Why) -> Entry {
    let is_written = why == Why::Written && !vma.flags.contains(VmaFlags::SOFT_CLEAN);
    let written = if is_written { pte::DIRTY } else { Bits::NONE };
    let entry = frame | new_page_bits(vma, vma.prot) | written;
    if why == Why::Ahead { entry & !pte::ACCESSED } else { entry }
}
