use super::super::tests::looks;
use super::super::{Place, Waited};
use super::*;
use crate::errno::ENOMEM;
use crate::lists::failing;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use proptest::prelude::*;
use std::vec;

fn key(addr: u64) -> Key {
    match Place::of(addr, true, false) {
        Ok(Place::Queues(key)) => key,
        _ => unreachable!(),
    }
}

/// Words by address. One may be missing; one may be changed by another CPU at the next exchange.
#[derive(Default)]
struct Words {
    all: RefCell<BTreeMap<u64, u32>>,
    missing: RefCell<BTreeSet<u64>>,
    changes: Cell<Option<u32>>,
}

impl Words {
    fn get(&self, addr: u64) -> u32 {
        *self.all.borrow().get(&addr).unwrap_or(&0)
    }
    fn set(&self, addr: u64, value: u32) {
        self.all.borrow_mut().insert(addr, value);
    }
}

impl Memory for Words {
    fn read(&self, key: Key) -> core::result::Result<u32, Fault> {
        if self.missing.borrow().contains(&key.addr()) {
            return Err(Fault);
        }
        Ok(self.get(key.addr()))
    }
    fn exchange(&self, key: Key, old: u32, new: u32) -> core::result::Result<u32, Fault> {
        self.changes.take().into_iter().for_each(|value| self.set(key.addr(), value));
        let found = self.read(key)?;
        if found == old {
            self.set(key.addr(), new);
        }
        Ok(found)
    }
}

type Q = Queues<u32>;

/// A call as the kernel makes it: a thread with an id below 100 is there.
fn until_done<T>(
    mut f: impl FnMut(Option<Owner>) -> core::result::Result<T, Stop>,
) -> core::result::Result<T, Stop> {
    let mut known = None;
    loop {
        match f(known) {
            Err(Stop::Unknown(tid)) => {
                known = Some(Owner { tid, is: if tid < 100 { Being::Alive } else { Being::Gone } })
            }
            Err(Stop::Changed) => {}
            result => return result,
        }
    }
}

fn lock(q: &mut Q, m: &Words, addr: u64, tid: u32) -> core::result::Result<Acquired, Stop> {
    until_done(|known| q.lock(key(addr), tid, tid, known, m))
}

fn unlock(q: &mut Q, m: &Words, addr: u64, tid: u32) -> core::result::Result<Vec<u32>, Stop> {
    until_done(|_| q.unlock(key(addr), tid, m)).map(given)
}

fn given(given: Given<u32>) -> Vec<u32> {
    match given {
        Given::Free => vec![],
        Given::To(woken) => woken.iter().copied().collect(),
    }
}

#[allow(clippy::unnecessary_wraps)] // as it is passed
const fn lives(tid: u32) -> Option<Owner> {
    Some(Owner { tid, is: Being::Alive })
}

const fn error<T>(error: Errno) -> core::result::Result<T, Stop> {
    Err(Stop::Error(error))
}

#[test]
fn a_lock_goes_to_its_waiters_in_turn() {
    let (mut q, m) = (Q::default(), Words::default());
    assert_eq!(lock(&mut q, &m, 8, 1), Ok(Acquired::Taken));
    assert_eq!(m.get(8), 1);
    assert_eq!(lock(&mut q, &m, 8, 1), error(EDEADLK));
    assert_eq!(lock(&mut q, &m, 8, 2), Ok(Acquired::By(1)));
    assert_eq!(lock(&mut q, &m, 8, 3), Ok(Acquired::By(1)));
    assert_eq!(m.get(8), 1 | WAITERS);
    assert_eq!(q.try_lock(key(8), 4, None, &m), error(EAGAIN));
    assert_eq!(unlock(&mut q, &m, 8, 2), error(EPERM));
    assert_eq!(unlock(&mut q, &m, 8, 1), Ok(vec![2]));
    assert_eq!(m.get(8), 2 | WAITERS);
    assert_eq!(unlock(&mut q, &m, 8, 2), Ok(vec![3]));
    assert_eq!(m.get(8), 3 | WAITERS, "though nobody waits: as on Linux");
    assert_eq!(unlock(&mut q, &m, 8, 3), Ok(vec![]));
    assert_eq!(m.get(8), 0);
    assert_eq!(q.try_lock(key(8), 4, None, &m), Ok(()));
}

#[test]
fn an_owner_that_is_no_thread_is_asked_for() {
    let (mut q, m) = (Q::default(), Words::default());
    m.set(8, 100);
    assert_eq!(q.try_lock(key(8), 1, lives(99), &m), Err(Stop::Unknown(100)));
    assert_eq!(m.get(8), 100, "nobody waits before it is known");
    assert_eq!(lock(&mut q, &m, 8, 1), error(ESRCH));
    assert_eq!(m.get(8), 100 | WAITERS);
    assert!(q.is_empty());
}

