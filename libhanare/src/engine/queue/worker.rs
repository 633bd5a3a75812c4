//! State of each worker of a queue, and operations of other threads on a worker: waking it, and
//! waiting for its end.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use hanare_ikc::Patience;

use crate::engine::lock::Lock;
use crate::sys::{self, Area, Child, Thread};

/// State of a worker without a thread.
pub(in crate::engine) const NONE: u32 = 0;
/// State of a worker that starts or runs.
pub(in crate::engine) const LIVES: u32 = 1;
/// State of a worker that has ended by itself, and is to be joined.
pub(in crate::engine) const ENDED: u32 = 2;

/// Side of a worker that is not known yet.
pub(in crate::engine) const UNKNOWN: u32 = 0;
/// Side of a worker that runs where the program runs.
pub(in crate::engine) const HERE: u32 = 1;
/// Side of a worker that runs on Linux beside an LWK.
pub(in crate::engine) const REMOTE: u32 = 2;
/// [`REMOTE`], and threads on the LWK ring the worker by an interrupt.
pub(in crate::engine) const REMOTE_RUNG: u32 = 3;

/// One worker of a queue.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Worker {
    pub(in crate::engine) state: AtomicU32,
    /// Side on which the worker runs: not known yet, here, or on Linux beside an LWK.
    pub(in crate::engine) side: AtomicU32,
    pub(in crate::engine) thread: Thread,
    /// Number of the worker's thread, as Linux numbers threads.
    pub number: AtomicI32,
    /// The eventfd that wakes the worker; -1: none.
    pub(in crate::engine) bell: AtomicI32,
    pub(in crate::engine) area: Area,
    /// The ticket of the submission that the worker executes; 0: none.
    pub current: AtomicU64,
    /// Number of submissions that the worker has executed or thrown away.
    pub completed: AtomicU64,
    /// Number of submissions with HANARE_DETACH that ended with an error.
    pub errors: AtomicU64,
    /// Not zero: the submission that the worker executes is to end.
    pub(in crate::engine) asked: AtomicU32,
    /// Held while another thread interrupts the worker, so that the interruption does not outlast
    /// the submission that it is for.
    pub interrupting: Lock,
    pub(in crate::engine) patience: Patience,
}

thread_local! {
    /// Whether this thread is a worker on Linux beside an LWK.
    static IS_REMOTE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is a worker on Linux beside an LWK from now on (`true`), where a `write` is a
/// call of Linux' and what the LWK serves is dear; or it is none.
pub fn be_remote(is_remote: bool) {
    IS_REMOTE.set(is_remote);
}

impl Worker {
    /// A worker whose thread is not started yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(NONE),
            side: AtomicU32::new(UNKNOWN),
            thread: Thread::none(),
            number: AtomicI32::new(0),
            bell: AtomicI32::new(-1),
            area: Area::none(),
            current: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            interrupting: Lock::new(),
            patience: Patience::new(),
        }
    }

    /// Whether the worker has no thread, so that one could be started.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.state.load(Ordering::Acquire) != LIVES
    }

    /// Whether the worker runs on Linux beside an LWK: waits until that is known.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        while self.state.load(Ordering::Acquire) == LIVES
            && self.side.load(Ordering::Acquire) == UNKNOWN
        {
            sys::sleep_ns(20_000);
        }
        matches!(self.side.load(Ordering::Acquire), REMOTE | REMOTE_RUNG)
    }

    /// Makes it go on, where it sleeps and was taken from those that do.
    pub fn wake(&self) {
        let side = self.side.load(Ordering::Acquire);
        if side == REMOTE_RUNG
            && !IS_REMOTE.get()
            && sys::ring_thread(self.number.load(Ordering::Relaxed))
        {
            return;
        }
        sys::ring(self.bell.load(Ordering::Relaxed));
    }

    /// In the child of a fork: it is not there.
    pub fn forget(&self, child: &Child) {
        self.thread.forget(child);
        self.area.forget(child);
        sys::close(self.bell.swap(-1, Ordering::Relaxed));
        self.state.store(NONE, Ordering::Relaxed);
        self.side.store(UNKNOWN, Ordering::Relaxed);
        self.current.store(0, Ordering::Relaxed);
        self.completed.store(0, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.interrupting.free();
    }

    /// Waits for its end, and gives back what it had.
    pub(in crate::engine) fn bury(&self) {
        self.thread.join();
        self.state.store(NONE, Ordering::Relaxed);
        self.side.store(UNKNOWN, Ordering::Relaxed);
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}
