//! timer_create(2) on clocks that count the CPU time of this process or its threads: on
//! Linux those of the workers count something else.
//!
//! Linux has a timer of that number, too, on another clock. It is set only when the one here has
//! expired, to expire at once: so Linux decides which thread gets the signal, what it carries, and
//! what becomes of one that is blocked.

use crate::base::lists;
use crate::base::user::put;
use crate::link::delegate;
use crate::parts::cputimers::{ClockTimer, Timer};
use crate::process::cputime::CpuClock;
use crate::process::cputimers::{self, delete};
use crate::process::thread::Thread;
use crate::process::{Process, futex};
use hanare_core::cputimer::{Expiries, IntervalTimer};
use hanare_core::errno::{self, Result};
use hanare_core::signal::SigInfo;
use hanare_core::time::Timespec;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_timer_create;
use zerocopy::IntoBytes;

const CLOCK_MONOTONIC: u64 = 1;
const TIMER_ABSTIME: u64 = 1;

/// timer_create, on whatever clock. Linux tells the number here, so that its timer goes again
/// if the program cannot have it.
pub fn create(thread: &Thread, clock: u64, event: u64, at: UserAddr) -> Result<u64> {
    let p = &thread.process;
    let ours = CpuClock::of(thread, clock as i32, p);
    let scratch = thread.write_scratch(&[0; 4]).map_err(|_| errno::EAGAIN)?;
    let linux_clock = if ours.is_some() { CLOCK_MONOTONIC } else { clock };
    delegate::linux(thread, __NR_timer_create, [linux_clock, event, scratch, 0, 0, 0])?;
    let id: u32 = p.memory().control(scratch);
    enter(p, Timer { id, is_of_thread: is_of_thread(event) }, ours)
        .and_then(|()| put(at, id.as_bytes()))
        .inspect_err(|_| {
            // A thread that has to end cannot: then execve does.
            if delete(thread, id) {
                cputimers::timer_deleted(p, id.into());
            }
        })
}

/// Whether a `struct sigevent`, or 0, has a timer's signal sent to one thread.
fn is_of_thread(event: u64) -> bool {
    const NOTIFY: u64 = 12;
    const THREAD_ID: u32 = 4; // SIGEV_THREAD_ID
    event != 0 && usercopy::read_u32(UserAddr::behind(event, NOTIFY)) == Ok(THREAD_ID)
}

fn enter(p: &Process, timer: Timer, clock: Option<CpuClock>) -> Result<()> {
    let id = timer.id;
    cputimers::timer_created(p, timer)?;
    let Some(clock) = clock else { return Ok(()) };
    p.cpu_timers.with_clock_timers(|timers| {
        let (timer, expiries) = (IntervalTimer::default(), Expiries::default());
        lists::push(timers, ClockTimer { id, clock, timer, expiries }).map_err(|_| errno::EAGAIN)
    })
}

/// timer_settime; `None`: the timer is Linux'.
pub fn set_time(p: &Process, a: &[u64; 6]) -> Option<Result<u64>> {
    is_ours(p, a[0] as u32).then(|| set(p, a))
}

/// timer_gettime; `None`: the timer is Linux'.
pub fn get_time(p: &Process, a: &[u64; 6]) -> Option<Result<u64>> {
    let id = a[0] as u32;
    is_ours(p, id).then(|| get(p, id).and_then(|now| write(UserAddr::of(a[1]), now)))
}

/// timer_getoverrun; `None`: the timer is Linux'.
pub fn overrun(p: &Process, id: u64) -> Option<u64> {
    with(p, id as u32, |t| Ok(t.expiries.overrun())).ok().map(u64::from)
}

/// rt_sigtimedwait has taken a signal from Linux, and told of it at this address.
pub fn waited(p: &Process, info: u64) {
    const OVERRUN: u64 = 20; // offset of si_overrun
    const HEAD: usize = 24;
    let mut bytes = [0; size_of::<SigInfo>()];
    if info == 0 || usercopy::read(UserAddr::of(info), &mut bytes[..HEAD]).is_err() {
        return;
    }
    let mut told: SigInfo = zerocopy::transmute!(bytes);
    if told.timer().is_some_and(|id| is_ours(p, id)) {
        cputimers::tell(p, &mut told);
        // A thread that has unmapped it meanwhile has had the signal.
        let _ = usercopy::write(UserAddr::behind(info, OVERRUN), told.overrun().as_bytes());
    }
}

fn is_ours(p: &Process, id: u32) -> bool {
    p.cpu_timers.with_clock_timers(|timers| timers.iter().any(|t| t.id == id))
}

fn with<T>(
    p: &Process,
    id: u32,
    f: impl FnOnce(&mut ClockTimer<Thread>) -> Result<T>,
) -> Result<T> {
    p.cpu_timers.with_clock_timers(|timers| {
        timers.iter_mut().find(|t| t.id == id).map_or(Err(errno::EINVAL), f)
    })
}

/// Left and interval, ns.
fn get(p: &Process, id: u32) -> Result<(u64, u64)> {
    with(p, id, |t| Ok(t.clock.now(p).map_or((0, 0), |now| t.timer.get(now))))
}

fn write(at: UserAddr, (left, interval): (u64, u64)) -> Result<u64> {
    put(at, [Timespec::from_ns(interval), Timespec::from_ns(left)].as_bytes())
}

fn set(p: &Process, a: &[u64; 6]) -> Result<u64> {
    if a[2] == 0 {
        return Err(errno::EINVAL);
    }
    let (interval, value) = (
        futex::read_timespec(UserAddr::of(a[2]))?,
        futex::read_timespec(UserAddr::behind(a[2], 16))?,
    );
    let before = with(p, a[0] as u32, |t| {
        let now = t.clock.now(p).ok_or(errno::ESRCH)?;
        let before = t.timer.get(now);
        t.timer = match a[1] & TIMER_ABSTIME {
            0 => IntervalTimer::set(now, value, interval),
            _ => IntervalTimer::set_at(value, interval),
        };
        t.expiries = Expiries::default();
        Ok(before)
    })?;
    cputimers::look_again(p);
    if a[3] != 0 {
        write(UserAddr::of(a[3]), before)?;
    }
    Ok(0)
}
