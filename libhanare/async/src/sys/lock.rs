//! The lock of what the library knows, and what only its holder uses.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::threads::give_way;

static LOCK: AtomicBool = AtomicBool::new(false);

/// The right to post and to change what is known of descriptors. There is one at a time.
pub struct Locked(());

impl Locked {
    /// Takes the right, once no other thread has it.
    pub fn take() -> Self {
        while LOCK.swap(true, Ordering::Acquire) {
            give_way();
        }
        Self(())
    }

    /// In the child of a fork: the parent's other threads, of which one may have had it, are not
    /// there.
    pub fn reset() {
        LOCK.store(false, Ordering::Release);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
    }
}

/// A value that the holder of the lock has alone.
pub struct Held<T>(UnsafeCell<T>);

// SAFETY: `with` hands it to the holder of the lock, of which there is one at a time.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T> Held<T> {
    /// Such a value.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Uses it. The function cannot take a second reference: this call has the one `Locked`.
    pub fn with<R>(&self, _: &mut Locked, function: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: There is one `Locked`, which is borrowed until the function returns.
        function(unsafe { &mut *self.0.get() })
    }
}
