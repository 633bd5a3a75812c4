//! Wake-ups when something was posted, or when a credit has come back: of a worker, of the keeper,
//! or of a thread that waits for room.

use std::sync::atomic::Ordering;

use super::Queue;
use crate::engine::bells;

impl Queue {
    /// The first worker of which there is no thread.
    #[must_use]
    pub fn next_worker(&self) -> Option<u32> {
        let is_none = |index: &u32| self.workers[*index as usize].is_none();
        (0..self.attributes.workers_max).find(is_none)
    }

    /// Whether one more worker is to be started: something waits, all workers are busy, and the
    /// queue may have more.
    #[must_use]
    pub fn needs_worker(&self) -> bool {
        self.idle.0.are_all_busy() && !self.ring().is_empty() && self.next_worker().is_some()
    }

    /// Has the keeper look, if there is one and a worker is needed.
    pub fn look_for_worker(&self) {
        self.keeper.look(|| self.needs_worker());
    }

    /// Behind a full fence, when something without a key was posted: wakes a worker, if no worker
    /// looks. Where all are busy, and there may be more, more are started.
    #[cold]
    #[inline(never)]
    pub fn wake_sleeper(&self) {
        match self.idle.0.take_sleeper() {
            Some(worker) if worker < self.attributes.workers_max => {
                self.workers[worker as usize].wake();
            }
            Some(_) => {}
            None => self.look_for_worker(),
        }
    }

    /// A credit comes back, whose next ticket is in place: by any thread, where there is one
    /// producer by workers only.
    pub fn give(&self, index: u16) {
        self.credits().give(index);
        if self.room_bell.load(Ordering::SeqCst) != 0 {
            bells::ring(self.room_bell.swap(0, Ordering::SeqCst) as u8);
        }
    }
}
