//! How something that was posted is cancelled.

use std::sync::atomic::Ordering;

use hanare_ikc::posted::{Cancel, Look, Ticket};

use super::queue::Queue;
use super::{Error, IS_NEXT, bells, error, worker};
use crate::sys;

/// Time that a thread waits for the end of a running submission that it cancels.
const PATIENCE_NS: u64 = 500_000;

impl Queue {
    /// Cancels a submission: it does not begin, or is interrupted.
    ///
    /// # Errors
    /// EINPROGRESS: it runs. EALREADY: it was done. EINVAL.
    pub fn cancel(&self, word: u64) -> Result<(), Error> {
        // One of those for `hanare_next` says so in its word.
        let is_live = |ticket: &Ticket| {
            let live = self.live(ticket.index());
            u64::from(ticket.index()) < self.depth() && live & !IS_NEXT == ticket.word()
        };
        let Some(ticket) = Ticket::from_word(word).filter(is_live) else {
            return error(libc::EINVAL);
        };
        if self.is_stale.load(Ordering::Acquire) != 0 {
            return error(libc::EINVAL);
        }
        let record = self.record(ticket.index());
        match record.cancel(ticket) {
            Cancel::Never(bell) => {
                bells::ring(bell);
                Ok(())
            }
            Cancel::Done => error(libc::EALREADY),
            Cancel::Runs => {
                let (mut pause_ns, end) = (5_000, sys::now_ns() + PATIENCE_NS);
                loop {
                    self.interrupt(ticket);
                    if record.look(ticket) != Look::NotYet || sys::now_ns() >= end {
                        return error(libc::EINPROGRESS);
                    }
                    sys::sleep_ns(pause_ns);
                    pause_ns *= 2;
                }
            }
        }
    }

    /// Interrupts the worker that executes a submission. The signal may come before the call, so a
    /// waiter for the end repeats this.
    pub fn interrupt(&self, ticket: Ticket) {
        for worker in &self.workers {
            worker::interrupt(self, worker, ticket);
        }
    }
}

/// Whether the posted function that calls this was cancelled.
#[must_use]
pub fn is_cancelled() -> bool {
    let is_asked = worker::with_self(|queue, worker| {
        let current = worker.current.load(Ordering::Relaxed);
        Ticket::from_word(current)
            .is_some_and(|ticket| queue.record(ticket.index()).is_asked(ticket))
    });
    is_asked == Some(true)
}
