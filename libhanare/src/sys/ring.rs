//! Rings of submissions: posters answer for what they put in, workers execute what they take out.

use std::sync::atomic::AtomicU64;

use hanare_ikc::posted::{Entry, Filled, Slots, Submission, Submissions};

/// Promise of a poster: arguments of what it posts are good for the call or function, and what they
/// refer to stays until that is done.
#[derive(Clone, Copy, Debug)]
pub struct Vouched(());

impl Vouched {
    /// The promise.
    ///
    /// # Safety
    /// The promise is given for a submission whose arguments are as [`Vouched`] says.
    #[must_use]
    #[inline(always)]
    pub(super) const unsafe fn new() -> Self {
        Self(())
    }
}

/// A ring of submissions, for each of which a poster has vouched.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a>(Submissions<'a>);

impl<'a> Ring<'a> {
    /// The ring made of these words, which no other code writes.
    #[inline(always)]
    pub(super) const fn new(head: &'a AtomicU64, entries: Slots<'a, Entry>) -> Self {
        Self(Submissions::new(head, entries))
    }

    /// Makes the ring empty: its tail. No other thread uses it.
    #[must_use]
    pub fn reset(&self) -> u64 {
        self.0.reset()
    }

    /// The one producer: writes the arguments of an entry, as [`Submissions::fill`].
    #[inline(always)]
    pub fn fill(&self, _: Vouched, position: u64, args: impl Fn(usize) -> u64) -> Filled<'a> {
        self.0.fill(position, args)
    }

    /// One of several producers: posts.
    #[inline(always)]
    pub fn post_shared(&self, _: Vouched, tail: &AtomicU64, submission: &Submission) {
        self.0.post_shared(tail, submission);
    }

    /// Worker: takes the oldest submission.
    #[must_use]
    #[inline(always)]
    pub fn take(&self) -> Option<Task> {
        self.0.take().map(Task)
    }

    /// Whether nothing is to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of submissions that were posted since the ring was made, by its tail.
    #[must_use]
    pub const fn posted(&self, tail: u64) -> u64 {
        self.0.posted(tail)
    }

    /// Number of submissions that were taken since.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.0.taken()
    }
}

/// A submission that was taken out of a ring, by one worker.
#[derive(Debug)]
pub struct Task(pub(super) Submission);

impl Task {
    /// Kind, flags and number.
    #[must_use]
    #[inline(always)]
    pub const fn what(&self) -> u32 {
        self.0.what
    }

    /// Ticket, as a word.
    #[must_use]
    #[inline(always)]
    pub const fn ticket(&self) -> u64 {
        self.0.ticket
    }
}
