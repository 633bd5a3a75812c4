//! Pages of private file mappings that Linux reads in.

use super::address_space::AddressSpace;
use super::file_cache::is_kept;
use crate::base::accounts::Account;
use crate::base::lists;
use crate::base::time::ns_to_cycles;
use crate::base::{frames, heap};
use crate::link::services::{Entry, Extents};
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::new_page_bits;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use hanare_abi::frame::Extent;
use hanare_abi::service::EXTENTS_MAX;
use hanare_core::pagerange::PageRange;
use hanare_core::rss::Counted;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;
use hanare_hal::{cpu, memory};

/// Pages of a file read at once (128 KiB).
const FILE_WINDOW: u64 = 32;
/// As many, with those of them that Linux has in its page cache (1 MiB), where more of the file is
/// likely to be wanted.
const CACHED_WINDOW: u64 = 256;

/// Pages of a private file mapping on their way in.
pub struct Fill {
    /// First address, and the file's byte offset there.
    pub(in crate::mm) start: u64,
    /// The file's byte offset at `start`.
    offset: u64,
    /// Bytes that are read however long it takes. What is behind comes only if Linux has it in its
    /// page cache.
    certain: u64,
    /// File that the pages are of.
    file: FileRef,
    /// Runs of frames: (address, pages).
    runs: Vec<(PhysAddr, u32)>,
}

/// A [`Fill`] that a faulting Linux task runs (see `STATUS_SERVE_FIRST`).
pub struct PendingFill {
    /// Entry of the service that reads the pages.
    pub entry: Entry,
    /// Pages that are read.
    pub fill: Fill,
    /// TSC value when the task was told of the fill.
    pub since: u64,
}

impl PendingFill {
    /// How long a task may take to begin what it was told of, ns.
    const PATIENCE_NS: u64 = 1_000_000_000;

    /// Whether the fill is over: it was run, or no task has begun it in time and it is withdrawn.
    pub fn is_over(&self) -> bool {
        let is_late = || cpu::rdtsc().wrapping_sub(self.since) > ns_to_cycles(Self::PATIENCE_NS);
        self.entry.is_done() || is_late() && self.entry.withdraw()
    }
}

/// The addresses that are brought in with the page `addr` of a file.
pub(in crate::mm) fn file_window(vma: &Vma<FileRef>, addr: u64) -> PageRange {
    let window = addr & !(FILE_WINDOW * SMALL - 1);
    PageRange::of(window.max(vma.start), (window + FILE_WINDOW * SMALL).min(vma.end))
}

impl AddressSpace {
    /// Frames for the missing pages around `addr` of a private file mapping.
    pub(in crate::mm) fn plan_fill(&mut self, vma: &Vma<FileRef>, addr: u64) -> Option<Fill> {
        let Backing::PrivateFile { file, .. } = &vma.backing else { return None };
        let page = addr & !(SMALL - 1);
        let window = file_window(vma, addr);
        let (low, high) = (window.start(), window.end());
        let (mut start, mut end) = (page, page + SMALL);
        while start > low && self.table.find(start - SMALL).is_none() {
            start -= SMALL;
        }
        while end < high && self.table.find(end).is_none() {
            end += SMALL;
        }
        let mut fill = Fill {
            start,
            offset: vma.file_offset(start)?,
            certain: end - start,
            file: file.clone(),
            runs: heap::with_room(EXTENTS_MAX).ok()?,
        };
        if !self.alloc_for(&mut fill, vma, end) {
            fill.free();
            return None;
        }
        fill.certain = fill.bytes();
        if end == high && self.is_read_on(vma, page) {
            let file_end = start + file.bytes.saturating_sub(fill.offset).next_multiple_of(SMALL);
            let most = (start + CACHED_WINDOW * SMALL).min(vma.end).min(file_end);
            let stop = self.table.first_leaf(end..most.max(end));
            self.alloc_for(&mut fill, vma, stop); // as many as there are
        }
        Some(fill)
    }

    /// Adds frames for the pages up to `end`, as far as there is room for extents. False: not all
    /// that there is room for, for want of memory.
    fn alloc_for(&self, fill: &mut Fill, vma: &Vma<FileRef>, end: u64) -> bool {
        // What is only read could be had again at any time, so Linux drops it before it refuses
        // anything. The LWK keeps it, and charges the user alone.
        let is_own = vma.prot.contains(Prot::WRITE);
        let mut at = fill.start + fill.bytes();
        while at < end && fill.runs.len() < EXTENTS_MAX {
            let Some(run) = self.alloc_run(at, ((end - at) / SMALL) as u32, is_own) else {
                return false;
            };
            lists::push_within(&mut fill.runs, run);
            at += u64::from(run.1) * SMALL;
        }
        true
    }

