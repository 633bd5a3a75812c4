//! Futexes (futex(2)): which kernel has the waiters of a word, and the queues of those that the LWK
//! has.
//!
//! A word in memory that Linux shares among processes has its waiters on Linux, where other
//! processes wait, too, unless an operation says that only the process' own threads do
//! (FUTEX_PRIVATE_FLAG). Every other word has them in the queues of its space: those of locks with
//! priority inheritance beside plain ones, so that no operation misses a waiter.
//!
//! Order is first come, first woken. The caller looks at the words and puts threads to sleep; `W`
//! is its handle for a waiter.

mod operation;
mod pi;
pub mod split;

pub use operation::{Command, Operation, Timed, WakeOp};
pub use pi::{Acquired, Being, Fault, Given, Memory, Owner, Requeued, Stop};

use crate::errno::{EINVAL, Result};
use crate::lists;
use alloc::collections::LinkedList;

/// Matches every waiter: the bitset of FUTEX_WAIT and FUTEX_WAKE.
pub const MATCH_ANY: u32 = u32::MAX;

/// In a word: threads wait in a kernel.
pub const WAITERS: u32 = 0x8000_0000;
/// In a word: its owner ended.
pub const OWNER_DIED: u32 = 0x4000_0000;
/// In a word: the thread id of its owner, or 0.
pub const OWNER: u32 = 0x3fff_ffff;

/// Queues; words whose addresses have the same hash share one.
const QUEUES: usize = 32;

/// The name of a word in the queues of its space. Operations with FUTEX_PRIVATE_FLAG and without it
/// name two words of the same address, as on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// In the address, a multiple of 4: the operation has no FUTEX_PRIVATE_FLAG.
    const SHARED: u64 = 1;

    /// The word's address.
    #[must_use]
    pub const fn addr(self) -> u64 {
        self.0 & !Self::SHARED
    }
}

/// Which kernel has the waiters of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The LWK: the queues of the word's space.
    Queues(Key),
    /// Linux.
    Linux,
}

impl Place {
    /// Place of the waiters of the word at `addr`. `is_common`: Linux shares the word's memory
    /// among processes. `is_private`: the operation has FUTEX_PRIVATE_FLAG.
    ///
    /// # Errors
    /// `EINVAL`: no address of a word.
    pub const fn of(addr: u64, is_private: bool, is_common: bool) -> Result<Self> {
        if is_common && !is_private {
            Ok(Self::Linux)
        } else if !addr.is_multiple_of(4) {
            Err(EINVAL)
        } else if is_private {
            Ok(Self::Queues(Key(addr)))
        } else {
            Ok(Self::Queues(Key(addr | Key::SHARED)))
        }
    }
}

/// Event for which a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// A wake-up.
    Wake,
    /// A move to the queue of a lock (FUTEX_WAIT_REQUEUE_PI).
    Requeue {
        /// Thread id of the waiter.
        tid: u32,
        /// The lock.
        lock: Key,
    },
    /// A lock with priority inheritance.
    Lock {
        /// Thread id of the waiter.
        tid: u32,
        /// Thread id of the lock's owner, the same in all waiters of the lock.
        owner: u32,
    },
}

#[derive(Debug)]
struct Waiter<W> {
    key: Key,
    who: W,
    bitset: u32,
    aim: Aim,
}

/// Waiters in order. A waiter goes from list to list as it is: only the begin of a wait needs
/// memory.
#[derive(Debug)]
pub struct Queues<W>([LinkedList<Waiter<W>>; QUEUES]);

/// Waiters that were woken, oldest first.
#[derive(Debug)]
pub struct Woken<W> {
    all: LinkedList<Waiter<W>>,
    /// The next one waits for a lock, or to be moved to one: no wake-up is for it.
    has_met_lock: bool,
}

impl<W> Woken<W> {
    /// How many.
    ///
    /// # Errors
    /// `EINVAL`: the next one waits for a lock.
    pub fn count(&self) -> Result<usize> {
        if self.has_met_lock { Err(EINVAL) } else { Ok(self.all.len()) }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &W> {
        self.all.iter().map(|waiter| &waiter.who)
    }
}

/// Event for which a thread that gives up has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The event for which the wait began.
    AtFirst,
    /// The lock to which it was moved.
    ForLock,
}

