//! Turns of a CPU: it serves Linux' requests, or its threads run.
//!
//! A request comes before the threads, since Linux waits for its answer. But a user of a proxy can
//! make requests at any rate, on as many of Linux' CPUs as there are. So a CPU that has spent a
//! *burst* with requests gives its threads as much time, a *rest*, before it serves the next one. A
//! CPU that has no thread to run does not ask: it serves.
//!
//! Times are values of the TSC, and cycles.

/// One CPU's account of the time that requests took.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// Time that requests took, less the time that passed without them; not below 0.
    spent: u64,
    /// End of the last request.
    last: u64,
    /// The end of the rest, or [`Turns::NONE`].
    rest_end: u64,
}

impl Turns {
    /// There is no rest.
    pub const NONE: u64 = u64::MAX;
    /// No rest is longer than so many bursts, whatever one request took.
    const BURSTS_MAX: u64 = 16;

    /// An account at its beginning.
    #[must_use]
    pub const fn new() -> Self {
        Self { spent: 0, last: 0, rest_end: Self::NONE }
    }

    /// Whether requests rest, so that threads have their turn.
    #[must_use]
    pub const fn rests(&self, now: u64) -> bool {
        self.rest_end != Self::NONE && now < self.rest_end
    }

    /// Requests were served in between; a rest may begin.
    pub fn served(&mut self, from: u64, now: u64, burst: u64) {
        let without = from.saturating_sub(self.last);
        self.spent = self.spent.saturating_sub(without) + now.saturating_sub(from);
        self.last = now;
        if self.spent >= burst {
            let rest = self.spent.min(Self::BURSTS_MAX * burst);
            self.rest_end = now.saturating_add(rest);
            self.spent = 0;
            self.last = self.rest_end;
        }
    }

    /// When the timer has to fire: from the beginning of a rest until [`Turns::end_rest`].
    #[must_use]
    pub const fn rest_end(&self) -> u64 {
        self.rest_end
    }

    /// Ends the rest: no request waits any more, or the CPU looks at those that wait. True if there
    /// was a rest.
    pub fn end_rest(&mut self) -> bool {
        core::mem::replace(&mut self.rest_end, Self::NONE) != Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BURST: u64 = 100;

    /// A CPU with a thread that always wants to run. Requests take `costs`, and come `gaps` after
    /// the one before was served; 0: they are there already. Returns the times of requests and of
    /// the thread, and the longest delay.
    fn run(requests: &[(u64, u64)]) -> (u64, u64, u64) {
        let mut turns = Turns::new();
        let (mut now, mut of_requests, mut of_thread, mut longest) = (1000, 0, 0, 0);
        let mut left = requests.iter().copied().peekable();
        let mut there = now;
        while let Some(&(gap, _)) = left.peek() {
            there = there.max(now + gap);
            of_thread += there - now;
            now = there;
            if turns.rests(now) {
                let end = turns.rest_end();
                of_thread += end - now;
                now = end;
                assert!(turns.end_rest(), "the timer fires at its end");
            }
            longest = longest.max(now - there);
            let from = now;
            while let Some(&(gap, cost)) = left.peek() {
                if now != from && (gap != 0 || now - from >= BURST) {
                    break;
                }
                now += cost;
                left.next();
            }
            of_requests += now - from;
            turns.served(from, now, BURST);
            there = now;
        }
        (of_requests, of_thread, longest)
    }

    #[test]
    fn few_requests_are_served_at_once() {
        let (_, _, delay) = run(&[(500, 20); 100]);
        assert_eq!(delay, 0);
    }

    #[test]
    fn a_flood_takes_half() {
        for gap in 0..3 {
            let (requests, thread, delay) = run(&[(gap, 10); 10_000]);
            assert!(
                thread >= requests - BURST && thread <= requests * 3 / 2,
                "{requests} and {thread}"
            );
            assert!(delay <= 2 * BURST);
        }
    }

    proptest! {
        /// However they come and however long each takes, within what one rest can pay back.
        #[test]
        fn a_thread_has_its_part(requests in proptest::collection::vec((0..150u64, 1..BURST * 8), 1..300)) {
            let (of_requests, of_thread, delay) = run(&requests);
            let largest = requests.iter().map(|&(_, cost)| cost).max().unwrap();
            prop_assert!(of_thread + 2 * BURST + largest >= of_requests, "{of_requests} and {of_thread}");
            prop_assert!(delay <= Turns::BURSTS_MAX * BURST);
        }
    }
}
