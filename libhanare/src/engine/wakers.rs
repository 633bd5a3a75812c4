//! Wakers of futures: one for each credit, woken by the worker when its submission is done.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::task::Waker;

const FREE: u32 = 0;
/// The future writes the waker.
const WRITES: u32 = 1;
/// A worker takes the waker and wakes it.
const WAKES: u32 = 2;

/// A place for a waker, which one future writes and one worker takes.
#[derive(Debug, Default)]
pub struct Place {
    state: AtomicU32,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: only the thread that has changed the state uses the waker.
unsafe impl Sync for Place {}

impl Place {
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

/// The places of a queue, made when the first future is.
#[derive(Debug)]
pub struct Wakers {
    places: AtomicPtr<Place>,
    count: AtomicU32,
}

impl Wakers {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { places: AtomicPtr::new(null_mut()), count: AtomicU32::new(0) }
    }

    /// Makes so many, unless there are.
    pub fn make(&self, count: usize) {
        if !self.places.load(Ordering::Acquire).is_null() {
            return;
        }
        let places: Box<[Place]> = (0..count).map(|_| Place::default()).collect();
        let new = Box::into_raw(places).cast::<Place>();
        self.count.store(count as u32, Ordering::Relaxed);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.places.compare_exchange(null_mut(), new, order.0, order.1).is_err() {
            // SAFETY: it was made above, and given to nobody.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(new, count)) });
        }
    }

    /// Place of a credit's waker.
    #[must_use]
    pub fn of(&self, index: u16) -> Option<&Place> {
        let places = self.places.load(Ordering::Acquire);
        let is_there = !places.is_null() && u32::from(index) < self.count.load(Ordering::Relaxed);
        // SAFETY: `make` has made so many, which last until `end`.
        is_there.then(|| unsafe { &*places.add(index.into()) })
    }

    /// Worker: wakes the future that waits for this credit.
    pub fn wake(&self, index: u16) {
        if let Some(place) = self.of(index) {
            place.wake();
        }
    }

    /// Frees the places. No thread uses them any more.
    pub fn end(&self) {
        let places = self.places.swap(null_mut(), Ordering::AcqRel);
        if !places.is_null() {
            let count = self.count.load(Ordering::Relaxed) as usize;
            // SAFETY: `make` has made so many, and the caller says that nobody uses them.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(places, count)) });
        }
    }
}

impl Default for Wakers {
    fn default() -> Self {
        Self::new()
    }
}
