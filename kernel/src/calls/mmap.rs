//! The memory calls that make, change and remove mappings: mmap, munmap, mprotect, brk, msync.

use crate::base::lists;
use crate::calls::{mlock, rlimits};
use crate::link::delegate;
use crate::mm::files::{self, Private};
use crate::mm::fork::unwritten;
use crate::mm::free::MAP_STACK;
use crate::mm::huge::MAP_HUGETLB;
use crate::mm::parts::reach;
use crate::mm::place::{MAP_FIXED, MAP_FIXED_NOREPLACE, choose};
use crate::mm::reserve::{fill_reserved, lock_settled, unreserve};
use crate::mm::unmap::{unmap_after, unmap_range};
use crate::mm::{AddressSpace, Caller, FileRef, anonymous, huge, limits, protect, shared};
use crate::process::thread::Thread;
use alloc::vec::Vec;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::addr::page_up;
use hanare_core::coherence::NOTHING;
use hanare_core::errno::{self, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_fcntl, __NR_mprotect, __NR_msync};

const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_SHARED_VALIDATE: u64 = 3;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_LOCKED: u64 = 0x2000;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_NONBLOCK: u64 = 0x1_0000;
/// Without a meaning on this machine, and valid.
const PROT_SEM: u64 = 8;
const PROT_GROWSDOWN: u64 = 0x0100_0000;
const PROT_GROWSUP: u64 = 0x0200_0000;

fn prot_of(bits: u64) -> Prot {
    Prot::from_bits_truncate(bits as u32 & 7)
}

/// The rights that a mapping gets: with READ_IMPLIES_EXEC (personality(2)) more than asked for.
fn with_implied(me: &Thread, prot: Prot) -> Prot {
    let implied = prot.contains(Prot::READ) && me.process.identity.lock().read_implies_exec;
    if implied { prot | Prot::EXEC } else { prot }
}

/// mmap. Of a descriptor that is not open Linux says so before anything else.
pub fn mmap(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    const GETFD: u64 = 1;
    let [.., flags, fd, offset] = *a;
    if !offset.is_multiple_of(SMALL) {
        return Err(errno::EINVAL);
    }
    let result = map(me, a);
    if result.is_err() && flags & MAP_ANONYMOUS == 0 {
        delegate::linux(__NR_fcntl, [fd, GETFD, 0, 0, 0, 0])?;
    }
    result
}

