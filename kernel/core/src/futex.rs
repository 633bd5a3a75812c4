//! Futex queues of one process: who waits on which word (futex(2)).
//!
//! Order is first come, first woken. The caller looks at the words and puts
//! threads to sleep; `W` is its handle for a waiter.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Matches every waiter: the bitset of FUTEX_WAIT and FUTEX_WAKE.
pub const MATCH_ANY: u32 = u32::MAX;

#[derive(Debug)]
struct Waiter<W> {
    who: W,
    bitset: u32,
}

/// Waiters by address.
#[derive(Debug)]
pub struct Queues<W>(BTreeMap<u64, VecDeque<Waiter<W>>>);

impl<W> Default for Queues<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W: PartialEq> Queues<W> {
    /// `who` waits on `addr` for a wake with a bit of `bitset`.
    pub fn push(&mut self, addr: u64, who: W, bitset: u32) {
        self.0.entry(addr).or_default().push_back(Waiter { who, bitset });
    }

    /// Takes up to `most` waiters of `addr` that share a bit with `bitset`, oldest first.
    pub fn wake(&mut self, addr: u64, most: usize, bitset: u32) -> Vec<W> {
        let Some(queue) = self.0.remove(&addr) else { return Vec::new() };
        let mut woken = Vec::new();
        let mut left = VecDeque::new();
        for waiter in queue {
            if woken.len() < most && waiter.bitset & bitset != 0 {
                woken.push(waiter.who);
            } else {
                left.push_back(waiter);
            }
        }
        if !left.is_empty() {
            self.0.insert(addr, left);
        }
        woken
    }

    /// Moves up to `most` waiters from one word to the end of another's queue, oldest
    /// first; how many.
    pub fn requeue(&mut self, from: u64, to: u64, most: usize) -> usize {
        let Some(mut queue) = self.0.remove(&from) else { return 0 };
        let count = most.min(queue.len());
        let moved: Vec<_> = queue.drain(..count).collect();
        if !queue.is_empty() {
            self.0.insert(from, queue);
        }
        if count > 0 {
            self.0.entry(to).or_default().extend(moved);
        }
        count
    }

    /// `who`, which began to wait on `addr`, gives up (timeout, signal), wherever a
    /// requeue has put it; whether it was waiting.
    pub fn remove(&mut self, addr: u64, who: &W) -> bool {
        let mut found = false;
        // Most are where they were.
        if let Some(queue) = self.0.get_mut(&addr)
            && let Some(at) = queue.iter().position(|waiter| waiter.who == *who)
        {
            queue.remove(at);
            if queue.is_empty() {
                self.0.remove(&addr);
            }
            return true;
        }
        self.0.retain(|_, queue| {
            let before = queue.len();
            queue.retain(|waiter| waiter.who != *who);
            found |= queue.len() != before;
            !queue.is_empty()
        });
        found
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    #[test]
    fn first_come_first_woken() {
        let mut q = Queues::default();
        for who in 0..4 {
            q.push(8, who, MATCH_ANY);
        }
        assert_eq!(q.wake(8, 2, MATCH_ANY), vec![0, 1]);
        assert_eq!(q.wake(16, 1, MATCH_ANY), vec![]);
        assert_eq!(q.requeue(8, 16, 1), 1);
        assert_eq!(q.wake(16, usize::MAX, MATCH_ANY), vec![2]);
        assert!(q.remove(8, &3));
        assert!(!q.remove(8, &3));
        assert!(q.is_empty());
    }

    #[test]
    fn a_bitset_chooses() {
        let mut q = Queues::default();
        q.push(8, 'a', 1);
        q.push(8, 'b', 2);
        assert_eq!(q.wake(8, 9, 2), vec!['b']);
        assert_eq!(q.wake(8, 9, 4), vec![]);
        assert_eq!(q.wake(8, 9, MATCH_ANY), vec!['a']);
    }

    #[test]
    fn requeue_to_the_same_word_keeps_everybody() {
        let mut q = Queues::default();
        q.push(8, 1, MATCH_ANY);
        q.push(8, 2, MATCH_ANY);
        assert_eq!(q.requeue(8, 8, 1), 1);
        assert_eq!(q.wake(8, 9, MATCH_ANY), vec![2, 1]);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Push(u64, u32),
        Wake(u64, usize, u32),
        Requeue(u64, u64, usize),
        Remove(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let addr = 0u64..4;
        prop_oneof![
            (addr.clone(), 1u32..8).prop_map(|(a, b)| Op::Push(a, b)),
            (addr.clone(), 0usize..4, 1u32..8).prop_map(|(a, n, b)| Op::Wake(a, n, b)),
            (addr.clone(), addr, 0usize..4).prop_map(|(a, b, n)| Op::Requeue(a, b, n)),
            (0usize..40).prop_map(Op::Remove),
        ]
    }

    proptest! {
        /// Against a flat list of (address, who, bitset) in queue order.
        #[test]
        fn as_a_list(ops in prop::collection::vec(op(), 0..60)) {
            let mut q = Queues::default();
            let mut model: Vec<(u64, usize, u32)> = Vec::new();
            for (who, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Push(a, b) => {
                        q.push(a, who, b);
                        model.push((a, who, b));
                    }
                    Op::Wake(a, n, b) => {
                        let mut expected = Vec::new();
                        model.retain(|&(at, w, bits)| {
                            let hit = at == a && bits & b != 0 && expected.len() < n;
                            if hit { expected.push(w); }
                            !hit
                        });
                        prop_assert_eq!(q.wake(a, n, b), expected);
                    }
                    Op::Requeue(a, b, n) => {
                        let moved: Vec<_> = model.iter().copied().filter(|m| m.0 == a).take(n).collect();
                        model.retain(|m| !moved.contains(m));
                        model.extend(moved.iter().map(|m| (b, m.1, m.2)));
                        prop_assert_eq!(q.requeue(a, b, n), moved.len());
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
