//! A queue: its words, how it is made, and how it ends.

mod lanes;
mod own;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::posted::{
    Armed, Credits, Entry, Finished, FinishedEntry, Idle, Record, RecordRef, Slots, Submission,
    Submissions, Ticket,
};

pub use lanes::Lane;
use own::Own;

use super::attributes::{Attributes, BLOCKING, MULTI_PRODUCER, SIDE_HERE, WORKERS_MAX};
use super::lock::Lock;
use super::wakers::Wakers;
use super::worker::Worker;
use super::{Error, IS_NEXT, cpus, error, fork, keeper, sys, worker};
use crate::calls::{CLASSES, Classes, NONE};

/// A cache line of its own, and the one that processors fetch with it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Line<T>(pub T);

/// Words of the one producer of a queue, at which nobody else looks.
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
    /// Of each credit the ticket that was given out, or is the next, where there are several producers.
    shared_live: Slots<'static, AtomicU64>,
    links: Slots<'static, AtomicU32>,
    finished_entries: Slots<'static, FinishedEntry>,
    /// What it was made with.
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
    /// Whether somebody is to be told of what is finished.
    pub armed: Line<Armed>,
    /// By which he is told; -1: not made yet.
    pub told: AtomicI32,
    /// The bell of somebody who waits for room; 0: nobody.
    pub room_bell: AtomicU32,
    /// How many are to be done before exit.
    pub at_exit: AtomicU64,
    /// Calls made by who posts them that ended with an error, and the last error.
    pub errors_at_once: AtomicU64,
    /// See `errors_at_once`.
    pub last_error: AtomicI32,
    /// For what happens seldom.
    pub lock: Lock,
    /// It is to end.
    pub stop: AtomicU32,
    /// Counted up in each child of a fork.
    pub epoch: AtomicU32,
    /// It was copied by a fork, and not used since.
    pub is_stale: AtomicU32,
    lanes: AtomicPtr<Lane>,
    /// Its workers.
    pub workers: [Worker; WORKERS_MAX as usize],
    /// What starts further workers.
    pub keeper: keeper::Keeper,
    /// Of futures.
    pub wakers: Wakers,
    /// The next one of the process.
    pub next: AtomicPtr<Queue>,
    bytes: usize,
}

// SAFETY: all that changes is atomic; what is one producer's is so by contract of the functions that use it.
unsafe impl Sync for Queue {}
// SAFETY: likewise.
unsafe impl Send for Queue {}

/// Takes pieces of a mapping, one after the other.
struct Pieces {
    next: usize,
    end: usize,
}

impl Pieces {
    /// So many of these, each made by `make`. Zeroed memory was mapped for them.
    fn take<T>(&mut self, count: usize, make: impl Fn(usize) -> T) -> NonNull<T> {
        self.next = self.next.next_multiple_of(align_of::<T>().max(128));
        let first = std::ptr::with_exposed_provenance_mut::<T>(self.next);
        self.next += count * size_of::<T>();
        assert!(self.next <= self.end, "a queue has all its pieces");
        for index in 0..count {
            // SAFETY: it lies in the mapping, and is nobody else's.
            unsafe { first.add(index).write(make(index)) };
        }
        NonNull::new(first).expect("a mapping does not lie at zero")
    }
}

/// # Safety
/// There are so many, for as long as the queue lasts.
const unsafe fn slots<T>(first: NonNull<T>, count: usize) -> Slots<'static, T> {
    // SAFETY: the caller's.
    Slots::new(unsafe { std::slice::from_raw_parts(first.as_ptr(), count) })
}

/// A queue begins with its words.
#[repr(C, align(128))]
struct Whole(Queue);

/// Where what one producer keeps of each credit lies behind the start of the queue.
const OWN: usize = size_of::<Whole>();
const _: () = assert!(size_of::<Own>() == size_of::<Record>());

/// Bytes of all pieces for so many credits.
const fn bytes_for(depth: usize) -> usize {
    let each = size_of::<Entry>()
        + size_of::<Record>()
        + size_of::<Own>()
        + size_of::<AtomicU64>()
        + size_of::<AtomicU32>()
        + size_of::<FinishedEntry>();
    (OWN + depth * each + 16 * 128).next_multiple_of(4096)
}

