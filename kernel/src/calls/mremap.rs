//! mremap, remap_file_pages.

use crate::calls::mlock::{self, whole_pages};
use crate::calls::rlimits::{self, LockLimit};
use crate::link::{delegate, services};
use crate::mm::change::carry_out;
use crate::mm::place::{MAP_FIXED, choose};
use crate::mm::removed::Removed;
use crate::mm::reserve::{fill_whole, reservation, unreserve};
use crate::mm::unmap::unmap_range;
use crate::mm::{AddressSpace, Caller, FileRef, huge, limits, shared};
use crate::process::thread::Thread;
use crate::sched::hold;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::service::SERVICE_WATCH;
use hanare_core::addr::page_down;
use hanare_core::coherence::Sight;
use hanare_core::errno::{self, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_core::vma::{Backing, Vma, VmaFlags};
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_mremap, __NR_munmap, __NR_remap_file_pages};

const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
const DONTUNMAP: u64 = 4;

/// What is to be done, with sizes rounded to pages.
#[derive(Clone, Copy)]
struct Move {
    old: u64,
    old_size: u64,
    new_size: u64,
    keep: bool,
    /// Bytes at the new place that are reserved already.
    reserved: u64,
}

/// mremap. Checks in the order of Linux, so that the error is the same.
pub fn mremap(
    me: &Thread,
    old: u64,
    old_len: u64,
    new_len: u64,
    flags: u64,
    new: u64,
) -> Result<u64> {
    let keep = flags & DONTUNMAP != 0;
    if flags & !7 != 0
        || flags & (FIXED | DONTUNMAP) != 0 && flags & MAYMOVE == 0
        || keep && old_len != new_len
        || !old.is_multiple_of(SMALL)
    {
        return Err(errno::EINVAL);
    }
    let mut m = Move {
        old,
        old_size: whole_pages(old_len),
        new_size: whole_pages(new_len),
        keep,
        reserved: 0,
    };
    if m.new_size == 0 {
        return Err(errno::EINVAL);
    }
    let p = &me.caller();
    let vma = p.mm.lock().vmas.find(old).cloned().ok_or(errno::EFAULT)?;
    if let Some(size) = huge::size_of(vma.flags) {
        (m.old_size, m.new_size) = (huge::round(m.old_size, size)?, huge::round(m.new_size, size)?);
        if !old.is_multiple_of(size)
            || flags & FIXED != 0 && !new.is_multiple_of(size)
            || m.new_size > m.old_size
        {
            return Err(errno::EINVAL);
        }
    }
    if flags & (FIXED | DONTUNMAP) != 0 {
        return move_to(me, &mut m, flags & FIXED != 0, new);
    }
    if m.old_size >= m.new_size {
        let end = old.checked_add(m.old_size).filter(|&e| e <= TASK_SIZE);
        if m.old_size > m.new_size {
            unmap_range(p, old + m.new_size, end.ok_or(errno::EINVAL)?.min(USER_MAX))?;
        } else if end.is_none() {
            // Nothing is to be done: of a size beyond all addresses Linux 6.1 says so, and
            // later ones `EINVAL`.
            return delegate::linux(__NR_mremap, [old, old_len, new_len, flags, new, 0]);
        }
        return Ok(old);
    }
    let lock_flags = resizable(me, &vma, &m)?;
    let at_end = old + m.old_size == vma.end;
    if at_end
        && let Some(end) = old.checked_add(m.new_size)
        && grow(p, &vma, old, end)?
    {
        bring_in_locked(me, lock_flags, vma.end, end);
        return Ok(old);
    }
    if flags & MAYMOVE == 0 {
        return Err(errno::ENOMEM);
    }
    let target = choose(p, 0, m.new_size, 0)?;
    relocate(me, &vma, &m, target, lock_flags)
}

/// With `MREMAP_FIXED` or `MREMAP_DONTUNMAP`.
fn move_to(me: &Thread, m: &mut Move, fixed: bool, new: u64) -> Result<u64> {
    let p = &me.caller();
    if !new.is_multiple_of(SMALL) || m.new_size > USER_MAX || new > USER_MAX - m.new_size {
        return Err(errno::EINVAL);
    }
    if m.old.wrapping_add(m.old_size) > new && new + m.new_size > m.old {
        return Err(errno::EINVAL);
    }
    if fixed {
        if new < USER_MIN {
            return Err(errno::EPERM);
        }
        choose(p, new, m.new_size, MAP_FIXED)?;
        m.reserved = m.new_size;
    }
    move_from(me, m, fixed, new).inspect_err(|_| {
        if fixed {
            unreserve(p, new, new + m.new_size);
        }
    })
}

