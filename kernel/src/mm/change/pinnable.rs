//! Memory that devices may keep: Linux pins pages of a range from now on (`docs/devices.md`).

use super::reserve::{lock_settled, mark, unmark};
use super::shared;
use crate::base::{heap, lists};
use crate::link::services;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::kept_for;
use crate::mm::pages::content::FileRef;
use crate::mm::window::caller::Caller;
use crate::sched::cpus;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_abi::service::{PINNABLE_ALWAYS, PINNABLE_IF_REFUSED, SERVICE_PINNABLE};
use hanare_core::errno::{self, Errno, Result};
use hanare_core::link::{ENDING, Failure};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma};

/// Whether devices may come to keep pages of a mapping: others are Linux' own, or are given to it
/// for reading only.
pub fn is_privately_written(v: &Vma<FileRef>) -> bool {
    is_private_memory(v) && v.prot.contains(Prot::READ | Prot::WRITE)
}

fn is_private_memory(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. })
}

/// Whether an address is one of private memory: of no device's, and no file that may be slow.
pub fn is_private(p: &Caller<'_>, address: u64) -> bool {
    let mm = p.memory.mm.lock();
    mm.mappings().find(address).is_some_and(is_privately_written)
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

/// A call under way that may have Linux pin pages.
pub struct Pinning<'a>(&'a AtomicU32);

