//! Which of two ways is faster, found by taking them in turns: a preloaded library
//! (`docs/async.md`) posts replies for a while, has them made by their callers for a while, and
//! goes on with what took less time. That depends on the machine (is there a CPU for the worker?)
//! and on the load, so it is tried again now and then.

/// Replies of a turn: long enough that the first one, which may wake the worker, does not count.
const TURN: u32 = 256;
/// Turns of a trial, in each way by turns.
const TURNS: u32 = 4;
/// Replies between two trials, at least and at most. Each trial that finds what the last one found
/// doubles them.
const REST_MIN: u32 = 8192;
const REST_MAX: u32 = 65_536;
/// Posting is chosen where it takes no longer than this share more, 1/x: it leaves the caller's CPU
/// time for something else.
const TOLERANCE: u64 = 32;

/// A trial, and what the last one has found. Its user has it alone.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    posts: bool,
    /// Replies until something changes.
    left: u32,
    /// Turns of this trial that have begun; [`TURNS`] and one more: it is over.
    turn: u32,
    began_ns: u64,
    /// The shortest turn by each way, posted last: a longer one may be one in which no client asked
    /// for anything.
    spent_ns: [u64; 2],
    /// Whether posting was faster in the last trial.
    found: bool,
    rest: u32,
}

impl Default for Trial {
    fn default() -> Self {
        Self::new()
    }
}

impl Trial {
    /// A trial that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        let (turn, rest) = (TURNS + 1, REST_MIN);
        Self { posts: false, left: 0, turn, began_ns: 0, spent_ns: [0; 2], found: true, rest }
    }

    /// Whether the next reply is to be posted; `now_ns` is any clock that goes on while nothing
    /// happens. It is asked for once in a turn.
    pub fn posts_next(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        if self.left == 0 {
            self.change(now_ns());
        }
        self.left -= 1;
        self.posts
    }

    fn change(&mut self, now_ns: u64) {
        if self.turn > TURNS {
            (self.turn, self.spent_ns, self.posts) = (0, [u64::MAX; 2], false);
        } else {
            let spent_ns = &mut self.spent_ns[usize::from(self.posts)];
            *spent_ns = (*spent_ns).min(now_ns.saturating_sub(self.began_ns));
        }
        self.turn += 1;
        (self.began_ns, self.left) = (now_ns, TURN);
        if self.turn <= TURNS {
            self.posts = !self.posts;
            return;
        }
        let [made, posted] = self.spent_ns;
        self.posts = posted <= made.saturating_add(made / TOLERANCE);
        self.rest = if self.posts == self.found { (2 * self.rest).min(REST_MAX) } else { REST_MIN };
        (self.found, self.left) = (self.posts, self.rest);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many of so many replies are posted where a reply takes so long in either way.
    fn posted(trial: &mut Trial, count: u32, made_ns: u64, posted_ns: u64, now: &mut u64) -> u32 {
        let mut posted = 0;
        for _ in 0..count {
            let posts = trial.posts_next(|| *now);
            *now += if posts { posted_ns } else { made_ns };
            posted += u32::from(posts);
        }
        posted
    }

    #[test]
    fn the_faster_way_is_taken() {
        let (mut trial, mut now) = (Trial::new(), 7);
        assert!(posted(&mut trial, 100_000, 1000, 800, &mut now) > 98_000);
        // The machine gets busy: after the next trial.
        posted(&mut trial, REST_MAX, 1000, 1800, &mut now);
        assert!(posted(&mut trial, 100_000, 1000, 1800, &mut now) < 3_000);
        // It is as fast now.
        posted(&mut trial, REST_MAX, 1000, 1010, &mut now);
        assert!(posted(&mut trial, 100_000, 1000, 1010, &mut now) > 97_000);
    }

    proptest! {
        /// No more than a thirtieth of the time is lost by trials, however slow the other way is up
        /// to three times.
        #[test]
        fn trials_cost_little(made in 100u64..10_000, slower in 100u64..300, posting_is in any::<bool>()) {
            let other = made * slower / 100;
            let (made, posted_ns) = if posting_is { (made, other) } else { (other, made) };
            let (mut trial, mut now) = (Trial::new(), 0);
            posted(&mut trial, 1_000_000, made, posted_ns, &mut now);
            let best = 1_000_000 * made.min(posted_ns);
            prop_assert!(now - best <= best / 30 + 1, "{now} ns, {best} at best");
        }
    }
}
