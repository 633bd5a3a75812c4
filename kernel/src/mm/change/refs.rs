//! Accesses to pages: `/proc/PID/pagemap` shows them, `/proc/PID/clear_refs` has them watched anew.
//!
//! A page is soft-dirty unless it is marked otherwise, so a program that never clears soft-dirty
//! bits has nothing to do for them. To clear them marks all mappings and all pages, and takes the
//! right to write from the pages. The next write to each, of the program or of Linux, is a fault,
//! which takes the mark away. What Linux could write to it forgets after that; until then it may
//! write unseen, as if before.

use crate::base::frames;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::address_space::is_shared;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::{is_lost, is_owned, is_used, pages_of, sight, sight_bits};
use core::cell::Cell;
use hanare_abi::info::{
    PAGEMAP_EXCLUSIVE, PAGEMAP_FILE, PAGEMAP_LARGE, PAGEMAP_LINUX, PAGEMAP_PRESENT,
    PAGEMAP_SOFT_DIRTY, PAGEMAP_SWAP, PAGEMAP_TABLE, PAGEMAP_UNMAPPED,
};
use hanare_abi::layout::USER_MAX;
use hanare_core::coherence::Sight;
use hanare_core::errno::{self, Result};
use hanare_core::pagemap::Runs;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, SpecialKind, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, Leaf, SMALL};
use hanare_hal::pte::{self, Bits, Entry};

/// Values written to `clear_refs`: the pages of which accesses or writes are forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    /// Accesses to all pages.
    Accessed,
    /// Accesses to pages of mappings without a file.
    AccessedAnonymous,
    /// Accesses to pages of mappings of files.
    AccessedFiles,
    /// Writes, which soft-dirty bits show.
    SoftDirty,
    /// The most pages that were mapped at once.
    Peak,
}

impl Clear {
    /// The clearing that a number written to `clear_refs` asks for.
    pub const fn of(number: u64) -> Option<Clear> {
        match number {
            1 => Some(Clear::Accessed),
            2 => Some(Clear::AccessedAnonymous),
            3 => Some(Clear::AccessedFiles),
            4 => Some(Clear::SoftDirty),
            5 => Some(Clear::Peak),
            _ => None,
        }
    }

    /// Whether pages of the mapping are to be cleared.
    fn concerns(self, v: &Vma<FileRef>) -> bool {
        let has_file =
            matches!(v.backing, Backing::PrivateFile { .. } | Backing::SharedLinux { .. });
        match self {
            Clear::Accessed => true,
            Clear::AccessedAnonymous => !has_file,
            Clear::AccessedFiles => has_file,
            // Linux does not watch pages of its pools of large ones; what it shares with others it
            // watches itself.
            Clear::SoftDirty => {
                !v.flags.contains(VmaFlags::HUGETLB)
                    && !matches!(v.backing, Backing::SharedLinux { .. })
            }
            Clear::Peak => false,
        }
    }
}

impl AddressSpace {
    /// Does what was written to `clear_refs`. Returns whether Linux has pages which it has to
    /// forget when the lock was given back.
    pub fn clear_refs(&mut self, what: Clear) -> bool {
        let mut is_seen = false;
        match what {
            Clear::Peak => {
                self.reset_peak();
                return false;
            }
            Clear::SoftDirty => self.clear_soft_dirty(),
            _ => {}
        }
        let whole = self.mappings().whole();
        // A device may write them until it is over.
        let transfers = core::mem::take(&mut self.transfers);
        self.change_pages_of(
            whole,
            |v| what.concerns(v),
            |_, leaf| {
                let seen = sight(leaf.entry);
                match what {
                    _ if is_lost(&leaf) => leaf.entry,
                    Clear::SoftDirty if transfers.meet(pages_of(&leaf)) => leaf.entry,
                    Clear::SoftDirty => {
                        is_seen |= seen == Sight::Write;
                        leaf.entry & !pte::WRITE | pte::SOFT_CLEAN
                    }
                    _ => {
                        is_seen |= seen.is_seen();
                        let used = if is_used(leaf.entry) { pte::USED } else { Bits::NONE };
                        leaf.entry & !pte::ACCESSED | used
                    }
                }
            },
        );
        self.transfers = transfers;
        self.flush(PageRange::of(0, 1 << 47));
        is_seen
    }

    /// Pages from `from` on to which Linux could write, and has forgotten since their soft-dirty
    /// bits were cleared: calls `f` for each until that is false, and returns where to go on, or 0.
    pub fn each_written_by_linux(&mut self, from: u64, f: &mut dyn FnMut(&Leaf) -> bool) -> u64 {
        let stop = Cell::new(0);
        let Some(range) = PageRange::around(from, USER_MAX) else { return 0 };
        self.change_pages_of(
            range,
            |_| stop.get() == 0,
            |_, leaf| {
                let is_meant = leaf.entry.has(pte::SOFT_CLEAN) && sight(leaf.entry) == Sight::Write;
                if stop.get() != 0 || !is_meant {
                    return leaf.entry;
                }
                if !f(&leaf) {
                    stop.set(leaf.addr);
                    return leaf.entry;
                }
                // It has been given them for reading only since.
                leaf.entry & !sight_bits(Sight::Write) | sight_bits(Sight::Read)
            },
        );
        stop.get()
    }

