//! Calls and closures that borrow what is around them: all are done when the scope ends.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::call::{Call, task};
use crate::completion::Completion;
use crate::inner::Inner;
use crate::pending::{Pending, result_of};

/// Scope of calls and closures that may borrow, made by [`crate::Queue::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    inner: &'env Inner,
    tickets: Mutex<Vec<u64>>,
    closures: Mutex<Vec<Arc<Completion>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs a scope.
pub fn run<'env, F, R>(inner: &'env Inner, f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let scope = Scope {
        inner,
        tickets: Mutex::default(),
        closures: Mutex::default(),
        scope: PhantomData,
        env: PhantomData,
    };
    // Also where `f` panics.
    let end = End(&scope);
    let result = f(end.0);
    drop(end);
    result
}

struct End<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for End<'_, '_, '_> {
    fn drop(&mut self) {
        let closures = std::mem::take(&mut *lock(&self.0.closures));
        closures.iter().for_each(|closure| closure.wait());
        for ticket in std::mem::take(&mut *lock(&self.0.tickets)) {
            // Those that were picked up are no tickets any more.
            let _ = Pending(ticket).wait(self.0.inner.engine());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'scope> Scope<'scope, '_> {
    /// Has a worker call a closure. A panic in it ends the program.
    ///
    /// # Panics
    /// As [`crate::Queue::call`].
    pub fn call<F, T>(&'scope self, function: F) -> Call<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (posted, call) = task(function);
        lock(&self.closures).push(posted.completion.clone());
        // SAFETY: what it borrows lasts longer than the scope, which waits for it. A closure that cannot be posted ends the
        // program below.
        if unsafe { self.inner.post_closure(&posted) }.is_err() {
            std::process::abort();
        }
        call
    }

    fn submit(&'scope self, nr: i64, args: [u64; 6]) -> io::Result<Borrowed<'scope>> {
        // SAFETY: the caller passes addresses of what lasts longer than the scope, which waits for
        // it.
        let pending = unsafe { self.inner.post(nr, args) }?;
        lock(&self.tickets).push(pending.0);
        Ok(Borrowed { inner: self.inner, pending: Some(pending) })
    }

    /// `write`.
    ///
    /// # Errors
    /// ENOMEM in the child of a fork.
    pub fn write(
        &'scope self,
        fd: BorrowedFd<'scope>,
        bytes: &'scope [u8],
    ) -> io::Result<Borrowed<'scope>> {
        let args = [fd.as_raw_fd() as u64, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
        self.submit(libc::SYS_write, args)
    }

    /// `read`.
    ///
    /// # Errors
    /// ENOMEM in the child of a fork.
    pub fn read(
        &'scope self,
        fd: BorrowedFd<'scope>,
        bytes: &'scope mut [u8],
    ) -> io::Result<Borrowed<'scope>> {
        let args = [fd.as_raw_fd() as u64, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0];
        self.submit(libc::SYS_read, args)
    }

    /// `fsync`.
    ///
    /// # Errors
    /// ENOMEM in the child of a fork.
    pub fn sync(&'scope self, fd: BorrowedFd<'scope>) -> io::Result<Borrowed<'scope>> {
        self.submit(libc::SYS_fsync, [fd.as_raw_fd() as u64, 0, 0, 0, 0, 0])
    }
}

/// A system call that was posted, of what its scope borrows: a future of its result. Where it is dropped, the scope waits for it.
#[derive(Debug)]
pub struct Borrowed<'scope> {
    inner: &'scope Inner,
    pending: Option<Pending>,
}

impl Borrowed<'_> {
    /// Waits until the call has returned.
    ///
    /// # Errors
    /// Those of the call.
    ///
    /// # Panics
    /// If the future was ready before.
    pub fn wait(mut self) -> io::Result<usize> {
        let pending = self.pending.take().expect("a result is picked up once");
        result_of(pending.wait(self.inner.engine()))
    }
}

impl Future for Borrowed<'_> {
    type Output = io::Result<usize>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let pending = self.pending.as_ref().expect("a future is not polled after it was ready");
        let result = std::task::ready!(pending.poll(self.inner.engine(), context));
        self.pending = None;
        Poll::Ready(result_of(result))
    }
}
