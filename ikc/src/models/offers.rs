//! Offers of pages: none is torn, and none is taken that was withdrawn before.

use hanare_abi::frame::GivenPage;
use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::offer::{OfferRef, OfferWords};
use crate::sync::{AtomicU32, IN_C, NO_FENCE, NO_RELEASE, Ordering, REAL};

const SPACE: u32 = 1;
const OTHER: u32 = 65;

/// A space offers a page, withdraws the offer, and changes what the page is; meanwhile the module
/// looks. `other`: another space, whose offers lie at the same place, has one, too.
fn model<const MUTANT: u8>(name: &str, other: bool, preemptions: Option<usize>) {
    explore(name, preemptions, move || {
        let shared = Arc::new((OfferWords::new(), AtomicU32::new(0)));
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, changed) = &*shared;
                let offer = OfferRef::<MUTANT>::new(words);
                let _ = offer.publish(SPACE, 0x1000, &[0xa, 0xb].map(GivenPage::of_word));
                offer.withdraw(SPACE);
                changed.store(1, Ordering::Release);
            })
        };
        let second = other.then(|| {
            let shared = shared.clone();
            thread::spawn(move || {
                let offer = OfferRef::<MUTANT>::new(&shared.0);
                let _ = offer.publish(OTHER, 0x1000, &[0xc, 0xd].map(GivenPage::of_word));
            })
        });
        let module = thread::spawn(move || {
            let (words, changed) = &*shared;
            let offer = OfferRef::<MUTANT>::new(words);
            let is_changed = changed.load(Ordering::Acquire) == 1;
            if let Some(found) = offer.page(SPACE, 0x2000) {
                assert_eq!(found, 0xb, "torn");
                assert!(!is_changed, "withdrawn");
            }
        });
        lwk.join().unwrap();
        module.join().unwrap();
        second.into_iter().for_each(|second| second.join().unwrap());
    });
}

#[test]
fn an_offer_holds_until_it_is_withdrawn() {
    model::<REAL>("offer", false, Some(4));
    model::<REAL>("offers of two spaces", true, Some(2));
    model::<IN_C>("offer in C", false, Some(4));
    model::<IN_C>("offers in C of two spaces", true, Some(2));
}

/// Two spaces whose offers lie at the same place, each with its lock, wait for each other's
/// writing: that ends.
#[test]
fn spaces_that_withdraw_at_once_both_go_on() {
    explore("offers, withdrawn at once", Some(3), || {
        let words = Arc::new(OfferWords::new());
        let spaces = [SPACE, OTHER].map(|space| {
            let words = words.clone();
            thread::spawn(move || {
                let offer = OfferRef::<REAL>::new(&words);
                let _ = offer.publish(space, 0x1000, &[0xa, 0xb].map(GivenPage::of_word));
                offer.withdraw(space);
                assert_eq!(offer.page(space, 0x1000), None);
            })
        });
        spaces.into_iter().for_each(|space| space.join().unwrap());
    });
}

#[test]
#[should_panic(expected = "torn")]
fn an_offer_that_is_read_in_c_without_fence_is_torn() {
    model::<{ IN_C | NO_FENCE }>("offers in C without fence", true, Some(2));
}

#[test]
#[should_panic(expected = "torn")]
fn an_offer_that_is_read_without_fence_is_torn() {
    model::<NO_FENCE>("offers without fence", true, Some(2));
}

#[test]
#[should_panic(expected = "torn")]
fn an_offer_that_is_published_without_release_is_torn() {
    model::<NO_RELEASE>("offer without release", false, Some(3));
}
