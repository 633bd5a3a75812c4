//! Workers: threads that take what was posted, and execute it.
//!
//! A worker polls for a while when there is nothing to do, then it sleeps in the read of an eventfd
//! of its own, which on Linux costs the LWK nothing.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use hanare_ikc::posted::{Begun, Ticket};

use super::queue::worker::{ENDED, HERE, LIVES, NONE, REMOTE, REMOTE_RUNG, Worker, be_remote};
use super::queue::{Queue, Words};
use super::time::ticks_of_ns;
use super::what::What;
use super::{Error, bells, error, signal};
use crate::sys::{self, Task};

thread_local! {
    /// The worker that this thread is, of the queue that it was started for.
    static SELF: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Whether the calling thread is a worker of a queue.
#[must_use]
pub fn is_of(queue: &Queue) -> bool {
    SELF.get().is_some() && sys::is_thread_of(queue)
}

/// Calls a function with the queue of which the calling thread is a worker, and that worker.
pub fn with_self<R>(function: impl FnOnce(&Queue, &Worker) -> R) -> Option<R> {
    let index = SELF.get()?;
    sys::with_own(|queue: &sys::Mapped<Words>| function(queue, &queue.workers[index as usize]))
}

/// In the child of a fork: the calling thread is no worker.
pub fn forget_self() {
    SELF.set(None);
    be_remote(false);
}

/// Starts a worker, of which there is no thread. One thread at a time does so for a queue.
///
/// # Errors
/// ENOMEM, EMFILE, EAGAIN.
pub fn start(queue: &Queue, index: u32) -> Result<(), Error> {
    let worker = &queue.workers[index as usize];
    if worker.state.load(Ordering::Acquire) == ENDED {
        worker.bury();
    }
    if worker.bell.load(Ordering::Relaxed) < 0 {
        let bell = sys::eventfd();
        if bell < 0 {
            return Err(Error(-bell));
        }
        worker.bell.store(bell, Ordering::Relaxed);
    }
    if queue.is_remote() && !worker.area.make() {
        return error(libc::ENOMEM);
    }
    worker.state.store(LIVES, Ordering::Release);
    worker.thread.start(queue, index, main).map_err(|error| {
        worker.state.store(NONE, Ordering::Relaxed);
        Error(-error)
    })
}

/// Ends all workers of a queue that is to stop: what they execute is interrupted.
pub fn end_all(queue: &Queue) {
    for worker in &queue.workers {
        let mut pause_ns = 0;
        while worker.state.load(Ordering::Acquire) == LIVES {
            let current = worker.current.load(Ordering::Acquire);
            if let Some(ticket) = Ticket::from_word(current) {
                let _ = queue.record(ticket.index()).cancel(ticket);
                interrupt(queue, worker, ticket);
            }
            worker.wake();
            sys::sleep_ns(pause_ns);
            pause_ns = (pause_ns * 2).clamp(10_000, 1_000_000);
        }
        if worker.state.load(Ordering::Acquire) == ENDED {
            worker.bury();
        }
        sys::close(worker.bell.swap(-1, Ordering::Relaxed));
    }
}

/// Interrupts a worker if it executes this ticket, and a cancellation has asked for its end.
pub fn interrupt(queue: &Queue, worker: &Worker, ticket: Ticket) {
    let _held = worker.interrupting.hold();
    let is_current = worker.current.load(Ordering::Acquire) == ticket.word();
    if is_current && queue.record(ticket.index()).is_asked(ticket) {
        worker.asked.store(1, Ordering::SeqCst);
        sys::interrupt(worker.number.load(Ordering::Relaxed), signal::number());
    }
}

fn main(queue: &Queue, index: u32) {
    let worker = &queue.workers[index as usize];
    sys::block_signals(signal::number());
    SELF.set(Some(index));
    worker.number.store(sys::thread_id(), Ordering::Relaxed);
    let cpu = queue.cpus[index as usize];
    let is_rung = worker.area.is_there() && sys::be_rung_by(worker.bell.load(Ordering::Relaxed));
    let is_here = worker.area.on_linux(cpu, |is_remote| {
        if !is_remote {
            sys::stay_on(cpu);
        }
        let side = match (is_remote, is_rung) {
            (false, _) => HERE,
            (true, false) => REMOTE,
            (true, true) => REMOTE_RUNG,
        };
        be_remote(is_remote);
        worker.side.store(side, Ordering::Release);
        let epoch = queue.epoch.load(Ordering::Relaxed);
        let is_here = Loop { queue, worker, index, epoch }.run();
        if is_remote {
            worker.side.store(REMOTE, Ordering::Release);
        }
        is_here
    });
    if !is_here {
        // The function has forked, and returned in the child. No thread there waits for it: its
        // thread ends as the last one of the program would, and does not wait for workers that the
        // child has started.
        sys::exit(0);
    }
    queue
        .keeper
        .worker_ends(|| worker.state.store(ENDED, Ordering::Release), || queue.needs_worker());
}

/// A worker at work.
struct Loop<'a> {
    queue: &'a Queue,
    worker: &'a Worker,
    index: u32,
    epoch: u32,
}

