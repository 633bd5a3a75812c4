//! Queues.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use crate::call::{Call, task};
use crate::engine::attributes::{Attributes, MULTI_PRODUCER, SIDE_HERE};
use crate::engine::queue::Queue as Engine;
use crate::inner::{Inner, as_io};
use crate::operation::Operation;
use crate::scope::Scope;

/// Builder of a queue with the attributes that a program asks for.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    attributes: Attributes,
    cpus: Vec<i32>,
}

// SAFETY: the pointer in the attributes is set when they are used only.
unsafe impl Send for Builder {}
// SAFETY: likewise.
unsafe impl Sync for Builder {}

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

    /// Workers run on these CPUs, in turn; [`build`](Self::build) fails where they are none of their side.
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
        attributes.cpus = self.cpus.as_ptr();
        attributes.cpus_count = self.cpus.len() as u32;
        // SAFETY: the attributes are those above, the CPUs those of the vector.
        let (attributes, cpus) = unsafe {
            let read = Attributes::read(&raw const attributes).map_err(as_io)?;
            (read, read.cpus())
        };
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

    /// To say what it is to be like.
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
        let (posted, call) = task(function);
        // SAFETY: the closure borrows nothing that ends.
        unsafe { self.inner.post_closure(&posted) }.expect("a closure can be posted");
        call
    }

    /// Posts calls and closures that borrow: all are done when this returns.
    pub fn scope<'env, F, R>(&'env self, f: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        crate::scope::run(&self.inner, f)
    }

    /// Posts a system call, whatever its arguments are. `keep` stays until it is done.
    ///
    /// # Errors
    /// EINVAL: the kernel that the program runs on serves it, or it acts on the thread that makes it.
    ///
    /// # Safety
    /// As that of the call; what its arguments point to belongs to `keep`, and does not move with it.
    pub unsafe fn submit<B: Send + 'static>(
        &self,
        nr: i64,
        args: [u64; 6],
        keep: B,
    ) -> io::Result<Operation<B>> {
        if u64::try_from(nr).map_or(0, crate::calls::class) != crate::calls::POSTED {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the caller's.
        let pending = Some(unsafe { self.inner.post(nr, args) }?);
        Ok(Operation { inner: self.inner.clone(), pending, buffer: Some(keep), about: None })
    }

    fn about<B: Send + 'static>(
        &self,
        nr: i64,
        fd: impl AsFd + Send + 'static,
        args: [u64; 3],
        buffer: B,
    ) -> io::Result<Operation<B>> {
        let args = [fd.as_fd().as_raw_fd() as u64, args[0], args[1], args[2], 0, 0];
        // SAFETY: the caller passes addresses in the buffer, which is on the heap, and kept until
        // it is done.
        let mut operation = unsafe { self.submit(nr, args, buffer) }?;
        operation.about = Some(Box::new(fd));
        Ok(operation)
    }

    /// `write`: of all bytes of the buffer.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn write(
        &self,
        fd: impl AsFd + Send + 'static,
        bytes: Vec<u8>,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_ptr() as u64, bytes.len() as u64, 0];
        self.about(libc::SYS_write, fd, args, bytes)
    }

    /// `read`: into the buffer, as many bytes as it has.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn read(
        &self,
        fd: impl AsFd + Send + 'static,
        mut bytes: Vec<u8>,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_mut_ptr() as u64, bytes.len() as u64, 0];
        self.about(libc::SYS_read, fd, args, bytes)
    }

    /// `pwrite`.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn write_at(
        &self,
        fd: impl AsFd + Send + 'static,
        bytes: Vec<u8>,
        offset: u64,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_ptr() as u64, bytes.len() as u64, offset];
        self.about(libc::SYS_pwrite64, fd, args, bytes)
    }

    /// `pread`.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn read_at(
        &self,
        fd: impl AsFd + Send + 'static,
        mut bytes: Vec<u8>,
        offset: u64,
    ) -> io::Result<Operation<Vec<u8>>> {
        let args = [bytes.as_mut_ptr() as u64, bytes.len() as u64, offset];
        self.about(libc::SYS_pread64, fd, args, bytes)
    }

    /// `fsync`.
    ///
    /// # Errors
    /// See [`Queue::submit`].
    pub fn sync(&self, fd: impl AsFd + Send + 'static) -> io::Result<Operation<()>> {
        self.about(libc::SYS_fsync, fd, [0; 3], ())
    }
}
