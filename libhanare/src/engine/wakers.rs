//! Wakers of futures: one for each credit, woken by the worker when its submission is done.

use crate::sys::{OnceSlice, WakerPlace};

/// The places of a queue, made when the first future is.
#[derive(Debug)]
pub struct Wakers(OnceSlice<WakerPlace>);

impl Wakers {
    /// None yet; there will be one for each of so many credits.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self(OnceSlice::new(count))
    }

    /// Makes the places, unless they were made before.
    pub fn make(&self) {
        self.0.make(WakerPlace::default);
    }

    /// Place of a credit's waker.
    #[must_use]
    pub fn of(&self, index: u16) -> Option<&WakerPlace> {
        self.0.get().get(usize::from(index))
    }

    /// Worker: wakes the future that waits for this credit.
    pub fn wake(&self, index: u16) {
        if let Some(place) = self.of(index) {
            place.wake();
        }
    }
}
