//! Transfers under way between a device and memory of a program: ranges whose pages stay where they
//! are meanwhile.

use crate::addr::PAGE_SIZE;
use crate::errno::{EBUSY, Result};
use crate::lists;
use crate::pagerange::PageRange;
use alloc::vec::Vec;
use core::cell::Cell;

/// Transfers that are to be begun while threads wait, at most: these may be gone, or have what they
/// waited for.
const WAITS_MAX: u32 = 256;

/// Memory of a transfer of a page, or of two, and which device it is for: the address of the first
/// page, and three numbers in the bits below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(u64);

/// Devices that there may be.
const DEVICES: u32 = 1 << 10;

impl Wanted {
    /// These pages, for the device with a number. `is_written`: it writes to them.
    ///
    /// # Panics
    /// If these are not one page or two, or there is no such device.
    #[must_use]
    #[inline(always)]
    pub const fn new(pages: PageRange, is_written: bool, device: u32) -> Self {
        let more = pages.pages() - 1;
        assert!(more < 2 && device < DEVICES, "a page or two, of a device");
        Self(pages.start() | more | (is_written as u64) << 1 | (device as u64) << 2)
    }
}

/// Addresses that a device has for the pages of such a transfer; 0: there is no second one.
pub type Addresses = [u64; 2];

/// Memory whose pages were looked for.
#[derive(Clone, Copy, Debug)]
struct Seen {
    wanted: Wanted,
    addresses: Addresses,
    /// How many changes there had been.
    changes: u64,
}

/// Places for memory that was looked for, by its first page.
const SEEN: usize = 16;

/// Ranges of an address space, each as often as it is transferred.
#[derive(Debug, Default)]
pub struct Transfers {
    ranges: Vec<PageRange>,
    /// Memory that was looked for: no places, or all.
    seen: Vec<Seen>,
    /// How often somebody could have changed the space.
    changes: u64,
    /// Threads wait for the end of those of this range.
    awaited: Cell<Option<PageRange>>,
    /// How many were to be begun since the first of them waits.
    begun_since: Cell<u32>,
}

impl Transfers {
    /// No transfer.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ranges: Vec::new(),
            seen: Vec::new(),
            changes: 0,
            awaited: Cell::new(None),
            begun_since: Cell::new(0),
        }
    }

    /// Begins one.
    ///
    /// # Errors
    /// `EBUSY`: a thread waits for the end of others, which has to come. `ENOMEM`.
    pub fn begin(&mut self, range: PageRange) -> Result<()> {
        if let Some(awaited) = self.awaited.get() {
            self.begun_since.set(self.begun_since.get() + 1);
            if self.begun_since.get() > WAITS_MAX {
                self.awaited.set(None);
            } else if awaited.meets(range) {
                return Err(EBUSY);
            }
        }
        lists::push(&mut self.ranges, range)
    }

    /// Somebody may change the space from now on: what was seen of its pages does not hold any
    /// more.
    #[inline(always)]
    pub const fn changing(&mut self) {
        self.changes += 1;
    }

    /// Remembers what was found where a transfer has begun, until somebody may change the space.
    pub fn remember(&mut self, wanted: Wanted, addresses: Addresses) {
        let seen = Seen { wanted, addresses, changes: self.changes };
        if self.seen.is_empty() {
            if lists::more_room(&mut self.seen, SEEN).is_err() {
                return; // it is looked for again
            }
            lists::resize_within(&mut self.seen, SEEN, seen);
        }
        self.seen[place(wanted)] = seen;
    }

    /// Begins a transfer of memory that is remembered, which is these pages. `None`: it is not, or
    /// somebody waits.
    #[inline(always)]
    pub fn begin_again(&mut self, wanted: Wanted, pages: PageRange) -> Option<Addresses> {
        let seen = self.seen.get(place(wanted))?;
        let holds = seen.changes == self.changes && seen.wanted == wanted;
        if !holds || self.awaited.get().is_some() {
            return None;
        }
        let addresses = seen.addresses;
        if self.ranges.len() == self.ranges.capacity() {
            return None; // as it is when others are under way: there is to be more room
        }
        lists::push_within(&mut self.ranges, pages);
        Some(addresses)
    }

    /// Ends one that has begun. Whether a thread waits for that.
    #[inline(always)]
    pub fn end(&mut self, range: PageRange) -> bool {
        if self.ranges.last() == Some(&range) {
            self.ranges.pop();
        } else if let Some(index) = self.ranges.iter().position(|&begun| begun == range) {
            self.ranges.swap_remove(index);
        }
        self.awaited.get().is_some_and(|awaited| awaited.meets(range))
    }

    /// Whether there is one of some pages of a range.
    #[must_use]
    pub fn meet(&self, range: PageRange) -> bool {
        self.ranges.iter().any(|begun| begun.meets(range))
    }

    /// Whether a thread has to wait which is about to take pages of a range away. Then it is told
    /// of each end, and few transfers of them are begun until it need not wait.
    #[must_use]
    pub fn must_wait(&self, range: PageRange) -> bool {
        let (is_busy, awaited) = (self.meet(range), self.awaited.get());
        if is_busy {
            if awaited.is_none() {
                self.begun_since.set(0);
            }
            self.awaited.set(Some(awaited.map_or(range, |awaited| awaited.join(range))));
        } else if awaited.is_some_and(|awaited| range.covers(awaited)) {
            self.awaited.set(None);
        }
        is_busy
    }
}

