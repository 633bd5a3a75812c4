//! The instruction, and what it returns.

use crate::calls::Arguments;

/// An error number, above 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// Makes a call.
///
/// # Safety
///
/// As the call says of its arguments.
pub(super) unsafe fn call(nr: i64, args: [u64; 6]) -> i64 {
    // SAFETY: The caller's.
    unsafe { hanare_syscall::syscall(nr as u64, args) }
}

/// Like [`call`], with an error as `Err`.
///
/// # Safety
///
/// As the call says of its arguments.
pub(super) unsafe fn checked(nr: i64, args: [u64; 6]) -> Result<u64, Errno> {
    // SAFETY: The caller's.
    match unsafe { call(nr, args) } {
        result @ 0.. => Ok(result as u64),
        error => Err(Errno(-error as i32)),
    }
}

/// Makes the call of the program, from here.
pub fn make(nr: i64, args: &Arguments) -> i64 {
    // SAFETY: The program makes it with these arguments; what it does to memory that is not the
    // program's, it would do anyway.
    unsafe { call(nr, *args) }
}
