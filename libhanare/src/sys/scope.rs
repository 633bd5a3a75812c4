//! Calls and closures that borrow what is around them: all are done when the scope ends.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use super::closure::Posted;
use super::ring::Vouched;
use crate::call::{Call, task};
use crate::completion::Completion;
use crate::inner::Inner;
use crate::pending::Pending;
use crate::scope::Borrowed;

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
        let (closure, call, completion) = task(function);
        lock(&self.closures).push(completion);
        // SAFETY: what it borrows lasts longer than the scope, which waits for its completion. A
        // closure that cannot be posted ends the program below.
        let posted = unsafe { Posted::of_borrowing(closure) };
        if self.inner.post_closure(posted).is_err() {
            std::process::abort();
        }
        call
    }

    fn submit(&'scope self, nr: i64, args: [u64; 6]) -> io::Result<Borrowed<'scope>> {
        // SAFETY: the functions below pass addresses of what lasts longer than the scope, which
        // waits for the call.
        let vouched = unsafe { Vouched::new() };
        let pending = self.inner.post(vouched, nr, args)?;
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
