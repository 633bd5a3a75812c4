//! Locks with priority inheritance (FUTEX_LOCK_PI and its like): their words hold the owners'
//! thread ids.
//!
//! A lock goes to the oldest of its waiters when its owner gives it back, or ends: the word names
//! the new owner before any other thread can look. Words and queues are changed under the lock of
//! the queues, by accesses that end where a page is not there ([`Stop::Fault`]); each function does
//! all accesses that may end so before it changes a queue.

use super::{Aim, Key, MATCH_ANY, OWNER, OWNER_DIED, Queues, WAITERS, Waiter, Woken, take};
use crate::errno::{EAGAIN, EDEADLK, EINVAL, EPERM, ESRCH, Errno, Result};
use alloc::collections::LinkedList;

/// Waiters that are looked at, at most, to find a chain of threads that wait for each other. A
/// longer search counts as a circle: the queues are locked meanwhile.
const LOOKS_MAX: usize = 1 << 16;
/// Threads that wait for each other, at most; beyond that it counts as a circle, as on Linux beyond
/// 1,024.
const CHAIN_MAX: usize = 128;

/// A thread, and those for which it waits, one by way of the other.
struct Chain {
    tids: [u32; CHAIN_MAX],
    length: usize,
    /// The chain goes on beyond [`CHAIN_MAX`] threads or [`LOOKS_MAX`] looks: its end is not known.
    is_cut: bool,
}

impl Chain {
    /// Whether a thread that waits for the first one closes a circle.
    fn is_closed_by(&self, tid: u32) -> bool {
        self.is_cut || self.tids[..self.length].contains(&tid)
    }
}

/// A page is not there, or may not be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Words of the program.
pub trait Memory {
    /// A word's value.
    ///
    /// # Errors
    /// [`Fault`]
    fn read(&self, key: Key) -> core::result::Result<u32, Fault>;

    /// Replaces a word that is `old`. What it was.
    ///
    /// # Errors
    /// [`Fault`]
    fn exchange(&self, key: Key, old: u32, new: u32) -> core::result::Result<u32, Fault>;
}

/// Why an operation has ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A word was not there. To be begun anew when it is.
    Fault {
        /// The word.
        key: Key,
        /// Whether the failed access was to write the word.
        writes: bool,
    },
    /// A word has changed meanwhile: to be begun anew.
    Changed,
    /// A lock without waiters has this owner. To be begun anew with what is known of it.
    Unknown(u32),
    /// The error of the call.
    Error(Errno),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::Error(error)
    }
}

/// Owner of a lock, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Thread id in the lock's word.
    pub tid: u32,
    /// The state of that thread.
    pub is: Being,
}

/// State of the thread whose id is in a lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Being {
    /// There is such a thread of a program.
    Alive,
    /// There is none.
    Gone,
    /// The thread is one of Linux' kernel, which has no locks.
    Kernel,
}

/// Result of an attempt to get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The thread has the lock.
    Taken,
    /// The thread waits, or would have to wait, for this owner.
    By(u32),
}

/// Result of giving a lock back, or of the end of its owner.
#[derive(Debug)]
pub enum Given<W> {
    /// The lock has no owner.
    Free,
    /// A waiter has the lock now.
    To(Woken<W>),
}

/// Result of FUTEX_CMP_REQUEUE_PI, up to an error that it may have met.
#[derive(Debug)]
pub struct Requeued<W> {
    /// The waiter that has the lock now.
    pub woken: Woken<W>,
    /// Number of waiters that were woken or moved.
    pub result: Result<usize>,
}

fn read(memory: &impl Memory, key: Key) -> core::result::Result<u32, Stop> {
    memory.read(key).map_err(|Fault| Stop::Fault { key, writes: false })
}

/// Replaces a word that still is `old`.
fn replace(memory: &impl Memory, key: Key, old: u32, new: u32) -> core::result::Result<(), Stop> {
    match memory.exchange(key, old, new) {
        Ok(found) if found == old => Ok(()),
        Ok(_) => Err(Stop::Changed),
        Err(Fault) => Err(Stop::Fault { key, writes: true }),
    }
}

impl<W> Woken<W> {
    fn of(all: LinkedList<Waiter<W>>) -> Self {
        Self { all, has_met_lock: false }
    }
}

impl<W: PartialEq> Queues<W> {
    /// The oldest waiter of a word.
    fn top(&self, key: Key) -> Option<&Waiter<W>> {
        self.0[Self::index(key)].iter().find(|w| w.key == key)
    }

