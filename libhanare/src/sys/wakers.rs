//! Places for wakers of futures.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

const FREE: u32 = 0;
/// The future writes the waker.
const WRITES: u32 = 1;
/// A worker takes the waker and wakes it.
const WAKES: u32 = 2;

/// A place for a waker, which one future writes and one worker takes.
#[derive(Debug, Default)]
pub struct WakerPlace {
    state: AtomicU32,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: only the thread that has changed the state uses the waker.
unsafe impl Sync for WakerPlace {}

impl WakerPlace {
    /// Future: is to be woken by this. It has to look afterwards whether it is done.
    pub fn enter(&self, waker: &Waker) {
        let order = (Ordering::Acquire, Ordering::Acquire);
        if self.state.compare_exchange(FREE, WRITES, order.0, order.1).is_err() {
            // It is being woken at this moment.
            waker.wake_by_ref();
            return;
        }
        // SAFETY: the state says that this thread has it.
        let place = unsafe { &mut *self.waker.get() };
        if !place.as_ref().is_some_and(|before| before.will_wake(waker)) {
            *place = Some(waker.clone());
        }
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.state.compare_exchange(WRITES, FREE, order.0, order.1).is_err() {
            // A worker came meanwhile, and has left it to this thread.
            let waker = place.take();
            self.state.store(FREE, Ordering::Release);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Worker: wakes the future that has entered a waker.
    pub fn wake(&self) {
        if self.state.fetch_or(WAKES, Ordering::AcqRel) != FREE {
            return;
        }
        // SAFETY: the state says that this thread has it.
        let waker = unsafe { (*self.waker.get()).take() };
        self.state.fetch_and(!WAKES, Ordering::Release);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
