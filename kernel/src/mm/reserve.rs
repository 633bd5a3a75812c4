//! Reserved addresses: a range that a thread holds for the time of a call.

use super::AddressSpace;
use super::caller::Caller;
use super::content::FileRef;
use alloc::collections::LinkedList;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};

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
    drop(take_reserved(&mut p.mm.lock(), p.slot, start, end));
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

/// A range that nobody else may take: of a mapping to come, or of one that Linux has
/// to forget first. It is the thread's with this slot: others may unmap it and reserve anew.
pub fn reservation(slot: u32, start: u64, end: u64) -> Vma<FileRef> {
    let backing = Backing::Special(SpecialKind::Other(slot));
    Vma {
        start,
        end,
        prot: Prot::empty(),
        max_prot: Prot::empty(),
        flags: VmaFlags::FIXED_KERNEL,
        backing,
    }
}

/// Whether it is a thread's for the time of a call.
pub fn is_reservation(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::Special(SpecialKind::Other(_)))
}