#[test]
fn words_that_were_changed_or_are_not_there_change_nothing() {
    let (mut q, m) = (Q::default(), Words::default());
    m.changes.set(Some(5));
    assert_eq!(q.lock(key(8), 1, 1, None, &m), Err(Stop::Changed));
    assert_eq!(lock(&mut q, &m, 8, 1), Ok(Acquired::By(5)));
    m.changes.set(Some(6));
    assert_eq!(q.unlock(key(8), 5, &m).map(given), Err(Stop::Changed));
    m.missing.borrow_mut().insert(8);
    m.set(8, 5);
    let fault = Stop::Fault { key: key(8), writes: false };
    assert_eq!(unlock(&mut q, &m, 8, 5), Err(fault));
    assert_eq!(q.owner_died(5, &m).map(given), Err(fault));
    assert_eq!(q.give_up_lock(key(8)).iter().copied().collect::<Vec<_>>(), [1]);
    assert!(q.is_empty());
}

#[test]
fn what_the_program_made_of_a_word_has_to_agree_with_its_waiters() {
    let (mut q, m) = (Q::default(), Words::default());
    m.set(8, 1);
    assert_eq!(lock(&mut q, &m, 8, 2), Ok(Acquired::By(1)));
    m.set(8, 3);
    assert_eq!(lock(&mut q, &m, 8, 4), error(EINVAL));
    assert_eq!(unlock(&mut q, &m, 8, 3), error(EINVAL));
    m.set(8, 0);
    assert_eq!(lock(&mut q, &m, 8, 4), error(EINVAL));
    m.set(8, OWNER_DIED);
    assert_eq!(lock(&mut q, &m, 8, 4), Ok(Acquired::By(1)), "it will be given on");
}

#[test]
fn plain_operations_and_locks_refuse_each_others_waiters() {
    let (mut q, m) = (Q::default(), Words::default());
    q.push(key(16), 7, MATCH_ANY).unwrap();
    assert_eq!(lock(&mut q, &m, 16, 2), error(EINVAL));
    m.set(16, 1);
    assert_eq!(unlock(&mut q, &m, 16, 1), error(EINVAL));
    m.set(8, 1);
    assert_eq!(lock(&mut q, &m, 8, 2), Ok(Acquired::By(1)));
    assert_eq!(q.wake(key(8), 1, MATCH_ANY).count(), Err(EINVAL));
    assert_eq!(q.wake(key(8), 0, MATCH_ANY).count(), Ok(0));
    assert_eq!(q.requeue(key(8), key(16), 1), Err(EINVAL));
    let stop = q.requeue_for_lock((key(16), key(8)), 9, 1, lives(1), &m).map(|r| r.result);
    assert_eq!(stop, error(EINVAL));
    q.push_for_lock(key(24), 3, 3, key(8)).unwrap();
    assert_eq!(q.wake(key(24), 1, MATCH_ANY).count(), Err(EINVAL));
    let stop = q.requeue_for_lock((key(24), key(16)), 9, 0, lives(1), &m).map(|r| r.result);
    assert_eq!(stop, error(EINVAL), "another lock than it waits for");
    assert_eq!(q.remove(key(24), &3), Some(Waited::AtFirst));
}

#[test]
fn waiters_before_a_lock_are_woken_though_the_call_fails() {
    let (mut q, m) = (Q::default(), Words::default());
    m.set(8, 1);
    q.push(key(8), 7, MATCH_ANY).unwrap();
    q.push_for_lock(key(8), 8, 8, key(16)).unwrap();
    let woken = q.wake(key(8), 2, MATCH_ANY);
    assert_eq!(woken.count(), Err(EINVAL));
    assert_eq!(woken.iter().copied().collect::<Vec<_>>(), [7]);
}

#[test]
fn circles_are_refused() {
    let (mut q, m) = (Q::default(), Words::default());
    for n in 1..4 {
        m.set(8 * u64::from(n), n);
    }
    assert_eq!(lock(&mut q, &m, 16, 1), Ok(Acquired::By(2)));
    assert_eq!(lock(&mut q, &m, 24, 2), Ok(Acquired::By(3)));
    assert_eq!(lock(&mut q, &m, 8, 3), error(EDEADLK));
    assert_eq!(lock(&mut q, &m, 8, 4), Ok(Acquired::By(1)), "nobody waits for it");
}

