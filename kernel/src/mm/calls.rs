//! The memory calls: mmap, munmap, mprotect, mremap, madvise, brk, mincore, mlock.

use super::release::{Removed, zap};
use super::{FileHandle, FileRef, anonymous, fault, pte_bits, shared};
use crate::process::Process;
use crate::{cpus, delegate, frames, services};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::service::{FILE_REGULAR, SERVICE_FILE_GET};
use hanare_core::addr::{page_down, page_up};
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, Prot, Search, SpecialKind, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, SMALL, pte};
use hanare_hal::usercopy;

const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_SHARED_VALIDATE: u64 = 3;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_LOCKED: u64 = 0x2000;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_STACK: u64 = 0x2_0000;
const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

const SYS_MPROTECT: u32 = 10;
const SYS_MREMAP: u32 = 25;
const SYS_MSYNC: u32 = 26;
const SYS_MADVISE: u32 = 28;

fn prot_of(bits: u64) -> Prot {
    Prot::from_bits_truncate(bits as u32 & 7)
}

/// Page-aligned range of a call, within the user's addresses.
fn range(addr: u64, len: u64, error: errno::Errno) -> Result<(u64, u64)> {
    if addr % SMALL != 0 {
        return Err(errno::EINVAL);
    }
    let end = addr.checked_add(len).map(page_up).ok_or(error)?;
    if end > USER_MAX || end < addr { Err(error) } else { Ok((addr, end)) }
}

/// mmap.
pub fn mmap(addr: u64, len: u64, prot: u64, flags: u64, fd: u64, offset: u64) -> Result<u64> {
    if len == 0 {
        return Err(errno::EINVAL);
    }
    if offset % SMALL != 0 {
        return Err(errno::EINVAL);
    }
    let len = len.checked_add(SMALL - 1).ok_or(errno::ENOMEM)? & !(SMALL - 1);
    if len > USER_MAX - USER_MIN {
        return Err(errno::ENOMEM);
    }
    offset.checked_add(len).ok_or(errno::EOVERFLOW)?;
    let kind = flags & 0xf;
    if !matches!(kind, MAP_SHARED | MAP_PRIVATE | MAP_SHARED_VALIDATE) {
        return Err(errno::EINVAL);
    }
    let p = &cpus::current().process;
    let prot = prot_of(prot);
    let anonymous_map = flags & MAP_ANONYMOUS != 0;
    let file = if anonymous_map || kind != MAP_PRIVATE { None } else { Some(private_file(p, fd)?) };
    if flags & MAP_HUGETLB != 0 && !anonymous_map {
        return Err(errno::EINVAL);
    }
    if anonymous_map && kind == MAP_PRIVATE && !prot.is_empty() && flags & MAP_NORESERVE == 0 && len > frames::usage().1 {
        return Err(errno::ENOMEM); // Linux' heuristic overcommit refuses the obvious too
    }
    let at = choose(p, addr, len, flags)?;
    if kind != MAP_PRIVATE {
        return shared::map(p, at, len, prot, flags, fd, offset);
    }
    let mut vma_flags = VmaFlags::empty();
    for (bit, flag) in [(MAP_NORESERVE, VmaFlags::NORESERVE), (MAP_LOCKED, VmaFlags::LOCKED), (MAP_GROWSDOWN, VmaFlags::GROWSDOWN)] {
        vma_flags.set(flag, flags & bit != 0);
    }
    let _ = MAP_STACK;
    let vma = match file {
        None => anonymous(at, at + len, prot, vma_flags),
        Some(file) => Vma { start: at, end: at + len, prot, max_prot: Prot::all(), flags: vma_flags, backing: Backing::PrivateFile { file, offset } },
    };
    fill_reserved(p, vma)?;
    if flags & (MAP_POPULATE | MAP_LOCKED) != 0 && !prot.is_empty() {
        populate(at, at + len, prot);
    }
    Ok(at)
}

