//! mlock and its relatives, mincore, and bringing pages in ahead of time.
//!
//! Memory of the LWK is never paged out: to lock a page is to bring it in, and to
//! keep `madvise` from throwing it away.

use crate::base::heap;
use crate::base::user::{UserAddr, put};
use crate::calls::context::handlers;
use crate::calls::rlimits::LockLimit;
use crate::link::{delegate, services};
use crate::mm::change::reserve::lock_settled;
use crate::mm::fault::thread as fault;
use crate::mm::map::kept::holds_accesses;
use crate::mm::pages::access;
use crate::mm::pages::entry::is_used;
use crate::mm::{AddressSpace, FileRef};
use crate::process::thread::Thread;
use crate::sched::cpus;
use hanare_abi::layout::USER_MAX;
use hanare_abi::service::{EXTENTS_MAX, SERVICE_CACHED};
use hanare_core::addr::{page_down, page_up};
use hanare_core::errno::{self, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::paging::SMALL;
use hanare_hal::pte;
use linux_raw_sys::general::__NR_mincore;

handlers! { call:
    __NR_mincore => mincore(call.thread, call.args[0], call.args[1], call.args[2]),
    __NR_mlock => mlock(call.thread, call.args[0], call.args[1], 0),
    __NR_mlock2 => mlock(call.thread, call.args[0], call.args[1], call.args[2]),
    __NR_munlock => munlock(call.thread, call.args[0], call.args[1]),
    __NR_mlockall => mlockall(call.thread, call.args[0]),
    __NR_munlockall => munlockall(call.thread),
}

const MCL_CURRENT: u64 = 1;
const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;

const BOTH: VmaFlags = VmaFlags::LOCKED.union(VmaFlags::LOCK_ON_FAULT);

/// Brings every page of a mapped range in, for access with `prot`.
///
/// # Errors
/// What an access there would meet.
pub fn populate(
    me: &Thread,
    range: PageRange,
    prot: Prot,
) -> core::result::Result<(), access::Signal> {
    let p = &me.process;
    let write = prot.contains(Prot::WRITE);
    let error = access::USER | if write { access::WRITE } else { 0 };
    let needed = if write { pte::ACCESSED | pte::WRITE } else { pte::ACCESSED };
    let (mut at, end) = (range.start(), range.end());
    while at < end && !me.must_end() {
        cpus::serve_all(); // what is asked of this CPU does not wait for all the pages
        let leaf = p.memory().mm.lock().leaf(at).filter(|l| l.entry.only(needed) == needed);
        match leaf {
            Some(l) => at = l.addr + l.size,
            None => fault::user(me, UserAddr::of(at), error)?,
        }
    }
    Ok(())
}

/// As [`populate`] over whatever is mapped in a range, with each mapping's own
/// rights, as far as it goes (`MAP_POPULATE`, `MAP_LOCKED`).
pub fn populate_mapped(me: &Thread, range: PageRange) -> core::result::Result<(), access::Signal> {
    let p = &me.process;
    let (mut at, end) = (range.start(), range.end());
    // The last mapping may go on behind the range.
    while at < end {
        let next = p
            .memory()
            .mm
            .lock()
            .mappings()
            .find_next(at)
            .filter(|v| v.start < end)
            .map(|v| (v.start.max(at), v.end.min(end), v.prot, holds_accesses(v)));
        match next {
            None => break,
            Some((from, to, _, true)) => {
                drop(
                    lock_settled(&me.caller(), PageRange::of(from, to))
                        .map_err(|_| access::Signal::Bus)?,
                );
            }
            Some((.., prot, _)) if prot.is_empty() => return Err(access::Signal::NotAllowed),
            Some((from, to, prot, _)) => {
                populate(me, PageRange::of(from, to), prot)?;
                at = to;
            }
        }
    }
    Ok(())
}

/// Bytes of whole pages, as Linux rounds them (PAGE_ALIGN): close below 2^64 they are none.
pub const fn whole_pages(len: u64) -> u64 {
    len.wrapping_add(SMALL - 1) & !(SMALL - 1)
}

/// Page range of a call, as Linux rounds it: a sum that wraps to nothing is nothing.
fn span(addr: u64, len: u64) -> Result<PageRange> {
    let start = page_down(addr);
    let len = whole_pages(len.wrapping_add(addr - start));
    let end = start.checked_add(len).ok_or(errno::EINVAL)?;
    Ok(PageRange::of(start, end))
}

/// Sets or clears the lock on a range, up to the first hole.
fn apply(mm: &mut AddressSpace, range: PageRange, add: VmaFlags) -> Result<()> {
    mm.may_part(range)?;
    mm.cursor(range).update(|v| {
        // As Linux: nothing is to be locked of what the kernel maps and of MAP_HUGETLB.
        if !matches!(v.backing, Backing::Special(_)) && !v.flags.contains(VmaFlags::HUGETLB) {
            v.flags = (v.flags - BOTH) | add;
        }
        Ok(())
    })
}

/// mlock, mlock2.
pub fn mlock(me: &Thread, addr: u64, len: u64, flags: u64) -> Result<u64> {
    if flags & !1 != 0 {
        return Err(errno::EINVAL);
    }
    let limit = LockLimit::ask(me)?;
    let range = span(addr, len)?;
    let on_fault = flags != 0;
    {
        let mut mm = lock_settled(&me.caller(), range)?;
        let there: u64 = mm
            .mappings()
            .parts(range)
            .filter(|(v, _)| v.flags.contains(VmaFlags::LOCKED))
            .map(|(_, part)| part.len())
            .sum();
        if !limit.allows(range.len().saturating_add(mm.locked_bytes() - there)) {
            return Err(errno::ENOMEM);
        }
        apply(&mut mm, range, if on_fault { BOTH } else { VmaFlags::LOCKED })?;
    }
    if on_fault {
        return Ok(0);
    }
    match populate_mapped(me, range) {
        Ok(()) => Ok(0),
        Err(access::Signal::NoMemory) => Err(errno::EAGAIN),
        Err(_) => Err(errno::ENOMEM),
    }
}

/// munlock.
pub fn munlock(me: &Thread, addr: u64, len: u64) -> Result<u64> {
    let range = span(addr, len)?;
    apply(&mut *lock_settled(&me.caller(), range)?, range, VmaFlags::empty())?;
    Ok(0)
}

/// mlockall.
pub fn mlockall(me: &Thread, flags: u64) -> Result<u64> {
    if flags == 0 || flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0 || flags == MCL_ONFAULT
    {
        return Err(errno::EINVAL);
    }
    let limit = LockLimit::ask(me)?;
    let p = &me.process;
    let kind = if flags & MCL_ONFAULT != 0 { BOTH } else { VmaFlags::LOCKED };
    let mut mm = p.memory().mm.lock();
    let current = flags & MCL_CURRENT != 0;
    if current && !limit.allows(mm.mappings().total_bytes()) {
        return Err(errno::ENOMEM);
    }
    mm.set_lock_future(if flags & MCL_FUTURE != 0 { kind } else { VmaFlags::empty() });
    if !current {
        return Ok(0);
    }
    lock_all(&mut mm, kind);
    drop(mm);
    if flags & MCL_ONFAULT != 0 {
        return Ok(0);
    }
    let mut at = 0;
    loop {
        // A lock taken in the condition would be held in the loop.
        let next = p.memory().mm.lock().mappings().find_next(at).map(|v| (v.start.max(at), v.end));
        let Some((start, end)) = next else { break };
        let _ = populate_mapped(me, PageRange::of(start, end)); // as Linux: as far as it goes
        at = end;
    }
    Ok(0)
}

/// munlockall.
pub fn munlockall(me: &Thread) -> Result<u64> {
    let mut mm = me.process.memory().mm.lock();
    mm.set_lock_future(VmaFlags::empty());
    lock_all(&mut mm, VmaFlags::empty());
    Ok(0)
}

fn lock_all(mm: &mut AddressSpace, add: VmaFlags) {
    let mut at = 0;
    while let Some((start, end, flags)) =
        mm.mappings().find_next(at).map(|v| (v.start.max(at), v.end, v.flags))
    {
        if !flags.contains(VmaFlags::FIXED_KERNEL) {
            let _ = apply(mm, PageRange::of(start, end), add);
        }
        at = end;
    }
}

/// Flags that a new mapping of `len` bytes gets because of `MAP_LOCKED` or
/// `mlockall(MCL_FUTURE)`.
pub fn future(me: &Thread, len: u64, map_locked: bool) -> Result<VmaFlags> {
    let p = &me.process;
    let default = p.memory().mm.lock().lock_future();
    if !map_locked && default.is_empty() {
        return Ok(VmaFlags::empty());
    }
    let limit = match LockLimit::ask(me) {
        Err(errno::EPERM) if !map_locked => return Err(errno::EAGAIN),
        other => other?,
    };
    if !limit.allows(p.memory().mm.lock().locked_bytes().saturating_add(len)) {
        return Err(errno::EAGAIN);
    }
    Ok(if map_locked { VmaFlags::LOCKED } else { default })
}

/// mincore.
pub fn mincore(me: &Thread, addr: u64, len: u64, vec: u64) -> Result<u64> {
    /// Pages looked at with the lock held, or asked for at once.
    const CHUNK: u64 = EXTENTS_MAX as u64 * 64;
    if !addr.is_multiple_of(SMALL) {
        return Err(errno::EINVAL);
    }
    let end =
        addr.checked_add(len).filter(|&e| e <= TASK_SIZE).map(page_up).ok_or(errno::ENOMEM)?;
    let pages = (end - addr) / SMALL;
    if vec.checked_add(pages).is_none_or(|e| e > TASK_SIZE) {
        return Err(errno::EFAULT);
    }
    let p = &me.caller();
    let mut bytes = heap::zeroed(pages.min(CHUNK) as usize).map_err(|_| errno::EAGAIN)?;
    let mut at = addr;
    while at < end {
        let (vma, stop) = {
            let mut mm = lock_settled(p, PageRange::page(at))?;
            let vma = mm.mappings().find(at).cloned().ok_or(errno::ENOMEM)?;
            let stop = vma.end.min(end).min(at + CHUNK * SMALL);
            let is_own = matches!(vma.backing, Backing::Anonymous);
            resident(&mut mm, PageRange::of(at, stop), is_own, &mut bytes);
            (vma, stop)
        };
        let n = ((stop - at) / SMALL) as usize;
        let to = vec + (at - addr) / SMALL;
        if is_linux(&vma) {
            delegate::linux(me, __NR_mincore, [at, stop - at, to, 0, 0, 0])?;
        } else {
            add_cached(me, &vma, at, &mut bytes[..n])?;
            put(UserAddr::of(to), &bytes[..n])?;
        }
        at = stop;
    }
    Ok(0)
}

/// Adds to the answer of mincore(2) the pages of a private file mapping that Linux has in its page
/// cache.
fn add_cached(me: &Thread, vma: &Vma<FileRef>, at: u64, bytes: &mut [u8]) -> Result<()> {
    let (Backing::PrivateFile { file, .. }, Some(offset)) = (&vma.backing, vma.file_offset(at))
    else {
        return Ok(());
    };
    if bytes.iter().all(|&b| b != 0) {
        return Ok(());
    }
    let answer =
        services::by_worker(me, SERVICE_CACHED, &[file.id, offset, bytes.len() as u64], &[])?;
    for (byte, i) in bytes.iter_mut().zip(0..) {
        *byte |= answer.extents.get(i / 64).map_or(0, |word| (word >> (i % 64)) as u8 & 1);
    }
    Ok(())
}

fn is_linux(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::SharedLinux { .. })
}

/// One byte a page: whether it is there. Of memory of the process's own (`is_own`) pages count that
/// a CPU or Linux has accessed. More may have been brought in ahead, and Linux, which has no such,
/// shows none.
fn resident(mm: &mut AddressSpace, range: PageRange, is_own: bool, bytes: &mut [u8]) {
    let (start, end) = (range.start(), range.end());
    bytes.fill(0);
    let first = mm.leaf(start).map_or(start, |l| l.addr);
    mm.pages().each(PageRange::of(first, end.min(USER_MAX)), |l| {
        let (from, to) = (l.addr.max(start), (l.addr + l.size).min(end));
        let is_there = !is_own || is_used(l.entry);
        bytes[((from - start) / SMALL) as usize..((to - start) / SMALL) as usize]
            .fill(u8::from(is_there));
    });
}
