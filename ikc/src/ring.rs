//! Rings with one producer and one consumer, counters free running.
//!
//! An entry says itself whether it is new. One bit of it, the *lap*, is set in every other pass
//! over the ring, at first in the first one, so that a ring of zeros is empty. The consumer looks
//! at the entry and at nothing else. The producer looks at the consumer's counter only when the
//! ring looks full to it. So one cache line moves for an entry, the one that it lies in, which the
//! next entries share.
//!
//! Two rings of opposite directions have their entries pairwise on one line ([`EntryPair`]). A line
//! that only one side writes costs twice as much as one that both write. The processor hands the
//! latter over with the read of the other side's store. Of the former it fetches the line, and
//! invalidates the reader's copy before the next store.

use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, in_c, lap, publish};

/// An atomic entry of a ring.
pub trait Word {
    /// Value that an entry holds.
    type Value: Copy;
    /// Reads it: its value without the lap, and whether the lap is set. With that, what was written
    /// before is visible.
    fn get(&self) -> (Self::Value, bool);
    /// Writes a value, whose highest bit is lost, with the lap.
    fn set(&self, value: Self::Value, lap: bool, order: Ordering);
}

macro_rules! word {
    ($($word:ty: $value:ty),+) => {$(
        impl Word for $word {
            type Value = $value;
            fn get(&self) -> ($value, bool) {
                let word = self.load(Ordering::Acquire);
                (word & (<$value>::MAX >> 1), word > <$value>::MAX >> 1)
            }
            fn set(&self, value: $value, lap: bool, order: Ordering) {
                let lap = if lap { !(<$value>::MAX >> 1) } else { 0 };
                self.store(value & (<$value>::MAX >> 1) | lap, order);
            }
        }
    )+};
}

word!(AtomicU32: u32, AtomicU64: u64);

/// Where a ring's entries lie.
pub trait Side {
    /// One entry; entries lie one behind the other.
    type Entry;
    /// The word of the ring that holds an entry.
    type Word: Word;
    /// The word itself.
    fn word(entry: &Self::Entry) -> &Self::Word;
}

/// An entry of each of two rings.
#[repr(C)]
#[derive(Debug)]
pub struct EntryPair {
    pub(crate) outbound: AtomicU64,
    pub(crate) inbound: AtomicU32,
    reserved: AtomicU32,
}

impl EntryPair {
    /// An entry of zeros of each.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            outbound: AtomicU64::new(0),
            inbound: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
        }
    }
    /// An entry of this word; its lower half is the inbound one, too.
    #[cfg(all(test, not(loom)))]
    pub fn of(word: u64) -> Self {
        let inbound = AtomicU32::new(word as u32);
        Self { outbound: AtomicU64::new(word), inbound, reserved: AtomicU32::new(0) }
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self {
            outbound: AtomicU64::new(0),
            inbound: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
        }
    }
}

impl Default for EntryPair {
    fn default() -> Self {
        Self::new()
    }
}

/// The ring that goes to Linux.
#[derive(Clone, Copy, Debug)]
pub struct ToLinux;

impl Side for ToLinux {
    type Entry = EntryPair;
    type Word = AtomicU64;
    fn word(entry: &EntryPair) -> &AtomicU64 {
        &entry.outbound
    }
}

/// The ring that goes to the LWK.
#[derive(Clone, Copy, Debug)]
pub struct ToLwk;

impl Side for ToLwk {
    type Entry = EntryPair;
    type Word = AtomicU32;
    fn word(entry: &EntryPair) -> &AtomicU32 {
        &entry.inbound
    }
}

/// The ring is full: the other side has not kept up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A value that a ring carries.
type Value<S> = <<S as Side>::Word as Word>::Value;

/// A ring. The consumer writes `head`, which the producer reads when the ring looks full. Only the
/// producer uses `tail` and `seen`, the head that it has read last. The number of entries is a
/// power of two.
#[derive(Debug)]
pub struct Ring<'a, S: Side, const MUTANT: u8 = REAL> {
    head: &'a AtomicU32,
    tail: &'a AtomicU32,
    seen: &'a AtomicU32,
    entries: &'a [S::Entry],
}

impl<S: Side, const MUTANT: u8> Clone for Ring<'_, S, MUTANT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Side, const MUTANT: u8> Copy for Ring<'_, S, MUTANT> {}

impl<'a, S: Side, const MUTANT: u8> Ring<'a, S, MUTANT> {
    /// The ring made of these words.
    ///
    /// # Panics
    /// If the number of entries is not a power of two.
    #[must_use]
    pub const fn new(
        head: &'a AtomicU32,
        tail: &'a AtomicU32,
        seen: &'a AtomicU32,
        entries: &'a [S::Entry],
    ) -> Self {
        assert!(entries.len().is_power_of_two());
        Self { head, tail, seen, entries }
    }

