//! nanosleep(2), clock_nanosleep(2).

use crate::base::user::{UserAddr, put};
use crate::calls::context::{Context, handlers};
use crate::parts::signals::{Interrupted, Rest};
use crate::process::cputime::{self, CpuClock};
use crate::process::thread::{self, Thread};
use crate::process::until::Until;
use crate::process::{Process, futex, timens};
use alloc::sync::Arc;
use hanare_core::errno::{self, Result};
use hanare_core::syscalls::Restart;
use hanare_core::time::{Clock, Timespec};
use hanare_hal::shared;
use zerocopy::IntoBytes;

handlers! { call:
    __NR_nanosleep => nanosleep(call.thread, call.args[0], call.args[1]),
    __NR_clock_nanosleep => clock_nanosleep(call),
}

const TIMER_ABSTIME: u64 = 1;
/// The last moment of a clock, as for Linux.
const LAST_NS: u64 = i64::MAX as u64;

#[derive(Clone)]
enum Kind {
    Clock(Clock),
    /// CPU time, of this process or another one.
    Cpu(Arc<Process>, CpuClock),
}

/// A sleep that has begun.
#[derive(Clone)]
pub struct Sleep {
    kind: Kind,
    /// Until then, ns of the clock.
    end: u64,
    absolute: bool,
    /// Where what is left goes if a signal ends it, or 0.
    remaining: u64,
}

/// nanosleep(2).
pub fn nanosleep(me: &Thread, request: u64, remaining: u64) -> Result<u64> {
    begin(me, Kind::Clock(Clock::Monotonic), 0, request, remaining)
}

/// clock_nanosleep(2).
pub fn clock_nanosleep(call: &Context<'_>) -> Result<u64> {
    let a = &call.args;
    let id = a[0] as i32;
    let kind = match Clock::from_id(id) {
        Some(clock @ (Clock::Realtime | Clock::Monotonic | Clock::Boottime | Clock::Tai)) => {
            Kind::Clock(clock)
        }
        Some(Clock::ProcessCpu) | None => match cputime::find(call.thread, id) {
            Some(_) if cputime::is_own_thread(call.thread, id) => return Err(errno::EINVAL),
            Some((process, clock)) => Kind::Cpu(process, clock),
            None => return call.forward(),
        },
        Some(Clock::ThreadCpu) if id < 0 => return Err(errno::EINVAL),
        // Clocks that can be read only.
        Some(_) => return Err(errno::EOPNOTSUPP),
    };
    begin(call.thread, kind, a[1], a[2], a[3])
}

fn begin(me: &Thread, kind: Kind, flags: u64, request: u64, remaining: u64) -> Result<u64> {
    let ns = futex::read_timespec(UserAddr::of(request))?.min(LAST_NS);
    let absolute = flags & TIMER_ABSTIME != 0;
    let kind = match kind {
        // Setting the clock does not change for how long others sleep.
        Kind::Clock(Clock::Realtime) if !absolute => Kind::Clock(Clock::Monotonic),
        kind => kind,
    };
    let mut sleep = Sleep { kind, end: ns, absolute, remaining };
    if !absolute {
        sleep.end = sleep.now(&me.process)?.saturating_add(ns).min(LAST_NS);
    }
    sleep.sleep(me)
}

impl Sleep {
    fn now(&self, caller: &Process) -> Result<u64> {
        match &self.kind {
            Kind::Clock(clock) => Ok(timens::now(caller, *clock).unwrap_or(0)),
            Kind::Cpu(process, clock) => clock.now(process).ok_or(errno::ESRCH),
        }
    }

    /// Until it makes sense to look at the clock again; the clock itself decides.
    fn pause(&self, caller: &Process, left: u64) -> Until {
        const LOOK_NS: u64 = 1_000_000;
        match &self.kind {
            Kind::Clock(clock) => Until::at(caller, *clock, self.end),
            // It can come no sooner than with all of the threads running.
            Kind::Cpu(process, _) => Until::after(
                (left
                    / process.thread_count().clamp(1, shared::params().cpu_count as usize) as u64)
                    .max(LOOK_NS),
            ),
        }
    }

    fn interrupted(&self, me: &Thread, left: u64) -> Result<u64> {
        let signals = &me.signals;
        if self.absolute {
            signals.lock().set_interrupted(Interrupted::Local(Restart::NoHand));
        } else {
            if self.remaining != 0 {
                put(UserAddr::of(self.remaining), Timespec::from_ns(left).as_bytes())?;
            }
            signals.lock().set_rest(self.clone());
        }
        Err(errno::EINTR)
    }

    /// Sleeps until the end or a signal.
    fn sleep(&self, me: &Thread) -> Result<u64> {
        loop {
            let left = self.end.saturating_sub(self.now(&me.process)?);
            if left == 0 {
                return Ok(0);
            }
            if futex::sleep_until(me, self.pause(&me.process, left)).is_err() {
                // The last look, so that what is left is never nothing.
                return match self.end.saturating_sub(self.now(&me.process)?) {
                    0 => Ok(0),
                    left => self.interrupted(me, left),
                };
            }
        }
    }
}

impl Rest for Sleep {
    fn go_on(&self) -> Result<u64> {
        // A part of a thread names none: the running one has the rest.
        self.sleep(thread::current())
    }
}
