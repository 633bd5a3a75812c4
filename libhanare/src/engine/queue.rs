//! A queue: its words.

pub mod keeper;
mod make;
mod producer;
mod waking;
pub mod worker;

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::posted::{Armed, Credits, Finished, Idle, Slots, Submission};

use keeper::Keeper;
use worker::Worker;

use super::attributes::{Attributes, BLOCKING, MULTI_PRODUCER, SIDE_HERE, WORKERS_MAX};
use super::lock::Lock;
use super::wakers::Wakers;
use super::{Error, error};
use crate::sys::{Lane, Lanes, Line, Mapped, Vouched};

/// A queue. It lies in memory of its own, with all its rings.
pub type Queue = Mapped<Words>;

/// Words of a queue, beside its rings.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Words {
    // Words that all threads read, and that none writes while the queue is used.
    /// Whether the short way of several producers may be used.
    pub is_short_shared: AtomicU32,
    /// Attributes with which the queue was made.
    pub attributes: Attributes,
    /// CPU of each worker.
    pub cpus: [i32; WORKERS_MAX as usize],

    /// Position where several producers post.
    shared_tail: Line<AtomicU64>,
    /// Which workers sleep.
    pub idle: Line<Idle>,
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
    /// Number of submissions that are to be done before exit.
    pub at_exit: AtomicU64,
    /// Number of detached calls that the posting thread made at once and that ended with an error.
    pub errors_at_once: AtomicU64,
    /// Error number of the last detached submission that ended with an error.
    pub last_error: AtomicI32,
    /// Lock for what happens seldom.
    pub lock: Lock,
    /// Not zero: the queue is to end.
    pub stop: AtomicU32,
    /// Counted up in each child of a fork.
    pub epoch: AtomicU32,
    /// Not zero: the queue was copied by a fork, and not used since.
    pub is_stale: AtomicU32,
    lanes: Lanes,
    /// Workers of the queue.
    pub workers: [Worker; WORKERS_MAX as usize],
    /// Thread that starts further workers.
    pub keeper: Keeper,
    /// Wakers of futures, one for each credit.
    pub wakers: Wakers,
}

impl Queue {
    /// Whether several threads use the queue.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.attributes.flags & MULTI_PRODUCER != 0
    }

    /// Whether submissions wait while the queue is full.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        self.attributes.flags & BLOCKING != 0
    }

    /// Whether workers go to Linux.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.attributes.side != SIDE_HERE
    }

    /// Posts, in the ring of a key or in that without: with a full fence behind it.
    pub fn post_in(&self, vouched: Vouched, lane: Option<&Lane>, submission: &Submission) {
        match (self.is_shared(), lane) {
            (false, None) => {
                let Submission { what, ticket, args } = *submission;
                self.ring()
                    .fill(vouched, self.next_position(), |index| args[index])
                    .post(what, ticket);
            }
            (true, None) => self.ring().post_shared(vouched, &self.shared_tail.0, submission),
            (_, Some(lane)) => lane.ring().post_shared(vouched, &lane.tail.0, submission),
        }
    }

    /// The ring of submissions that are done.
    #[must_use]
    pub fn finished(&self) -> Finished<'_> {
        Finished::new(&self.finished_head.0, &self.finished_tail.0, self.finished_entries())
    }

    /// Free credits, or those that came back.
    #[must_use]
    #[inline(always)]
    pub fn credits(&self) -> Credits<'_> {
        Credits::new(&self.credits_top.0, self.links())
    }

    /// For tests: where a piece that workers read lies, and its bytes.
    #[must_use]
    pub fn piece(&self, piece: u32) -> Option<(*const u64, usize)> {
        const fn all<T>(slots: Slots<'_, T>) -> (*const u64, usize) {
            ((&raw const *slots.at(0)).cast(), slots.len() as usize * size_of::<T>())
        }
        const fn one<T>(word: &T) -> (*const u64, usize) {
            ((&raw const *word).cast(), size_of::<u64>())
        }
        let [entries, records, head] = self.pieces();
        match piece {
            0 => Some(entries),
            1 => Some(records),
            2 => Some(all(self.links())),
            3 => Some(all(self.finished_entries())),
            4 => Some(head),
            5 => Some(one(&self.finished_head)),
            6 => Some(one(&self.finished_tail)),
            7 => Some(one(&self.credits_top)),
            _ => None,
        }
    }

    /// Number of submissions that were posted.
    #[must_use]
    pub fn posted(&self) -> u64 {
        let tail = match self.is_shared() {
            true => self.shared_tail.0.load(Ordering::Acquire),
            false => self.tail(),
        };
        let lanes = self.lanes().iter().map(posted_in);
        lanes.fold(self.ring().posted(tail), u64::wrapping_add)
    }

    /// Number of submissions that are done.
    #[must_use]
    pub fn completed(&self) -> u64 {
        let each = self.workers.iter().map(|worker| worker.completed.load(Ordering::Acquire));
        each.fold(0, u64::wrapping_add)
    }

    /// The rings of keys, if something with a key was ever posted.
    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        self.lanes.get()
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
        if self.lanes.make() { Ok(()) } else { error(libc::ENOMEM) }
    }
}

/// Number of submissions that were posted in a lane.
fn posted_in(lane: &Lane) -> u64 {
    lane.ring().posted(lane.tail.0.load(Ordering::Acquire))
}
