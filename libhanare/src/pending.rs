//! Tickets of system calls, and their results.

use std::io;
use std::task::{Context, Poll};

use crate::engine::{Error, queue::Queue as Engine};
use crate::sys;

/// The result of a call: a number, or an error.
pub(crate) fn result_of(result: i64) -> io::Result<usize> {
    match result {
        -4095..0 => Err(io::Error::from_raw_os_error(-result as i32)),
        _ => Ok(result as usize),
    }
}

/// Time between two looks of a thread that cannot sleep.
const LOOK_NS: u64 = 100_000;

/// A ticket of which the result was not picked up.
#[derive(Debug)]
pub(crate) struct Pending(pub u64);

impl Pending {
    /// The result, if it is there, once.
    pub fn poll(&self, engine: &Engine, context: &Context<'_>) -> Poll<i64> {
        let look = || match engine.poll_any(self.0) {
            Ok(result) => Poll::Ready(result),
            Err(Error(libc::EAGAIN)) => Poll::Pending,
            // The parent's, in the child of a fork.
            Err(Error(number)) => Poll::Ready(-i64::from(number)),
        };
        let first = look();
        if first.is_ready() {
            return first;
        }
        let index = (self.0 >> 4) as u16;
        if let Some(place) = engine.wakers.of(index) {
            place.enter(context.waker());
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        look()
    }

    /// Waits for the result. In a worker of the queue itself as well, where others have to make the
    /// call: what it borrows is used until then.
    pub fn wait(&self, engine: &Engine) -> i64 {
        loop {
            match engine.wait(self.0, -1) {
                Ok(result) => return result,
                Err(Error(libc::EDEADLK)) => sys::sleep_ns(LOOK_NS),
                Err(Error(number)) => return -i64::from(number),
            }
        }
    }
}
