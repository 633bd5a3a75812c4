//! Signals with SI_QUEUE that were sent to one thread.
//!
//! `rt_sigqueueinfo` sends to a process, `rt_tgsigqueueinfo` to a thread, both with the same
//! `si_code`: a worker that takes such a signal from Linux cannot tell which it was. It matters
//! where the thread blocks the signal by then: another thread takes it, or none. So a thread
//! remembers what was sent to it and has not come; a process likewise what `rt_sigqueueinfo` has
//! sent to it with another `si_code` than SI_QUEUE, which looks like a thread's.

use crate::signal::{SI_QUEUE, SI_TKILL};

/// The last signal of which only one is pending at a time; of later ones each counts.
const LAST_STANDARD: usize = 31;
/// The last signal.
const LAST: usize = 64;

/// Whether rt_sigqueueinfo(2) may give a signal for a process this `si_code`, by which it is taken
/// for a thread's.
#[must_use]
pub const fn looks_like_threads(code: i32) -> bool {
    code < 0 && !matches!(code, SI_QUEUE | SI_TKILL)
}

/// Signals on their way to a thread: how many of each.
pub struct Directed([u32; LAST]);

impl Default for Directed {
    fn default() -> Self {
        Self([0; LAST])
    }
}

impl Directed {
    /// A signal is about to be sent. A number that is no signal does not count: Linux refuses it,
    /// or sends nothing.
    pub fn sent(&mut self, signal: u32) {
        let signal = signal as usize;
        if let Some(count) = self.0.get_mut(signal.wrapping_sub(1)) {
            let most = if signal <= LAST_STANDARD { 1 } else { u32::MAX };
            *count = count.saturating_add(1).min(most);
        }
    }

    /// A signal has come, or could not be sent. False: none was on its way.
    pub fn take(&mut self, signal: u32) -> bool {
        let Some(count) = self.0.get_mut((signal as usize).wrapping_sub(1)) else { return false };
        let was_sent = *count > 0;
        *count -= u32::from(was_sent);
        was_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_signals_count_and_standard_ones_do_not() {
        let mut on_its_way = Directed::default();
        for signal in [10, 10, 40, 40, 41] {
            on_its_way.sent(signal);
        }
        let taken = [10, 10, 40, 40, 40, 41, 41].map(|signal| on_its_way.take(signal));
        assert_eq!(taken, [true, false, true, true, false, true, false]);
        assert_eq!(on_its_way.0, [0; LAST]);
    }

    #[test]
    fn what_is_no_signal_is_never_on_its_way() {
        let mut on_its_way = Directed::default();
        (0..100_000).chain([u32::MAX]).for_each(|signal| on_its_way.sent(signal));
        let taken = (0..100_000).chain([u32::MAX]).filter(|&signal| on_its_way.take(signal));
        assert!(taken.eq(1..=64));
    }
}
