//! setitimer(2), getitimer(2) of the timers that count CPU time.

use crate::base::user::{self, UserAddr, put};
use crate::process::{Process, cputimers};
use hanare_core::cputimer::IntervalTimer;
use hanare_core::errno::{self, Result};
use hanare_core::time::{Timespec, Timeval};
use zerocopy::IntoBytes;

const ITIMER_REAL: u64 = 0;
const ITIMER_VIRTUAL: u64 = 1;
const ITIMER_PROF: u64 = 2;
/// Seconds from which on Linux takes the longest time that it knows.
const KTIME_SEC_MAX: i64 = i64::MAX / 1_000_000_000;
/// The tick of the stock kernels (`CONFIG_HZ=250`), by which Linux makes such a timer later, and
/// which it tells of one that is due.
const TICK_NS: u64 = 4_000_000;

fn read_itimer(at: u64) -> Result<(u64, u64)> {
    let one = |offset| -> Result<u64> {
        let t: Timespec = user::get(UserAddr::behind(at, offset))?; // its nanoseconds are microseconds
        if !(0..1_000_000).contains(&t.nsec) || t.sec < 0 {
            return Err(errno::EINVAL);
        }
        let ns = t.sec.saturating_mul(1_000_000_000).saturating_add(t.nsec * 1000);
        Ok(if t.sec >= KTIME_SEC_MAX { i64::MAX } else { ns } as u64)
    };
    Ok((one(size_of::<Timespec>() as u64)?, one(0)?))
}

fn write_itimer(at: u64, (value, interval): (u64, u64)) -> Result<()> {
    let both = [interval, value].map(|ns| Timeval::from_signed_ns(ns as i64));
    put(UserAddr::of(at), both.as_bytes()).map(drop)
}

/// setitimer(2), getitimer(2) of the timers that count CPU time; `None`: the other
/// one, which is Linux' business.
pub fn itimer(p: &Process, which: u64, new: Option<u64>, old: u64) -> Option<Result<u64>> {
    if which == ITIMER_REAL || which > ITIMER_PROF {
        return None;
    }
    Some((|| {
        let wanted =
            new.map(|at| if at == 0 { Ok((0, 0)) } else { read_itimer(at) }).transpose()?;
        let (user, system) = p.times_ns();
        let now = if which == ITIMER_VIRTUAL { user } else { user + system };
        let mut before = (0, 0);
        p.cpu_timers.change(|all| {
            let timer = if which == ITIMER_VIRTUAL { &mut all.virt } else { &mut all.prof };
            before = timer.get(now);
            if timer.left(now) == Some(0) {
                before.0 = TICK_NS;
            }
            if let Some((value, interval)) = wanted {
                let value = if value == 0 { 0 } else { value + TICK_NS };
                *timer = IntervalTimer::set(now, value, interval);
            }
        });
        if wanted.is_some() {
            cputimers::look_again(p);
        }
        if old != 0 || new.is_none() {
            write_itimer(old, before)?;
        }
        Ok(0)
    })())
}