fn map(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    let [addr, len, prot, flags, fd, offset] = *a;
    if len == 0 {
        return Err(errno::EINVAL);
    }
    let p = &me.caller();
    let anonymous_map = flags & MAP_ANONYMOUS != 0;
    let kind = flags & 0xf;
    let private = kind == MAP_PRIVATE;
    let prot = prot_of(prot);
    // An error is returned below: Linux looks at the length first.
    let file = (private && !anonymous_map).then(|| files::private(p, fd, prot));
    let huge = match flags & MAP_HUGETLB != 0 {
        true if anonymous_map => Some(huge::page_size(flags)?),
        _ if anonymous_map || matches!(file, Some(Err(_) | Ok(Private::Regular { .. }))) => None,
        _ => huge::page_size_of_file(p, fd),
    };
    let (align, mut vma_flags) = huge.unwrap_or((SMALL, VmaFlags::empty()));
    let len = len.checked_add(SMALL - 1).ok_or(errno::ENOMEM)? & !(SMALL - 1);
    if len > USER_MAX - USER_MIN {
        return Err(errno::ENOMEM);
    }
    let len = huge::round(len, align)?;
    if !matches!(kind, MAP_SHARED | MAP_PRIVATE | MAP_SHARED_VALIDATE)
        || anonymous_map && kind == MAP_SHARED_VALIDATE
    {
        return Err(errno::EINVAL);
    }
    if !anonymous_map && offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
        return Err(errno::EOVERFLOW);
    }
    let file = file.transpose()?;
    let prot = match &file {
        Some(Private::Regular { max_prot, .. }) => with_implied(me, prot) & (prot | *max_prot),
        _ => with_implied(me, prot),
    };
    if flags & MAP_HUGETLB != 0 && huge.is_none()
        || flags & MAP_GROWSDOWN != 0 && !(anonymous_map && private)
    {
        return Err(errno::EINVAL);
    }
    check_fixed(p, addr, len, align, flags)?;
    if kind == MAP_SHARED_VALIDATE && flags & MAP_FIXED_NOREPLACE != 0 {
        return Err(errno::EOPNOTSUPP); // not one of the flags that this kind promises to look at
    }
    vma_flags |= mlock::future(me, len, flags & MAP_LOCKED != 0)?;
    for (bit, flag) in [(MAP_NORESERVE, VmaFlags::NORESERVE), (MAP_GROWSDOWN, VmaFlags::GROWSDOWN)]
    {
        vma_flags.set(flag, flags & bit != 0);
    }
    // As Linux since 6.7: there may be thousands of stacks, each used a little, at its end.
    vma_flags.set(VmaFlags::NOHUGE, flags & MAP_STACK != 0 && huge.is_none());
    within_limits(me, addr, len, prot, flags)?;
    let shared = match (private, anonymous_map) {
        (true, _) => VmaFlags::empty(),
        (_, true) => VmaFlags::SHARED | VmaFlags::ANONYMOUS_SHARED,
        _ => VmaFlags::SHARED,
    };
    let linux = !anonymous_map && !matches!(file, Some(Private::Regular { .. }));
    let from_pool = linux && huge.is_some();
    limits::enough_memory(if !from_pool && limits::is_accounted(prot, vma_flags | shared) {
        len
    } else {
        0
    })?;
    let mut unused = None;
    if linux
        && flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED
        && p.mm.lock().vmas.overlaps(addr, addr + len)
    {
        unused = unused_reservation(p, addr, addr + len);
        if unused.is_none() {
            shared::try_elsewhere(len, prot, flags, fd, offset)?;
        }
    }
    let flags_of_place = if huge.is_some() { huge::with_size(flags, align) } else { flags };
    let mut at = choose(p, addr, len, flags_of_place, NOTHING)?;
    let end = at + len;
    match file {
        Some(Private::Regular { file, max_prot }) => {
            let flags = vma_flags | unwritten(prot);
            let backing = Backing::PrivateFile { file, offset };
            fill_reserved(p, &Vma { start: at, end, prot, max_prot, flags, backing })?;
        }
        None if private => {
            let vma = anonymous(at, end, prot, vma_flags);
            if huge.is_some() && flags & MAP_NORESERVE == 0 {
                huge::reserve(p, &vma).inspect_err(|_| unreserve(p, at, end))?;
            }
            fill_reserved(p, &vma)?;
        }
        // A private mapping of a device means what the device says; one of huge pages takes them
        // from Linux' pool.
        Some(Private::Device) | None => {
            // What Linux refuses leaves what was there.
            let (flags_there, back) = (vma_flags | shared, unused.as_ref());
            at = shared::map(p, at, len, prot, flags, fd, offset, flags_there, back)?;
        }
    }
    let end = at + len;
    let locked = vma_flags & (VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT) == VmaFlags::LOCKED;
    if flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE || locked {
        let _ = mlock::populate_mapped(me, at, end); // as Linux: as far as it goes
    }
    Ok(at)
}

/// The mapping at `start..end`, if it is a single one that only reserves the addresses and has no
/// pages. It can be put back at no cost.
fn unused_reservation(p: &Caller<'_>, start: u64, end: u64) -> Option<Vma<FileRef>> {
    let mut mm = p.mm.lock();
    let plain =
        |v: &&Vma<FileRef>| v.end >= end && v.prot.is_empty() && v.backing == Backing::Anonymous;
    let vma = mm.vmas.find(start).filter(plain)?.slice(start, end)?;
    let mut used = false;
    mm.table.update(start, end, &mut |leaf| {
        used = true;
        leaf.entry
    });
    (!used).then_some(vma)
}

/// Checks of a wished-for address that are made before anything is changed.
fn check_fixed(p: &Caller<'_>, addr: u64, len: u64, align: u64, flags: u64) -> Result<()> {
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0 {
        return Ok(());
    }
    let end = addr.checked_add(len).filter(|&end| end <= USER_MAX).ok_or(errno::ENOMEM)?;
    if !addr.is_multiple_of(align) {
        return Err(errno::EINVAL);
    }
    if addr < USER_MIN {
        return Err(errno::EPERM);
    }
    let mm = lock_settled(p, addr, end)?;
    if flags & MAP_FIXED_NOREPLACE != 0 && mm.vmas.overlaps(addr, end) {
        return Err(errno::EEXIST);
    }
    mm.may_cut(addr, end)
}

