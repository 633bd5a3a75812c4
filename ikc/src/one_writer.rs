//! Words of the shared region that one side stores, and that all sides load.
//!
//! There is no read-modify-write of them: over PCIe none is one step, as the processors of two
//! machines do not lock each other's memory. Such a step, and the full fence that a locked
//! instruction is, becomes a store and a fence.

use core::marker::PhantomData;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The side that stores a word: the LWK.
#[derive(Clone, Copy, Debug)]
pub struct Lwk;

/// The side that stores a word: the module.
#[derive(Clone, Copy, Debug)]
pub struct Linux;

/// The side whose turn it is: what a word holds says whose. A side that stores it gives the turn
/// away, or keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Turn;

/// An atomic word.
pub trait Atomic {
    /// The integer in the word.
    type Value: Copy;
    /// A word that holds `value`.
    fn new(value: Self::Value) -> Self;
    /// Loads the value.
    fn load(&self, order: Ordering) -> Self::Value;
    /// Stores a value.
    fn store(&self, value: Self::Value, order: Ordering);
}

macro_rules! atomic {
    ($($atomic:ident: $value:ty),+) => {$(
        impl Atomic for $atomic {
            type Value = $value;
            fn new(value: $value) -> Self {
                $atomic::new(value)
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                $atomic::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                $atomic::store(self, value, order);
            }
        }
    )+};
}

atomic!(AtomicU32: u32, AtomicU64: u64);

/// A word that only `By` stores, which a caller says that it is.
#[repr(transparent)]
#[derive(Debug)]
pub struct OneWriter<T, By>(T, PhantomData<fn(By)>);

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<OneWriter<AtomicU32, Turn>>() == 4 && align_of::<OneWriter<AtomicU64, Lwk>>() == 8
);

impl<By> OneWriter<AtomicU32, By> {
    /// A word that holds `value`.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value), PhantomData)
    }
}

impl<T: Atomic, By> OneWriter<T, By> {
    /// A word that holds `value`.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T::Value) -> Self {
        Self(T::new(value), PhantomData)
    }

    /// The word itself, for the module's steps in C.
    #[cfg(test)]
    pub(crate) const fn word(&self) -> &T {
        &self.0
    }

    /// Either side: loads the value.
    #[must_use]
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> T::Value {
        self.0.load(order)
    }

    /// The side that may store: stores a value.
    #[inline(always)]
    pub fn store(&self, _by: By, value: T::Value, order: Ordering) {
        self.0.store(value, order);
    }
}
