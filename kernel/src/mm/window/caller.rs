//! The thread for which a space is changed.

use super::policy::ThreadPolicy;
use super::space::Space;
use crate::link::caller::Delegates;

/// The running thread's view for memory operations: its space, slot and NUMA policy.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The memory of the thread's process.
    pub memory: &'a Space,
    /// The thread's slot.
    pub slot: u32,
    /// The thread's NUMA policy.
    pub policy: &'a ThreadPolicy,
    /// The thread itself.
    pub thread: &'a dyn Delegates,
}

impl Caller<'_> {
    /// Whether the proxy of its process is gone, so that its worker is not to be asked.
    pub fn is_killed(&self) -> bool {
        self.thread.is_killed()
    }

    /// Whether the thread has to leave whatever it waits for.
    pub fn must_end(&self) -> bool {
        self.thread.must_end()
    }
}
