//! Removing mappings and their pages, on both sides.

use super::caller::Caller;
use super::content::FileRef;
use super::removed::Removed;
use super::reserve::{reservation, unreserve};
use super::shared;
use crate::base::heap;
use crate::link::services;
use alloc::collections::LinkedList;
use hanare_core::errno::Result;
use hanare_core::vma::{Backing, Vma, VmaFlags};

/// Mappings that are removed at once: with so many a list of them takes little memory.
const PIECE_MAPPINGS: usize = 64;

/// Removes mappings and pages of a range, on both sides.
pub fn unmap_range(p: &Caller<'_>, start: u64, end: u64) -> Result<()> {
    {
        let mut mm = p.mm.lock();
        mm.may_cut(start, end)?;
        mm.split_edges(start, end)?;
        if mm.vmas.find(start).is_some_and(|v| v.start < start && end < v.end) {
            mm.may_part(start, end)?; // two are left of it
        }
    }
    let mut at = start;
    while at < end {
        let behind = p.mm.lock().vmas.range(at, end).nth(PIECE_MAPPINGS).map(|v| v.start);
        let stop = behind.unwrap_or(end);
        unmap_piece(p, at, stop)?;
        at = stop;
    }
    Ok(())
}

fn unmap_piece(p: &Caller<'_>, start: u64, end: u64) -> Result<()> {
    let mut removed = Removed::default();
    {
        let mut mm = p.mm.lock();
        let count = mm.vmas.range(start, end).count();
        if count > 1 {
            heap::room(count * 2 * size_of::<Vma<FileRef>>())?;
        }
        removed.vmas = mm.vmas.try_remove(start, end)?;
        mm.policies.clear(start, end);
        if removed.vmas.is_empty() {
            return Ok(());
        }
        mm.unmap_pages(start, end, &mut removed)?;
        if !removed.needs_linux() && !removed.vmas.iter().any(is_shared) {
            drop(mm);
            drop_mappings(removed.vmas);
            return Ok(());
        }
        // Until Linux has forgotten the pages nobody may map anything here: a call
        // of another thread would see the old ones.
        let mut vmas = removed.vmas.iter().peekable();
        while let Some(v) = vmas.next() {
            let mut end = v.end;
            while let Some(beside) = vmas.next_if(|next| next.start == end) {
                end = beside.end;
            }
            mm.vmas.insert_anyway(reservation(p.slot, v.start, end))?; // it is free: cannot fail
        }
    }
    finish_removed(p, removed);
    unreserve(p, start, end);
    Ok(())
}

fn is_shared(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::SharedLinux { .. })
}

/// The part of an unmapping that may wait for Linux.
pub fn finish_removed(p: &Caller<'_>, mut removed: Removed) {
    let vmas = core::mem::take(&mut removed.vmas);
    removed.finish(p);
    vmas.iter().for_each(|v| unmap_shared(p, v));
    drop_mappings(vmas);
}

fn unmap_shared(p: &Caller<'_>, v: &Vma<FileRef>) {
    if let Backing::SharedLinux { watch, .. } = v.backing {
        shared::unmap(p, v.start, v.end, watch);
    }
}

/// Removes all mappings and pages: execve. No memory is needed for it.
pub fn unmap_all(p: &Caller<'_>) {
    let mut removed = Removed::default();
    let vmas = {
        let mut mm = p.mm.lock();
        let vmas = mm.vmas.take();
        mm.policies.clear(vmas.min(), vmas.max());
        mm.lock_future = VmaFlags::empty();
        let _ = mm.unmap_pages(vmas.min(), vmas.max(), &mut removed); // nothing is cut, so it cannot fail
        vmas
    };
    removed.finish(p);
    vmas.iter().for_each(|v| unmap_shared(p, v));
    services::put_together(|| drop(vmas));
}

/// Drops what was unmapped, and with the last mapping of a file the file.
fn drop_mappings(vmas: LinkedList<Vma<FileRef>>) {
    if vmas.iter().any(|v| matches!(v.backing, Backing::PrivateFile { .. })) {
        services::put_together(|| drop(vmas));
    }
}