/// RLIMIT_AS and RLIMIT_DATA; what `MAP_FIXED` replaces does not count twice.
fn within_limits(me: &Thread, addr: u64, len: u64, prot: Prot, flags: u64) -> Result<()> {
    let limits = rlimits::of_memory(me);
    let mm = me.process.mm.lock();
    let replaced: u64 = if flags & MAP_FIXED == 0 {
        0
    } else {
        mm.vmas.range(addr, addr + len).map(|v| v.end.min(addr + len) - v.start.max(addr)).sum()
    };
    let data = flags & (0xf | MAP_GROWSDOWN) == MAP_PRIVATE && prot.contains(Prot::WRITE);
    if limits.allow(&mm, len - replaced, data) { Ok(()) } else { Err(errno::ENOMEM) }
}

/// munmap.
pub fn munmap(me: &Thread, addr: u64, len: u64) -> Result<u64> {
    if len == 0 {
        return Err(errno::EINVAL);
    }
    let end = addr
        .checked_add(len)
        .filter(|&end| end <= TASK_SIZE && addr.is_multiple_of(SMALL))
        .ok_or(errno::EINVAL)?;
    // Behind USER_MAX nothing is mapped.
    let (start, end) = (addr.min(USER_MAX), page_up(end).min(USER_MAX));
    if start < end {
        unmap_range(&me.caller(), start, end)?;
    }
    Ok(0)
}

