//! Futex queues of one process: who waits on which word (futex(2)).
//!
//! Order is first come, first woken. The caller looks at the words and puts
//! threads to sleep; `W` is its handle for a waiter.

use crate::errno::Result;
use crate::lists;
use alloc::collections::LinkedList;

/// Matches every waiter: the bitset of FUTEX_WAIT and FUTEX_WAKE.
pub const MATCH_ANY: u32 = u32::MAX;

/// Queues; words whose addresses have the same hash share one.
const QUEUES: usize = 32;

#[derive(Debug)]
struct Waiter<W> {
    addr: u64,
    who: W,
    bitset: u32,
}

/// Waiters in order. A waiter goes from list to list as it is: only who begins to wait needs memory.
#[derive(Debug)]
pub struct Queues<W>([LinkedList<Waiter<W>>; QUEUES]);

/// Waiters that were woken, oldest first.
#[derive(Debug)]
pub struct Woken<W>(LinkedList<Waiter<W>>);

impl<W> Woken<W> {
    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &W> {
        self.0.iter().map(|waiter| &waiter.who)
    }
}

impl<W> Default for Queues<W> {
    fn default() -> Self {
        Self([const { LinkedList::new() }; QUEUES])
    }
}

impl<W: PartialEq> Queues<W> {
    /// Bytes of an entry.
    pub const ENTRY_BYTES: usize = lists::node_bytes::<Waiter<W>>();

    fn queue(&mut self, addr: u64) -> &mut LinkedList<Waiter<W>> {
        // The golden ratio spreads addresses that differ in a few bits (Knuth).
        let hash = addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - QUEUES.ilog2());
        &mut self.0[hash as usize]
    }

    /// `who` waits on `addr` for a wake with a bit of `bitset`.
    ///
    /// # Errors
    /// `ENOMEM`: it does not wait.
    pub fn push(&mut self, addr: u64, who: W, bitset: u32) -> Result<()> {
        lists::append(self.queue(addr), Waiter { addr, who, bitset })
    }

    /// Takes up to `most` waiters of `addr` that share a bit with `bitset`, oldest first.
    pub fn wake(&mut self, addr: u64, most: usize, bitset: u32) -> Woken<W> {
        let queue = self.queue(addr);
        let (mut woken, mut left) = (LinkedList::new(), LinkedList::new());
        while woken.len() < most && !queue.is_empty() {
            #[cfg(test)]
            tests::look();
            let rest = queue.split_off(1);
            let mut first = core::mem::replace(queue, rest);
            let hit = first.front().is_some_and(|w| w.addr == addr && w.bitset & bitset != 0);
            if hit { &mut woken } else { &mut left }.append(&mut first);
        }
        left.append(queue);
        *queue = left;
        Woken(woken)
    }

    /// Moves up to `most` waiters from one word to the end of another's queue, oldest
    /// first; how many.
    pub fn requeue(&mut self, from: u64, to: u64, most: usize) -> usize {
        let mut moved = self.wake(from, most, MATCH_ANY).0;
        moved.iter_mut().for_each(|waiter| waiter.addr = to);
        let count = moved.len();
        self.queue(to).append(&mut moved);
        count
    }

    /// `who`, which began to wait on `addr`, gives up (timeout, signal), wherever a
    /// requeue has put it; whether it was waiting.
    pub fn remove(&mut self, addr: u64, who: &W) -> bool {
        // Most are where they were.
        take(self.queue(addr), who) || self.0.iter_mut().any(|queue| take(queue, who))
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(LinkedList::is_empty)
    }
}

