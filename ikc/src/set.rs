//! Sets of CPUs: those that idle, those that use a page table.
//!
//! A CPU enters a set, then looks at what those that search the set store before they do. One of
//! the two sees the other: a thread that waits for its turn is offered or found, a page table's
//! change is seen or the CPU is told to flush.

use crate::sync::{AtomicU64, Ordering, REAL, fence_of_exchange, full_fence};

/// A set of CPUs of the instance, 64 for each word.
#[derive(Debug)]
pub struct CpuSet<const WORDS: usize, const MUTANT: u8 = REAL>([AtomicU64; WORDS]);

impl<const WORDS: usize, const MUTANT: u8> Default for CpuSet<WORDS, MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const WORDS: usize, const MUTANT: u8> CpuSet<WORDS, MUTANT> {
    /// The empty set.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Adds the members of another set.
    pub fn add(&self, more: &Self) {
        for (word, more) in self.0.iter().zip(&more.0) {
            word.fetch_or(more.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Adds a CPU; after that it looks at what [`after_change`](Self::after_change) follows.
    pub fn insert(&self, cpu: usize) {
        self.0[cpu / 64].fetch_or(1 << (cpu % 64), Ordering::SeqCst);
        fence_of_exchange::<MUTANT>();
    }

    /// Changes each word that is not as it should be. No other CPU changes the set meanwhile.
    #[inline]
    pub(crate) fn set_words(&self, to: impl Fn(usize, u64) -> u64) {
        for (i, word) in self.0.iter().enumerate() {
            let before = word.load(Ordering::Relaxed);
            let after = to(i, before);
            if after != before {
                word.store(after, Ordering::Relaxed);
            }
        }
    }

    /// Takes a CPU out.
    pub fn remove(&self, cpu: usize) {
        self.0[cpu / 64].fetch_and(!(1 << (cpu % 64)), Ordering::SeqCst);
    }

    /// The set, for a CPU that has stored what its members look at: a CPU that is not in it sees
    /// that.
    #[must_use]
    pub fn after_change(&self) -> &Self {
        full_fence::<MUTANT>();
        self
    }

    /// Whether the set has a CPU.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].load(Ordering::Relaxed) & 1 << (cpu % 64) != 0
    }

    /// Whether the set is empty.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word.load(Ordering::SeqCst)) == 0
    }

    /// Whether `me`, which is in the set, has company there.
    #[must_use]
    #[inline(always)]
    pub fn has_others(&self, me: usize) -> bool {
        let words = core::array::from_fn::<u64, WORDS, _>(|i| self.0[i].load(Ordering::SeqCst));
        words[me / 64] != 1 << (me % 64)
            || words.iter().enumerate().any(|(i, word)| i != me / 64 && *word != 0)
    }

    /// Members of the set but `me`.
    pub fn others(&self, me: usize) -> impl Iterator<Item = usize> + use<WORDS, MUTANT> {
        let words = core::array::from_fn::<u64, WORDS, _>(|i| self.0[i].load(Ordering::SeqCst));
        words
            .into_iter()
            .enumerate()
            .flat_map(|(i, word)| bits(word).map(move |bit| i * 64 + bit as usize))
            .filter(move |&cpu| cpu != me)
    }

    /// First member of the set that `wanted` accepts.
    pub fn first(&self, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        self.others(usize::MAX).find(|&cpu| wanted(cpu))
    }
}

/// Numbers of the bits that are set.
pub fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn members_come_in_order_without_the_caller() {
        let set = CpuSet::<4>::new();
        [255, 0, 64, 3].into_iter().for_each(|cpu| set.insert(cpu));
        set.remove(0);
        assert_eq!(set.after_change().others(64).collect::<Vec<_>>(), [3, 255]);
        assert!(set.contains(64) && !set.contains(0) && set.has_others(64));
        assert_eq!((set.first(|cpu| cpu > 3), set.first(|cpu| cpu == 0)), (Some(64), None));
        let more = CpuSet::new();
        more.insert(1);
        set.add(&more);
        assert_eq!(set.first(|_| true), Some(1));
        [255, 64, 3, 1].into_iter().for_each(|cpu| {
            assert!(!set.is_empty());
            set.remove(cpu);
        });
        assert!(set.is_empty());
        set.insert(65);
        assert!(set.has_others(1) && !set.has_others(65));
    }
}