/// Puts a mapping where [`choose`] has reserved; gives the range up if that fails.
pub(super) fn fill_reserved(p: &Process, vma: Vma<FileRef>) -> Result<()> {
    let mut mm = p.mm.lock();
    drop(mm.vmas.remove(vma.start, vma.end));
    mm.vmas.insert(vma)
}

/// Gives up what [`choose`] has reserved.
pub(super) fn unreserve(p: &Process, start: u64, end: u64) {
    drop(p.mm.lock().vmas.remove(start, end));
}

/// A range that nobody else may take: of a mapping to come, or of one that Linux has
/// to forget first.
fn reservation(start: u64, end: u64) -> Vma<FileRef> {
    let backing = Backing::Special(SpecialKind::Other(0));
    Vma { start, end, prot: Prot::empty(), max_prot: Prot::empty(), flags: VmaFlags::FIXED_KERNEL, backing }
}

/// Picks the address, clears it for MAP_FIXED, and reserves it: other threads map too.
pub(super) fn choose(p: &Process, addr: u64, len: u64, flags: u64) -> Result<u64> {
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        if addr % SMALL != 0 {
            return Err(errno::EINVAL);
        }
        let end = addr.checked_add(len).ok_or(errno::ENOMEM)?;
        if end > USER_MAX {
            return Err(errno::ENOMEM);
        }
        if addr < USER_MIN {
            return Err(errno::EPERM);
        }
        loop {
            if flags & MAP_FIXED_NOREPLACE == 0 {
                unmap_range(p, addr, end)?;
            }
            match p.mm.lock().vmas.insert(reservation(addr, end)) {
                Err(errno::EEXIST) if flags & MAP_FIXED_NOREPLACE == 0 => {} // another thread was faster
                result => return result.map(|()| addr),
            }
        }
    }
    let mut mm = p.mm.lock();
    let hint = page_down(addr);
    if hint >= USER_MIN && hint.checked_add(len).is_some_and(|end| end <= USER_MAX) && !mm.vmas.overlaps(hint, hint + len) {
        mm.vmas.insert(reservation(hint, hint + len))?;
        return Ok(hint);
    }
    // Large mappings are aligned so that large pages fit.
    let align = if len >= LARGE { LARGE } else { SMALL };
    let base = mm.mmap_base;
    let at = mm
        .vmas
        .find_gap(len, align, Search::TopDown(base))
        .or_else(|| mm.vmas.find_gap(len, SMALL, Search::TopDown(base)))
        .or_else(|| mm.vmas.find_gap(len, SMALL, Search::BottomUp(USER_MIN)))
        .ok_or(errno::ENOMEM)?;
    mm.vmas.insert(reservation(at, at + len))?;
    Ok(at)
}

fn private_file(p: &Process, fd: u64) -> Result<FileRef> {
    let answer = services::by_worker(SERVICE_FILE_GET, &[fd & 0xffff_ffff, 0], &[])?;
    let file = Arc::new(FileHandle { space: p.space, home: p.home, id: answer.status, inode: answer.args[1], device: answer.args[4], name: String::new() });
    if answer.args[3] & FILE_REGULAR == 0 {
        return Err(errno::ENODEV);
    }
    Ok(file)
}

fn populate(start: u64, end: u64, prot: Prot) {
    let error = fault::USER | if prot.contains(Prot::WRITE) { fault::WRITE } else { 0 };
    for addr in (start..end).step_by(SMALL as usize) {
        let there = cpus::current().process.mm.lock().table.find(addr).is_some();
        if !there && fault::user(addr, error).is_err() {
            return;
        }
    }
}

/// munmap.
pub fn munmap(addr: u64, len: u64) -> Result<u64> {
    if len == 0 {
        return Err(errno::EINVAL);
    }
    let (start, end) = range(addr, len, errno::EINVAL)?;
    unmap_range(&cpus::current().process, start, end)?;
    Ok(0)
}

