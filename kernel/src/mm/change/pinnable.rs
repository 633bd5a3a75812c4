//! Memory that devices may keep: Linux pins pages of a range from now on (`docs/devices.md`).

use super::reserve::{lock_settled, mark, unmark};
use super::shared;
use crate::base::lists;
use crate::link::services;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::kept_for;
use crate::mm::pages::content::FileRef;
use crate::mm::window::caller::Caller;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::service::{PINNABLE_ALWAYS, PINNABLE_IF_REFUSED, SERVICE_PINNABLE};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma};

/// Whether devices may come to keep pages of a mapping: others are Linux' own, or are given to it
/// for reading only.
fn can_be(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. })
        && v.prot.contains(Prot::READ | Prot::WRITE)
        && kept_for(v).is_none()
}

/// Whether an address is one of private memory: of no device's, and no file that may be slow.
pub fn is_private(p: &Caller<'_>, address: u64) -> bool {
    let mm = p.memory.mm.lock();
    mm.mappings().find(address).is_some_and(can_be)
}

/// Whether the program may read all of a range, and write to it if `writes`.
pub fn is_allowed(p: &Caller<'_>, range: PageRange, writes: bool) -> bool {
    let mm = p.memory.mm.lock();
    let mappings = mm.mappings();
    let allows = |v: &Vma<FileRef>| {
        if writes { v.prot.contains(Prot::WRITE) } else { !v.prot.is_empty() }
    };
    mappings.is_covered(range) && mappings.range(range).all(allows)
}

/// Ranges of such mappings that are `wanted` and not pinnable yet, neighbours as one.
///
/// # Errors
/// `ENOMEM`
pub fn others(p: &Caller<'_>, wanted: impl Fn(PageRange) -> bool) -> Result<Vec<PageRange>> {
    let mm = p.memory.mm.lock();
    let mut found: Vec<PageRange> = Vec::new();
    for range in mm.mappings().iter().filter(|v| can_be(v)).map(Vma::range) {
        if !wanted(range) || mm.pinnable.covers(range) {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end() == range.start() => *last = last.join(range),
            _ => lists::push(&mut found, range)?,
        }
    }
    Ok(found)
}

/// Has Linux map a range of such mappings so that it pins pages there. Others who change the range
/// meanwhile, or touch it, wait. `device`: the descriptor for which that is, if it has to be a
/// device's; `is_refused`: Linux has refused to pin pages there.
///
/// # Errors
/// `EFAULT`: something else is mapped there by now. `EOPNOTSUPP`, `ENOTTY` as `SERVICE_PINNABLE`
/// says; `ENOMEM`.
pub fn make(p: &Caller<'_>, range: PageRange, device: Option<u32>, is_refused: bool) -> Result<()> {
    {
        let mut mm = lock_settled(p, range)?;
        if !mm.mappings().is_covered(range) || !mm.mappings().range(range).all(can_be) {
            return Err(errno::EFAULT);
        }
        mark(p, &mut mm, range)?;
    }
    let device = device.map_or(0, |descriptor| u64::from(descriptor) + 1);
    let when = if is_refused { PINNABLE_IF_REFUSED } else { PINNABLE_ALWAYS };
    let args = [range.start(), range.end(), device, when];
    let made = services::by_worker(p.thread, SERVICE_PINNABLE, &args, &[]).map_err(Errno::from);
    let noted = made.and_then(|_| {
        p.memory.has_pinnable.store(true, Ordering::Relaxed);
        p.memory.mm.lock().pinnable.add(range)
    });
    // Linux may have unmapped what was there before it said no.
    if !matches!(noted, Ok(()) | Err(errno::EOPNOTSUPP | errno::ENOTTY)) {
        shared::remap(p, range);
    }
    unmark(p, range);
    noted
}

/// Has Linux map as ever what it pins pages of in a range, since the program is not to write there
/// any more, and writes of its calls have to be `EFAULT`. Others who change it meanwhile, or touch
/// it, wait.
///
/// # Errors
/// `ENOMEM`, [`ENDING`](hanare_core::link::ENDING).
pub fn map_as_ever(p: &Caller<'_>, range: PageRange) -> Result<()> {
    let mut rest = range;
    while p.memory.has_pinnable.load(Ordering::Relaxed) {
        let part = {
            let mut mm = lock_settled(p, rest)?;
            let Some(part) = mm.first_pinnable(rest) else { break };
            mark(p, &mut mm, part)?;
            part
        };
        let is_done = shared::remap(p, part);
        unmark(p, part);
        if !is_done {
            return Err(errno::ENOMEM);
        }
        rest = PageRange::of(part.end(), range.end());
    }
    Ok(())
}

/// As [`map_as_ever`], of a range that the caller has reserved, or that is nobody's any more.
/// False: Linux could not be asked for all of it.
pub fn map_reserved_as_ever(p: &Caller<'_>, range: PageRange) -> bool {
    let mut rest = range;
    let next = |rest| p.memory.mm.lock().pinnable.first_in(rest);
    while p.memory.has_pinnable.load(Ordering::Relaxed)
        && let Some(part) = next(rest)
    {
        if !shared::remap(p, part) {
            return false;
        }
        rest = PageRange::of(part.end(), range.end());
    }
    true
}

/// Linux has something else in a range now, or has mapped it as ever. What cannot be noted for want
/// of memory counts as pinnable still, which is safe.
pub(super) fn is_over(p: &Caller<'_>, range: PageRange) {
    if p.memory.has_pinnable.load(Ordering::Relaxed) {
        let _ = p.memory.mm.lock().pinnable.remove(range);
    }
}

impl AddressSpace {
    /// The first part of a range that is private memory, and of which Linux pins pages.
    fn first_pinnable(&self, range: PageRange) -> Option<PageRange> {
        let is_private = |v: &Vma<FileRef>| {
            matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. })
        };
        let private = self.mappings().parts(range).filter(|(v, _)| is_private(v));
        private.into_iter().find_map(|(_, part)| self.pinnable.first_in(part))
    }

    /// Whether Linux may have copies of pages of a range: what it has for reading it has so there.
    pub(super) fn may_have_copies(&self, range: PageRange) -> bool {
        self.pinnable.meets(range)
    }
}
