//! Random bytes that Linux gave a program in advance, each of which is given out once.

use core::array;
use core::sync::atomic::{AtomicU64, Ordering};

/// Words of a stock.
const WORDS: usize = 4;
/// Most bytes that are given at once.
pub const BYTES_MAX: usize = 8 * WORDS;

/// Words that are left; 0 is no random word, but one that was given out.
#[derive(Default)]
pub struct Entropy {
    words: [AtomicU64; WORDS],
    /// When they are too old to be given out: a machine may be copied with them. TSC.
    until: AtomicU64,
}

impl Entropy {
    /// Fills it with what Linux gave, good until the TSC is `until`; zeros: it gave none.
    pub fn fill(&self, words: &[u64], until: u64) {
        self.until.store(until, Ordering::Relaxed);
        for (word, given) in self.words.iter().zip(words) {
            word.store(*given, Ordering::Relaxed);
        }
    }

    /// `bytes` of them at `now`, the first ones of those that this gives. `None`: there are not as
    /// many left, or they are too old.
    pub fn take(&self, bytes: usize, now: u64) -> Option<[u8; BYTES_MAX]> {
        if now >= self.until.load(Ordering::Relaxed) {
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            return None;
        }
        let mut words =
            self.words.iter().map(|word| word.swap(0, Ordering::Relaxed)).filter(|w| *w != 0);
        let mut taken = [0; WORDS];
        for word in taken.get_mut(..bytes.div_ceil(8))? {
            *word = words.next()?;
        }
        Some(array::from_fn(|i| taken[i / 8].to_ne_bytes()[i % 8]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_is_not_given() {
        let entropy = Entropy::default();
        entropy.fill(&[1, 2, 3, 4], 10);
        assert_eq!(entropy.take(1, 10), None);
        assert_eq!(entropy.take(1, 9), None, "it is gone");
    }

    #[test]
    fn each_word_is_given_once() {
        let entropy = Entropy::default();
        assert_eq!(entropy.take(1, 9), None, "nothing was given");
        entropy.fill(&[1, 2, 3, 4], 10);
        let first = entropy.take(9, 9).unwrap();
        assert_eq!((first[0], first[8]), (1, 2));
        let second = entropy.take(16, 9).unwrap();
        assert_eq!((second[0], second[8]), (3, 4));
        assert_eq!(entropy.take(1, 9), None);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let entropy = Entropy::default();
        entropy.fill(&[1, 2, 3, 0], 10);
        assert_eq!(entropy.take(BYTES_MAX + 1, 9), None);
        assert_eq!(entropy.take(25, 9), None, "Linux gave three words");
    }
}
