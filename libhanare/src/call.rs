//! Closures that workers call.

use std::cell::UnsafeCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::completion::Completion;

/// Place for the result of a closure.
struct State<T> {
    completion: Arc<Completion>,
    slot: UnsafeCell<Option<T>>,
}

// SAFETY: the slot is the worker's until the completion says that it is done, and then that of the one `Call`.
unsafe impl<T: Send> Sync for State<T> {}
// SAFETY: likewise.
unsafe impl<T: Send> Send for State<T> {}

/// A closure that was posted: a future of what it returns. Dropping it drops the result only: the closure is called.
#[must_use = "or let its result go by `drop`"]
pub struct Call<T> {
    state: Arc<State<T>>,
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Call {{ is_done: {} }}", self.is_done())
    }
}

impl<T> Call<T> {
    /// Whether it has returned.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state.completion.is_done()
    }

    /// Waits until it has returned.
    ///
    /// # Panics
    /// If its result was taken by a future's poll.
    pub fn join(self) -> T {
        self.state.completion.wait();
        self.take().expect("a result is taken once")
    }

    fn take(&self) -> Option<T> {
        // SAFETY: it is done, so the worker does not write any more; there is one `Call`, and it is not shared while this runs,
        // since `join` and `poll` have it alone.
        unsafe { (*self.state.slot.get()).take() }
    }
}

impl<T> Future for Call<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.is_done() {
            self.state.completion.enter(context.waker());
            if !self.is_done() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.take().expect("a future is not polled after it was ready"))
    }
}

/// A closure on its way to a worker.
struct Task<F, T> {
    function: F,
    state: Arc<State<T>>,
}

/// Makes of a closure the function and argument to post, and the future of its result. The poster
/// ensures that borrows of the closure last until the completion says that it is done.
pub fn task<F: FnOnce() -> T + Send, T: Send>(function: F) -> (Posted, Call<T>) {
    let completion = Arc::new(Completion::default());
    let state = Arc::new(State { completion, slot: UnsafeCell::new(None) });
    let task = Box::new(Task { function, state: state.clone() });
    let posted = Posted {
        function: run::<F, T> as *const () as u64,
        argument: Box::into_raw(task).cast::<()>() as u64,
        completion: state.completion.clone(),
    };
    (posted, Call { state })
}

/// A closure in the form in which it is posted, made by [`task`].
#[derive(Debug)]
pub struct Posted {
    /// Address of the function that the worker calls.
    pub function: u64,
    /// Argument of the function: the closure.
    pub argument: u64,
    /// Completion that says when the function has returned.
    pub completion: Arc<Completion>,
}

extern "C-unwind" fn run<F: FnOnce() -> T, T>(task: *mut Task<F, T>) -> i64 {
    // SAFETY: `task` has made it for one call.
    let Task { function, state } = *unsafe { Box::from_raw(task) };
    let result = function();
    // SAFETY: nobody looks into the slot until it is done.
    unsafe { *state.slot.get() = Some(result) };
    let completion = state.completion.clone();
    // What the closure borrows may be gone when it is done: nothing of it is left here then, nor of its result.
    drop(state);
    completion.finish();
    0
}
