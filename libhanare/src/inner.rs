//! State that a queue and the operations on it share: the engine, and buffers of operations that
//! were dropped.

use std::any::Any;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::engine::Error;
use crate::engine::queue::{Queue as Engine, Words};
use crate::engine::what::{What, flags};
use crate::pending::Pending;
use crate::sys::{Owner, Posted, Vouched};

/// The error of the engine as Rust has it.
pub(crate) fn as_io(Error(number): Error) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// State that operations and the queue share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// The queue's memory and threads; `None`: the queue has ended.
    engine: Option<Owner<Words>>,
    /// Buffers of operations that were dropped before they were done.
    kept: Mutex<Vec<Kept>>,
}

/// A ticket, and what must stay until it is done.
type Kept = (u64, Box<dyn Any + Send>);

impl Inner {
    /// Wraps an engine, which ends with this.
    pub const fn new(engine: Owner<Words>) -> Self {
        Self { engine: Some(engine), kept: Mutex::new(Vec::new()) }
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the engine ends with this")
    }

    /// An operation is dropped that may not be done: it is cancelled, and what it uses stays.
    pub fn keep(&self, Pending(ticket): Pending, what: Box<dyn Any + Send>) {
        let _ = self.engine().cancel(ticket);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((ticket, what));
        self.reap(&mut kept);
    }

    /// Frees what was kept for operations that are done. (One that was cancelled before it began is
    /// done at once: no worker has looked at what it uses, and none will.)
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

    /// Posts a system call.
    pub fn post(&self, vouched: Vouched, nr: i64, args: [u64; 6]) -> io::Result<Pending> {
        self.reap_some();
        let engine = self.engine();
        engine.wakers.make();
        let posted = engine.post_with_waker(vouched, What::call(nr as u16, flags::WAKER), args);
        posted.map(|word| Pending(word as u64)).map_err(as_io)
    }

    /// Posts a closure.
    pub fn post_closure(&self, posted: Posted) -> io::Result<()> {
        let (vouched, function, args) = posted.into_parts();
        let what = flags::DETACH | flags::BLOCK;
        self.engine().call(vouched, what, function, args).map(drop).map_err(as_io)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (ticket, _) in kept.iter() {
            let _ = engine.cancel(*ticket);
        }
        // A worker that drops the last share of its own queue leaves it there.
        if engine.drain(-1).is_ok() {
            let _ = Engine::destroy(engine).map_err(|(_, engine)| std::mem::forget(engine));
        } else {
            std::mem::take(kept).into_iter().for_each(std::mem::forget);
            std::mem::forget(engine);
        }
    }
}
