//! Control groups: how much CPU time the programs of each may have (`cpu.max`; Linux'
//! Documentation/scheduler/sched-bwc.rst).
//!
//! A group has a *quota* of CPU time in each *period*, on all CPUs together. A thread that goes to
//! user mode takes a *grant* in advance, of its group and of all above it, and runs for as long.
//! Then it takes the next one, or, where there is none, waits for the next period. When it leaves
//! the CPU, it gives back what it did not use. What it used beyond its grant, in the kernel or
//! because a timer was late, is a debt of the group and taken from later periods. What a group does
//! not use in a period is lost (`cpu.max.burst` is not honoured).
//!
//! Each group's account is one word, without a lock: the *fill*, a point of time that moves on by a
//! whole period for each quota that is taken, and is never before the current period's start.
//! Grants are to be had as long as it lies in that period. So a new period needs no announcement,
//! and a debt is a fill that lies in a later one.
//!
//! Times are in one unit, counted from one point, whatever they are: the kernel has cycles of the
//! TSC.

use crate::grouptable::{Limited, NOBODY, Table, Tag};
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use hanare_abi::request::GROUPS_MAX as DEPTH_MAX;

/// CPU time that a group may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// CPU time of a period.
    pub quota: u64,
    /// Length of a period.
    pub period: u64,
}

/// How large a grant is.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    /// Smallest grant, though less is left: what is too much is a debt.
    pub least: u64,
    /// Largest grant.
    pub most: u64,
}

/// CPUs of one group that take all they can take at least so many grants a period, together: one of
/// them does not have the whole quota.
const GRANTS_PER_QUOTA: u64 = 8;

/// The groups of an instance that limit CPU time.
pub type Bandwidths = Table<Bandwidth>;

/// CPU time of a group.
#[derive(Debug)]
pub struct Bandwidth {
    quota: AtomicU64,
    period: AtomicU64,
    fill: AtomicU64,
}

impl Limited for Bandwidth {
    type Limit = Limit;
    const UNUSED: Bandwidth =
        Bandwidth { quota: AtomicU64::new(1), period: AtomicU64::new(1), fill: AtomicU64::new(0) };

    fn reset(&self) {
        self.fill.store(0, Ordering::Relaxed);
    }

    /// Another limit than before begins with a whole quota, and no debt, as on Linux.
    fn set_limit(&self, limit: Limit) {
        let before = Limit {
            quota: self.quota.swap(limit.quota.max(1), Ordering::Relaxed),
            period: self.period.swap(limit.period.max(1), Ordering::Relaxed),
        };
        if before != limit {
            self.reset();
        }
    }

    fn is_unused(&self) -> bool {
        true // the table asks whether it has members
    }
}

impl Bandwidth {
    fn limit(&self) -> Limit {
        Limit {
            quota: self.quota.load(Ordering::Relaxed),
            period: self.period.load(Ordering::Relaxed),
        }
    }

    /// A grant of at most `want`. `Err`: the period in which there is one again begins then.
    fn take(&self, now: u64, want: u64, slices: Slices) -> Result<u64, u64> {
        let limit = self.limit();
        let start = now - now % limit.period;
        let end = start.saturating_add(limit.period);
        let slice = want.min((limit.quota / GRANTS_PER_QUOTA).max(slices.least));
        let mut seen = self.fill.load(Ordering::Relaxed);
        loop {
            let fill = seen.max(start);
            if fill >= end {
                return Err(fill - fill % limit.period);
            }
            let grant = slice.min(limit.time_of(end - fill).max(slices.least));
            let filled = fill.saturating_add(limit.fill_of(grant).max(1));
            match self.fill.compare_exchange_weak(
                seen,
                filled,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(grant),
                Err(other) => seen = other,
            }
        }
    }

    /// Whether there is a grant to be had.
    fn has_time(&self, now: u64) -> bool {
        let period = self.limit().period;
        self.fill.load(Ordering::Relaxed) < (now - now % period).saturating_add(period)
    }

