//! mremap, remap_file_pages.

use crate::calls::context::handlers;
use crate::calls::mlock::{self, whole_pages};
use crate::calls::rlimits::{self, LockLimit};
use crate::link::{delegate, services};
use crate::mm::change::pinnable;
use crate::mm::change::placement::choose;
use crate::mm::change::reserve::{
    begin_move, fill_whole, lock_settled, settle, settle_move, unreserve,
};
use crate::mm::change::shared;
use crate::mm::change::transaction::carry_out;
use crate::mm::change::unmap::unmap_range;
use crate::mm::map::kept::{kept, reservation};
use crate::mm::map::limits;
use crate::mm::pages::leftovers::Removed;
use crate::mm::window::address_parts::reach;
use crate::mm::{AddressSpace, Caller, FileRef};
use crate::process::thread::Thread;
use crate::sched::hold;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::service::SERVICE_WATCH;
use hanare_core::addr::page_down;
use hanare_core::coherence::{Change, Kept};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_core::mmap::{self, MAP_FIXED};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_mremap, __NR_munmap, __NR_remap_file_pages};

handlers! { call:
    __NR_mremap => mremap(call.thread, &call.args),
    __NR_remap_file_pages => file_pages(call.thread, &call.args),
}

const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
const DONTUNMAP: u64 = 4;

/// A move as the call asks for it, with sizes rounded to pages.
#[derive(Clone, Copy)]
struct Move {
    old: u64,
    old_size: u64,
    new_size: u64,
    keep: bool,
    /// Bytes at the new place that are reserved already.
    reserved: u64,
}

impl Move {
    /// Addresses that the mapping is moved from.
    fn source(&self) -> PageRange {
        PageRange::of_user(self.old, self.old.saturating_add(self.old_size.max(SMALL)))
    }
}

/// mremap. Checks in the order of Linux, so that the error is the same.
pub fn mremap(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    let [old, old_len, new_len, flags, new, _] = *a;
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
    let vma = lock_settled(p, PageRange::of_user(old, old.saturating_add(SMALL)))?
        .mappings()
        .find(old)
        .cloned()
        .ok_or(errno::EFAULT)?;
    if let Some(size) = mmap::size_of(vma.flags) {
        (m.old_size, m.new_size) = (mmap::round(m.old_size, size)?, mmap::round(m.new_size, size)?);
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
        let end = end_of_source(&m);
        if m.old_size > m.new_size {
            let end = end.ok_or(errno::EINVAL)?;
            unmap_range(p, PageRange::of_user(old + m.new_size, end))?;
        } else if end.is_none() {
            // Nothing is to be done: of a size beyond all addresses Linux 6.1 says so, and
            // later ones `EINVAL`.
            return delegate::linux(me, __NR_mremap, [old, old_len, new_len, flags, new, 0]);
        }
        return Ok(old);
    }
    let lock_flags = resizable(me, &vma, &m)?;
    let at_end = old + m.old_size == vma.end;
    if at_end
        && let Some(end) = old.checked_add(m.new_size)
        && grow(p, &vma, &m, end)?
    {
        bring_in_locked(me, lock_flags, PageRange::of(vma.end, end));
        return Ok(old);
    }
    if flags & MAYMOVE == 0 {
        return Err(errno::ENOMEM);
    }
    let target = choose(p, 0, m.new_size, 0, m.source())?;
    relocate(me, &vma, &m, target, lock_flags)
}

/// Where the old range ends, if no address behind those of programs is in it. Behind `USER_MAX`
/// nothing is mapped.
fn end_of_source(m: &Move) -> Option<u64> {
    m.old.checked_add(m.old_size).filter(|&end| end <= TASK_SIZE)
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
        choose(p, new, m.new_size, MAP_FIXED, m.source())?;
        m.reserved = m.new_size;
    }
    move_from(me, m, fixed, new).inspect_err(|_| {
        if fixed {
            unreserve(p, PageRange::of(new, new + m.new_size));
        }
    })
}

