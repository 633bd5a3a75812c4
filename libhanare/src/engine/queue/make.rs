//! How a queue is made, with its workers, and how it ends.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::posted::{Entry, FinishedEntry, Record, Ticket};

use super::keeper::Keeper;
use super::lanes::Lane;
use super::own::Own;
use super::pieces::{Line, Pieces, slots};
use super::worker::Worker;
use super::{OWN, Queue, Whole};
use crate::calls::{CLASSES, NONE};
use crate::engine::attributes::{Attributes, SIDE_HERE, WORKERS_MAX};
use crate::engine::lock::Lock;
use crate::engine::wakers::Wakers;
use crate::engine::{Error, IS_NEXT, cpus, error, fork, sys, worker};

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
            keeper: Keeper::new(),
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
