//! State that a queue and the operations on it share: the engine, and buffers of operations that
//! were dropped.

use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::call::Posted;
use crate::engine::execute::{What, flags};
use crate::engine::{Error, queue::Queue as Engine};
use crate::pending::Pending;

/// The error of the engine as Rust has it.
pub(crate) fn as_io(Error(number): Error) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// State that operations and the queue share.
#[derive(Debug)]
pub(crate) struct Inner {
    engine: NonNull<Engine>,
    /// Buffers of operations that were dropped before they were done.
    kept: Mutex<Vec<Kept>>,
}

/// A ticket, and what must stay until it is done.
type Kept = (u64, Box<dyn Any + Send>);

// SAFETY: a queue of several producers may be used by any thread.
unsafe impl Send for Inner {}
// SAFETY: likewise.
unsafe impl Sync for Inner {}

impl Inner {
    /// Wraps an engine, which ends with this.
    pub const fn new(engine: NonNull<Engine>) -> Self {
        Self { engine, kept: Mutex::new(Vec::new()) }
    }

    pub fn engine(&self) -> &Engine {
        // SAFETY: it ends with this.
        unsafe { self.engine.as_ref() }
    }

    /// An operation is dropped that may not be done: it is cancelled, and what it uses stays.
    pub fn keep(&self, Pending(ticket): Pending, what: Box<dyn Any + Send>) {
        let _ = self.engine().cancel(ticket);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((ticket, what));
        self.reap(&mut kept);
    }

    /// Frees what was kept for operations that are done. (One that was cancelled before it began is done at once: no worker
    /// has looked at what it uses, and none will.)
    fn reap(&self, kept: &mut Vec<Kept>) {
        kept.retain(|&(ticket, _)| self.engine().poll_any(ticket) == Err(Error(libc::EAGAIN)));
    }

    fn reap_some(&self) {
        if let Ok(mut kept) = self.kept.try_lock()
            && !kept.is_empty()
        {
            self.reap(&mut kept);
        }
    }

    /// # Safety
    /// What the arguments point to stays until it is done.
    pub unsafe fn post(&self, nr: i64, args: [u64; 6]) -> io::Result<Pending> {
        self.reap_some();
        let engine = self.engine();
        engine.wakers.make(engine.depth() as usize);
        let posted = engine.post_with_waker(What::call(nr as u16, flags::WAKER), args);
        posted.map(|word| Pending(word as u64)).map_err(as_io)
    }

    /// # Safety
    /// What the closure borrows stays until it is done.
    pub unsafe fn post_closure(&self, posted: &Posted) -> io::Result<()> {
        let what = flags::DETACH | flags::BLOCK;
        let args = [posted.argument, 0, 0, 0, 0];
        self.engine().call(what, posted.function, args).map(drop).map_err(as_io)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (ticket, _) in self.kept.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // SAFETY: it ends below.
            let _ = unsafe { self.engine.as_ref() }.cancel(*ticket);
        }
        // A worker that drops the last share of its own queue leaves it there.
        if self.engine().drain(-1).is_ok() {
            // SAFETY: nobody else has it.
            let _ = unsafe { Engine::destroy(self.engine) };
        } else {
            std::mem::take(&mut self.kept).into_inner().into_iter().for_each(std::mem::forget);
        }
    }
}