impl<W> Default for Queues<W> {
    fn default() -> Self {
        Self([const { LinkedList::new() }; QUEUES])
    }
}

impl<W: PartialEq> Queues<W> {
    /// Bytes of an entry.
    pub const ENTRY_BYTES: usize = lists::node_bytes::<Waiter<W>>();

    fn index(key: Key) -> usize {
        // The golden ratio spreads addresses that differ in a few bits (Knuth).
        let hash = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - QUEUES.ilog2());
        hash as usize
    }

    fn queue(&mut self, key: Key) -> &mut LinkedList<Waiter<W>> {
        &mut self.0[Self::index(key)]
    }

    fn append(&mut self, key: Key, who: W, bitset: u32, aim: Aim) -> Result<()> {
        lists::append(self.queue(key), Waiter { key, who, bitset, aim })
    }

    /// `who` waits on `key` for a wake with a bit of `bitset`.
    ///
    /// # Errors
    /// `ENOMEM`: it does not wait.
    pub fn push(&mut self, key: Key, who: W, bitset: u32) -> Result<()> {
        self.append(key, who, bitset, Aim::Wake)
    }

    /// Takes up to `most` waiters of `key` that share a bit with `bitset`, oldest first, up to one
    /// that waits for a lock.
    pub fn wake(&mut self, key: Key, most: usize, bitset: u32) -> Woken<W> {
        let queue = self.queue(key);
        let (mut all, mut left, mut has_met_lock) = (LinkedList::new(), LinkedList::new(), false);
        while all.len() < most && !queue.is_empty() && !has_met_lock {
            #[cfg(test)]
            tests::look();
            let rest = queue.split_off(1);
            let mut first = core::mem::replace(queue, rest);
            let its = first.front().filter(|w| w.key == key);
            has_met_lock = its.is_some_and(|w| w.aim != Aim::Wake);
            let hit = its.is_some_and(|w| !has_met_lock && w.bitset & bitset != 0);
            if hit { &mut all } else { &mut left }.append(&mut first);
        }
        left.append(queue);
        *queue = left;
        Woken { all, has_met_lock }
    }

    /// Moves up to `most` waiters from one word to the end of another's queue, oldest
    /// first; how many.
    ///
    /// # Errors
    /// `EINVAL`: the next one waits for a lock. Those before it were moved.
    pub fn requeue(&mut self, from: Key, to: Key, most: usize) -> Result<usize> {
        let mut moved = self.wake(from, most, MATCH_ANY);
        let count = moved.count();
        moved.all.iter_mut().for_each(|waiter| waiter.key = to);
        self.queue(to).append(&mut moved.all);
        count
    }

    /// `who`, which began to wait on `key`, gives up (timeout, signal), wherever a
    /// requeue has put it; for what it was waiting, if it was.
    pub fn remove(&mut self, key: Key, who: &W) -> Option<Waited> {
        // Most are where they were.
        let waits = |w: &Waiter<W>| w.who == *who;
        let mut taken = take(self.queue(key), waits);
        for queue in &mut self.0 {
            if taken.is_empty() {
                taken = take(queue, waits);
            }
        }
        let waiter = taken.front()?;
        let is_moved = waiter.key != key && matches!(waiter.aim, Aim::Lock { .. });
        Some(if is_moved { Waited::ForLock } else { Waited::AtFirst })
    }

    /// Whether no thread waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(LinkedList::is_empty)
    }
}

