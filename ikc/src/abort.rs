//! How a signal keeps a worker from starting a call, or from starting it again.
//!
//! Linux delivers a signal for the application to a worker, whose handler tells the LWK, which
//! queues it. What the handler does besides depends on where the worker is:
//!
//! 1. *In a call.* Linux interrupts it and decides by SA_RESTART: either it ends with EINTR (or its
//!    partial result), or it stands at the `syscall` instruction again. The latter is sent to the
//!    abort path: the LWK gets `SLOT_NOT_STARTED`, delivers, and makes the call again. So the
//!    application's handler runs first, as on Linux.
//! 2. *Between taking a call and the `syscall` instruction.* The call must not start, it could
//!    block for ever. The handler [marks](Interrupted::mark) the worker, which looks at the mark
//!    last; behind that look, the instruction pointer is [moved](redirect) to the abort path.
//! 3. *Anywhere else: polling, asleep, answering.* The LWK knows of the signal, but a call may be
//!    posted already (the worker has not seen it yet), so the mark has to stay until the next call.
//!
//! The mark is cleared in one place: before the answer is published. Every signal whose handler
//! marked the worker before that was queued in the LWK before it sees the answer, and the LWK looks
//! for signals after each answer: nothing is lost. A handler that runs after the clearing marks
//! anew, for the next call. So a signal in case 3 costs at most one `SLOT_NOT_STARTED` without need
//! (the LWK delivers what there is, or nothing, and makes the call again), and none is able to
//! abort two calls.
//!
//! `models/abort.rs` explores it.

use crate::sync::{AtomicU32, CLEARS_LATE, NEVER_CLEARS, NO_REDIRECT, Ordering, REAL};

/// Whether a signal came since the worker's last answer. Only the worker's thread and its handlers,
/// which interrupt it, touch it. The `abortable_call` of the proxy reads it as a `u32`.
#[repr(transparent)]
#[derive(Debug)]
pub struct Interrupted<const MUTANT: u8 = REAL>(AtomicU32);

#[allow(clippy::new_without_default, reason = "const")]
impl<const MUTANT: u8> Interrupted<MUTANT> {
    /// No signal has come.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The signal handler: a signal has come, and the LWK knows of it.
    pub fn mark(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Forgets the signal: from now on the worker is another process' (the child of a fork), which
    /// has no call.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether a call must not be made. `abortable_call` reads the word last before the call.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The worker answers: clears the mark, then has `publish` store the answer with release.
    pub fn clear_and<T>(&self, publish: impl FnOnce() -> T) -> T {
        if MUTANT == CLEARS_LATE {
            let result = publish();
            self.clear();
            return result;
        }
        if MUTANT != NEVER_CLEARS {
            self.clear();
        }
        publish()
    }
}

/// Where a worker was interrupted with regard to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not on the way to a call, or past it.
    Elsewhere,
    /// From its last look at [`Interrupted`] up to the `syscall` instruction.
    Before,
    /// At that instruction: the call is not made yet, or to be made again.
    AtCall,
}

/// Place where the worker goes on after the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoOn {
    /// The place where the signal met the worker.
    There,
    /// At the abort path: the call is not started.
    Abort,
    /// Behind the call, which has ended with EINTR.
    Interrupted,
}

/// Decides how a thread goes on whose call a signal met at `place`. `is_rest`: Linux would make the
/// rest of the call, not the call itself. A stop and a continue have turned it into
/// `restart_syscall`, which a handler ends on Linux, too.
#[must_use]
pub fn redirect<const MUTANT: u8>(place: Place, is_rest: bool) -> GoOn {
    match place {
        Place::Elsewhere => GoOn::There,
        _ if MUTANT == NO_REDIRECT => GoOn::There,
        Place::AtCall if is_rest => GoOn::Interrupted,
        Place::AtCall | Place::Before => GoOn::Abort,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_is_not_made_yet_is_moved() {
        for is_rest in [false, true] {
            assert_eq!(redirect::<REAL>(Place::Elsewhere, is_rest), GoOn::There);
            assert_eq!(redirect::<REAL>(Place::Before, is_rest), GoOn::Abort);
        }
        assert_eq!(redirect::<REAL>(Place::AtCall, false), GoOn::Abort);
        assert_eq!(redirect::<REAL>(Place::AtCall, true), GoOn::Interrupted);
    }

    #[test]
    fn an_answer_is_published_when_the_mark_is_gone() {
        let interrupted = Interrupted::<REAL>::new();
        interrupted.mark();
        assert!(interrupted.is_marked());
        interrupted.clear_and(|| assert!(!interrupted.is_marked()));
        interrupted.clear_and(|| interrupted.mark());
        assert!(interrupted.is_marked(), "one that came with the answer keeps the next call");
    }
}
