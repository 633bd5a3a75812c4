//! The signal by which workers are interrupted.

use std::sync::atomic::{AtomicI32, Ordering};

/// The signal that interrupts workers; 0: the usual one.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Number of the signal.
#[must_use]
pub fn number() -> i32 {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGRTMAX() - 2,
        signal => signal,
    }
}

/// Takes another, before there is a worker.
pub fn set(number: i32) {
    SIGNAL.store(number, Ordering::Relaxed);
}