/// The place for memory that was looked for.
const fn place(wanted: Wanted) -> usize {
    (wanted.0 / PAGE_SIZE) as usize % SEEN
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn pages(first: u64, last: u64) -> PageRange {
        PageRange::of(first << 12, last << 12)
    }

    #[test]
    fn pages_stay_until_the_last_transfer_ends() {
        let mut transfers = Transfers::new();
        transfers.begin(pages(2, 4)).unwrap();
        transfers.begin(pages(2, 4)).unwrap();
        transfers.begin(pages(3, 8)).unwrap();
        assert!(!transfers.must_wait(pages(0, 2)) && !transfers.must_wait(pages(8, 9)));
        assert!(!transfers.end(pages(3, 8)));
        assert!(transfers.must_wait(pages(3, 4)));
        assert!(transfers.end(pages(2, 4)));
        assert!(transfers.must_wait(pages(3, 4)) && !transfers.must_wait(pages(4, 5)));
        assert!(transfers.must_wait(pages(0, 9)));
        assert!(transfers.end(pages(2, 4)));
        assert!(!transfers.must_wait(pages(0, 9)));
    }

    #[test]
    fn who_waits_for_other_pages_takes_no_turn() {
        let mut transfers = Transfers::new();
        transfers.begin(pages(2, 4)).unwrap();
        assert!(transfers.must_wait(pages(3, 5)));
        assert!(!transfers.must_wait(pages(8, 9)) && !transfers.must_wait(pages(4, 5)));
        assert_eq!(transfers.begin(pages(2, 4)), Err(EBUSY));
        transfers.begin(pages(6, 7)).unwrap();
        assert!(!transfers.end(pages(6, 7)) && transfers.end(pages(2, 4)));
        assert_eq!(transfers.begin(pages(4, 5)), Err(EBUSY));
        assert!(!transfers.must_wait(pages(3, 5)));
        transfers.begin(pages(2, 4)).unwrap();
    }

    #[test]
    fn where_others_were_meanwhile_is_not_kept_for_long() {
        let mut transfers = Transfers::new();
        let (one, other) = (pages(2, 3), pages(90, 91));
        for range in [one, other] {
            transfers.begin(range).unwrap();
            assert!(transfers.must_wait(range));
            transfers.end(range);
        }
        // Neither covers what both have waited for.
        assert!(!transfers.must_wait(one) && !transfers.must_wait(other));
        let count = (0..).take_while(|_| {
            transfers.begin(pages(200, 201)).unwrap();
            transfers.end(pages(200, 201));
            transfers.begin(pages(50, 51)).is_err()
        });
        assert!(count.count() <= WAITS_MAX as usize / 2);
    }

    #[test]
    fn who_waits_is_let_in() {
        let mut transfers = Transfers::new();
        transfers.begin(pages(2, 4)).unwrap();
        assert!(transfers.must_wait(pages(0, 9)));
        assert_eq!(transfers.begin(pages(2, 4)), Err(EBUSY));
        transfers.end(pages(2, 4));
        assert_eq!(transfers.begin(pages(2, 4)), Err(EBUSY));
        assert!(!transfers.must_wait(pages(0, 9)));
        transfers.begin(pages(2, 4)).unwrap();
        // One that is gone holds nobody up for long.
        assert!(transfers.must_wait(pages(0, 9)));
        let refused = (0..).take_while(|_| transfers.begin(pages(5, 6)).is_err()).count();
        assert_eq!(refused, WAITS_MAX as usize);
    }

    #[test]
    fn what_was_seen_holds_until_somebody_may_change_it() {
        let mut transfers = Transfers::new();
        let one = pages(2, 3);
        let (read, write) = (Wanted::new(one, true, 0), Wanted::new(one, false, 0));
        assert_eq!(transfers.begin_again(read, one), None);
        transfers.begin(one).unwrap();
        transfers.remember(read, [7, 0]);
        transfers.end(one);
        for other in [write, Wanted::new(one, true, 1), Wanted::new(pages(2, 4), true, 0)] {
            assert_eq!(transfers.begin_again(other, one), None);
        }
        assert_eq!(transfers.begin_again(read, one), Some([7, 0]));
        // It is a transfer as any other.
        assert!(transfers.must_wait(one));
        assert_eq!(transfers.begin_again(read, one), None);
        assert!(transfers.end(one));
        assert!(!transfers.must_wait(one));
        assert_eq!(transfers.begin_again(read, one), Some([7, 0]));
        transfers.end(one);
        transfers.changing();
        assert_eq!(transfers.begin_again(read, one), None);
        transfers.remember(read, [8, 0]);
        assert_eq!(transfers.begin_again(read, one), Some([8, 0]));
        // Another one at the same place.
        let far = pages(2 + SEEN as u64, 3 + SEEN as u64);
        transfers.remember(Wanted::new(far, true, 0), [9, 0]);
        assert_eq!(transfers.begin_again(read, one), None);
    }

    #[test]
    fn there_is_always_room_for_as_many_as_are_under_way() {
        let mut transfers = Transfers::new();
        let one = pages(2, 3);
        let read = Wanted::new(one, true, 0);
        transfers.begin(one).unwrap();
        transfers.remember(read, [7, 0]);
        let mut count = 1;
        while transfers.begin_again(read, one).is_some() {
            count += 1;
        }
        transfers.begin(one).unwrap(); // makes more
        assert_eq!(transfers.begin_again(read, one), Some([7, 0]));
        for _ in 0..count + 2 {
            assert!(transfers.must_wait(one));
            transfers.end(one);
        }
        assert!(!transfers.must_wait(one));
    }
}
