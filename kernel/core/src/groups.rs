//! Control groups: how many pages the programs of each have, and how many they may have
//! (`memory.max`; Linux' Documentation/admin-guide/cgroup-v2.rst, "Memory Ownership").
//!
//! Only groups with a limit are here. One is named by its [`Tag`], which each page that is charged
//! to it keeps: whoever shares a page or gives it back need not know who made it. A page is charged to
//! a group and all those above it. A group below other ones than before is another entry, so
//! what a page is charged to does not change until it is free.

use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::request::GROUPS_MAX as DEPTH_MAX;

/// Groups that an instance knows at a time.
pub const GROUPS_MAX: usize = 1023;

/// So many of them may be there for one user's programs but root's: nobody uses them up for others.
pub const GROUPS_PER_USER: usize = 64;

/// Index of a group, counted from 1.
pub type Tag = u16;

/// The tag of what is charged to nobody.
pub const NOBODY: Tag = 0;

/// The groups of an instance.
#[derive(Debug)]
pub struct Groups {
    entries: [Entry; GROUPS_MAX],
}

/// Alone on its cache line: CPUs that serve different groups do not meet there.
#[derive(Debug)]
#[repr(align(64))]
struct Entry {
    /// Linux' number for it; 0: not used yet.
    id: AtomicU64,
    /// Tag of the next one above that has a limit.
    above: AtomicU64,
    /// The user for whose program it came to be here.
    user: AtomicU64,
    /// Spaces in it and below.
    members: AtomicU64,
    /// Pages charged to it.
    used: AtomicU64,
    /// Pages it may have.
    limit: AtomicU64,
}

impl Entry {
    const fn new() -> Entry {
        Entry {
            id: AtomicU64::new(0),
            above: AtomicU64::new(0),
            user: AtomicU64::new(0),
            members: AtomicU64::new(0),
            used: AtomicU64::new(0),
            limit: AtomicU64::new(0),
        }
    }

    fn above(&self) -> Tag {
        self.above.load(Ordering::Relaxed) as Tag
    }

    /// Nobody is in it, and no page is left: it may become another one.
    fn is_free(&self) -> bool {
        self.members.load(Ordering::Acquire) == 0 && self.used.load(Ordering::Acquire) == 0
    }
}

impl Groups {
    /// None.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Groups {
        Groups { entries: [const { Entry::new() }; GROUPS_MAX] }
    }

    fn entry(&self, tag: Tag) -> Option<&Entry> {
        self.entries.get(usize::from(tag).checked_sub(1)?)
    }

    /// A group and those above it.
    fn chain(&self, tag: Tag) -> impl Iterator<Item = (Tag, &Entry)> {
        let mut next = tag;
        core::iter::from_fn(move || {
            let tag = next;
            let entry = self.entry(tag)?;
            next = entry.above();
            Some((tag, entry))
        })
    }

    /// A space of `user` enters the innermost of `groups`: Linux' numbers, and limits in pages, the
    /// innermost first; number 0 is none. They have these limits from now on. One caller at a time.
    /// `None`: there are too many.
    pub fn enter(&self, user: u32, groups: &[(u64, u64)]) -> Option<Tag> {
        let mut tag = NOBODY;
        for &(id, limit) in groups.iter().rev().filter(|group| group.0 != 0) {
            tag = self.find_or_make(user, id, tag)?;
            let entry = self.entry(tag)?;
            entry.limit.store(limit, Ordering::Relaxed);
        }
        for (_, entry) in self.chain(tag) {
            entry.members.fetch_add(1, Ordering::Relaxed);
        }
        Some(tag)
    }

    /// The space that [entered](Self::enter) leaves it again: it charges it no more.
    pub fn leave(&self, tag: Tag) {
        for (_, entry) in self.chain(tag) {
            entry.members.fetch_sub(1, Ordering::Release);
        }
    }

    fn find_or_make(&self, user: u32, id: u64, above: Tag) -> Option<Tag> {
        let is_it = |e: &Entry| e.id.load(Ordering::Relaxed) == id && e.above() == above;
        let at = self
            .entries
            .iter()
            .position(is_it)
            .or_else(|| self.make(u64::from(user), id, above))?;
        Some(at as Tag + 1)
    }

    fn make(&self, user: u64, id: u64, above: Tag) -> Option<usize> {
        let his = |e: &&Entry| e.user.load(Ordering::Relaxed) == user && !e.is_free();
        if user != 0 && self.entries.iter().filter(his).count() >= GROUPS_PER_USER {
            return None;
        }
        // Not one that this very call has found and not entered yet.
        let free = |(i, e): (usize, &Entry)| {
            e.is_free() && !self.chain(above).any(|(tag, _)| usize::from(tag) == i + 1)
        };
        let at = self.entries.iter().enumerate().position(free)?;
        let entry = &self.entries[at];
        entry.id.store(id, Ordering::Relaxed);
        entry.user.store(user, Ordering::Relaxed);
        entry.above.store(u64::from(above), Ordering::Relaxed);
        Some(at)
    }

    /// Charges pages to a group that the caller is in.
    ///
    /// # Errors
    /// They are beyond the limit of this group, it or one above: nothing is charged.
    pub fn charge(&self, tag: Tag, pages: u64) -> Result<(), Tag> {
        for (at, entry) in self.chain(tag) {
            let used = entry.used.fetch_add(pages, Ordering::Relaxed) + pages;
            if used > entry.limit.load(Ordering::Relaxed) {
                entry.used.fetch_sub(pages, Ordering::Release);
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
        let mut next = tag;
        while let Some(entry) = self.entry(next) {
            next = entry.above(); // before its last page is gone, and it may be another one
            entry.used.fetch_sub(pages, Ordering::Release);
        }
    }

    /// Whether a group may not have one page more.
    #[must_use]
    pub fn is_full(&self, tag: Tag) -> bool {
        let [used, limit] = self.usage(tag);
        used >= limit
    }

    /// Whether what is charged to `tag` is charged to `group`, too.
    #[must_use]
    pub fn is_within(&self, tag: Tag, group: Tag) -> bool {
        self.chain(tag).any(|(tag, _)| tag == group)
    }

    /// Pages that a group has, and may have.
    #[must_use]
    pub fn usage(&self, tag: Tag) -> [u64; 2] {
        self.entry(tag).map_or([0, u64::MAX], |e| {
            [e.used.load(Ordering::Relaxed), e.limit.load(Ordering::Relaxed)]
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
        /// Whatever is charged and given back: each group has the sum of what is charged to it and below.
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