/// `move_to` with the new range reserved, if it is `fixed`.
fn move_from(me: &Thread, m: &mut Move, fixed: bool, new: u64) -> Result<u64> {
    let p = &me.caller();
    if m.old_size > m.new_size {
        let end = end_of_source(m).ok_or(errno::EINVAL)?;
        unmap_range(p, PageRange::of_user(m.old + m.new_size, end))?;
        m.old_size = m.new_size;
    }
    let vma = lock_settled(p, PageRange::of_user(m.old, m.old.saturating_add(SMALL)))?
        .mappings()
        .find(m.old)
        .cloned()
        .ok_or(errno::EFAULT)?;
    let lock_flags = resizable(me, &vma, m)?;
    let target = if fixed { new } else { choose(p, new, m.new_size, 0, m.source())? };
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
    if m.old_size > vma.end - m.old
        || !p.memory.mm.lock().policies().is_one(PageRange::of(m.old, m.old + m.old_size))
    {
        return Err(errno::EFAULT);
    }
    let more = m.new_size - m.old_size;
    let limits = rlimits::of_memory(me).with_reserved(m.reserved);
    if m.keep && !limits.allow(&p.memory.mm.lock(), m.new_size, limits::is_data(vma)) {
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
        if !limit.allows(p.memory.mm.lock().locked_bytes().saturating_add(more)) {
            return Err(errno::EAGAIN);
        }
    }
    if !limits.allow(&p.memory.mm.lock(), more, limits::is_data(vma)) {
        return Err(errno::ENOMEM);
    }
    limits::enough_memory(if limits::is_accounted(vma.prot, vma.flags) { more } else { 0 })?;
    Ok(locked)
}

fn bring_in_locked(me: &Thread, flags: VmaFlags, range: PageRange) {
    if flags == VmaFlags::LOCKED {
        let _ = mlock::populate_mapped(me, range);
    }
}

/// Extends a mapping of `m.old` where it is; false: something is in the way.
fn grow(p: &Caller<'_>, vma: &Vma<FileRef>, m: &Move, end: u64) -> Result<bool> {
    let linux = matches!(vma.backing, Backing::SharedLinux { .. });
    if end <= USER_MAX {
        reach(p, PageRange::of(vma.end, end))?;
    }
    {
        let mut mm = lock_settled(p, PageRange::of_user(m.old, end))?;
        if end > USER_MAX || mm.mappings().overlaps(PageRange::of(vma.end, end)) {
            return Ok(false);
        }
        let more = PageRange::of(vma.end, end);
        if !linux {
            let now = movable(&mm, vma, m)?; // which ends there: nothing is behind it
            let backing = now.backing.advanced(vma.end - now.start);
            let policy = mm.policies().get(vma.end - 1);
            mm.cursor(more).set_policy(policy)?;
            mm.insert(Vma { start: vma.end, end, backing, ..now })
                .inspect_err(|_| mm.cursor(more).clear_policy())?;
            drop(mm);
            pinnable::follow_rights(p, more);
            return Ok(true);
        }
        mm.insert(reservation(p.slot, more))?;
    }
    let there = PageRange::of(m.old, vma.end);
    let result = begin_move(p, there).and_then(|now| {
        let grown = grow_linux(p, &now, end);
        settle_move(p, there);
        grown
    });
    if result.is_err() {
        shared::give_up(p, PageRange::of(vma.end, end), None);
    }
    Ok(result.is_ok())
}

/// In the proxy the device's mapping is in the way: it makes room first.
fn grow_linux(p: &Caller<'_>, vma: &Vma<FileRef>, end: u64) -> Result<()> {
    delegate::linux(p.thread, __NR_munmap, [vma.end, end - vma.end, 0, 0, 0, 0])?;
    delegate::linux(
        p.thread,
        __NR_mremap,
        [vma.start, vma.end - vma.start, end - vma.start, 0, 0, 0],
    )?;
    let watch = services::by_worker(p.thread, SERVICE_WATCH, &[vma.start, end], &[])?.status as u32;
    let mut old = watch;
    let mut enter = || {
        let mut mm = p.memory.mm.lock();
        mm.cursor(vma.range()).update(|v| {
            if let Backing::SharedLinux { watch: w, .. } = &mut v.backing {
                old = core::mem::replace(w, watch);
            }
            Ok(())
        })?;
        let last = mm.mappings().find(vma.end - 1).cloned().ok_or(errno::EFAULT)?;
        let backing = last.backing.advanced(vma.end - last.start);
        let flags = last.flags - VmaFlags::MOVING;
        fill_whole(p.memory, &mut mm, p.slot, Vma { start: vma.end, end, flags, backing, ..last })
    };
    let entered = enter();
    shared::unwatch(p, old);
    entered
}