    /// Maps what was read of `fill` into the frames of a run, where a mapping still wants it, and
    /// frees the rest of them.
    pub(in crate::mm) fn install(
        &mut self,
        fill: &Fill,
        frame: PhysAddr,
        run: PageRange,
        bytes: u64,
    ) {
        let (start, end) = (run.start(), run.end());
        let read_end = fill.start + bytes;
        let come_end = end.min(read_end.next_multiple_of(SMALL));
        let free = |part: PageRange| {
            frames::free_run(frame + (part.start() - start), part.pages() as u32);
        };
        let (mut at, mut free_from, mut mapped) = (start, start, 0);
        while at < come_end
            && let Some(v) = self.mappings().find_next(at).filter(|v| v.start < come_end)
        {
            let (from, to) = (v.start.max(at), v.end.min(come_end));
            at = to;
            if !fill.has(v, from) {
                continue;
            }
            let (offset, prot) = (fill.offset + (from - fill.start), v.prot);
            let all = new_page_bits(v, prot);
            let read_only = new_page_bits(v, prot - Prot::WRITE);
            // Without memory for a table the rest is free.
            let _ = self.table.map_missing(from..to, &mut self.tables, &mut |page| {
                let own = frame + (page - start);
                if read_end - page < SMALL {
                    memory::zero(own + (read_end - page), (SMALL - (read_end - page)) as usize);
                }
                if free_from < page {
                    free(PageRange::of(free_from, page));
                }
                (free_from, mapped) = (page + SMALL, mapped + 1);
                let is_kept = is_kept(&fill.file, offset + (page - from), own);
                Some(own | if is_kept { read_only } else { all })
            });
        }
        free(PageRange::of(free_from, end));
        self.count_mapped(mapped, Counted::Own);
    }

    /// Whether a fault at `page` looks as if the program read on from there, and there is memory to
    /// spare.
    fn is_read_on(&self, vma: &Vma<FileRef>, page: u64) -> bool {
        let is_next = page == vma.start || self.table.find(page - SMALL).is_some();
        let (free, all) = frames::usage_without_stocks();
        let has_room = |account: &Arc<Account>| account.has_room(4 * CACHED_WINDOW);
        is_next
            && !vma.flags.contains(VmaFlags::RANDOM)
            && free > all / 4
            && self.account.as_ref().is_none_or(has_room)
    }
}

impl Fill {
    /// Arguments of `SERVICE_FILL`.
    pub fn args(&self) -> [u64; 4] {
        [self.file.id, self.offset, self.bytes(), self.certain]
    }

    /// Extents of `SERVICE_FILL`.
    pub fn extents(&self) -> Extents {
        let extent = |&(frame, pages): &(PhysAddr, u32)| Extent::of(frame.frame(), pages.into());
        Extents::of(self.runs.iter().map(|run| extent(run).word()))
    }

    /// Takes the runs of frames, each with its number of pages.
    pub(in crate::mm) fn take_runs(&mut self) -> Vec<(PhysAddr, u32)> {
        core::mem::take(&mut self.runs)
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().map(|&(_, n)| u64::from(n) * SMALL).sum()
    }

    /// The addresses to which the fill brings pages for certain.
    pub fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.certain
    }

    /// Whether the fill brings for certain what a mapping has at `addr`.
    pub fn brings(&self, vma: &Vma<FileRef>, addr: u64) -> bool {
        self.addresses().contains(&addr) && self.has(vma, addr)
    }

    /// Whether what it reads for `addr` is what a mapping has there.
    pub(in crate::mm) fn has(&self, vma: &Vma<FileRef>, addr: u64) -> bool {
        let is_file =
            matches!(&vma.backing, Backing::PrivateFile { file, .. } if *file == self.file);
        is_file && vma.file_offset(addr) == Some(self.offset + ((addr & !(SMALL - 1)) - self.start))
    }

    fn free(&mut self) {
        for (frame, pages) in self.runs.drain(..) {
            frames::free_run(frame, pages);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.free();
    }
}
