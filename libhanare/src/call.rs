//! Closures that workers call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::completion::Completion;
use crate::sys::{Taker, slot};

/// A closure that was posted: a future of what it returns. Dropping it drops the result only: the
/// closure is called.
#[must_use = "or let its result go by `drop`"]
pub struct Call<T> {
    completion: Arc<Completion>,
    result: Taker<T>,
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Call {{ is_done: {} }}", self.is_done())
    }
}

impl<T> Call<T> {
    /// Whether the call has returned.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.completion.is_done()
    }

    /// Waits until it has returned.
    ///
    /// # Panics
    /// If its result was taken by a future's poll.
    pub fn join(mut self) -> T {
        self.completion.wait();
        self.result.take().expect("a result is taken once")
    }
}

impl<T> Future for Call<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.is_done() {
            self.completion.enter(context.waker());
            if !self.is_done() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.result.take().expect("a future is not polled after it was ready"))
    }
}

/// Makes of a closure the one to post, the future of its result, and its completion. The first
/// tells of the completion when nothing of the closure is left, nor, if no caller wants it, of its
/// result: what it borrows may be gone then.
pub fn task<F, T>(function: F) -> (impl FnOnce() + Send, Call<T>, Arc<Completion>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let (giver, result) = slot();
    let completion = Arc::new(Completion::default());
    let of_worker = completion.clone();
    let posted = move || {
        giver.put(function());
        of_worker.finish();
    };
    (posted, Call { completion: completion.clone(), result }, completion)
}
