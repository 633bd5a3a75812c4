//! Which workers sleep, and which ones look for work.
//!
//! A producer looks here behind a full fence when it has posted, and wakes a sleeper unless a
//! worker polls. So it may take a worker for one that looks which has just found something else,
//! and wake none; or wake one for several submissions. A worker that has polled or slept, and has
//! taken something, looks therefore whether more is there, and does then what a producer does.

use super::{LOOKS_FOR_SLEEPERS, NO_SECOND_LOOK};
use crate::sync::{AtomicU64, Ordering, REAL, full_fence};

/// The workers that sleep, a bit each in the lower half, and those that poll, in the upper half: 32
/// at most.
#[derive(Debug)]
#[repr(transparent)]
pub struct Idle<const MUTANT: u8 = REAL>(AtomicU64);

const fn asleep(worker: u32) -> u64 {
    1 << (worker & 31)
}

const fn polling(worker: u32) -> u64 {
    asleep(worker) << 32
}

impl<const MUTANT: u8> Default for Idle<MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MUTANT: u8> Idle<MUTANT> {
    /// No thread sleeps or polls.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// No thread sleeps or polls any more. No other thread looks.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Worker: polls from now on. One that is alone need not say so.
    pub fn begin_polling(&self, worker: u32) {
        self.0.fetch_or(polling(worker), Ordering::AcqRel);
    }

    /// Worker: has found something to do. When it has taken that it looks by [`Idle::leaves_more`].
    pub fn end_polling(&self, worker: u32) {
        self.0.fetch_and(!polling(worker), Ordering::AcqRel);
        full_fence::<MUTANT>();
    }

    /// Worker that has polled or slept, and has taken something since: whether more waits, which
    /// others may have left to it.
    #[must_use]
    pub fn leaves_more(&self, is_empty: impl FnOnce() -> bool) -> bool {
        match MUTANT {
            NO_SECOND_LOOK => false,
            LOOKS_FOR_SLEEPERS => !self.has_no_sleeper() && !is_empty(),
            _ => !is_empty(),
        }
    }

    /// Worker: sleeps no more, of its own accord, and looks then whether something waits. `false`:
    /// a producer wakes it.
    #[must_use]
    pub fn end_sleep(&self, worker: u32) -> bool {
        let is_first = self.wake(worker);
        full_fence::<MUTANT>();
        is_first
    }

    /// Worker: polls no more, and sleeps, unless `is_empty` answers no. `false`: it goes on.
    /// `Err`: it goes on, but a producer wakes it, and it has to wait for that first.
    ///
    /// # Errors
    /// See above.
    pub fn prepare_sleep(
        &self,
        worker: u32,
        is_empty: impl FnOnce() -> bool,
    ) -> Result<bool, WokenAlready> {
        self.0.fetch_or(asleep(worker), Ordering::AcqRel);
        self.0.fetch_and(!polling(worker), Ordering::AcqRel);
        full_fence::<MUTANT>();
        if is_empty() {
            return Ok(true);
        }
        if self.wake(worker) { Ok(false) } else { Err(WokenAlready) }
    }

    /// Whether no thread sleeps: one look, behind a full fence.
    #[must_use]
    #[inline(always)]
    pub fn has_no_sleeper(&self) -> bool {
        self.0.load(Ordering::Relaxed) as u32 == 0
    }

    /// Whether no thread sleeps or polls.
    #[must_use]
    pub fn are_all_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Behind a full fence: takes a worker that sleeps, if no thread polls. The caller wakes it.
    #[must_use]
    pub fn take_sleeper(&self) -> Option<u32> {
        let mut idle = self.0.load(Ordering::Relaxed);
        // As often as there are workers: a producer that takes one meanwhile wakes that.
        for _ in 0..32 {
            if idle >> 32 != 0 || idle as u32 == 0 {
                return None;
            }
            let worker = idle.trailing_zeros();
            if self.wake(worker) {
                return Some(worker);
            }
            idle = self.0.load(Ordering::Relaxed);
        }
        None
    }

    /// Behind a full fence: whether a certain worker sleeps. If so the caller wakes it, and no
    /// other thread does.
    #[must_use]
    pub fn wake(&self, worker: u32) -> bool {
        self.0.load(Ordering::Relaxed) & asleep(worker) != 0
            && self.0.fetch_and(!asleep(worker), Ordering::AcqRel) & asleep(worker) != 0
    }
}

/// A producer wakes a worker that does not sleep yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WokenAlready;
