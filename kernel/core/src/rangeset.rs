//! Sets of pages, as ranges.

use crate::errno::Result;
use crate::lists;
use crate::pagerange::PageRange;
use alloc::vec::Vec;

/// Set of pages. It grows by ranges, and never shrinks.
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

    /// Adds pages.
    ///
    /// # Errors
    /// `ENOMEM`: nothing was added.
    pub fn add(&mut self, range: PageRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        lists::more_room(&mut self.ranges, 1)?;
        let near = self.near(range);
        let joined = self.ranges[near.clone()].iter().fold(range, |all, r| all.join(*r));
        self.ranges.splice(near, [joined]);
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
            added in proptest::collection::vec(some(), 0..12),
            asked in proptest::collection::vec(some(), 8),
        ) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for range in added {
                set.add(range).unwrap();
                model.extend(range.iter());
                for ranges in set.ranges.windows(2) {
                    prop_assert!(ranges[0].end() < ranges[1].start());
                }
            }
            let pages: Vec<u64> = set.ranges.iter().flat_map(|r| r.iter()).collect();
            prop_assert!(pages.iter().eq(model.iter()));
            for range in asked {
                let pages: BTreeSet<u64> = range.iter().collect();
                prop_assert_eq!(set.covers(range), pages.is_subset(&model));
                prop_assert_eq!(set.meets(range), !pages.is_disjoint(&model));
            }
        }
    }
}
