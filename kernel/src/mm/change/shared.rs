//! Shared file mappings: real Linux mappings in the proxy whose frames we map
//! too, as a secondary MMU (see `docs/architecture.md`).
//!
//! A ring of `io_uring` may (Linux 6.5, and Debian's 6.1) only be mapped where Linux likes:
//! it is left no other place than the one we like.

use super::free_ranges::choose_free;
use super::reserve::{fill_whole, unreserve_after};
use crate::link::caller::Delegates;
use crate::link::{delegate, services};
use crate::mm::pages::access::{FaultInfo, Signal};
use crate::mm::pages::content::FileRef;
use crate::mm::window::caller::Caller;
use crate::mm::window::window_size::WINDOW;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_abi::frame::{CachePolicy, Extent};
use hanare_abi::service::{SERVICE_RESOLVE, SERVICE_UNWATCH, SERVICE_WATCH};
use hanare_core::errno::{self, Result};
use hanare_core::framekind::FrameKind;
use hanare_core::link::{Failure, Outcome};
use hanare_core::mmap::{MAP_32BIT, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_LOCKED, MAP_POPULATE};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;
use linux_raw_sys::general::{__NR_mmap, __NR_munmap};

/// Has the worker map it in Linux at `addr`, watches it, and enters it in the map.
/// The range must be reserved here. `back` is there again if it fails.
pub fn map(
    p: &Caller<'_>,
    addr: u64,
    len: u64,
    prot: Prot,
    flags: u64,
    fd: u64,
    offset: u64,
    vma_flags: VmaFlags,
    back: Option<&Vma<FileRef>>,
) -> Result<u64> {
    // What is locked is for the LWK to say: Linux would not know of munlock.
    let linux_flags = flags & !(MAP_FIXED_NOREPLACE | MAP_LOCKED) | MAP_FIXED;
    let mapped = delegate::linux(
        p.thread,
        __NR_mmap,
        [addr, len, u64::from(prot.bits()), linux_flags, fd, offset],
    );
    let mut addr = addr;
    if let Err(e) = mapped {
        give_up(p, PageRange::of(addr, addr + len), back); // Linux unmaps what is there before it asks the file
        // Not at an address that the caller chose: is it Linux' choice that is wanted?
        let free = e == errno::EINVAL && flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0;
        addr = if free {
            map_in_hole(p, len, prot, flags, fd, offset).map_err(|_| e)?
        } else {
            return Err(e);
        };
    }
    let vma: Vma<FileRef> = Vma {
        start: addr,
        end: addr + len,
        prot,
        max_prot: Prot::all(), // Linux decides: mprotect is delegated too
        flags: vma_flags,
        backing: Backing::SharedLinux { watch: 0, file: None, offset },
    };
    adopt(p, vma, back)?;
    Ok(addr)
}

/// A mapping that Linux refuses at a given address (a ring of `io_uring`): with
/// `MAP_32BIT` Linux looks in two gigabytes only, which the device covers but for
/// the hole made here.
///
/// # Errors
/// Linux' own, or `EINVAL` where it found another place all the same.
fn map_in_hole(
    p: &Caller<'_>,
    len: u64,
    prot: Prot,
    flags: u64,
    fd: u64,
    offset: u64,
) -> Result<u64> {
    let at = choose_free(p, 0, len, MAP_32BIT, PageRange::NONE)?;
    let asked = flags & !MAP_FIXED | MAP_32BIT;
    let mapped = delegate::linux(p.thread, __NR_munmap, [at, len, 0, 0, 0, 0]).and_then(|_| {
        delegate::linux(p.thread, __NR_mmap, [0, len, u64::from(prot.bits()), asked, fd, offset])
    });
    let failed = match mapped {
        Ok(got) if got == at => return Ok(at),
        Ok(got) => {
            let _ = delegate::linux(p.thread, __NR_munmap, [got, len, 0, 0, 0, 0]);
            errno::EINVAL
        }
        Err(e) => e,
    };
    give_up(p, PageRange::of(at, at + len), None);
    Err(failed)
}

/// Has the worker make such a mapping anywhere, and remove it: one that Linux refuses must
/// leave what is at the place it was meant for.
pub fn try_elsewhere(
    me: &dyn Delegates,
    len: u64,
    prot: Prot,
    flags: u64,
    fd: u64,
    offset: u64,
) -> Result<()> {
    let flags = flags & !(MAP_FIXED | MAP_LOCKED | MAP_POPULATE);
    match delegate::linux(me, __NR_mmap, [0, len, u64::from(prot.bits()), flags, fd, offset]) {
        Ok(at) => delegate::linux(me, __NR_munmap, [at, len, 0, 0, 0, 0]).map(|_| ()),
        Err(errno::ENOMEM) => Ok(()), // the proxy has little room of its own
        Err(e) => Err(e),
    }
}