#[test]
fn an_owner_that_ends_gives_on_what_it_had() {
    let (mut q, m) = (Q::default(), Words::default());
    m.set(8, 1);
    m.set(16, 1);
    for (addr, tid) in [(8, 2), (8, 3), (16, 4)] {
        assert_eq!(lock(&mut q, &m, addr, tid), Ok(Acquired::By(1)));
    }
    let mut woken = vec![];
    loop {
        match given(q.owner_died(1, &m).unwrap())[..] {
            [] => break,
            [who] => woken.push(who),
            _ => unreachable!(),
        }
    }
    woken.sort_unstable();
    assert_eq!(woken, [2, 4]);
    assert_eq!((m.get(8), m.get(16)), (OWNER_DIED | WAITERS | 2, OWNER_DIED | WAITERS | 4));
    assert_eq!(unlock(&mut q, &m, 8, 2), Ok(vec![3]));
}

#[test]
fn waiters_are_moved_to_a_lock() {
    let (mut q, m) = (Q::default(), Words::default());
    let requeue = |q: &mut Q, most| {
        let result = until_done(|known| q.requeue_for_lock((key(8), key(16)), most, 0, known, &m));
        result.map(|r| (r.woken.iter().copied().collect::<Vec<_>>(), r.result))
    };
    assert_eq!(requeue(&mut q, 1), Ok((vec![], Ok(0))));
    for tid in 2..6 {
        q.push_for_lock(key(8), tid, tid, key(16)).unwrap();
    }
    assert_eq!(requeue(&mut q, 1), Ok((vec![2], Ok(2))), "one has it, one waits for it");
    assert_eq!(m.get(16), WAITERS | 2);
    assert_eq!(q.remove(key(8), &3), Some(Waited::ForLock));
    assert_eq!(requeue(&mut q, 0), Ok((vec![], Ok(1))), "one more where nobody is woken");
    assert_eq!(unlock(&mut q, &m, 16, 2), Ok(vec![4]));
    q.push(key(8), 9, MATCH_ANY).unwrap();
    assert_eq!(requeue(&mut q, 9), Ok((vec![], Err(EINVAL))), "5 was moved before it met 9");
    assert_eq!(unlock(&mut q, &m, 16, 4), Ok(vec![5]));
    m.set(8, 1);
    assert_eq!(requeue(&mut q, 9), error(EAGAIN));
}

#[test]
fn what_would_wait_for_itself_is_not_moved() {
    let (mut q, m) = (Q::default(), Words::default());
    m.set(16, 1);
    m.set(24, 2);
    assert_eq!(lock(&mut q, &m, 24, 1), Ok(Acquired::By(2)));
    q.push_for_lock(key(8), 2, 2, key(16)).unwrap();
    let result = q.requeue_for_lock((key(8), key(16)), 9, 0, lives(1), &m).unwrap();
    assert_eq!(result.result, Err(EDEADLK));
    assert_eq!(q.remove(key(8), &2), Some(Waited::AtFirst));
}

