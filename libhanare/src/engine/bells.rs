//! Bells: eventfds for threads that sleep until a worker has done something for them.
//!
//! Why not futexes: the ringer is a worker, which runs on Linux, where a write to an eventfd is a
//! call like any other, while a futex is the LWK's and would bring the worker back. The sleeper is
//! a thread of the LWK, for which reading the eventfd is a delegated call; that is dearer than a
//! futex, but it has nothing else to do.
//!
//! The bells are the process': 255, each made when it is first needed. A bell is rung once for each
//! time that a thread has entered its number in a word, unless that thread has taken it out itself.
//! So none is rung that no thread waits for.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::sys;

const BELLS: usize = 256;

struct Pool {
    /// Descriptors plus one; 0: not made yet.
    descriptors: [AtomicI32; BELLS],
    /// A bit for each that is in use. Bell 0 is none.
    used: [AtomicU64; BELLS / 64],
}

static POOL: Pool = Pool {
    descriptors: [const { AtomicI32::new(0) }; BELLS],
    used: [AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
};

/// How long a ring is waited for that is sure to come.
const SURE_NS: u64 = 10_000_000_000;

/// A bell of the calling thread.
#[derive(Debug)]
pub struct Bell {
    number: u8,
    descriptor: i32,
}

impl Bell {
    /// One that no other thread uses; `None`: all are in use.
    #[must_use]
    pub fn take() -> Option<Self> {
        for (index, word) in POOL.used.iter().enumerate() {
            loop {
                let used = word.load(Ordering::Relaxed);
                let bit = used.trailing_ones();
                if bit == 64 {
                    break;
                }
                let next = used | 1 << bit;
                if word.compare_exchange(used, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                let number = index * 64 + bit as usize;
                let made = &POOL.descriptors[number];
                if made.load(Ordering::Relaxed) == 0 {
                    made.store(sys::eventfd() + 1, Ordering::Release);
                }
                let descriptor = made.load(Ordering::Relaxed) - 1;
                if descriptor < 0 {
                    made.store(0, Ordering::Relaxed);
                    word.fetch_and(!(1 << bit), Ordering::AcqRel);
                    return None;
                }
                return Some(Self { number: number as u8, descriptor });
            }
        }
        None
    }

    /// Number of the bell, for [`ring`].
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// Sleeps until it rings (`true`), or so long, or until a signal comes.
    #[must_use]
    pub fn sleep(&self, timeout_ns: u64) -> bool {
        if timeout_ns == u64::MAX {
            return sys::await_ring(self.descriptor);
        }
        sys::is_readable(self.descriptor, timeout_ns) && sys::await_ring(self.descriptor)
    }

    /// Waits for a ring that is on its way. If none comes, the words are forged; then the bell is
    /// not used again.
    pub fn await_sure_ring(self) {
        let end = sys::now_ns() + SURE_NS;
        while !sys::is_readable(self.descriptor, SURE_NS) {
            if sys::now_ns() >= end {
                std::mem::forget(self);
                return;
            }
        }
        let _ = sys::await_ring(self.descriptor);
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let (word, bit) = (usize::from(self.number) / 64, self.number % 64);
        POOL.used[word].fetch_and(!(1 << bit), Ordering::AcqRel);
    }
}

/// Rings a bell, whose number a thread has entered; 0: none.
pub fn ring(number: u8) {
    if number != 0 {
        let descriptor = POOL.descriptors[usize::from(number)].load(Ordering::Acquire) - 1;
        if descriptor >= 0 {
            sys::ring(descriptor);
        }
    }
}

/// In the child of a fork: the bells are the parent's. They are closed, and made anew when they are
/// needed.
pub fn forget_all() {
    for made in &POOL.descriptors {
        let descriptor = made.swap(0, Ordering::Relaxed) - 1;
        if descriptor >= 0 {
            sys::close(descriptor);
        }
    }
    for (index, word) in POOL.used.iter().enumerate() {
        word.store(u64::from(index == 0), Ordering::Relaxed);
    }
}
