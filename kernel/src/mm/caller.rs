//! The thread on whose behalf a space is changed.

use super::policy::ThreadPolicy;
use super::space::Space;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};

/// The running thread, as far as memory has to know it. It dereferences to its [`Space`].
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The memory of its process.
    pub memory: &'a Space,
    /// Its slot.
    pub slot: u32,
    /// Its NUMA policy.
    pub policy: &'a ThreadPolicy,
    /// The proxy of its process is gone.
    pub killed: &'a AtomicBool,
    /// It has to end, though its process does not.
    pub dying: &'a AtomicBool,
}

impl Caller<'_> {
    /// Whether the proxy of its process is gone, so that its worker is not to be asked.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Whether it has to leave whatever it waits for.
    pub fn must_end(&self) -> bool {
        self.is_killed() || self.dying.load(Ordering::Relaxed)
    }
}

impl Deref for Caller<'_> {
    type Target = Space;
    fn deref(&self) -> &Space {
        self.memory
    }
}
