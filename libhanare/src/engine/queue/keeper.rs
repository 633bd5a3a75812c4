//! State of a queue's keeper.

use std::sync::atomic::{AtomicI32, Ordering};

use hanare_ikc::posted::Watch;

use crate::sys::{self, Child, Thread};

/// The keeper of a queue: a thread that starts workers.
#[derive(Debug)]
pub struct Keeper {
    /// State in which the keeper looks for work, or sleeps.
    pub(in crate::engine) watch: Watch,
    pub(in crate::engine) bell: AtomicI32,
    pub(in crate::engine) thread: Thread,
}

impl Keeper {
    /// A keeper whose thread is not started yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { watch: Watch::new(), bell: AtomicI32::new(-1), thread: Thread::none() }
    }

    /// Makes it look, if there is one and a worker is needed.
    pub fn look(&self, needs_worker: impl Fn() -> bool) {
        let bell = self.bell.load(Ordering::Relaxed);
        if bell >= 0 && self.watch.rings(needs_worker) {
            sys::ring(bell);
        }
    }

    /// A worker ends: by `end` another may be started in its place, and the keeper looks if one is
    /// needed.
    pub fn worker_ends(&self, end: impl FnOnce(), needs_worker: impl Fn() -> bool) {
        let bell = self.bell.load(Ordering::Relaxed);
        if self.watch.ends(end, || bell >= 0 && needs_worker()) {
            sys::ring(bell);
        }
    }

    /// Ends it, when the queue is to stop. Workers may ring it until they have ended.
    pub fn end(&self) {
        if self.thread.is_there() {
            sys::ring(self.bell.load(Ordering::Relaxed));
            self.thread.join();
        }
    }

    /// Closes the keeper's bell. The keeper has ended, and all workers.
    pub fn close(&self) {
        sys::close(self.bell.swap(-1, Ordering::Relaxed));
    }

    /// In the child of a fork: it is not there.
    pub fn forget(&self, child: &Child) {
        self.thread.forget(child);
        sys::close(self.bell.swap(-1, Ordering::Relaxed));
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Self::new()
    }
}
