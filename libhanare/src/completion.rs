//! Completion of a closure: whether it is done, and which thread or future is to be told.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::task::Waker;

use crate::engine::bells::{self, Bell};
use crate::sys::{self, WakerPlace};

/// Completion of one closure. Its worker has a reference of its own, so it may outlast the waiter.
#[derive(Debug, Default)]
pub struct Completion {
    is_done: AtomicU32,
    bell: AtomicU32,
    waker: WakerPlace,
}

/// How long a waiter polls.
const POLLS: u32 = 2000;
/// Time between two looks of a waiter that has no bell.
const LOOK_NS: u64 = 100_000;

impl Completion {
    /// Whether the closure is done.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire) != 0
    }

    /// Worker: the closure is done.
    pub fn finish(&self) {
        self.is_done.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let bell = self.bell.swap(0, Ordering::AcqRel);
        bells::ring(bell as u8);
        self.waker.wake();
    }

    /// Future: is to be woken.
    pub fn enter(&self, waker: &Waker) {
        self.waker.enter(waker);
        fence(Ordering::SeqCst);
    }

    /// Waits for it. One thread at a time sleeps; another one looks from time to time.
    pub fn wait(&self) {
        for _ in 0..POLLS {
            if self.is_done() {
                return;
            }
            std::hint::spin_loop();
        }
        while !self.is_done() {
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let enter = |bell: &Bell| {
                let number = u32::from(bell.number());
                self.bell.compare_exchange(0, number, order.0, order.1).is_ok()
            };
            let Some(bell) = Bell::take().filter(enter) else {
                sys::sleep_ns(LOOK_NS);
                continue;
            };
            fence(Ordering::SeqCst);
            let number = u32::from(bell.number());
            if self.is_done() && self.bell.compare_exchange(number, 0, order.0, order.1).is_ok() {
                return;
            }
            while !bell.sleep(u64::MAX) && !self.is_done() {
                sys::sleep_ns(LOOK_NS);
            }
        }
    }
}
