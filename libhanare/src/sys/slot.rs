//! A place for one value, which one thread puts there and one takes.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Slot<T> {
    is_full: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is the giver's until it is there, and then the taker's: there is one of each.
unsafe impl<T: Send> Sync for Slot<T> {}
// SAFETY: likewise.
unsafe impl<T: Send> Send for Slot<T> {}

/// Side that puts the value there.
pub struct Giver<T>(Arc<Slot<T>>);

/// Side that takes the value.
pub struct Taker<T>(Arc<Slot<T>>);

/// An empty place: its two sides.
pub fn slot<T>() -> (Giver<T>, Taker<T>) {
    let slot = Arc::new(Slot { is_full: AtomicBool::new(false), value: UnsafeCell::new(None) });
    (Giver(slot.clone()), Taker(slot))
}

impl<T> Giver<T> {
    /// Puts the value there.
    pub fn put(self, value: T) {
        // SAFETY: the taker does not look before it is there, and this is the one giver, which
        // ends.
        unsafe { *self.0.value.get() = Some(value) };
        self.0.is_full.store(true, Ordering::Release);
    }
}

impl<T> Taker<T> {
    /// Takes the value, if it is there, once.
    pub fn take(&mut self) -> Option<T> {
        if !self.0.is_full.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the giver has ended, and this is the one taker, borrowed by no other code.
        unsafe { (*self.0.value.get()).take() }
    }
}
