//! The keeper of a queue whose number of workers changes: starts one more where all are busy and
//! nothing has been taken for a while although something waits. It sleeps until a thread posts
//! while all are busy, so a queue with idle workers costs nothing. Workers beyond the least number
//! end by themselves when they have been idle for long.

use std::sync::atomic::Ordering;

use super::queue::Queue;
use super::queue::keeper::Keeper;
use super::{Error, worker};
use crate::sys;

/// How long something waits before one more worker is started.
const WAIT_NS: u64 = 1_000_000;

impl Keeper {
    /// Starts the keeper's thread.
    pub fn start(&self, queue: &Queue) -> Result<(), Error> {
        let bell = sys::eventfd();
        if bell < 0 {
            return Err(Error(-bell));
        }
        self.watch.reset();
        self.bell.store(bell, Ordering::Relaxed);
        self.thread.start(queue, 0, main).map_err(|error| Error(-error))
    }
}

fn main(queue: &Queue, _: u32) {
    let keeper = &queue.keeper;
    let bell = keeper.bell.load(Ordering::Relaxed);
    while sys::await_ring(bell) {
        let mut taken = queue.ring().taken();
        while queue.stop.load(Ordering::Acquire) == 0 {
            sys::sleep_ns(WAIT_NS);
            let has_moved = taken != queue.ring().taken();
            taken = queue.ring().taken();
            if queue.needs_worker() {
                if let Some(index) = queue.next_worker().filter(|_| !has_moved) {
                    // Without another one those that there are go on.
                    let _ = worker::start(queue, index);
                }
                continue;
            }
            if keeper.watch.sleeps(|| queue.needs_worker()) {
                break;
            }
        }
        if queue.stop.load(Ordering::Acquire) != 0 {
            break;
        }
    }
}
