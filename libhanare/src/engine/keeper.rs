//! The keeper of a queue whose number of workers changes: starts one more where all are busy and nothing has been taken for a
//! while although something waits. It sleeps until somebody posts while all are busy, so a queue with idle workers costs nothing.
//! Workers beyond the least number end by themselves when they have been idle for long.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use hanare_ikc::posted::Watch;

use super::queue::Queue;
use super::{Error, sys, worker};

/// How long something waits before one more worker is started.
const WAIT_NS: u64 = 1_000_000;

/// The keeper of a queue.
#[derive(Debug)]
pub struct Keeper {
    /// Whether it looks.
    watch: Watch,
    bell: AtomicI32,
    thread: AtomicU64,
    queue: AtomicPtr<Queue>,
}

impl Keeper {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            watch: Watch::new(),
            bell: AtomicI32::new(-1),
            thread: AtomicU64::new(0),
            queue: AtomicPtr::new(null_mut()),
        }
    }

    /// Starts it.
    pub fn start(&self, queue: &Queue) -> Result<(), Error> {
        let bell = sys::eventfd();
        if bell < 0 {
            return Err(Error(-bell));
        }
        self.watch.reset();
        self.bell.store(bell, Ordering::Relaxed);
        let queue = &raw const *queue;
        self.queue.store(queue.cast_mut(), Ordering::Release);
        // SAFETY: the queue ends after its keeper.
        let thread = unsafe { sys::start_thread(main, queue.cast_mut().cast()) };
        self.thread.store(thread.map_err(|error| Error(-error))?, Ordering::Release);
        Ok(())
    }

    /// Makes it look, if there is one and something waits while all are busy.
    pub fn look(&self, queue: &Queue) {
        let bell = self.bell.load(Ordering::Relaxed);
        if bell >= 0 && self.watch.rings(|| needs_more(queue)) {
            sys::ring(bell);
        }
    }

    /// A worker ends: by `end` another may be started in its place, and the keeper looks if one is needed.
    pub fn worker_ends(&self, queue: &Queue, end: impl FnOnce()) {
        let bell = self.bell.load(Ordering::Relaxed);
        if self.watch.ends(end, || bell >= 0 && needs_more(queue)) {
            sys::ring(bell);
        }
    }

    /// Ends it, when the queue is to stop. Workers may ring it until they have ended.
    pub fn end(&self) {
        let thread = self.thread.swap(0, Ordering::AcqRel);
        if thread != 0 {
            sys::ring(self.bell.load(Ordering::Relaxed));
            sys::join(thread);
        }
    }

    /// It has ended, and all workers.
    pub fn close(&self) {
        sys::close(self.bell.swap(-1, Ordering::Relaxed));
    }

    /// In the child of a fork: it is not there.
    pub fn forget(&self) {
        self.thread.store(0, Ordering::Relaxed);
        sys::close(self.bell.swap(-1, Ordering::Relaxed));
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Self::new()
    }
}

fn next_worker(queue: &Queue) -> Option<u32> {
    (0..queue.attributes.workers_max).find(|&index| queue.workers[index as usize].is_none())
}

fn needs_more(queue: &Queue) -> bool {
    queue.idle.0.are_all_busy() && !queue.ring().is_empty() && next_worker(queue).is_some()
}

extern "C" fn main(queue: *mut c_void) -> *mut c_void {
    // SAFETY: it ends after its keeper.
    let queue = unsafe { &*queue.cast::<Queue>() };
    let keeper = &queue.keeper;
    let bell = keeper.bell.load(Ordering::Relaxed);
    while sys::await_ring(bell) {
        let mut taken = queue.ring().taken();
        while queue.stop.load(Ordering::Acquire) == 0 {
            sys::sleep_ns(WAIT_NS);
            let has_moved = taken != queue.ring().taken();
            taken = queue.ring().taken();
            if needs_more(queue) {
                if let Some(index) = next_worker(queue).filter(|_| !has_moved) {
                    // Without another one those that there are go on.
                    let _ = worker::start(queue, index);
                }
                continue;
            }
            if keeper.watch.sleeps(|| needs_more(queue)) {
                break;
            }
        }
        if queue.stop.load(Ordering::Acquire) != 0 {
            break;
        }
    }
    null_mut()
}
