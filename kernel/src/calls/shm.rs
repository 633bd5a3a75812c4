//! System V shared memory: `shmat` and `shmdt`.
//!
//! A segment is attached in the proxy, at the same address, by Linux' own `shmat`,
//! so its attach count, its permissions and its removal are right without any
//! bookkeeping; here it is a shared mapping like another.

use crate::calls::rlimits;
use crate::link::delegate;
use crate::mm::place::{MAP_FIXED, MAP_FIXED_NOREPLACE, choose};
use crate::mm::unmap::unmap_range;
use crate::mm::{Caller, FileRef, anonymous, huge, shared};
use crate::process::thread::Thread;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::addr::page_up;
use hanare_core::coherence::NOTHING;
use hanare_core::errno::{self, Result};
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_shmat, __NR_shmctl};

const IPC_STAT: u64 = 2;
const SHM_RDONLY: u64 = 0o10000;
const SHM_RND: u64 = 0o20000;
const SHM_REMAP: u64 = 0o40000;
const SHM_EXEC: u64 = 0o100000;
/// In `shm_perm.mode`: the segment has large pages.
const SHM_HUGETLB: u32 = 0o4000;

/// Bytes of a segment, and whether it has large pages.
fn segment(p: &Caller<'_>, id: u64) -> Result<(u64, bool)> {
    let scratch = p.write_scratch(p.slot, &[])?;
    delegate::linux(__NR_shmctl, [id, IPC_STAT, scratch, 0, 0, 0])?;
    // struct shmid64_ds: ipc64_perm (48 bytes, mode at 20), shm_segsz.
    let (mode, size): (u32, u64) = (p.control(scratch + 20), p.control(scratch + 48));
    Ok((size, mode & SHM_HUGETLB != 0))
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
    let (size, large) = segment(p, id)?;
    let len = page_up(size);
    let mut prot = if flags & SHM_RDONLY != 0 { Prot::READ } else { Prot::READ | Prot::WRITE };
    prot.set(Prot::EXEC, flags & SHM_EXEC != 0);
    if !rlimits::of_memory(me).allow(&p.mm.lock(), len, false) {
        return Err(errno::ENOMEM);
    }
    let at = place(p, addr, len, large, flags & SHM_REMAP != 0)?;
    let made = delegate::linux(__NR_shmat, [id, at, flags & !SHM_RND | SHM_REMAP, 0, 0, 0]);
    if let Err(e) = made {
        shared::give_up(p, at, at + len, None); // it may be unmapped already
        return Err(e);
    }
    let backing = Backing::SharedLinux { watch: 0, file: None, offset: 0 };
    // With all rights to be had: Linux decides, mprotect is delegated too.
    let segment = anonymous(at, at + len, prot, VmaFlags::SHARED | VmaFlags::SYSV);
    shared::adopt(p, Vma { backing, ..segment }, None)?;
    Ok(at)
}

/// Picks the address and reserves it.
fn place(p: &Caller<'_>, addr: u64, len: u64, large: bool, replace: bool) -> Result<u64> {
    if addr == 0 {
        return choose(p, 0, len, if large { huge::MAP_HUGETLB } else { 0 }, NOTHING);
    }
    if addr < USER_MIN || addr.checked_add(len).is_none_or(|end| end > USER_MAX) {
        return Err(errno::EINVAL);
    }
    let flags = if replace { MAP_FIXED } else { MAP_FIXED_NOREPLACE };
    match choose(p, addr, len, flags, NOTHING) {
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
            let mm = p.mm.lock();
            mm.vmas.range(addr, USER_MAX).find(|v| belongs(v, addr)).map(|v| (v.start, v.end))
        };
        let Some((start, end)) = part else { break };
        // The device takes its place in the proxy, which detaches it there.
        unmap_range(p, start, end)?;
        any = true;
    }
    if any { Ok(0) } else { Err(errno::EINVAL) }
}

fn belongs(v: &Vma<FileRef>, addr: u64) -> bool {
    let Backing::SharedLinux { offset, .. } = v.backing else { return false };
    v.flags.contains(VmaFlags::SYSV) && v.start.wrapping_sub(offset) == addr
}
