//! Pages of private file mappings that Linux reads in.

use super::AddressSpace;
use super::content::FileRef;
use crate::base::lists;
use crate::base::time::ns_to_cycles;
use crate::base::{frames, heap};
use crate::link::services::{Entry, Extents};
use alloc::vec::Vec;
use core::ops::Range;
use hanare_abi::service::EXTENTS_MAX;
use hanare_core::vma::{Backing, Prot, Vma};
use hanare_hal::addr::PhysAddr;
use hanare_hal::cpu;
use hanare_hal::paging::SMALL;

/// Pages of a file read at once (128 KiB).
const FILE_WINDOW: u64 = 32;

/// Pages of a private file mapping on their way in.
pub struct Fill {
    /// First address, and the file's byte offset there.
    pub(super) start: u64,
    /// See `start`.
    pub(super) offset: u64,
    /// Which file.
    pub(super) file: FileRef,
    /// Runs of frames: (address, pages).
    pub(super) runs: Vec<(PhysAddr, u32)>,
}

/// A [`Fill`] that a faulting Linux task runs (see `STATUS_SERVE_FIRST`).
pub struct PendingFill {
    /// The service.
    pub entry: Entry,
    /// The pages.
    pub fill: Fill,
    /// TSC value when the task was told of it.
    pub since: u64,
}

impl PendingFill {
    /// How long a task may take to begin what it was told of, ns.
    const PATIENCE_NS: u64 = 1_000_000_000;

    /// Whether it was run, or is not run any more: then it is withdrawn.
    pub fn is_over(&self) -> bool {
        let is_late = || cpu::rdtsc().wrapping_sub(self.since) > ns_to_cycles(Self::PATIENCE_NS);
        self.entry.is_done() || is_late() && self.entry.withdraw()
    }
}

/// What is brought in with the page `addr` of a file.
pub(super) fn file_window(vma: &Vma<FileRef>, addr: u64) -> (u64, u64) {
    let window = addr & !(FILE_WINDOW * SMALL - 1);
    (window.max(vma.start), (window + FILE_WINDOW * SMALL).min(vma.end))
}

impl AddressSpace {
    /// Frames for the missing pages around `addr` of a private file mapping.
    pub(super) fn plan_fill(&mut self, vma: &Vma<FileRef>, addr: u64) -> Option<Fill> {
        let Backing::PrivateFile { file, .. } = &vma.backing else { return None };
        let page = addr & !(SMALL - 1);
        let (low, high) = file_window(vma, addr);
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
            file: file.clone(),
            runs: heap::with_room(EXTENTS_MAX).ok()?,
        };
        // What is only read could be had again at any time, so Linux drops it before it refuses
        // anything. The LWK keeps it, and charges the user alone.
        let is_own = vma.prot.contains(Prot::WRITE);
        let mut at = start;
        while at < end {
            let Some(run) = self.alloc_run(at, ((end - at) / SMALL) as u32, is_own) else {
                fill.free();
                return None;
            };
            lists::push_within(&mut fill.runs, run);
            at += u64::from(run.1) * SMALL;
            if fill.runs.len() == EXTENTS_MAX {
                break;
            }
        }
        Some(fill)
    }
}

impl Fill {
    /// Arguments of `SERVICE_FILL`.
    pub fn args(&self) -> [u64; 3] {
        [self.file.id, self.offset, self.bytes()]
    }

    /// Extents of `SERVICE_FILL`.
    pub fn extents(&self) -> Extents {
        Extents::of(self.runs.iter().map(|&(frame, pages)| frame.0 | u64::from(pages - 1)))
    }

    fn bytes(&self) -> u64 {
        self.runs.iter().map(|&(_, n)| u64::from(n) * SMALL).sum()
    }

    /// The addresses it brings pages to.
    pub fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.bytes()
    }

    /// Whether it brings what a mapping has at `addr`.
    pub fn brings(&self, vma: &Vma<FileRef>, addr: u64) -> bool {
        let is_file =
            matches!(&vma.backing, Backing::PrivateFile { file, .. } if *file == self.file);
        is_file
            && self.addresses().contains(&addr)
            && vma.file_offset(addr) == Some(self.offset + ((addr & !(SMALL - 1)) - self.start))
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
