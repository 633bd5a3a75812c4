//! Ticks of the processor's clock in a nanosecond.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Ticks in 1024 ns; 0: not measured yet.
static TICKS: AtomicU64 = AtomicU64::new(0);

/// Measures, if no thread has yet: takes 100 µs.
pub fn measure() {
    if TICKS.load(Ordering::Relaxed) != 0 {
        return;
    }
    let (ns, ticks) = (sys::now_ns(), sys::ticks());
    while sys::now_ns() - ns < 100_000 {
        std::hint::spin_loop();
    }
    let (ns, ticks) = (sys::now_ns() - ns, sys::ticks().wrapping_sub(ticks));
    TICKS.store((ticks.saturating_mul(1024) / ns).max(1), Ordering::Relaxed);
}

/// So many nanoseconds in ticks.
#[must_use]
pub fn ticks_of_ns(ns: u64) -> u64 {
    ns.saturating_mul(TICKS.load(Ordering::Relaxed)) / 1024
}
