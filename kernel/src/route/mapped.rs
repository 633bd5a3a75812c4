//! Mapped arguments: the worker has the program's memory at the same addresses. Pages that a call
//! touches and Linux has not seen are offered first, so that the worker does not fault.

use crate::mm::fault::offer;
use crate::process::thread::Thread;
use hanare_core::syscalls::pointers;

/// Offers what call `number` of the running thread `me` touches.
#[inline(always)] // every delegated call of a program that has pointers
pub fn offer(me: &Thread, number: u32, args: &[u64; 6]) {
    let pointers = pointers::of_call(number as usize);
    offer::before_call(&me.caller(), &me.handed, pointers, args);
}
