//! CPU time that is used up: signals of timers, and of the limit.

use crate::base::heap;
use crate::gate::fatal;
use crate::link::delegate;
use crate::process::thread::Thread;
use crate::signal::{pending, signals};
use hanare_core::cputimer::CpuLimit;
use hanare_core::rlimits::{CPU, Limit};
use hanare_core::signal::{self, SigInfo};
use hanare_core::time::Timespec;
use linux_raw_sys::general::{__NR_prlimit64, __NR_timer_settime};
use zerocopy::IntoBytes;

/// Before user mode: queues the signals of timers that have expired.
pub fn check(thread: &Thread) {
    let p = &thread.process;
    let (user, system) = p.times_ns();
    let (virt, prof, limit) = {
        let mut all = p.cpu_timers.all.lock();
        (
            all.virt.take_expired(user) != 0,
            all.prof.take_expired(user + system) != 0,
            all.limit.check(user + system),
        )
    };
    of_clocks(thread);
    p.cpu_timers.rearm();
    let send = |signal| {
        if thread.ptrace.is_on() && pending::send(thread, signal, SigInfo::kernel(signal)).is_ok() {
            return; // by way of Linux, where a tracer sees it
        }
        let mut s = p.signals.lock();
        if !s.actions.ignores(signal) {
            heap::fallible(|| s.pending.add(signal, SigInfo::kernel(signal), true));
        }
    };
    if virt {
        send(signal::SIGVTALRM);
    }
    if prof {
        send(signal::SIGPROF);
    }
    match limit {
        CpuLimit::Within => {}
        CpuLimit::Warn => {
            send(signal::SIGXCPU);
            tell_limit(thread);
        }
        CpuLimit::Kill => fatal::die(thread, signal::SIGKILL),
    }
    signals::retarget(p); // others may take what this thread blocks
}

/// The soft limit has moved on: getrlimit(2) is Linux' business. A limit that was set meanwhile
/// stays.
fn tell_limit(thread: &Thread) {
    const OLD: u64 = 16;
    let p = &thread.process;
    let exchange = |(soft, hard): Limit| -> Option<Limit> {
        let at = thread.write_scratch([soft, hard].as_bytes()).ok()?;
        delegate::linux(thread, __NR_prlimit64, [0, CPU as u64, at, at + OLD, 0, 0]).ok()?;
        let [soft, hard]: [u64; 2] = p.memory().control(at + OLD);
        Some((soft, hard))
    };
    let moved = p.cpu_timers.limit();
    let known = p.identity.lock().limits.cpu();
    match exchange(moved) {
        Some(found) if found == known => p.identity.lock().limits.tell_cpu(moved),
        // Taken over when the limits are looked at next.
        Some(found) => {
            let _ = exchange(found);
        }
        None => {}
    }
}

/// Timers of timer_create that have expired have Linux send their signals.
fn of_clocks(thread: &Thread) {
    let p = &thread.process;
    // One after the other, by its place: no list that a program makes long.
    for place in 0.. {
        let timer = p.cpu_timers.with_clock_timers(|timers| {
            let t = timers.get_mut(place)?;
            let now = t.clock.now(p).unwrap_or(0);
            let count = t.timer.take_expired(now);
            t.expiries.add(count);
            Some((t.id, count))
        });
        let Some((id, count)) = timer else { return };
        if count == 0 {
            continue;
        }
        let at_once = [Timespec::from_ns(0), Timespec::from_ns(1)];
        if let Ok(at) = thread.write_scratch(at_once.as_bytes()) {
            let _ = delegate::linux(thread, __NR_timer_settime, [u64::from(id), 0, at, 0, 0, 0]);
        }
    }
}
