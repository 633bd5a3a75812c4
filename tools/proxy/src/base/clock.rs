//! Short times by the time stamp counter.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::sys;
use crate::sys::arch::tsc;

/// Least time between the two samples that give the frequency.
const SAMPLE_NS: u64 = 200_000;

/// Converts microseconds to ticks. Its frequency is measured from `start()`, early
/// in the life of the process, to the first use.
pub struct Clock {
    start_tsc: u64,
    start_ns: u64,
    /// Ticks per 1024 µs; 0: not known yet.
    rate: AtomicU64,
}

impl Clock {
    /// Takes the first sample.
    pub fn start() -> Self {
        Self { start_ns: sys::monotonic_ns(), start_tsc: tsc(), rate: AtomicU64::new(0) }
    }

    /// Number of ticks in `us` microseconds.
    pub fn ticks(&self, us: u32) -> u64 {
        let mut rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            rate = self.measure();
            self.rate.store(rate, Ordering::Relaxed);
        }
        (u64::from(us) * rate) >> 10
    }

    fn measure(&self) -> u64 {
        loop {
            let ns = sys::monotonic_ns() - self.start_ns;
            let ticks = tsc().wrapping_sub(self.start_tsc);
            if ns >= SAMPLE_NS {
                return (u128::from(ticks) * 1_024_000 / u128::from(ns)).max(1) as u64;
            }
        }
    }
}
