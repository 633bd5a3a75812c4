//! The memory calls that make, change and remove mappings: mmap, munmap, mprotect, brk, msync.

use crate::base::lists;
use crate::calls::context::handlers;
use crate::calls::{mlock, rlimits};
use crate::link::delegate;
use crate::mm::change::fork::unwritten;
use crate::mm::change::placement::choose;
use crate::mm::change::reserve::{fill_reserved, lock_settled, unreserve};
use crate::mm::change::unmap::{unmap_after, unmap_range};
use crate::mm::change::{huge, pinnable, protect, shared};
use crate::mm::map::address_space::Heap;
use crate::mm::map::limits;
use crate::mm::window::address_parts::reach;
use crate::mm::window::files::{self, Private};
use crate::mm::{AddressSpace, Caller, FileRef, anonymous};
use crate::process::thread::Thread;
use alloc::vec::Vec;
use hanare_abi::layout::USER_MAX;
use hanare_core::addr::page_up;
use hanare_core::errno::{self, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_core::mmap::{
    Behind, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_LOCKED, MAP_NORESERVE, Plan,
    Request, Source, prot_of,
};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_fcntl, __NR_mprotect, __NR_msync};

handlers! { call:
    __NR_mmap => mmap(call.thread, &call.args),
    __NR_munmap => munmap(call.thread, call.args[0], call.args[1]),
    __NR_mprotect => mprotect(call.thread, call.args[0], call.args[1], call.args[2]),
    __NR_pkey_mprotect => match call.args[3] as i32 {
        -1 => mprotect(call.thread, call.args[0], call.args[1], call.args[2]),
        _ => Err(errno::EINVAL),
    },
    __NR_brk => Ok(brk(call.thread, call.args[0])),
}

/// Without a meaning on this machine, and valid.
const PROT_SEM: u64 = 8;
const PROT_GROWSDOWN: u64 = 0x0100_0000;
const PROT_GROWSUP: u64 = 0x0200_0000;

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
        delegate::linux(me, __NR_fcntl, [fd, GETFD, 0, 0, 0, 0])?;
    }
    result
}

fn map(me: &Thread, a: &[u64; 6]) -> Result<u64> {
    let request = Request::of(a)?;
    let (file, source) = look_up(&me.caller(), &request);
    let implies_exec = me.process.identity.lock().read_implies_exec;
    let plan = request.plan(source, implies_exec)?;
    let place = reserve(me, &request, &plan)?;
    install(me, &request, &plan, place, file)
}

/// The file that is read for a mapping, if it is one, and what lies behind the mapping.
fn look_up(p: &Caller<'_>, request: &Request) -> (Option<FileRef>, Option<Result<Source>>) {
    if request.is_anonymous() {
        return (None, None);
    }
    match request.is_private().then(|| files::private(p, request.fd, request.prot)) {
        Some(Err(error)) => (None, Some(Err(error))),
        Some(Ok(Private::Regular { file, max_prot })) => {
            (Some(file), Some(Ok(Source::Read(max_prot))))
        }
        Some(Ok(Private::Device)) | None => {
            (None, Some(Ok(Source::Linux(huge::page_size_of_file(p, request.fd)))))
        }
    }
}

/// A place for a mapping, whose addresses are reserved.
struct Place {
    at: u64,
    /// The flags of the mapping for memory that is locked.
    locks: VmaFlags,
    /// A mapping that is put back there if Linux refuses its own.
    unused: Option<Vma<FileRef>>,
}

fn reserve(me: &Thread, request: &Request, plan: &Plan) -> Result<Place> {
    let p = &me.caller();
    check_fixed(p, plan)?;
    plan.check_kind()?;
    let locks = mlock::future(me, plan.len, plan.has(MAP_LOCKED))?;
    if !p.memory.mm.lock().mappings().may_map(plan.prot) {
        return Err(errno::EACCES);
    }
    within_limits(me, plan)?;
    let is_promised =
        !plan.is_from_pool() && limits::is_accounted(plan.prot, plan.vma_flags | locks);
    limits::enough_memory(if is_promised { plan.len } else { 0 })?;
    let mut unused = None;
    if plan.replaces()
        && matches!(plan.behind, Behind::Linux { of_file: true })
        && p.memory.mm.lock().mappings().overlaps(plan.range())
    {
        unused = unused_reservation(p, plan.range());
        if unused.is_none() {
            let Request { fd, offset, .. } = *request;
            shared::try_elsewhere(me, plan.len, plan.prot, plan.flags, fd, offset)?;
        }
    }
    let at = choose(p, plan.addr, plan.len, plan.flags_of_place(), PageRange::NONE)?;
    Ok(Place { at, locks, unused })
}