    /// A page may be written by a device, unseen: it is soft-dirty, and Linux counts as able to
    /// write to it.
    pub fn keep_soft_dirty(&mut self, addr: u64) -> Result<()> {
        let leaf = self.leaf(addr).ok_or(errno::EFAULT)?;
        // The page may be another one since Linux was asked about it. Only one that is this space's
        // alone can be lent: others have been given up, or are copied when they are written to.
        if is_lost(&leaf) {
            return Ok(());
        }
        let is_lent = is_owned(leaf.entry) && !is_shared(&leaf);
        self.count_lent(if is_lent { leaf.size / SMALL } else { 0 });
        self.change_pages(pages_of(&leaf), &mut |l| {
            let written = l.entry & !pte::SOFT_CLEAN;
            if is_lent { written | sight_bits(Sight::Write) | pte::LENT } else { written }
        });
        Ok(())
    }

    /// Adds the state of the pages of a range for `pagemap`, as far as there is room.
    pub fn pagemap(&self, range: PageRange, runs: &mut Runs<'_>) {
        let (mut at, end) = (range.start(), range.end());
        while at < end && !runs.is_full() {
            match self.mappings().find_next(at).filter(|v| v.start < end) {
                None => runs.add(PAGEMAP_UNMAPPED, end),
                Some(v) if v.start > at => runs.add(PAGEMAP_UNMAPPED, v.start),
                Some(v) => self.pagemap_of(v, PageRange::of(at, v.end.min(end)), runs),
            }
            at = runs.end();
        }
    }

    fn pagemap_of(&self, v: &Vma<FileRef>, range: PageRange, runs: &mut Runs<'_>) {
        let (mut at, end) = (range.start(), range.end());
        let is_dirty = !v.flags.contains(VmaFlags::SOFT_CLEAN);
        let none = if is_dirty { PAGEMAP_SOFT_DIRTY } else { 0 };
        match v.backing {
            Backing::Special(SpecialKind::Kept(..)) => return runs.add(PAGEMAP_UNMAPPED, end),
            Backing::SharedLinux { .. } => return runs.add(PAGEMAP_LINUX, end),
            // Linux has no pages of these but addresses of memory (VM_PFNMAP), which it does not
            // show.
            Backing::Special(SpecialKind::Vdso) => {}
            Backing::Special(_) => return runs.add(PAGEMAP_UNMAPPED | none, end),
            _ => {}
        }
        while at < end && !runs.is_full() {
            match self.leaf(at) {
                // It was brought in ahead, and Linux has no such page yet.
                Some(leaf) if matches!(v.backing, Backing::Anonymous) && !is_used(leaf.entry) => {
                    let table = if leaf.size == SMALL { PAGEMAP_TABLE } else { 0 };
                    runs.add(none | table, end.min(leaf.addr + leaf.size));
                }
                Some(leaf) => {
                    let frame = (leaf.frame() + (at - leaf.addr)).0 / SMALL;
                    let state = page_state(v, &leaf, at);
                    let frame = if state & PAGEMAP_PRESENT == 0 { 0 } else { frame };
                    runs.add(state | none | frame, end.min(leaf.addr + leaf.size));
                }
                None => {
                    let stop = self.first_leaf(PageRange::of(at, end));
                    self.pagemap_of_hole(PageRange::of(at, stop), none, runs)
                }
            }
            at = runs.end();
        }
    }
}

impl AddressSpace {
    /// The pages of a range, of which none is there.
    fn pagemap_of_hole(&self, range: PageRange, state: u64, runs: &mut Runs<'_>) {
        let (mut at, end) = (range.start(), range.end());
        while at < end && !runs.is_full() {
            let stop = end.min((at & !(LARGE - 1)) + LARGE);
            let table = if self.has_small_table(at) { PAGEMAP_TABLE } else { 0 };
            runs.add(state | table, stop);
            at = stop;
        }
    }
}

/// State of a page that is there, without its frame.
fn page_state(v: &Vma<FileRef>, leaf: &Leaf, at: u64) -> u64 {
    let when = |is, bit| if is { bit } else { 0 };
    // Linux does not watch pages of its pools of large ones.
    let is_dirty = !leaf.entry.has(pte::SOFT_CLEAN) && !v.flags.contains(VmaFlags::HUGETLB);
    let dirty = when(is_dirty, PAGEMAP_SOFT_DIRTY);
    if is_lost(leaf) {
        return PAGEMAP_SWAP | dirty;
    }
    let is_own = is_own(v, leaf.entry);
    let is_file = !is_own && !matches!(v.backing, Backing::Anonymous);
    let is_exclusive = match &v.backing {
        Backing::Anonymous => is_own && !is_shared(leaf),
        // What is kept of a file counts as a mapping.
        Backing::PrivateFile { file, .. } => {
            let offset = v.file_offset(at).unwrap_or(0);
            let kept = |frame| file.content.as_ref().is_some_and(|c| c.has(offset, frame));
            !is_shared(leaf) || frames::mappings(leaf.frame()) == 2 && kept(leaf.frame())
        }
        _ => false, // of all processes
    };
    PAGEMAP_PRESENT
        | dirty
        | when(is_file, PAGEMAP_FILE)
        | when(is_exclusive, PAGEMAP_EXCLUSIVE)
        | when(leaf.size == LARGE, PAGEMAP_LARGE)
}

/// Whether a page of a private mapping was written: then it is the process' own. If it was not,
/// Linux has no copy of it for the process.
pub fn is_own(v: &Vma<FileRef>, entry: Entry) -> bool {
    let is_private = matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. });
    is_private && (entry.has(pte::DIRTY) || v.flags.contains(VmaFlags::HUGETLB))
}
