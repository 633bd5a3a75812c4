//! Control groups: how many pages the programs of each have, and how many they may have
//! (`memory.max`; Linux' Documentation/admin-guide/cgroup-v2.rst, "Memory Ownership").
//!
//! A page keeps the [`Tag`] of the group that it is charged to: a process that shares it or gives
//! it back need not know its maker. It is charged to that group and all those above it.

use crate::grouptable::{Limited, Table};
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::request::GROUPS_MAX as DEPTH_MAX;

pub use crate::grouptable::{GROUPS_MAX, NOBODY, Tag};

/// The groups of an instance that limit memory.
pub type Groups = Table<Pages>;

/// Pages of a group.
#[derive(Debug)]
pub struct Pages {
    /// Pages charged to the group.
    used: AtomicU64,
    /// Limit of the pages charged to the group.
    limit: AtomicU64,
}

impl Limited for Pages {
    type Limit = u64;
    const UNUSED: Pages = Pages { used: AtomicU64::new(0), limit: AtomicU64::new(0) };

    fn reset(&self) {} // nothing is in use

    fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    fn is_unused(&self) -> bool {
        self.used.load(Ordering::Acquire) == 0
    }
}

impl Groups {
    /// Charges pages to a group that the caller is in.
    ///
    /// # Errors
    /// They are beyond the limit of this group, it or one above: nothing is charged.
    pub fn charge(&self, tag: Tag, pages: u64) -> Result<(), Tag> {
        for (at, group) in self.chain(tag) {
            let used = group.used.fetch_add(pages, Ordering::Relaxed) + pages;
            if used > group.limit.load(Ordering::Relaxed) {
                group.used.fetch_sub(pages, Ordering::Release);
                for (_, below) in self.chain(tag).take_while(|&(below, _)| below != at) {
                    below.used.fetch_sub(pages, Ordering::Release);
                }
                return Err(at);
            }
        }
        Ok(())
    }

    /// Pages that were [charged](Self::charge) are free.
    pub fn uncharge(&self, tag: Tag, pages: u64) {
        for (_, group) in self.chain(tag) {
            group.used.fetch_sub(pages, Ordering::Release);
        }
    }

    /// Whether a group may not have one page more.
    #[must_use]
    pub fn is_full(&self, tag: Tag) -> bool {
        let [used, limit] = self.usage(tag);
        used >= limit
    }

    /// How many pages more a group may have, and those that it is in.
    #[must_use]
    pub fn room(&self, tag: Tag) -> u64 {
        let room = |g: &Pages| {
            g.limit.load(Ordering::Relaxed).saturating_sub(g.used.load(Ordering::Relaxed))
        };
        self.chain(tag).map(|(_, group)| room(group)).min().unwrap_or(u64::MAX)
    }

    /// Pages that a group has, and may have.
    #[must_use]
    pub fn usage(&self, tag: Tag) -> [u64; 2] {
        self.get(tag).map_or([0, u64::MAX], |g| {
            [g.used.load(Ordering::Relaxed), g.limit.load(Ordering::Relaxed)]
        })
    }
}

