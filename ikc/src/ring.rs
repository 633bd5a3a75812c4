//! Rings with one producer and one consumer, counters free running.

use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, publish};

/// An atomic entry of a ring.
pub trait Word {
    /// What it holds.
    type Value: Copy;
    /// Reads it.
    fn get(&self) -> Self::Value;
    /// Writes it.
    fn set(&self, value: Self::Value);
}

impl Word for AtomicU32 {
    type Value = u32;
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }
    fn set(&self, value: u32) {
        self.store(value, Ordering::Relaxed);
    }
}

impl Word for AtomicU64 {
    type Value = u64;
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }
}

/// The ring is full: the other side has not kept up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A ring. `head` is written by the consumer, `tail` by the producer; the number
/// of entries is a power of two.
#[derive(Debug)]
pub struct Ring<'a, W, const MUTANT: u8 = REAL> {
    head: &'a AtomicU32,
    tail: &'a AtomicU32,
    entries: &'a [W],
}

impl<W, const MUTANT: u8> Clone for Ring<'_, W, MUTANT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W, const MUTANT: u8> Copy for Ring<'_, W, MUTANT> {}

impl<'a, W: Word, const MUTANT: u8> Ring<'a, W, MUTANT> {
    /// The ring made of these words.
    ///
    /// # Panics
    /// If the number of entries is not a power of two.
    #[must_use]
    pub const fn new(head: &'a AtomicU32, tail: &'a AtomicU32, entries: &'a [W]) -> Self {
        assert!(entries.len().is_power_of_two());
        Self { head, tail, entries }
    }

    fn entry(&self, counter: u32) -> &'a W {
        &self.entries[counter as usize & (self.entries.len() - 1)]
    }

    /// Producer: appends a value. One producer at a time.
    ///
    /// # Errors
    /// [`Full`]: nothing was appended.
    pub fn push(&self, value: W::Value) -> Result<(), Full> {
        let tail = self.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Acquire);
        if tail.wrapping_sub(head) as usize >= self.entries.len() {
            return Err(Full);
        }
        self.entry(tail).set(value);
        self.tail.store(tail.wrapping_add(1), publish::<MUTANT>());
        Ok(())
    }

    /// Consumer: takes the oldest value. One consumer at a time. A tail that is
    /// impossible (the other side is broken) counts as empty.
    #[must_use]
    pub fn pop(&self) -> Option<W::Value> {
        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Acquire);
        let count = tail.wrapping_sub(head) as usize;
        if count == 0 || count > self.entries.len() {
            return None;
        }
        let value = self.entry(head).get();
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Some(value)
    }

    /// Whether there is nothing to take, as far as this side sees.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }

    /// Values in the ring, as far as this side sees.
    #[must_use]
    pub fn len(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        self.tail.load(Ordering::Relaxed).wrapping_sub(head) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn a_ring_is_a_bounded_queue(start in any::<u32>(), ops in proptest::collection::vec(proptest::option::of(any::<u64>()), 0..200)) {
            let (head, tail) = (AtomicU32::new(start), AtomicU32::new(start));
            let entries: Vec<_> = (0..8).map(|_| AtomicU64::new(0)).collect();
            let ring: Ring<'_, AtomicU64> = Ring::new(&head, &tail, &entries);
            let mut model = VecDeque::new();
            for op in ops {
                match op {
                    Some(value) => {
                        let expected = if model.len() == 8 { Err(Full) } else { model.push_back(value); Ok(()) };
                        prop_assert_eq!(ring.push(value), expected);
                    }
                    None => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
            }
        }

        /// Whatever the other side writes into its counter, nothing is read out of bounds.
        #[test]
        fn wrong_counters_give_at_most_a_full_ring(head in any::<u32>(), tail in any::<u32>()) {
            let (head, tail) = (AtomicU32::new(head), AtomicU32::new(tail));
            let entries: Vec<_> = (0..8).map(|_| AtomicU32::new(0)).collect();
            let ring: Ring<'_, AtomicU32> = Ring::new(&head, &tail, &entries);
            let taken = core::iter::from_fn(|| ring.pop()).count();
            prop_assert!(taken <= 8);
            let _ = ring.push(1);
        }
    }

    #[test]
    fn two_threads_lose_nothing_and_keep_the_order() {
        const VALUES: u32 = if cfg!(miri) { 100 } else { 50_000 };
        let (head, tail) = (AtomicU32::new(u32::MAX - 5), AtomicU32::new(u32::MAX - 5));
        let entries: Vec<_> = (0..16).map(|_| AtomicU32::new(0)).collect();
        let ring: Ring<'_, AtomicU32> = Ring::new(&head, &tail, &entries);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..VALUES {
                    while ring.push(value).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            for value in 0..VALUES {
                let got = loop {
                    match ring.pop() {
                        Some(got) => break got,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(got, value);
            }
        });
    }
}
