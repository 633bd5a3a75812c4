//! The ring of finished submissions: workers append indices of credits, takers of any result take
//! them.
//!
//! A credit stands in it once at most, and is given back only after it was taken out. So with as
//! many slots as credits there is always room: workers do not look.

use super::{Slots, take};
use crate::sync::{AtomicU64, Ordering, REAL, exchanges, fence_of_exchange};

/// One entry: lower half of its position, and an index.
#[derive(Debug)]
#[repr(transparent)]
pub struct FinishedEntry(AtomicU64);

impl FinishedEntry {
    /// An entry that was not written yet.
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
}

impl Default for FinishedEntry {
    fn default() -> Self {
        Self::new()
    }
}

/// A ring of finished submissions.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a, const MUTANT: u8 = REAL> {
    head: &'a AtomicU64,
    tail: &'a AtomicU64,
    entries: Slots<'a, FinishedEntry>,
}

impl<'a, const MUTANT: u8> Finished<'a, MUTANT> {
    /// The ring made of these words.
    #[must_use]
    pub const fn new(
        head: &'a AtomicU64,
        tail: &'a AtomicU64,
        entries: Slots<'a, FinishedEntry>,
    ) -> Self {
        Self { head, tail, entries }
    }

    /// Makes the ring empty. No other thread uses it.
    pub fn reset(&self) {
        for index in 0..self.entries.len() {
            self.entries.at(index).0.store(0, Ordering::Relaxed);
        }
        self.head.store(self.entries.len(), Ordering::Relaxed);
        self.tail.store(self.entries.len(), Ordering::Release);
    }

    /// Worker: appends a credit, whose record is done, with a full fence behind it.
    pub fn push(&self, index: u16) {
        let position = self.tail.fetch_add(1, Ordering::AcqRel);
        #[cfg(all(test, loom))]
        assert!(self.has_room(position), "no room for the holder of a credit");
        let entry = &self.entries.at(position).0;
        let _ = entry.swap(position << 32 | u64::from(index), exchanges::<MUTANT>());
        fence_of_exchange::<MUTANT>();
    }

    /// Whether what stands in the slot of a position was taken: always, for the holder of a credit.
    #[cfg(all(test, loom))]
    fn has_room(&self, position: u64) -> bool {
        position.wrapping_sub(self.head.load(Ordering::Acquire)) < self.entries.len()
    }

    fn published(&self, position: u64) -> Option<u16> {
        let word = self.entries.at(position).0.load(Ordering::Acquire);
        (word >> 32 == position & 0xffff_ffff).then_some(word as u16)
    }

    /// Takes the oldest. Its credit is the caller's.
    #[must_use]
    pub fn take(&self) -> Option<u16> {
        take(self.head, |position| self.published(position))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.published(self.head.load(Ordering::Acquire)).is_none()
    }
}
