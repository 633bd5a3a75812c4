//! How many lines of one kind the log may get at once.

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
    /// Nothing has been shown yet.
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
    fn events_far_apart_are_all_shown() {
        let mut limit = RateLimit::new(100, 1);
        assert!((0..10).all(|i| limit.show(i * 101) == Some(0)));
    }
}
