//! Queues.

use std::io;
use std::sync::Arc;

use crate::call::{Call, task};
use crate::engine::attributes::{Attributes, MULTI_PRODUCER, SIDE_HERE, spread};
use crate::engine::queue::Queue as Engine;
use crate::inner::{Inner, as_io};
use crate::sys::scope::{self, Scope};
use crate::sys::{Pointer, Posted};

/// Builder of a queue with the attributes that a program asks for.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    attributes: Attributes,
    cpus: Vec<i32>,
}

impl Builder {
    /// Submissions that may be on their way at once, up to 65536; 256 unless it is said.
    #[must_use]
    pub const fn depth(mut self, depth: u32) -> Self {
        self.attributes.depth = depth;
        self
    }

    /// Workers: so many always, and up to so many where all are busy. One unless it is said.
    #[must_use]
    pub const fn workers(mut self, min: u32, max: u32) -> Self {
        self.attributes.workers_min = min;
        self.attributes.workers_max = max;
        self
    }

    /// Workers run on these CPUs, in turn; [`build`](Self::build) fails where they are none of
    /// their side.
    #[must_use]
    pub fn cpus(mut self, cpus: impl Into<Vec<i32>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Workers run on the kernel that the program runs on, not on Linux beside it.
    #[must_use]
    pub const fn here(mut self) -> Self {
        self.attributes.side = SIDE_HERE;
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// EINVAL, or those of threads, memory and descriptors.
    pub fn build(&self) -> io::Result<Queue> {
        let mut attributes = self.attributes;
        attributes.flags = MULTI_PRODUCER;
        attributes.cpus = Pointer::of(&self.cpus);
        attributes.cpus_count = self.cpus.len() as u32;
        attributes.check().map_err(as_io)?;
        let cpus = spread(&self.cpus);
        let engine = Engine::create(attributes, cpus).map_err(as_io)?;
        Ok(Queue { inner: Arc::new(Inner::new(engine)) })
    }
}

/// A queue. When it is dropped, all that was posted has been executed, or cancelled.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) inner: Arc<Inner>,
}

impl Queue {
    /// One worker, 256 submissions.
    ///
    /// # Errors
    /// As of [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// A builder, for a queue with other attributes.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// How many workers run on Linux beside an LWK.
    #[must_use]
    pub fn remote_workers(&self) -> usize {
        self.inner.engine().workers.iter().filter(|worker| worker.is_remote()).count()
    }

    /// Has a worker call a closure. A panic in it ends the program.
    ///
    /// # Panics
    /// If there is no memory for workers, in the child of a fork.
    pub fn call<F, T>(&self, function: F) -> Call<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (closure, call, _) = task(function);
        self.inner.post_closure(Posted::of(closure)).expect("a closure can be posted");
        call
    }

    /// Posts calls and closures that borrow: all are done when this returns.
    pub fn scope<'env, F, R>(&'env self, f: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        scope::run(&self.inner, f)
    }
}
