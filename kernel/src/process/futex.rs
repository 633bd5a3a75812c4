//! Futexes between the threads of one process. Words in shared file mappings
//! and those with priority inheritance are Linux' business, see [`is_delegated`].
//!
//! A word is looked at, and its waiter queued, under the lock of the queues; who
//! changes the word and then wakes takes that lock too, so no wake-up is lost. Under
//! the lock a page that is not there ends the access, it is brought in without it.

use crate::base::user;
use crate::link::delegate;
use crate::parts::futexes::{self, Futexes};
use crate::parts::signals::{Interrupted, Rest};
use crate::process::Process;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::process::until::Until;
use crate::sched::cpus;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Errno, Result};
use hanare_core::futex::{MATCH_ANY, Woken};
use hanare_core::syscalls::Restart;
use hanare_core::time::{Clock, Timespec};
use hanare_core::vma::{Backing, Prot};
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_futex;

const WAIT: u32 = 0;
const WAKE: u32 = 1;
const REQUEUE: u32 = 3;
const CMP_REQUEUE: u32 = 4;
const WAKE_OP: u32 = 5;
const WAIT_BITSET: u32 = 9;
const WAKE_BITSET: u32 = 10;
const PRIVATE: u32 = 128;
const CLOCK_REALTIME: u32 = 256;

/// A word of the program as the queues name it: its address, and bit 0 for a call without
/// FUTEX_PRIVATE_FLAG. Calls with the flag and without it do not meet, as on Linux.
#[derive(Clone, Copy)]
pub struct Word(u64);

impl Word {
    /// The word at `addr`, a multiple of 4.
    pub fn new(addr: u64, shared: bool) -> Word {
        Word(addr | u64::from(shared))
    }

    /// The same of an argument, with the errors of Linux' get_futex_key.
    fn of(p: &Process, addr: u64, op: u32) -> Result<Word> {
        /// The last address that could be a program's on Linux.
        const LAST: u64 = (1 << 47) - 4096 - 4;
        if !addr.is_multiple_of(4) {
            return Err(errno::EINVAL);
        }
        let shared = op & PRIVATE == 0;
        // A shared word has to be there, and to have a page of its own.
        let is_there = || usercopy::read_u32(UserAddr::of(addr)).is_ok() && !is_constant(p, addr);
        if addr > LAST || shared && !is_there() {
            Err(errno::EFAULT)
        } else {
            Ok(Word::new(addr, shared))
        }
    }

    fn addr(self) -> u64 {
        self.0 & !1
    }

    /// Its name in the queues.
    pub fn key(self) -> u64 {
        self.0
    }
}

/// A thread, as the queues know it.
pub type Sleeper = futexes::Sleeper<Thread>;

impl Sleeper {
    /// The running thread, which waits on one word of several.
    pub fn one_of(index: usize, on_linux: Option<u64>) -> Sleeper {
        Sleeper { thread: thread::current_arc(), index, on_linux }
    }
}