/// Removes mappings and pages of a range, on both sides.
pub fn unmap_range(p: &Process, start: u64, end: u64) -> Result<()> {
    let mut removed = Removed::default();
    {
        let mut mm = p.mm.lock();
        mm.split_edges(start, end)?;
        removed.vmas = mm.vmas.try_remove(start, end)?;
        if removed.vmas.is_empty() {
            return Ok(());
        }
        mm.unmap_pages(start, end, &mut removed)?;
        if !removed.needs_linux() && !removed.vmas.iter().any(is_shared) {
            return Ok(());
        }
        // Until Linux has forgotten the pages nobody may map anything here: a call
        // of another thread would see the old ones.
        for v in &removed.vmas {
            mm.vmas.insert(reservation(v.start, v.end))?;
        }
    }
    let ranges: Vec<(u64, u64)> = removed.vmas.iter().map(|v| (v.start, v.end)).collect();
    finish_removed(p, removed);
    let mut mm = p.mm.lock();
    for (start, end) in ranges {
        drop(mm.vmas.remove(start, end));
    }
    Ok(())
}

fn is_shared(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::SharedLinux { .. })
}

/// The part of an unmapping that may wait for Linux.
pub fn finish_removed(p: &Process, mut removed: Removed) {
    let vmas = core::mem::take(&mut removed.vmas);
    if removed.needs_linux() {
        crate::hold::at("pages-taken");
    }
    removed.finish(p);
    for v in &vmas {
        if let Backing::SharedLinux { watch, .. } = v.backing {
            shared::unmap(p, v.start, v.end, watch);
        }
    }
}

/// mprotect.
pub fn mprotect(addr: u64, len: u64, prot: u64) -> Result<u64> {
    if prot & !(7 | 0x0300_0000) != 0 {
        return Err(errno::EINVAL);
    }
    let (start, end) = range(addr, len, errno::ENOMEM)?;
    if start == end {
        return Ok(0);
    }
    let p = &cpus::current().process;
    let prot = prot_of(prot);
    let shared_parts = shared_parts(p, start, end);
    for (s, e) in shared_parts {
        delegate::linux(SYS_MPROTECT, [s, e - s, u64::from(prot.bits()), 0, 0, 0])?;
    }
    let (result, seen) = {
        let mut mm = p.mm.lock();
        mm.split_edges(start, end)?;
        let result = mm.vmas.protect(start, end, prot);
        // As far as the map was changed, the pages follow it.
        let mut seen: Option<(u64, u64)> = None;
        let vmas: Vec<Vma<FileRef>> = mm.vmas.range(start, end).cloned().collect();
        for v in vmas.iter().filter(|v| v.prot == prot) {
            let (s, e) = (v.start.max(start), v.end.min(end));
            mm.table.update(s, e, &mut |leaf| {
                if leaf.entry & pte::FOREIGN != 0 {
                    // Linux' rights decide: look again at the next access.
                    return if matches!(v.backing, Backing::SharedLinux { .. }) { 0 } else { leaf.entry };
                }
                // Write access is given by the fault, which knows whether the page is shared.
                let gained = pte::WRITE & !leaf.entry;
                let new = leaf.entry & (pte::ADDRESS | pte::LARGE | pte::VALID) | pte_bits(prot) & !gained;
                if leaf.entry & pte::SEEN != 0 {
                    let lost = leaf.entry & pte::WRITE != 0 && !prot.contains(Prot::WRITE) || prot.is_empty();
                    if !lost {
                        return new | pte::SEEN;
                    }
                    let (low, high) = seen.unwrap_or((leaf.addr, leaf.addr));
                    seen = Some((low.min(leaf.addr), high.max(leaf.addr + leaf.size)));
                }
                // A frame stays "seen" until it is unmapped: Linux may hold it.
                new | leaf.entry & pte::SEEN
            });
        }
        mm.flush(start, end);
        (result, seen)
    };
    if let Some((low, high)) = seen {
        zap(p, low, high);
    }
    result.map(|()| 0)
}

fn shared_parts(p: &Process, start: u64, end: u64) -> Vec<(u64, u64)> {
    let mm = p.mm.lock();
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for v in mm.vmas.range(start, end).filter(|v| matches!(v.backing, Backing::SharedLinux { .. })) {
        let (s, e) = (v.start.max(start), v.end.min(end));
        // Neighbours as one: a mapping may be in thousands of pieces, each a call.
        match parts.last_mut() {
            Some(last) if last.1 == s => last.1 = e,
            _ => parts.push((s, e)),
        }
    }
    parts
}