impl Queue {
    /// Makes a queue, and starts its workers.
    ///
    /// # Errors
    /// EINVAL: a CPU is none of the workers' side. ENOMEM, EMFILE, EAGAIN as of threads.
    pub fn create(
        attributes: Attributes,
        cpus: [i32; WORKERS_MAX as usize],
    ) -> Result<NonNull<Self>, Error> {
        fork::prepare()?;
        if attributes.cpus_count > 0 {
            let used = &cpus[..attributes.workers_max as usize];
            cpus::check(used, attributes.side != SIDE_HERE)?;
        }
        let depth = attributes.depth.next_power_of_two() as usize;
        let bytes = bytes_for(depth);
        let Some(start) = sys::map(bytes) else { return error(libc::ENOMEM) };
        let start_address = start.as_ptr().expose_provenance();
        let mut pieces = Pieces { next: start_address, end: start_address + bytes };
        let place = pieces.take::<MaybeUninit<Whole>>(1, |_| MaybeUninit::uninit());
        let own = pieces.take(depth, |_| Own::default());
        assert_eq!(own.addr().get() - place.addr().get(), OWN, "it follows the queue");
        let entries = pieces.take(depth, |_| Entry::new());
        let records = pieces.take(depth, |index| Record::new(index as u16));
        let shared_live = pieces.take(depth, |_| AtomicU64::new(0));
        let links = pieces.take(depth, |_| AtomicU32::new(0));
        let finished = pieces.take(depth, |_| FinishedEntry::new());
        // SAFETY: each has `depth` pieces, which last as long as the queue.
        let (entries, shared_live, links, finished_entries) = unsafe {
            let (a, b) = (slots(entries, depth), slots(shared_live, depth));
            (a, b, slots(links, depth), slots(finished, depth))
        };
        let queue = Self {
            short: AtomicPtr::new((&raw const NONE).cast_mut()),
            offsets: (depth as u64 - 1) * size_of::<Own>() as u64,
            entries,
            records,
            is_short_shared: AtomicU32::new(0),
            shared_live,
            links,
            finished_entries,
            attributes,
            cpus,
            producer: Line::default(),
            shared_tail: Line::default(),
            idle: Line::default(),
            head: Line::default(),
            credits_top: Line::default(),
            finished_head: Line::default(),
            finished_tail: Line::default(),
            armed: Line::default(),
            told: AtomicI32::new(-1),
            room_bell: AtomicU32::new(0),
            at_exit: AtomicU64::new(0),
            errors_at_once: AtomicU64::new(0),
            last_error: AtomicI32::new(0),
            lock: Lock::new(),
            stop: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            is_stale: AtomicU32::new(0),
            lanes: AtomicPtr::new(null_mut()),
            workers: [const { Worker::new() }; WORKERS_MAX as usize],
            keeper: keeper::Keeper::new(),
            wakers: Wakers::new(),
            next: AtomicPtr::new(null_mut()),
            bytes,
        };
        let place = place.cast::<Self>();
        // SAFETY: the piece is as large, and nobody else's.
        let queue = unsafe {
            place.write(queue);
            place.as_ref()
        };
        queue.fill();
        if let Err(error) = queue.start_workers() {
            // SAFETY: nobody else knows of it.
            unsafe { Self::end(place) };
            return Err(error);
        }
        fork::enter(queue);
        Ok(place)
    }

    /// Makes all rings empty, and gives each credit its first or next ticket. Nobody else uses it.
    fn fill(&self) {
        let tail = self.ring().reset();
        self.producer.0.tail.set(tail);
        self.shared_tail.0.store(tail, Ordering::Relaxed);
        self.finished().reset();
        self.idle.0.reset();
        self.armed.0.reset();
        self.credits_top.0.store(0, Ordering::Relaxed);
        self.producer.0.free_bytes.set(0);
        self.producer.0.owed.set(0);
        for index in (0..self.depth()).rev() {
            let index = index as u16;
            let zero = Ticket::zero(index);
            let ticket = Ticket::from_word(self.live(index) & !IS_NEXT).unwrap_or(zero);
            self.record(index).reset(ticket);
            self.set_live(index, ticket.next().word());
            if self.is_shared() {
                self.credits().give(index);
            } else {
                self.push_free(ticket.next());
            }
        }
    }

    fn start_workers(&self) -> Result<(), Error> {
        for index in 0..self.attributes.workers_min {
            worker::start(self, index)?;
        }
        if self.attributes.workers_max > self.attributes.workers_min {
            self.keeper.start(self)?;
        } else if self.is_shared() {
            self.is_short_shared.store(1, Ordering::Release);
        } else {
            self.short.store((&raw const CLASSES).cast_mut(), Ordering::Release);
        }
        Ok(())
    }

    /// In the child of a fork, where it has no workers: makes it as new, with workers.
    ///
    /// # Errors
    /// As of [`Queue::create`].
    #[cold]
    pub fn revive(&self) -> Result<(), Error> {
        let _held = self.lock.hold();
        if self.is_stale.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.fill();
        let lanes = self.lanes.load(Ordering::Relaxed);
        if !lanes.is_null() {
            self.lanes().iter().for_each(Lane::reset);
        }
        self.told.store(-1, Ordering::Relaxed);
        self.room_bell.store(0, Ordering::Relaxed);
        self.at_exit.store(0, Ordering::Relaxed);
        self.start_workers()?;
        self.is_stale.store(0, Ordering::Release);
        Ok(())
    }

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

    /// Ends it.
    ///
    /// # Errors
    /// EDEADLK: from one of its workers.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub unsafe fn destroy(queue: NonNull<Self>) -> Result<(), Error> {
        // SAFETY: it lasts until `end`.
        let this = unsafe { queue.as_ref() };
        if worker::is_of(this) {
            return error(libc::EDEADLK);
        }
        fork::leave(this);
        // SAFETY: the caller's.
        unsafe { Self::end(queue) };
        Ok(())
    }

    /// # Safety
    /// As of [`Queue::destroy`]; it is not in the list of queues.
    unsafe fn end(queue: NonNull<Self>) {
        // SAFETY: it lasts until it is unmapped below.
        let this = unsafe { queue.as_ref() };
        this.stop.store(1, Ordering::SeqCst);
        this.keeper.end();
        if this.is_stale.load(Ordering::Acquire) == 0 {
            worker::end_all(this);
        }
        this.keeper.close();
        sys::close(this.told.load(Ordering::Relaxed));
        let (lanes, lanes_bytes) = (this.lanes.load(Ordering::Relaxed), this.lanes_bytes());
        let bytes = this.bytes;
        this.wakers.end();
        // SAFETY: the workers have ended, and the caller says that nobody else uses it.
        unsafe {
            if let Some(lanes) = NonNull::new(lanes) {
                sys::unmap(lanes.cast(), lanes_bytes);
            }
            sys::unmap(queue.cast(), bytes);
        }
    }
}
