//! Descriptors that are added to, read and waited for.

use std::ffi::c_int;

use super::call;

/// An eventfd, or a negative error.
#[must_use]
pub fn eventfd() -> c_int {
    // SAFETY: no memory is concerned.
    unsafe { call(libc::SYS_eventfd2 as u64, [0, libc::EFD_CLOEXEC as u64, 0, 0, 0, 0]) as c_int }
}

/// Adds one to an eventfd. The call is one that workers make on Linux.
pub fn ring(fd: c_int) {
    let one = 1_u64;
    // SAFETY: it reads eight bytes.
    unsafe { call(libc::SYS_write as u64, [fd as u64, &raw const one as u64, 8, 0, 0, 0]) };
}

/// Waits until an eventfd was added to, and makes it zero. `false`: the descriptor is none any
/// more.
pub fn await_ring(fd: c_int) -> bool {
    let mut count = 0_u64;
    loop {
        // SAFETY: it writes eight bytes.
        let got =
            unsafe { call(libc::SYS_read as u64, [fd as u64, &raw mut count as u64, 8, 0, 0, 0]) };
        match got {
            8 => return true,
            error if error == -i64::from(libc::EINTR) => {}
            _ => return false,
        }
    }
}

/// Waits until a descriptor is readable, so many nanoseconds at most (rounded up to milliseconds),
/// or until a signal comes.
#[must_use]
pub fn is_readable(fd: c_int, timeout_ns: u64) -> bool {
    let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = timeout_ns.div_ceil(1_000_000).min(c_int::MAX as u64);
    // SAFETY: it reads and writes one structure.
    let got = unsafe { call(libc::SYS_poll as u64, [&raw mut one as u64, 1, ms, 0, 0, 0]) };
    got == 1
}

/// Closes a descriptor of the library's.
pub fn close(fd: c_int) {
    if fd >= 0 {
        // SAFETY: no memory is concerned; the descriptor is the library's.
        unsafe { call(libc::SYS_close as u64, [fd as u64, 0, 0, 0, 0, 0]) };
    }
}
