//! Ranges of whole pages.

use crate::addr::{PAGE_SIZE, is_page_aligned, page_down, page_up};
use core::fmt;
use core::ops::Range;
use hanare_abi::layout::USER_MAX;

/// Addresses `start()..end()` of whole pages; perhaps none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PageRange {
    start: u64,
    end: u64,
}

impl PageRange {
    /// A range without pages.
    pub const NONE: PageRange = PageRange { start: 0, end: 0 };

    /// All pages but the last one, which has no end.
    pub const ALL: PageRange = PageRange { start: 0, end: page_down(u64::MAX) };

    /// Range between two addresses. `None`: one of them is within a page, or the end is below the
    /// start.
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Option<PageRange> {
        if is_page_aligned(start) && is_page_aligned(end) && start <= end {
            Some(PageRange { start, end })
        } else {
            None
        }
    }

    /// Range between two addresses of the kernel's own, as the edges of a mapping. An LWK with
    /// assertions checks them.
    #[must_use]
    #[inline(always)] // two words that the caller has
    pub const fn of(start: u64, end: u64) -> PageRange {
        debug_assert!(is_page_aligned(start) && is_page_aligned(end) && start <= end);
        PageRange { start, end }
    }

    /// Range between two addresses, without the pages behind `USER_MAX`, where no program has any.
    #[must_use]
    pub const fn of_user(start: u64, end: u64) -> PageRange {
        let start = if start < USER_MAX { start } else { USER_MAX };
        let end = if end < USER_MAX { end } else { USER_MAX };
        PageRange::of(start, end)
    }

    /// Page in which an address lies.
    #[must_use]
    pub const fn page(addr: u64) -> PageRange {
        let start = page_down(addr);
        PageRange { start, end: start + PAGE_SIZE }
    }

    /// Pages in which the bytes `start..end` lie. `None`: the end is below the start, or in the
    /// last page of all addresses.
    #[must_use]
    pub const fn around(start: u64, end: u64) -> Option<PageRange> {
        PageRange::new(
            page_down(start),
            if end > page_up(end) { return None } else { page_up(end) },
        )
    }

    /// First address.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Address behind the last one.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// The addresses, for a page table.
    #[must_use]
    pub const fn addresses(self) -> Range<u64> {
        self.start..self.end
    }

    /// Bytes of the range.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Pages of 4 KiB.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.len() / PAGE_SIZE
    }

    /// Whether there is no page in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether an address lies in it.
    #[must_use]
    pub const fn contains(self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// Whether all pages of another range are in it.
    #[must_use]
    pub const fn covers(self, other: PageRange) -> bool {
        other.is_empty() || self.start <= other.start && other.end <= self.end
    }

    /// Pages that are in both.
    #[must_use]
    pub const fn intersect(self, other: PageRange) -> Option<PageRange> {
        let start = if self.start > other.start { self.start } else { other.start };
        let end = if self.end < other.end { self.end } else { other.end };
        if start < end { Some(PageRange { start, end }) } else { None }
    }

    /// Whether a page is in both.
    #[must_use]
    pub const fn meets(self, other: PageRange) -> bool {
        self.intersect(other).is_some()
    }

    /// Smallest range that has the pages of both.
    #[must_use]
    pub const fn join(self, other: PageRange) -> PageRange {
        let start = if self.start < other.start { self.start } else { other.start };
        let end = if self.end > other.end { self.end } else { other.end };
        PageRange { start, end }
    }

    /// Addresses of the pages of 4 KiB, upwards.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u64> {
        (0..self.pages()).map(move |page| self.start + page * PAGE_SIZE)
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    const P: u64 = PAGE_SIZE;

    #[test]
    fn page_ranges_have_whole_pages_only() {
        assert_eq!(PageRange::new(P, 3 * P).map(PageRange::pages), Some(2));
        assert!(PageRange::new(P, P).is_some_and(PageRange::is_empty));
        for (start, end) in [(P + 1, 2 * P), (P, 2 * P - 1), (2 * P, P)] {
            assert_eq!(PageRange::new(start, end), None);
        }
        assert_eq!(PageRange::page(5 * P + 7), PageRange::of(5 * P, 6 * P));
        assert_eq!(PageRange::around(P + 7, 2 * P + 1), PageRange::new(P, 3 * P));
        assert_eq!(PageRange::around(P, u64::MAX), None);
        assert_eq!(PageRange::around(3 * P, P), None);
        assert_eq!(PageRange::of_user(P, u64::MAX), PageRange::of(P, USER_MAX));
        assert!(PageRange::of_user(USER_MAX + P, u64::MAX).is_empty());
    }

    fn some() -> impl Strategy<Value = PageRange> {
        (0..12u64, 0..6u64).prop_map(|(start, pages)| PageRange::of(start * P, (start + pages) * P))
    }

    fn set(range: PageRange) -> BTreeSet<u64> {
        range.iter().collect()
    }

    proptest! {
        /// Model: the set of the pages' addresses.
        #[test]
        fn page_ranges_are_sets_of_pages(a in some(), b in some(), addr in 0..20 * P) {
            let (pages, others) = (set(a), set(b));
            prop_assert_eq!(pages.len() as u64, a.pages());
            prop_assert_eq!(a.len(), a.pages() * P);
            prop_assert_eq!(a.is_empty(), pages.is_empty());
            prop_assert_eq!(a.contains(addr), pages.contains(&page_down(addr)));
            prop_assert_eq!(a.covers(b), others.is_subset(&pages));
            let both: BTreeSet<u64> = &pages & &others;
            prop_assert_eq!(a.meets(b), !both.is_empty());
            prop_assert_eq!(a.intersect(b).map(set).unwrap_or_default(), both);
            prop_assert!(a.join(b).covers(a) && a.join(b).covers(b));
            prop_assert!(a.iter().rev().eq(pages.iter().rev().copied().collect::<Vec<_>>()));
        }
    }
}