/// Groups as [`Groups::enter`] takes them, from the words of a request.
#[must_use]
pub fn from_words(words: &[u64]) -> [(u64, u64); DEPTH_MAX] {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    core::array::from_fn(|i| (word(2 * i), word(2 * i + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grouptable::GROUPS_PER_USER;
    use proptest::prelude::*;
    use std::thread;
    use std::vec::Vec;

    const TOP: (u64, u64) = (1, 100);

    #[test]
    fn all_above_are_charged() {
        let groups = Groups::new();
        let left = groups.enter(0, &[(2, 60), TOP]).unwrap();
        let right = groups.enter(0, &[(3, 60), TOP]).unwrap();
        let top = groups.enter(0, &[TOP]).unwrap();
        assert_eq!(groups.charge(left, 60), Ok(()));
        assert_eq!(groups.charge(left, 1), Err(left));
        assert!(groups.is_full(left) && !groups.is_full(right) && !groups.is_full(top));
        assert_eq!(groups.charge(right, 41), Err(top));
        assert_eq!(groups.charge(right, 40), Ok(()));
        assert!(groups.is_full(top) && !groups.is_full(right));
        assert_eq!((groups.usage(right), groups.usage(top)), ([40, 60], [100, 100]));
        assert!(groups.is_within(right, top) && !groups.is_within(right, left));
        groups.uncharge(left, 60);
        assert_eq!(groups.charge(right, 20), Ok(()));
        assert_eq!(groups.usage(top), [60, 100]);
    }

    #[test]
    fn words_that_are_missing_are_no_groups() {
        let groups = Groups::new();
        assert_eq!(groups.enter(0, &from_words(&[])), Some(NOBODY));
        let tag = groups.enter(0, &from_words(&[7, 10, 0, 0])).unwrap();
        assert_eq!(groups.usage(tag), [0, 10]);
        assert_eq!(groups.charge(NOBODY, 1000), Ok(()));
    }

    #[test]
    fn a_limit_changes_when_it_is_entered_again() {
        let groups = Groups::new();
        let tag = groups.enter(0, &[(7, 10)]).unwrap();
        assert_eq!(groups.charge(tag, 10), Ok(()));
        assert_eq!(groups.enter(0, &[(7, 5)]), Some(tag));
        assert_eq!((groups.usage(tag), groups.is_full(tag)), ([10, 5], true));
        assert_eq!(groups.charge(tag, 1), Err(tag));
    }

    #[test]
    fn pages_stay_charged_to_where_the_group_was() {
        let groups = Groups::new();
        let before = groups.enter(0, &[(7, 10)]).unwrap();
        assert_eq!(groups.charge(before, 8), Ok(()));
        let now = groups.enter(0, &[(7, 10), TOP]).unwrap();
        assert_ne!(before, now);
        groups.leave(before);
        assert_eq!(groups.charge(now, 10), Ok(()));
        groups.uncharge(before, 8);
        assert_eq!(groups.usage(groups.enter(0, &[TOP]).unwrap()), [10, 100]);
    }

    #[test]
    fn one_with_members_or_pages_is_not_given_to_others() {
        let groups = Groups::new();
        let kept = groups.enter(0, &[(1, 10)]).unwrap();
        let left = groups.enter(0, &[(2, 10)]).unwrap();
        assert_eq!(groups.charge(left, 1), Ok(()));
        groups.leave(left);
        let more: Vec<Tag> = (3..).map_while(|id| groups.enter(0, &[(id, 10)])).collect();
        assert_eq!(more.len(), GROUPS_MAX - 2);
        assert!(!more.contains(&kept) && !more.contains(&left));
        groups.uncharge(left, 1);
        assert_eq!(groups.enter(0, &[(9999, 10)]), Some(left));
        assert_eq!(groups.enter(0, &[(10000, 10)]), None);
    }

    #[test]
    fn a_user_with_as_many_as_he_may_have_does_not_keep_a_limit_above_them_away() {
        let groups = Groups::new();
        let his: Vec<Tag> = (100..).map_while(|id| groups.enter(7, &[(id, 10)])).collect();
        assert_eq!(his.len(), GROUPS_PER_USER);
        assert_eq!(groups.enter(7, &[(100, 10), TOP]), None);
        let top = groups.change(7, &[(100, 10), TOP]).unwrap();
        assert_eq!(groups.usage(top)[1], TOP.1);
        assert_eq!(groups.change(7, &[(101, 10), TOP]), Some(top));
        assert_eq!(groups.change(7, &[]), Some(NOBODY));
    }

    #[test]
    fn one_user_does_not_use_them_up() {
        let groups = Groups::new();
        let his: Vec<Tag> = (1..).map_while(|id| groups.enter(7, &[(id, 10)])).collect();
        assert_eq!(his.len(), GROUPS_PER_USER);
        assert_eq!(groups.enter(7, &[(1, 10)]), Some(his[0]));
        assert!(groups.enter(8, &[(900, 10)]).is_some());
        groups.leave(his[5]);
        assert!(groups.enter(7, &[(901, 10)]).is_some());
    }

    #[test]
    fn a_chain_that_does_not_fit_leaves_nothing() {
        let groups = Groups::new();
        let all: Vec<Tag> =
            (1..GROUPS_MAX as u64).map(|id| groups.enter(0, &[(id, 10)]).unwrap()).collect();
        assert_eq!(groups.enter(0, &[(9000, 1), (9001, 1)]), None);
        groups.leave(all[0]);
        assert!(groups.enter(0, &[(9000, 1), (9001, 1)]).is_some());
    }

    #[test]
    fn nothing_is_lost_between_cpus() {
        let groups = Groups::new();
        let tags: Vec<Tag> = (2..6).map(|id| groups.enter(0, &[(id, 40), TOP]).unwrap()).collect();
        thread::scope(|s| {
            for &tag in &tags {
                let groups = &groups;
                s.spawn(move || {
                    let mut held = 0;
                    for round in 0..5000 {
                        if round % 3 != 2 {
                            held += u64::from(groups.charge(tag, 1).is_ok());
                        } else if held > 0 {
                            groups.uncharge(tag, 1);
                            held -= 1;
                        }
                        assert!(held <= 40);
                    }
                    groups.uncharge(tag, held);
                });
            }
        });
        assert_eq!(groups.usage(groups.enter(0, &[TOP]).unwrap()), [0, 100]);
    }

    proptest! {
        /// Whatever is charged and given back: each group has the sum of what is charged to it and
        /// below.
        #[test]
        fn sums_are_those_of_the_pages(steps in prop::collection::vec((0_usize..4, 1_u64..30, any::<bool>()), 1..60)) {
            let groups = Groups::new();
            let chains: [&[(u64, u64)]; 4] = [&[(1, 100)], &[(2, 50), (1, 100)], &[(3, 20), (2, 50), (1, 100)], &[(4, 70)]];
            let tags = chains.map(|chain| groups.enter(0, chain).unwrap());
            let mut held: Vec<(usize, u64)> = Vec::new();
            for (which, pages, gives) in steps {
                if gives && !held.is_empty() {
                    let (which, pages) = held.swap_remove(which % held.len());
                    groups.uncharge(tags[which], pages);
                } else {
                    let sum = |top: u64| held.iter().filter(|(w, _)| chains[*w].iter().any(|g| g.0 == top)).map(|h| h.1).sum::<u64>();
                    let fits = chains[which].iter().all(|&(id, limit)| sum(id) + pages <= limit);
                    prop_assert_eq!(groups.charge(tags[which], pages).is_ok(), fits);
                    if fits {
                        held.push((which, pages));
                    }
                }
            }
            for (which, pages) in held {
                groups.uncharge(tags[which], pages);
            }
            prop_assert!(tags.iter().all(|&tag| groups.usage(tag)[0] == 0));
        }
    }
}