/// `move_to` with the new range reserved, if it is `fixed`.
fn move_from(me: &Thread, m: &mut Move, fixed: bool, new: u64) -> Result<u64> {
    let p = &me.caller();
    if m.old_size > m.new_size {
        let end = m.old.checked_add(m.old_size).ok_or(errno::EINVAL)?;
        unmap_range(p, m.old + m.new_size, end)?;
        m.old_size = m.new_size;
    }
    let vma = p.mm.lock().vmas.find(m.old).cloned().ok_or(errno::EFAULT)?;
    let lock_flags = resizable(me, &vma, m)?;
    let target = if fixed { new } else { choose(p, new, m.new_size, 0)? };
    relocate(me, &vma, m, target, lock_flags)
}

/// Whether the mapping may have that size; the lock flags its growth is made with.
fn resizable(me: &Thread, vma: &Vma<FileRef>, m: &Move) -> Result<VmaFlags> {
    let p = &me.caller();
    hold::at("mremap-looked-up");
    let special = matches!(vma.backing, Backing::Special(_));
    if m.old_size == 0 && !vma.flags.contains(VmaFlags::SHARED) || m.keep && special {
        return Err(errno::EINVAL);
    }
    // As Linux, where another policy makes another mapping.
    if m.old_size > vma.end - m.old || !p.mm.lock().policies.is_one(m.old, m.old + m.old_size) {
        return Err(errno::EFAULT);
    }
    let more = m.new_size - m.old_size;
    let limits = rlimits::of_memory(me).with_reserved(m.reserved);
    if m.keep && !limits.allow(&p.mm.lock(), m.new_size, limits::is_data(vma)) {
        return Err(errno::ENOMEM);
    }
    let locked = vma.flags & (VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT);
    if more == 0 {
        return Ok(VmaFlags::empty());
    }
    if special {
        return Err(errno::EFAULT);
    }
    if locked.contains(VmaFlags::LOCKED) {
        let limit = LockLimit::ask(me).map_err(|_| errno::EAGAIN)?;
        if !limit.allows(p.mm.lock().locked_bytes().saturating_add(more)) {
            return Err(errno::EAGAIN);
        }
    }
    if !limits.allow(&p.mm.lock(), more, limits::is_data(vma)) {
        return Err(errno::ENOMEM);
    }
    limits::enough_memory(if limits::is_accounted(vma.prot, vma.flags) { more } else { 0 })?;
    Ok(locked)
}

fn bring_in_locked(me: &Thread, flags: VmaFlags, start: u64, end: u64) {
    if flags == VmaFlags::LOCKED {
        let _ = mlock::populate_mapped(me, start, end);
    }
}

/// Whether `start..end` is as it was in `vma`, when that was looked up: the call may have
/// waited since, and another thread have mapped something else there. `EFAULT`.
fn unchanged(mm: &AddressSpace, vma: &Vma<FileRef>, start: u64, end: u64) -> Result<()> {
    let was = vma.slice(start, end).filter(|was| was.end == end);
    was.filter(|was| mm.vmas.holds(was)).map(|_| ()).ok_or(errno::EFAULT)
}

/// Extends a mapping of `old` where it is; false: something is in the way.
fn grow(p: &Caller<'_>, vma: &Vma<FileRef>, old: u64, end: u64) -> Result<bool> {
    let linux = matches!(vma.backing, Backing::SharedLinux { .. });
    {
        let mut mm = p.mm.lock();
        if end > USER_MAX || mm.vmas.overlaps(vma.end, end) {
            return Ok(false);
        }
        unchanged(&mm, vma, old, vma.end)?;
        if !linux {
            let backing = vma.backing.advanced(vma.end - vma.start);
            let policy = mm.policies.get(vma.end - 1);
            mm.policies.set(vma.end, end, policy)?;
            mm.vmas
                .insert(Vma { start: vma.end, end, backing, ..vma.clone() })
                .inspect_err(|_| mm.policies.clear(vma.end, end))?;
            return Ok(true);
        }
        mm.vmas.insert(reservation(p.slot, vma.end, end))?;
    }
    let result = grow_linux(p, vma, end);
    if result.is_err() {
        shared::remap(p, vma.end, end);
        unreserve(p, vma.end, end);
    }
    Ok(result.is_ok())
}

