//! State of a thread that only the CPU which runs the thread may touch.

use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value in an object, for the one CPU that has [taken](Running::take) the object.
pub struct OnCpu<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the CPU that has taken the value touches it, as behind a lock.
unsafe impl<T: Send> Sync for OnCpu<T> {}

impl<T> OnCpu<T> {
    /// An object that no CPU has taken.
    pub const fn new(value: T) -> Self {
        OnCpu { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Whether a CPU has it.
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }
}

/// An object that a CPU runs, from when it was taken until this is dropped. It dereferences to the
/// object.
pub struct Running<O: ?Sized, T> {
    object: Arc<O>,
    /// In the object, or there for good.
    place: NonNull<OnCpu<T>>,
}

// SAFETY: it is a counted reference and the exclusive right to a value.
unsafe impl<O: ?Sized + Send + Sync, T: Send> Send for Running<O, T> {}

impl<O: ?Sized, T> Running<O, T> {
    /// Takes an object whose value lies at `place`.
    ///
    /// # Errors
    /// The object: another CPU has it.
    pub fn take(object: Arc<O>, place: impl FnOnce(&O) -> &OnCpu<T>) -> Result<Self, Arc<O>> {
        let place = NonNull::from(place(&object));
        // SAFETY: the object is there, and so is what it has a reference to as long as itself.
        if unsafe { place.as_ref() }.is_taken.swap(true, Ordering::Acquire) {
            return Err(object);
        }
        Ok(Running { object, place })
    }

    /// The value.
    pub fn value(&mut self) -> &mut T {
        // SAFETY: `object` keeps the place there; no other CPU has the value until `drop`.
        unsafe { &mut *self.place.as_ref().value.get() }
    }
}

impl<O: ?Sized, T> Deref for Running<O, T> {
    type Target = Arc<O>;
    fn deref(&self) -> &Arc<O> {
        &self.object
    }
}

impl<O: ?Sized, T> Drop for Running<O, T> {
    fn drop(&mut self) {
        // SAFETY: as in `value`. The next CPU that takes it sees what this one has written.
        unsafe { self.place.as_ref() }.is_taken.store(false, Ordering::Release);
    }
}
