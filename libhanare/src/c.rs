//! The functions of `hanare.h`.
#![allow(clippy::missing_safety_doc, reason = "hanare.h and the man pages say it")]

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::calls::{AT_ONCE, POSTED, class, why};
use crate::engine::attributes::Attributes;
use crate::engine::batch::Request;
use crate::engine::execute::Link;
use crate::engine::queue::Queue;
use crate::engine::submit::{Rest, as_word, queue_of};
use crate::engine::{Error, cancel, fork};

type Handle = NonNull<Queue>;

fn as_int(result: Result<(), Error>) -> c_int {
    result.map_or_else(|Error(number)| -number, |()| 0)
}

/// Sets all attributes to their defaults: `hanare_attributes_init(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_attributes_init(attributes: *mut Attributes) {
    // SAFETY: the caller says that it is one.
    unsafe { attributes.write(Attributes::default()) };
}

/// Makes a queue: `hanare_queue_create(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_create(
    queue: *mut Option<Handle>,
    attributes: *const Attributes,
) -> c_int {
    // SAFETY: the caller says that they are what they are.
    let made = unsafe {
        Attributes::read(attributes)
            .and_then(|attributes| Queue::create(attributes, attributes.cpus()))
    };
    match made {
        Ok(made) => {
            // SAFETY: the caller says that there is room.
            unsafe { queue.write(Some(made)) };
            0
        }
        Err(Error(number)) => -number,
    }
}

/// Ends a queue: `hanare_queue_destroy(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_destroy(queue: Option<Handle>) -> c_int {
    // SAFETY: the caller says that nobody uses it.
    queue.map_or(0, |queue| as_int(unsafe { Queue::destroy(queue) }))
}

/// Waits until all that was posted is done: `hanare_drain(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_drain(queue: Handle, timeout_ns: i64) -> c_int {
    // SAFETY: the caller's queue.
    as_int(unsafe { queue_of(queue) }.drain(timeout_ns))
}

/// Counts the workers that run on Linux beside an LWK: `hanare_queue_remote(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_remote(queue: Handle) -> c_int {
    // SAFETY: the caller's queue.
    let workers = unsafe { &queue_of(queue).workers };
    workers.iter().map(|worker| c_int::from(worker.is_remote())).sum()
}

/// Posts a system call: `hanare_submit(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_submit6(
    queue: Handle,
    what: u64,
    arg0: u64,
    arg1: u64,
    arg2: u64,
    arg3: u64,
    args4_and_5: Rest,
) -> i64 {
    // SAFETY: the caller's queue.
    unsafe { queue_of(queue) }.submit(what, arg0, arg1, arg2, arg3, args4_and_5)
}

/// Posts a function: `hanare_call(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_call5(
    queue: Handle,
    flags: u64,
    function: usize,
    arg0: u64,
    arg1: u64,
    arg2: u64,
    args3_and_4: Rest,
) -> i64 {
    // SAFETY: the caller's queue.
    let queue = unsafe { queue_of(queue) };
    queue.call_short(flags, function as u64, arg0, arg1, arg2, args3_and_4)
}

/// Posts several system calls: `hanare_submit_batch(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_submit_batch(
    queue: Handle,
    requests: *const Request,
    count: usize,
    tickets: *mut i64,
) -> c_int {
    let count = count.min(c_int::MAX as usize);
    // SAFETY: the caller says that so many are there, and the queue is the caller's.
    let (queue, requests) = unsafe {
        let requests = if count == 0 { &[] } else { std::slice::from_raw_parts(requests, count) };
        (queue_of(queue), requests)
    };
    let posted = queue.submit_batch(requests, |index, ticket| {
        if !tickets.is_null() {
            // SAFETY: the caller says that there is room for so many.
            unsafe { tickets.add(index).write(ticket) };
        }
    });
    posted.map_or_else(|Error(number)| -number, |count| count as c_int)
}

/// Posts a chain of system calls: `hanare_submit_chain(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_submit_chain(
    queue: Handle,
    flags: u64,
    links: *mut Link,
    count: usize,
) -> i64 {
    // SAFETY: the caller says that the links stay, and the queue is the caller's.
    as_word(unsafe { queue_of(queue).submit_chain(flags, links, count) })
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
pub unsafe extern "C" fn hanare_poll(queue: Handle, ticket: u64, result: &mut i64) -> c_int {
    // SAFETY: the caller's queue.
    match unsafe { queue_of(queue) }.poll(ticket) {
        Some(found) => {
            *result = found as i64;
            0
        }
        None => poll_long(queue, ticket, result),
    }
}

#[cold]
#[inline(never)]
fn poll_long(queue: Handle, ticket: u64, result: &mut i64) -> c_int {
    // SAFETY: as in `hanare_poll`.
    let found = unsafe { queue_of(queue) }.poll_any(ticket);
    as_int(found.map(|found| *result = found))
}

/// Waits for a result and picks it up: `hanare_wait(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait(
    queue: Handle,
    ticket: u64,
    result: Option<&mut i64>,
    timeout_ns: i64,
) -> c_int {
    // SAFETY: the caller's queue.
    let found = unsafe { queue_of(queue) }.wait(ticket, timeout_ns);
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
pub unsafe extern "C" fn hanare_next(
    queue: Handle,
    completion: *mut Completion,
    timeout_ns: i64,
) -> c_int {
    // SAFETY: the caller's queue.
    let found = unsafe { queue_of(queue) }.next_finished(timeout_ns);
    as_int(found.map(|(ticket, result)| {
        // SAFETY: the caller says that there is room.
        unsafe { completion.write(Completion { ticket: ticket as i64, result }) };
    }))
}

/// Returns the descriptor that tells of such results: `hanare_eventfd(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_eventfd(queue: Handle) -> c_int {
    // SAFETY: the caller's queue.
    unsafe { queue_of(queue) }.descriptor().unwrap_or_else(|Error(number)| -number)
}

/// Cancels a submission: `hanare_cancel(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_cancel(queue: Handle, ticket: u64) -> c_int {
    // SAFETY: the caller's queue.
    as_int(unsafe { queue_of(queue) }.cancel(ticket))
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
pub unsafe extern "C" fn hanare_errors(queue: Handle, error: Option<&mut c_int>) -> u64 {
    // SAFETY: the caller's queue.
    let queue = unsafe { queue_of(queue) };
    if let Some(error) = error {
        *error = queue.last_error.load(Ordering::Relaxed);
    }
    let of_workers = queue.workers.iter().map(|worker| worker.errors.load(Ordering::Relaxed));
    of_workers.sum::<u64>() + queue.errors_at_once.load(Ordering::Relaxed)
}

/// For tests of this library: where a piece lies that workers read, and how many words it has. It is in the archive only.
#[doc(hidden)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_test_words(
    queue: Handle,
    piece: u32,
    words: &mut usize,
) -> *const u64 {
    // SAFETY: the caller's queue.
    let (start, bytes) = unsafe { queue_of(queue) }.piece(piece).unwrap_or((std::ptr::null(), 0));
    *words = bytes / size_of::<u64>();
    start
}
