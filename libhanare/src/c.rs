//! The functions of `hanare.h`.
//!
//! A queue that they are given came from [`hanare_queue_create`], whose caller says which threads
//! use it, and that none does once it is destroyed. Those that are `unsafe` are given addresses,
//! or calls and functions that have them as arguments.
#![allow(unsafe_code, reason = "attributes of exports; code that is unsafe stands in `sys`")]
#![allow(clippy::missing_safety_doc, reason = "hanare.h and the man pages say it")]

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use crate::calls::{AT_ONCE, POSTED, class, why};
use crate::engine::attributes::Attributes;
use crate::engine::queue::Queue;
use crate::engine::submit::as_int;
use crate::engine::{Error, cancel, fork};
pub use crate::sys::exports::{
    hanare_call5, hanare_queue_create, hanare_queue_destroy, hanare_submit_batch,
    hanare_submit_chain, hanare_submit6,
};

/// Sets all attributes to their defaults: `hanare_attributes_init(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_attributes_init(attributes: &mut MaybeUninit<Attributes>) {
    attributes.write(Attributes::default());
}

/// Waits until all that was posted is done: `hanare_drain(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_drain(queue: &Queue, timeout_ns: i64) -> c_int {
    as_int(queue.drain(timeout_ns))
}

/// Counts the workers that run on Linux beside an LWK: `hanare_queue_remote(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_queue_remote(queue: &Queue) -> c_int {
    queue.workers.iter().map(|worker| c_int::from(worker.is_remote())).sum()
}

/// Explains why a system call is not posted: `hanare_why(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_why(nr: c_int) -> *const c_char {
    why(nr).map_or(std::ptr::null(), std::ffi::CStr::as_ptr)
}

/// Tells whether a system call may be posted: `hanare_may_submit(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_may_submit(nr: c_int) -> c_int {
    match u64::try_from(nr).map_or(0, class) {
        POSTED => 2,
        AT_ONCE => 1,
        _ => 0,
    }
}

/// Picks a result up, if it is there: `hanare_poll(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_poll(queue: &Queue, ticket: u64, result: &mut i64) -> c_int {
    match queue.poll(ticket) {
        Some(found) => {
            *result = found as i64;
            0
        }
        None => poll_long(queue, ticket, result),
    }
}

#[cold]
#[inline(never)]
fn poll_long(queue: &Queue, ticket: u64, result: &mut i64) -> c_int {
    as_int(queue.poll_any(ticket).map(|found| *result = found))
}

/// Waits for a result and picks it up: `hanare_wait(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_wait(
    queue: &Queue,
    ticket: u64,
    result: Option<&mut i64>,
    timeout_ns: i64,
) -> c_int {
    let found = queue.wait(ticket, timeout_ns);
    as_int(found.map(|found| {
        if let Some(result) = result {
            *result = found;
        }
    }))
}

/// `struct hanare_completion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "as in hanare.h")]
pub struct Completion {
    pub ticket: i64,
    pub result: i64,
}

/// Waits for the next result of those with HANARE_NEXT: `hanare_next(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_next(
    queue: &Queue,
    completion: &mut MaybeUninit<Completion>,
    timeout_ns: i64,
) -> c_int {
    let found = queue.next_finished(timeout_ns);
    as_int(found.map(|(ticket, result)| {
        completion.write(Completion { ticket: ticket as i64, result });
    }))
}

/// Returns the descriptor that tells of such results: `hanare_eventfd(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_eventfd(queue: &Queue) -> c_int {
    queue.descriptor().unwrap_or_else(|Error(number)| -number)
}

/// Cancels a submission: `hanare_cancel(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_cancel(queue: &Queue, ticket: u64) -> c_int {
    as_int(queue.cancel(ticket))
}

/// Tells a posted function whether it was cancelled: `hanare_cancelled(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_cancelled() -> c_int {
    cancel::is_cancelled().into()
}

/// Chooses the signal that interrupts workers: `hanare_set_signal(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_set_signal(signal: c_int) -> c_int {
    as_int(fork::set_signal(signal))
}

/// Counts the detached submissions that ended with an error: `hanare_errors(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_errors(queue: &Queue, error: Option<&mut c_int>) -> u64 {
    if let Some(error) = error {
        *error = queue.last_error.load(Ordering::Relaxed);
    }
    let of_workers = queue.workers.iter().map(|worker| worker.errors.load(Ordering::Relaxed));
    of_workers.sum::<u64>() + queue.errors_at_once.load(Ordering::Relaxed)
}

/// For tests of this library: where a piece lies that workers read, and how many words it has. It
/// is in the archive only.
#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn hanare_test_words(queue: &Queue, piece: u32, words: &mut usize) -> *const u64 {
    let (start, bytes) = queue.piece(piece).unwrap_or((std::ptr::null(), 0));
    *words = bytes / size_of::<u64>();
    start
}
