//! Memory of the program, at addresses that it gave to its calls.
//!
//! Memory that is read or written here was found readable, or the kernel has just been there by the
//! same call. Memory that another thread of the program takes away meanwhile ends the program:
//! without the library, its call would have failed.

use std::arch::asm;

use libc::c_int;

use super::call::{call, make};
use super::signals::{Action, Mask};
use crate::calls::Arguments;

/// Whether the kernel can read a byte there, tried by a call that does nothing else.
pub fn is_readable(address: u64) -> bool {
    // No such `how`: the set is read first, then that is refused. The set is 8 bytes within a page.
    let args = [99, address & !7, 0, 8, 0, 0];
    // SAFETY: It changes nothing.
    let result = unsafe { call(libc::SYS_rt_sigprocmask, args) };
    result == i64::from(-libc::EINVAL)
}

/// The word there, if it can be read.
pub fn word_at(address: u64) -> Option<u64> {
    let is_within = address & 7 == 0; // what was tried
    (is_readable(address) && (is_within || is_readable(address + 7)))
        // SAFETY: Its first byte and its last can be read.
        .then(|| unsafe { (address as *const u64).read_unaligned() })
}

/// Copies words of the program, which were found readable.
pub fn copy_of(start: u64, words: &mut [u64]) {
    // SAFETY: There is room for so many bytes; that they can be read the caller has tried.
    unsafe { copy(start as *const u8, words.as_mut_ptr().cast(), size_of_val(words)) };
}

/// Copies with one instruction, which needs no registers that a system call keeps.
///
/// # Safety
///
/// As [`std::ptr::copy_nonoverlapping`] says.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: The caller's.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// Flags of a clone, and the pointer of the thread that it makes; `None`: the kernel cannot read
/// them.
pub fn clone_of(nr: i64, args: &Arguments) -> Option<(u64, u64)> {
    if nr != libc::SYS_clone3 {
        return Some((args[0], args[4]));
    }
    if !is_readable(args[0]) || args[1] < 64 {
        return None;
    }
    let words = args[0] as *const u64;
    // SAFETY: The C library's structure; flags are its first word, the pointer its eighth.
    Some(unsafe { (words.read_unaligned(), words.add(7).read_unaligned()) })
}

/// Makes `rt_sigprocmask` of the program. Its result, and the set that it names.
pub fn make_mask(args: &Arguments) -> (i64, Option<Mask>) {
    let result = make(libc::SYS_rt_sigprocmask, args);
    let has_set = result == 0 && args[1] != 0;
    // SAFETY: The kernel has just read it.
    (result, has_set.then(|| unsafe { (args[1] as *const Mask).read_unaligned() }))
}

/// Actions that `rt_sigaction` of the program sets and asks for.
pub struct Actions {
    /// Action that is set.
    pub new: Option<Action>,
    old: *mut Action,
}

impl Actions {
    /// The actions that a call points to; `None`: the kernel cannot read them.
    pub fn of(args: &Arguments) -> Option<Self> {
        let size = size_of::<Action>() as u64 - 1;
        let is_there = |at: u64| at == 0 || is_readable(at) && is_readable(at + size);
        if args[3] != 8 || !is_there(args[1]) || !is_there(args[2]) {
            return None;
        }
        // SAFETY: The kernel could read it.
        let new = (args[1] != 0).then(|| unsafe { (args[1] as *const Action).read_unaligned() });
        Some(Self { new, old: args[2] as *mut Action })
    }

    /// Tells the program what was set before, if it asks.
    pub fn answer(&self, old: Action) {
        if !self.old.is_null() {
            // SAFETY: The C library's structure, on its stack; it was readable.
            unsafe { self.old.write_unaligned(old) };
        }
    }
}

/// Whether `poll` or `epoll_wait` of the program has returned such an event.
pub fn has_event(nr: i64, args: &Arguments, result: i64, events: u32) -> bool {
    if nr == libc::SYS_poll {
        let entries = args[0] as *const libc::pollfd;
        // SAFETY: The kernel has just written there: results stand in all entries.
        let has = |at| unsafe { (*entries.add(at)).revents as u32 & events != 0 };
        (0..args[1] as u32 as usize).any(has)
    } else {
        let entries = args[1] as *const libc::epoll_event;
        // SAFETY: The kernel has just written so many there.
        let has = |at| unsafe { entries.add(at).read_unaligned().events & events != 0 };
        (0..result as usize).any(has)
    }
}

/// Puts the error of a socket where `getsockopt` of the program has written that there is none.
pub fn tell_error(args: &Arguments, error: impl FnOnce() -> c_int) {
    let (value, size) = (args[3] as *mut c_int, args[4] as *const u32);
    // SAFETY: The kernel has just written there: it has a size of 4 at least, or wrote less.
    unsafe {
        if size.read_unaligned() == 4 && value.read_unaligned() == 0 {
            value.write_unaligned(error());
        }
    }
}
