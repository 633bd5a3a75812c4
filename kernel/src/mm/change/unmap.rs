//! Removing mappings and their pages, on both sides.

use super::pinnable;
use super::reserve::{
    mark, must_wait_to_reserve, settle, unmark, unreserve_after, wait_until_settled,
};
use super::shared;
use crate::base::heap;
use crate::link::services;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::{kept, kept_for};
use crate::mm::pages::content::FileRef;
use crate::mm::pages::leftovers::Removed;
use crate::mm::window::caller::Caller;
use crate::sched::tlb;
use alloc::collections::LinkedList;
use hanare_core::coherence::{Change, Kept, Unmapping};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Vma, VmaFlags};

/// Mappings that are removed at once: with so many a list of them takes little memory.
const PIECE_MAPPINGS: usize = 64;

/// The purpose of an unmapping.
#[derive(Clone, Copy)]
enum For {
    /// Nothing follows: the addresses are free then.
    Nothing,
    /// A mapping of the caller's, which changes what is beside later.
    Mapping { beside: PageRange },
    /// Like `Mapping`, where the addresses are marked as the caller's already.
    Marked,
}

/// Removes mappings and pages of a range, on both sides. May wait.
///
/// # Errors
/// Nothing, or not all of it, was unmapped. `ENOMEM`, too, if Linux could not be asked. Then the
/// range is unmapped here, but nothing is mapped there until Linux has been asked, by another
/// unmapping.
pub fn unmap_range(p: &Caller<'_>, range: PageRange) -> Result<()> {
    may_unmap(&mut p.memory.mm.lock(), range)?;
    unmap_pieces(p, range, For::Nothing)
}

/// Like [`unmap_range`], for a mapping of the caller's: the range is reserved. To other threads
/// what is done to the range from here on, until the reservation ends, is one step: their accesses
/// to what was mapped wait.
/// `beside`: what else the caller is going to change.
///
/// # Errors
/// As of [`unmap_range`]; nothing is reserved.
pub fn replace_range(p: &Caller<'_>, range: PageRange, beside: PageRange) -> Result<()> {
    loop {
        let mut mm = p.memory.mm.lock();
        may_unmap(&mut mm, range)?;
        if is_one_piece(&mm, range) {
            drop(mm);
            match unmap_piece(p, range, For::Mapping { beside })? {
                Some(busy) => wait_until_settled(p, busy)?,
                None => return Ok(()),
            }
            continue;
        }
        let busy = must_wait_to_reserve(p.memory, &mm, range, beside);
        let marked = if busy.is_none() { mark(p, &mut mm, range) } else { Ok(()) };
        drop(mm);
        marked?;
        match busy {
            Some(busy) => wait_until_settled(p, busy)?,
            None => {
                return unmap_pieces(p, range, For::Marked).inspect_err(|_| unmark(p, range));
            }
        }
    }
}

/// Like [`unmap_range`], together with what `first` does under the same lock: false, if nothing is
/// to be unmapped.
///
/// # Errors
/// As of [`unmap_range`]; if it has changed nothing, `first` was not called.
pub fn unmap_after(
    p: &Caller<'_>,
    range: PageRange,
    first: impl Fn(&mut AddressSpace) -> bool,
) -> Result<bool> {
    loop {
        let mut mm = p.memory.mm.lock();
        may_unmap(&mut mm, range)?;
        let Some(busy) = must_wait_to_reserve(p.memory, &mm, range, PageRange::NONE) else {
            mark(p, &mut mm, range)?;
            let is_wanted = first(&mut mm);
            drop(mm);
            let unmapped = match is_wanted {
                true => unmap_pieces(p, range, For::Marked),
                false => Ok(()),
            };
            unmark(p, range);
            return unmapped.map(|()| is_wanted);
        };
        drop(mm);
        wait_until_settled(p, busy)?;
    }
}

/// Refuses an unmapping, if it has to be, before anything is changed.
fn may_unmap(mm: &mut AddressSpace, range: PageRange) -> Result<()> {
    let (start, end) = (range.start(), range.end());
    mm.may_cut(range)?;
    mm.split_edges(range)?;
    if mm.mappings().find(start).is_some_and(|v| v.start < start && end < v.end) {
        mm.may_part(range)?; // two are left of it
    }
    Ok(())
}

/// Whether a range has at most the mappings that are removed at once.
fn is_one_piece(mm: &AddressSpace, range: PageRange) -> bool {
    mm.mappings().range(range).nth(PIECE_MAPPINGS).is_none()
}

fn unmap_pieces(p: &Caller<'_>, range: PageRange, what_for: For) -> Result<()> {
    let (mut at, end) = (range.start(), range.end());
    while at < end {
        let rest = PageRange::of(at, end);
        let behind = p.memory.mm.lock().mappings().range(rest).nth(PIECE_MAPPINGS).map(|v| v.start);
        let stop = behind.unwrap_or(end);
        match unmap_piece(p, PageRange::of(at, stop), what_for)? {
            Some(busy) => wait_until_settled(p, busy)?,
            None => at = stop,
        }
    }
    Ok(())
}

