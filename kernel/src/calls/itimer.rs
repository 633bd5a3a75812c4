//! setitimer(2), getitimer(2) of the timers that count CPU time.

use crate::base::user::{self, UserAddr, put};
use crate::process::{cputimers, thread};
use hanare_core::cputimer::IntervalTimer;
use hanare_core::errno::{self, Result};
use hanare_core::time::{Timespec, Timeval};
use zerocopy::IntoBytes;

const ITIMER_REAL: u64 = 0;
const ITIMER_VIRTUAL: u64 = 1;
const ITIMER_PROF: u64 = 2;

fn read_itimer(at: u64) -> Result<(u64, u64)> {
    let one = |offset| -> Result<u64> {
        let t: Timespec = user::get(UserAddr::behind(at, offset))?; // its nanoseconds are microseconds
        if !(0..1_000_000).contains(&t.nsec) || t.sec < 0 {
            return Err(errno::EINVAL);
        }
        Ok((t.sec as u64).saturating_mul(1_000_000_000).saturating_add(t.nsec as u64 * 1000))
    };
    Ok((one(size_of::<Timespec>() as u64)?, one(0)?))
}

fn write_itimer(at: u64, (value, interval): (u64, u64)) -> Result<()> {
    let up = |ns: u64| Timeval::from_ns(ns.saturating_add(999));
    let both = [up(interval), up(value)];
    put(UserAddr::of(at), both.as_bytes()).map(drop)
}

/// setitimer(2), getitimer(2) of the timers that count CPU time; `None`: the other
/// one, which is Linux' business.
pub fn itimer(which: u64, new: Option<u64>, old: u64) -> Option<Result<u64>> {
    if which == ITIMER_REAL || which > ITIMER_PROF {
        return None;
    }
    Some((|| {
        let wanted =
            new.map(|at| if at == 0 { Ok((0, 0)) } else { read_itimer(at) }).transpose()?;
        let p = &thread::current().process;
        let (user, system) = p.times_ns();
        let now = if which == ITIMER_VIRTUAL { user } else { user + system };
        let mut before = (0, 0);
        p.cpu_timers.change(|all| {
            let timer = if which == ITIMER_VIRTUAL { &mut all.virt } else { &mut all.prof };
            before = timer.get(now);
            if let Some((value, interval)) = wanted {
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
