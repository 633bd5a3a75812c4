//! Signals with SI_QUEUE that were sent to one thread.
//!
//! `rt_sigqueueinfo` sends to a process, `rt_tgsigqueueinfo` to a thread, both with the same
//! `si_code`: a worker that takes such a signal from Linux cannot tell which it was. It matters
//! where the thread blocks the signal by then: another thread takes it, or nobody. So a thread
//! remembers what was sent to it and has not come.

use alloc::vec::Vec;

/// The last signal of which only one is pending at a time; of later ones each counts.
const LAST_STANDARD: u32 = 31;
/// The last signal.
const LAST: u32 = 64;

/// Signals on their way to a thread, each with its count.
#[derive(Default)]
pub struct Directed(Vec<(u32, u32)>);

impl Directed {
    /// One is about to be sent. What is no signal Linux refuses, or says that it has sent it.
    pub fn sent(&mut self, signal: u32) {
        if !(1..=LAST).contains(&signal) {
            return;
        }
        match self.0.iter_mut().find(|(s, _)| *s == signal) {
            Some(_) if signal <= LAST_STANDARD => {}
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.0.push((signal, 1)),
        }
    }

    /// One has come, or could not be sent. False: none was on its way.
    pub fn take(&mut self, signal: u32) -> bool {
        let Some(at) = self.0.iter().position(|(s, _)| *s == signal) else { return false };
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.swap_remove(at);
        }
        true
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
        let taken: Vec<bool> =
            [10, 10, 40, 40, 40, 41, 41].map(|signal| on_its_way.take(signal)).into();
        assert_eq!(taken, [true, false, true, true, false, true, false]);
        assert!(on_its_way.0.is_empty());
    }

    #[test]
    fn what_is_no_signal_takes_no_memory() {
        let mut on_its_way = Directed::default();
        (0..100_000).chain([u32::MAX]).for_each(|signal| on_its_way.sent(signal));
        assert_eq!(on_its_way.0.len(), 64);
    }
}
