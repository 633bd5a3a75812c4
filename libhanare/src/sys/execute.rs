//! How a worker executes what it has taken.

use std::sync::atomic::AtomicU32;

use super::call;
use super::interrupt::call_unless;
use super::ring::{Task, Vouched};
use crate::calls::{POSTED, class};
use crate::engine::what::{ALWAYS, CALL, CHAIN, FUNCTION, KIND, LINKS_MAX, Link, is_error};

/// Ends the program where a function is left by an exception, a panic, or the end of its thread
/// (`pthread_exit`). A frame of the ABI "C" does so as well, but lets the last one pass: so this
/// must not be inlined into one.
struct NoWayOut;

impl Drop for NoWayOut {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Calls a function of the program.
#[inline(never)]
fn call_function(args: &[u64; 6]) -> i64 {
    type Function = extern "C-unwind" fn(u64, u64, u64, u64, u64) -> i64;
    if args[0] == 0 {
        return -i64::from(libc::EFAULT);
    }
    // SAFETY: the poster has vouched that it is a function of so many arguments at most; one of
    // fewer ignores registers.
    let function = unsafe { std::mem::transmute::<usize, Function>(args[0] as usize) };
    let no_way_out = NoWayOut;
    let result = function(args[1], args[2], args[3], args[4], args[5]);
    std::mem::forget(no_way_out);
    result
}

/// Makes a call, if it is one that workers make.
#[inline(always)]
fn make_call(asked: &AtomicU32, nr: u64, args: &[u64; 6]) -> i64 {
    if class(nr) != POSTED {
        return -i64::from(libc::EINVAL);
    }
    // SAFETY: the poster has vouched for its arguments, as for those of a call of its own.
    unsafe { call_unless(asked, nr, args) }
}

impl Task {
    /// Executes it: the result. Calls are interrupted when `asked` is not zero.
    #[inline(always)]
    #[must_use]
    pub fn execute(&self, asked: &AtomicU32) -> i64 {
        let (what, args) = (self.0.what, &self.0.args);
        match what & KIND {
            CALL => make_call(asked, u64::from(what as u16), args),
            FUNCTION => call_function(args),
            // SAFETY: the poster has vouched: they lie there until it is done.
            CHAIN => unsafe { execute_chain(args[0] as *mut Link, args[1] as usize, asked) },
            _ => -i64::from(libc::EINVAL),
        }
    }
}

/// Makes a call in the calling thread, for which its poster has vouched.
#[must_use]
pub fn make_at_once(_: Vouched, nr: u64, args: [u64; 6]) -> i64 {
    // SAFETY: the poster's promise.
    unsafe { call(nr, args) }
}

/// Links of a chain that is to be posted.
#[derive(Debug)]
pub struct Links {
    first: *mut Link,
    count: usize,
}

impl Links {
    /// So many links from the first one on.
    ///
    /// # Safety
    /// The links lie there until the chain is done, unless they are none or too many.
    #[must_use]
    pub(super) const unsafe fn new(first: *mut Link, count: usize) -> Self {
        Self { first, count }
    }

    /// Whether the chain may be posted: it has calls, not too many, and each of them may be.
    #[must_use]
    pub fn are_good(&self) -> bool {
        if !(1..=LINKS_MAX).contains(&self.count) || self.first.is_null() {
            return false;
        }
        // SAFETY: `new` was promised that so many are there.
        let all = unsafe { std::slice::from_raw_parts(self.first, self.count) };
        all.iter().enumerate().all(|(index, link)| link.is_good(index))
    }

    /// Arguments to post, and the promise that they are good.
    #[must_use]
    pub fn into_parts(self) -> (Vouched, [u64; 6]) {
        // SAFETY: `new` was promised that they stay.
        let vouched = unsafe { Vouched::new() };
        (vouched, [self.first as u64, self.count as u64, 0, 0, 0, 0])
    }
}

/// # Safety
/// So many links lie there, and stay until this returns.
unsafe fn execute_chain(links: *mut Link, count: usize, asked: &AtomicU32) -> i64 {
    let (mut first_error, mut last) = (0, 0);
    for index in 0..count.min(LINKS_MAX) {
        // SAFETY: the caller's. The program may write to it meanwhile: it is read once, and checked
        // again.
        let link = unsafe { links.add(index).read_volatile() };
        let mut args = link.args;
        let mut has_all = link.is_good(index);
        for (arg, from) in args.iter_mut().zip(link.from) {
            let from = usize::from(from);
            if from != 0 && from <= index {
                // SAFETY: one of those before.
                let earlier = unsafe { (&raw const (*links.add(from - 1)).result).read_volatile() };
                has_all &= !is_error(earlier);
                *arg = earlier as u64;
            }
        }
        let result = if !link.is_good(index) {
            -i64::from(libc::EINVAL)
        } else if has_all && (first_error == 0 || link.flags & ALWAYS != 0) {
            make_call(asked, link.nr.into(), &args)
        } else {
            -i64::from(libc::ECANCELED)
        };
        // SAFETY: as above.
        unsafe { (&raw mut (*links.add(index)).result).write_volatile(result) };
        if is_error(result) && first_error == 0 {
            first_error = result;
        }
        last = result;
    }
    if first_error == 0 { last } else { first_error }
}