/// brk: the new end, or the old one if that cannot be.
pub fn brk(wanted: u64) -> u64 {
    let p = &cpus::current().process;
    let (start, old) = {
        let mm = p.mm.lock();
        (mm.brk_start, mm.brk)
    };
    if wanted < start || wanted > USER_MAX {
        return old;
    }
    let (from, to) = (page_up(old), page_up(wanted));
    let limit = p.identity.lock().data_soft;
    if wanted - start > limit && wanted > old {
        return old;
    }
    let ok = if to > from {
        to - from <= frames::usage().1 && {
            let mut mm = p.mm.lock();
            mm.vmas.insert(anonymous(from, to, Prot::READ | Prot::WRITE, VmaFlags::HEAP)).is_ok()
        }
    } else {
        to == from || unmap_range(p, to, from).is_ok()
    };
    if ok {
        p.mm.lock().brk = wanted;
        wanted
    } else {
        old
    }
}

/// madvise.
pub fn madvise(addr: u64, len: u64, advice: u64) -> Result<u64> {
    const DONTNEED: u64 = 4;
    const FREE: u64 = 8;
    const REMOVE: u64 = 9;
    const DONTNEED_LOCKED: u64 = 24;
    let (start, end) = range(addr, len, errno::EINVAL)?;
    let known = matches!(advice, 0..=4 | 8..=25 | 100 | 101);
    if !known {
        return Err(errno::EINVAL);
    }
    if start == end {
        return Ok(0);
    }
    let p = &cpus::current().process;
    let covered = p.mm.lock().vmas.is_covered(start, end);
    match advice {
        DONTNEED | DONTNEED_LOCKED | FREE => discard(p, start, end)?,
        REMOVE => {
            for (s, e) in shared_parts(p, start, end) {
                delegate::linux(SYS_MADVISE, [s, e - s, advice, 0, 0, 0])?;
            }
        }
        22 | 23 => {
            if !covered {
                return Err(errno::ENOMEM);
            }
            populate(start, end, if advice == 23 { Prot::WRITE } else { Prot::READ });
        }
        _ => {
            let flag = match advice {
                10 => (VmaFlags::DONTFORK, VmaFlags::empty()),
                11 => (VmaFlags::empty(), VmaFlags::DONTFORK),
                14 => (VmaFlags::HUGE, VmaFlags::NOHUGE),
                15 => (VmaFlags::NOHUGE, VmaFlags::HUGE),
                16 => (VmaFlags::DONTDUMP, VmaFlags::empty()),
                17 => (VmaFlags::empty(), VmaFlags::DONTDUMP),
                18 => (VmaFlags::WIPEONFORK, VmaFlags::empty()),
                19 => (VmaFlags::empty(), VmaFlags::WIPEONFORK),
                _ => (VmaFlags::empty(), VmaFlags::empty()),
            };
            p.mm.lock().vmas.set_flags(start, end, flag.0, flag.1)?;
        }
    }
    if covered { Ok(0) } else { Err(errno::ENOMEM) }
}

/// Drops the pages of a range, mappings stay.
fn discard(p: &Process, start: u64, end: u64) -> Result<()> {
    let mut removed = Removed::default();
    for (s, e) in shared_parts(p, start, end) {
        delegate::linux(SYS_MADVISE, [s, e - s, 4, 0, 0, 0])?;
    }
    p.mm.lock().unmap_pages(start, end, &mut removed)?;
    removed.finish(p);
    Ok(())
}

/// mincore.
pub fn mincore(addr: u64, len: u64, vec: u64) -> Result<u64> {
    let (start, end) = range(addr, len, errno::ENOMEM)?;
    let p = &cpus::current().process;
    if !p.mm.lock().vmas.is_covered(start, end) {
        return Err(errno::ENOMEM);
    }
    for (i, a) in (start..end).step_by(SMALL as usize).enumerate() {
        let there = u8::from(p.mm.lock().table.find(a).is_some());
        usercopy::write(vec + i as u64, &[there]).map_err(|_| errno::EFAULT)?;
    }
    Ok(0)
}

