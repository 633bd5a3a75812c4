//! timer_create(2) on clocks that count the CPU time of this process or its threads: on
//! Linux those of the workers count something else.
//!
//! Linux has a timer of that number, too, on another clock. It is set only when the one
//! here has expired, to expire at once: so who gets the signal, what it carries, and what
//! becomes of one that is blocked is Linux' doing.

use crate::process::Process;
use crate::thread::Thread;
use crate::{cpus, cputime, delegate, futex};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use hanare_core::cputimer::IntervalTimer;
use hanare_core::errno::{self, Result};
use hanare_core::time::Timespec;
use hanare_hal::usercopy;
use zerocopy::IntoBytes;

const TIMER_CREATE: u32 = 222;
const TIMER_SETTIME: u32 = 223;
const CLOCK_MONOTONIC: u64 = 1;
const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
const TIMER_ABSTIME: u64 = 1;

/// What is counted.
enum Counted {
    Process,
    /// Of a process, without what its kernel did.
    ProcessUser,
    Thread(Weak<Thread>),
    ThreadUser(Weak<Thread>),
}

impl Counted {
    /// What a clock of `p` counts; `None`: it is another kind of clock, or another's.
    fn of(clock: i32, p: &Process) -> Option<Counted> {
        const USER: i32 = 1;
        const KIND: i32 = 3;
        const PER_THREAD: i32 = 4;
        match clock {
            CLOCK_PROCESS_CPUTIME_ID => return Some(Counted::Process),
            CLOCK_THREAD_CPUTIME_ID => return Some(Counted::Thread(Arc::downgrade(&cpus::current_arc()))),
            _ => cputime::clock_of(clock)?,
        };
        let (target, user) = (!(clock >> 3) as u32, clock & KIND == USER);
        if clock & PER_THREAD == 0 {
            return Some(if user { Counted::ProcessUser } else { Counted::Process });
        }
        let thread = match target {
            0 => cpus::current_arc(),
            tid => p.threads().into_iter().find(|t| t.slot.tid() == tid)?,
        };
        let thread = Arc::downgrade(&thread);
        Some(if user { Counted::ThreadUser(thread) } else { Counted::Thread(thread) })
    }

    /// ns so far; `None`: the thread is gone.
    fn now(&self, p: &Process) -> Option<u64> {
        Some(match self {
            Counted::Process => cputime::process_ns(p),
            Counted::ProcessUser => p.times_ns().0,
            Counted::Thread(t) => {
                let (user, system) = cputime::thread_ns(&*t.upgrade()?);
                user + system
            }
            Counted::ThreadUser(t) => cputime::thread_ns(&*t.upgrade()?).0,
        })
    }

    /// Whether it goes on while `thread` runs.
    fn counts(&self, thread: &Thread) -> bool {
        match self {
            Counted::Process | Counted::ProcessUser => true,
            Counted::Thread(t) | Counted::ThreadUser(t) => core::ptr::eq(t.as_ptr(), thread),
        }
    }
}

/// A timer.
pub struct ClockTimer {
    id: u32,
    counted: Counted,
    timer: IntervalTimer,
}

/// timer_create; `None`: the clock is Linux' business.
pub fn create(clock: u64, event: u64, id: u64) -> Option<Result<u64>> {
    let p = &cpus::current().process;
    let counted = Counted::of(clock as i32, p)?;
    Some(enter(p, counted, event, id))
}

fn enter(p: &Process, counted: Counted, event: u64, at: u64) -> Result<u64> {
    delegate::linux(TIMER_CREATE, [CLOCK_MONOTONIC, event, at, 0, 0, 0])?;
    let id = usercopy::read_u32(at).map_err(|_| errno::EFAULT)?;
    cputime::timer_created(at);
    p.cpu_timers.with_clock_timers(|timers| timers.push(ClockTimer { id, counted, timer: IntervalTimer::default() }));
    Ok(0)
}

/// timer_settime, timer_gettime; `None`: it is Linux' business.
pub fn serve(number: u16, a: &[u64; 6]) -> Option<Result<u64>> {
    const SETTIME: u16 = 223;
    const GETTIME: u16 = 224;
    let p = &cpus::current().process;
    if !p.cpu_timers.with_clock_timers(|timers| timers.iter().any(|t| t.id == a[0] as u32)) {
        return None;
    }
    match number {
        SETTIME => Some(set(p, a)),
        GETTIME => Some(get(p, a[0] as u32).and_then(|now| write(a[1], now))),
        _ => None,
    }
}

fn with<T>(p: &Process, id: u32, f: impl FnOnce(&mut ClockTimer) -> Result<T>) -> Result<T> {
    p.cpu_timers.with_clock_timers(|timers| timers.iter_mut().find(|t| t.id == id).map_or(Err(errno::EINVAL), f))
}

/// Left and interval, ns.
fn get(p: &Process, id: u32) -> Result<(u64, u64)> {
    with(p, id, |t| Ok(t.counted.now(p).map_or((0, 0), |now| t.timer.get(now))))
}

fn write(at: u64, (left, interval): (u64, u64)) -> Result<u64> {
    let both = [Timespec::from_ns(interval), Timespec::from_ns(left)];
    usercopy::write(at, both.as_bytes()).map_err(|_| errno::EFAULT)?;
    Ok(0)
}

fn set(p: &Process, a: &[u64; 6]) -> Result<u64> {
    if a[2] == 0 {
        return Err(errno::EINVAL);
    }
    let (interval, value) = (futex::read_timespec(a[2])?, futex::read_timespec(a[2] + 16)?);
    let before = with(p, a[0] as u32, |t| {
        let now = t.counted.now(p).ok_or(errno::ESRCH)?;
        let before = t.timer.get(now);
        t.timer = match a[1] & TIMER_ABSTIME {
            0 => IntervalTimer::set(now, value, interval),
            _ => IntervalTimer::set_at(value, interval),
        };
        Ok(before)
    })?;
    p.cpu_timers.look_again(p);
    if a[3] != 0 {
        write(a[3], before)?;
    }
    Ok(0)
}

/// timer_delete, after Linux has deleted its own.
pub fn deleted(p: &Process, id: u32) {
    p.cpu_timers.with_clock_timers(|timers| timers.retain(|t| t.id != id));
}

/// ns until the next one expires while `thread` runs.
pub fn left(timers: &[ClockTimer], thread: &Thread) -> Option<u64> {
    let p = &thread.process;
    let counting = timers.iter().filter(|t| t.counted.counts(thread));
    counting.filter_map(|t| t.timer.left(t.counted.now(p)?)).min()
}

/// Whether one of them is armed.
pub fn any_armed(timers: &[ClockTimer]) -> bool {
    timers.iter().any(|t| t.timer.left(0).is_some())
}

/// Before user mode: those that have expired have their signals sent.
pub fn check(thread: &Thread) {
    let p = &thread.process;
    let expired: Vec<u32> = p.cpu_timers.with_clock_timers(|timers| {
        let expired = timers.iter_mut().filter_map(|t| {
            let now = t.counted.now(p).unwrap_or(0);
            t.timer.take_expired(now).then_some(t.id)
        });
        expired.collect()
    });
    for id in expired {
        let at_once = [Timespec::from_ns(0), Timespec::from_ns(1)];
        if let Ok(at) = p.write_scratch(thread.slot_index, at_once.as_bytes()) {
            let _ = delegate::linux(TIMER_SETTIME, [u64::from(id), 0, at, 0, 0, 0]);
        }
    }
}
