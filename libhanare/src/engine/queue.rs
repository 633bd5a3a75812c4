//! A queue: its words.

pub mod keeper;
mod lanes;
mod make;
mod own;
mod pieces;
mod producer;
mod waking;
pub mod worker;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::posted::{
    Armed, Credits, Entry, Finished, FinishedEntry, Idle, Record, RecordRef, Slots, Submission,
    Submissions, Ticket,
};

use keeper::Keeper;
pub use lanes::Lane;
use own::Own;
use pieces::{Line, Pieces, slots};
use worker::Worker;

use super::attributes::{Attributes, BLOCKING, MULTI_PRODUCER, SIDE_HERE, WORKERS_MAX};
use super::lock::Lock;
use super::wakers::Wakers;
use super::{Error, error, sys};
use crate::calls::Classes;

/// Words of the one producer of a queue, which no other thread reads.
#[derive(Debug, Default)]
struct Producer {
    /// How many tickets may be given out, times the size of `Own`.
    free_bytes: Cell<u64>,
    /// Where it posts.
    tail: Cell<u64>,
    /// Credits that will come back without being picked up.
    owed: Cell<u64>,
}

/// A queue. It lies in memory of its own, with all its rings.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Queue {
    // What everybody reads, and nobody writes while it is used.
    /// Which calls the short way of posting takes: none where it is not to be used.
    pub short: AtomicPtr<Classes>,
    /// Lets through the bytes of an index in a ticket.
    offsets: u64,
    entries: Slots<'static, Entry>,
    records: NonNull<Record>,
    /// Whether the short way of several producers may be used.
    pub is_short_shared: AtomicU32,
    /// Ticket of each credit that was given out, or is the next, where there are several producers.
    shared_live: Slots<'static, AtomicU64>,
    links: Slots<'static, AtomicU32>,
    finished_entries: Slots<'static, FinishedEntry>,
    /// Attributes with which the queue was made.
    pub attributes: Attributes,
    /// Where each worker runs.
    pub cpus: [i32; WORKERS_MAX as usize],

    producer: Line<Producer>,
    /// Where several producers post.
    shared_tail: Line<AtomicU64>,
    /// Which workers sleep.
    pub idle: Line<Idle>,
    head: Line<AtomicU64>,
    /// Free credits of several producers; those that came back to a single one.
    credits_top: Line<AtomicU64>,
    finished_head: Line<AtomicU64>,
    finished_tail: Line<AtomicU64>,
    /// Whether a thread is to be told of what is finished.
    pub armed: Line<Armed>,
    /// Descriptor by which that thread is told; -1: not made yet.
    pub told: AtomicI32,
    /// Bell of a thread that waits for room; 0: none waits.
    pub room_bell: AtomicU32,
    /// How many are to be done before exit.
    pub at_exit: AtomicU64,
    /// Number of detached calls that the posting thread made at once and that ended with an error.
    pub errors_at_once: AtomicU64,
    /// Error number of the last detached submission that ended with an error.
    pub last_error: AtomicI32,
    /// For what happens seldom.
    pub lock: Lock,
    /// Not zero: the queue is to end.
    pub stop: AtomicU32,
    /// Counted up in each child of a fork.
    pub epoch: AtomicU32,
    /// Not zero: the queue was copied by a fork, and not used since.
    pub is_stale: AtomicU32,
    lanes: AtomicPtr<Lane>,
    /// Workers of the queue.
    pub workers: [Worker; WORKERS_MAX as usize],
    /// Thread that starts further workers.
    pub keeper: Keeper,
    /// Wakers of futures, one for each credit.
    pub wakers: Wakers,
    /// The next one of the process.
    pub next: AtomicPtr<Queue>,
    bytes: usize,
}

// SAFETY: all that changes is atomic; what is one producer's is so by contract of the functions that use it.
unsafe impl Sync for Queue {}
// SAFETY: likewise.
unsafe impl Send for Queue {}

/// A queue begins with its words.
#[repr(C, align(128))]
struct Whole(Queue);

/// Where what one producer keeps of each credit lies behind the start of the queue.
const OWN: usize = size_of::<Whole>();
const _: () = assert!(size_of::<Own>() == size_of::<Record>());