/// Enters a mapping that Linux has made in the proxy (with no watch yet) where the
/// range is reserved; if that cannot be, mapping and reservation go again, and `back` is there.
pub fn adopt(p: &Caller<'_>, mut vma: Vma<FileRef>, back: Option<&Vma<FileRef>>) -> Result<()> {
    let range = vma.range();
    let id = match services::by_worker(p.thread, SERVICE_WATCH, &[vma.start, vma.end], &[]) {
        Ok(a) => a.status as u32,
        Err(e) => {
            give_up(p, range, back);
            return Err(e.into());
        }
    };
    if let Backing::SharedLinux { watch, .. } = &mut vma.backing {
        *watch = id;
    }
    p.memory.end_pinnable(range);
    let inserted = fill_whole(p.memory, &mut p.memory.mm.lock(), p.slot, vma);
    if inserted.is_err() {
        give_up(p, range, back);
        unwatch(p, id);
    }
    inserted
}

/// Gives a range back to the device's mapping in the proxy; ends the watch
/// if no mapping uses it any more. False: Linux did not.
pub fn unmap(p: &Caller<'_>, range: PageRange, watch: u32) -> bool {
    let is_done = remap(p, range);
    unwatch(p, watch);
    is_done
}

/// Ends a watch that no mapping uses any more.
pub fn unwatch(p: &Caller<'_>, watch: u32) {
    let used = p
        .memory
        .mm
        .lock()
        .mappings()
        .iter()
        .any(|v| matches!(v.backing, Backing::SharedLinux { watch: w, .. } if w == watch));
    if !used && !p.is_killed() {
        let _ = services::by_worker(p.thread, SERVICE_UNWATCH, &[u64::from(watch)], &[]);
    }
}

/// Gives up what the caller has reserved, where Linux may have mapped something already, for
/// `back`.
pub fn give_up(p: &Caller<'_>, range: PageRange, back: Option<&Vma<FileRef>>) {
    let is_done = remap(p, range);
    unreserve_after(p, range, is_done, back);
}

/// Has the device mapped again over a range. False: it is not, though there is a proxy.
pub fn remap(p: &Caller<'_>, range: PageRange) -> bool {
    let (start, end) = (range.start(), range.end());
    let is_done = p.is_killed()
        || delegate::ask(p.thread, Control::Remap { start, end }) == Outcome::Done(0)
        || p.is_killed();
    if is_done {
        p.memory.end_pinnable(range);
    }
    is_done
}

/// Maps the frames around the page of a fault, unless Linux changed something since `seen`.
pub fn resolve(p: &Caller<'_>, fault: &FaultInfo, seen: u64) -> core::result::Result<(), Signal> {
    let (page, write) = (fault.page(), fault.writes());
    let pages = {
        let mm = p.memory.mm.lock();
        let Some(vma) = mm.mappings().find(page) else { return Ok(()) };
        let most = if write { p.memory.shared_writes.window(page) } else { WINDOW };
        ((vma.end - page) / SMALL).min(most)
    };
    let ask = if fault.may_come_again {
        services::by_worker_unless_signalled
    } else {
        services::by_worker
    };
    let answer = match ask(p.thread, SERVICE_RESOLVE, &[page, pages, u64::from(write)], &[]) {
        Ok(a) => a,
        // Linux has changed something, or a signal came first: the thread faults again.
        Err(Failure::Refused(errno::EAGAIN) | Failure::NotStarted) => return Ok(()),
        Err(Failure::Refused(errno::EINTR)) if !p.must_end() => return Ok(()),
        Err(Failure::Refused(errno::ENOMEM)) => return Err(Signal::NoMemory),
        // One that has to end would ask for ever.
        Err(Failure::Refused(_) | Failure::ThreadEnding | Failure::PeerGone) => {
            return Err(Signal::Bus);
        }
    };
    let mut mm = p.memory.mm.lock();
    if p.memory.invalidations.load(Ordering::Acquire) != seen {
        return Ok(()); // look again
    }
    let mut at = page;
    for extent in answer.extents.iter().map(|&word| Extent::of_word(word)) {
        let kind = match extent.cache() {
            // A driver may have its memory, of Linux' page cache, accessed another way, too.
            Some(CachePolicy::WriteBack) if !extent.is_device() => FrameKind::PageCache,
            Some(policy) => FrameKind::Device(policy),
            None => return Err(Signal::Bus),
        };
        for frame in extent.frames().map(PhysAddr::of_frame) {
            let accessible = |v: &&Vma<FileRef>| {
                matches!(v.backing, Backing::SharedLinux { .. })
                    && !v.prot.is_empty()
                    && !v.flags.contains(VmaFlags::MOVING)
            };
            let Some(vma) = mm.mappings().find(at).filter(accessible) else { return Ok(()) };
            // What may only be written can be read; it is not to be written unseen.
            let rights = match vma.prot - Prot::WRITE {
                _ if write => vma.prot,
                none if none.is_empty() => Prot::READ,
                rights => rights,
            };
            mm.map_linuxs(at, (frame, kind), rights, write).map_err(|()| Signal::NoMemory)?;
            at += SMALL;
        }
    }
    if write {
        p.memory.shared_writes.next.store(at, Ordering::Relaxed);
    }
    Ok(())
}
