//! Taking pages away: unmap, zap what Linux has seen, then free or quarantine.

use super::{AddressSpace, FileRef};
use crate::base::chain::{Chain, Run};
use crate::base::frames;
use crate::base::quarantine;
use crate::link::services;
use crate::mm::space::Space;
use crate::process::Process;
use crate::process::thread;
use crate::sched::tlb;
use alloc::collections::LinkedList;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::service::{EXTENTS_MAX, SERVICE_HELD, SERVICE_ZAP};
use hanare_core::errno::{self, Result};
use hanare_core::vma::Vma;
use hanare_hal::paging::{LARGE, SMALL, TableSource, pte};

/// Bytes of ended processes that may wait in quarantine before Linux is asked.
const WAITING_MAX: u64 = 64 * SMALL;

/// What waits for the lock of an address space to be given back: other CPUs drop
/// `range` from their TLBs, then the rest is free.
#[derive(Default)]
pub struct Stale {
    range: Option<(u64, u64)>,
    blocks: Chain,
    tables: Chain,
}

impl Stale {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.range.is_none()
    }

    /// Whether a table was replaced.
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    fn add(&mut self, start: u64, end: u64) {
        self.range = Some(tlb::join(self.range, (start, end)));
    }

    /// Does it.
    pub fn settle(self, active: &tlb::CpuSet) {
        if let Some((start, end)) = self.range {
            tlb::shoot(active, start, end);
        }
        self.blocks.free();
        self.tables.free();
    }
}

/// Table pages for a change of an address space; what is replaced is freed when no
/// CPU can walk it any more.
pub struct StaleTables<'a>(pub &'a mut Stale);

impl TableSource for StaleTables<'_> {
    fn alloc_table(&mut self) -> Option<u64> {
        frames::UserTables.alloc_table()
    }
    fn free_table(&mut self, paddr: u64) {
        self.0.tables.push(Run::of(paddr, false));
    }
}

/// What an unmapping left behind, to be finished without the lock.
#[derive(Default)]
pub struct Removed {
    seen: Chain,
    range: Option<(u64, u64)>,
    /// The mappings that went.
    pub vmas: LinkedList<Vma<FileRef>>,
}

impl AddressSpace {
    /// Removes every page of `start..end` from the table (not from the map).
    /// `ENOMEM`: no memory to split a large page; nothing was changed.
    pub fn unmap_pages(&mut self, start: u64, end: u64, removed: &mut Removed) -> Result<()> {
        self.split_edges(start, end)?;
        let (mut pages, mut foreign) = (0, 0);
        let stale = &mut self.stale;
        self.table.update(start, end, &mut |leaf| {
            stale.add(leaf.addr, leaf.addr + leaf.size);
            pages += leaf.size / SMALL;
            if leaf.entry & pte::SEEN != 0 {
                removed.range = Some(tlb::join(removed.range, (leaf.addr, leaf.addr + leaf.size)));
            }
            if leaf.entry & pte::FOREIGN != 0 {
                foreign += leaf.size / SMALL;
            } else {
                let run = Run::of(leaf.frame(), leaf.size == LARGE);
                match frames::drop_mapping(run.frame) {
                    None => {} // another process has it too
                    Some(true) => removed.seen.push(run),
                    Some(false) => stale.blocks.push(run),
                }
            }
            0
        });
        self.resident -= pages.min(self.resident);
        self.foreign -= u64::min(foreign, self.foreign);
        if pages > 0 {
            self.flush(start, end);
        }
        Ok(())
    }

    /// Splits large pages that `start` or `end` cut.
    pub fn split_edges(&mut self, start: u64, end: u64) -> Result<()> {
        for edge in [start, end] {
            let cut = self.table.find(edge).filter(|l| l.size == LARGE && l.addr != edge);
            if let Some(leaf) = cut {
                self.table.split(leaf.addr, &mut frames::Tables).map_err(|_| errno::ENOMEM)?;
                frames::split(leaf.frame(), 9);
            }
        }
        Ok(())
    }

    /// Drops stale translations of a range: from this CPU now, from the others when
    /// the lock is given back.
    pub fn flush(&mut self, start: u64, end: u64) {
        self.stale.add(start, end);
        if self.table.is_active() {
            tlb::flush_here(start, end);
        }
    }
}

impl Removed {
    /// Whether Linux has to be asked before the range can be used again.
    pub fn needs_linux(&self) -> bool {
        self.range.is_some() || !self.seen.is_empty()
    }

    /// For memory that Linux never mapped in this space: last pages that it saw
    /// elsewhere wait in quarantine.
    pub fn set_aside(mut self) {
        while let Some(run) = self.seen.pop() {
            quarantine(run);
        }
    }

    /// Zaps what Linux has seen, then frees. Without the lock; may wait.
    pub fn finish(mut self, p: &Process) {
        if self.needs_linux() {
            crate::sched::hold::at("pages-taken");
        }
        let mut range = self.range.map(|(low, high)| [low, high]);
        loop {
            let batch = Batch::take(&mut self.seen);
            if batch.runs().is_empty() && range.is_none() {
                break;
            }
            let (kind, args) = match range.take() {
                Some(r) => (SERVICE_ZAP, r),
                None => (SERVICE_HELD, [0, 0]),
            };
            batch.settle(ask(p, kind, &args, batch.extents()), &mut self.seen);
        }
    }
}

/// As many runs as Linux is asked about at once.
struct Batch {
    count: usize,
    runs: [Run; EXTENTS_MAX],
    extents: [u64; EXTENTS_MAX],
}