    /// Gets a lock for the thread `tid`, or returns the lock's owner. `known`: what its owner was
    /// found to be. `has_followers`: others are about to wait for it.
    fn acquire(
        &self,
        key: Key,
        tid: u32,
        known: Option<Owner>,
        has_followers: bool,
        memory: &impl Memory,
    ) -> core::result::Result<Acquired, Stop> {
        let value = read(memory, key)?;
        let owner = value & OWNER;
        if owner == tid {
            return Err(EDEADLK.into());
        }
        if let Some(top) = self.top(key) {
            // What the program has made of the word has to be what the waiters wait for.
            return match top.aim {
                Aim::Lock { owner: has, .. }
                    if owner == has || owner == 0 && value & OWNER_DIED != 0 =>
                {
                    Ok(Acquired::By(has))
                }
                _ => Err(EINVAL.into()),
            };
        }
        if owner == 0 {
            let waiters = if has_followers { WAITERS } else { 0 };
            replace(memory, key, value, value & OWNER_DIED | waiters | tid)?;
            return Ok(Acquired::Taken);
        }
        let Some(known) = known.filter(|known| known.tid == owner) else {
            return Err(Stop::Unknown(owner));
        };
        // From here on its owner cannot give it back without a call, which waits for the lock of
        // the queues.
        if value & WAITERS == 0 {
            replace(memory, key, value, value | WAITERS)?;
        }
        match known.is {
            Being::Alive => Ok(Acquired::By(owner)),
            Being::Gone => Err(ESRCH.into()),
            Being::Kernel => Err(EPERM.into()),
        }
    }

    /// The threads for which `owner` waits, directly and through others.
    fn chain(&self, owner: u32) -> Chain {
        let mut chain = Chain { tids: [0; CHAIN_MAX], length: 0, is_cut: false };
        let (mut at, mut looks) = (Some(owner), 0);
        while let Some(tid) = at {
            chain.is_cut = chain.length == CHAIN_MAX || looks > LOOKS_MAX;
            if chain.is_closed_by(tid) {
                break;
            }
            chain.tids[chain.length] = tid;
            chain.length += 1;
            let mut waiters = self.0.iter().flatten().inspect(|_| {
                #[cfg(test)]
                super::tests::look();
                looks += 1;
            });
            at = waiters.find_map(|w| match w.aim {
                Aim::Lock { tid: waits, owner } if waits == tid => Some(owner),
                _ => None,
            });
        }
        chain
    }

    /// FUTEX_TRYLOCK_PI by the thread `tid`.
    ///
    /// # Errors
    /// [`Stop`]; `EAGAIN`: another one has it. `EDEADLK`: it has it already. `EINVAL`: the word is
    /// not what its waiters wait for.
    pub fn try_lock(
        &self,
        key: Key,
        tid: u32,
        known: Option<Owner>,
        memory: &impl Memory,
    ) -> core::result::Result<(), Stop> {
        match self.acquire(key, tid, known, false, memory)? {
            Acquired::Taken => Ok(()),
            Acquired::By(_) => Err(EAGAIN.into()),
        }
    }

    /// FUTEX_LOCK_PI by the thread `tid`: it has the lock, or waits for it as `who`.
    ///
    /// # Errors
    /// As of [`try_lock`](Self::try_lock); `EDEADLK` also where threads would wait for each other;
    /// `ENOMEM`.
    pub fn lock(
        &mut self,
        key: Key,
        who: W,
        tid: u32,
        known: Option<Owner>,
        memory: &impl Memory,
    ) -> core::result::Result<Acquired, Stop> {
        let acquired = self.acquire(key, tid, known, false, memory)?;
        if let Acquired::By(owner) = acquired {
            if self.chain(owner).is_closed_by(tid) {
                return Err(EDEADLK.into());
            }
            self.append(key, who, MATCH_ANY, Aim::Lock { tid, owner })?;
        }
        Ok(acquired)
    }

    /// The owner of a lock, if the thread `tid` waits for that.
    #[must_use]
    pub fn owner_for(&self, key: Key, tid: u32) -> Option<u32> {
        self.0[Self::index(key)].iter().find_map(|w| match w.aim {
            Aim::Lock { tid: waits, owner } if w.key == key && waits == tid => Some(owner),
            _ => None,
        })
    }

    /// The oldest that waits for a lock.
    fn next(&self, key: Key) -> Option<u32> {
        self.0[Self::index(key)].iter().find_map(|w| match w.aim {
            Aim::Lock { tid, .. } if w.key == key => Some(tid),
            _ => None,
        })
    }

    /// Has the oldest that waits for a lock, `next`, own it, as its word says already.
    fn hand_over(&mut self, key: Key, next: u32) -> Woken<W> {
        let queue = self.queue(key);
        let is_next =
            |w: &Waiter<W>| w.key == key && matches!(w.aim, Aim::Lock { tid, .. } if tid == next);
        let woken = take(queue, is_next);
        for waiter in queue.iter_mut().filter(|w| w.key == key) {
            if let Aim::Lock { owner, .. } = &mut waiter.aim {
                *owner = next;
            }
        }
        Woken::of(woken)
    }