/// mlock, mlock2: everything is resident once touched; bring it in.
pub fn mlock(addr: u64, len: u64, on_fault: bool) -> Result<u64> {
    let start = page_down(addr);
    let (start, end) = range(start, len.checked_add(addr - start).ok_or(errno::EINVAL)?, errno::EINVAL)?;
    let p = &cpus::current().process;
    p.mm.lock().vmas.set_flags(start, end, VmaFlags::LOCKED, VmaFlags::empty())?;
    if !on_fault {
        let parts: Vec<(u64, u64, Prot)> = p.mm.lock().vmas.range(start, end).map(|v| (v.start.max(start), v.end.min(end), v.prot)).collect();
        for (s, e, prot) in parts {
            populate(s, e, prot);
        }
    }
    Ok(0)
}

/// munlock.
pub fn munlock(addr: u64, len: u64) -> Result<u64> {
    let start = page_down(addr);
    let (start, end) = range(start, len.checked_add(addr - start).ok_or(errno::EINVAL)?, errno::EINVAL)?;
    cpus::current().process.mm.lock().vmas.set_flags(start, end, VmaFlags::empty(), VmaFlags::LOCKED)?;
    Ok(0)
}

/// msync: only shared mappings concern Linux; the rest must be mapped.
pub fn msync(addr: u64, len: u64, flags: u64) -> Result<u64> {
    if flags & !7 != 0 || flags & 5 == 5 {
        return Err(errno::EINVAL);
    }
    let (start, end) = range(addr, len, errno::ENOMEM)?;
    let p = &cpus::current().process;
    for (s, e) in shared_parts(p, start, end) {
        delegate::linux(SYS_MSYNC, [s, e - s, flags, 0, 0, 0])?;
    }
    if start == end || p.mm.lock().vmas.is_covered(start, end) { Ok(0) } else { Err(errno::ENOMEM) }
}

/// mremap.
pub fn mremap(old: u64, old_len: u64, new_len: u64, flags: u64, new: u64) -> Result<u64> {
    const MAYMOVE: u64 = 1;
    const FIXED: u64 = 2;
    const DONTUNMAP: u64 = 4;
    if flags & !7 != 0 || flags & (FIXED | DONTUNMAP) != 0 && flags & MAYMOVE == 0 || old % SMALL != 0 || new_len == 0 {
        return Err(errno::EINVAL);
    }
    let old_size = old_len.checked_add(SMALL - 1).ok_or(errno::EINVAL)? & !(SMALL - 1);
    let new_size = new_len.checked_add(SMALL - 1).ok_or(errno::EINVAL)? & !(SMALL - 1);
    if flags & DONTUNMAP != 0 && old_size != new_size || new_size > USER_MAX {
        return Err(errno::EINVAL);
    }
    let p = &cpus::current().process;
    let vma = p.mm.lock().vmas.find(old).cloned().ok_or(errno::EFAULT)?;
    if old_size == 0 {
        return Err(errno::EINVAL); // duplicating a shared mapping: not served
    }
    if old + old_size > vma.end {
        return Err(errno::EFAULT);
    }
    let fixed = flags & FIXED != 0;
    if !fixed && new_size <= old_size && flags & DONTUNMAP == 0 {
        if new_size < old_size {
            unmap_range(p, old + new_size, old + old_size)?;
        }
        return Ok(old);
    }
    let is_shared = matches!(vma.backing, Backing::SharedLinux { .. });
    if !fixed && flags & DONTUNMAP == 0 && old + old_size == vma.end && !is_shared {
        let mut mm = p.mm.lock();
        let end = old.checked_add(new_size).ok_or(errno::ENOMEM)?;
        if end <= USER_MAX && !mm.vmas.overlaps(vma.end, end) {
            let grown = Vma { start: vma.end, end, backing: vma.backing.advanced(vma.end - vma.start), ..vma.clone() };
            mm.vmas.insert(grown)?;
            return Ok(old);
        }
    }
    if flags & MAYMOVE == 0 {
        return Err(errno::ENOMEM);
    }
    let target = if fixed {
        if new % SMALL != 0 || new < USER_MIN || new.checked_add(new_size).is_none_or(|e| e > USER_MAX) || new < old + old_size && old < new + new_size {
            return Err(errno::EINVAL);
        }
        choose(p, new, new_size, MAP_FIXED)?
    } else {
        choose(p, 0, new_size, 0)?
    };
    let moved = if is_shared {
        move_shared(p, &vma, old, old_size, target, new_size)
    } else {
        move_pages(p, &vma, old, old_size, target, new_size, flags & DONTUNMAP != 0).map(|()| target)
    };
    if moved.is_err() {
        unreserve(p, target, target + new_size);
    }
    moved
}

