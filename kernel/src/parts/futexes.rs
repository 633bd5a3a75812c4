//! Waiters on futexes in private memory.

use alloc::sync::Arc;
use hanare_core::futex::Queues;

/// A thread that waits in a queue of a futex word.
pub struct Sleeper<T> {
    /// The thread that waits.
    pub thread: Arc<T>,
    /// Which of several words of futex_waitv(2).
    pub index: usize,
    /// The address at which the thread's worker waits on Linux as well, and is to be woken there.
    pub on_linux: Option<u64>,
}

impl<T> PartialEq for Sleeper<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.thread, &other.thread) && self.index == other.index
    }
}

/// Waiters of the processes that have a space.
pub type Futexes<T> = Queues<Sleeper<T>>;