/// Takes the first waiter of which `is_it` is true out of a queue, as a list of its own.
fn take<W>(
    queue: &mut LinkedList<Waiter<W>>,
    is_it: impl Fn(&Waiter<W>) -> bool,
) -> LinkedList<Waiter<W>> {
    let Some(at) = queue.iter().position(is_it) else { return LinkedList::new() };
    let mut taken = queue.split_off(at);
    let mut behind = taken.split_off(1);
    queue.append(&mut behind);
    taken
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

    /// How many were.
    pub fn looks() -> usize {
        LOOKS.get()
    }

    #[test]
    fn waking_one_looks_at_one_however_many_wait() {
        for waiters in [1, 16, 64, 10_000] {
            let mut q = Queues::default();
            (0..waiters).for_each(|who| q.push(Key(8), who, MATCH_ANY).unwrap());
            LOOKS.set(0);
            assert_eq!(woken(&mut q, 8, 1, MATCH_ANY), [0]);
            assert_eq!(
                (q.requeue(Key(8), Key(16), 0), woken(&mut q, 24, 1, MATCH_ANY)),
                (Ok(0), vec![])
            );
            assert_eq!(LOOKS.get(), 1, "of {waiters}");
            assert_eq!(q.requeue(Key(8), Key(16), 1), Ok(usize::from(waiters > 1)));
            assert!(LOOKS.get() <= 2, "of {waiters}");
        }
    }

    fn woken<W: PartialEq + Copy>(q: &mut Queues<W>, addr: u64, most: usize, bits: u32) -> Vec<W> {
        q.wake(Key(addr), most, bits).iter().copied().collect()
    }

    #[test]
    fn one_place_for_each_word() {
        let queues = |addr, is_private, is_common| match Place::of(addr, is_private, is_common) {
            Ok(Place::Queues(key)) => Some((key, key.addr())),
            _ => None,
        };
        let private = queues(8, true, false).unwrap();
        assert_eq!(private.1, 8);
        assert_eq!(queues(8, true, true), Some(private), "whatever memory it is");
        let shared = queues(8, false, false).unwrap();
        assert_eq!(shared.1, 8);
        assert_ne!(shared.0, private.0);
        assert_eq!(Place::of(8, false, true), Ok(Place::Linux));
        for (is_private, is_common) in [(true, false), (true, true), (false, false)] {
            assert_eq!(Place::of(10, is_private, is_common), Err(EINVAL));
        }
    }

    #[test]
    fn first_come_first_woken() {
        let mut q = Queues::default();
        for who in 0..4 {
            q.push(Key(8), who, MATCH_ANY).unwrap();
        }
        assert_eq!(woken(&mut q, 8, 2, MATCH_ANY), [0, 1]);
        assert_eq!(woken(&mut q, 16, 1, MATCH_ANY), []);
        assert_eq!(q.requeue(Key(8), Key(16), 1), Ok(1));
        assert_eq!(woken(&mut q, 16, usize::MAX, MATCH_ANY), [2]);
        assert_eq!(q.remove(Key(8), &3), Some(Waited::AtFirst));
        assert_eq!(q.remove(Key(8), &3), None);
        assert!(q.is_empty());
    }

    #[test]
    fn a_bitset_chooses() {
        let mut q = Queues::default();
        q.push(Key(8), 'a', 1).unwrap();
        q.push(Key(8), 'b', 2).unwrap();
        assert_eq!(woken(&mut q, 8, 9, 2), ['b']);
        assert_eq!(woken(&mut q, 8, 9, 4), []);
        assert_eq!(woken(&mut q, 8, 9, MATCH_ANY), ['a']);
    }

    #[test]
    fn requeue_to_the_same_word_keeps_everybody() {
        let mut q = Queues::default();
        q.push(Key(8), 1, MATCH_ANY).unwrap();
        q.push(Key(8), 2, MATCH_ANY).unwrap();
        assert_eq!(q.requeue(Key(8), Key(8), 1), Ok(1));
        assert_eq!(woken(&mut q, 8, 9, MATCH_ANY), [2, 1]);
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// A waiter, for which there is memory or not.
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
                        prop_assert_eq!(failing::at(0, || q.push(Key(a), who, b)), (Err(ENOMEM), true));
                    }
                    Op::Push(a, b, false) => {
                        q.push(Key(a), who, b).unwrap();
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
                        prop_assert_eq!(failing::at(0, || q.requeue(Key(a), Key(b), n)), (Ok(moved.len()), false));
                    }
                    Op::Remove(w) => {
                        let was = model.iter().any(|m| m.1 == w);
                        model.retain(|m| m.1 != w);
                        prop_assert_eq!(q.remove(Key(w as u64 % 4), &w).is_some(), was);
                    }
                }
                prop_assert_eq!(q.is_empty(), model.is_empty());
            }
        }
    }
}
