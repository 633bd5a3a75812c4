//! Entries of `/proc/PID/pagemap` on their way to the module: pages that are alike make a run
//! (`abi::info`).

use crate::addr::PAGE_SIZE;
use hanare_abi::info::{PAGEMAP_PRESENT, PAGEMAP_RUN_MAX, PAGEMAP_RUN_SHIFT};

/// Bits of a run that count its pages but for the first one.
const COUNT: u64 = (PAGEMAP_RUN_MAX - 1) << PAGEMAP_RUN_SHIFT;

/// Runs from an address up, in the words of an answer.
#[derive(Debug)]
pub struct Runs<'a> {
    words: &'a mut [u64],
    used: usize,
    at: u64,
    is_full: bool,
}

impl<'a> Runs<'a> {
    /// An empty list of runs, which begins at `start`.
    pub fn new(words: &'a mut [u64], start: u64) -> Runs<'a> {
        Runs { words, used: 0, at: start, is_full: false }
    }

    /// Address behind the last page that was added.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.at
    }

    /// Whether a page found no room.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Number of words.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.used
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Adds the pages up to `end` that `entry` says, the first one's; where they are present each
    /// has the frame behind the last one's. As many as there is room for; none once some found
    /// none.
    pub fn add(&mut self, entry: u64, end: u64) {
        debug_assert!(entry & COUNT == 0 && end.is_multiple_of(PAGE_SIZE));
        let start = self.at;
        while self.at < end && !self.is_full {
            let passed = (self.at - start) / PAGE_SIZE;
            let next = if entry & PAGEMAP_PRESENT == 0 { entry } else { entry + passed };
            self.add_some(next, (end - self.at) / PAGE_SIZE);
        }
    }

    /// Adds at least one of `pages`, if there is room for any.
    fn add_some(&mut self, entry: u64, pages: u64) {
        if let Some(last) = self.used.checked_sub(1).map(|i| &mut self.words[i]) {
            let count = (*last & COUNT) >> PAGEMAP_RUN_SHIFT;
            let first = *last & !COUNT;
            let follows =
                if first & PAGEMAP_PRESENT == 0 { first } else { first.wrapping_add(count + 1) };
            let room = PAGEMAP_RUN_MAX - 1 - count;
            if follows == entry && room > 0 {
                let more = pages.min(room);
                *last += more << PAGEMAP_RUN_SHIFT;
                self.at += more * PAGE_SIZE;
                return;
            }
        }
        let Some(word) = self.words.get_mut(self.used) else {
            self.is_full = true;
            return;
        };
        let pages = pages.min(PAGEMAP_RUN_MAX);
        *word = entry | (pages - 1) << PAGEMAP_RUN_SHIFT;
        self.used += 1;
        self.at += pages * PAGE_SIZE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_abi::info::{PAGEMAP_EXCLUSIVE, PAGEMAP_SOFT_DIRTY, PAGEMAP_UNMAPPED};
    use proptest::prelude::*;
    use std::vec::Vec;

    /// As the module reads them: one entry a page.
    fn pages(words: &[u64]) -> Vec<u64> {
        let run = |&word: &u64| {
            let (first, others) = (word & !COUNT, (word & COUNT) >> PAGEMAP_RUN_SHIFT);
            let step = u64::from(word & PAGEMAP_PRESENT != 0);
            (0..=others).map(move |n| first + n * step)
        };
        words.iter().flat_map(run).collect()
    }

    #[test]
    fn holes_are_runs() {
        let mut words = [0; 4];
        let mut runs = Runs::new(&mut words, 0x1000);
        let large = PAGEMAP_RUN_MAX * 2 + 5;
        runs.add(PAGEMAP_UNMAPPED, 0x1000 + large * PAGE_SIZE);
        assert_eq!(
            (runs.len(), runs.end(), runs.is_full()),
            (3, 0x1000 + large * PAGE_SIZE, false)
        );
        runs.add(PAGEMAP_UNMAPPED, runs.end() + PAGE_SIZE);
        assert_eq!(runs.len(), 3);
        assert_eq!(pages(&words[..3]).len() as u64, large + 1);
    }

    proptest! {
        #[test]
        fn runs_are_what_was_added(
            added in proptest::collection::vec((0u64..4, 0u64..20, 1u64..40), 1..40),
            room in 1usize..40,
        ) {
            let mut words = std::vec![0; room];
            let mut runs = Runs::new(&mut words, 0);
            let (mut expected, mut at) = (Vec::new(), 0);
            for (kind, frame, count) in added {
                let entry = match kind {
                    0 => PAGEMAP_UNMAPPED,
                    1 => PAGEMAP_SOFT_DIRTY,
                    2 => PAGEMAP_PRESENT | frame,
                    _ => PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE | frame,
                };
                at += count * PAGE_SIZE;
                let before = runs.end();
                runs.add(entry, at);
                prop_assert!(runs.is_full() || runs.end() == at);
                prop_assert!(runs.end() >= before);
                let step = u64::from(entry & PAGEMAP_PRESENT != 0);
                expected.extend((0..count).map(|n| entry + n * step));
            }
            let (end, used) = (runs.end(), runs.len());
            prop_assert!(end / PAGE_SIZE <= expected.len() as u64);
            prop_assert_eq!(pages(&words[..used]), expected[..(end / PAGE_SIZE) as usize].to_vec());
        }
    }
}
