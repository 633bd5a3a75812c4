//! Locks with priority inheritance whose words the queues of a space have (`hanare_core::futex`).
//!
//! The LWK's threads have no priorities, so there is none to inherit. What is left is that a lock
//! has an owner, and is taken from its owner when that one ends.

use crate::link::delegate;
use crate::parts::futexes::Futexes;
use crate::parts::signals::Interrupted;
use crate::process::Process;
use crate::process::futex::{
    Sleeper, count, in_place, mark, rouse, value_of, wait_until, wait_until_or, with_queues,
};
use crate::process::thread::Thread;
use crate::process::until::Until;
use crate::process::workers::had_thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::futex::{
    Acquired, Being, Fault, Given, Key, MATCH_ANY, Memory, OWNER, Owner, Requeued, Stop, Waited,
};
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::{__NR_futex, FUTEX_PRIVATE_FLAG, FUTEX_TRYLOCK_PI};

/// How often a thread that waits for one of another program looks whether that one is there, ns.
const LOOK_NS: u64 = 100_000_000;

/// The words of the running thread's program.
struct Words;

impl Memory for Words {
    fn read(&self, key: Key) -> core::result::Result<u32, Fault> {
        value_of(key).map_err(|usercopy::Fault| Fault)
    }
    fn exchange(&self, key: Key, old: u32, new: u32) -> core::result::Result<u32, Fault> {
        usercopy::compare_exchange_u32(UserAddr::of(key.addr()), old, new)
            .map_err(|usercopy::Fault| Fault)
    }
}

/// Brings the page of a word in, to be read or written.
fn bring_in(key: Key, writes: bool) -> Result<()> {
    let value = Words.read(key).map_err(|Fault| errno::EFAULT)?;
    if writes {
        Words.exchange(key, value, value).map_err(|Fault| errno::EFAULT)?;
    }
    Ok(())
}

/// Runs `f` under the lock of the queues until it has a result. It is told what an owner was found
/// to be.
fn until_done<T>(
    me: &Thread,
    mut f: impl FnMut(&mut Futexes<Thread>, Option<Owner>) -> core::result::Result<T, Stop>,
) -> Result<T> {
    let mut known = None;
    loop {
        let stop = match in_place(me, |queues| f(queues, known)) {
            Ok(value) => return Ok(value),
            Err(stop) => stop,
        };
        match stop {
            Stop::Error(error) => return Err(error),
            Stop::Fault { key, writes } => bring_in(key, writes)?,
            Stop::Changed | Stop::Unknown(_) if me.must_end() => {
                return Err(errno::EINTR);
            }
            Stop::Changed => cpus::yield_now(),
            Stop::Unknown(tid) => {
                // Others may name one owner after the other, for ever: the CPU is not this thread's
                // alone.
                if known.is_some() {
                    cpus::yield_now();
                }
                known = Some(Owner { tid, is: where_is(me, tid).being() });
            }
        }
    }
}

/// Kernel in which a lock's owner runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// In a process that shares this memory, which tells its end here ([`release`]).
    Here,
    /// In another program, whose end the LWK is not told of.
    Elsewhere,
    /// In Linux' kernel.
    Kernel,
    /// There is no such thread any more.
    Nowhere,
}

impl Whereabouts {
    const fn being(self) -> Being {
        match self {
            Self::Here | Self::Elsewhere => Being::Alive,
            Self::Kernel => Being::Kernel,
            Self::Nowhere => Being::Gone,
        }
    }
}

fn where_is(me: &Thread, tid: u32) -> Whereabouts {
    let (mut is_here, mut was_here) = (false, false);
    for process in me.process.space.processes() {
        was_here |= process.pid() == tid || had_thread(me, &process, tid);
        let is_it = |t: &Arc<Thread>| t.tid() == tid && !t.has_left_locks.load(Ordering::SeqCst);
        is_here |= process.with_threads(|all| all.iter().any(is_it));
    }
    if is_here {
        Whereabouts::Here
    } else if was_here {
        Whereabouts::Nowhere // a worker may outlive its thread
    } else {
        elsewhere(me, tid)
    }
}

