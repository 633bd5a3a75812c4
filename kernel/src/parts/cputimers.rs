//! Timers that count CPU time: of setitimer(2), of timer_create(2), and the limit of a process.

use crate::base::lock::{Mutex, rank};
use crate::sched::cpus;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::cputimer::{CpuSeconds, Expiries, IntervalTimer};

/// A clock of CPU time of a process, or of one of its threads.
pub struct CpuClock<T> {
    /// Thread whose time is counted; `None`: the process'.
    pub thread: Option<Weak<T>>,
    /// Time in user mode alone is counted.
    pub user: bool,
}

impl<T> Clone for CpuClock<T> {
    fn clone(&self) -> Self {
        CpuClock { thread: self.thread.clone(), user: self.user }
    }
}

/// A timer of timer_create, on any clock.
pub struct Timer {
    /// Number, Linux' too.
    pub id: u32,
    /// The timer's signal is for one thread (SIGEV_THREAD_ID), not for the process.
    pub is_of_thread: bool,
}

/// A timer of timer_create on a clock of CPU time.
pub struct ClockTimer<T> {
    /// Number, Linux' too.
    pub id: u32,
    /// The clock whose CPU time the timer counts.
    pub clock: CpuClock<T>,
    /// Time of the next expiry, and the interval.
    pub timer: IntervalTimer,
    /// How often the timer has expired.
    pub expiries: Expiries,
}

/// Timers of a process.
pub struct CpuTimers<T> {
    /// One of the timers, or the limit, is armed.
    pub armed: AtomicBool,
    /// The timers of setitimer, and the limit.
    pub all: Mutex<All, rank::CpuTimers>,
    /// The timers of timer_create.
    clocks: Mutex<Vec<ClockTimer<T>>, rank::ClockTimers>,
}

/// Timers of all its CPU time.
#[derive(Clone, Copy, Default)]
pub struct All {
    /// ITIMER_VIRTUAL.
    pub virt: IntervalTimer,
    /// ITIMER_PROF.
    pub prof: IntervalTimer,
    /// RLIMIT_CPU.
    pub limit: CpuSeconds,
}

impl All {
    /// ns of CPU time until the next one; `user` of `used` were not in the kernel.
    pub fn left(&self, user: u64, used: u64) -> Option<u64> {
        [self.virt.left(user), self.prof.left(used), self.limit.left(used)]
            .into_iter()
            .flatten()
            .min()
    }
}

impl<T> Default for CpuTimers<T> {
    fn default() -> Self {
        CpuTimers {
            armed: AtomicBool::new(false),
            all: Mutex::new(All::default()),
            clocks: Mutex::new(Vec::new()),
        }
    }
}

impl<T> CpuTimers<T> {
    /// Sets some of the timers, or looks at them.
    pub fn change(&self, f: impl FnOnce(&mut All)) {
        f(&mut self.all.lock());
        self.rearm();
        cpus::request_attention();
    }

    /// Looks again whether a timer is armed.
    pub fn rearm(&self) {
        // Under the locks: what is set meanwhile is not overlooked.
        let (all, clocks) = (self.all.lock(), self.clocks.lock());
        let armed = all.left(0, 0).is_some() || clocks.iter().any(|t| t.timer.left(0).is_some());
        self.armed.store(armed, Ordering::Release);
    }

    /// Does something with the timers of timer_create.
    pub fn with_clock_timers<R>(&self, f: impl FnOnce(&mut Vec<ClockTimer<T>>) -> R) -> R {
        f(&mut self.clocks.lock())
    }

    /// RLIMIT_CPU, seconds.
    pub fn set_limit(&self, soft: u64, hard: u64) {
        self.change(|all| all.limit = CpuSeconds::new(soft, hard));
    }

    /// The limit of a process, for its child.
    pub fn limit(&self) -> (u64, u64) {
        self.all.lock().limit.limits()
    }

    /// Takes over the interval timers and the limit of a process that goes on as this one.
    pub fn take_over(&self, old: &CpuTimers<T>) {
        let all = *old.all.lock();
        *self.all.lock() = all;
        self.rearm();
    }
}
