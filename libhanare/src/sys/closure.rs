//! Closures in the form in which they are posted.

use super::ring::Vouched;

/// A closure in the form in which it is posted: a function and its argument. It is called once; if
/// it is not posted, it is not dropped.
#[derive(Debug)]
pub struct Posted {
    function: u64,
    argument: u64,
}

impl Posted {
    /// A closure that borrows nothing.
    pub fn of<F: FnOnce() + Send + 'static>(closure: F) -> Self {
        // SAFETY: what it refers to lasts for ever.
        unsafe { Self::of_borrowing(closure) }
    }

    /// A closure that may borrow.
    ///
    /// # Safety
    /// Memory that the closure borrows stays until its last use there, if it is posted.
    pub(super) unsafe fn of_borrowing<F: FnOnce() + Send>(closure: F) -> Self {
        Self {
            function: run::<F> as *const () as u64,
            argument: Box::into_raw(Box::new(closure)).cast::<()>() as u64,
        }
    }

    /// Function and arguments to post, once.
    #[must_use]
    pub fn into_parts(self) -> (Vouched, u64, [u64; 5]) {
        // SAFETY: the function is `run`, whose argument was made for it, and has an owner no more.
        let vouched = unsafe { Vouched::new() };
        (vouched, self.function, [self.argument, 0, 0, 0, 0])
    }
}

extern "C-unwind" fn run<F: FnOnce()>(closure: *mut F) -> i64 {
    // SAFETY: `of_borrowing` has made it for one call, and a ring gives each submission out once.
    let closure = *unsafe { Box::from_raw(closure) };
    closure();
    0
}
