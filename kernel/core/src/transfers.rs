//! Transfers under way between a device and memory of a program: ranges whose pages stay where they
//! are meanwhile.

use crate::errno::{EBUSY, Result};
use crate::lists;
use crate::pagerange::PageRange;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

/// Transfers that are refused for the sake of a thread that waits, at most: it may be gone.
const REFUSED_MAX: u32 = 64;

/// Ranges of an address space, each as often as it is transferred.
#[derive(Debug, Default)]
pub struct Transfers {
    ranges: Vec<PageRange>,
    /// A thread waits for the end of some.
    is_awaited: AtomicBool,
    /// How many have been refused since.
    refused: u32,
}

impl Transfers {
    /// No transfer.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new(), is_awaited: AtomicBool::new(false), refused: 0 }
    }

    /// Begins one.
    ///
    /// # Errors
    /// `EBUSY`: a thread waits for the end of others, which has to come. `ENOMEM`.
    pub fn begin(&mut self, range: PageRange) -> Result<()> {
        if self.is_awaited.load(Ordering::Relaxed) && self.refused < REFUSED_MAX {
            self.refused += 1;
            return Err(EBUSY);
        }
        self.is_awaited.store(false, Ordering::Relaxed);
        self.refused = 0;
        lists::push(&mut self.ranges, range)
    }

    /// Ends one that has begun. Whether a thread waits for that.
    pub fn end(&mut self, range: PageRange) -> bool {
        if let Some(index) = self.ranges.iter().position(|&begun| begun == range) {
            self.ranges.swap_remove(index);
        }
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Whether a thread has to wait which is about to take pages of a range away. Then it is told
    /// of each end, and few transfers are begun until it need not wait.
    #[must_use]
    pub fn must_wait(&self, range: PageRange) -> bool {
        let is_busy = self.ranges.iter().any(|begun| begun.meets(range));
        if is_busy || self.is_awaited.load(Ordering::Relaxed) {
            self.is_awaited.store(is_busy, Ordering::Relaxed);
        }
        is_busy
    }
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
        assert_eq!(refused, 64);
    }
}
