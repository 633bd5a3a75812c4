//! Sets of pages, as ranges.

use crate::errno::Result;
use crate::lists;
use crate::pagerange::PageRange;
use alloc::vec::Vec;

/// Set of pages.
#[derive(Debug, Default)]
pub struct RangeSet {
    /// Neither empty nor next to each other, in their order.
    ranges: Vec<PageRange>,
}

impl RangeSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> RangeSet {
        RangeSet { ranges: Vec::new() }
    }

    /// Ranges that overlap `range` or lie next to it: from the first to behind the last.
    fn near(&self, range: PageRange) -> core::ops::Range<usize> {
        let first = self.ranges.partition_point(|r| r.end() < range.start());
        let count = self.ranges[first..].iter().take_while(|r| r.start() <= range.end()).count();
        first..first + count
    }

    /// Whether one of these pages is in the set.
    #[must_use]
    pub fn meets(&self, range: PageRange) -> bool {
        self.ranges[self.near(range)].iter().any(|r| r.meets(range))
    }

    /// Whether all of these pages are.
    #[must_use]
    pub fn covers(&self, range: PageRange) -> bool {
        range.is_empty() || self.ranges[self.near(range)].iter().any(|r| r.covers(range))
    }

    /// The pages of `range` that are in the set, up to the first one behind these that is not.
    #[must_use]
    pub fn first_in(&self, range: PageRange) -> Option<PageRange> {
        self.ranges[self.near(range)].iter().find_map(|r| r.intersect(range))
    }

    /// The pages of `range` that are not in the set, up to the first one behind these that is.
    #[must_use]
    pub fn first_gap_in(&self, range: PageRange) -> Option<PageRange> {
        let mut start = range.start();
        for there in &self.ranges[self.near(range)] {
            if start < there.start() {
                return PageRange::of(start, there.start()).intersect(range);
            }
            start = start.max(there.end());
        }
        (start < range.end()).then(|| PageRange::of(start, range.end()))
    }

    /// Adds pages.
    ///
    /// # Errors
    /// `ENOMEM`: nothing was added.
    pub fn add(&mut self, range: PageRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let near = self.near(range);
        let joined = self.ranges[near.clone()].iter().fold(range, |all, r| all.join(*r));
        self.replace(near, &[joined])
    }

    /// Takes pages out of the set.
    ///
    /// # Errors
    /// `ENOMEM`: they are in the set as before.
    pub fn remove(&mut self, range: PageRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let near = self.near(range);
        let Some((first, last)) =
            self.ranges[near.clone()].first().zip(self.ranges[near.clone()].last())
        else {
            return Ok(());
        };
        let below = (first.start() < range.start())
            .then(|| PageRange::of(first.start(), first.end().min(range.start())));
        let above = (last.end() > range.end())
            .then(|| PageRange::of(last.start().max(range.end()), last.end()));
        match (below, above) {
            (Some(below), Some(above)) => self.replace(near, &[below, above]),
            (Some(one), None) | (None, Some(one)) => self.replace(near, &[one]),
            (None, None) => self.replace(near, &[]),
        }
    }

    /// Puts `new` in the place of ranges that are there.
    fn replace(&mut self, old: core::ops::Range<usize>, new: &[PageRange]) -> Result<()> {
        lists::more_room(&mut self.ranges, new.len().saturating_sub(old.len()))?;
        let kept = old.len().min(new.len());
        self.ranges[old.start..old.start + kept].copy_from_slice(&new[..kept]);
        self.ranges.drain(old.start + kept..old.end);
        lists::extend_within(&mut self.ranges, &new[kept..]);
        self.ranges[old.start + kept..].rotate_right(new.len() - kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_abi::PAGE_SIZE;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn some() -> impl Strategy<Value = PageRange> {
        (0..24u64, 0..6u64).prop_map(|(start, pages)| {
            PageRange::of(start * PAGE_SIZE, (start + pages) * PAGE_SIZE)
        })
    }

    proptest! {
        /// Model: the set of the pages' addresses.
        #[test]
        fn range_sets_are_sets_of_pages(
            changes in proptest::collection::vec((some(), any::<bool>()), 0..16),
            asked in proptest::collection::vec(some(), 8),
        ) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for (range, is_added) in changes {
                if is_added {
                    set.add(range).unwrap();
                    model.extend(range.iter());
                } else {
                    set.remove(range).unwrap();
                    model.retain(|page| !range.contains(*page));
                }
                for ranges in set.ranges.windows(2) {
                    prop_assert!(ranges[0].end() < ranges[1].start());
                }
                prop_assert!(!set.ranges.iter().any(|range| range.is_empty()));
            }
            let pages: Vec<u64> = set.ranges.iter().flat_map(|r| r.iter()).collect();
            prop_assert!(pages.iter().eq(model.iter()));
            for range in asked {
                let pages: BTreeSet<u64> = range.iter().collect();
                prop_assert_eq!(set.covers(range), pages.is_subset(&model));
                prop_assert_eq!(set.meets(range), !pages.is_disjoint(&model));
                let mut there = pages.intersection(&model).copied().peekable();
                let first = there.peek().copied();
                let expected = first.map(|first| {
                    let count = there.zip((first..).step_by(PAGE_SIZE as usize)).take_while(|(a, b)| a == b).count();
                    PageRange::of(first, first + count as u64 * PAGE_SIZE)
                });
                prop_assert_eq!(set.first_in(range), expected);
                let first = range.iter().find(|page| !model.contains(page));
                let gap = first.map(|first| {
                    let rest = PageRange::of(first, range.end());
                    let end = rest.iter().find(|page| model.contains(page));
                    PageRange::of(first, end.unwrap_or(range.end()))
                });
                prop_assert_eq!(set.first_gap_in(range), gap);
            }
        }
    }
}
