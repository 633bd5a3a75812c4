//! Whether a thread is to be told of the next submission that is finished: the state of a
//! descriptor for poll and epoll.

use crate::sync::{AtomicU32, Ordering, REAL, full_fence};

/// No thread wants to know.
const OFF: u32 = 0;
/// The next worker that finishes something tells.
const ARMED: u32 = 1;
/// A worker has told, or is about to.
const TOLD: u32 = 2;

/// The state of a descriptor.
#[derive(Debug)]
#[repr(transparent)]
pub struct Armed<const MUTANT: u8 = REAL>(AtomicU32);

impl<const MUTANT: u8> Default for Armed<MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MUTANT: u8> Armed<MUTANT> {
    /// No thread wants to know.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(OFF))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(OFF))
    }

    /// No thread wants to know any more. No other thread looks.
    pub fn reset(&self) {
        self.0.store(OFF, Ordering::Release);
    }

    /// Whether a thread has ever wanted to know.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != OFF
    }

    /// Asks to be told of the next one that is finished: the caller has found none. `untell` makes
    /// the descriptor unreadable, where it is readable, or waits until it is and makes it so.
    /// `false`: there is something meanwhile, see `is_empty`; no thread need be told.
    pub fn arm(&self, untell: impl FnOnce(), is_empty: impl FnOnce() -> bool) -> bool {
        if self.0.load(Ordering::Acquire) == TOLD {
            untell();
        }
        self.0.store(ARMED, Ordering::Release);
        full_fence::<MUTANT>();
        is_empty()
    }

    /// Worker, behind a full fence, when something is there: whether it has to make the descriptor
    /// readable.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ARMED
            && self.0.compare_exchange(ARMED, TOLD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