    fn entry(&self, counter: u32) -> &'a S::Word {
        S::word(&self.entries[counter as usize & (self.entries.len() - 1)])
    }

    /// The lap of an entry that is new.
    const fn lap(&self, counter: u32) -> bool {
        lap::<MUTANT>(counter as usize & self.entries.len() == 0)
    }

    /// Producer: appends a value. One producer at a time. What was written before is visible to the
    /// consumer that takes it.
    ///
    /// # Errors
    /// [`Full`]: nothing was appended.
    pub fn push(&self, value: Value<S>) -> Result<(), Full> {
        let tail = self.tail.load(Ordering::Relaxed);
        let is_full = |head| tail.wrapping_sub(head) as usize >= self.entries.len();
        if is_full(self.seen.load(Ordering::Relaxed)) {
            let head = self.head.load(Ordering::Acquire);
            if is_full(head) {
                return Err(Full);
            }
            self.seen.store(head, Ordering::Relaxed);
        }
        self.entry(tail).set(value, self.lap(tail), publish::<MUTANT>());
        self.tail.store(tail.wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// Consumer: takes the oldest value. One consumer at a time. Of a broken producer it takes no
    /// more values than there are entries, unless that writes others.
    #[must_use]
    pub fn pop(&self) -> Option<Value<S>> {
        let head = self.head.load(Ordering::Relaxed);
        let (value, lap) = self.entry(head).get();
        if lap != self.lap(head) {
            return None;
        }
        self.head.store(head.wrapping_add(1), Ordering::Release);
        Some(value)
    }

    /// Consumer: whether there is nothing to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        self.entry(head).get().1 != self.lap(head)
    }

    /// An empty ring whose counters are what they are: for tests that begin elsewhere than at zero.
    #[cfg(test)]
    pub(crate) fn emptied(self, zero: Value<S>) -> Self {
        for i in 0..self.entries.len() as u32 {
            let counter = self.head.load(Ordering::Relaxed).wrapping_add(i);
            self.entry(counter).set(zero, !self.lap(counter), Ordering::Relaxed);
        }
        self
    }
}

impl<const MUTANT: u8> Ring<'_, ToLwk, MUTANT> {
    /// The module's [`push`](Self::push). In C: `hanare_inbound_push`.
    pub(crate) fn module_push(&self, value: u32) -> Result<(), Full> {
        in_c!(MUTANT, module => {
            let words = [self.head, self.tail, self.seen];
            let entries = hanare_ikc_c::Entries::new(self.entries, |entry| &entry.inbound);
            module.inbound_push(words, entries, value).then_some(()).ok_or(Full)
        });
        self.push(value)
    }
}

impl<const MUTANT: u8> Ring<'_, ToLinux, MUTANT> {
    /// The module's [`pop`](Self::pop). In C: `hanare_outbound_look`, and `hanare_outbound_release`
    /// behind each entry, as after the last of several in the module.
    pub(crate) fn module_pop(&self) -> Option<u64> {
        in_c!(MUTANT, module => {
            let head = self.head.load(Ordering::Relaxed);
            let entries = hanare_ikc_c::Entries::new(self.entries, |entry| &entry.outbound);
            let event = module.outbound_look(head, entries)?;
            module.outbound_release(self.head, head.wrapping_add(1));
            Some(event)
        });
        self.pop()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::array::from_fn;
    use std::collections::VecDeque;
    use std::vec::Vec;

    impl Side for AtomicU32 {
        type Entry = Self;
        type Word = Self;
        fn word(entry: &Self) -> &Self {
            entry
        }
    }

    /// Head, tail and the head that was seen.
    fn counters(start: u32) -> [AtomicU32; 3] {
        from_fn(|_| AtomicU32::new(start))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn a_ring_is_a_bounded_queue(start in any::<u32>(), ops in proptest::collection::vec(proptest::option::of(any::<u64>()), 0..200)) {
            let [head, tail, seen] = counters(start);
            let entries: [EntryPair; 8] = from_fn(|_| EntryPair::new());
            let ring: Ring<'_, ToLinux> = Ring::new(&head, &tail, &seen, &entries).emptied(7);
            let mut model = VecDeque::new();
            for op in ops {
                match op.map(|value| value >> 1) {
                    Some(value) => {
                        let expected = if model.len() == 8 { Err(Full) } else { model.push_back(value); Ok(()) };
                        prop_assert_eq!(ring.push(value), expected);
                    }
                    None => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                prop_assert_eq!(ring.is_empty(), model.is_empty());
            }
        }

        /// Whatever the other side writes, to entries and to its counters, nothing is read out of
        /// bounds, and nothing twice.
        #[test]
        fn forged_words_give_at_most_a_full_ring(start in any::<[u32; 3]>(), words in any::<[u32; 8]>()) {
            let [head, tail, seen] = start.map(AtomicU32::new);
            let entries = words.map(AtomicU32::new);
            let ring: Ring<'_, AtomicU32> = Ring::new(&head, &tail, &seen, &entries);
            let taken = core::iter::from_fn(|| ring.pop()).take(100).count();
            prop_assert!(taken <= 8);
            let pushed = (0..100).filter(|_| ring.push(1).is_ok()).count();
            prop_assert!(pushed <= 100);
        }
    }

    #[test]
    fn a_ring_of_zeros_is_empty_and_takes_a_lap_of_values() {
        let [head, tail, seen] = counters(0);
        let entries: [AtomicU32; 4] = from_fn(|_| AtomicU32::new(0));
        let ring: Ring<'_, AtomicU32> = Ring::new(&head, &tail, &seen, &entries);
        assert!(ring.is_empty());
        for lap in 0..5 {
            (0..4).for_each(|i| assert_eq!(ring.push(lap * 4 + i), Ok(())));
            assert_eq!(ring.push(0), Err(Full));
            assert_eq!(
                core::iter::from_fn(|| ring.pop()).collect::<Vec<_>>(),
                [0, 1, 2, 3].map(|i| lap * 4 + i)
            );
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn two_threads_lose_nothing_and_keep_the_order() {
        const VALUES: u32 = if cfg!(miri) { 100 } else { 50_000 };
        let [head, tail, seen] = counters(u32::MAX - 5);
        let entries: [AtomicU32; 16] = from_fn(|_| AtomicU32::new(0));
        let ring: Ring<'_, AtomicU32> = Ring::new(&head, &tail, &seen, &entries).emptied(0);
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
