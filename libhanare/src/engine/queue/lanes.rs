//! Rings for submissions with keys.

use std::sync::atomic::{AtomicU64, Ordering};

use hanare_ikc::posted::{Entry, Slots, Submissions};

use super::pieces::Line;

/// The rings for submissions with keys: one for each worker that stays.
#[derive(Debug)]
pub struct Lane {
    pub(super) head: Line<AtomicU64>,
    pub(super) tail: Line<AtomicU64>,
    pub(super) entries: Slots<'static, Entry>,
}

impl Lane {
    pub(super) fn reset(&self) {
        let tail = self.ring().reset();
        self.tail.0.store(tail, Ordering::Release);
    }

    pub(super) fn posted(&self) -> u64 {
        self.ring().posted(self.tail.0.load(Ordering::Acquire))
    }

    /// Ring of the lane.
    #[must_use]
    pub const fn ring(&self) -> Submissions<'_> {
        Submissions::new(&self.head.0, self.entries)
    }
}
