//! The resident set of an address space, counted exactly: as many pages as the page table has.

/// How a leaf of a page table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// There is none.
    Not,
    /// A page of the space's own, which its user is charged for.
    Own,
    /// A page that belongs to Linux, to the kernel, or to none, since its memory was bad.
    Foreign,
}

/// Pages of 4 KiB, as the page table has them now, and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    own: u64,
    foreign: u64,
    peak: u64,
}

impl Rss {
    /// Pages of the space's own.
    #[must_use]
    pub const fn own(&self) -> u64 {
        self.own
    }

    /// Pages that are not the space's own.
    #[must_use]
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }

    /// All pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.own + self.foreign
    }

    /// The most pages that there were at once.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        self.peak
    }

    /// Forgets the peak.
    pub const fn reset_peak(&mut self) {
        self.peak = self.pages();
    }

    /// Counts what has changed. The peak is that after the change.
    pub fn apply(&mut self, delta: RssDelta) {
        let add = |count: &mut u64, change: i64| *count = count.wrapping_add_signed(change);
        add(&mut self.own, delta.own);
        add(&mut self.foreign, delta.foreign);
        self.peak = self.peak.max(self.pages());
    }
}

/// The change of a resident set by one change of the page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssDelta {
    own: i64,
    foreign: i64,
}

impl RssDelta {
    /// So many pages more of this kind.
    #[must_use]
    pub fn of(pages: u64, kind: Counted) -> RssDelta {
        let mut delta = RssDelta::default();
        delta.replace(pages, Counted::Not, kind);
        delta
    }

    /// A leaf of so many pages is replaced by another one, or by none.
    #[inline(always)] // for each leaf of a range that goes
    pub fn replace(&mut self, pages: u64, before: Counted, after: Counted) {
        self.add(before, -(pages as i64));
        self.add(after, pages as i64);
    }

    #[inline(always)]
    fn add(&mut self, kind: Counted, pages: i64) {
        match kind {
            Counted::Not => {}
            Counted::Own => self.own += pages,
            Counted::Foreign => self.foreign += pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = Counted> {
        prop_oneof![Just(Counted::Not), Just(Counted::Own), Just(Counted::Foreign)]
    }

    proptest! {
        /// Changes of some leaves, several of them in each change, are counted as the leaves are.
        #[test]
        fn counts_are_those_of_the_table(
            changes in prop::collection::vec(prop::collection::vec((0..8usize, kinds()), 0..6), 0..20),
        ) {
            let sizes = [1, 1, 1, 512, 1, 512, 1, 1];
            let mut table = [Counted::Not; 8];
            let (mut rss, mut peak) = (Rss::default(), 0);
            for change in changes {
                let mut delta = RssDelta::default();
                for (at, after) in change {
                    delta.replace(sizes[at], table[at], after);
                    table[at] = after;
                }
                rss.apply(delta);
                let count = |kind| {
                    let leaves = table.iter().zip(sizes).filter(|(k, _)| **k == kind);
                    leaves.map(|(_, pages)| pages).sum::<u64>()
                };
                prop_assert_eq!(rss.own(), count(Counted::Own));
                prop_assert_eq!(rss.foreign(), count(Counted::Foreign));
                peak = peak.max(rss.pages());
                prop_assert_eq!(rss.peak(), peak);
            }
        }
    }

    #[test]
    fn a_peak_that_is_reset_is_what_is_there() {
        let mut rss = Rss::default();
        rss.apply(RssDelta::of(512, Counted::Own));
        let mut gone = RssDelta::default();
        gone.replace(512, Counted::Own, Counted::Not);
        rss.apply(gone);
        assert_eq!((rss.pages(), rss.peak()), (0, 512));
        rss.reset_peak();
        assert_eq!(rss.peak(), 0);
    }
}
