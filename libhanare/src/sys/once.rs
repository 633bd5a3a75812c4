//! Slices that are made when they are first needed.

use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A slice of so many, which is made once. Unlike `OnceLock` it has no thread wait for the one that
/// makes it, which the child of a fork may not have.
#[derive(Debug)]
pub struct OnceSlice<T> {
    first: AtomicPtr<T>,
    count: usize,
}

// SAFETY: it owns the slice, as a box of it would.
unsafe impl<T: Send> Send for OnceSlice<T> {}
// SAFETY: it gives references that any thread may have, and is filled by any thread.
unsafe impl<T: Send + Sync> Sync for OnceSlice<T> {}

impl<T> OnceSlice<T> {
    /// None yet; there will be so many.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self { first: AtomicPtr::new(null_mut()), count }
    }

    /// Makes the values by `one`, unless they were made before.
    pub fn make(&self, one: impl Fn() -> T) {
        if !self.first.load(Ordering::Acquire).is_null() {
            return;
        }
        let all: Box<[T]> = (0..self.count).map(|_| one()).collect();
        let new = Box::into_raw(all).cast::<T>();
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.first.compare_exchange(null_mut(), new, order.0, order.1).is_err() {
            // SAFETY: it was made above, and given to no other code.
            drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(new, self.count)) });
        }
    }

    /// All values, or none before they were made.
    #[must_use]
    pub fn get(&self) -> &[T] {
        let first = self.first.load(Ordering::Acquire);
        if first.is_null() {
            return &[];
        }
        // SAFETY: `make` has made so many, which last as long as `self`.
        unsafe { std::slice::from_raw_parts(first, self.count) }
    }
}

impl<T> Drop for OnceSlice<T> {
    fn drop(&mut self) {
        let first = *self.first.get_mut();
        if !first.is_null() {
            // SAFETY: `make` has made a box of so many, which is this one's.
            drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(first, self.count)) });
        }
    }
}
