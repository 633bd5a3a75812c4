//! Functions of `hanare.h` that are given addresses, or calls and functions that have them as
//! arguments. [`crate::c`] has the others.
#![allow(clippy::missing_safety_doc, reason = "hanare.h and the man pages say it")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::execute::Links;
use super::mapped::Owner;
use super::ring::Vouched;
use crate::engine::Error;
use crate::engine::attributes::Attributes;
use crate::engine::batch::Request;
use crate::engine::queue::Queue;
use crate::engine::submit::{Rest, as_int, as_word};
use crate::engine::what::Link;

type Handle = NonNull<Queue>;

/// Makes a queue: `hanare_queue_create(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_create(
    queue: &mut MaybeUninit<Option<Handle>>,
    attributes: *const Attributes,
) -> c_int {
    // SAFETY: the caller says that they are what they are.
    let read = unsafe { Attributes::read(attributes) };
    let made = read.and_then(|(attributes, cpus)| Queue::create(attributes, cpus));
    match made {
        Ok(made) => {
            queue.write(Some(made.into_handle()));
            0
        }
        Err(Error(number)) => -number,
    }
}

/// Ends a queue: `hanare_queue_destroy(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_queue_destroy(queue: Option<Handle>) -> c_int {
    let Some(queue) = queue else { return 0 };
    // SAFETY: the caller says that it came from `hanare_queue_create`, and that no thread uses it.
    let queue = unsafe { Owner::from_handle(queue) };
    as_int(Queue::destroy(queue).map_err(|(error, queue)| {
        // It is there still.
        let _ = queue.into_handle();
        error
    }))
}

/// Posts a system call: `hanare_submit(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_submit6(
    queue: &Queue,
    what: u64,
    arg0: u64,
    arg1: u64,
    arg2: u64,
    arg3: u64,
    args4_and_5: Rest,
) -> i64 {
    // SAFETY: the caller says that the arguments are good, as for a call of its own.
    let vouched = unsafe { Vouched::new() };
    queue.submit(vouched, what, arg0, arg1, arg2, arg3, args4_and_5)
}

/// Posts a function: `hanare_call(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_call5(
    queue: &Queue,
    flags: u64,
    function: usize,
    arg0: u64,
    arg1: u64,
    arg2: u64,
    args3_and_4: Rest,
) -> i64 {
    // SAFETY: the caller says that the function is one of such arguments.
    let vouched = unsafe { Vouched::new() };
    queue.call_short(vouched, flags, function as u64, arg0, arg1, arg2, args3_and_4)
}

/// Posts several system calls: `hanare_submit_batch(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_submit_batch(
    queue: &Queue,
    requests: *const Request,
    count: usize,
    tickets: *mut i64,
) -> c_int {
    let count = count.min(c_int::MAX as usize);
    let requests = match count {
        0 => &[],
        // SAFETY: the caller says that so many are there.
        _ => unsafe { std::slice::from_raw_parts(requests, count) },
    };
    // SAFETY: the caller says that the arguments are good, as for a call of its own.
    let vouched = unsafe { Vouched::new() };
    let posted = queue.submit_batch(vouched, requests, |index, ticket| {
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
    queue: &Queue,
    flags: u64,
    links: *mut Link,
    count: usize,
) -> i64 {
    // SAFETY: the caller says that the links stay.
    let links = unsafe { Links::new(links, count) };
    as_word(queue.submit_chain(flags, links))
}
