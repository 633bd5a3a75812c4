//! What is counted of a thread for nobody but those who look.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of a thread.
#[derive(Default)]
pub struct Counts {
    /// Calls that Linux served.
    pub delegated: AtomicU64,
    /// It waits for Linux, another thread or a time.
    pub waits: AtomicBool,
    /// Times it gave the CPU away to wait.
    pub voluntary: AtomicU64,
    /// Times another thread got the CPU although it could go on.
    pub involuntary: AtomicU64,
    /// Page faults.
    pub faults: AtomicU64,
}

/// One more; only the CPU that runs the thread counts.
pub fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