/// Where an owner of another program runs, as Linux says that tries to get a lock of that thread's
/// for this one.
fn elsewhere(me: &Thread, tid: u32) -> Whereabouts {
    const OP: u32 = FUTEX_TRYLOCK_PI | FUTEX_PRIVATE_FLAG;
    let result = me
        .write_scratch(&tid.to_le_bytes())
        .and_then(|word| delegate::linux(me, __NR_futex, [word, OP.into(), 0, 0, 0, 0]));
    match result {
        Err(errno::ESRCH) => Whereabouts::Nowhere,
        Err(errno::EPERM) => Whereabouts::Kernel,
        _ => Whereabouts::Elsewhere,
    }
}

/// FUTEX_TRYLOCK_PI.
pub fn try_lock(me: &Thread, key: Key) -> Result<u64> {
    until_done(me, |queues, known| queues.try_lock(key, me.tid(), known, &Words))?;
    Ok(0)
}

/// FUTEX_LOCK_PI, FUTEX_LOCK_PI2.
pub fn lock(me: &Thread, key: Key, until: Until) -> Result<u64> {
    me.futex_woken.store(false, Ordering::Relaxed);
    let acquired = until_done(me, |queues, known| {
        queues.lock(key, Sleeper::one_of(me, 0, None), me.tid(), known, &Words)
    })?;
    let Acquired::By(owner) = acquired else { return Ok(0) };
    wait(me, until, owner);
    match stop_waiting(me, key) {
        None => owned(me, key),
        Some(_) => given_up(me, until),
    }
}

/// Waits for a lock that a thread has, which may end, or have ended meanwhile.
fn wait(me: &Thread, until: Until, owner: u32) {
    loop {
        let is = where_is(me, owner);
        if is == Whereabouts::Nowhere {
            give_on(me, owner);
        }
        if is != Whereabouts::Elsewhere {
            return wait_until(me, until);
        }
        let look = Until::after(LOOK_NS);
        wait_until(me, if until.deadline() < look.deadline() { until } else { look });
        let is_told = me.futex_woken.load(Ordering::Acquire) || me.must_end() || me.has_signal();
        if is_told || until.has_come() {
            return;
        }
    }
}

/// Takes the thread out of the queues; for what it waited still.
fn stop_waiting(me: &Thread, key: Key) -> Option<Waited> {
    let mut queues = me.process.space.futexes.lock();
    if me.futex_woken.load(Ordering::Relaxed) {
        return None;
    }
    queues.remove(key, &Sleeper::one_of(me, 0, None))
}

/// The thread was woken: it has the lock, unless the word has gone ([`give_on`]).
fn owned(me: &Thread, key: Key) -> Result<u64> {
    match Words.read(key) {
        Ok(value) if value & OWNER == me.tid() => Ok(0),
        _ => Err(errno::EFAULT),
    }
}

/// The time has come, or a signal: after that the call is made again, as Linux does.
fn given_up(me: &Thread, until: Until) -> Result<u64> {
    if until.has_come() {
        return Err(errno::ETIMEDOUT);
    }
    me.signals.lock().set_interrupted(Interrupted::NotStarted);
    Err(errno::EINTR)
}

/// FUTEX_UNLOCK_PI.
pub fn unlock(me: &Thread, key: Key) -> Result<u64> {
    let given = until_done(me, |queues, _| queues.unlock(key, me.tid(), &Words).map(marked))?;
    told(me, &given);
    Ok(0)
}

/// Checks first what FUTEX_UNLOCK_PI checks first, for a word at `addr` of any memory. `EFAULT`: it
/// is not there. `EPERM`: the caller does not own it.
pub fn check_owner(me: &Thread, addr: UserAddr) -> Result<()> {
    let value = usercopy::read_u32(addr).map_err(|usercopy::Fault| errno::EFAULT)?;
    if value & OWNER == me.tid() { Ok(()) } else { Err(errno::EPERM) }
}

fn marked(given: Given<Sleeper>) -> Given<Sleeper> {
    match given {
        Given::Free => Given::Free,
        Given::To(woken) => Given::To(mark(woken)),
    }
}

fn told(me: &Thread, given: &Given<Sleeper>) {
    if let Given::To(woken) = given {
        rouse(me, woken);
    }
}

