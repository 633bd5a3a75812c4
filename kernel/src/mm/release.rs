//! Taking pages away: unmap, zap what Linux has seen, then free or quarantine.

use super::{AddressSpace, FileRef};
use crate::process::Process;
use crate::space::Space;
use crate::{cpus, frames, services, tlb};
use alloc::collections::LinkedList;
use alloc::vec::Vec;
use hanare_abi::service::{EXTENTS_MAX, SERVICE_HELD, SERVICE_ZAP};
use hanare_core::errno::{self, Result};
use hanare_core::vma::Vma;
use hanare_hal::paging::{LARGE, SMALL, TableSource, pte};

/// Bytes of ended processes that may wait in quarantine before Linux is asked.
const WAITING_MAX: u64 = 64 * SMALL;

/// Frames that lost their mapping: a run of single pages, or one block of 512.
#[derive(Clone, Copy)]
struct Block {
    frame: u64,
    pages: u32,
    large: bool,
}

impl Block {
    fn of(frame: u64, large: bool) -> Block {
        Block { frame, pages: if large { 512 } else { 1 }, large }
    }
    fn free(self) {
        if self.large {
            frames::free(self.frame, 9);
        } else {
            frames::free_run(self.frame, self.pages);
        }
    }
    /// Takes `next` in if it follows; runs stay bounded, since one page that Linux
    /// holds holds all of its run.
    fn join(&mut self, next: Block) -> bool {
        const RUN: u32 = 512;
        let follows = next.frame == self.frame + u64::from(self.pages) * SMALL;
        let joins = follows && !self.large && !next.large && self.pages < RUN;
        self.pages += u32::from(joins);
        joins
    }
}

/// What waits for the lock of an address space to be given back: other CPUs drop
/// `range` from their TLBs, then the rest is free.
#[derive(Default)]
pub struct Stale {
    range: Option<(u64, u64)>,
    blocks: Vec<Block>,
    tables: Vec<u64>,
}

impl Stale {
    /// Blocks kept at most; one unmapping of much more is settled in parts.
    const MOST: usize = 1024;

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

    fn free_later(&mut self, block: Block) {
        if !self.blocks.last_mut().is_some_and(|b| b.join(block)) {
            self.blocks.push(block);
        }
    }

    /// Does it.
    pub fn settle(self, active: &tlb::CpuSet) {
        if let Some((start, end)) = self.range {
            tlb::shoot(active, start, end);
        }
        self.blocks.into_iter().for_each(Block::free);
        self.tables.into_iter().for_each(|t| frames::free(t, 0));
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
        self.0.tables.push(paddr);
    }
}

/// What an unmapping left behind, to be finished without the lock.
#[derive(Default)]
pub struct Removed {
    seen: Vec<Block>,
    range: Option<(u64, u64)>,
    /// The mappings that went.
    pub vmas: LinkedList<Vma<FileRef>>,
}

impl AddressSpace {
    /// Removes every page of `start..end` from the table (not from the map).
    /// `ENOMEM`: no memory to split a large page; nothing was changed.
    pub fn unmap_pages(&mut self, start: u64, end: u64, removed: &mut Removed) -> Result<()> {
        self.split_edges(start, end)?;
        let mut pages = 0;
        let (stale, active) = (&mut self.stale, &self.active);
        self.table.update(start, end, &mut |leaf| {
            if stale.blocks.len() >= Stale::MOST {
                tlb::flush_here(start, end);
                core::mem::take(stale).settle(active);
            }
            stale.add(leaf.addr, leaf.addr + leaf.size);
            pages += leaf.size / SMALL;
            if leaf.entry & pte::SEEN != 0 {
                removed.range = Some(tlb::join(removed.range, (leaf.addr, leaf.addr + leaf.size)));
            }
            if leaf.entry & pte::FOREIGN == 0 {
                let block = Block::of(leaf.frame(), leaf.size == LARGE);
                match frames::drop_mapping(block.frame) {
                    None => {} // another process has it too
                    Some(true) => {
                        if !removed.seen.last_mut().is_some_and(|b| b.join(block)) {
                            removed.seen.push(block);
                        }
                    }
                    Some(false) => stale.free_later(block),
                }
            }
            0
        });
        self.resident -= pages.min(self.resident);
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
    pub fn set_aside(self) {
        for b in self.seen {
            frames::quarantine(b.frame, b.pages);
        }
    }

    /// Zaps what Linux has seen, then frees. Without the lock; may wait.
    pub fn finish(self, p: &Process) {
        let mut range = self.range.map(|(low, high)| [low, high]);
        let mut batches = self.seen.chunks(EXTENTS_MAX);
        loop {
            let batch = batches.next().unwrap_or(&[]);
            if batch.is_empty() && range.is_none() {
                break;
            }
            let extents = extents(batch);
            let (kind, args) = match range.take() {
                Some(r) => (SERVICE_ZAP, r),
                None => (SERVICE_HELD, [0, 0]),
            };
            settle(batch, ask(p, kind, &args, &extents));
        }
    }
}

/// Has the current thread's worker run a zap or a look, or the service thread
/// where that worker is not this process's or is gone.
fn ask(p: &Process, kind: u32, args: &[u64], extents: &[u64]) -> Result<services::Answer> {
    let own = cpus::try_current().is_some_and(|t| core::ptr::eq(&*t.process, p)) && !p.is_killed();
    let answer = if own { services::by_worker(kind, args, extents) } else { Err(errno::EINTR) };
    answer.or_else(|_| services::by_thread(kind, p.space, args, extents))
}

/// Gives back a page whose last mapping went; Linux has no mapping of it any more.
pub fn page(p: &Process, frame: u64) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(false) => frames::free(frame, 0),
        Some(true) => settle(&[Block::of(frame, false)], ask(p, SERVICE_HELD, &[], &[frame])),
    }
}

