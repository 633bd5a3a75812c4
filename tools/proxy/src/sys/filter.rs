//! `Control::Filter`: Linux judges this worker's calls by a filter of its program's, too.

use core::sync::atomic::{AtomicU64, Ordering};

use hanare_abi::control::FILTER_PART;
use hanare_abi::layout::{CONTROL_BASE, CONTROL_END};
use linux_raw_sys::errno::EINVAL;
use linux_raw_sys::general::*;
use linux_raw_sys::prctl::PR_SET_NO_NEW_PRIVS;
use linux_raw_sys::ptrace::SECCOMP_SET_MODE_FILTER;

use super::call::{Errno, Result, check, plain, raw_call};

/// Bytes of an instruction, and of the longest filter.
const ONE: u64 = 8;
const LONGEST: u64 = 4096 * ONE;

/// A filter that comes in parts: the address of memory of [`LONGEST`] bytes, or 0.
#[repr(transparent)]
pub struct Filter(AtomicU64);

/// One of its parts, as of `Control::Filter`.
pub struct Part {
    /// Address in the control window.
    pub at: u64,
    /// Bytes of this part.
    pub bytes: u64,
    /// Bytes of the filter before this part.
    pub before: u64,
    /// Bytes of the whole filter.
    pub whole: u64,
}

impl Filter {
    /// No part has come.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes a part, and sets the filter with the last one. `flags`, `confine`: as of
    /// `Control::Filter`.
    pub fn take(&self, part: &Part, flags: u64, confine: bool) -> Result<u64> {
        let result = self.take_part(part, flags, confine);
        let is_last = part.bytes.checked_add(part.before) == Some(part.whole);
        let at = self.0.load(Ordering::Relaxed);
        if at != 0 && (is_last || result.is_err()) {
            let _ = plain(__NR_munmap, [at, LONGEST, 0, 0, 0, 0]);
            self.0.store(0, Ordering::Relaxed);
        }
        result
    }

    fn take_part(&self, part: &Part, flags: u64, confine: bool) -> Result<u64> {
        let Part { at: from, bytes, before, whole: all } = *part;
        let window = CONTROL_BASE..=CONTROL_END - FILTER_PART as u64;
        if bytes > FILTER_PART as u64
            || all > LONGEST
            || before > all
            || bytes > all - before
            || !window.contains(&from)
        {
            return Err(Errno(EINVAL));
        }
        // One that was given up half-way has left its memory.
        if before == 0 && self.0.load(Ordering::Relaxed) == 0 {
            let (protection, kind) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
            let at = plain(__NR_mmap, [0, LONGEST, protection.into(), kind.into(), u64::MAX, 0])?;
            self.0.store(at, Ordering::Relaxed);
        }
        let at = self.0.load(Ordering::Relaxed);
        if at == 0 {
            return Err(Errno(EINVAL));
        }
        // SAFETY: the part lies in the window, where nothing is borrowed, and ends within the
        // memory that was mapped with the first part.
        unsafe {
            core::ptr::copy_nonoverlapping(
                from as *const u8,
                (at + before) as *mut u8,
                bytes as usize,
            )
        };
        if before + bytes < all {
            return Ok(0);
        }
        if confine {
            plain(__NR_prctl, [PR_SET_NO_NEW_PRIVS.into(), 1, 0, 0, 0, 0])?;
        }
        let program = [all / ONE, at];
        // SAFETY: Linux only reads: `struct sock_fprog`, and the instructions that it names.
        check(unsafe {
            raw_call(
                __NR_seccomp,
                [SECCOMP_SET_MODE_FILTER.into(), flags, program.as_ptr() as u64, 0, 0, 0],
            )
        })
    }
}
