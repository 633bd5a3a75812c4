//! The queues of the process: what becomes of them in the child of a fork, and at exit.
//!
//! A child has none of the parent's workers, and what was posted is the parent's. So its queues are empty; they have workers again
//! when it posts something.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::lock::Lock;
use super::queue::Queue;
use super::queue::worker::Worker;
use super::{Error, bells, error, signal, sys, time, worker};
use crate::calls::NONE;

static QUEUES: AtomicPtr<Queue> = AtomicPtr::new(null_mut());
/// Lock of the list of queues: held while the list changes, and over a fork.
static LOCK: Lock = Lock::new();
/// Whether the handlers are there.
static IS_PREPARED: AtomicU32 = AtomicU32::new(0);
/// Takes another signal by which workers are interrupted.
///
/// # Errors
/// EBUSY: there is a queue, or was. EINVAL: it is no real-time signal.
pub fn set_signal(number: i32) -> Result<(), Error> {
    let _held = LOCK.hold();
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
    let _held = LOCK.hold();
    if IS_PREPARED.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    time::measure();
    if !sys::install_handler(signal::number()) {
        return error(libc::EINVAL);
    }
    // SAFETY: the functions last as long as the program: a library that has threads is not unloaded.
    let is_done = unsafe {
        libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0
            && libc::atexit(at_exit) == 0
    };
    if !is_done {
        return error(libc::ENOMEM);
    }
    IS_PREPARED.store(1, Ordering::Relaxed);
    Ok(())
}

fn each(f: impl Fn(&Queue)) {
    let mut next = QUEUES.load(Ordering::Acquire);
    // SAFETY: what is in the list has not ended.
    while let Some(queue) = unsafe { next.as_ref() } {
        f(queue);
        next = queue.next.load(Ordering::Relaxed);
    }
}

fn any(f: impl Fn(&Queue) -> bool) -> bool {
    let _held = LOCK.hold();
    let found = Cell::new(false);
    each(|queue| found.set(found.get() | f(queue)));
    found.get()
}

/// A queue is there.
pub fn enter(queue: &Queue) {
    let _held = LOCK.hold();
    queue.next.store(QUEUES.load(Ordering::Relaxed), Ordering::Relaxed);
    QUEUES.store((&raw const *queue).cast_mut(), Ordering::Release);
}

/// A queue is about to end.
pub fn leave(queue: &Queue) {
    let _held = LOCK.hold();
    let mut place = &QUEUES;
    loop {
        let next = place.load(Ordering::Relaxed);
        // SAFETY: what is in the list has not ended.
        let Some(here) = (unsafe { next.as_ref() }) else { return };
        if std::ptr::eq(here, queue) {
            place.store(here.next.load(Ordering::Relaxed), Ordering::Relaxed);
            return;
        }
        place = &here.next;
    }
}

extern "C" fn before_fork() {
    LOCK.take();
}

extern "C" fn in_parent() {
    LOCK.free();
}

extern "C" fn in_child() {
    each(|queue| {
        queue.is_stale.store(1, Ordering::Release);
        queue.short.store((&raw const NONE).cast_mut(), Ordering::Release);
        queue.is_short_shared.store(0, Ordering::Release);
        queue.epoch.fetch_add(1, Ordering::AcqRel);
        queue.lock.free();
        queue.workers.iter().for_each(Worker::forget);
        queue.keeper.forget();
        sys::close(queue.told.swap(-1, Ordering::Relaxed));
    });
    bells::forget_all();
    worker::forget_self();
    LOCK.free();
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
    while any(is_waited_for) {
        sys::sleep_ns(50_000);
    }
}