    /// FUTEX_UNLOCK_PI by the thread `tid`.
    ///
    /// # Errors
    /// [`Stop`]; `EPERM`: it has not the lock. `EINVAL`: its waiters wait for something else.
    /// `EAGAIN`: the word has changed.
    pub fn unlock(
        &mut self,
        key: Key,
        tid: u32,
        memory: &impl Memory,
    ) -> core::result::Result<Given<W>, Stop> {
        let value = read(memory, key)?;
        if value & OWNER != tid {
            return Err(EPERM.into());
        }
        match self.top(key).map(|top| top.aim) {
            Some(Aim::Lock { owner, .. }) if owner == tid => {}
            Some(_) => return Err(EINVAL.into()),
            None => {
                return match replace(memory, key, value, 0) {
                    Err(Stop::Changed) => Err(EAGAIN.into()),
                    result => result.map(|()| Given::Free),
                };
            }
        }
        let next = self.next(key).ok_or(EINVAL)?;
        replace(memory, key, value, WAITERS | next)?;
        Ok(Given::To(self.hand_over(key, next)))
    }

    /// The thread `tid` ends: a lock of its that others wait for goes to the oldest of them. To be
    /// called until no thread waits for one.
    ///
    /// # Errors
    /// [`Stop`]
    pub fn owner_died(
        &mut self,
        tid: u32,
        memory: &impl Memory,
    ) -> core::result::Result<Given<W>, Stop> {
        let its = |w: &Waiter<W>| matches!(w.aim, Aim::Lock { owner, .. } if owner == tid);
        let Some(key) = self.0.iter().flatten().find(|w| its(w)).map(|w| w.key) else {
            return Ok(Given::Free);
        };
        let next = self.next(key).ok_or(EINVAL)?;
        let value = read(memory, key)?;
        replace(memory, key, value, OWNER_DIED | WAITERS | next)?;
        Ok(Given::To(self.hand_over(key, next)))
    }

    /// The word of a lock is not there any more: its oldest waiter has nothing to wait for.
    pub fn give_up_lock(&mut self, key: Key) -> Woken<W> {
        let is_waiter = |w: &Waiter<W>| w.key == key && matches!(w.aim, Aim::Lock { .. });
        Woken::of(take(self.queue(key), is_waiter))
    }

    /// FUTEX_WAIT_REQUEUE_PI by the thread `tid`: it waits on `key` to be moved to `lock`.
    ///
    /// # Errors
    /// `ENOMEM`
    pub fn push_for_lock(&mut self, key: Key, who: W, tid: u32, lock: Key) -> Result<()> {
        self.append(key, who, MATCH_ANY, Aim::Requeue { tid, lock })
    }

    /// FUTEX_CMP_REQUEUE_PI: the oldest waiter of `from` gets the lock if that has no owner. Up to
    /// `most` others, one more if it has an owner, wait for the lock from now on.
    ///
    /// # Errors
    /// [`Stop`] before anything was changed; `EAGAIN`: `from` is not `expected`. `EINVAL`: the
    /// first waiter is none of FUTEX_WAIT_REQUEUE_PI with this lock.
    pub fn requeue_for_lock(
        &mut self,
        (from, lock): (Key, Key),
        most: usize,
        expected: u32,
        known: Option<Owner>,
        memory: &impl Memory,
    ) -> core::result::Result<Requeued<W>, Stop> {
        if read(memory, from)? != expected {
            return Err(EAGAIN.into());
        }
        read(memory, lock)?;
        let Some(top) = self.top(from) else {
            return Ok(Requeued { woken: Woken::of(LinkedList::new()), result: Ok(0) });
        };
        let Aim::Requeue { tid: first, lock: aimed } = top.aim else { return Err(EINVAL.into()) };
        if aimed != lock {
            return Err(EINVAL.into());
        }
        let acquired = self.acquire(lock, first, known, most > 0, memory)?;
        let (owner, mut left, woken) = match acquired {
            Acquired::Taken => (first, most, take(self.queue(from), |w| w.key == from)),
            Acquired::By(owner) => (owner, most.saturating_add(1), LinkedList::new()),
        };
        let chain = self.chain(owner);
        let (mut count, mut error) = (woken.len(), None);
        // Each waiter of the queue is looked at once.
        let mut rest = core::mem::take(self.queue(from));
        let (mut stay, mut moved) = (LinkedList::new(), LinkedList::new());
        while left > 0 && error.is_none() && !rest.is_empty() {
            #[cfg(test)]
            super::tests::look();
            let behind = rest.split_off(1);
            let mut one = core::mem::replace(&mut rest, behind);
            match one.front_mut().filter(|w| w.key == from) {
                None => stay.append(&mut one),
                Some(waiter) => {
                    match waiter.aim {
                        Aim::Requeue { tid, .. } if chain.is_closed_by(tid) => {
                            error = Some(EDEADLK)
                        }
                        Aim::Requeue { tid, lock: aimed } if aimed == lock => {
                            (waiter.key, waiter.aim) = (lock, Aim::Lock { tid, owner });
                            count += 1;
                            left -= 1;
                        }
                        _ => error = Some(EINVAL),
                    }
                    if error.is_some() { &mut stay } else { &mut moved }.append(&mut one);
                }
            }
        }
        stay.append(&mut rest);
        *self.queue(from) = stay;
        self.queue(lock).append(&mut moved);
        Ok(Requeued { woken: Woken::of(woken), result: error.map_or(Ok(count), Err) })
    }
}

#[cfg(test)]
mod tests;
