//! Taking pages away: zap what Linux has seen, then free or quarantine.

use super::caller::Caller;
use super::messages;
use super::quarantine::{self, Batch, Whose};
use super::removed::Removed;
use super::space::{CONTROL_COST, Space};
use crate::base::chain::Run;
use crate::base::frames::{self, Known};
use crate::base::tables::Tables;
use crate::link::services;
use core::sync::atomic::Ordering;
use hanare_abi::service::{SERVICE_HELD, SERVICE_ZAP};
use hanare_core::coherence::Change;
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
            p.losses.fetch_add(1, Ordering::Relaxed);
        }
        while range.is_some() || !self.seen.is_empty() {
            let batch = Batch::take(&mut self.seen);
            let (kind, (low, high)) = match range.take() {
                Some(r) => (SERVICE_ZAP, r),
                None => (SERVICE_HELD, (0, 0)),
            };
            let answer = ask(p, kind, &[low, high, batch.voids()], batch.extents());
            is_forgotten &= kind != SERVICE_ZAP || answer.is_some() || p.is_closed();
            batch.settle(answer, &mut self.seen, Whose::gives_up(&p.account));
        }
        is_forgotten
    }
}

/// Has the caller's worker run a zap or a look, or the service thread where that worker is gone.
pub(super) fn ask(
    p: &Caller<'_>,
    kind: u32,
    args: &[u64],
    extents: &[u64],
) -> Option<services::Answer> {
    let by_worker = || services::by_worker(kind, args, extents).ok();
    let answer = if p.is_killed() { None } else { by_worker() };
    answer.or_else(|| services::by_thread(kind, p.owner(), args, extents))
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
                    quarantine::put(run, Some(&p.account), known::Known::Held);
                }
                None => quarantine::set_aside(Run::of(frame, false).named(), Some(&p.account)),
            }
        }
    }
}

/// Tells Linux to forget `start..end`; the frames are not freed. Whether it was
/// done, or there is no Linux side any more that could have the pages.
pub fn zap(p: &Caller<'_>, start: u64, end: u64) -> bool {
    p.is_closed() || zap_asking(p, start, end, &[]).is_some()
}

/// Likewise, where there is a Linux side; the answer says which frames of `extents` Linux holds after that.
pub(super) fn zap_asking(
    p: &Caller<'_>,
    start: u64,
    end: u64,
    extents: &[u64],
) -> Option<services::Answer> {
    p.losses.fetch_add(1, Ordering::Relaxed);
    crate::sched::hold::at("zap");
    let args = [start, end, 0];
    // Of a process that ends, the worker may be gone; others that share the memory go on.
    // Of a thread that ends, the process goes on.
    services::by_worker(SERVICE_ZAP, &args, extents).ok().or_else(|| {
        let goes_on = !p.is_killed() || p.is_shared();
        goes_on.then(|| services::by_thread(SERVICE_ZAP, p.owner(), &args, extents))?
    })
}

/// Gives back all memory of a space whose proxy is gone, and pages of the kernel's that the proxy
/// had mapped. Its threads have ended.
pub fn all(p: &Space) {
    // None is run: a task that runs one has the proxy's memory map, and Linux has ended that.
    p.fills.lock().clear();
    let control = p.take_control();
    let control_pages = control.len() as u64;
    let mut removed = Removed::default();
    let mut mm = p.mm.lock();
    mm.check_resident();
    let vmas = mm.vmas.take();
    let whole = (vmas.min(), vmas.max());
    mm.unmap_pages(whole, &Change::of_forgotten(whole), true, &mut removed);
    drop(mm);
    drop(vmas);
    p.last_mapped.clear();
    p.mm.take_table().free(&mut Tables::kernel());
    control.into_values().for_each(|frame| removed.seen.push(Run::of(frame, false)));
    messages::take_all(p, &mut removed.seen);
    quarantine::give_up(p.owner(), &p.account, removed.seen);
    p.account.remove_kernel(control_pages * CONTROL_COST);
}
