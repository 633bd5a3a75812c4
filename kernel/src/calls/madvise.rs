//! madvise.

use crate::calls::context::handlers;
use crate::calls::mlock::{populate, whole_pages};
use crate::link::caller::Delegates;
use crate::link::{delegate, services};
use crate::mm::change::reserve::lock_settled;
use crate::mm::change::transaction::carry_out;
use crate::mm::map::kept::kept_for;
use crate::mm::pages::access;
use crate::mm::pages::leftovers::Removed;
use crate::mm::{Caller, FileRef};
use crate::process::thread::Thread;
use hanare_abi::service::SERVICE_FILE_SIZE;
use hanare_core::addr::{align_up, page_up};
use hanare_core::coherence::Kept;
use hanare_core::errno::{self, Result};
use hanare_core::mmap;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, SMALL};
use linux_raw_sys::general::{
    __NR_madvise, MADV_COLD, MADV_COLLAPSE, MADV_DODUMP, MADV_DOFORK, MADV_DONTDUMP, MADV_DONTFORK,
    MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_FREE, MADV_HUGEPAGE, MADV_HWPOISON, MADV_KEEPONFORK,
    MADV_NOHUGEPAGE, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_RANDOM,
    MADV_REMOVE, MADV_SEQUENTIAL, MADV_SOFT_OFFLINE, MADV_WIPEONFORK,
};

handlers! { call:
    __NR_madvise => madvise(call.thread, call.args[0], call.args[1], call.args[2]),
}

/// madvise: mapping by mapping from the lowest up; holes are an error that does
/// not keep the rest from being done.
pub fn madvise(me: &Thread, addr: u64, len: u64, advice: u64) -> Result<u64> {
    let advice = advice as u32;
    // Without MADV_MERGEABLE and MADV_UNMERGEABLE: no pages are merged here (as without
    // CONFIG_KSM).
    if !matches!(advice, 0..=4 | 8..=11 | 14..=25 | MADV_HWPOISON | MADV_SOFT_OFFLINE)
        || !addr.is_multiple_of(SMALL)
    {
        return Err(errno::EINVAL);
    }
    let rounded = whole_pages(len);
    let end =
        addr.checked_add(rounded).filter(|_| rounded != 0 || len == 0).ok_or(errno::EINVAL)?;
    if addr == end {
        return Ok(0);
    }
    let p = &me.caller();
    if advice >= MADV_HWPOISON {
        // No memory fails on request here (as without CONFIG_MEMORY_FAILURE).
        return Err(if me.ids.lock().euid == 0 { errno::EINVAL } else { errno::EPERM });
    }
    let mut holes = Ok(0);
    let mut at = addr;
    while at < end {
        let Some(vma) =
            p.memory.mm.lock().mappings().find_next(at).filter(|v| v.start < end).cloned()
        else {
            return Err(errno::ENOMEM);
        };
        if kept_for(&vma).is_some_and(Kept::keeps_waiting) {
            drop(lock_settled(p, vma.range())?);
            continue;
        }
        if vma.start > at {
            holes = Err(errno::ENOMEM);
            if matches!(advice, MADV_POPULATE_READ | MADV_POPULATE_WRITE) {
                return holes;
            }
        }
        let stop = vma.end.min(end);
        one(me, &vma, PageRange::of(vma.start.max(at), stop), advice)?;
        at = stop;
    }
    holes
}

