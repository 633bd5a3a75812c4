//! A lock for what happens seldom, which can be held over a fork.

use std::sync::atomic::{AtomicU32, Ordering};

/// A lock. A waiter yields the CPU from time to time.
#[derive(Debug, Default)]
pub struct Lock(AtomicU32);

/// Guard of a lock that is held: dropping it releases the lock.
#[derive(Debug)]
pub struct Held<'a>(&'a Lock);

impl Lock {
    /// A lock that no thread holds.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the lock, until what is returned is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.take();
        Held(self)
    }

    /// Takes the lock, until [`Lock::free`].
    pub fn take(&self) {
        let mut tries = 0_u32;
        while self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            if tries.is_multiple_of(100) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Guard of a lock that was taken, and whose guard was forgotten.
    #[must_use]
    pub const fn reclaim(&self) -> Held<'_> {
        Held(self)
    }

    /// Releases the lock. The thread that has taken it calls this.
    pub fn free(&self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.free();
    }
}
