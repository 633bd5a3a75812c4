//! Taking pages away: zap what Linux has seen, then free or quarantine.

use super::caller::Caller;
use crate::base::chain::Run;
use crate::base::frames::{self, Known};
use crate::link::services;
use crate::mm::pages::leftovers::Removed;
use crate::mm::pages::quarantine::{self, Batch, Whose};
use core::sync::atomic::Ordering;
use hanare_abi::service::{SERVICE_HELD, SERVICE_ZAP};
use hanare_core::pagerange::PageRange;
use hanare_core::quarantine as known;
use hanare_hal::addr::PhysAddr;

impl Removed {
    /// Zaps what Linux has seen, then frees. Without the lock; may wait. False: Linux could not be
    /// asked; frames that it may have are in quarantine.
    pub fn finish(mut self, p: &Caller<'_>) -> bool {
        if self.needs_finish() {
            crate::sched::hold::at("pages-taken");
        }
        let mut is_forgotten = true;
        let mut range = self.range;
        // Mostly nothing was seen, and a batch is large.
        if range.is_some() {
            p.memory.losses.fetch_add(1, Ordering::Relaxed);
        }
        while range.is_some() || !self.seen.is_empty() {
            let batch = Batch::take(&mut self.seen);
            let (kind, zapped) = match range.take() {
                Some(r) => (SERVICE_ZAP, r),
                None => (SERVICE_HELD, PageRange::NONE),
            };
            let args = [zapped.start(), zapped.end(), batch.voids()];
            let answer = ask(p, kind, &args, batch.extents());
            is_forgotten &= kind != SERVICE_ZAP || answer.is_some() || p.memory.is_closed();
            self.passing.set(self.seen.pages());
            batch.settle(answer, &mut self.seen, Whose::gives_up(&p.memory.account));
            self.passing.set(self.seen.pages());
        }
        is_forgotten
    }
}

/// Has the caller's worker run a zap or a look, or the service thread where that worker is gone.
pub(in crate::mm) fn ask(
    p: &Caller<'_>,
    kind: u32,
    args: &[u64],
    extents: &[u64],
) -> Option<services::Answer> {
    let by_worker = || services::by_worker(p.thread, kind, args, extents).ok();
    let answer = if p.is_killed() { None } else { by_worker() };
    answer.or_else(|| services::by_thread(p.thread, kind, p.memory.owner(), args, extents))
}

/// Gives back a page whose last mapping went; Linux has no mapping of it any more.
pub fn page(p: &Caller<'_>, frame: PhysAddr) {
    match frames::drop_mapping(frame) {
        None => {}
        Some(Known::Never) => frames::free(frame, 0),
        Some(known) => {
            let voids = u64::from(known == Known::Named);
            match ask(p, SERVICE_HELD, &[0, 0, voids], &[frame.0]) {
                Some(answer) if answer.held & 1 == 0 => frames::free(frame, 0),
                Some(_) => {
                    let run = Run::of(frame, false).named(); // it may not have made answers void
                    quarantine::put(run, Some(&p.memory.account), known::Known::Held);
                }
                None => {
                    quarantine::set_aside(Run::of(frame, false).named(), Some(&p.memory.account))
                }
            }
        }
    }
}

/// Tells Linux to forget a range; the frames are not freed. Whether it was
/// done, or there is no Linux side any more that could have the pages.
pub fn zap(p: &Caller<'_>, range: PageRange) -> bool {
    p.memory.is_closed() || zap_asking(p, range, &[]).is_some()
}

/// Like [`zap`], where there is a Linux side; the answer says which frames of `extents` Linux holds
/// after that.
pub(in crate::mm) fn zap_asking(
    p: &Caller<'_>,
    range: PageRange,
    extents: &[u64],
) -> Option<services::Answer> {
    p.memory.losses.fetch_add(1, Ordering::Relaxed);
    crate::sched::hold::at("zap");
    let args = [range.start(), range.end(), 0];
    // Of a process that ends, the worker may be gone; others that share the memory go on.
    // Of a thread that ends, the process goes on.
    services::by_worker(p.thread, SERVICE_ZAP, &args, extents).ok().or_else(|| {
        let goes_on = !p.is_killed() || p.memory.is_shared();
        goes_on
            .then(|| services::by_thread(p.thread, SERVICE_ZAP, p.memory.owner(), &args, extents))?
    })
}
