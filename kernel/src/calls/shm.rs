//! System V shared memory: `shmat` and `shmdt`.
//!
//! A segment is attached in the proxy, at the same address, by Linux' own `shmat`,
//! so its attach count, its permissions and its removal are right without any
//! bookkeeping; here it is a shared mapping like another.

use crate::calls::context::handlers;
use crate::calls::rlimits;
use crate::link::delegate;
use crate::mm::change::placement::choose;
use crate::mm::change::reserve::unreserve;
use crate::mm::change::shared;
use crate::mm::change::unmap::unmap_range;
use crate::mm::{Caller, FileRef, anonymous};
use crate::process::thread::Thread;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::errno::{self, Result};
use hanare_core::mmap::{self, MAP_FIXED, MAP_FIXED_NOREPLACE};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::{LARGE, SMALL};
use linux_raw_sys::general::{__NR_mprotect, __NR_munmap, __NR_shmat, __NR_shmctl};

handlers! { call:
    __NR_shmat => shmat(call.thread, call.args[0], call.args[1], call.args[2]),
    __NR_shmdt => shmdt(call.thread, call.args[0]),
}

const IPC_STAT: u64 = 2;
const SHM_RDONLY: u64 = 0o10000;
const SHM_RND: u64 = 0o20000;
const SHM_REMAP: u64 = 0o40000;
const SHM_EXEC: u64 = 0o100000;
/// Bytes of a segment.
fn size_of(p: &Caller<'_>, id: u64) -> Result<u64> {
    let scratch = p.memory.write_scratch(p.slot, &[])?;
    delegate::linux(p.thread, __NR_shmctl, [id, IPC_STAT, scratch, 0, 0, 0])?;
    // struct shmid64_ds: ipc64_perm (48 bytes), shm_segsz.
    Ok(p.memory.control(scratch + 48))
}

/// shmat.
pub fn shmat(me: &Thread, id: u64, addr: u64, flags: u64) -> Result<u64> {
    let p = &me.caller();
    if (id as i32) < 0 {
        return Err(errno::EINVAL);
    }
    let mut addr = addr;
    if addr != 0 && !addr.is_multiple_of(SMALL) {
        // Rounded down to nothing is an address only where nothing may be replaced.
        if flags & SHM_RND == 0 || addr < SMALL && flags & SHM_REMAP != 0 {
            return Err(errno::EINVAL);
        }
        addr &= !(SMALL - 1);
    } else if addr == 0 && flags & SHM_REMAP != 0 {
        return Err(errno::EINVAL);
    }
    let size = size_of(p, id)?;
    let mut prot = if flags & SHM_RDONLY != 0 { Prot::READ } else { Prot::READ | Prot::WRITE };
    prot.set(Prot::EXEC, flags & SHM_EXEC != 0);
    let attach = |addr, is_large| attach(me, id, addr, flags, size, prot, is_large);
    if addr == 0 {
        return match attach(0, false) {
            // Linux does not say of what pages a segment is, but has large ones at no such address.
            Err(errno::EINVAL) => attach(0, true),
            attached => attached,
        };
    }
    if flags & SHM_REMAP == 0 && !addr.is_multiple_of(LARGE) {
        return attach(addr, false);
    }
    let (other, is_large) = attach_elsewhere(me, id, flags)?;
    let attached = if is_large && !addr.is_multiple_of(LARGE) {
        Err(errno::EINVAL)
    } else {
        attach(addr, is_large)
    };
    if let Some(at) = other {
        // As shmdt, and a filter of the program's lets a worker unmap.
        let len = mmap::round(size, if is_large { LARGE } else { SMALL })?;
        let _ = delegate::linux(me, __NR_munmap, [at, len, 0, 0, 0, 0]);
    }
    attached
}

/// Has the worker attach a segment anywhere: where, and whether it has large pages. An attachment
/// that Linux refuses must leave what is at the place it was meant for. One that is removed already
/// stays, though what is there may be its last attachment.
fn attach_elsewhere(me: &Thread, id: u64, flags: u64) -> Result<(Option<u64>, bool)> {
    match delegate::linux(me, __NR_shmat, [id, 0, flags & !(SHM_REMAP | SHM_RND), 0, 0, 0]) {
        Ok(at) => {
            // A part of a large page cannot have rights of its own.
            let divided = || delegate::linux(me, __NR_mprotect, [at, SMALL, 0, 0, 0, 0]);
            Ok((Some(at), at.is_multiple_of(LARGE) && divided() == Err(errno::EINVAL)))
        }
        Err(errno::ENOMEM) => Ok((None, false)), // the proxy has little room of its own
        Err(e) => Err(e),
    }
}