/// One mapping, a range of it.
fn one(me: &Thread, v: &Vma<FileRef>, range: PageRange, advice: u32) -> Result<()> {
    let p = &me.caller();
    let locked = v.flags.contains(VmaFlags::LOCKED);
    let linux = matches!(v.backing, Backing::SharedLinux { .. });
    let special = matches!(v.backing, Backing::Special(_));
    let is_vvar = special && !matches!(v.backing, Backing::Special(SpecialKind::Vdso));
    let none = VmaFlags::empty();
    let (add, remove) = match advice {
        MADV_DONTNEED | MADV_DONTNEED_LOCKED if is_vvar => return Err(errno::EINVAL),
        MADV_DONTNEED | MADV_FREE if locked => return Err(errno::EINVAL),
        MADV_FREE if !matches!(v.backing, Backing::Anonymous) => return Err(errno::EINVAL),
        MADV_DONTNEED | MADV_DONTNEED_LOCKED
            if mmap::size_of(v.flags).is_some_and(|s| !range.start().is_multiple_of(s)) =>
        {
            return Err(errno::EINVAL);
        }
        MADV_DONTNEED | MADV_DONTNEED_LOCKED | MADV_FREE => return discard(p, range, linux),
        MADV_REMOVE if locked || !linux && !matches!(v.backing, Backing::PrivateFile { .. }) => {
            return Err(errno::EINVAL);
        }
        MADV_REMOVE if !linux => return Err(errno::EACCES),
        MADV_REMOVE => return to_linux(me, range, advice),
        MADV_COLD | MADV_PAGEOUT if locked || special => return Err(errno::EINVAL),
        MADV_WIPEONFORK if linux || !matches!(v.backing, Backing::Anonymous) => {
            return Err(errno::EINVAL);
        }
        MADV_COLLAPSE if !matches!(v.backing, Backing::Anonymous) || !may_be_large(v) => {
            return Err(errno::EINVAL);
        }
        MADV_DODUMP if special => return Err(errno::EINVAL),
        MADV_POPULATE_READ | MADV_POPULATE_WRITE => {
            return bring_in(me, v, range, advice == MADV_POPULATE_WRITE);
        }
        MADV_RANDOM => (VmaFlags::RANDOM, VmaFlags::SEQUENTIAL),
        MADV_SEQUENTIAL => (VmaFlags::SEQUENTIAL, VmaFlags::RANDOM),
        MADV_DONTFORK => (VmaFlags::DONTFORK, none),
        MADV_DOFORK => (none, VmaFlags::DONTFORK),
        MADV_HUGEPAGE => (VmaFlags::HUGE, VmaFlags::NOHUGE),
        MADV_NOHUGEPAGE => (VmaFlags::NOHUGE, VmaFlags::HUGE),
        MADV_DONTDUMP => (VmaFlags::DONTDUMP, none),
        MADV_DODUMP => (none, VmaFlags::DONTDUMP),
        MADV_WIPEONFORK => (VmaFlags::WIPEONFORK, none),
        MADV_KEEPONFORK => (none, VmaFlags::WIPEONFORK),
        // The rest are hints about paging, which does not happen here.
        _ => return Ok(()),
    };
    // Not a hole: too many mappings.
    let full = |e| if e == errno::ENOMEM { errno::EAGAIN } else { e };
    let mut mm = lock_settled(p, range)?;
    if (add | remove).intersects(VmaFlags::DONTFORK | VmaFlags::WIPEONFORK) {
        // fork shares the pages of a mapping that begin in it.
        mm.split_edges(range).map_err(full)?;
    }
    mm.may_part(range).and_then(|()| mm.cursor(range).set_flags(add, remove)).map_err(full)
}

/// Whether a large page fits into a mapping that may have some.
fn may_be_large(v: &Vma<FileRef>) -> bool {
    !v.flags.contains(VmaFlags::NOHUGE)
        && align_up(v.start, LARGE).is_some_and(|at| at + LARGE <= v.end)
}

fn to_linux(me: &dyn Delegates, range: PageRange, advice: u32) -> Result<()> {
    let args = [range.start(), range.len(), advice as u64, 0, 0, 0];
    delegate::linux(me, __NR_madvise, args).map(|_| ())
}

fn bring_in(me: &Thread, v: &Vma<FileRef>, range: PageRange, write: bool) -> Result<()> {
    let wanted = if write { Prot::WRITE } else { Prot::READ };
    if !v.prot.contains(wanted) || matches!(v.backing, Backing::Special(_)) {
        return Err(errno::EINVAL);
    }
    populate(me, range, wanted)
        .map_err(|s| if s == access::Signal::NoMemory { errno::ENOMEM } else { errno::EFAULT })
}

/// Drops the pages of a range, mappings stay.
fn discard(p: &Caller<'_>, range: PageRange, linux: bool) -> Result<()> {
    if linux {
        return to_linux(p.thread, range, MADV_DONTNEED);
    }
    let mut removed = Removed::default();
    // Linux first: what it wrote to the old pages would be lost once there are new ones.
    carry_out(
        p,
        range,
        |mm, change| {
            mm.split_edges(range)?;
            if mm.hide_shared(range, change) {
                return Ok(Some(range));
            }
            Ok(mm.must_forget(range, change, |_, sight| sight.is_seen()))
        },
        |mm, change| {
            mm.unmap_pages(range, change, true, &mut removed); // the plan has hidden them
            mm.forget_known(range);
            Ok(())
        },
    )?;
    removed.set_forgotten();
    removed.finish(p);
    Ok(())
}

/// After a call of the program's has made a file shorter: of private file mappings, pages behind
/// the files' ends go. As on Linux, so do those that were written to. Programs and libraries are
/// not asked about.
pub fn discard_behind_ends(me: &Thread) {
    let p = &me.caller();
    let is_data = |v: &&Vma<FileRef>| matches!(&v.backing, Backing::PrivateFile { file, .. } if !file.is_known());
    let mut at = 0;
    loop {
        // A lock taken in the condition would be held in the loop.
        let next = p.memory.mm.lock().mappings().iter_from(at).find(is_data).cloned();
        let Some(vma) = next else { return };
        at = vma.end;
        let (Backing::PrivateFile { file, .. }, Some(offset)) =
            (&vma.backing, vma.file_offset(vma.start))
        else {
            continue;
        };
        let Ok(answer) = services::by_worker(me, SERVICE_FILE_SIZE, &[file.id], &[]) else {
            continue;
        };
        let behind = page_up(answer.status).saturating_sub(offset);
        if behind < vma.len() {
            let _ = discard(p, PageRange::of(vma.start + behind, vma.end), false); // without memory they stay
        }
        services::put_together(|| drop(vma)); // it may be the last that holds the file
    }
}
