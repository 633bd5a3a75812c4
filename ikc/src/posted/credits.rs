//! The list of free credits: a stack of indices, for any number of threads.

use super::{NO_TAG, Slots};
use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL};

/// A list of credits. Its top is a tag, which every change counts up, and an index plus one; zero:
/// empty. Each link is such an index as well.
#[derive(Clone, Copy, Debug)]
pub struct Credits<'a, const MUTANT: u8 = REAL> {
    top: &'a AtomicU64,
    links: Slots<'a, AtomicU32>,
}

impl<'a, const MUTANT: u8> Credits<'a, MUTANT> {
    /// The list made of these words.
    #[must_use]
    #[inline(always)]
    pub const fn new(top: &'a AtomicU64, links: Slots<'a, AtomicU32>) -> Self {
        Self { top, links }
    }

    #[inline(always)]
    const fn next(top: u64, entry: u32) -> u64 {
        let tag = if MUTANT == NO_TAG { 0 } else { (top >> 32).wrapping_add(1) };
        tag << 32 | entry as u64
    }

    /// Gives a credit back. With a full fence behind it on x86-64.
    #[inline(always)]
    pub fn give(&self, index: u16) {
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            self.links.at(index.into()).store(top as u32, Ordering::Relaxed);
            let next = Self::next(top, u32::from(index) + 1);
            match self.top.compare_exchange(top, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    /// Takes a credit.
    #[must_use]
    #[inline(always)]
    pub fn take(&self) -> Option<u16> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let index = (top as u32).checked_sub(1)? as u16;
            let link = self.links.at(index.into()).load(Ordering::Relaxed);
            let next = Self::next(top, link);
            match self.top.compare_exchange(top, next, Ordering::AcqRel, Ordering::Acquire) {
                // A forged index leads to some credit.
                Ok(_) => return Some((u64::from(index) & (self.links.len() - 1)) as u16),
                Err(other) => top = other,
            }
        }
    }

    /// The only taker, which never uses [`Credits::take`]: takes all, and calls `f` with each.
    pub fn take_all(&self, mut f: impl FnMut(u16)) {
        if self.top.load(Ordering::Relaxed) as u32 == 0 {
            return;
        }
        let mut next = self.top.swap(0, Ordering::AcqRel) as u32;
        for _ in 0..self.links.len() {
            let Some(index) = next.checked_sub(1) else { return };
            let index = u64::from(index) & (self.links.len() - 1);
            next = self.links.at(index).load(Ordering::Relaxed);
            f(index as u16);
        }
    }
}