/// FUTEX_WAIT_REQUEUE_PI: waits on a word that is `value` to be moved to a lock, which the thread
/// has then. Of a lock that the queues have not (`None`), a wake-up ends the wait.
pub fn wait_for_lock(
    me: &Thread,
    word: Key,
    value: u32,
    until: Until,
    lock: Option<Key>,
) -> Result<u64> {
    me.futex_woken.store(false, Ordering::Relaxed);
    me.looks_for_owner.store(false, Ordering::Relaxed);
    with_queues(me, word, |queues| {
        if value_of(word)? != value {
            return Ok(Err(errno::EAGAIN));
        }
        let who = Sleeper::one_of(me, 0, None);
        let queued = match lock {
            Some(lock) => queues.push_for_lock(word, who, me.tid(), lock),
            None => queues.push(word, who, MATCH_ANY),
        };
        // Without memory it cannot wait: the program looks at the word again.
        Ok(queued.map_err(|_| errno::EAGAIN))
    })??;
    wait_to_be_moved(me, until, lock);
    match stop_waiting(me, word) {
        None => lock.map_or(Ok(0), |lock| owned(me, lock)),
        Some(Waited::ForLock) if !until.has_come() => Err(errno::EAGAIN), // not again: the word has changed
        Some(_) => given_up(me, until),
    }
}

/// Waits to be moved to a lock, and for that. Where its owner is of another program, it is looked
/// for, as in [`lock`].
fn wait_to_be_moved(me: &Thread, until: Until, lock: Option<Key>) {
    wait_until_or(me, until, || me.looks_for_owner.load(Ordering::Acquire));
    if me.looks_for_owner.swap(false, Ordering::Relaxed) {
        let owner = |lock| me.process.space.futexes.lock().owner_for(lock, me.tid());
        match lock.and_then(owner) {
            Some(owner) => wait(me, until, owner),
            None => wait_until(me, until), // it has it, or has been woken
        }
    }
}

/// Has the threads that wait for a lock look for its owner, whose end the LWK is not told of.
fn look_for_owner(p: &Process, lock: Key) {
    for process in p.space.processes() {
        for thread in process.threads() {
            if p.space.futexes.lock().owner_for(lock, thread.tid()).is_some() {
                thread.looks_for_owner.store(true, Ordering::Release);
                cpus::kick(thread.task());
            }
        }
    }
}

/// FUTEX_CMP_REQUEUE_PI from a word that is `expected` to a lock.
pub fn requeue(me: &Thread, from: Key, lock: Key, most: u64, expected: u32) -> Result<u64> {
    let Requeued { woken, result } = until_done(me, |queues, known| {
        let requeued =
            queues.requeue_for_lock((from, lock), count(most), expected, known, &Words)?;
        Ok(Requeued { woken: mark(requeued.woken), ..requeued })
    })?;
    rouse(me, &woken);
    // Its owner may have left it before others were moved to it, and so have found no waiter.
    if let Ok(value) = Words.read(lock)
        && value & OWNER != 0
    {
        match where_is(me, value & OWNER) {
            Whereabouts::Here | Whereabouts::Kernel => {}
            Whereabouts::Elsewhere => look_for_owner(&me.process, lock),
            Whereabouts::Nowhere => give_on(me, value & OWNER),
        }
    }
    Ok(result? as u64)
}

/// The running thread leaves its program: its locks go to those that wait for them.
pub fn release(thread: &Thread) {
    // Before the queues are looked at. A thread that waits from then on finds the owner gone
    // (`wait`).
    thread.has_left_locks.store(true, Ordering::SeqCst);
    give_on(thread, thread.tid());
}

/// The locks of an owner that is gone go to those that wait for them.
fn give_on(me: &Thread, owner: u32) {
    loop {
        match in_place(me, |queues| queues.owner_died(owner, &Words).map(marked)) {
            Ok(Given::Free) | Err(Stop::Error(_) | Stop::Unknown(_)) => return,
            Ok(given) => {
                told(me, &given);
                cpus::yield_now(); // one look at all waiters for each lock
            }
            Err(Stop::Changed) => cpus::yield_now(),
            Err(Stop::Fault { key, writes }) => {
                if bring_in(key, writes).is_err() {
                    let woken = in_place(me, |queues| mark(queues.give_up_lock(key)));
                    rouse(me, &woken);
                }
            }
        }
    }
}