/// Does nothing where another thread is busy: what to wait for.
fn unmap_piece(p: &Caller<'_>, range: PageRange, what_for: For) -> Result<Option<u32>> {
    let mut removed = Removed::default();
    let reserves = !matches!(what_for, For::Nothing);
    {
        let mut mm = p.memory.mm.lock();
        let busy = match what_for {
            For::Nothing => must_wait_to_reserve(p.memory, &mm, range, PageRange::NONE),
            For::Mapping { beside } => must_wait_to_reserve(p.memory, &mm, range, beside),
            For::Marked => None,
        };
        if busy.is_some() {
            return Ok(busy);
        }
        let count = mm.mappings().range(range).count();
        if count > 1 {
            heap::room(count * 2 * size_of::<Vma<FileRef>>())?;
        }
        mm.split_edges(range)?;
        removed.vmas = mm.cursor(range).try_remove()?;
        for v in removed.vmas.iter().filter(|v| is_unforgotten(v)) {
            removed.range = Some(tlb::join(removed.range, v.range()));
        }
        if removed.vmas.is_empty() {
            let coming = kept(Kept::for_mapping(false), p.slot, range);
            return if reserves { mm.insert(coming).map(|()| None) } else { Ok(None) };
        }
        mm.unmap_pages(range, &Change::new(range), false, &mut removed);
        let finishes = removed.needs_finish() || removed.vmas.iter().any(is_linuxs);
        // Until CPUs and Linux have forgotten the pages no thread may map anything here: a call of
        // another thread would see the old ones.
        if reserves {
            // It is free: cannot fail.
            mm.insert_anyway(kept(Kept::for_mapping(true), p.slot, range))?;
        } else if finishes {
            keep_busy(p, &mut mm, &removed.vmas)?;
        }
        if !finishes {
            drop(mm);
            drop_mappings(removed.vmas);
            return Ok(None);
        }
    }
    let vmas = core::mem::take(&mut removed.vmas);
    let is_forgotten = finish(p, removed, || vmas.iter());
    drop_mappings(vmas);
    match is_forgotten {
        _ if !reserves => settle(p, range, is_forgotten).map(|()| None),
        true => Ok(None),
        false => {
            unreserve_after(p, range, false, None);
            Err(errno::ENOMEM)
        }
    }
}

/// Keeps the addresses of what was unmapped.
fn keep_busy(
    p: &Caller<'_>,
    mm: &mut AddressSpace,
    removed: &LinkedList<Vma<FileRef>>,
) -> Result<()> {
    let mut vmas = removed.iter().peekable();
    while let Some(v) = vmas.next() {
        let mut end = v.end;
        while let Some(beside) = vmas.next_if(|next| next.start == end) {
            end = beside.end;
        }
        mm.insert_anyway(kept(Kept::Busy, p.slot, PageRange::of(v.start, end)))?; // it is free: cannot fail
    }
    Ok(())
}

/// Has Linux forget what it has of mappings that went, then gives up their hidden pages, which CPUs
/// have dropped. False: Linux could not be asked.
fn finish<'a, I: Iterator<Item = &'a Vma<FileRef>>>(
    p: &Caller<'_>,
    removed: Removed,
    vmas: impl Fn() -> I,
) -> bool {
    let is_hidden = removed.is_hidden;
    let is_forgotten = removed.finish(p) & unmap_linuxs(p, vmas());
    if is_hidden {
        let mut hidden = Removed::default();
        let mut mm = p.memory.mm.lock();
        for v in vmas() {
            mm.take_pages(v.range(), &Change::of_forgotten(v.range()), true, &mut hidden);
        }
        drop(mm);
        hidden.set_forgotten();
        hidden.finish(p);
    }
    is_forgotten
}

/// Whether Linux may have a mapping of its own there.
fn is_linuxs(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::SharedLinux { .. }) || is_unforgotten(v)
}

fn is_unforgotten(v: &Vma<FileRef>) -> bool {
    kept_for(v).is_some_and(|what| what.to_unmap() == Unmapping::Ask)
}

/// Has Linux unmap what is its own, or may be. False: not all of it was.
fn unmap_linuxs<'a>(p: &Caller<'_>, vmas: impl Iterator<Item = &'a Vma<FileRef>>) -> bool {
    vmas.fold(true, |done, v| {
        done & match v.backing {
            Backing::SharedLinux { watch, .. } => shared::unmap(p, v.range(), watch),
            _ => !is_unforgotten(v) || shared::remap(p, v.range()),
        }
    })
}

/// Removes all mappings and pages: execve. No memory is needed for it. False: Linux could not be
/// asked, and has some still.
#[must_use]
pub fn unmap_all(p: &Caller<'_>) -> bool {
    let mut removed = Removed::default();
    let (vmas, whole) = {
        let mut mm = p.memory.mm.lock();
        let vmas = mm.take_mappings();
        mm.set_lock_future(VmaFlags::empty());
        let whole = vmas.whole();
        mm.unmap_pages(whole, &Change::new(whole), true, &mut removed);
        (vmas, whole)
    };
    let is_forgotten = finish(p, removed, || vmas.iter());
    services::put_together(|| drop(vmas));
    pinnable::map_reserved_as_ever(p, whole) && is_forgotten
}

/// Drops what was unmapped, and with the last mapping of a file the file.
fn drop_mappings(vmas: LinkedList<Vma<FileRef>>) {
    if vmas.iter().any(|v| matches!(v.backing, Backing::PrivateFile { .. })) {
        services::put_together(|| drop(vmas));
    }
}
