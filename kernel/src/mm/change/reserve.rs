//! Reserved addresses: a range that a thread holds for the time of a call.

use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::guard::MmGuard;
use crate::mm::map::kept::{kept, kept_for};
use crate::mm::pages::content::FileRef;
use crate::mm::window::caller::Caller;
use crate::mm::window::space::Space;
use crate::sched::attention::{self, QUEUE};
use crate::sched::cpus;
use alloc::collections::LinkedList;
use core::sync::atomic::Ordering;
use hanare_core::coherence::{Change, Kept, must_wait_to_keep};
use hanare_core::errno::{self, Result};
use hanare_core::link::ENDING;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, SpecialKind, Vma, VmaFlags};
use hanare_hal::percpu;

/// Puts a mapping of our own where `place::choose` has reserved. Where another thread has unmapped
/// or mapped since, that stays: as if it had come right after this call.
pub fn fill_reserved(p: &Caller<'_>, vma: &Vma<FileRef>) -> Result<()> {
    let mut mm = p.memory.mm.lock();
    for own in take_reserved(p.memory, &mut mm, p.slot, vma.range()) {
        mm.cursor(own.range()).clear_policy();
        vma.slice(own.range()).map_or(Ok(()), |part| mm.insert_anyway(part))?;
    }
    Ok(())
}

/// Puts a mapping that has a place in Linux, too, or pages already, where the thread with this slot
/// has reserved: all of it or nothing. `ENOMEM`: the reservation is not whole any more.
pub fn fill_whole(p: &Space, mm: &mut AddressSpace, slot: u32, vma: Vma<FileRef>) -> Result<()> {
    let range = vma.range();
    let is_whole = mm.mappings().is_covered(range)
        && mm.mappings().range(range).all(|v| is_reserved_by(slot, v));
    if !is_whole {
        return Err(errno::ENOMEM);
    }
    drop(take_reserved(p, mm, slot, range));
    mm.cursor(range).clear_policy();
    mm.insert_anyway(vma)
}

/// Gives up what the caller has reserved, and nothing that another has put there since.
pub fn unreserve(p: &Caller<'_>, range: PageRange) {
    unreserve_after(p, range, true, None);
}

/// Like [`unreserve`], after Linux was asked to forget the range; `is_forgotten`: it has. `back`
/// takes the place of what is given up.
pub fn unreserve_after(
    p: &Caller<'_>,
    range: PageRange,
    is_forgotten: bool,
    back: Option<&Vma<FileRef>>,
) {
    let mut mm = p.memory.mm.lock();
    let freed = take_reserved(p.memory, &mut mm, p.slot, range);
    set_free(&mut mm, freed, is_forgotten, back);
}

/// Puts in the place of what is free now what is to be there. None of it can fail.
fn set_free(
    mm: &mut AddressSpace,
    freed: LinkedList<Vma<FileRef>>,
    is_forgotten: bool,
    back: Option<&Vma<FileRef>>,
) {
    for v in freed {
        let next = match Kept::after_asking(is_forgotten) {
            Some(next) => Some(kept(next, 0, v.range())),
            None => back.and_then(|back| back.slice(v.range())),
        };
        let _ = next.map(|next| mm.insert_anyway(next));
    }
}

/// Takes out what the thread with this slot has reserved. A thread that waits for it looks again
/// when the lock has been given back.
fn take_reserved(
    p: &Space,
    mm: &mut AddressSpace,
    slot: u32,
    range: PageRange,
) -> LinkedList<Vma<FileRef>> {
    let own = mm.cursor(range).remove_where(|v| is_reserved_by(slot, v));
    if own.iter().any(|v| kept_for(v).is_some_and(Kept::keeps_waiting)) {
        tell_settled(p);
    }
    own
}

/// Whether addresses are kept by the thread with this slot for a mapping to come.
fn is_reserved_by(slot: u32, v: &Vma<FileRef>) -> bool {
    let Backing::Special(SpecialKind::Kept(what, by)) = v.backing else { return false };
    by == slot && matches!(what, Kept::Coming | Kept::Replaced)
}

/// Whether a thread that changes a range has to wait for another one, or for a device; if so, the
/// value for [`wait_until_settled`], which is called when the lock has been given back.
pub fn must_wait(p: &Space, mm: &AddressSpace, range: PageRange) -> Option<u32> {
    let waits = |v| kept_for(v).is_some_and(Kept::keeps_waiting);
    let mut there = mm.mappings().range(range);
    let must_wait = there.any(waits) || mm.transfers.must_wait(range);
    must_wait.then(|| p.settled.load(Ordering::Relaxed))
}

/// Like [`must_wait`], for a thread that unmaps the range, or reserves it, and changes what is
/// `beside` later.
pub fn must_wait_to_reserve(
    p: &Space,
    mm: &AddressSpace,
    range: PageRange,
    beside: PageRange,
) -> Option<u32> {
    let kept = |range| mm.mappings().range(range).filter_map(kept_for);
    let must_wait = must_wait_to_keep(kept(range), kept(beside)) || mm.transfers.must_wait(range);
    must_wait.then(|| p.settled.load(Ordering::Relaxed))
}

