//! Each side sleeps in Linux until the other wakes it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::futex;

use super::pair::{Exchange, Failed};

const BATCH: u32 = 100;

/// Two words, each of which its reader waits for.
pub struct Futex {
    asked: Word,
    answered: Word,
    failed: Failed,
}

#[repr(align(128))]
struct Word(AtomicU32);

impl Futex {
    pub fn new() -> Self {
        let word = || Word(AtomicU32::new(0));
        Self { asked: word(), answered: word(), failed: Failed::default() }
    }

    fn wake(&self, word: &Word) {
        word.0.store(1, Ordering::Release);
        self.failed.note(futex::wake(&word.0, futex::Flags::PRIVATE, 1));
    }

    fn wait(&self, word: &Word) {
        while word.0.swap(0, Ordering::Acquire) == 0 {
            match futex::wait(&word.0, futex::Flags::PRIVATE, 0, None) {
                // The other side was faster, or a signal came.
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return self.failed.note::<()>(Err(error)),
            }
        }
    }
}

impl Exchange for Futex {
    const BATCH: u32 = BATCH;
    const SLEEPS: bool = true;

    fn ask(&self, count: u32) {
        for _ in 0..count {
            self.wake(&self.asked);
            self.wait(&self.answered);
        }
    }

    fn answer(&self, count: u32) {
        for _ in 0..count {
            self.wait(&self.asked);
            self.wake(&self.answered);
        }
    }

    fn failed(&self) -> Option<Errno> {
        self.failed.first()
    }
}

/// A descriptor to read from and one to write to.
struct Way {
    from: OwnedFd,
    to: Option<OwnedFd>,
}

/// Two descriptors, and what is written to them.
struct Descriptors {
    there: Way,
    back: Way,
    failed: Failed,
}

/// Increment of an eventfd; a pipe gets its first byte.
const ONE: [u8; 8] = 1_u64.to_ne_bytes();

impl Descriptors {
    fn hand_over(&self, way: &Way, bytes: usize) {
        self.failed.note(write(way.to.as_ref().unwrap_or(&way.from), &ONE[..bytes]));
    }

    fn wait(&self, way: &Way, bytes: usize) {
        let mut buffer = ONE;
        self.failed.note(read(&way.from, &mut buffer[..bytes]));
    }

    fn ask(&self, count: u32, bytes: usize) {
        for _ in 0..count {
            self.hand_over(&self.there, bytes);
            self.wait(&self.back, bytes);
        }
    }

    fn answer(&self, count: u32, bytes: usize) {
        for _ in 0..count {
            self.wait(&self.there, bytes);
            self.hand_over(&self.back, bytes);
        }
    }
}

/// A pipe for each direction.
pub struct Pipes(Descriptors);

impl Pipes {
    pub fn new() -> Result<Self> {
        let way = || -> Result<Way> {
            let (from, to) = pipe_with(PipeFlags::CLOEXEC).context("no pipe")?;
            Ok(Way { from, to: Some(to) })
        };
        Ok(Self(Descriptors { there: way()?, back: way()?, failed: Failed::default() }))
    }
}

impl Exchange for Pipes {
    const BATCH: u32 = BATCH;
    const SLEEPS: bool = true;

    fn ask(&self, count: u32) {
        self.0.ask(count, 1);
    }

    fn answer(&self, count: u32) {
        self.0.answer(count, 1);
    }

    fn failed(&self) -> Option<Errno> {
        self.0.failed.first()
    }
}

/// An eventfd for each direction.
pub struct Eventfds(Descriptors);

impl Eventfds {
    pub fn new() -> Result<Self> {
        let way = || -> Result<Way> {
            Ok(Way { from: eventfd(0, EventfdFlags::CLOEXEC).context("no eventfd")?, to: None })
        };
        Ok(Self(Descriptors { there: way()?, back: way()?, failed: Failed::default() }))
    }
}

impl Exchange for Eventfds {
    const BATCH: u32 = BATCH;
    const SLEEPS: bool = true;

    fn ask(&self, count: u32) {
        self.0.ask(count, ONE.len());
    }

    fn answer(&self, count: u32) {
        self.0.answer(count, ONE.len());
    }

    fn failed(&self) -> Option<Errno> {
        self.0.failed.first()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::Pair;
    use super::*;

    /// On whatever CPU this test may use, both threads on it: they sleep, so they take turns.
    #[test]
    fn every_way_hands_the_turn_over_and_back() {
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap();
        let pair = Pair { asker: cpu, answerer: cpu, quick: true };
        assert!(pair.exchange(&Futex::new()).unwrap().ns.iter().all(|&ns| ns > 0.0));
        assert!(pair.exchange(&Pipes::new().unwrap()).unwrap().ns.iter().all(|&ns| ns > 0.0));
        assert!(pair.exchange(&Eventfds::new().unwrap()).unwrap().ns.iter().all(|&ns| ns > 0.0));
    }
}