/// mprotect. Goes from the lowest mapping up and keeps what it did when it has to stop.
pub fn mprotect(me: &Thread, addr: u64, len: u64, prot: u64) -> Result<u64> {
    let grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    if grows == PROT_GROWSDOWN | PROT_GROWSUP || !addr.is_multiple_of(SMALL) {
        return Err(errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let wanted =
        addr.checked_add(mlock::whole_pages(len)).filter(|&end| end > addr).ok_or(errno::ENOMEM)?;
    let (mut start, end) = (addr.min(USER_MAX), wanted.min(USER_MAX)); // what is behind is a hole
    if prot & !(7 | PROT_SEM | grows) != 0 {
        return Err(errno::EINVAL);
    }
    let p = &me.caller();
    drop(lock_settled(p, start, end)?);
    if grows != 0 {
        let mm = p.mm.lock();
        let v = mm.vmas.find_next(start).filter(|v| v.start < end).ok_or(errno::ENOMEM)?;
        // Nothing grows up on this machine.
        if grows == PROT_GROWSUP || !v.flags.contains(VmaFlags::GROWSDOWN) {
            return Err(errno::EINVAL);
        }
        start = v.start;
    }
    let prot = with_implied(me, prot_of(prot));
    if prot.contains(Prot::WRITE) {
        let (limits, mm) = (rlimits::of_memory(me), p.mm.lock());
        let gains = |v: &&Vma<FileRef>| {
            !v.prot.contains(Prot::WRITE) && !v.flags.contains(VmaFlags::SHARED)
        };
        let bytes = |v: &Vma<FileRef>| v.end.min(end) - v.start.max(start);
        if !limits.allow_data(&mm, mm.vmas.range(start, end).filter(gains).map(bytes).sum()) {
            return Err(errno::ENOMEM);
        }
        let promised =
            mm.vmas.range(start, end).filter(gains).filter(|v| limits::is_accounted(prot, v.flags));
        limits::enough_memory(promised.map(bytes).max().unwrap_or(0))?;
    }
    let (end, refused) = protect_shared(p, start, end, prot);
    let result = protect::private(p, start, end, prot);
    refused.and(result)?;
    if wanted > USER_MAX { Err(errno::ENOMEM) } else { Ok(0) }
}

/// Changes what Linux has mapped, up to where the rest of the call will have to stop; how far
/// the call gets, and why no further if it is Linux that refuses.
fn protect_shared(p: &Caller<'_>, start: u64, end: u64, prot: Prot) -> (u64, Result<()>) {
    let protect = |s: u64, e: u64| {
        delegate::linux(__NR_mprotect, [s, e - s, u64::from(prot.bits()), 0, 0, 0])
    };
    let reach = p.mm.lock().vmas.protectable(start, end, prot);
    let Ok(parts) = shared_parts(p, start, reach) else { return (start, Err(errno::ENOMEM)) };
    for (s, e) in parts {
        if protect(s, e).is_ok() {
            continue;
        }
        // One of its pieces; those below are changed.
        let piece = |at| p.mm.lock().vmas.range(at, e).next().map(|v| v.end.min(e));
        let mut at = s;
        while let Some(end) = piece(at).filter(|&end| end > at) {
            if let Err(error) = protect(at, end) {
                return (at, Err(error));
            }
            at = end;
        }
    }
    (end, Ok(()))
}

fn shared_parts(p: &Caller<'_>, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
    let mm = lock_settled(p, start, end)?;
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for v in mm.vmas.range(start, end).filter(|v| matches!(v.backing, Backing::SharedLinux { .. }))
    {
        let (s, e) = (v.start.max(start), v.end.min(end));
        // Neighbours as one: a mapping may be in thousands of pieces, each a call.
        match parts.last_mut() {
            Some(last) if last.1 == s => last.1 = e,
            _ => lists::push(&mut parts, (s, e))?,
        }
    }
    Ok(parts)
}

/// brk: the new end, or the old one if that cannot be.
pub fn brk(me: &Thread, wanted: u64) -> u64 {
    let p = &me.caller();
    loop {
        let (start, old) = {
            let mm = p.mm.lock();
            (mm.brk_start, mm.brk)
        };
        crate::process::limits::look(me);
        let limit = me.process.identity.lock().data_soft;
        if wanted < start || wanted > USER_MAX || wanted - start > limit && wanted > old {
            return old;
        }
        let (from, to) = (page_up(old), page_up(wanted));
        let moved = if to > from {
            grow_heap(me, old, wanted)
        } else if to < from {
            shrink_heap(p, old, wanted)
        } else {
            Ok(move_end(&mut p.mm.lock(), old, wanted))
        };
        match moved {
            Ok(true) => return wanted,
            Ok(false) => {} // another thread has moved it: it is looked at anew
            Err(_) => return p.mm.lock().brk,
        }
    }
}

/// Moves the end of the heap; false: it is not `old` any more.
fn move_end(mm: &mut AddressSpace, old: u64, wanted: u64) -> bool {
    let is_there = mm.brk == old;
    if is_there {
        mm.brk = wanted;
    }
    is_there
}

/// Grows the heap and moves its end ([`move_end`]). False: another thread has moved the end.
fn grow_heap(me: &Thread, old: u64, wanted: u64) -> Result<bool> {
    let p = &me.caller();
    let (from, to) = (page_up(old), page_up(wanted));
    let limits = rlimits::of_memory(me);
    let lock_flags = mlock::future(me, to - from, false)?;
    limits::enough_memory(to - from)?;
    reach(p, from, to)?;
    {
        // A page is kept free between the heap and what follows.
        let mut mm = lock_settled(p, from, to + SMALL)?;
        if mm.brk != old {
            return Ok(false);
        }
        if !limits.allow(&mm, to - from, true) || !mm.vmas.is_free(from, to + SMALL) {
            return Err(errno::ENOMEM);
        }
        let flags = VmaFlags::HEAP | lock_flags;
        mm.vmas.insert(anonymous(from, to, Prot::READ | Prot::WRITE, flags))?;
        mm.policies.clear(from, to);
        mm.brk = wanted;
    }
    if lock_flags == VmaFlags::LOCKED {
        let _ = mlock::populate_mapped(me, from, to);
    }
    Ok(true)
}

/// Shrinks the heap. For other calls, its end moves ([`move_end`]) with the unmapping; if that
/// fails, the end is moved back. False: another thread has moved the end.
fn shrink_heap(p: &Caller<'_>, old: u64, wanted: u64) -> Result<bool> {
    let (from, to) = (page_up(wanted), page_up(old));
    unmap_after(p, from, to, |mm| move_end(mm, old, wanted)).inspect_err(|_| {
        move_end(&mut p.mm.lock(), wanted, old);
    })
}

/// msync: only shared mappings concern Linux; the rest must be mapped.
pub fn msync(me: &Thread, addr: u64, len: u64, flags: u64) -> Result<u64> {
    const INVALIDATE: u64 = 2;
    if flags & !7 != 0 || flags & 5 == 5 || !addr.is_multiple_of(SMALL) {
        return Err(errno::EINVAL);
    }
    let wanted = addr.checked_add(mlock::whole_pages(len)).ok_or(errno::ENOMEM)?;
    if wanted == addr {
        return Ok(0);
    }
    let (start, end) = (addr.min(USER_MAX), wanted.min(USER_MAX)); // what is behind is a hole
    let p = &me.caller();
    if flags & INVALIDATE != 0
        && lock_settled(p, start, end)?
            .vmas
            .range(start, end)
            .any(|v| v.flags.contains(VmaFlags::LOCKED))
    {
        return Err(errno::EBUSY);
    }
    for (s, e) in shared_parts(p, start, end)? {
        delegate::linux(__NR_msync, [s, e - s, flags, 0, 0, 0])?;
    }
    if wanted <= USER_MAX && p.mm.lock().vmas.is_covered(start, end) {
        Ok(0)
    } else {
        Err(errno::ENOMEM)
    }
}
