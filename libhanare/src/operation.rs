//! System calls that were posted, with the buffers that they use.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::inner::Inner;
use crate::pending::{Pending, result_of};

/// A system call that was posted, and the buffer that it uses: a future of both. Where it is
/// dropped before it is done, it is cancelled, and the buffer is kept until the call has ended.
#[derive(Debug)]
#[must_use = "it is cancelled when it is dropped"]
pub struct Operation<B: Send + 'static> {
    pub(crate) inner: Arc<Inner>,
    pub(crate) pending: Option<Pending>,
    pub(crate) buffer: Option<B>,
    /// The descriptor that it is about.
    pub(crate) about: Option<Box<dyn Any + Send>>,
}

impl<B: Send + 'static> Unpin for Operation<B> {}

impl<B: Send + 'static> Operation<B> {
    fn finish(&mut self, result: i64) -> (io::Result<usize>, B) {
        self.pending = None;
        self.about = None;
        let buffer = self.buffer.take().expect("a result is picked up once");
        (result_of(result), buffer)
    }

    /// Waits until the call has returned.
    ///
    /// # Panics
    /// If the future was ready before.
    pub fn wait(mut self) -> (io::Result<usize>, B) {
        let pending = self.pending.as_ref().expect("a result is picked up once");
        let result = pending.wait(self.inner.engine());
        self.finish(result)
    }
}

impl<B: Send + 'static> Future for Operation<B> {
    type Output = (io::Result<usize>, B);
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let pending = self.pending.as_ref().expect("a future is not polled after it was ready");
        let result = std::task::ready!(pending.poll(self.inner.engine(), context));
        Poll::Ready(self.finish(result))
    }
}

impl<B: Send + 'static> Drop for Operation<B> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            let kept = Box::new((self.buffer.take(), self.about.take()));
            self.inner.keep(pending, kept);
        }
    }
}
