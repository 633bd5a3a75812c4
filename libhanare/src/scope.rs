//! System calls of a scope, which borrow what is around it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::inner::Inner;
use crate::pending::{Pending, result_of};

/// A system call that was posted, of what its scope borrows: a future of its result. Where it is
/// dropped, the scope waits for it.
#[derive(Debug)]
pub struct Borrowed<'scope> {
    pub(crate) inner: &'scope Inner,
    pub(crate) pending: Option<Pending>,
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