impl Batch {
    fn take(from: &mut Chain) -> Batch {
        let mut batch =
            Batch { count: 0, runs: [Run::of(0, false); EXTENTS_MAX], extents: [0; EXTENTS_MAX] };
        batch.count = from.pop_into(&mut batch.runs);
        for (extent, run) in batch.extents.iter_mut().zip(&batch.runs) {
            *extent = run.extent();
        }
        batch
    }

    fn runs(&self) -> &[Run] {
        &self.runs[..self.count]
    }

    fn extents(&self) -> &[u64] {
        &self.extents[..self.count]
    }

    /// Frees what Linux does not hold; the rest (or all, without an answer) waits. Of a run Linux may
    /// hold one page: its parts are to be asked about.
    fn settle(&self, answer: Result<services::Answer>, parts: &mut Chain) {
        let (is_answered, held) = answer.map_or((false, u64::MAX), |a| (true, a.held));
        for (i, run) in self.runs().iter().enumerate() {
            if held & 1 << i == 0 {
                run.free();
            } else if is_answered && run.pages > 1 {
                apart(*run, parts);
            } else {
                quarantine(*run);
            }
        }
    }
}

/// A run in eight parts, or as many as it has pages.
fn apart(run: Run, parts: &mut Chain) {
    if run.large {
        frames::split(run.frame, 9);
    }
    let pages = run.pages.div_ceil(8);
    for first in (0..run.pages).step_by(pages as usize) {
        parts.push_apart(Run {
            frame: run.frame + u64::from(first) * SMALL,
            pages: pages.min(run.pages - first),
            large: false,
        });
    }
}

fn quarantine(run: Run) {
    if run.large {
        frames::split(run.frame, 9);
    }
    quarantine::add(run.frame, run.pages);
}

/// Has the current thread's worker run a zap or a look, or the service thread
/// where that worker is not this process's or is gone.
fn ask(p: &Process, kind: u32, args: &[u64], extents: &[u64]) -> Result<services::Answer> {
    let own =
        thread::try_current().is_some_and(|t| core::ptr::eq(&*t.process, p)) && !p.is_killed();
    let answer = if own { services::by_worker(kind, args, extents) } else { Err(errno::EINTR) };
    answer.or_else(|_| services::by_thread(kind, p.space, args, extents))
}

/// Gives back a page whose last mapping went; Linux has no mapping of it any more.
pub fn page(p: &Process, frame: u64) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(false) => frames::free(frame, 0),
        Some(true) => match ask(p, SERVICE_HELD, &[], &[frame]) {
            Ok(answer) if answer.held & 1 == 0 => frames::free(frame, 0),
            _ => quarantine::add(frame, 1),
        },
    }
}

/// As [`page`], where nothing may be asked of Linux (inside one of its faults):
/// a last page that Linux has seen waits in quarantine.
pub fn page_deferred(frame: u64) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(false) => frames::free(frame, 0),
        Some(true) => quarantine::add(frame, 1),
    }
}

/// Tells Linux to forget `start..end`, frames kept (rights were taken away). Whether it was
/// done, or there is no Linux side any more that could have the pages.
pub fn zap(p: &Process, start: u64, end: u64) -> bool {
    if p.is_closed() {
        return true;
    }
    crate::sched::hold::at("zap");
    let args = [start, end];
    // Of a process that ends, the worker may be gone; others that share the memory go on.
    // Of a thread that ends, the process goes on.
    services::by_worker(SERVICE_ZAP, &args, &[]).is_ok()
        || (!p.is_killed() || p.is_shared())
            && services::by_thread(SERVICE_ZAP, p.space, &args, &[]).is_ok()
}

/// Everything of a space whose proxy is gone, and pages of the kernel's that the proxy
/// had mapped. Its threads have ended.
pub fn all(p: &Space, shown: impl Iterator<Item = u64>) {
    let mut removed = Removed::default();
    let mut mm = p.mm.lock();
    let vmas = mm.vmas.take();
    let _ = mm.unmap_pages(vmas.min(), vmas.max(), &mut removed); // nothing is cut, so nothing is needed
    drop(mm);
    drop(vmas);
    p.mm.take_table().free(&mut frames::Tables);
    // No mapping is left to zap: only ask which frames Linux still holds, of as many as
    // possible at once, for each question is a wake-up of Linux' thread. The few of a
    // small process wait for those of the next ones.
    shown.for_each(|frame| removed.seen.push(Run::of(frame, false)));
    let new = quarantine::bytes().saturating_sub(STILL_HELD.load(Ordering::Relaxed));
    if removed.seen.pages() * SMALL + new <= WAITING_MAX {
        return removed.set_aside();
    }
    ask_thread(p.space, removed.seen);
    retry_quarantine();
}

/// Bytes that Linux held when it was last asked about all that is in quarantine.
static STILL_HELD: AtomicU64 = AtomicU64::new(0);

/// Looks again at the frames in quarantine.
pub fn retry_quarantine() {
    ask_thread(0, quarantine::take());
    STILL_HELD.store(quarantine::bytes(), Ordering::Relaxed);
}

/// Frees what Linux does not hold, which its thread says.
fn ask_thread(space: u32, mut given_up: Chain) {
    while !given_up.is_empty() {
        let batch = Batch::take(&mut given_up);
        batch.settle(services::by_thread(SERVICE_HELD, space, &[], batch.extents()), &mut given_up);
    }
}

/// Memory is short: true if something came back.
pub fn make_room() -> bool {
    let before = quarantine::bytes();
    before != 0 && {
        retry_quarantine();
        quarantine::bytes() < before
    }
}