impl Queue {
    /// Whether several threads use it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.attributes.flags & MULTI_PRODUCER != 0
    }

    /// Whether submissions wait where it is full.
    #[must_use]
    pub const fn is_blocking(&self) -> bool {
        self.attributes.flags & BLOCKING != 0
    }

    /// Whether workers go to Linux.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        self.attributes.side != SIDE_HERE
    }

    /// Credits.
    #[must_use]
    pub const fn depth(&self) -> u64 {
        self.offsets / size_of::<Own>() as u64 + 1
    }

    /// The ring of submissions without a key.
    #[must_use]
    #[inline(always)]
    pub const fn ring(&self) -> Submissions<'_> {
        Submissions::new(&self.head.0, self.entries)
    }

    /// The one producer: the position at which it posts, without a key.
    #[must_use]
    #[inline(always)]
    pub fn next_position(&self) -> u64 {
        let position = self.producer.0.tail.get();
        self.producer.0.tail.set(position.wrapping_add(1));
        position
    }

    /// Posts, in the ring of a key or in that without: with a full fence behind it.
    pub fn post_in(&self, lane: Option<&Lane>, submission: &Submission) {
        match (self.is_shared(), lane) {
            (false, None) => {
                let Submission { what, ticket, args } = *submission;
                self.ring().fill(self.next_position(), |index| args[index]).post(what, ticket);
            }
            (true, None) => self.ring().post_shared(&self.shared_tail.0, submission),
            (_, Some(lane)) => lane.ring().post_shared(&lane.tail.0, submission),
        }
    }

    /// The ring of those that are done.
    #[must_use]
    pub const fn finished(&self) -> Finished<'_> {
        Finished::new(&self.finished_head.0, &self.finished_tail.0, self.finished_entries)
    }

    /// Free credits, or those that came back.
    #[must_use]
    #[inline(always)]
    pub const fn credits(&self) -> Credits<'_> {
        Credits::new(&self.credits_top.0, self.links)
    }

    /// A record.
    #[must_use]
    #[inline(always)]
    pub const fn record(&self, index: u16) -> RecordRef<'_> {
        self.record_at(Ticket::zero(index).word())
    }

    /// The record of a ticket.
    #[must_use]
    #[inline(always)]
    pub const fn record_at(&self, word: u64) -> RecordRef<'_> {
        let offset = (word & self.offsets) as usize;
        // SAFETY: there are as many as `offsets` lets through: records and `Own` have one size.
        RecordRef::new(unsafe { self.records.byte_add(offset).as_ref() })
    }

    /// For tests: where a piece that workers read lies, and its bytes.
    #[must_use]
    pub const fn piece(&self, piece: u32) -> Option<(*const u64, usize)> {
        const fn all<T>(slots: Slots<'_, T>) -> (*const u64, usize) {
            ((&raw const *slots.at(0)).cast(), slots.len() as usize * size_of::<T>())
        }
        const fn one<T>(word: &T) -> (*const u64, usize) {
            ((&raw const *word).cast(), size_of::<u64>())
        }
        let records = self.depth() as usize * size_of::<Record>();
        match piece {
            0 => Some(all(self.entries)),
            1 => Some((self.records.as_ptr().cast_const().cast(), records)),
            2 => Some(all(self.links)),
            3 => Some(all(self.finished_entries)),
            4 => Some(one(&self.head)),
            5 => Some(one(&self.finished_head)),
            6 => Some(one(&self.finished_tail)),
            7 => Some(one(&self.credits_top)),
            _ => None,
        }
    }

    /// How many were posted.
    #[must_use]
    pub fn posted(&self) -> u64 {
        let tail = match self.is_shared() {
            true => self.shared_tail.0.load(Ordering::Acquire),
            false => self.producer.0.tail.get(),
        };
        let lanes = self.lanes().iter().map(Lane::posted);
        lanes.fold(self.ring().posted(tail), u64::wrapping_add)
    }

    /// How many of them are done.
    #[must_use]
    pub fn completed(&self) -> u64 {
        let each = self.workers.iter().map(|worker| worker.completed.load(Ordering::Acquire));
        each.fold(0, u64::wrapping_add)
    }

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
