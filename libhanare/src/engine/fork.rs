//! The queues of the process: what becomes of them in the child of a fork, and at exit.
//!
//! A child has none of the parent's workers, and posted work stays the parent's. So the child's
//! queues are empty; they have workers again when it posts something.

use std::sync::atomic::{AtomicU32, Ordering};

use super::queue::worker::Worker;
use super::queue::{Queue, Words};
use super::{Error, bells, error, signal, time, worker};
use crate::sys::{self, AtFork, Child, List};

/// The queues of the process. The lock of the list is held while it changes, and over a fork.
static QUEUES: List<Words> = List::new();
/// Whether the handlers are there.
static IS_PREPARED: AtomicU32 = AtomicU32::new(0);

/// Takes another signal by which workers are interrupted.
///
/// # Errors
/// EBUSY: there is a queue, or was. EINVAL: it is no real-time signal.
pub fn set_signal(number: i32) -> Result<(), Error> {
    let _held = QUEUES.hold();
    if IS_PREPARED.load(Ordering::Relaxed) != 0 {
        return error(libc::EBUSY);
    }
    if !(libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number) {
        return error(libc::EINVAL);
    }
    signal::set(number);
    Ok(())
}

/// Before the first queue: handlers of forks, exit and the signal.
///
/// # Errors
/// ENOMEM, EINVAL.
pub fn prepare() -> Result<(), Error> {
    let _held = QUEUES.hold();
    if IS_PREPARED.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    time::measure();
    if !sys::install_handler(signal::number()) {
        return error(libc::EINVAL);
    }
    let is_done = sys::at_fork::<Handlers>() && sys::at_exit(at_exit);
    if !is_done {
        return error(libc::ENOMEM);
    }
    IS_PREPARED.store(1, Ordering::Relaxed);
    Ok(())
}

/// A queue is there.
pub fn enter(queue: &Queue) {
    QUEUES.hold().enter(queue);
}

/// A queue is about to end.
pub fn leave(queue: &Queue) {
    QUEUES.hold().leave(queue);
}

struct Handlers;

impl AtFork for Handlers {
    fn before() {
        QUEUES.hold_over_fork();
    }

    fn in_parent() {
        drop(QUEUES.reclaim());
    }

    fn in_child(child: &Child) {
        let Some(queues) = QUEUES.reclaim() else { return };
        for queue in queues.iter() {
            queue.is_stale.store(1, Ordering::Release);
            queue.short.set(false);
            queue.is_short_shared.store(0, Ordering::Release);
            queue.epoch.fetch_add(1, Ordering::AcqRel);
            queue.lock.free();
            queue.workers.iter().for_each(|worker| Worker::forget(worker, child));
            queue.keeper.forget(child);
            queue.forget_threads(child);
            sys::close(queue.told.swap(-1, Ordering::Relaxed));
        }
        bells::forget_all();
        worker::forget_self();
    }
}

/// Waits, before the program ends, until submissions with HANARE_AT_EXIT are done. A worker that
/// ends the program does not wait for its own queue.
extern "C" fn at_exit() {
    let is_waited_for = |queue: &Queue| {
        queue.look_for_worker();
        queue.at_exit.load(Ordering::Acquire) != 0
            && queue.is_stale.load(Ordering::Acquire) == 0
            && !worker::is_of(queue)
    };
    // The lock is free while this sleeps: what it waits for may fork.
    while QUEUES.hold().iter().any(is_waited_for) {
        sys::sleep_ns(50_000);
    }
}
