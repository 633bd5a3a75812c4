//! madvise.

use crate::calls::mlock::{populate, whole_pages};
use crate::link::delegate;
use crate::mm::change::carry_out;
use crate::mm::removed::Removed;
use crate::mm::{Caller, FileRef, access, huge};
use crate::process::thread::Thread;
use hanare_core::addr::align_up;
use hanare_core::coherence::Sight;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, Prot, SpecialKind, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, SMALL};
use linux_raw_sys::general::__NR_madvise;

const RANDOM: i32 = 1;
const SEQUENTIAL: i32 = 2;
const DONTNEED: i32 = 4;
const FREE: i32 = 8;
const REMOVE: i32 = 9;
const DONTFORK: i32 = 10;
const DOFORK: i32 = 11;
const HUGEPAGE: i32 = 14;
const NOHUGEPAGE: i32 = 15;
const DONTDUMP: i32 = 16;
const DODUMP: i32 = 17;
const WIPEONFORK: i32 = 18;
const KEEPONFORK: i32 = 19;
const COLD: i32 = 20;
const PAGEOUT: i32 = 21;
const POPULATE_READ: i32 = 22;
const POPULATE_WRITE: i32 = 23;
const DONTNEED_LOCKED: i32 = 24;
const COLLAPSE: i32 = 25;
const HWPOISON: i32 = 100;
const SOFT_OFFLINE: i32 = 101;

/// madvise: mapping by mapping from the lowest up; holes are an error that does
/// not keep the rest from being done.
pub fn madvise(me: &Thread, addr: u64, len: u64, advice: u64) -> Result<u64> {
    let advice = advice as i32;
    if !matches!(advice, 0..=4 | 8..=25 | HWPOISON | SOFT_OFFLINE) || !addr.is_multiple_of(SMALL) {
        return Err(errno::EINVAL);
    }
    let rounded = whole_pages(len);
    let end =
        addr.checked_add(rounded).filter(|_| rounded != 0 || len == 0).ok_or(errno::EINVAL)?;
    if addr == end {
        return Ok(0);
    }
    let p = &me.caller();
    if advice >= HWPOISON {
        // No memory fails on request here (as without CONFIG_MEMORY_FAILURE).
        return Err(if me.ids.lock().euid == 0 { errno::EINVAL } else { errno::EPERM });
    }
    let mut holes = Ok(0);
    let mut at = addr;
    while at < end {
        let Some(vma) = p.mm.lock().vmas.find_next(at).filter(|v| v.start < end).cloned() else {
            return Err(errno::ENOMEM);
        };
        if vma.start > at {
            holes = Err(errno::ENOMEM);
            if matches!(advice, POPULATE_READ | POPULATE_WRITE) {
                return holes;
            }
        }
        let (start, stop) = (vma.start.max(at), vma.end.min(end));
        one(me, &vma, start, stop, advice)?;
        at = stop;
    }
    holes
}

