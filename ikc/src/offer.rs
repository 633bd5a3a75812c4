//! Offers of pages (`docs/coherence.md`, *Offers*): a sequence lock with several writers.

use hanare_abi::frame::GivenPage;
use hanare_abi::offer::OFFER_PAGES;
#[cfg(not(loom))]
use hanare_abi::offer::Offer;

use crate::same_layout;
use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, fence, in_c, publish};

/// Loom has room for few atomics.
const PAGES: usize = if cfg!(loom) { 2 } else { OFFER_PAGES };

/// [`Offer`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(256)))]
#[derive(Debug)]
pub struct OfferWords {
    sequence: AtomicU32,
    space: AtomicU32,
    start: AtomicU64,
    count: AtomicU32,
    #[cfg(not(loom))]
    reserved0: u32,
    pages: [AtomicU64; PAGES],
    #[cfg(not(loom))]
    reserved1: u64,
}

same_layout!(OfferWords, Offer: sequence, space, start, count, pages);

/// An offer in shared memory. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct OfferRef<'a, const MUTANT: u8 = REAL> {
    words: &'a OfferWords,
}

impl<'a> OfferRef<'a> {
    /// The offer at `offer`.
    ///
    /// # Safety
    /// `offer` points to an aligned [`Offer`] that stays mapped, readable and writable for `'a`,
    /// and that is accessed only through this crate (or by the module, which reads).
    #[must_use]
    #[cfg(not(loom))]
    pub const unsafe fn from_raw(offer: *mut Offer) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which others may change;
        // the caller vouches for the memory.
        let words = unsafe { &*offer.cast::<OfferWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> OfferRef<'a, MUTANT> {
    /// The offer made of these words.
    #[must_use]
    pub const fn new(words: &'a OfferWords) -> Self {
        Self { words }
    }

    /// LWK, with the lock of the address space of `space`: offers the pages from `start` on.
    /// `false`: another space is just writing here.
    #[must_use]
    pub fn publish(&self, space: u32, start: u64, pages: &[GivenPage]) -> bool {
        let Some(sequence) = self.try_begin() else { return false };
        let words = self.words;
        words.space.store(space, Ordering::Relaxed);
        words.start.store(start, Ordering::Relaxed);
        words.count.store(pages.len().min(PAGES) as u32, Ordering::Relaxed);
        for (word, &page) in words.pages.iter().zip(pages) {
            word.store(page.word(), Ordering::Relaxed);
        }
        self.end(sequence);
        true
    }

    /// LWK, with that lock: `space` offers nothing any more.
    ///
    /// Where another space is just writing here the caller spins, and serves no TLB shootdown
    /// meanwhile, though CPUs may wait for it to. That ends, whatever waits for what: the other one
    /// is between [`try_begin`](Self::try_begin) and [`end`](Self::end), some forty stores of a CPU
    /// whose interrupts are off, and takes no lock there, waits for no CPU and sends no shootdown.
    /// So a CPU that shoots waits for this one, this one for the writer, and the writer for none;
    /// the locks that both hold, of two address spaces, are wanted by neither. A third one cannot
    /// keep it here for ever: it would have to publish again and again between two looks, and its
    /// space's lock is taken, for each call that has something to offer, once.
    pub fn withdraw(&self, space: u32) {
        // Only the holder of the lock offers for the space.
        if self.words.space.load(Ordering::Relaxed) != space {
            return;
        }
        let sequence = loop {
            match self.try_begin() {
                Some(sequence) => break sequence,
                None => crate::sync::spin(),
            }
        };
        if self.words.space.load(Ordering::Relaxed) == space {
            self.words.space.store(0, Ordering::Relaxed);
        }
        self.end(sequence);
    }

    fn try_begin(&self) -> Option<u32> {
        let sequence = self.words.sequence.load(Ordering::Relaxed);
        let next = sequence.wrapping_add(1);
        let is_mine = sequence & 1 == 0
            && self
                .words
                .sequence
                .compare_exchange(sequence, next, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // A reader that sees one of the words that follow sees that they are being written.
        fence(Ordering::Release);
        is_mine.then_some(next)
    }

    fn end(&self, sequence: u32) {
        self.words.sequence.store(sequence.wrapping_add(1), publish::<MUTANT>());
    }

    /// Module: the entry for `address` of `space`, if it is offered. In C: `hanare_offer_begin`,
    /// `_index`, `_end`.
    #[must_use]
    pub fn page(&self, space: u32, address: u64) -> Option<u64> {
        let words = self.words;
        in_c!(MUTANT, module => {
            let sequence = module.offer_begin(&words.sequence, &words.space, space)?;
            let start = words.start.load(Ordering::Relaxed);
            let count = words.count.load(Ordering::Relaxed).min(PAGES as u32);
            let at = usize::try_from(module.offer_index(start, count, address)).ok()?;
            let page = words.pages[..count as usize].get(at)?.load(Ordering::Relaxed);
            module.offer_end(&words.sequence, sequence).then_some(page)
        });
        let sequence = words.sequence.load(Ordering::Acquire);
        if sequence & 1 != 0 || words.space.load(Ordering::Relaxed) != space {
            return None;
        }
        let start = words.start.load(Ordering::Relaxed);
        let count = words.count.load(Ordering::Relaxed) as usize;
        let at = usize::try_from(address.checked_sub(start)? / hanare_abi::PAGE_SIZE).ok()?;
        let page = words.pages[..count.min(PAGES)].get(at)?.load(Ordering::Relaxed);
        if MUTANT != 1 {
            fence(Ordering::Acquire);
        }
        (words.sequence.load(Ordering::Relaxed) == sequence).then_some(page)
    }
}

#[cfg(any(test, loom))]
#[allow(clippy::new_without_default, reason = "for tests")]
impl OfferWords {
    /// Words without an offer.
    pub fn new() -> Self {
        Self {
            sequence: AtomicU32::new(0),
            space: AtomicU32::new(0),
            start: AtomicU64::new(0),
            count: AtomicU32::new(0),
            #[cfg(not(loom))]
            reserved0: 0,
            pages: core::array::from_fn(|_| AtomicU64::new(0)),
            #[cfg(not(loom))]
            reserved1: 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_found_until_it_is_withdrawn() {
        let words = OfferWords::new();
        let offer: OfferRef = OfferRef::new(&words);
        assert_eq!(offer.page(7, 0x5000), None);
        assert!(offer.publish(7, 0x4000, &[1, 2, 3].map(GivenPage::of_word)));
        assert_eq!([offer.page(7, 0x4000), offer.page(7, 0x6fff)], [Some(1), Some(3)]);
        assert_eq!(
            [offer.page(7, 0x3fff), offer.page(7, 0x7000), offer.page(8, 0x4000)],
            [None; 3]
        );
        offer.withdraw(8);
        assert_eq!(offer.page(7, 0x5000), Some(2));
        offer.withdraw(7);
        assert_eq!(offer.page(7, 0x5000), None);
        assert!(offer.publish(7 + 64, 0, &[GivenPage::of_word(9)]) && offer.page(71, 0) == Some(9));
        offer.withdraw(7);
        assert_eq!(offer.page(71, 0), Some(9));
    }

    #[test]
    fn one_writes_at_a_time() {
        let words = OfferWords::new();
        words.sequence.store(1, Ordering::Relaxed);
        let offer: OfferRef = OfferRef::new(&words);
        assert!(!offer.publish(1, 0, &[GivenPage::of_word(1)]));
        assert_eq!(offer.page(0, 0), None);
        offer.withdraw(1); // it has none, so it does not wait
    }
}