/// Makes the mapping at its place; its address.
fn install(
    me: &Thread,
    request: &Request,
    plan: &Plan,
    place: Place,
    file: Option<FileRef>,
) -> Result<u64> {
    let p = &me.caller();
    let Plan { len, prot, .. } = *plan;
    let (mut at, flags) = (place.at, plan.vma_flags | place.locks);
    let plain = anonymous(PageRange::of(at, at + len), prot, flags);
    if !prot.contains(Prot::WRITE) {
        pinnable::map_reserved_as_ever(p, plain.range());
    }
    match (plan.behind, file) {
        (Behind::File, Some(file)) => {
            let backing = Backing::PrivateFile { file, offset: request.offset };
            let (flags, max_prot) = (flags | unwritten(prot), plan.max_prot);
            fill_reserved(p, &Vma { max_prot, flags, backing, ..plain })?;
        }
        (Behind::Memory | Behind::File, _) => {
            if plan.huge.is_some() && !plan.has(MAP_NORESERVE) {
                huge::reserve(p, &plain).inspect_err(|_| unreserve(p, plain.range()))?;
            }
            fill_reserved(p, &plain)?;
        }
        // A private mapping of a device means what the device says; one of huge pages takes them
        // from Linux' pool. What Linux refuses leaves what was there.
        (Behind::Linux { .. }, _) => {
            let (Request { fd, offset, .. }, back) = (*request, place.unused.as_ref());
            at = shared::map(p, at, len, prot, plan.flags, fd, offset, flags, back)?;
        }
    }
    if plan.is_populated(place.locks) {
        let _ = mlock::populate_mapped(me, PageRange::of(at, at + len)); // as Linux: as far as it goes
    }
    Ok(at)
}

/// The mapping at a range, if it is a single one that only reserves the addresses and has no
/// pages. It can be put back at no cost.
fn unused_reservation(p: &Caller<'_>, range: PageRange) -> Option<Vma<FileRef>> {
    let (start, end) = (range.start(), range.end());
    let mut mm = p.memory.mm.lock();
    let plain =
        |v: &&Vma<FileRef>| v.end >= end && v.prot.is_empty() && v.backing == Backing::Anonymous;
    let vma = mm.mappings().find(start).filter(plain)?.slice(range)?;
    let mut used = false;
    mm.pages().each(range, |_| used = true);
    (!used).then_some(vma)
}

/// Checks of what is at a fixed address that are made before anything is changed.
fn check_fixed(p: &Caller<'_>, plan: &Plan) -> Result<()> {
    if !plan.is_fixed() {
        return Ok(());
    }
    let range = plan.range();
    let mm = lock_settled(p, range)?;
    if plan.has(MAP_FIXED_NOREPLACE) && mm.mappings().overlaps(range) {
        return Err(errno::EEXIST);
    }
    mm.may_cut(range)
}

