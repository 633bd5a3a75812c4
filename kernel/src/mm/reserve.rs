//! Reserved addresses: a range that a thread holds for the time of a call.

use super::AddressSpace;
use super::caller::Caller;
use super::content::FileRef;
use super::space::Space;
use crate::sched::attention::{self, QUEUE};
use crate::sched::cpus;
use alloc::collections::LinkedList;
use core::sync::atomic::Ordering;
use hanare_core::coherence::{Change, Kept, Unmapping};
use hanare_core::errno::{self, Result};
use hanare_core::link::ENDING;
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::percpu;

/// Puts a mapping of our own where `place::choose` has reserved. Where another thread has unmapped
/// or mapped since, that stays: as if it had come right after this call.
pub fn fill_reserved(p: &Caller<'_>, vma: &Vma<FileRef>) -> Result<()> {
    let mut mm = p.mm.lock();
    for own in take_reserved(&mut mm, p.slot, vma.start, vma.end) {
        mm.policies.clear(own.start, own.end);
        vma.slice(own.start, own.end).map_or(Ok(()), |part| mm.vmas.insert_anyway(part))?;
    }
    Ok(())
}

/// Puts a mapping that has a place in Linux, too, or pages already, where the thread with this slot
/// has reserved: all of it or nothing. `ENOMEM`: the reservation is not whole any more.
pub fn fill_whole(mm: &mut AddressSpace, slot: u32, vma: Vma<FileRef>) -> Result<()> {
    if !mm.vmas.holds(&reservation(slot, vma.start, vma.end)) {
        return Err(errno::ENOMEM);
    }
    drop(mm.vmas.remove(vma.start, vma.end));
    mm.policies.clear(vma.start, vma.end);
    mm.vmas.insert_anyway(vma)
}

/// Gives up what the caller has reserved, and nothing that another has put there since.
pub fn unreserve(p: &Caller<'_>, start: u64, end: u64) {
    unreserve_after(p, start, end, true);
}

/// Like [`unreserve`], after Linux was to have nothing there; whether it does.
pub fn unreserve_after(p: &Caller<'_>, start: u64, end: u64, is_forgotten: bool) {
    release(p, Kept::Coming, start, end, is_forgotten);
}

fn release(p: &Caller<'_>, what: Kept, start: u64, end: u64, is_forgotten: bool) {
    let own = kept(what, p.slot, start, end).backing;
    let mut mm = p.mm.lock();
    let freed = mm.vmas.remove_where(start, end, |v| v.backing == own);
    if let Some(next) = Kept::after_asking(is_forgotten) {
        for v in freed {
            let _ = mm.vmas.insert_anyway(kept(next, 0, v.start, v.end)); // it is free: cannot fail
        }
    }
}

fn take_reserved(
    mm: &mut AddressSpace,
    slot: u32,
    start: u64,
    end: u64,
) -> LinkedList<Vma<FileRef>> {
    let own = reservation(slot, start, end).backing;
    mm.vmas.remove_where(start, end, |v| v.backing == own)
}

/// A range that a thread has reserved for a mapping to come.
pub fn reservation(slot: u32, start: u64, end: u64) -> Vma<FileRef> {
    kept(Kept::Coming, slot, start, end)
}

/// Addresses that are kept, by the thread with this slot.
pub fn kept(what: Kept, slot: u32, start: u64, end: u64) -> Vma<FileRef> {
    let backing = Backing::Special(SpecialKind::Kept(what, slot));
    Vma {
        start,
        end,
        prot: Prot::empty(),
        max_prot: Prot::empty(),
        flags: VmaFlags::FIXED_KERNEL,
        backing,
    }
}

/// What addresses are kept for, if they are.
pub fn kept_for(v: &Vma<FileRef>) -> Option<Kept> {
    match v.backing {
        Backing::Special(SpecialKind::Kept(what, _)) => Some(what),
        _ => v.flags.contains(VmaFlags::MOVING).then_some(Kept::Busy),
    }
}