/// The running thread waits until then, for a wake-up (`futex_woken`) or a signal.
pub fn wait_until(thread: &Thread, until: Until) {
    // By `rouse`, by who sends a signal, ends the process or sets the clock, or by the time.
    let is_woken = || thread.futex_woken.load(Ordering::Acquire);
    let is_told_something = || is_woken() || thread.must_end() || thread.has_signal();
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

/// Sleeps until then; `EINTR` with a signal.
pub fn sleep_until(until: Until) -> Result<()> {
    let thread = thread::current();
    thread.futex_woken.store(false, Ordering::Relaxed);
    wait_until(thread, until);
    if until.has_come() { Ok(()) } else { Err(errno::EINTR) }
}

/// Whether a futex call is Linux' business: words in shared file mappings, where other
/// processes wait too, and priority inheritance (LOCK_PI, UNLOCK_PI, TRYLOCK_PI,
/// WAIT_REQUEUE_PI, CMP_REQUEUE_PI, LOCK_PI2). The latter works on Linux as it is: the
/// words hold the ids of the workers, which wait for each other there.
pub fn is_delegated(a: &[u64; 6]) -> bool {
    let op = a[1] as u32;
    matches!(command(op), 6 | 7 | 8 | 11 | 12 | 13)
        || op & PRIVATE == 0 && is_linux(&thread::current().process, a[0])
}

/// An operation without its flags.
fn command(op: u32) -> u32 {
    op & !(PRIVATE | CLOCK_REALTIME)
}

/// futex(2) on words of the process' own.
pub fn futex(a: &[u64; 6]) -> Result<u64> {
    let p = &thread::current().process;
    let (op, value, bits) = (a[1] as u32, a[2], a[5] as u32);
    let command = command(op);
    let word = |addr| Word::of(p, addr, op);
    let until = if matches!(command, WAIT | WAIT_BITSET) {
        timeout(a[3], op, command == WAIT)?
    } else {
        Until::NEVER
    };
    match command {
        _ if op & CLOCK_REALTIME != 0 && command != WAIT_BITSET => Err(errno::ENOSYS),
        WAIT_BITSET | WAKE_BITSET if bits == 0 => Err(errno::EINVAL),
        WAIT => {
            Waiting { word: word(a[0])?, value: value as u32, until, bitset: MATCH_ANY }.go_on()
        }
        WAIT_BITSET => {
            Waiting { word: word(a[0])?, value: value as u32, until, bitset: bits }.go_on()
        }
        WAKE => Ok(wake(p, word(a[0])?, value, MATCH_ANY)),
        WAKE_BITSET => Ok(wake(p, word(a[0])?, value, bits)),
        REQUEUE | CMP_REQUEUE if (value as i32) < 0 || (a[3] as i32) < 0 => Err(errno::EINVAL),
        REQUEUE => requeue(p, word(a[0])?, word(a[4])?, value, a[3], None),
        CMP_REQUEUE => requeue(p, word(a[0])?, word(a[4])?, value, a[3], Some(bits)),
        WAKE_OP => wake_op(p, word(a[0])?, word(a[4])?, a),
        _ => Err(errno::ENOSYS),
    }
}

/// Whether a word lies in memory that Linux shares among processes.
pub fn is_linux(p: &Process, addr: u64) -> bool {
    p.mm.lock().vmas.find(addr).is_some_and(|v| matches!(v.backing, Backing::SharedLinux { .. }))
}

/// Whether it lies in memory of no file that may not be written: Linux finds no page there
/// that processes could have in common.
fn is_constant(p: &Process, addr: u64) -> bool {
    p.mm.lock()
        .vmas
        .find(addr)
        .is_some_and(|v| matches!(v.backing, Backing::Anonymous) && !v.prot.contains(Prot::WRITE))
}

/// Of a timeout argument.
fn timeout(pointer: u64, op: u32, relative: bool) -> Result<Until> {
    if pointer == 0 {
        return Ok(Until::NEVER);
    }
    let ns = read_timespec(pointer)?;
    if relative {
        return Ok(Until::after(ns));
    }
    let clock = if op & CLOCK_REALTIME != 0 { Clock::Realtime } else { Clock::Monotonic };
    Ok(Until::at(&thread::current().process, clock, ns))
}

/// A `struct timespec` of the application in ns; `EINVAL` if it is none.
pub fn read_timespec(pointer: u64) -> Result<u64> {
    user::get::<Timespec>(UserAddr::of(pointer))?.to_ns()
}

/// Runs `f` under the lock of the queues with user memory as it is; if `f` meets a
/// page that is not there, the page is brought in without the lock and `f` runs again.
pub fn with_queues<T>(
    p: &Process,
    addr: u64,
    f: impl Fn(&mut Futexes<Thread>) -> core::result::Result<T, usercopy::Fault>,
) -> Result<T> {
    let thread = thread::current();
    loop {
        let result = {
            let mut queues = p.futexes.lock();
            thread.in_place.store(true, Ordering::Relaxed);
            let result = f(&mut queues);
            thread.in_place.store(false, Ordering::Relaxed);
            result
        };
        match result {
            Ok(value) => return Ok(value),
            Err(usercopy::Fault) => {
                usercopy::read_u32(UserAddr::of(addr)).map_err(|_| errno::EFAULT)?
            }
        };
    }
}

/// A wait for a word that is to have a value.
#[derive(Clone, Copy)]
pub struct Waiting {
    word: Word,
    value: u32,
    until: Until,
    bitset: u32,
}

impl Rest for Waiting {
    /// Waits, at first or for the rest of the time.
    fn go_on(&self) -> Result<u64> {
        let Waiting { word, value, until, bitset } = *self;
        let thread = thread::current();
        let p = &thread.process;
        thread.futex_woken.store(false, Ordering::Relaxed);
        with_queues(p, word.addr(), |queues| {
            let same = usercopy::read_u32(UserAddr::of(word.addr()))? == value;
            if same {
                // Without memory it cannot wait: the program looks at the word again.
                let queued = queues.push(word.key(), Sleeper::one_of(0, None), bitset);
                return Ok(queued.map_err(|_| errno::EAGAIN));
            }
            Ok(Err(errno::EAGAIN))
        })??;
        wait_until(thread, until);
        let woken = {
            let mut queues = p.futexes.lock();
            // Woken, though a signal or the deadline came too: not one wake-up may be lost.
            thread.futex_woken.load(Ordering::Relaxed)
                || !queues.remove(word.key(), &Sleeper::one_of(0, None))
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
pub fn wake(p: &Process, word: Word, most: u64, bitset: u32) -> u64 {
    let woken = mark(p.futexes.lock().wake(word.key(), count(most).max(1), bitset));
    rouse(&woken);
    woken.count() as u64
}

/// Wakes some waiters and has others wait on another word; how many both were.
fn requeue(
    p: &Process,
    from: Word,
    to: Word,
    wake: u64,
    most: u64,
    expected: Option<u32>,
) -> Result<u64> {
    let (woken, moved) = with_queues(p, from.addr(), |queues| {
        if let Some(expected) = expected
            && usercopy::read_u32(UserAddr::of(from.addr()))? != expected
        {
            return Ok(Err(errno::EAGAIN));
        }
        let woken = mark(queues.wake(from.key(), count(wake), MATCH_ANY));
        Ok(Ok((woken, queues.requeue(from.key(), to.key(), count(most)) as u64)))
    })??;
    rouse(&woken);
    Ok(woken.count() as u64 + moved)
}

/// Says so to those that were woken, with the queues locked: who looks there and is not
/// marked is in a queue.
fn mark(woken: Woken<Sleeper>) -> Woken<Sleeper> {
    woken.iter().for_each(|w| w.thread.futex_woken.store(true, Ordering::Release));
    woken
}

fn rouse(woken: &Woken<Sleeper>) {
    for w in woken.iter() {
        match w.on_linux {
            None => cpus::kick(&w.thread),
            Some(word) => {
                let all = [word, u64::from(WAKE | PRIVATE), i32::MAX as u64, 0, 0, 0];
                let _ = delegate::for_process(__NR_futex, all);
            }
        }
    }
}

/// A count argument: an `int`, negative means none.
fn count(value: u64) -> usize {
    usize::try_from(value as u32 as i32).unwrap_or(0)
}

/// FUTEX_WAKE_OP, see futex(2).
fn wake_op(p: &Process, first: Word, second: Word, a: &[u64; 6]) -> Result<u64> {
    let code = a[5] as u32;
    let sign_extend = |v: u32| ((v << 20) as i32 >> 20) as u32;
    let (operand, compare) = (sign_extend(code >> 12 & 0xfff), sign_extend(code & 0xfff));
    let operand = if code >> 31 != 0 { 1u32.wrapping_shl(operand) } else { operand };
    let apply = |old: u32| {
        Ok(match code >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return Err(errno::ENOSYS),
        })
    };
    let old = exchange(second.addr(), apply)?;
    let (o, c) = (old as i32, compare as i32);
    let also = match code >> 24 & 15 {
        0 => o == c,
        1 => o != c,
        2 => o < c,
        3 => o <= c,
        4 => o > c,
        5 => o >= c,
        _ => return Err(errno::ENOSYS),
    };
    let woken = wake(p, first, a[2], MATCH_ANY);
    Ok(woken + if also { wake(p, second, a[3], MATCH_ANY) } else { 0 })
}

/// Replaces a word by what `f` makes of it, as one access; what was there.
fn exchange(addr: u64, f: impl Fn(u32) -> Result<u32>) -> Result<u32> {
    let mut old = usercopy::read_u32(UserAddr::of(addr)).map_err(|_| errno::EFAULT)?;
    loop {
        let found = usercopy::compare_exchange_u32(UserAddr::of(addr), old, f(old)?)
            .map_err(|_| errno::EFAULT)?;
        if found == old {
            return Ok(old);
        }
        old = found;
    }
}

/// In the pointer to an entry of a robust list: the futex is one with priority
/// inheritance, whose waiters Linux wakes when the worker ends.
const PI: u64 = 1;

/// A thread ends or replaces its program: its robust list (set_robust_list(2)) is walked,
/// owners' words get FUTEX_OWNER_DIED and a waiter is woken. Where the whole process
/// ends, Linux does the same with the workers' lists, which are these; who waits here, in
/// another process with the same memory, is woken here.
pub fn release_robust(thread: &Thread) {
    const OWNER_DIED: u32 = 0x4000_0000;
    const WAITERS: u32 = 0x8000_0000;
    const OWNER: u32 = 0x3fff_ffff;
    const LIMIT: usize = 2048;
    let head = thread.set_robust_list(0);
    if head == 0 {
        return;
    }
    let (Ok(mut entry), Ok(offset), Ok(pending)) = (
        usercopy::read_u64(UserAddr::of(head)),
        usercopy::read_u64(UserAddr::behind(head, 8)),
        usercopy::read_u64(UserAddr::behind(head, 16)),
    ) else {
        return;
    };
    let tid = thread.slot.tid();
    let die = |entry: u64, is_pending: bool| {
        let word = (entry & !PI).wrapping_add(offset);
        if word % 4 != 0 {
            return false;
        }
        let pi = entry & PI != 0;
        let change = |value: u32| {
            if value & OWNER == tid {
                Ok(value & WAITERS | OWNER_DIED)
            } else {
                Err(Errno(value as i32))
            }
        };
        match exchange(word, change) {
            Ok(value) if !pi && value & WAITERS != 0 => wake_anywhere(thread, word),
            Ok(value) if pi && value & WAITERS != 0 => {
                thread.has_waiters_on_linux.store(true, Ordering::Relaxed);
            }
            // It ended between giving the word back and waking the next one.
            Err(Errno(0)) if is_pending && !pi => wake_anywhere(thread, word),
            // Linux has given it back.
            Err(Errno(value))
                if !pi && value as u32 & (OWNER | OWNER_DIED | WAITERS) == OWNER_DIED | WAITERS =>
            {
                wake_anywhere(thread, word)
            }
            Err(errno::EFAULT) => return usercopy::read_u32(UserAddr::of(word)).is_ok(),
            _ => {}
        }
        true
    };
    for _ in 0..LIMIT {
        if entry & !PI == head {
            break;
        }
        let next = usercopy::read_u64(UserAddr::of(entry & !PI));
        if entry & !PI != pending & !PI && !die(entry, false) {
            return;
        }
        let Ok(next) = next else { return };
        entry = next;
    }
    if pending & !PI != 0 {
        die(pending, true);
    }
}

/// The process ends by the thread's next call: if nothing is on its robust list, Linux
/// need not look there.
pub fn forget_empty_robust(thread: &Thread) {
    let head = thread.robust_list.load(Ordering::Relaxed);
    let is_empty = || {
        Some(
            usercopy::read_u64(UserAddr::of(head)).ok()? & !PI == head
                && usercopy::read_u64(UserAddr::behind(head, 16)).ok()? & !PI == 0,
        )
    };
    if head != 0 && is_empty() == Some(true) {
        thread.set_robust_list(0);
    }
}

/// Wakes one waiter of a word of a thread that ends; in memory that processes share
/// they wait on Linux.
pub fn wake_anywhere(thread: &Thread, word: u64) {
    if is_linux(&thread.process, word) {
        let _ = delegate::for_process(__NR_futex, [word, u64::from(WAKE), 1, 0, 0, 0]);
    } else {
        wake(&thread.process, Word::new(word, true), 1, MATCH_ANY);
    }
}
