//! How many lines of one kind the log may get at once, and how often else something may be done.

/// Shows up to `burst` events in each interval of `interval_ns`, as Linux' `printk_ratelimit`.
#[derive(Debug)]
pub struct RateLimit {
    interval_ns: u64,
    burst: u32,
    begin_ns: Option<u64>,
    shown: u32,
    missed: u32,
}

impl RateLimit {
    /// A limit before any event.
    #[must_use]
    pub const fn new(interval_ns: u64, burst: u32) -> Self {
        Self { interval_ns, burst, begin_ns: None, shown: 0, missed: 0 }
    }

    /// An event at the time `now_ns`. `None`: it is not shown. Else how many were not since the
    /// last interval began.
    pub fn show(&mut self, now_ns: u64) -> Option<u32> {
        let is_over =
            self.begin_ns.is_none_or(|begin| now_ns.saturating_sub(begin) > self.interval_ns);
        let mut missed = 0;
        if is_over {
            (self.begin_ns, self.shown) = (Some(now_ns), 0);
            missed = core::mem::take(&mut self.missed);
        }
        if self.shown < self.burst {
            self.shown += 1;
            return Some(missed);
        }
        self.missed += 1;
        None
    }
}

/// Something may be done so often at once, and after that once in each interval.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two events, in the unit of the times.
    pub interval: u64,
    /// How many intervals may be used ahead of their time.
    pub burst: u64,
}

impl Pace {
    /// Takes an interval at the time `now`. `used` is when those that were taken are over; the
    /// result is the same after this one, or `None`: not yet.
    #[must_use]
    pub const fn take(self, used: u64, now: u64) -> Option<u64> {
        let ahead = used.saturating_sub(now);
        if ahead > self.burst * self.interval {
            return None;
        }
        Some(now + ahead + self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_shown_and_the_rest_is_counted() {
        let mut limit = RateLimit::new(100, 3);
        let shown = (0..10).filter(|_| limit.show(50) == Some(0)).count();
        assert_eq!(shown, 3);
        assert_eq!(limit.show(150), None);
        assert_eq!(limit.show(151), Some(8));
        assert_eq!(limit.show(151), Some(0));
    }

    #[test]
    fn after_a_burst_each_waits_for_its_interval() {
        let pace = Pace { interval: 10, burst: 3 };
        let mut used = 0;
        let mut take = |now| pace.take(used, now).map(|after| used = after).is_some();
        assert_eq!((0..10).filter(|_| take(1000)).count(), 4);
        assert!(!take(1009) && take(1010) && !take(1019) && take(1020));
        assert!(take(5000));
    }

    #[test]
    fn events_far_apart_are_all_shown() {
        let mut limit = RateLimit::new(100, 1);
        assert!((0..10).all(|i| limit.show(i * 101) == Some(0)));
    }
}