impl Loop<'_> {
    /// Executes submissions until the worker's end. `false`: this is the child of a fork, in which
    /// the queue has other workers.
    fn run(&self) -> bool {
        let is_alone = self.queue.attributes.workers_max == 1;
        loop {
            while let Some(task) = self.take() {
                if !self.execute(&task) {
                    return false;
                }
            }
            if self.is_stopped() || !self.wait() {
                return true;
            }
            if !is_alone && self.execute_after_wait() == Some(false) {
                return false;
            }
        }
    }

    /// The first that it takes after it has polled or slept beside others. `None`: there is
    /// nothing. The rest as of [`run`](Self::run).
    #[cold]
    #[inline(never)] // the usual loop has no more to keep than it needs
    fn execute_after_wait(&self) -> Option<bool> {
        let task = self.take()?;
        self.look_for_more();
        Some(self.execute(&task))
    }

    /// Wakes another worker if more was posted. The submission just taken may last, or wait for one
    /// behind it, while its poster has left the ring to this worker.
    fn look_for_more(&self) {
        if self.queue.idle.0.leaves_more(|| self.queue.ring().is_empty()) {
            self.queue.wake_sleeper();
        }
    }

    fn is_stopped(&self) -> bool {
        self.queue.stop.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn take(&self) -> Option<Task> {
        if self.is_stopped() {
            return None;
        }
        let lane = self.queue.lanes().get(self.index as usize);
        lane.and_then(|lane| lane.ring().take()).or_else(|| self.queue.ring().take())
    }

    fn is_empty(&self) -> bool {
        let lane = self.queue.lanes().get(self.index as usize);
        self.queue.ring().is_empty()
            && lane.is_none_or(|lane| lane.ring().is_empty())
            && !self.is_stopped()
    }

    /// `false`: this is the child of a fork.
    #[inline(always)]
    fn execute(&self, task: &Task) -> bool {
        let what = What(task.what());
        let Some(ticket) = Ticket::from_word(task.ticket()) else {
            self.count();
            return true;
        };
        self.worker.current.store(ticket.word(), Ordering::Release);
        match self.queue.record(ticket.index()).begin(ticket) {
            Begun::Run => {
                let result = task.execute(&self.worker.asked);
                if self.queue.epoch.load(Ordering::Relaxed) != self.epoch {
                    return false;
                }
                self.complete(what, ticket, result);
            }
            Begun::Cancelled => {
                let result = -i64::from(libc::ECANCELED);
                let record = self.queue.record(ticket.index());
                match record.complete_cancelled(ticket, result as u64) {
                    Some(completed) => {
                        bells::ring(completed.bell);
                        self.tell(what, ticket);
                    }
                    None => self.give_back(ticket),
                }
                self.done(what);
            }
            Begun::Abandoned => {
                self.give_back(ticket);
                self.done(what);
            }
            Begun::Forged => self.count(),
        }
        true
    }

    #[inline(always)]
    fn complete(&self, what: What, ticket: Ticket, result: i64) {
        let completed = self.queue.record(ticket.index()).complete(ticket, result as u64);
        if completed.is_asked {
            self.settle();
        }
        if what.has_flags() {
            if what.is_detached() {
                if what.is_error(result) {
                    self.worker.errors.fetch_add(1, Ordering::Relaxed);
                    self.queue.last_error.store(-result as i32, Ordering::Relaxed);
                }
                self.give_back(ticket);
            }
            self.tell(what, ticket);
        }
        if completed.bell != 0 {
            bells::ring(completed.bell);
        }
        self.done(what);
    }

    /// Tells `hanare_next` of a result that is for it, and the future that waits for this one by a
    /// waker.
    fn tell(&self, what: What, ticket: Ticket) {
        if what.is_for_next() {
            self.queue.finished().push(ticket.index());
            if self.queue.armed.0.tells() {
                sys::ring(self.queue.told.load(Ordering::Relaxed));
            }
        }
        if what.has_waker() {
            self.queue.wakers.wake(ticket.index());
        }
    }

    fn give_back(&self, ticket: Ticket) {
        self.queue.give(ticket.index());
    }

    fn done(&self, what: What) {
        if what.is_before_exit() {
            self.queue.at_exit.fetch_sub(1, Ordering::Release);
        }
        self.count();
    }

    fn count(&self) {
        let completed = self.worker.completed.load(Ordering::Relaxed);
        self.worker.completed.store(completed + 1, Ordering::Release);
    }

    /// Lets an interruption that has come, or is about to come, happen now and not in the next
    /// call.
    #[cold]
    fn settle(&self) {
        self.worker.current.store(0, Ordering::Release);
        drop(self.worker.interrupting.hold());
        self.worker.asked.store(0, Ordering::Relaxed);
        sys::settle();
    }

    /// Nothing is to be done. `false`: the worker ends.
    fn wait(&self) -> bool {
        self.worker.current.store(0, Ordering::Release);
        let (queue, attributes) = (self.queue, &self.queue.attributes);
        let is_alone = attributes.workers_max == 1;
        let longest = ticks_of_ns(attributes.spin_ns.into());
        let start = sys::ticks();
        let window = self.worker.patience.window(longest);
        if !is_alone {
            queue.idle.0.begin_polling(self.index);
        }
        let mut has_found = false;
        while !has_found && sys::ticks().wrapping_sub(start) < window {
            for _ in 0..16 {
                std::hint::spin_loop();
                has_found |= !self.is_empty();
                if has_found {
                    break;
                }
            }
        }
        let goes_on = if has_found {
            if !is_alone {
                queue.idle.0.end_polling(self.index);
            }
            true
        } else {
            self.sleep()
        };
        let waited = sys::ticks().wrapping_sub(start);
        self.worker.patience.waited(waited, longest, ticks_of_ns(WAKE_UP_NS));
        goes_on
    }

    fn sleep(&self) -> bool {
        let (idle, bell) = (&self.queue.idle.0, self.worker.bell.load(Ordering::Relaxed));
        match idle.prepare_sleep(self.index, || self.is_empty()) {
            Ok(false) => return true,
            Ok(true) => {
                let attributes = &self.queue.attributes;
                let idle_ns = u64::from(attributes.idle_ms) * 1_000_000;
                let is_spare = self.index >= attributes.workers_min;
                if is_spare && !sys::is_readable(bell, idle_ns) && idle.end_sleep(self.index) {
                    // No thread wakes it any more.
                    return !self.is_empty();
                }
            }
            Err(_) => {}
        }
        if !sys::await_ring(bell) {
            // The program has closed the descriptor.
            sys::sleep_ns(1_000_000);
        }
        // The thread that rings it has taken it out already. A late ring of the LWK may have been
        // for a worker that has ended.
        let _ = idle.wake(self.index);
        true
    }
}

/// Longest time of a wake-up where the woken side has a CPU at once.
const WAKE_UP_NS: u64 = 50_000;