#[derive(Clone, Debug)]
enum Op {
    Lock(u64, u32),
    Unlock(u64, u32),
    GiveUp(u32),
    End(u32),
    Wait(u32),
    Requeue(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let (addr, tid) = (1u64..3, 1u32..6);
    prop_oneof![
        4 => (addr.clone(), tid.clone()).prop_map(|(a, t)| Op::Lock(8 * a, t)),
        3 => (addr, tid.clone()).prop_map(|(a, t)| Op::Unlock(8 * a, t)),
        1 => tid.clone().prop_map(Op::GiveUp),
        1 => tid.clone().prop_map(Op::End),
        2 => tid.prop_map(Op::Wait),
        1 => (0usize..3).prop_map(Op::Requeue),
    ]
}

proptest! {
    /// Each lock has one owner, which no thread that sleeps takes for itself; a woken thread owns
    /// the lock for which it waited.
    #[test]
    fn one_thread_has_each_lock(ops in prop::collection::vec(op(), 0..80)) {
        let (mut q, m) = (Q::default(), Words::default());
        /// In `asleep`: the thread began to wait on the word 32 and was moved to the lock 8.
        const MOVED: u64 = 9;
        // What a thread sleeps for: a lock, or the word 32.
        let mut asleep: BTreeMap<u32, u64> = BTreeMap::new();
        let mut owners: BTreeMap<u64, u32> = BTreeMap::new();
        for op in ops {
            let mut woken = vec![];
            match op {
                Op::Lock(_, tid) | Op::Unlock(_, tid) | Op::Wait(tid) | Op::End(tid)
                    if asleep.contains_key(&tid) => {}
                Op::Lock(addr, tid) => match lock(&mut q, &m, addr, tid) {
                    Ok(Acquired::Taken) => prop_assert_eq!(owners.insert(addr, tid), None),
                    Ok(Acquired::By(owner)) => {
                        prop_assert_eq!(owners.get(&addr), Some(&owner));
                        asleep.insert(tid, addr);
                    }
                    result => prop_assert_eq!(result, error(EDEADLK)),
                },
                Op::Unlock(addr, tid) => {
                    let (result, has_failed) = failing::at(0, || unlock(&mut q, &m, addr, tid));
                    prop_assert!(!has_failed, "whatever wakes needs no memory");
                    if owners.get(&addr) == Some(&tid) {
                        owners.remove(&addr);
                        woken = result.unwrap().into_iter().map(|who| (addr, who)).collect();
                    } else {
                        prop_assert_eq!(result, error(EPERM));
                    }
                }
                Op::GiveUp(tid) => {
                    let began_at = asleep.remove(&tid).map_or(8, |addr| if addr == MOVED { 32 } else { addr });
                    q.remove(key(began_at), &tid);
                }
                Op::End(tid) => {
                    owners.retain(|&addr, &mut owner| {
                        let waited_for = asleep.values().any(|&a| a == addr || a == MOVED && addr == 8);
                        if owner == tid && !waited_for {
                            m.set(addr, 0); // as a robust list has it
                        }
                        owner != tid
                    });
                    while let [who] = given(q.owner_died(tid, &m).unwrap())[..] {
                        woken.push((if asleep[&who] == MOVED { 8 } else { asleep[&who] }, who));
                    }
                }
                Op::Wait(tid) if owners.get(&8) != Some(&tid) => {
                    let (result, _) = failing::at(0, || q.push_for_lock(key(32), tid, tid, key(8)));
                    prop_assert_eq!(result, Err(ENOMEM));
                    q.push_for_lock(key(32), tid, tid, key(8)).unwrap();
                    asleep.insert(tid, 32);
                }
                Op::Wait(_) => {}
                Op::Requeue(most) => {
                    let (result, has_failed) = failing::at(0, || until_done(|known| {
                        q.requeue_for_lock((key(32), key(8)), most, 0, known, &m)
                    }));
                    prop_assert!(!has_failed);
                    if let Ok(result) = result {
                        woken = result.woken.iter().map(|&who| (8, who)).collect();
                    }
                    // A moved thread waits for the lock.
                    for (&tid, addr) in asleep.iter_mut().filter(|(_, addr)| **addr == 32) {
                        let is_moved = q.0.iter().flatten().any(|w| w.who == tid && w.key == key(8));
                        if is_moved {
                            *addr = MOVED;
                        }
                    }
                }
            }
            for (addr, who) in woken {
                prop_assert!(asleep.remove(&who).is_some());
                prop_assert_eq!(owners.insert(addr, who), None);
            }
            for addr in [8, 16] {
                let owner = owners.get(&addr).copied().unwrap_or(0);
                prop_assert_eq!(m.get(addr) & OWNER, owner);
                let waits = q.0.iter().flatten().filter(|w| w.key == key(addr));
                for w in waits {
                    let has = matches!(w.aim, Aim::Lock { owner: has, .. } if has == owner);
                    prop_assert!(has);
                    prop_assert_eq!(m.get(addr) & WAITERS, WAITERS);
                }
            }
        }
    }
}

#[test]
fn what_is_looked_at_has_an_end() {
    let (mut q, m) = (Q::default(), Words::default());
    // Thread `t` waits for `t` + 1, which waits for the next one.
    let wait = |q: &mut Q, tid: u32| {
        m.set(u64::from(tid) * 8, tid + 1);
        q.lock(key(u64::from(tid) * 8), tid, tid, lives(tid + 1), &m)
    };
    let longest = 999 - CHAIN_MAX as u32;
    for tid in (longest + 1..1_000).rev() {
        assert_eq!(wait(&mut q, tid), Ok(Acquired::By(tid + 1)), "{tid}");
    }
    assert_eq!(wait(&mut q, longest), error(EDEADLK));
    // Many are moved: each of them is looked at once, whatever else is in their queue.
    let (mut q, m) = (Q::default(), Words::default());
    m.set(16, 7);
    for tid in 1_000..11_000 {
        q.push_for_lock(key(8), tid, tid, key(16)).unwrap();
    }
    let known = lives(7);
    let before = looks();
    let moved = q.requeue_for_lock((key(8), key(16)), usize::MAX - 1, 0, known, &m).unwrap();
    assert_eq!(moved.result, Ok(10_000));
    // Each once to find the threads for which the owner waits, and once as it is moved.
    assert!(looks() - before <= 2 * 10_000, "{}", looks() - before);
}
