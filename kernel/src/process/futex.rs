//! Waiters on futexes whose words the queues of a space have (`hanare_core::futex`).
//!
//! A word is looked at, and its waiter queued, under the lock of the queues. A thread that changes
//! the word and then wakes takes that lock too, so no wake-up is lost. Under the lock a page that
//! is not there ends the access, it is brought in without it.

use crate::base::user;
use crate::link::delegate;
use crate::parts::futexes::{self, Futexes, Note};
use crate::parts::signals::{Interrupted, Rest};
use crate::process::Process;
use crate::process::thread::{self, Thread};
use crate::process::until::Until;
use crate::sched::cpus;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::futex::split::NOTE_WOKEN;
use hanare_core::futex::{Key, MATCH_ANY, Operation, Place, Woken};
use hanare_core::syscalls::Restart;
use hanare_core::time::Timespec;
use hanare_core::vma::{Backing, Prot};
use hanare_hal::memory;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::{__NR_futex, FUTEX_WAKE};

/// The last address that could be a program's on Linux.
const LAST: u64 = (1 << 47) - 4096 - 4;

/// Which kernel has the waiters of a word, with the errors of Linux' get_futex_key.
pub fn place_of(p: &Process, addr: UserAddr, is_private: bool) -> Result<Place> {
    let place = Place::of(addr.get(), is_private, !is_private && is_common(p, addr))?;
    // A shared word has to be there, and to have a page of its own.
    let is_there = || usercopy::read_u32(addr).is_ok() && !is_constant(p, addr);
    if place != Place::Linux && (addr.get() > LAST || !is_private && !is_there()) {
        return Err(errno::EFAULT);
    }
    Ok(place)
}

/// Whether a word lies in memory that Linux shares among processes.
pub fn is_common(p: &Process, addr: UserAddr) -> bool {
    p.memory()
        .mm
        .lock()
        .mappings()
        .find(addr.get())
        .is_some_and(|v| matches!(v.backing, Backing::SharedLinux { .. }))
}

/// Whether the word lies in memory of no file that may not be written: Linux finds no page there
/// that processes could have in common.
fn is_constant(p: &Process, addr: UserAddr) -> bool {
    p.memory()
        .mm
        .lock()
        .mappings()
        .find(addr.get())
        .is_some_and(|v| matches!(v.backing, Backing::Anonymous) && !v.prot.contains(Prot::WRITE))
}

/// Whether a word lies in memory that may not be written.
pub fn is_read_only(p: &Process, addr: UserAddr) -> bool {
    p.memory().mm.lock().mappings().find(addr.get()).is_some_and(|v| !v.prot.contains(Prot::WRITE))
}

/// A thread, as the queues know it.
pub type Sleeper = futexes::Sleeper<Thread>;

impl Sleeper {
    /// The running thread `me`, which waits on one word of several.
    pub fn one_of(me: &Thread, index: usize, note: Option<Note>) -> Sleeper {
        Sleeper { thread: me.arc(), index, note }
    }
}

/// The running thread waits until then, for a wake-up (`futex_woken`) or a signal.
pub fn wait_until(thread: &Thread, until: Until) {
    wait_until_or(thread, until, || false);
}

/// As [`wait_until`], but the wait also ends if the thread is kicked and `is_over` holds.
pub fn wait_until_or(thread: &Thread, until: Until, is_over: impl Fn() -> bool + Sync) {
    // By `rouse`, by a thread that sends a signal, ends the process or sets the clock, or by the
    // time.
    let is_woken = || thread.futex_woken.load(Ordering::Acquire);
    let is_told_something = || is_woken() || is_over() || thread.must_end() || thread.has_signal();
    let follows_clock = until.follows_clock();
    if follows_clock {
        *thread.follows_clock.lock() = true;
    }
    loop {
        cpus::until_told(|| is_told_something() || until.was_set_to(), until.deadline());
        if is_told_something() || until.has_come() {
            break;
        }
    }
    if follows_clock {
        *thread.follows_clock.lock() = false;
    }
}

/// The running thread sleeps until then; `EINTR` with a signal.
pub fn sleep_until(thread: &Thread, until: Until) -> Result<()> {
    thread.futex_woken.store(false, Ordering::Relaxed);
    wait_until(thread, until);
    if until.has_come() { Ok(()) } else { Err(errno::EINTR) }
}

/// A `struct timespec` of the application in ns; `EINVAL` if it is none.
pub fn read_timespec(pointer: UserAddr) -> Result<u64> {
    user::get::<Timespec>(pointer)?.to_ns()
}

/// The value of a word of the running thread's program.
pub fn value_of(word: Key) -> core::result::Result<u32, usercopy::Fault> {
    usercopy::read_u32(UserAddr::of(word.addr()))
}

/// Runs `f` under the lock of the queues, with the running thread's memory as it is.
pub fn in_place<T>(me: &Thread, f: impl FnOnce(&mut Futexes<Thread>) -> T) -> T {
    let mut queues = me.process.space.futexes.lock();
    me.in_place.store(true, Ordering::Relaxed);
    let result = f(&mut queues);
    me.in_place.store(false, Ordering::Relaxed);
    result
}

/// Like [`in_place`]; if `f` meets a page of `word` that is not there, the page is brought in
/// without the lock and `f` runs again.
pub fn with_queues<T>(
    me: &Thread,
    word: Key,
    f: impl Fn(&mut Futexes<Thread>) -> core::result::Result<T, usercopy::Fault>,
) -> Result<T> {
    loop {
        match in_place(me, &f) {
            Ok(value) => return Ok(value),
            Err(usercopy::Fault) => value_of(word).map_err(|_| errno::EFAULT)?,
        };
    }
}

