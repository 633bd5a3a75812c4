//! One system call, and what it returns.

/// A positive errno.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub u32);

/// Result of a system call: its value, or an error number.
pub type Result<T> = core::result::Result<T, Errno>;

/// Splits what the `syscall` instruction leaves in `rax` into value and error.
pub(super) fn check(result: i64) -> Result<u64> {
    hanare_syscall::check(result).map_err(|number| Errno(number.into()))
}

/// A call none of whose arguments is a pointer.
pub(super) fn plain(nr: u32, args: [u64; 6]) -> Result<u64> {
    // SAFETY: used only for calls that take no address of ours.
    check(unsafe { raw_call(nr, args) })
}

/// One system call.
///
/// # Safety
/// As the call: pointers must be valid for what it reads and writes.
pub(super) unsafe fn raw_call(nr: u32, args: [u64; 6]) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { hanare_syscall::syscall(nr.into(), args) }
}

/// Zero or -errno: what the system call returns that ends like this.
pub fn code(result: Result<()>) -> i64 {
    result.map_or_else(|error| -i64::from(error.0), |()| 0)
}