impl<'a> Pinning<'a> {
    /// Begins before what is pinnable is looked at.
    pub fn begin(p: &Caller<'a>) -> Pinning<'a> {
        p.memory.pinning.fetch_add(1, Ordering::SeqCst);
        Pinning(&p.memory.pinning)
    }
}

impl Drop for Pinning<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ranges of such mappings that are `wanted` and not all pinnable, neighbours as one: what a device
/// is to keep may lie in several.
///
/// # Errors
/// `ENOMEM`
pub fn others(p: &Caller<'_>, wanted: impl Fn(PageRange) -> bool) -> Result<Vec<PageRange>> {
    let mm = p.memory.mm.lock();
    let mut found: Vec<PageRange> = Vec::new();
    let mut close = |run: PageRange| {
        let is_meant = !run.is_empty() && wanted(run) && mm.is_missing(run);
        if is_meant { lists::push(&mut found, run) } else { Ok(()) }
    };
    let mut run = PageRange::NONE;
    for range in mm.mappings().iter().filter(|v| is_privately_written(v)).map(Vma::range) {
        if run.end() == range.start() && !run.is_empty() {
            run = run.join(range);
        } else {
            close(core::mem::replace(&mut run, range))?;
        }
    }
    close(run)?;
    Ok(found)
}

/// Has Linux map a range so that it pins pages of such mappings there. Others who change these
/// meanwhile, or touch them, wait. `device`: the descriptor for which that is, if it has to be a
/// device's; `is_refused`: Linux has refused to pin pages there. The parts that were not pinnable
/// before come to `made`, also where it fails.
///
/// # Errors
/// `EOPNOTSUPP`, `ENOTTY` as `SERVICE_PINNABLE` says; `ENOMEM`;
/// [`ENDING`](hanare_core::link::ENDING).
pub fn make(
    p: &Caller<'_>,
    range: PageRange,
    device: Option<u32>,
    is_refused: bool,
    made: &mut Vec<PageRange>,
) -> Result<()> {
    let device = device.map_or(0, |descriptor| u64::from(descriptor) + 1);
    let when = if is_refused { PINNABLE_IF_REFUSED } else { PINNABLE_ALWAYS };
    while !p.must_end() {
        heap::more_room(made, 1)?;
        let part = {
            let mut mm = lock_settled(p, range)?;
            let Some(part) = mm.first_missing(range) else { return Ok(()) };
            mark(p, &mut mm, part)?;
            part
        };
        // Others wait for this range: so it waits for nothing that may take long.
        let args = [part.start(), part.end(), device, when];
        let answer = services::by_worker_at_once(p.thread, SERVICE_PINNABLE, &args, &[]);
        let is_late = matches!(answer, Err(Failure::NotStarted));
        let noted = answer.map_err(Errno::from).and_then(|_| {
            p.memory.has_pinnable.store(true, Ordering::Relaxed);
            p.memory.mm.lock().pinnable.add(part)
        });
        // Linux may have unmapped what was there before it said no.
        if !is_late && !matches!(noted, Ok(()) | Err(errno::EOPNOTSUPP | errno::ENOTTY)) {
            shared::remap(p, part);
        }
        unmark(p, part);
        if is_late {
            cpus::until(|| p.must_end(), cpus::deadline(PAUSE_NS));
            continue;
        }
        noted?;
        lists::push_within(made, part);
    }
    Err(ENDING)
}

/// Before a thread asks again for what threads of its process have all of, ns.
const PAUSE_NS: u64 = 1_000_000;

/// Has Linux map as ever what it pins pages of in a range, since the program is not to write there
/// any more, and writes of its calls have to be `EFAULT`. Others who change it meanwhile, or touch
/// it, wait.
///
/// # Errors
/// `ENOMEM`, [`ENDING`].
pub fn map_as_ever(p: &Caller<'_>, range: PageRange) -> Result<()> {
    map_as_ever_where(p, range, |_| true, || true)
}

/// As [`map_as_ever`], where the program may not write by now: another thread may have made a part
/// pinnable just before that came about. As far as it goes: else Linux has copies.
pub fn follow_rights(p: &Caller<'_>, range: PageRange) {
    let _ = map_as_ever_where(p, range, |v| !v.prot.contains(Prot::WRITE), || true);
}

/// As [`map_as_ever`], of what the caller, which is [`Pinning`], has made pinnable in vain: unless
/// other calls may rely on it.
pub fn give_back(p: &Caller<'_>, range: PageRange) -> Result<()> {
    map_as_ever_where(p, range, |_| true, || p.memory.pinning.load(Ordering::SeqCst) == 1)
}

/// As [`map_as_ever`], of mappings that are `meant`, while it `may`.
fn map_as_ever_where(
    p: &Caller<'_>,
    range: PageRange,
    meant: fn(&Vma<FileRef>) -> bool,
    may: impl Fn() -> bool,
) -> Result<()> {
    let mut rest = range;
    while p.memory.has_pinnable.load(Ordering::Relaxed) {
        let part = {
            let mut mm = lock_settled(p, rest)?;
            let Some(part) = mm.first_pinnable(rest, meant).filter(|_| may()) else { break };
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

impl AddressSpace {
    /// The first part of a range that is private memory, as `meant`, and of which Linux pins pages.
    fn first_pinnable(
        &self,
        range: PageRange,
        meant: fn(&Vma<FileRef>) -> bool,
    ) -> Option<PageRange> {
        let is_meant = |v: &Vma<FileRef>| is_private_memory(v) && meant(v);
        let mut private = self.mappings().parts(range).filter(|(v, _)| is_meant(v));
        private.find_map(|(_, part)| self.pinnable.first_in(part))
    }

    /// The first part of a range that is private writable memory, and of which Linux pins no pages.
    fn first_missing(&self, range: PageRange) -> Option<PageRange> {
        let mut written = self.mappings().parts(range).filter(|(v, _)| is_privately_written(v));
        written.find_map(|(_, part)| self.pinnable.first_gap_in(part))
    }

    /// Whether Linux may pin no pages of a part of a range, or another thread is changing that.
    fn is_missing(&self, range: PageRange) -> bool {
        let mut there = self.mappings().range(range);
        !self.pinnable.covers(range) || there.any(|v| kept_for(v).is_some())
    }

    /// Whether Linux may have copies of pages of a range: what it has for reading it has so there.
    pub(super) fn may_have_copies(&self, range: PageRange) -> bool {
        self.pinnable.meets(range)
    }
}
