//! One system call: the instruction, and what it returns.

use core::arch::asm;

/// A positive errno.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub u32);

/// Result of a system call: its value, or an error number.
pub type Result<T> = core::result::Result<T, Errno>;

/// Splits what the `syscall` instruction leaves in `rax` into value and error.
pub(super) fn check(result: i64) -> Result<u64> {
    if (-4095..0).contains(&result) { Err(Errno(-result as u32)) } else { Ok(result as u64) }
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
    let result: i64;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") u64::from(nr) => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Zero or -errno: what the system call returns that ends like this.
pub fn code(result: Result<()>) -> i64 {
    result.map_or_else(|error| -i64::from(error.0), |()| 0)
}
