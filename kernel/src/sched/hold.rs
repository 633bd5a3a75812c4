//! Moments at which the tests can hold a thread: boot option `hold_ms`. With it,
//! the life of a program is spent mostly at these points, so that a process
//! killed or stopped at any time is struck at each of them. Without it they cost
//! one load.
//!
//! A point lies where nothing is locked, since a held thread waits.

use crate::sched::cpus;
use core::sync::atomic::{AtomicU64, Ordering};

static HOLD_MS: AtomicU64 = AtomicU64::new(0);

/// Takes the boot option `hold_ms`.
pub fn init(hold_ms: u32) {
    HOLD_MS.store(hold_ms.into(), Ordering::Relaxed);
}

/// The running thread is held here if the option says so. Its name is logged if
/// the thread was ended meanwhile, so that a test sees which points it struck.
pub fn at(point: &str) {
    let ms = HOLD_MS.load(Ordering::Relaxed);
    if ms != 0 {
        hold(point, ms);
    }
}

#[cold]
fn hold(point: &str, ms: u64) {
    let ended = cpus::current().runs().must_end();
    cpus::until(|| false, cpus::deadline(ms * 1_000_000));
    if cpus::current().runs().must_end() && !ended {
        crate::info!("held at {point}: ended there");
    }
}