/// Linux moves its mapping; here the old range is forgotten and the new one found anew.
fn move_shared(p: &Process, vma: &Vma<FileRef>, old: u64, old_size: u64, target: u64, new_size: u64) -> Result<u64> {
    delegate::linux(SYS_MREMAP, [old, old_size, new_size, 3, target, 0])?;
    let answer = services::by_worker(hanare_abi::service::SERVICE_WATCH, &[target, target + new_size], &[])?;
    let Backing::SharedLinux { file, offset, watch: old_watch } = vma.backing.advanced(old - vma.start) else { return Err(errno::EINVAL) };
    {
        let mut mm = p.mm.lock();
        let mut removed = Removed::default();
        drop(mm.vmas.remove(old, old + old_size));
        mm.unmap_pages(old, old + old_size, &mut removed)?; // foreign frames: nothing to free
        let backing = Backing::SharedLinux { watch: answer.status as u32, file, offset };
        drop(mm.vmas.remove(target, target + new_size));
        mm.vmas.insert(Vma { start: target, end: target + new_size, backing, ..vma.clone() })?;
    }
    shared::unmap(p, old, old + old_size, old_watch);
    Ok(target)
}

/// Moves private pages: Linux forgets the old place first, then the entries move.
fn move_pages(p: &Process, vma: &Vma<FileRef>, old: u64, old_size: u64, target: u64, new_size: u64, keep: bool) -> Result<()> {
    let size = old_size.min(new_size);
    let seen = {
        let mut mm = p.mm.lock();
        mm.split_edges(old, old + old_size)?;
        let mut leaves = Vec::new();
        let mut seen = false;
        mm.table.update(old, old + size, &mut |l| {
            seen |= l.entry & pte::SEEN != 0;
            leaves.push(l);
            0
        });
        mm.flush(old, old + old_size);
        let moved = Vma { start: target, end: target + new_size, backing: vma.backing.advanced(old - vma.start), ..vma.clone() };
        if !keep {
            drop(mm.vmas.remove(old, old + old_size));
        }
        drop(mm.vmas.remove(target, target + new_size));
        mm.vmas.insert(moved)?;
        for l in leaves {
            let to = target + (l.addr - old);
            let entry = l.entry & !(pte::LARGE);
            if l.size == LARGE && to % LARGE == 0 && mm.map_large(to, l.entry) {
                continue;
            }
            if l.size == LARGE {
                frames::split(l.frame(), 9);
            }
            for i in 0..l.size / SMALL {
                // A table page that cannot be had loses the page's content; the
                // alternative, checked first, is to refuse: memory for tables is
                // far below what the pages themselves took.
                if mm.table.map_small(to + i * SMALL, entry + i * SMALL, &mut frames::Tables).is_err() {
                    return Err(errno::ENOMEM);
                }
            }
        }
        seen
    };
    if seen {
        zap(p, old, old + old_size);
    }
    if old_size > size && !keep {
        let mut removed = Removed::default();
        p.mm.lock().unmap_pages(old + size, old + old_size, &mut removed)?;
        removed.finish(p);
    }
    Ok(())
}