/// In the proxy the device's mapping is in the way: it makes room first.
fn grow_linux(p: &Caller<'_>, vma: &Vma<FileRef>, end: u64) -> Result<()> {
    delegate::linux(__NR_munmap, [vma.end, end - vma.end, 0, 0, 0, 0])?;
    delegate::linux(__NR_mremap, [vma.start, vma.end - vma.start, end - vma.start, 0, 0, 0])?;
    let watch = services::by_worker(SERVICE_WATCH, &[vma.start, end], &[])?.status as u32;
    let mut old = watch;
    let mut enter = || {
        let mut mm = p.mm.lock();
        unchanged(&mm, vma, vma.start, vma.end)?;
        mm.vmas.update(vma.start, vma.end, |v| {
            if let Backing::SharedLinux { watch: w, .. } = &mut v.backing {
                old = core::mem::replace(w, watch);
            }
            Ok(())
        })?;
        let mut backing = vma.backing.advanced(vma.end - vma.start);
        if let Backing::SharedLinux { watch: w, .. } = &mut backing {
            *w = watch;
        }
        fill_whole(&mut mm, p.slot, Vma { start: vma.end, end, backing, ..vma.clone() })
    };
    let entered = enter();
    shared::unwatch(p, old);
    entered
}

/// Moves it to where `target` is reserved.
fn relocate(
    me: &Thread,
    vma: &Vma<FileRef>,
    m: &Move,
    target: u64,
    lock_flags: VmaFlags,
) -> Result<u64> {
    let p = &me.caller();
    let linux = matches!(vma.backing, Backing::SharedLinux { .. });
    let moved = if linux { move_shared(p, vma, m, target) } else { move_pages(p, vma, m, target) };
    moved.inspect_err(|_| unreserve(p, target, target + m.new_size))?;
    bring_in_locked(me, lock_flags, target, target + m.new_size);
    Ok(target)
}

/// Linux moves its mapping; here the old range is forgotten and the new one found anew.
fn move_shared(p: &Caller<'_>, vma: &Vma<FileRef>, m: &Move, target: u64) -> Result<()> {
    let Move { old, old_size, new_size, keep, .. } = *m;
    let end = target + new_size;
    let source_end = old + old_size.max(SMALL);
    unchanged(&p.mm.lock(), vma, old, source_end)?;
    let Backing::SharedLinux { file, offset, watch: old_watch } =
        vma.backing.advanced(old - vma.start)
    else {
        return Err(errno::EINVAL);
    };
    let gone = old_size != 0 && !keep;
    let flags = MAYMOVE | FIXED | if keep { DONTUNMAP } else { 0 };
    delegate::linux(__NR_mremap, [old, old_size, new_size, flags, target, 0])
        .inspect_err(|_| shared::remap(p, target, end))?;
    let undo = || {
        if gone {
            move_back(p, m, target, old_watch);
        }
        shared::remap(p, target, end);
    };
    let watch = services::by_worker(SERVICE_WATCH, &[target, end], &[])
        .inspect_err(|_| undo())?
        .status as u32;
    hold::at("mremap-moved");
    let enter = || -> Result<()> {
        let mut mm = p.mm.lock();
        unchanged(&mm, vma, old, source_end)?;
        let backing = Backing::SharedLinux { watch, file, offset };
        fill_whole(&mut mm, p.slot, Vma { start: target, end, backing, ..vma.clone() })?;
        if gone {
            let mut removed = Removed::default();
            drop(mm.vmas.remove(old, old + old_size));
            mm.policies.clear(old, old + old_size);
            mm.unmap_pages(old, old + old_size, &mut removed)?; // foreign frames: nothing to free
        }
        Ok(())
    };
    enter().inspect_err(|_| {
        undo();
        shared::unwatch(p, watch);
    })?;
    if gone {
        shared::unmap(p, old, old + old_size, old_watch);
    }
    Ok(())
}

