//! The ring of submissions: one producer or several, always several consumers.
//!
//! An entry says itself at which position of the ring it was published. Consumers read the entry at
//! the head, and take it by an exchange of the head; they write no entry. So an entry is free as
//! soon as the head has passed it, and a consumer that is stopped half-way holds up no other
//! thread. Producers never look at the head: the holder of a credit finds room.
//!
//! The proof of that: the entries between head and tail are of distinct credits, since a credit is
//! given back only after its entry was taken. With the one that is about to be written they are at
//! most as many as there are credits, which are as many as slots.

use super::{Slots, take};
use crate::sync::{AtomicU64, Ordering, REAL, exchanges, fence_of_exchange, publish};

/// Arguments of a submission. (Each one more makes the models take many times as long.)
pub const ARGS: usize = if cfg!(loom) { 1 } else { 6 };

/// One entry: a cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Entry {
    /// Lower half of the position, and what is posted.
    published: AtomicU64,
    ticket: AtomicU64,
    args: [AtomicU64; ARGS],
}

impl Entry {
    /// An entry that was not written yet.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            ticket: AtomicU64::new(0),
            args: [const { AtomicU64::new(0) }; ARGS],
        }
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            ticket: AtomicU64::new(0),
            args: [(); ARGS].map(|()| AtomicU64::new(0)),
        }
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self::new()
    }
}

/// An entry that is written, but not published.
#[derive(Debug)]
#[must_use]
pub struct Filled<'a, const MUTANT: u8 = REAL> {
    entry: &'a Entry,
    position: u64,
}

impl<const MUTANT: u8> Filled<'_, MUTANT> {
    #[inline(always)]
    fn word(&self, what: u32, ticket: u64) -> u64 {
        self.entry.ticket.store(ticket, Ordering::Relaxed);
        self.position << 32 | u64::from(what)
    }

    /// Posts the entry, for the holder of the ticket's credit. A full fence follows, so that the
    /// poster can look now whether workers sleep.
    #[inline(always)]
    pub fn post(self, what: u32, ticket: u64) {
        let word = self.word(what, ticket);
        let _ = self.entry.published.swap(word, exchanges::<MUTANT>());
        fence_of_exchange::<MUTANT>();
    }

    /// Posts the entry without a fence: another one is posted behind it.
    #[inline(always)]
    pub fn post_first(self, what: u32, ticket: u64) {
        let word = self.word(what, ticket);
        self.entry.published.store(word, publish::<MUTANT>());
    }
}

/// Content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Kind and flags of the submission; of a call its number, too.
    pub what: u32,
    /// The ticket of the submission's record, as a word.
    pub ticket: u64,
    /// Arguments of the submission.
    pub args: [u64; ARGS],
}

/// A ring of submissions. Its tail is the producers'.
#[derive(Clone, Copy, Debug)]
pub struct Submissions<'a, const MUTANT: u8 = REAL> {
    head: &'a AtomicU64,
    entries: Slots<'a, Entry>,
}

impl<'a, const MUTANT: u8> Submissions<'a, MUTANT> {
    /// The ring made of these words.
    #[must_use]
    #[inline(always)]
    pub const fn new(head: &'a AtomicU64, entries: Slots<'a, Entry>) -> Self {
        Self { head, entries }
    }

    /// Makes the ring empty: its tail. No other thread uses it. No entry of zeros looks published.
    #[must_use]
    pub fn reset(&self) -> u64 {
        for index in 0..self.entries.len() {
            self.entries.at(index).published.store(0, Ordering::Relaxed);
        }
        self.head.store(self.entries.len(), Ordering::Release);
        self.entries.len()
    }

    /// Producer: writes the arguments of an entry at the tail, which was `position` and is one more
    /// now. `args` is asked for each when it is written, so that none need be kept in a register
    /// until then.
    #[inline(always)]
    pub fn fill(&self, position: u64, args: impl Fn(usize) -> u64) -> Filled<'a, MUTANT> {
        let entry = self.entries.at(position);
        for (index, word) in entry.args.iter().enumerate() {
            word.store(args(index), Ordering::Relaxed);
        }
        Filled { entry, position }
    }

    /// One of several producers: posts, as [`Filled::post`].
    #[inline(always)]
    pub fn post_shared(&self, tail: &AtomicU64, submission: &Submission) {
        // What the producer before has seen of the head this one has seen, too: that is part of the
        // proof.
        let position = tail.fetch_add(1, Ordering::AcqRel);
        let Submission { what, ticket, args } = *submission;
        self.fill(position, |index| args[index]).post(what, ticket);
    }

    #[inline(always)]
    fn published(&self, position: u64) -> Option<u32> {
        let published = self.entries.at(position).published.load(Ordering::Acquire);
        ((published >> 32) as u32 == position as u32).then_some(published as u32)
    }

    /// Worker: takes the oldest submission.
    #[must_use]
    #[inline(always)]
    pub fn take(&self) -> Option<Submission> {
        take(self.head, |position| {
            let what = self.published(position)?;
            let entry = self.entries.at(position);
            let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
            let args = core::array::from_fn(|index| word(&entry.args[index]));
            Some(Submission { what, ticket: word(&entry.ticket), args })
        })
    }

    /// Whether nothing is to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.published(self.head.load(Ordering::Acquire)).is_none()
    }

    /// Number of submissions that were posted since the ring was made, by its tail.
    #[must_use]
    pub const fn posted(&self, tail: u64) -> u64 {
        tail.wrapping_sub(self.entries.len())
    }

    /// Number of submissions that were taken since.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.head.load(Ordering::Acquire).wrapping_sub(self.entries.len())
    }
}
