//! Counters that the kernel itself does not use: of what a thread does, and of the objects that
//! there are.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of a thread.
#[derive(Default)]
pub struct Counts {
    /// Calls that Linux served.
    pub delegated: AtomicU64,
    /// Control requests among the delegated calls.
    pub controls: AtomicU64,
    /// The thread waits for Linux, another thread or a time.
    pub waits: AtomicBool,
    /// Times that the thread gave the CPU away to wait.
    pub voluntary: AtomicU64,
    /// Times another thread got the CPU although it could go on.
    pub involuntary: AtomicU64,
    /// Page faults.
    pub faults: AtomicU64,
}

impl Counts {
    /// Calls that Linux made for it, its own and those of the LWK on its behalf.
    pub fn calls(&self) -> u64 {
        self.delegated.load(Ordering::Relaxed).wrapping_sub(self.controls.load(Ordering::Relaxed))
    }
}

/// Counts one up. Only the CPU that runs the thread does so.
pub fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Kinds of objects that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address space with its control window.
    Space,
    /// A process.
    Process,
    /// A thread.
    Thread,
    /// A child of fork whose proxy is to come.
    Child,
    /// A program of execve whose proxy is to come.
    Program,
    /// A trace with its ring.
    Trace,
    /// A debugger.
    Debugger,
}

static THERE: [AtomicU64; Kind::Debugger as usize + 1] =
    [const { AtomicU64::new(0) }; Kind::Debugger as usize + 1];

/// A part of an object, by which the object is counted until its last reference goes.
pub struct Counted(Kind);

impl Counted {
    /// One more of a kind.
    pub fn new(kind: Kind) -> Counted {
        THERE[kind as usize].fetch_add(1, Ordering::Relaxed);
        Counted(kind)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        THERE[self.0 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of objects of a kind.
pub fn there_are(kind: Kind) -> u64 {
    THERE[kind as usize].load(Ordering::Relaxed)
}
