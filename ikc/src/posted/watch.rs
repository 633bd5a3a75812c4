//! State of a queue's keeper, which starts one more worker where something waits and all workers
//! are busy.
//!
//! The keeper sleeps while no worker is needed. It is rung by the thread that makes that true: a
//! producer that posts, a worker that takes something and leaves more, and a worker that ends,
//! since another may be started in its place.

use super::{ENDS_SILENTLY, SLEEPS_BLINDLY};
use crate::sync::{AtomicU32, Ordering, REAL, full_fence};

const ASLEEP: u32 = 0;
/// The keeper looks, or is about to.
const AWAKE: u32 = 1;

/// The state of a keeper. `needs_more` of each step answers whether one more worker is needed, and
/// can be started.
#[derive(Debug)]
#[repr(transparent)]
pub struct Watch<const MUTANT: u8 = REAL>(AtomicU32);

impl<const MUTANT: u8> Default for Watch<MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MUTANT: u8> Watch<MUTANT> {
    /// The keeper sleeps.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(ASLEEP))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(ASLEEP))
    }

    /// The keeper sleeps. No other thread looks.
    pub fn reset(&self) {
        self.0.store(ASLEEP, Ordering::Release);
    }

    /// Behind a full fence, when something was posted, or a worker has begun to work: whether the
    /// caller rings the keeper.
    #[must_use]
    pub fn rings(&self, needs_more: impl FnOnce() -> bool) -> bool {
        needs_more() && self.0.swap(AWAKE, Ordering::AcqRel) == ASLEEP
    }

    /// Worker: `end` says that another may be started in its place from now on. Whether the worker
    /// rings the keeper: a producer that posted before that has found no place for one more worker.
    #[must_use]
    pub fn ends(&self, end: impl FnOnce(), needs_more: impl FnOnce() -> bool) -> bool {
        end();
        full_fence::<MUTANT>();
        MUTANT != ENDS_SILENTLY && self.rings(needs_more)
    }

    /// Keeper, when no worker is needed: whether it sleeps until it is rung. It may have been rung
    /// already.
    #[must_use]
    pub fn sleeps(&self, needs_more: impl FnOnce() -> bool) -> bool {
        // Either the ringing thread exchanges later, or what it has posted is seen here.
        let _ = self.0.swap(ASLEEP, Ordering::AcqRel);
        MUTANT == SLEEPS_BLINDLY || !needs_more() || self.0.swap(AWAKE, Ordering::AcqRel) != ASLEEP
    }
}