/// The lock, at a moment when no other thread is busy with addresses of a range, or replaces what
/// is there.
///
/// # Errors
/// [`ENDING`]: the caller has to end.
pub fn lock_settled<'a>(p: &Caller<'a>, range: PageRange) -> Result<MmGuard<'a>> {
    loop {
        let mm = p.memory.mm.lock();
        let Some(busy) = must_wait(p.memory, &mm, range) else { return Ok(mm) };
        drop(mm);
        wait_until_settled(p, busy)?;
    }
}

/// Resumes a change. Threads that wait for the pages that it had reserved are told.
pub fn resume(p: &Space, mm: &mut AddressSpace, change: &mut Change, is_forgotten: bool) {
    let was_waiting = change.is_waiting();
    mm.resume(change, is_forgotten);
    if was_waiting {
        tell_settled(p);
    }
}

/// Addresses are settled: threads that wait for that look again, and plan when they have the lock.
pub fn tell_settled(p: &Space) {
    p.settled.fetch_add(1, Ordering::Relaxed);
    for cpu in p.settling.after_change().others(usize::MAX) {
        p.settling.remove(cpu);
        attention::post(cpu, QUEUE);
    }
}

/// Waits until a thread has settled the addresses that it was busy with.
///
/// # Errors
/// [`ENDING`]: the caller has to end.
pub fn wait_until_settled(p: &Caller<'_>, seen: u32) -> Result<()> {
    let has_settled = || p.memory.settled.load(Ordering::Relaxed) != seen;
    p.memory.settling.insert(percpu::index()); // then it looks
    cpus::until(|| p.must_end() || has_settled(), cpus::deadline(LOOK_NS));
    if p.must_end() { Err(ENDING) } else { Ok(()) }
}

/// Marks all that is mapped in a range as [`Replaced`](Kept::Replaced), and keeps what is not. So
/// the range is the caller's alone until it is [unmapped](super::unmap::replace_range) or [given
/// back](unmark).
///
/// # Errors
/// `ENOMEM`: there is no memory for it. Nothing is marked.
pub(super) fn mark(p: &Caller<'_>, mm: &mut AddressSpace, range: PageRange) -> Result<()> {
    let (mut at, end) = (range.start(), range.end());
    while at < end {
        let (from, to) = match mm.mappings().find_next(at) {
            Some(v) if v.start <= at => (v.end, v.end),
            Some(v) => (at, v.start.min(end)),
            None => (at, end),
        };
        if from < to
            && let Err(e) = mm.insert(kept(Kept::Replaced, p.slot, PageRange::of(from, to)))
        {
            drop(take_reserved(p.memory, mm, p.slot, range));
            return Err(e);
        }
        at = to;
    }
    let marked = mm.cursor(range).set_flags(VmaFlags::MOVING, VmaFlags::empty());
    if marked.is_err() {
        drop(take_reserved(p.memory, mm, p.slot, range));
    }
    marked
}

/// Takes back what [`mark`] has marked and is there still, and what was reserved.
pub(super) fn unmark(p: &Caller<'_>, range: PageRange) {
    let mut mm = p.memory.mm.lock();
    drop(take_reserved(p.memory, &mut mm, p.slot, range));
    // Its edges are there: it cannot be too many.
    let _ = mm.cursor(range).set_flags(VmaFlags::empty(), VmaFlags::MOVING);
    tell_settled(p.memory);
}

/// Begins to move the mapping of Linux' own that is at a range: others wait until it has
/// [settled](settle_move). Which mapping that is.
///
/// # Errors
/// `EFAULT`: there is no such mapping, or more than one. `ENOMEM`: it would be cut, and there are
/// too many. [`ENDING`]: the caller has to end.
pub fn begin_move(p: &Caller<'_>, range: PageRange) -> Result<Vma<FileRef>> {
    let mut mm = lock_settled(p, range)?;
    let (start, end) = (range.start(), range.end());
    let whole =
        |v: &&Vma<FileRef>| v.end >= end && matches!(v.backing, Backing::SharedLinux { .. });
    let found = mm.mappings().find(start).filter(whole).and_then(|v| v.slice(range));
    let vma = found.ok_or(errno::EFAULT)?;
    mm.cursor(range).set_flags(VmaFlags::MOVING, VmaFlags::empty())?;
    Ok(vma)
}

/// The mapping stays where it was, as far as it is there.
pub fn settle_move(p: &Caller<'_>, range: PageRange) {
    let mut mm = p.memory.mm.lock();
    // Its edges are there: it cannot be too many. A hole is what has moved.
    let _ = mm.cursor(range).set_flags(VmaFlags::empty(), VmaFlags::MOVING);
    tell_settled(p.memory);
}

/// Frees the addresses that the caller was busy with, or keeps them where Linux could not be asked.
pub fn settle(p: &Caller<'_>, range: PageRange, is_forgotten: bool) -> Result<()> {
    let own = kept(Kept::Busy, p.slot, range).backing;
    let mut mm = p.memory.mm.lock();
    let freed = mm.cursor(range).remove_where(|v| v.backing == own);
    set_free(&mut mm, freed, is_forgotten, None);
    drop(mm);
    tell_settled(p.memory);
    if is_forgotten { Ok(()) } else { Err(errno::ENOMEM) }
}

/// How long a thread waits at most before it looks again: it may wait on another CPU than it said.
const LOOK_NS: u64 = 1_000_000;