/// Attaches a segment of `size` bytes and of such pages.
fn attach(
    me: &Thread,
    id: u64,
    addr: u64,
    flags: u64,
    size: u64,
    prot: Prot,
    is_large: bool,
) -> Result<u64> {
    let p = &me.caller();
    // Linux maps whole pages.
    let (page, kind) = match is_large {
        true => (LARGE, VmaFlags::HUGETLB),
        false => (SMALL, VmaFlags::empty()),
    };
    let len = mmap::round(size, page)?;
    if !rlimits::of_memory(me).allow(&p.memory.mm.lock(), len, false) {
        return Err(errno::ENOMEM);
    }
    let at = place(p, addr, len, is_large, flags & SHM_REMAP != 0)?;
    if !p.memory.mm.lock().mappings().may_map(prot) {
        shared::give_up(p, PageRange::of(at, at + len), None);
        return Err(errno::EACCES);
    }
    let made = delegate::linux(me, __NR_shmat, [id, at, flags & !SHM_RND | SHM_REMAP, 0, 0, 0]);
    if let Err(e) = made {
        shared::give_up(p, PageRange::of(at, at + len), None); // it may be unmapped already
        return Err(e);
    }
    let backing = Backing::SharedLinux { watch: 0, file: None, offset: 0 };
    // With all rights to be had: Linux decides, mprotect is delegated too.
    let segment =
        anonymous(PageRange::of(at, at + len), prot, VmaFlags::SHARED | VmaFlags::SYSV | kind);
    shared::adopt(p, Vma { backing, ..segment }, None)?;
    Ok(at)
}

/// Picks the address and reserves it.
fn place(p: &Caller<'_>, addr: u64, len: u64, is_large: bool, replace: bool) -> Result<u64> {
    if addr == 0 && is_large {
        return choose(p, 0, len, mmap::MAP_HUGETLB, PageRange::NONE);
    }
    if addr == 0 {
        // Not where a large page could begin.
        let room = len.checked_add(SMALL).ok_or(errno::ENOMEM)?; // a proxy says how large a segment is
        let at = choose(p, 0, room, 0, PageRange::NONE)?;
        return Ok(if at.is_multiple_of(LARGE) {
            unreserve(p, PageRange::page(at));
            at + SMALL
        } else {
            unreserve(p, PageRange::page(at + len));
            at
        });
    }
    if addr < USER_MIN || addr.checked_add(len).is_none_or(|end| end > USER_MAX) {
        return Err(errno::EINVAL);
    }
    let flags = if replace { MAP_FIXED } else { MAP_FIXED_NOREPLACE };
    match choose(p, addr, len, flags, PageRange::NONE) {
        Err(errno::EEXIST) => Err(errno::EINVAL),
        other => other,
    }
}

/// shmdt: whatever is left of the segment that was attached at `addr`.
pub fn shmdt(me: &Thread, addr: u64) -> Result<u64> {
    if !addr.is_multiple_of(SMALL) {
        return Err(errno::EINVAL);
    }
    let p = &me.caller();
    let mut any = false;
    loop {
        let part = {
            let mm = p.memory.mm.lock();
            let above = PageRange::of_user(addr, USER_MAX);
            mm.mappings().range(above).find(|v| belongs(v, addr)).map(Vma::range)
        };
        let Some(part) = part else { break };
        // The device takes its place in the proxy, which detaches it there.
        unmap_range(p, part)?;
        any = true;
    }
    if any { Ok(0) } else { Err(errno::EINVAL) }
}

fn belongs(v: &Vma<FileRef>, addr: u64) -> bool {
    let Backing::SharedLinux { offset, .. } = v.backing else { return false };
    v.flags.contains(VmaFlags::SYSV) && v.start.wrapping_sub(offset) == addr
}