/// Moves the mapping to the addresses that `target` has reserved.
fn relocate(
    me: &Thread,
    vma: &Vma<FileRef>,
    m: &Move,
    target: u64,
    lock_flags: VmaFlags,
) -> Result<u64> {
    let p = &me.caller();
    let linux = matches!(vma.backing, Backing::SharedLinux { .. });
    let place = PageRange::of(target, target + m.new_size);
    if !vma.prot.contains(Prot::WRITE) {
        pinnable::map_reserved_as_ever(p, place);
    }
    let moved = if linux { move_shared(p, m, target) } else { move_pages(p, vma, m, target) };
    moved.inspect_err(|_| unreserve(p, place))?;
    pinnable::follow_rights(p, place);
    bring_in_locked(me, lock_flags, place);
    Ok(target)
}

/// Linux moves its mapping; here the old range is forgotten and the new one found anew. Other
/// threads that touch or change the old one wait until that is done.
fn move_shared(p: &Caller<'_>, m: &Move, target: u64) -> Result<()> {
    let Move { old, old_size, new_size, .. } = *m;
    let source = PageRange::of(old, old + old_size.max(SMALL));
    let vma = begin_move(p, source)?;
    let moved = move_linux(p, m, target);
    match &moved {
        Ok(Place::Old) | Err((Place::Old, _)) => settle_move(p, source),
        Ok(Place::New) | Err((Place::New, _)) => {
            let Backing::SharedLinux { watch, .. } = vma.backing else { return Err(errno::EINVAL) };
            let is_done = shared::unmap(p, source, watch);
            let _ = settle(p, source, is_done); // it has moved, whatever Linux leaves there
        }
    }
    moved.map(|_| ()).map_err(|(_, e)| {
        shared::give_up(p, PageRange::of(target, target + new_size), None);
        e
    })
}

/// Place of a mapping after an attempt to move it.
enum Place {
    /// The old place, though there may be a copy at the new one.
    Old,
    /// The new place; nothing is left at the old one.
    New,
}

fn move_linux(
    p: &Caller<'_>,
    m: &Move,
    target: u64,
) -> core::result::Result<Place, (Place, Errno)> {
    let Move { old, old_size, new_size, keep, .. } = *m;
    let gone = old_size != 0 && !keep;
    let flags = MAYMOVE | FIXED | if keep { DONTUNMAP } else { 0 };
    delegate::linux(p.thread, __NR_mremap, [old, old_size, new_size, flags, target, 0])
        .map_err(|e| (Place::Old, e))?;
    let enter = || {
        let end = target + new_size;
        let watch =
            services::by_worker(p.thread, SERVICE_WATCH, &[target, end], &[])?.status as u32;
        hold::at("mremap-moved");
        let mut mm = p.memory.mm.lock();
        let entered = enter_moved(p, &mut mm, m, target, watch);
        if entered.is_ok() && gone {
            vacate(&mut mm, p.slot, old, old_size);
        }
        drop(mm);
        entered.inspect_err(|_| shared::unwatch(p, watch))
    };
    match enter() {
        Ok(()) if gone => Ok(Place::New),
        Ok(()) => Ok(Place::Old),
        Err(e) if gone => {
            // Linux, which has just given up these addresses, has room for it there.
            let back = [target, old_size, old_size, MAYMOVE | FIXED, old, 0];
            match delegate::linux(p.thread, __NR_mremap, back) {
                Ok(_) => Err((Place::Old, e)),
                Err(_) => {
                    vacate(&mut p.memory.mm.lock(), p.slot, old, old_size);
                    Err((Place::New, e))
                }
            }
        }
        Err(e) => Err((Place::Old, e)),
    }
}

