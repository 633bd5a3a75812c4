//! Timers that count the CPU time a process has used: `ITIMER_VIRTUAL`, `ITIMER_PROF`
//! and the limit of CPU seconds.

/// A timer on a clock that the caller reads; times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalTimer {
    /// Reading of the clock at which it expires; 0: it does not.
    expiry_ns: u64,
    interval_ns: u64,
}

impl IntervalTimer {
    /// Expires in `value_ns` from `now_ns`, then every `interval_ns`. A value of 0
    /// disarms it.
    #[must_use]
    pub const fn set(now_ns: u64, value_ns: u64, interval_ns: u64) -> Self {
        let expiry_ns = if value_ns == 0 { 0 } else { now_ns.saturating_add(value_ns) };
        Self { expiry_ns, interval_ns }
    }

    /// Expires when the clock reads `expiry_ns`, then every `interval_ns`; 0 disarms it.
    #[must_use]
    pub const fn set_at(expiry_ns: u64, interval_ns: u64) -> Self {
        Self { expiry_ns, interval_ns }
    }

    /// Time left (at least 1 ns while it is armed) and interval: `getitimer`.
    #[must_use]
    pub const fn get(&self, now_ns: u64) -> (u64, u64) {
        if self.expiry_ns == 0 {
            return (0, self.interval_ns);
        }
        let left = self.expiry_ns.saturating_sub(now_ns);
        (if left == 0 { 1 } else { left }, self.interval_ns)
    }

    /// How often it has expired; it is armed again or disarmed then. A late look finds several
    /// expiries.
    pub const fn take_expired(&mut self, now_ns: u64) -> u64 {
        if self.expiry_ns == 0 || now_ns < self.expiry_ns {
            return 0;
        }
        let late_ns = now_ns - self.expiry_ns;
        let Some(more) = late_ns.checked_div(self.interval_ns) else {
            self.expiry_ns = 0;
            return 1;
        };
        self.expiry_ns = now_ns.saturating_add(self.interval_ns - late_ns % self.interval_ns);
        more + 1
    }

    /// Time until the timer expires; `None`: it does not.
    #[must_use]
    pub const fn left(&self, now_ns: u64) -> Option<u64> {
        if self.expiry_ns == 0 { None } else { Some(self.expiry_ns.saturating_sub(now_ns)) }
    }
}

/// Expiries of a timer of timer_create(2), of which one signal tells: its overrun is how many there
/// were beside the first since the last signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiries {
    untold: u64,
    overrun: u32,
}

impl Expiries {
    /// The timer has expired so often.
    pub const fn add(&mut self, count: u64) {
        self.untold = self.untold.saturating_add(count);
    }

    /// The signal is on its way to the program: its overrun. One that is sent to another thread
    /// since the first does not take it has the same.
    pub const fn tell(&mut self) -> u32 {
        const MOST: u64 = i32::MAX as u64; // DELAYTIMER_MAX
        if let Some(overrun) = self.untold.checked_sub(1) {
            self.overrun = if overrun < MOST { overrun as u32 } else { MOST as u32 };
            self.untold = 0;
        }
        self.overrun
    }

    /// The signal has gone back, and will be told again.
    pub const fn take_back(&mut self, overrun: u32) {
        self.add(overrun as u64 + 1);
    }

    /// The overrun of the last signal: timer_getoverrun(2).
    #[must_use]
    pub const fn overrun(&self) -> u32 {
        self.overrun
    }
}

/// Consequence of a process' limit of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuLimit {
    /// The limit is not reached.
    Within,
    /// SIGXCPU, once a second.
    Warn,
    /// SIGKILL.
    Kill,
}

/// RLIMIT_CPU: soft and hard in seconds, as Linux has it: the soft limit moves on by a
/// second with each SIGXCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSeconds {
    soft: u64,
    hard: u64,
}

const NS: u64 = 1_000_000_000;

impl Default for CpuSeconds {
    fn default() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }
}