/// Takes `who` out of a queue; whether it was there.
fn take<W: PartialEq>(queue: &mut LinkedList<Waiter<W>>, who: &W) -> bool {
    let Some(at) = queue.iter().position(|waiter| waiter.who == *who) else { return false };
    let mut behind = queue.split_off(at);
    drop(behind.pop_front());
    queue.append(&mut behind);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::ENOMEM;
    use crate::lists::failing;
    use alloc::vec::Vec;
    use core::cell::Cell;
    use proptest::prelude::*;
    use std::vec;

    std::thread_local! {
        /// Waiters that were looked at.
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// A waiter is looked at.
    pub fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    #[test]
    fn waking_one_looks_at_one_however_many_wait() {
        for waiters in [1, 16, 64, 10_000] {
            let mut q = Queues::default();
            (0..waiters).for_each(|who| q.push(8, who, MATCH_ANY).unwrap());
            LOOKS.set(0);
            assert_eq!(woken(&mut q, 8, 1, MATCH_ANY), [0]);
            assert_eq!((q.requeue(8, 16, 0), woken(&mut q, 24, 1, MATCH_ANY)), (0, vec![]));
            assert_eq!(LOOKS.get(), 1, "of {waiters}");
            assert_eq!(q.requeue(8, 16, 1), usize::from(waiters > 1));
            assert!(LOOKS.get() <= 2, "of {waiters}");
        }
    }

    fn woken<W: PartialEq + Copy>(q: &mut Queues<W>, addr: u64, most: usize, bits: u32) -> Vec<W> {
        q.wake(addr, most, bits).iter().copied().collect()
    }

    #[test]
    fn first_come_first_woken() {
        let mut q = Queues::default();
        for who in 0..4 {
            q.push(8, who, MATCH_ANY).unwrap();
        }
        assert_eq!(woken(&mut q, 8, 2, MATCH_ANY), [0, 1]);
        assert_eq!(woken(&mut q, 16, 1, MATCH_ANY), []);
        assert_eq!(q.requeue(8, 16, 1), 1);
        assert_eq!(woken(&mut q, 16, usize::MAX, MATCH_ANY), [2]);
        assert!(q.remove(8, &3));
        assert!(!q.remove(8, &3));
        assert!(q.is_empty());
    }

    #[test]
    fn a_bitset_chooses() {
        let mut q = Queues::default();
        q.push(8, 'a', 1).unwrap();
        q.push(8, 'b', 2).unwrap();
        assert_eq!(woken(&mut q, 8, 9, 2), ['b']);
        assert_eq!(woken(&mut q, 8, 9, 4), []);
        assert_eq!(woken(&mut q, 8, 9, MATCH_ANY), ['a']);
    }

    #[test]
    fn requeue_to_the_same_word_keeps_everybody() {
        let mut q = Queues::default();
        q.push(8, 1, MATCH_ANY).unwrap();
        q.push(8, 2, MATCH_ANY).unwrap();
        assert_eq!(q.requeue(8, 8, 1), 1);
        assert_eq!(woken(&mut q, 8, 9, MATCH_ANY), [2, 1]);
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// Without memory, or with.
        Push(u64, u32, bool),
        Wake(u64, usize, u32),
        Requeue(u64, u64, usize),
        Remove(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let addr = 0u64..4;
        prop_oneof![
            (addr.clone(), 1u32..8, prop::bool::weighted(0.1))
                .prop_map(|(a, b, fails)| Op::Push(a, b, fails)),
            (addr.clone(), 0usize..4, 1u32..8).prop_map(|(a, n, b)| Op::Wake(a, n, b)),
            (addr.clone(), addr, 0usize..4).prop_map(|(a, b, n)| Op::Requeue(a, b, n)),
            (0usize..40).prop_map(Op::Remove),
        ]
    }

    proptest! {
        /// Against a flat list of (address, who, bitset) in queue order.
        #[test]
        fn queues_are_as_one_list_in_order(ops in prop::collection::vec(op(), 0..60)) {
            let mut q = Queues::default();
            let mut model: Vec<(u64, usize, u32)> = Vec::new();
            for (who, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Push(a, b, true) => {
                        prop_assert_eq!(failing::at(0, || q.push(a, who, b)), (Err(ENOMEM), true));
                    }
                    Op::Push(a, b, false) => {
                        q.push(a, who, b).unwrap();
                        model.push((a, who, b));
                    }
                    Op::Wake(a, n, b) => {
                        let mut expected = Vec::new();
                        model.retain(|&(at, w, bits)| {
                            let hit = at == a && bits & b != 0 && expected.len() < n;
                            if hit { expected.push(w); }
                            !hit
                        });
                        // Whatever wakes needs no memory.
                        let (woken, has_failed) = failing::at(0, || woken(&mut q, a, n, b));
                        prop_assert_eq!((woken, has_failed), (expected, false));
                    }
                    Op::Requeue(a, b, n) => {
                        let moved: Vec<_> = model.iter().copied().filter(|m| m.0 == a).take(n).collect();
                        model.retain(|m| !moved.contains(m));
                        model.extend(moved.iter().map(|m| (b, m.1, m.2)));
                        prop_assert_eq!(failing::at(0, || q.requeue(a, b, n)), (moved.len(), false));
                    }
                    Op::Remove(w) => {
                        let was = model.iter().any(|m| m.1 == w);
                        model.retain(|m| m.1 != w);
                        prop_assert_eq!(q.remove(w as u64 % 4, &w), was);
                    }
                }
                prop_assert_eq!(q.is_empty(), model.is_empty());
            }
        }
    }
}
