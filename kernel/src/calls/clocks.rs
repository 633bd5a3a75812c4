//! Clocks that are asked. Clocks that are waited for: `sleep.rs`.

use crate::base::time;
use crate::base::user::{UserAddr, put};
use crate::calls::context::{Context, handlers};
use crate::link::delegate;
use crate::process::{cputime, timens};
use hanare_core::errno::Result;
use hanare_core::time::{Clock, Timespec, Timeval};
use hanare_hal::shared;
use linux_raw_sys::general::__NR_clock_gettime;
use zerocopy::IntoBytes;

handlers! { call:
    __NR_clock_gettime => clock_gettime(call),
    __NR_clock_getres => clock_getres(call),
    __NR_gettimeofday => gettimeofday(call.address(0), call.address(1)),
    __NR_time => time_call(call.address(0)),
}

fn clock_gettime(call: &Context<'_>) -> Result<u64> {
    let (id, to) = (call.args[0] as i32, call.args[1]);
    if let Some(ns) = cputime::clock_of(call.thread, id) {
        return put(UserAddr::of(to), Timespec::from_ns(ns).as_bytes());
    }
    let Some(clock) = Clock::from_id(id) else {
        return delegate::linux(
            call.thread,
            __NR_clock_gettime,
            [id as u32 as u64, to, 0, 0, 0, 0],
        );
    };
    let ns = match timens::now(call.process, clock) {
        Some(ns) => ns,
        None if clock == Clock::ThreadCpu => {
            let (user, system) = cputime::thread_ns(call.thread);
            user + system
        }
        None => cputime::process_ns(call.process),
    };
    put(UserAddr::of(to), Timespec::from_ns(ns).as_bytes())
}

fn clock_getres(call: &Context<'_>) -> Result<u64> {
    let a = &call.args;
    let ns = match Clock::from_id(a[0] as i32) {
        Some(Clock::RealtimeCoarse | Clock::MonotonicCoarse) => shared::params().tick_ns,
        Some(_) => 1,
        None => return call.forward(),
    };
    if a[1] == 0 { Ok(0) } else { put(UserAddr::of(a[1]), Timespec::from_ns(ns.into()).as_bytes()) }
}

fn gettimeofday(to: UserAddr, zone: UserAddr) -> Result<u64> {
    if !to.is_null() {
        put(to, Timeval::from_ns(time::now(Clock::Realtime).unwrap_or(0)).as_bytes())?;
    }
    if !zone.is_null() {
        let page = shared::clock().read();
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&page.minutes_west.to_le_bytes());
        bytes[4..].copy_from_slice(&page.dst.to_le_bytes());
        put(zone, &bytes)?;
    }
    Ok(0)
}

fn time_call(to: UserAddr) -> Result<u64> {
    let seconds = time::now(Clock::RealtimeCoarse).unwrap_or(0) / 1_000_000_000;
    if !to.is_null() {
        put(to, &seconds.to_le_bytes())?;
    }
    Ok(seconds)
}