    /// Time was used that had not been taken in advance.
    fn spend(&self, now: u64, time: u64) {
        let limit = self.limit();
        let start = now - now % limit.period;
        let _ = self.fill.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |fill| {
            Some(fill.max(start).saturating_add(limit.fill_of(time)))
        });
    }

    /// A part of a grant was not used. That of an earlier period is lost with the period: the fill
    /// is taken for its start if it lies before.
    fn give_back(&self, time: u64) {
        let back = self.limit().fill_of(time);
        let _ = self.fill.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |fill| {
            Some(fill.saturating_sub(back))
        });
    }
}

impl Limit {
    /// By how much the fill moves for some CPU time.
    fn fill_of(self, time: u64) -> u64 {
        let fill =
            (u128::from(time) * u128::from(self.period)).div_ceil(u128::from(self.quota.max(1)));
        u64::try_from(fill).unwrap_or(u64::MAX)
    }

    /// The CPU time that moves the fill by so much.
    fn time_of(self, fill: u64) -> u64 {
        let time = u128::from(fill) * u128::from(self.quota) / u128::from(self.period.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

impl Bandwidths {
    /// A grant of a group and of all above it.
    ///
    /// # Errors
    /// There is none before that time, when it is to be asked again.
    pub fn take(&self, tag: Tag, now: u64, slices: Slices) -> Result<u64, u64> {
        let mut grant = slices.most;
        for (at, group) in self.chain(tag) {
            let got = group.take(now, grant, slices);
            let excess = grant - got.unwrap_or(0);
            if excess > 0 {
                self.chain(tag)
                    .take_while(|&(below, _)| below != at)
                    .for_each(|(_, below)| below.give_back(excess));
            }
            grant = got?;
        }
        Ok(grant)
    }

    /// Whether there is a grant to be had.
    #[must_use]
    pub fn has_time(&self, tag: Tag, now: u64) -> bool {
        self.chain(tag).all(|(_, group)| group.has_time(now))
    }

    /// Time was used for which there was no grant.
    pub fn spend(&self, tag: Tag, now: u64, time: u64) {
        self.chain(tag).for_each(|(_, group)| group.spend(now, time));
    }

    /// A part of a grant was not used.
    pub fn give_back(&self, tag: Tag, time: u64) {
        self.chain(tag).for_each(|(_, group)| group.give_back(time));
    }
}

/// The CPU time that a thread has been granted. Only the CPU that runs it changes it.
#[derive(Debug, Default)]
pub struct Allowance {
    /// The group that has granted the time.
    tag: AtomicU16,
    /// Linux' number for that group: once it has no members, the tag may be another group's.
    id: AtomicU64,
    /// CPU time of the thread up to which it is paid.
    paid: AtomicU64,
}

impl Allowance {
    /// Whether the time was granted by a group, which has a limit.
    #[must_use]
    pub fn has_group(&self) -> bool {
        self.tag.load(Ordering::Relaxed) != NOBODY
    }

    /// The thread leaves the CPU, or its group, having `used` so much time in its life: it gives
    /// back what is left, or pays what is missing.
    pub fn settle(&self, all: &Bandwidths, used: u64, now: u64) {
        let (tag, paid) = (self.tag.load(Ordering::Relaxed), self.paid.load(Ordering::Relaxed));
        let is_it = all.id(tag) == self.id.load(Ordering::Relaxed);
        if is_it && paid > used {
            all.give_back(tag, paid - used);
        } else if is_it && paid < used {
            all.spend(tag, now, used - paid);
        }
        self.paid.store(used, Ordering::Relaxed);
    }

    /// The thread, of group `tag`, goes on to user mode: for how long it may be there.
    ///
    /// # Errors
    /// Its group has no time before then.
    pub fn renew(
        &self,
        all: &Bandwidths,
        tag: Tag,
        used: u64,
        now: u64,
        slices: Slices,
    ) -> Result<u64, u64> {
        if self.tag.load(Ordering::Relaxed) != tag {
            self.settle(all, used, now);
            self.tag.store(tag, Ordering::Relaxed);
            self.id.store(all.id(tag), Ordering::Relaxed);
        }
        if tag == NOBODY {
            return Ok(u64::MAX);
        }
        let paid = self.paid.load(Ordering::Relaxed);
        if paid > used {
            return Ok(paid - used);
        }
        self.settle(all, used, now);
        let grant = all.take(tag, now, slices)?;
        self.paid.store(used.saturating_add(grant), Ordering::Relaxed);
        Ok(grant)
    }
}

/// Groups as [`Table::enter`] takes them, from the words of a request.
#[must_use]
pub fn from_words(words: &[u64]) -> [(u64, Limit); DEPTH_MAX] {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    core::array::from_fn(|i| {
        (word(3 * i), Limit { quota: word(3 * i + 1), period: word(3 * i + 2) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;
    use std::vec::Vec;

    const SLICES: Slices = Slices { least: 10, most: 100 };

    const fn limit(quota: u64, period: u64) -> Limit {
        Limit { quota, period }
    }

    /// Takes all that there is; how much, and when there is more.
    fn drain(all: &Bandwidths, tag: Tag, now: u64) -> (u64, u64) {
        let mut sum = 0;
        loop {
            match all.take(tag, now, SLICES) {
                Ok(grant) => sum += grant,
                Err(until) => return (sum, until),
            }
        }
    }

    #[test]
    fn each_period_has_its_quota() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(1, limit(800, 10_000))]).unwrap();
        assert_eq!(drain(&all, tag, 12_345), (800, 20_000));
        assert_eq!(drain(&all, tag, 19_999), (0, 20_000));
        assert_eq!(drain(&all, tag, 20_000), (800, 30_000));
        assert_eq!(drain(&all, tag, 75_000), (800, 80_000), "what was not used is lost");
    }

    #[test]
    fn what_is_not_used_can_be_taken_by_another_cpu() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(1, limit(800, 10_000))]).unwrap();
        assert_eq!(drain(&all, tag, 0).0, 800);
        all.give_back(tag, 60);
        assert_eq!(drain(&all, tag, 5), (60, 10_000));
        all.give_back(tag, 60);
        assert_eq!(drain(&all, tag, 10_000), (800, 20_000), "not in the next period");
    }

    #[test]
    fn a_waiter_sees_when_there_is_time_again() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(2, limit(400, 10_000)), (1, limit(800, 10_000))]).unwrap();
        assert!(all.has_time(tag, 0) && all.has_time(NOBODY, 0));
        let (_, until) = drain(&all, tag, 0);
        assert!(!all.has_time(tag, 1) && !all.has_time(tag, until - 1) && all.has_time(tag, until));
        all.give_back(tag, 10);
        assert!(all.has_time(tag, 2));
        all.spend(all.enter(0, &[(1, limit(800, 10_000))]).unwrap(), 3, 420);
        assert!(!all.has_time(tag, 4), "the one above has none");
    }

    #[test]
    fn a_debt_is_paid_by_later_periods() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(1, limit(800, 10_000))]).unwrap();
        all.spend(tag, 3, 1250);
        assert_eq!(drain(&all, tag, 4), (0, 10_000));
        assert_eq!(drain(&all, tag, 10_000), (350, 20_000));
        all.spend(tag, 10_001, 1600);
        assert_eq!(drain(&all, tag, 10_002), (0, 40_000));
        assert_eq!(drain(&all, tag, 30_000), (0, 40_000));
    }

    #[test]
    fn the_groups_above_bind_and_what_they_refuse_is_not_taken_below() {
        let all = Bandwidths::new();
        let top = (1, limit(32_000, 100_000));
        let left = all.enter(0, &[(2, limit(16_000, 100_000)), top]).unwrap();
        let right = all.enter(0, &[(3, limit(240_000, 1_000_000)), top]).unwrap();
        let about = |(had, until): (u64, u64), time: u64, then: u64| {
            // Each grant's fill is rounded up.
            assert!(
                (time.saturating_sub(time / 50)..=time + SLICES.least).contains(&had),
                "{had}, not {time}"
            );
            assert_eq!(until, then);
        };
        about(drain(&all, left, 0), 16_000, 100_000);
        about(drain(&all, right, 0), 16_000, 100_000); // the rest of the one above
        about(drain(&all, right, 100_000), 32_000, 200_000);
        about(drain(&all, left, 100_000), 0, 200_000);
        // Its own is full in the end, not earlier: it did not pay for what was refused above.
        let sum: u64 = (2..9).map(|period| drain(&all, right, period * 100_000).0).sum();
        about((sum, 0), 240_000 - 48_000, 0);
        about(drain(&all, right, 900_000), 0, 1_000_000);
    }

    #[test]
    fn another_limit_frees_at_once() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(1, limit(10, 10_000))]).unwrap();
        all.spend(tag, 0, 1000);
        assert_eq!(drain(&all, tag, 0), (0, 1_000_000));
        assert_eq!(all.enter(0, &[(1, limit(10, 10_000))]), Some(tag));
        assert_eq!(drain(&all, tag, 0).0, 0, "not the same one");
        assert_eq!(all.enter(0, &[(1, limit(5000, 10_000))]), Some(tag));
        assert_eq!(drain(&all, tag, 1), (5000, 10_000));
    }

    #[test]
    fn a_quota_may_be_more_than_one_cpu() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(1, limit(25_000, 10_000))]).unwrap();
        assert_eq!(drain(&all, tag, 0), (25_000, 10_000));
    }

    #[test]
    fn an_entry_begins_without_what_another_group_has_spent() {
        let all = Bandwidths::new();
        let tag = all.enter(7, &[(1, limit(10, 1000))]).unwrap();
        all.spend(tag, 0, 1_000_000);
        all.leave(tag);
        assert_eq!(all.enter(7, &[(2, limit(10, 1000))]), Some(tag));
        assert_eq!(drain(&all, tag, 0).0, 10);
    }

    #[test]
    fn a_thread_pays_what_it_uses() {
        let all = Bandwidths::new();
        let tag = all.enter(0, &[(1, limit(200, 1000))]).unwrap();
        let thread = Allowance::default();
        assert_eq!(thread.renew(&all, NOBODY, 5000, 0, SLICES), Ok(u64::MAX));
        assert!(!thread.has_group());
        // What it had before it came into the group is not the group's.
        assert_eq!(thread.renew(&all, tag, 6000, 0, SLICES), Ok(25));
        assert!(thread.has_group());
        assert_eq!(thread.renew(&all, tag, 6010, 10, SLICES), Ok(15));
        assert_eq!(thread.renew(&all, tag, 6030, 30, SLICES), Ok(25), "5 beyond its grant");
        thread.settle(&all, 6040, 40);
        assert_eq!(drain(&all, tag, 40), (160, 1000));
        assert_eq!(thread.renew(&all, tag, 6045, 50, SLICES), Err(1000));
        assert_eq!(thread.renew(&all, tag, 6045, 1000, SLICES), Ok(25));
        assert_eq!(thread.renew(&all, NOBODY, 6050, 1010, SLICES), Ok(u64::MAX));
        assert_eq!(drain(&all, tag, 1010), (190, 2000), "5 of before, 5 of now");
    }

    #[test]
    fn words_that_are_missing_are_no_groups() {
        let all = Bandwidths::new();
        assert_eq!(all.enter(0, &from_words(&[])), Some(NOBODY));
        let tag = all.enter(0, &from_words(&[7, 20, 100, 0, 0, 0])).unwrap();
        assert_eq!(drain(&all, tag, 0), (20, 100));
        assert!(
            drain(&all, all.enter(0, &from_words(&[8])).unwrap(), 0).0 < 20,
            "without a quota it has next to nothing"
        );
    }

    /// However many CPUs take at the same time: the quota, and no more than a least grant in
    /// excess.
    #[test]
    fn nothing_is_taken_twice() {
        let all = Bandwidths::new();
        let tags: Vec<Tag> = (2..6)
            .map(|id| {
                all.enter(0, &[(id, limit(40_000, 1_000_000)), (1, limit(100_000, 1_000_000))])
                    .unwrap()
            })
            .collect();
        let sums: Vec<u64> = thread::scope(|s| {
            let all = &all;
            let threads: Vec<_> =
                tags.iter().map(|&tag| s.spawn(move || drain(all, tag, 7).0)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(sums.iter().all(|&sum| sum <= 40_000 + SLICES.least), "{sums:?}");
        let sum = sums.iter().sum::<u64>();
        assert!((100_000 - SLICES.least..=100_000 + SLICES.least).contains(&sum), "{sums:?}");
    }

    /// CPUs that each run a thread of a group: time goes on by random steps, threads run, are late,
    /// leave.
    fn simulate(limits: &[(u64, Limit)], cpus: usize, steps: &[(u64, usize, bool)]) -> (u64, u64) {
        let all = Bandwidths::new();
        let tag = all.enter(0, limits).unwrap();
        let threads: Vec<Allowance> = (0..cpus).map(|_| Allowance::default()).collect();
        let (mut used, mut now) = (std::vec![0; cpus], 0);
        for &(step, late, leaves) in steps {
            for (cpu, thread) in threads.iter().enumerate() {
                // To the end of its grant, or, late, beyond; else not at all.
                let mut left = step;
                while left > 0
                    && let Ok(grant) = thread.renew(&all, tag, used[cpu], now, SLICES)
                {
                    let runs = left.min(grant.saturating_add(if late == cpu { 3 } else { 0 }));
                    used[cpu] += runs;
                    left -= runs;
                }
                if leaves {
                    thread.settle(&all, used[cpu], now + step);
                }
            }
            now += step;
        }
        (used.iter().sum(), now)
    }

    #[test]
    fn what_a_group_has_left_behind_is_not_charged_to_the_next_one_with_its_tag() {
        let all = Bandwidths::new();
        let allowance = Allowance::default();
        let his = all.enter(7, &[(1, limit(100, 1000))]).unwrap();
        assert!(allowance.renew(&all, his, 0, 0, SLICES).is_ok());
        all.leave(his);
        let other = all.enter(8, &[(2, limit(100, 1000))]).unwrap();
        assert_eq!(other, his);
        assert_eq!(allowance.renew(&all, NOBODY, 5000, 0, SLICES), Ok(u64::MAX));
        assert!(all.has_time(other, 0));
    }

    proptest! {
        /// In the long run a group has its quota: not more but for grants under way, debts and the
        /// first and last period; not less if all its threads always want to run.
        #[test]
        fn a_group_has_its_quota(quota in 100_u64..3000, cpus in 1_usize..4,
            steps in prop::collection::vec((1_u64..40, 0_usize..4, any::<bool>()), 400..900)) {
            let period = 1000;
            let (used, now) = simulate(&[(2, limit(quota, period)), (1, limit(2 * quota, 2 * period))], cpus, &steps);
            let under_way = cpus as u64 * (SLICES.most + 3 + 40);
            prop_assert!(used <= (now / period + 2) * quota + under_way, "{used} of {quota} in {now}");
            // A step of the simulation is not shared out evenly where CPUs wait for its end.
            let could = now * cpus as u64;
            let had = (now / period).saturating_sub(1) * quota;
            let lost = (now / period + 1) * 40 * cpus as u64;
            prop_assert!(used + lost + under_way >= could.min(had), "{used} of {quota} in {now} on {cpus}");
        }

        #[test]
        fn any_limit_and_time_is_taken(quota in any::<u64>(), period in any::<u64>(), now in any::<u64>(), spent in any::<u64>()) {
            let all = Bandwidths::new();
            let tag = all.enter(0, &[(1, limit(quota, period))]).unwrap();
            all.spend(tag, now, spent);
            if let Err(until) = all.take(tag, now, SLICES) {
                prop_assert!(until > now || until > u64::MAX - period.max(1), "{until}");
            }
            all.give_back(tag, spent);
        }
    }
}