fn extents(batch: &[Block]) -> Vec<u64> {
    batch.iter().map(|b| b.frame | u64::from(b.pages - 1)).collect()
}

/// Frees what Linux does not hold; the rest (or all, without an answer) waits.
fn settle(batch: &[Block], answer: Result<services::Answer>) {
    let held = answer.map_or(u64::MAX, |a| a.held);
    for (i, b) in batch.iter().enumerate() {
        if held & 1 << i == 0 {
            b.free();
        } else {
            if b.large {
                frames::split(b.frame, 9);
            }
            frames::quarantine(b.frame, b.pages);
        }
    }
}

/// As [`page`], where nothing may be asked of Linux (inside one of its faults):
/// a last page that Linux has seen waits in quarantine.
pub fn page_deferred(frame: u64) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(false) => frames::free(frame, 0),
        Some(true) => frames::quarantine(frame, 1),
    }
}

/// Tells Linux to forget `start..end`, frames kept (rights were taken away). Whether it was
/// done, or there is no Linux side any more that could have the pages.
pub fn zap(p: &Process, start: u64, end: u64) -> bool {
    if p.is_closed() {
        return true;
    }
    crate::hold::at("zap");
    let args = [start, end];
    // Of a process that ends, the worker may be gone; others that share the memory go on.
    // Of a thread that ends, the process goes on.
    services::by_worker(SERVICE_ZAP, &args, &[]).is_ok()
        || (!p.is_killed() || p.is_shared()) && services::by_thread(SERVICE_ZAP, p.space, &args, &[]).is_ok()
}

/// Everything of a space whose proxy is gone, and pages of the kernel's that the proxy
/// had mapped. Its threads have ended.
pub fn all(p: &Space, shown: impl Iterator<Item = u64>) {
    let mut removed = Removed::default();
    let mut mm = p.mm.lock();
    let (min, max) = (mm.vmas.min(), mm.vmas.max());
    removed.vmas = mm.vmas.remove(min, max);
    let _ = mm.unmap_pages(min, max, &mut removed);
    drop(mm);
    p.mm.take_table().free(&mut frames::Tables);
    // No mapping is left to zap: only ask which frames Linux still holds, of as many as
    // possible at once, for each question is a wake-up of Linux' thread. The few of a
    // small process wait for those of the next ones.
    removed.seen.extend(shown.map(|frame| Block::of(frame, false)));
    let pages: u32 = removed.seen.iter().map(|b| b.pages).sum();
    if u64::from(pages) * SMALL + frames::quarantined() <= WAITING_MAX {
        return removed.set_aside();
    }
    for batch in removed.seen.chunks(EXTENTS_MAX) {
        settle(batch, services::by_thread(SERVICE_HELD, p.space, &[], &extents(batch)));
    }
    retry_quarantine();
}

/// Looks again at the frames in quarantine.
pub fn retry_quarantine() {
    let waiting = frames::take_quarantine();
    for batch in waiting.chunks(EXTENTS_MAX) {
        let extents: Vec<u64> = batch.iter().map(|&(f, n)| f | u64::from(n - 1)).collect();
        let held = services::by_thread(SERVICE_HELD, 0, &[], &extents).map_or(u64::MAX, |a| a.held);
        for (i, &(frame, pages)) in batch.iter().enumerate() {
            if held & 1 << i == 0 {
                frames::free_run(frame, pages);
            } else {
                frames::quarantine(frame, pages);
            }
        }
    }
}

/// Memory is short: true if something came back.
pub fn make_room() -> bool {
    let before = frames::quarantined();
    before != 0 && {
        retry_quarantine();
        frames::quarantined() < before
    }
}