/// Has Linux move back what is still mapped here by the same `watch`. Where nothing of Linux'
/// is mapped any more, it has nothing either: there the device is again. Linux, which has just
/// given up these addresses, has room for them; if not, the memory is lost (`SIGBUS`).
fn move_back(p: &Caller<'_>, m: &Move, target: u64, watch: u32) {
    let (old, end) = (m.old, m.old + m.old_size);
    // One at a time: the way back has no list, for which there might be no memory.
    let next = |at: u64| {
        p.mm.lock().vmas.range(at, end).find_map(|v| match v.backing {
            Backing::SharedLinux { watch, .. } if at < end => {
                Some((v.start.max(at), v.end.min(end), watch))
            }
            _ => None,
        })
    };
    let mut at = old;
    while let Some((from, to, by)) = next(at) {
        if by == watch {
            let _ = delegate::linux(
                __NR_mremap,
                [target + (from - old), to - from, to - from, MAYMOVE | FIXED, from, 0],
            );
        }
        at = to;
    }
    // Looked at again: what another thread has unmapped meanwhile must not be there again.
    let mut at = old;
    while at < end {
        let (from, to) = next(at).map_or((end, end), |(from, to, _)| (from, to));
        if at < from {
            shared::remap(p, at, from);
        }
        at = to;
    }
}

/// Moves private pages, once Linux has forgotten the old place. The mapping that moves is the one
/// that is there then: as if the call had come after what other threads have changed.
fn move_pages(p: &Caller<'_>, vma: &Vma<FileRef>, m: &Move, target: u64) -> Result<()> {
    let Move { old, old_size, new_size, keep, .. } = *m;
    let old_end = old + old_size;
    carry_out(
        p,
        (old, old_end),
        |mm, change| {
            movable(mm, vma, m)?;
            mm.split_edges(old, old_end)?;
            Ok(mm.must_forget((old, old_end), change, Sight::is_seen))
        },
        |mm, _| {
            let vma = movable(mm, vma, m)?;
            let backing = vma.backing.advanced(old - vma.start);
            let moved = Vma { start: target, end: target + new_size, backing, ..vma };
            fill_whole(mm, p.slot, moved)?;
            let policy = mm.policies.get(old);
            let placed = mm.policies.set(target, target + new_size, policy);
            if let Err(e) = placed.and_then(|()| mm.place_leaves(old, old_end, target)) {
                drop(mm.vmas.remove(target, target + new_size));
                mm.policies.clear(target, target + new_size);
                return Err(e);
            }
            mm.displace_leaves(old, old_end);
            if keep {
                // The old place is as new, and not locked any more.
                let locks = VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT;
                let _ = mm.vmas.set_flags(old, old_end, VmaFlags::empty(), locks);
            } else {
                drop(mm.vmas.remove(old, old_end));
                mm.policies.clear(old, old_end);
            }
            Ok(())
        },
    )
}

/// The private mapping at the old place, which may be another one by now than `vma`, for which the
/// call was found to be right: `EFAULT` if it is of another kind.
fn movable(mm: &AddressSpace, vma: &Vma<FileRef>, m: &Move) -> Result<Vma<FileRef>> {
    let special = |v: &Vma<FileRef>| matches!(v.backing, Backing::Special(_));
    let is_alike = |now: &&Vma<FileRef>| {
        now.end - m.old >= m.old_size
            && !matches!(now.backing, Backing::SharedLinux { .. })
            && (!special(now) || now.backing == vma.backing)
            && huge::size_of(now.flags) == huge::size_of(vma.flags)
    };
    mm.vmas.find(m.old).filter(is_alike).cloned().ok_or(errno::EFAULT)
}

/// remap_file_pages: Linux maps the other pages of the file where its mapping is; the
/// watch tells of the old ones.
pub fn file_pages(
    me: &Thread,
    addr: u64,
    len: u64,
    prot: u64,
    page: u64,
    flags: u64,
) -> Result<u64> {
    let start = page_down(addr);
    let end = start
        .checked_add(page_down(len))
        .filter(|&end| end > start && end <= USER_MAX)
        .ok_or(errno::EINVAL)?;
    let offset = page.checked_mul(SMALL).ok_or(errno::EINVAL)?;
    let p = &me.caller();
    let shared = |v: &Vma<FileRef>| {
        v.flags.contains(VmaFlags::SHARED) && matches!(v.backing, Backing::SharedLinux { .. })
    };
    // Anything else is the device's in the proxy, which must not be touched.
    let mut at = start;
    for v in p.mm.lock().vmas.range(start, end).filter(|&v| shared(v)) {
        if v.start <= at {
            at = v.end;
        }
    }
    if at < end {
        return Err(errno::EINVAL);
    }
    delegate::linux(__NR_remap_file_pages, [addr, len, prot, page, flags, 0])?;
    p.mm.lock().vmas.update(start, end, |v| {
        let distance = v.start - start;
        if let Backing::SharedLinux { offset: o, .. } = &mut v.backing {
            *o = offset.wrapping_add(distance);
        }
        Ok(())
    })?;
    Ok(0)
}
