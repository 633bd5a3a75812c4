//! Rings for submissions with keys.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use hanare_ikc::posted::{Entry, Slots, Submissions};

use super::{Line, Pieces, Queue, slots};
use crate::engine::{Error, error, sys};

/// The rings for submissions with keys: one for each worker that stays.
#[derive(Debug)]
pub struct Lane {
    pub(super) head: Line<AtomicU64>,
    pub(super) tail: Line<AtomicU64>,
    entries: Slots<'static, Entry>,
}

impl Lane {
    pub(super) fn reset(&self) {
        let tail = self.ring().reset();
        self.tail.0.store(tail, Ordering::Release);
    }

    pub(super) fn posted(&self) -> u64 {
        self.ring().posted(self.tail.0.load(Ordering::Acquire))
    }

    /// Its ring.
    #[must_use]
    pub const fn ring(&self) -> Submissions<'_> {
        Submissions::new(&self.head.0, self.entries)
    }
}

impl Queue {
    /// The rings of keys, if something with a key was ever posted.
    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        let first = self.lanes.load(Ordering::Acquire);
        if first.is_null() {
            return &[];
        }
        // SAFETY: `make_lanes` has made so many, which last as long as the queue.
        unsafe { std::slice::from_raw_parts(first, self.attributes.workers_min as usize) }
    }

    pub(super) fn lanes_bytes(&self) -> usize {
        let depth = self.depth() as usize;
        self.attributes.workers_min as usize
            * (size_of::<Lane>() + 128 + depth * size_of::<Entry>())
    }

    /// The ring of a key, made if it is the first one.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn lane(&self, key: u32) -> Result<(u32, &Lane), Error> {
        if self.lanes().is_empty() {
            self.make_lanes()?;
        }
        let number = key % self.attributes.workers_min;
        Ok((number, &self.lanes()[number as usize]))
    }

    #[cold]
    fn make_lanes(&self) -> Result<(), Error> {
        let _held = self.lock.hold();
        if !self.lanes().is_empty() {
            return Ok(());
        }
        let depth = self.depth() as usize;
        let Some(start) = sys::map(self.lanes_bytes()) else { return error(libc::ENOMEM) };
        let start = start.as_ptr().expose_provenance();
        let mut pieces = Pieces { next: start, end: start + self.lanes_bytes() };
        let count = self.attributes.workers_min as usize;
        let first = pieces.take(count, |_| MaybeUninit::<Lane>::uninit()).cast::<Lane>();
        for index in 0..count {
            let entries = pieces.take(depth, |_| Entry::new());
            // SAFETY: there are so many, as long as the queue lasts.
            let entries = unsafe { slots(entries, depth) };
            let lane = Lane { head: Line::default(), tail: Line::default(), entries };
            lane.reset();
            // SAFETY: its piece, which nobody else knows of yet.
            unsafe { first.add(index).write(lane) };
        }
        self.lanes.store(first.as_ptr(), Ordering::Release);
        Ok(())
    }
}
