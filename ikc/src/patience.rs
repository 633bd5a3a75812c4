//! How long a side polls before it sleeps, learned from its waits.
//!
//! Polling pays where what is waited for comes soon, and where a CPU is there for both sides. A
//! side cannot see the latter (a host may have stopped the virtual CPU of the other side), but both
//! show in how long a wait takes, its wake-up included: short waits make polling longer, long ones
//! shorter. Not down to nothing: where a host runs both sides' CPUs now and then at once, a side
//! that still looks for a moment finds the other one, and both go on in a burst.

use core::sync::atomic::{AtomicU32, Ordering};

/// The whole of a longest window, in parts.
const WHOLE: u32 = 8;

/// One waiter's window, which only the waiter reads and writes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Patience(AtomicU32);

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

impl Patience {
    /// The patience of a thread that has not waited yet: the longest window.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(WHOLE))
    }

    /// How long to poll, of `longest` at most, in ticks.
    #[must_use]
    pub fn window(&self, longest: u64) -> u64 {
        longest / u64::from(WHOLE) * u64::from(self.0.load(Ordering::Relaxed))
    }

    /// A wait is over that took `ticks`: polling and sleeping. Was it worth `longest`, and
    /// `wake_up`, which is what a wake-up takes at most where the woken side has a CPU at once?
    pub fn waited(&self, ticks: u64, longest: u64, wake_up: u64) {
        let parts = self.0.load(Ordering::Relaxed);
        let next = if ticks <= longest.saturating_add(wake_up) {
            (parts * 2).min(WHOLE)
        } else {
            (parts / 2).max(1)
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LONGEST: u64 = 800;
    const WAKE_UP: u64 = 200;

    fn after(waits: impl IntoIterator<Item = u64>) -> u64 {
        let patience = Patience::new();
        for ticks in waits {
            patience.waited(ticks, LONGEST, WAKE_UP);
        }
        patience.window(LONGEST)
    }

    #[test]
    fn a_few_long_waits_leave_an_eighth() {
        assert_eq!(after([]), LONGEST);
        assert_eq!(after([5000]), LONGEST / 2);
        assert_eq!(after([5000; 3]), LONGEST / 8);
        assert_eq!(after([5000; 100]), LONGEST / 8);
    }

    #[test]
    fn short_waits_bring_it_back_though_each_slept() {
        let long = [5000; 10];
        assert_eq!(after(long.into_iter().chain([900; 1])), LONGEST / 4);
        assert_eq!(after(long.into_iter().chain([900; 3])), LONGEST);
    }

    #[test]
    fn one_long_wait_among_short_ones_does_not_end_it() {
        let waits = (0..1000).map(|i| if i % 3 == 0 { 5000 } else { 10 });
        assert!(after(waits) >= LONGEST / 4);
    }

    #[test]
    fn nothing_is_polled_for_where_nothing_is_the_longest() {
        let patience = Patience::new();
        patience.waited(1, 0, 0);
        assert_eq!(patience.window(0), 0);
        patience.waited(u64::MAX, u64::MAX, u64::MAX);
    }
}
