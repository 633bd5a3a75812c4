//! Waiters on futexes in private memory.

use alloc::sync::Arc;
use hanare_core::futex::Queues;
use hanare_hal::addr::PhysAddr;

/// A thread that waits in a queue of a futex word.
pub struct Sleeper<T> {
    /// The thread that waits.
    pub thread: Arc<T>,
    /// Which of several words of futex_waitv(2).
    pub index: usize,
    /// Where the thread's worker waits on Linux as well.
    pub note: Option<Note>,
}

/// A word in the scratch page of a thread, for which its worker waits on Linux
/// (`hanare_core::futex::split`).
#[derive(Clone, Copy)]
pub struct Note {
    /// Address for Linux.
    pub addr: u64,
    /// Place in the instance's memory: the space's until that is reaped, after its threads.
    pub place: PhysAddr,
}

impl<T> PartialEq for Sleeper<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.thread, &other.thread) && self.index == other.index
    }
}

/// Waiters of the processes that have a space.
pub type Futexes<T> = Queues<Sleeper<T>>;
