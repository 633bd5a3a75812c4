//! Pages of the library's own, and how they are protected.

use super::call::{Errno, call, checked};

/// Size of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Maps private memory where there is none; `false`: something is there.
pub(super) fn map_at(place: u64, size: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let args =
        [place, size, (libc::PROT_READ | libc::PROT_WRITE) as u64, flags as u64, u64::MAX, 0];
    // SAFETY: MAP_FIXED_NOREPLACE replaces nothing.
    match unsafe { checked(libc::SYS_mmap, args) } {
        Ok(at) if at == place => true,
        Ok(at) => {
            // A kernel that does not know the flag: what it mapped is ours.
            // SAFETY: No other code knows of it.
            let _ = unsafe { call(libc::SYS_munmap, [at, size, 0, 0, 0, 0]) };
            false
        }
        Err(_) => false,
    }
}

/// Maps private memory.
pub(super) fn map(size: u64) -> Result<u64, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let args = [0, size, (libc::PROT_READ | libc::PROT_WRITE) as u64, flags as u64, u64::MAX, 0];
    // SAFETY: It replaces nothing.
    unsafe { checked(libc::SYS_mmap, args) }
}

/// Gives mapped memory back.
///
/// # Safety
/// The memory came from [`map`], and nothing uses it any more.
pub(super) unsafe fn unmap(start: u64, size: u64) {
    // SAFETY: The caller's.
    let _ = unsafe { call(libc::SYS_munmap, [start, size, 0, 0, 0, 0]) };
}

/// Changes the protection of pages.
///
/// # Safety
/// The pages are the library's, or text that stays readable and executable.
pub(super) unsafe fn protect(start: u64, size: u64, protection: i32) -> Result<(), Errno> {
    // SAFETY: The caller's.
    unsafe { checked(libc::SYS_mprotect, [start, size, protection as u64, 0, 0, 0]) }.map(drop)
}