/// One mapping, `start..end` of it.
fn one(me: &Thread, v: &Vma<FileRef>, start: u64, end: u64, advice: i32) -> Result<()> {
    let p = &me.caller();
    let locked = v.flags.contains(VmaFlags::LOCKED);
    let linux = matches!(v.backing, Backing::SharedLinux { .. });
    let special = matches!(v.backing, Backing::Special(_));
    let is_vvar = special && !matches!(v.backing, Backing::Special(SpecialKind::Vdso));
    let none = VmaFlags::empty();
    let (add, remove) = match advice {
        DONTNEED | DONTNEED_LOCKED if is_vvar => return Err(errno::EINVAL),
        DONTNEED | FREE if locked => return Err(errno::EINVAL),
        FREE if !matches!(v.backing, Backing::Anonymous) => return Err(errno::EINVAL),
        DONTNEED | DONTNEED_LOCKED
            if huge::size_of(v.flags).is_some_and(|s| !start.is_multiple_of(s)) =>
        {
            return Err(errno::EINVAL);
        }
        DONTNEED | DONTNEED_LOCKED | FREE => return discard(p, start, end, linux),
        REMOVE if locked || !linux && !matches!(v.backing, Backing::PrivateFile { .. }) => {
            return Err(errno::EINVAL);
        }
        REMOVE if !linux => return Err(errno::EACCES),
        REMOVE => return to_linux(start, end, advice),
        COLD | PAGEOUT if locked || special => return Err(errno::EINVAL),
        WIPEONFORK if linux || !matches!(v.backing, Backing::Anonymous) => {
            return Err(errno::EINVAL);
        }
        COLLAPSE if !matches!(v.backing, Backing::Anonymous) || !may_be_large(v) => {
            return Err(errno::EINVAL);
        }
        DODUMP if special => return Err(errno::EINVAL),
        POPULATE_READ | POPULATE_WRITE => {
            return bring_in(me, v, start, end, advice == POPULATE_WRITE);
        }
        RANDOM => (VmaFlags::RANDOM, VmaFlags::SEQUENTIAL),
        SEQUENTIAL => (VmaFlags::SEQUENTIAL, VmaFlags::RANDOM),
        DONTFORK => (VmaFlags::DONTFORK, none),
        DOFORK => (none, VmaFlags::DONTFORK),
        HUGEPAGE => (VmaFlags::HUGE, VmaFlags::NOHUGE),
        NOHUGEPAGE => (VmaFlags::NOHUGE, VmaFlags::HUGE),
        DONTDUMP => (VmaFlags::DONTDUMP, none),
        DODUMP => (none, VmaFlags::DONTDUMP),
        WIPEONFORK => (VmaFlags::WIPEONFORK, none),
        KEEPONFORK => (none, VmaFlags::WIPEONFORK),
        // The rest are hints about paging, which does not happen here.
        _ => return Ok(()),
    };
    // Not a hole: too many mappings.
    let full = |e| if e == errno::ENOMEM { errno::EAGAIN } else { e };
    let mut mm = p.mm.lock();
    mm.may_part(start, end).and_then(|()| mm.vmas.set_flags(start, end, add, remove)).map_err(full)
}

/// Whether a large page fits into a mapping that may have some.
fn may_be_large(v: &Vma<FileRef>) -> bool {
    !v.flags.contains(VmaFlags::NOHUGE)
        && align_up(v.start, LARGE).is_some_and(|at| at + LARGE <= v.end)
}

fn to_linux(start: u64, end: u64, advice: i32) -> Result<()> {
    delegate::linux(__NR_madvise, [start, end - start, advice as u64, 0, 0, 0]).map(|_| ())
}

fn bring_in(me: &Thread, v: &Vma<FileRef>, start: u64, end: u64, write: bool) -> Result<()> {
    let wanted = if write { Prot::WRITE } else { Prot::READ };
    if !v.prot.contains(wanted) || matches!(v.backing, Backing::Special(_)) {
        return Err(errno::EINVAL);
    }
    populate(me, start, end, wanted)
        .map_err(|s| if s == access::Signal::NoMemory { errno::ENOMEM } else { errno::EFAULT })
}

/// Drops the pages of a range, mappings stay.
fn discard(p: &Caller<'_>, start: u64, end: u64, linux: bool) -> Result<()> {
    if linux {
        return to_linux(start, end, DONTNEED);
    }
    let mut removed = Removed::default();
    // Linux first: what it wrote to the old pages would be lost once there are new ones.
    carry_out(
        p,
        (start, end),
        |mm, change| {
            mm.split_edges(start, end)?;
            if mm.hide_shared((start, end), change) {
                return Ok(Some((start, end)));
            }
            Ok(mm.must_forget((start, end), change, Sight::is_seen))
        },
        |mm, change| {
            mm.unmap_pages((start, end), change, true, &mut removed); // the plan has hidden them
            mm.forget_known(start, end);
            Ok(())
        },
    )?;
    removed.set_forgotten();
    removed.finish(p);
    Ok(())
}
