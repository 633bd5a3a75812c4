//! Offers: pages that a delegated call is about to touch for the first time, said by the LWK before
//! the proxy faults.
//!
//! An offer is the answer to a fault ([`crate::request::REQUEST_FAULT`]) that was not asked yet. It
//! holds until a thread takes the lock of the address space. The module alone reads it: it lies in
//! the shared region, which no proxy maps.

use crate::frame::GivenPage;

/// Number of [`Offer`]s; that of a space is the one with its id modulo this.
pub const OFFERS: u32 = 64;
/// Pages in an offer at most.
pub const OFFER_PAGES: usize = 28;

/// One offer: four cache lines, of which a small one needs the first.
#[repr(C, align(256))]
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Odd while the LWK writes.
    pub sequence: u32,
    /// Space to which the pages belong; 0: there is no offer.
    pub space: u32,
    /// Address of the first page.
    pub start: u64,
    /// Number of pages.
    pub count: u32,
    /// Zero.
    pub reserved0: u32,
    /// The pages, one behind the other, as in the answer to a fault; 0: none is offered there.
    pub pages: [GivenPage; OFFER_PAGES],
    /// Zero.
    pub reserved1: u64,
}
