//! The `syscall` instruction of x86-64 Linux, and the errors that it returns.
//!
//! Programs without a C library, and libraries that must not go through one, make their calls by
//! [`syscall`]. Each of them wraps it in functions whose types say what a call reads and writes.
//! Other instructions of this kind stand in naked functions and `global_asm!`, where registers
//! have to be as no Rust function leaves them.
#![no_std]

use core::arch::asm;

/// Largest error number: results from `-ERRNO_MAX` to -1 are errors.
pub const ERRNO_MAX: i64 = 4095;

/// Makes a system call. Returns `rax`: the call's value, or an error number below zero.
///
/// # Safety
/// The arguments have to be good for this call: addresses among them valid for what it reads and
/// writes, and memory that it takes away or protects unknown to Rust.
#[inline(always)] // one instruction, with the arguments in its registers
pub unsafe fn syscall(number: u64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller answers for the arguments. Linux keeps all registers but rax, rcx and
    // r11, and the caller's stack.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
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

/// Splits the result of [`syscall`] into a value and an error number, which is positive.
///
/// # Errors
/// The error number of a call that failed.
#[inline]
pub const fn check(result: i64) -> Result<u64, u16> {
    if -ERRNO_MAX <= result && result < 0 {
        Err(-result as u16) // at most 4095
    } else {
        Ok(result as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mmap` and `munmap`, whose six arguments and results are wider than 32 bits.
    #[test]
    fn arguments_and_results_are_whole_registers() {
        const MMAP: u64 = 9;
        const MUNMAP: u64 = 11;
        const READ_WRITE: u64 = 3;
        const PRIVATE_ANONYMOUS_FIXED: u64 = 0x10_0022; // MAP_FIXED_NOREPLACE
        let place = 0x5a5a_0000_0000;
        let args = [place, 4096, READ_WRITE, PRIVATE_ANONYMOUS_FIXED, u64::MAX, 0];
        // SAFETY: the mapping is new, where there was none.
        assert_eq!(check(unsafe { syscall(MMAP, args) }), Ok(place));
        // SAFETY: the mapping is this test's.
        assert_eq!(check(unsafe { syscall(MUNMAP, [place, 4096, 0, 0, 0, 0]) }), Ok(0));
    }

    #[test]
    fn errors_are_positive_numbers() {
        const CLOSE: u64 = 3;
        const EBADF: u16 = 9;
        // SAFETY: the number is no descriptor's.
        let result = unsafe { syscall(CLOSE, [u64::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!((result, check(result)), (-9, Err(EBADF)));
        assert_eq!(check(-ERRNO_MAX), Err(4095));
        assert_eq!(check(-ERRNO_MAX - 1), Ok(-4096_i64 as u64)); // an address, of a kernel's
        assert_eq!((check(-1), check(0), check(i64::MAX)), (Err(1), Ok(0), Ok(i64::MAX as u64)));
    }
}
