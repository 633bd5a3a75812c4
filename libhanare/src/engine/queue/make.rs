//! How a queue is made, with its workers, and how it ends.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::posted::Ticket;

use super::keeper::Keeper;
use super::worker::Worker;
use super::{Queue, Words};
use crate::engine::attributes::{Attributes, SIDE_HERE, WORKERS_MAX};
use crate::engine::lock::Lock;
use crate::engine::wakers::Wakers;
use crate::engine::{Error, IS_NEXT, cpus, error, fork, worker};
use crate::sys::{self, Lanes, Line, Owner};

impl Queue {
    /// Makes a queue, and starts its workers.
    ///
    /// # Errors
    /// EINVAL: a CPU is none of the workers' side. ENOMEM, EMFILE, EAGAIN as of threads.
    pub fn create(
        attributes: Attributes,
        cpus: [i32; WORKERS_MAX as usize],
    ) -> Result<Owner<Words>, Error> {
        fork::prepare()?;
        if attributes.cpus_count > 0 {
            let used = &cpus[..attributes.workers_max as usize];
            cpus::check(used, attributes.side != SIDE_HERE)?;
        }
        let depth = attributes.depth.next_power_of_two() as usize;
        let words = Words {
            is_short_shared: AtomicU32::new(0),
            attributes,
            cpus,
            shared_tail: Line::default(),
            idle: Line::default(),
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
            lanes: Lanes::new(attributes.workers_min as usize, depth),
            workers: [const { Worker::new() }; WORKERS_MAX as usize],
            keeper: Keeper::new(),
            wakers: Wakers::new(depth),
        };
        let Some(queue) = Owner::make(depth, words) else { return error(libc::ENOMEM) };
        queue.fill();
        if let Err(error) = queue.start_workers() {
            Self::end(queue);
            return Err(error);
        }
        fork::enter(&queue);
        Ok(queue)
    }

    /// Makes all rings empty, and gives each credit its first or next ticket. No other thread uses
    /// it.
    fn fill(&self) {
        let tail = self.ring().reset();
        self.reset_producer(tail);
        self.shared_tail.0.store(tail, Ordering::Relaxed);
        self.finished().reset();
        self.idle.0.reset();
        self.armed.0.reset();
        self.credits_top.0.store(0, Ordering::Relaxed);
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
            self.short.set(true);
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
        for lane in self.lanes() {
            lane.tail.0.store(lane.ring().reset(), Ordering::Release);
        }
        self.told.store(-1, Ordering::Relaxed);
        self.room_bell.store(0, Ordering::Relaxed);
        self.at_exit.store(0, Ordering::Relaxed);
        self.start_workers()?;
        self.is_stale.store(0, Ordering::Release);
        Ok(())
    }

    /// Ends the queue, which no thread uses any more.
    ///
    /// # Errors
    /// EDEADLK, and the queue: from one of its workers.
    pub fn destroy(queue: Owner<Words>) -> Result<(), (Error, Owner<Words>)> {
        if worker::is_of(&queue) {
            return Err((Error(libc::EDEADLK), queue));
        }
        fork::leave(&queue);
        Self::end(queue);
        Ok(())
    }

    /// Ends a queue that is not in the list of queues.
    fn end(queue: Owner<Words>) {
        queue.stop.store(1, Ordering::SeqCst);
        queue.keeper.end();
        if queue.is_stale.load(Ordering::Acquire) == 0 {
            worker::end_all(&queue);
        }
        queue.keeper.close();
        sys::close(queue.told.load(Ordering::Relaxed));
    }
}