impl CpuSeconds {
    /// Both in seconds; `u64::MAX`: none. A soft limit of 0 counts as 1, as on Linux.
    #[must_use]
    pub const fn new(soft: u64, hard: u64) -> Self {
        let soft = if soft == 0 { 1 } else { soft };
        Self { soft, hard }
    }

    /// Soft and hard limit.
    #[must_use]
    pub const fn limits(&self) -> (u64, u64) {
        (self.soft, self.hard)
    }

    /// Looks after `used_ns`.
    pub const fn check(&mut self, used_ns: u64) -> CpuLimit {
        let used = used_ns / NS;
        if self.hard != u64::MAX && used >= self.hard {
            return CpuLimit::Kill;
        }
        if self.soft == u64::MAX || used < self.soft {
            return CpuLimit::Within;
        }
        self.soft = used + 1;
        CpuLimit::Warn
    }

    /// How long until the next look, ns; `None`: there is no limit.
    #[must_use]
    pub const fn left(&self, used_ns: u64) -> Option<u64> {
        let due = if self.soft < self.hard { self.soft } else { self.hard };
        if due == u64::MAX { None } else { Some(due.saturating_mul(NS).saturating_sub(used_ns)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_timer_goes_on_in_step() {
        let mut t = IntervalTimer::set(100, 10, 20);
        assert_eq!(t.get(100), (10, 20));
        assert_eq!(t.take_expired(109), 0);
        assert_eq!(t.get(115), (1, 20));
        assert_eq!(t.take_expired(115), 1);
        assert_eq!(t.left(115), Some(15));
        // At 130, 150 and 170.
        assert_eq!(t.take_expired(175), 3);
        assert_eq!(t.left(175), Some(15));
        assert_eq!(t.take_expired(190), 1);
    }

    #[test]
    fn a_signal_tells_of_all_expiries_since_the_last_one() {
        let mut e = Expiries::default();
        e.add(1);
        assert_eq!((e.tell(), e.overrun()), (0, 0));
        e.add(3);
        e.add(2);
        assert_eq!(e.overrun(), 0);
        assert_eq!((e.tell(), e.tell(), e.overrun()), (4, 4, 4));
        e.take_back(4);
        e.add(3);
        assert_eq!(e.tell(), 7);
        e.add(u64::MAX);
        e.add(7);
        assert_eq!(e.tell(), i32::MAX as u32);
        e.add(1);
        assert_eq!(e.tell(), 0);
    }

    #[test]
    fn an_expiry_may_be_given() {
        let mut t = IntervalTimer::set_at(100, 10);
        assert_eq!(t.take_expired(99), 0);
        assert_eq!(t.take_expired(100), 1);
        assert_eq!(t.left(103), Some(7));
        assert_eq!(IntervalTimer::set_at(0, 10).left(5), None);
    }

    #[test]
    fn a_single_shot_expires_once() {
        let mut t = IntervalTimer::set(0, 5, 0);
        assert_eq!(t.take_expired(5), 1);
        assert_eq!(t.take_expired(500), 0);
        assert_eq!(t.left(500), None);
        assert_eq!(IntervalTimer::set(7, 0, 3).left(7), None);
    }

    #[test]
    fn the_limit_warns_each_second_and_then_kills() {
        let mut c = CpuSeconds::new(1, 3);
        assert_eq!(c.left(0), Some(NS));
        assert_eq!(c.check(NS - 1), CpuLimit::Within);
        assert_eq!(c.check(NS), CpuLimit::Warn);
        assert_eq!(c.check(NS + 1), CpuLimit::Within);
        assert_eq!(c.limits(), (2, 3));
        assert_eq!(c.check(2 * NS), CpuLimit::Warn);
        assert_eq!(c.check(3 * NS), CpuLimit::Kill);
        assert_eq!(CpuSeconds::default().left(9), None);
        assert_eq!(CpuSeconds::new(0, 9).limits(), (1, 9));
    }
}