/// RLIMIT_AS and RLIMIT_DATA; what `MAP_FIXED` replaces does not count twice.
fn within_limits(me: &Thread, plan: &Plan) -> Result<()> {
    let limits = rlimits::of_memory(me);
    let mm = me.process.memory().mm.lock();
    let replaced: u64 = if !plan.has(MAP_FIXED) {
        0
    } else {
        mm.mappings().parts(plan.range()).map(|(_, part)| part.len()).sum()
    };
    if limits.allow(&mm, plan.len - replaced, plan.is_data()) { Ok(()) } else { Err(errno::ENOMEM) }
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
    let range = PageRange::of_user(addr, page_up(end));
    if !range.is_empty() {
        unmap_range(&me.caller(), range)?;
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
    drop(lock_settled(p, PageRange::of(start, end))?);
    if grows != 0 {
        let mm = p.memory.mm.lock();
        let v = mm.mappings().find_next(start).filter(|v| v.start < end).ok_or(errno::ENOMEM)?;
        // Nothing grows up on this machine.
        if grows == PROT_GROWSUP || !v.flags.contains(VmaFlags::GROWSDOWN) {
            return Err(errno::EINVAL);
        }
        start = v.start;
    }
    let (range, prot) = (PageRange::of(start, end), with_implied(me, prot_of(prot)));
    if prot.contains(Prot::WRITE) {
        let (limits, mm) = (rlimits::of_memory(me), p.memory.mm.lock());
        let gains = || {
            mm.mappings().parts(range).filter(|(v, _)| {
                !v.prot.contains(Prot::WRITE) && !v.flags.contains(VmaFlags::SHARED)
            })
        };
        if !limits.allow_data(&mm, gains().map(|(_, part)| part.len()).sum()) {
            return Err(errno::ENOMEM);
        }
        let promised = gains().filter(|(v, _)| limits::is_accounted(prot, v.flags));
        limits::enough_memory(promised.map(|(_, part)| part.len()).max().unwrap_or(0))?;
    }
    if !prot.contains(Prot::WRITE) {
        pinnable::map_as_ever(p, range)?;
    }
    let (end, refused) = protect_shared(p, range, prot);
    let result = protect::private(p, PageRange::of(start, end), prot);
    pinnable::follow_rights(p, range);
    refused.and(result)?;
    if wanted > USER_MAX { Err(errno::ENOMEM) } else { Ok(0) }
}

/// Changes what Linux has mapped, up to where the rest of the call will have to stop; how far
/// the call gets, and why no further if it is Linux that refuses.
fn protect_shared(p: &Caller<'_>, range: PageRange, prot: Prot) -> (u64, Result<()>) {
    let protect = |s: u64, e: u64| {
        delegate::linux(p.thread, __NR_mprotect, [s, e - s, u64::from(prot.bits()), 0, 0, 0])
    };
    let reach = p.memory.mm.lock().mappings().protectable(range, prot);
    let Ok(parts) = shared_parts(p, PageRange::of(range.start(), reach)) else {
        return (range.start(), Err(errno::ENOMEM));
    };
    for part in parts {
        let (s, e) = (part.start(), part.end());
        if protect(s, e).is_ok() {
            continue;
        }
        // One of its pieces; those below are changed.
        let piece = |at| {
            let rest = PageRange::of(at, e);
            p.memory.mm.lock().mappings().range(rest).next().map(|v| v.end.min(e))
        };
        let mut at = s;
        while let Some(end) = piece(at).filter(|&end| end > at) {
            if let Err(error) = protect(at, end) {
                return (at, Err(error));
            }
            at = end;
        }
    }
    (range.end(), Ok(()))
}

fn shared_parts(p: &Caller<'_>, range: PageRange) -> Result<Vec<PageRange>> {
    let mm = lock_settled(p, range)?;
    let mut parts: Vec<PageRange> = Vec::new();
    let is_linux = |v: &Vma<FileRef>| matches!(v.backing, Backing::SharedLinux { .. });
    for (_, part) in mm.mappings().parts(range).filter(|(v, _)| is_linux(v)) {
        // Neighbours as one: a mapping may be in thousands of pieces, each a call.
        match parts.last_mut() {
            Some(last) if last.end() == part.start() => *last = last.join(part),
            _ => lists::push(&mut parts, part)?,
        }
    }
    Ok(parts)
}

/// brk: the new end, or the old one if that cannot be.
pub fn brk(me: &Thread, wanted: u64) -> u64 {
    let p = &me.caller();
    loop {
        let Heap { start, end: old } = p.memory.mm.lock().heap();
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
            Ok(move_end(&mut p.memory.mm.lock(), old, wanted))
        };
        match moved {
            Ok(true) => return wanted,
            Ok(false) => {} // another thread has moved it: it is looked at anew
            Err(_) => return p.memory.mm.lock().heap().end,
        }
    }
}

/// Moves the end of the heap; false: it is not `old` any more.
fn move_end(mm: &mut AddressSpace, old: u64, wanted: u64) -> bool {
    let heap = mm.heap();
    let is_there = heap.end == old;
    if is_there {
        mm.set_heap(Heap { end: wanted, ..heap });
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
    let more = PageRange::of(from, to);
    reach(p, more)?;
    {
        // A page is kept free between the heap and what follows.
        let with_gap = PageRange::of(from, to + SMALL);
        let mut mm = lock_settled(p, with_gap)?;
        let heap = mm.heap();
        if heap.end != old {
            return Ok(false);
        }
        if !limits.allow(&mm, to - from, true) || !mm.mappings().is_free(with_gap) {
            return Err(errno::ENOMEM);
        }
        let flags = VmaFlags::HEAP | lock_flags;
        mm.insert(anonymous(more, Prot::READ | Prot::WRITE, flags))?;
        mm.cursor(more).clear_policy();
        mm.set_heap(Heap { end: wanted, ..heap });
    }
    if lock_flags == VmaFlags::LOCKED {
        let _ = mlock::populate_mapped(me, more);
    }
    Ok(true)
}

/// Shrinks the heap. For other calls, its end moves ([`move_end`]) with the unmapping; if that
/// fails, the end is moved back. False: another thread has moved the end.
fn shrink_heap(p: &Caller<'_>, old: u64, wanted: u64) -> Result<bool> {
    let less = PageRange::of(page_up(wanted), page_up(old));
    unmap_after(p, less, |mm| move_end(mm, old, wanted)).inspect_err(|_| {
        move_end(&mut p.memory.mm.lock(), wanted, old);
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
    let range = PageRange::of_user(addr, wanted); // what is behind is a hole
    let p = &me.caller();
    if flags & INVALIDATE != 0
        && lock_settled(p, range)?
            .mappings()
            .range(range)
            .any(|v| v.flags.contains(VmaFlags::LOCKED))
    {
        return Err(errno::EBUSY);
    }
    for part in shared_parts(p, range)? {
        delegate::linux(me, __NR_msync, [part.start(), part.len(), flags, 0, 0, 0])?;
    }
    if wanted <= USER_MAX && p.memory.mm.lock().mappings().is_covered(range) {
        Ok(0)
    } else {
        Err(errno::ENOMEM)
    }
}