/// Enters the mapping that Linux has moved, as it is in the map now, at its new place.
fn enter_moved(
    p: &Caller<'_>,
    mm: &mut AddressSpace,
    m: &Move,
    target: u64,
    watch: u32,
) -> Result<()> {
    let vma = mm.mappings().find(m.old).cloned().ok_or(errno::EFAULT)?;
    let mut backing = vma.backing.advanced(m.old - vma.start);
    if let Backing::SharedLinux { watch: of_old, .. } = &mut backing {
        *of_old = watch;
    }
    let (end, flags) = (target + m.new_size, vma.flags - VmaFlags::MOVING);
    fill_whole(p.memory, mm, p.slot, Vma { start: target, end, flags, backing, ..vma })
}

/// Takes the mapping out of its old place, whose addresses the caller is busy with from now on.
fn vacate(mm: &mut AddressSpace, slot: u32, old: u64, size: u64) {
    let (whole, mut none) = (PageRange::of(old, old + size), Removed::default()); // foreign frames: nothing to free
    drop(mm.cursor(whole).remove());
    mm.unmap_pages(whole, &Change::new(whole), true, &mut none);
    let _ = mm.insert_anyway(kept(Kept::Busy, slot, whole)); // it is free: cannot fail
}

/// Moves private pages, once Linux has forgotten the old place. The mapping that moves is the one
/// that is there then: as if the call had come after what other threads have changed.
fn move_pages(p: &Caller<'_>, vma: &Vma<FileRef>, m: &Move, target: u64) -> Result<()> {
    let Move { old, old_size, new_size, keep, .. } = *m;
    let source = PageRange::of(old, old + old_size);
    carry_out(
        p,
        source,
        |mm, change| {
            movable(mm, vma, m)?;
            mm.split_edges(source)?;
            Ok(mm.must_forget(source, change, |_, sight| sight.is_seen()))
        },
        |mm, _| {
            let vma = movable(mm, vma, m)?;
            let backing = vma.backing.advanced(old - vma.start);
            let moved = Vma { start: target, end: target + new_size, backing, ..vma };
            fill_whole(p.memory, mm, p.slot, moved)?;
            let policy = mm.policies().get(old);
            let place = PageRange::of(target, target + new_size);
            let placed = mm.cursor(place).set_policy(policy);
            if let Err(e) = placed.and_then(|()| mm.place_leaves(source, target)) {
                drop(mm.cursor(place).remove());
                return Err(e);
            }
            mm.displace_leaves(source);
            if keep {
                // The old place is as new, and not locked any more.
                let locks = VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT;
                let _ = mm.cursor(source).set_flags(VmaFlags::empty(), locks);
            } else {
                drop(mm.cursor(source).remove());
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
            && mmap::size_of(now.flags) == mmap::size_of(vma.flags)
    };
    mm.mappings().find(m.old).filter(is_alike).cloned().ok_or(errno::EFAULT)
}

/// remap_file_pages: Linux maps the other pages of the file where its mapping is; the
/// watch tells of the old ones.
pub fn file_pages(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    let [addr, len, prot, page, flags, _] = *a;
    let start = page_down(addr);
    let end = start
        .checked_add(page_down(len))
        .filter(|&end| end > start && end <= USER_MAX)
        .ok_or(errno::EINVAL)?;
    let is_offset =
        |offset: &u64| offset.checked_add(end - start).is_some_and(|end| end <= i64::MAX as u64);
    let offset = page.checked_mul(SMALL).filter(is_offset);
    let p = &me.caller();
    let shared = |v: &Vma<FileRef>| {
        v.flags.contains(VmaFlags::SHARED) && matches!(v.backing, Backing::SharedLinux { .. })
    };
    // Anything else is the device's in the proxy, which must not be touched.
    let (mut at, range) = (start, PageRange::of(start, end));
    for v in p.memory.mm.lock().mappings().range(range).filter(|&v| shared(v)) {
        if v.start <= at {
            at = v.end;
        }
    }
    if at < end {
        return Err(errno::EINVAL);
    }
    delegate::linux(me, __NR_remap_file_pages, [addr, len, prot, page, flags, 0])?;
    let offset = offset.ok_or(errno::EOVERFLOW)?; // as Linux has said, whatever a proxy says
    p.memory.mm.lock().cursor(range).update(|v| {
        let distance = v.start - start;
        if let Backing::SharedLinux { offset: o, .. } = &mut v.backing {
            *o = offset + distance;
        }
        Ok(())
    })?;
    Ok(0)
}
