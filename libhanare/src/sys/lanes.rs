//! Rings for submissions with keys, in a mapping of their own.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use hanare_ikc::posted::{Entry, Slots};

use super::line::Line;
use super::mapped::slots;
use super::memory::{Mapping, Pieces};
use super::ring::Ring;

/// Ring for submissions with keys.
#[derive(Debug)]
pub struct Lane {
    head: Line<AtomicU64>,
    /// Position where producers post.
    pub tail: Line<AtomicU64>,
    entries: Slots<'static, Entry>,
}

// SAFETY: all that changes is atomic; the entries lie in the mapping of the lanes, which is there
// as long as a lane can be reached.
unsafe impl Sync for Lane {}
// SAFETY: likewise.
unsafe impl Send for Lane {}

impl Lane {
    /// Ring of the lane.
    #[must_use]
    pub const fn ring(&self) -> Ring<'_> {
        Ring::new(&self.head.0, self.entries)
    }
}

/// Lanes of a queue, made when the first submission with a key is posted.
#[derive(Debug)]
pub struct Lanes {
    first: AtomicPtr<Lane>,
    count: usize,
    depth: usize,
}

impl Lanes {
    /// None yet; there will be so many, each of so many entries.
    #[must_use]
    pub const fn new(count: usize, depth: usize) -> Self {
        Self { first: AtomicPtr::new(null_mut()), count, depth }
    }

    /// The lanes that there are: all or none.
    #[must_use]
    #[inline(always)]
    pub fn get(&self) -> &[Lane] {
        let first = self.first.load(Ordering::Acquire);
        if first.is_null() {
            return &[];
        }
        // SAFETY: `make` has made so many, which last as long as `self`.
        unsafe { std::slice::from_raw_parts(first, self.count) }
    }

    const fn bytes(&self) -> usize {
        self.count * (size_of::<Lane>() + 128 + self.depth * size_of::<Entry>())
    }

    /// Makes them, unless there are. `false`: there is no memory.
    #[must_use]
    pub fn make(&self) -> bool {
        if !self.get().is_empty() {
            return true;
        }
        let Some(mut mapping) = Mapping::new(self.bytes()) else { return false };
        let mut pieces = Pieces::of(&mut mapping);
        let lanes = pieces.take(self.count, |_| MaybeUninit::<Lane>::uninit()).cast::<Lane>();
        for index in 0..self.count {
            let entries = pieces.take(self.depth, |_| Entry::new());
            // SAFETY: there are so many, as long as the lanes last.
            let entries = unsafe { slots(entries, self.depth) };
            let lane = Lane { head: Line::default(), tail: Line::default(), entries };
            lane.tail.0.store(lane.ring().reset(), Ordering::Relaxed);
            // SAFETY: its piece, which no other code knows of yet.
            unsafe { lanes.add(index).write(lane) };
        }
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.first.compare_exchange(null_mut(), lanes.as_ptr(), order.0, order.1).is_ok() {
            let start = mapping.into_start();
            assert_eq!(start.addr(), lanes.addr(), "the first piece is at the start");
        }
        true
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if let Some(first) = NonNull::new(*self.first.get_mut()) {
            // SAFETY: `make` has given the mapping of so many bytes to this; a lane has nothing to
            // drop, and none was borrowed for longer.
            drop(unsafe { Mapping::from_start(first.cast(), self.bytes()) });
        }
    }
}