/// A wait for a word that is to have a value.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Word that the thread waits for.
    pub word: Key,
    /// Value that the word must have when the wait begins.
    pub value: u32,
    /// Time until which the thread waits.
    pub until: Until,
    /// Wake-ups that the thread waits for, as FUTEX_WAIT_BITSET has them.
    pub bitset: u32,
}

impl Rest for Waiting {
    fn go_on(&self) -> Result<u64> {
        self.wait(thread::current())
    }
}

impl Waiting {
    /// The running thread waits, at first or for the rest of the time.
    pub fn wait(&self, thread: &Thread) -> Result<u64> {
        let Waiting { word, value, until, bitset } = *self;
        thread.futex_woken.store(false, Ordering::Relaxed);
        with_queues(thread, word, |queues| {
            let same = value_of(word)? == value;
            if same {
                // Without memory it cannot wait: the program looks at the word again.
                let queued = queues.push(word, Sleeper::one_of(thread, 0, None), bitset);
                return Ok(queued.map_err(|_| errno::EAGAIN));
            }
            Ok(Err(errno::EAGAIN))
        })??;
        wait_until(thread, until);
        let woken = {
            let mut queues = thread.process.space.futexes.lock();
            // Woken, though a signal or the deadline came too: not one wake-up may be lost.
            thread.futex_woken.load(Ordering::Relaxed)
                || queues.remove(word, &Sleeper::one_of(thread, 0, None)).is_none()
        };
        if woken {
            return Ok(0);
        }
        // As Linux: after a handler with SA_RESTART only if there is no timeout.
        if until.is_never() {
            return interrupted(thread, until, Restart::Sys);
        }
        if until.has_come() {
            return Err(errno::ETIMEDOUT);
        }
        thread.signals.lock().set_rest(*self);
        Err(errno::EINTR)
    }
}

/// A wait ended without a wake-up: the time has come, or a signal.
pub fn interrupted(thread: &Thread, until: Until, restart: Restart) -> Result<u64> {
    if until.has_come() {
        return Err(errno::ETIMEDOUT);
    }
    thread.signals.lock().set_interrupted(Interrupted::Local(restart));
    Err(errno::EINTR)
}

/// Wakes up to `most` waiters, at least one as Linux does; how many there were.
pub fn wake(me: &Thread, word: Key, most: u64, bitset: u32) -> Result<u64> {
    let woken = mark(me.process.space.futexes.lock().wake(word, count(most).max(1), bitset));
    rouse(me, &woken);
    Ok(woken.count()? as u64)
}

/// Wakes some waiters and has others wait on another word; how many both were. `expected`: what the
/// word has to be.
pub fn requeue(
    me: &Thread,
    (from, to): (Key, Key),
    (wake, most): (u64, u64),
    expected: Option<u32>,
) -> Result<u64> {
    let (woken, moved) = with_queues(me, from, |queues| {
        if let Some(expected) = expected
            && value_of(from)? != expected
        {
            return Ok(Err(errno::EAGAIN));
        }
        let woken = mark(queues.wake(from, count(wake), MATCH_ANY));
        let moved = woken.count().and_then(|_| queues.requeue(from, to, count(most)));
        Ok(Ok((woken, moved)))
    })??;
    rouse(me, &woken);
    Ok((woken.count()? + moved?) as u64)
}

/// Marks threads that were woken, with the queues locked: a thread that looks under that lock, and
/// is not marked, is in a queue.
pub fn mark(woken: Woken<Sleeper>) -> Woken<Sleeper> {
    for w in woken.iter() {
        w.thread.futex_woken.store(true, Ordering::Release);
        if let Some(note) = w.note {
            memory::store_u32(note.place, NOTE_WOKEN);
        }
    }
    woken
}

/// Has the woken sleepers go on.
pub fn rouse(me: &Thread, woken: &Woken<Sleeper>) {
    for w in woken.iter() {
        match w.note {
            None => cpus::kick(w.thread.task()),
            Some(note) => {
                let op = u64::from(FUTEX_WAKE | Operation::PRIVATE);
                let all = [note.addr, op, i32::MAX as u64, 0, 0, 0];
                let _ = delegate::for_process(me, __NR_futex, all);
            }
        }
    }
}

/// A count argument: an `int`, negative means none.
pub fn count(value: u64) -> usize {
    usize::try_from(value as u32 as i32).unwrap_or(0)
}

/// Replaces a word by what `f` makes of it, as one access; what was there.
pub fn exchange(addr: UserAddr, f: impl Fn(u32) -> Result<u32>) -> Result<u32> {
    let mut old = usercopy::read_u32(addr).map_err(|_| errno::EFAULT)?;
    loop {
        let found =
            usercopy::compare_exchange_u32(addr, old, f(old)?).map_err(|_| errno::EFAULT)?;
        if found == old {
            return Ok(old);
        }
        old = found;
    }
}

/// Wakes one waiter of a word of a thread that ends; in memory that processes share
/// they wait on Linux.
pub fn wake_anywhere(thread: &Thread, word: UserAddr) {
    match Place::of(word.get(), false, is_common(&thread.process, word)) {
        Ok(Place::Linux) => {
            let _ = delegate::for_process(
                thread,
                __NR_futex,
                [word.get(), u64::from(FUTEX_WAKE), 1, 0, 0, 0],
            );
        }
        Ok(Place::Queues(key)) => {
            let _ = wake(thread, key, 1, MATCH_ANY);
        }
        Err(_) => {}
    }
}