/// Whether who changes a range has to wait for another thread; if so, what [`wait_until_settled`] is
/// given, when the lock has been given back.
pub fn must_wait(p: &Space, mm: &AddressSpace, start: u64, end: u64) -> Option<u32> {
    let waits = |v| kept_for(v).is_some_and(Kept::keeps_waiting);
    mm.vmas.range(start, end).any(waits).then(|| p.settled.load(Ordering::Relaxed))
}

/// Likewise, for who unmaps it.
pub fn must_wait_to_unmap(p: &Caller<'_>, mm: &AddressSpace, start: u64, end: u64) -> Option<u32> {
    let own = reservation(p.slot, 0, 0).backing;
    let mut kept = mm.vmas.range(start, end).filter(|v| v.backing != own).filter_map(kept_for);
    let waits = |what: Kept| {
        // Looked for only where it matters.
        let holds_others = || mm.vmas.iter().any(|v| v.backing == own);
        what.to_unmap(false) == Unmapping::Wait
            && (what.to_unmap(true) == Unmapping::Wait || !holds_others())
    };
    kept.any(waits).then(|| p.settled.load(Ordering::Relaxed))
}

/// Resumes a change. Who waits for the pages that it had reserved is told.
pub fn resume(p: &Space, mm: &mut AddressSpace, change: &mut Change, is_forgotten: bool) {
    let was_waiting = change.is_waiting();
    change.resume(&mut mm.coherence, is_forgotten);
    if was_waiting {
        tell_settled(p);
    }
}

/// Addresses are settled: who waits for that looks again, and plans when it has the lock.
fn tell_settled(p: &Space) {
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
    let has_settled = || p.settled.load(Ordering::Relaxed) != seen;
    p.settling.insert(percpu::index()); // then it looks
    cpus::until(|| p.must_end() || has_settled(), cpus::deadline(LOOK_NS));
    if p.must_end() { Err(ENDING) } else { Ok(()) }
}

/// Begins to move the mapping of Linux' own that is at `start..end`: others wait until it has
/// [settled](settle_move). Which mapping that is.
///
/// # Errors
/// `EFAULT`: there is no such mapping, or more than one. `ENOMEM`: it would be cut, and there are too
/// many. [`ENDING`]: the caller has to end.
pub fn begin_move(p: &Caller<'_>, start: u64, end: u64) -> Result<Vma<FileRef>> {
    loop {
        let mut mm = p.mm.lock();
        if let Some(busy) = must_wait(p, &mm, start, end) {
            drop(mm);
            wait_until_settled(p, busy)?;
            continue;
        }
        let whole =
            |v: &&Vma<FileRef>| v.end >= end && matches!(v.backing, Backing::SharedLinux { .. });
        let found = mm.vmas.find(start).filter(whole).and_then(|v| v.slice(start, end));
        let vma = found.ok_or(errno::EFAULT)?;
        mm.vmas.set_flags(start, end, VmaFlags::MOVING, VmaFlags::empty())?;
        return Ok(vma);
    }
}

/// The mapping stays where it was, as far as it is there.
pub fn settle_move(p: &Caller<'_>, start: u64, end: u64) {
    let mut mm = p.mm.lock();
    // Its edges are there: it cannot be too many. A hole is what has moved.
    let _ = mm.vmas.set_flags(start, end, VmaFlags::empty(), VmaFlags::MOVING);
    tell_settled(p);
}

/// Frees the addresses that the caller was busy with, or keeps them where Linux could not be asked.
pub fn settle(p: &Caller<'_>, start: u64, end: u64, is_forgotten: bool) -> Result<()> {
    release(p, Kept::Busy, start, end, is_forgotten);
    tell_settled(p);
    if is_forgotten { Ok(()) } else { Err(errno::ENOMEM) }
}

/// How long a thread waits at most before it looks again: it may wait on another CPU than it said.
const LOOK_NS: u64 = 1_000_000;
