//! Descriptors, paths and limits.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::call::{Errno, call, checked};

/// `fstat`.
pub fn stat_of(fd: i32) -> Result<libc::stat, Errno> {
    // SAFETY: All zeroes is one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let at = (&raw mut stat) as u64;
    // SAFETY: It fills the structure.
    unsafe { checked(libc::SYS_fstat, [fd as u64, at, 0, 0, 0, 0]) }?;
    Ok(stat)
}

/// `stat` of a path, below a folder if it is relative.
pub fn stat_at(folder: u64, path: u64) -> Result<libc::stat, Errno> {
    // SAFETY: All zeroes is one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let at = (&raw mut stat) as u64;
    // SAFETY: The kernel reads the path, and fills the structure.
    unsafe { checked(libc::SYS_newfstatat, [folder, path, at, 0, 0, 0]) }?;
    Ok(stat)
}

/// Flags with which [`open_place`] opens.
const PLACE: u64 = (libc::O_PATH | libc::O_CLOEXEC) as u64;

/// Opens the place of a file, not the file, under the number that is free.
pub fn open_place(folder: u64, path: u64) -> Result<i32, Errno> {
    // SAFETY: The kernel reads the path.
    unsafe { checked(libc::SYS_openat, [folder, path, PLACE, 0, 0, 0]) }.map(|file| file as i32)
}

/// Opens the place of a file like [`open_place`], with restrictions of openat2(2) for the steps of
/// the path.
pub fn open_place_as(folder: u64, path: u64, restrictions: u64) -> Result<i32, Errno> {
    let how = [PLACE, 0, restrictions];
    let args = [folder, path, how.as_ptr() as u64, size_of_val(&how) as u64, 0, 0];
    // SAFETY: The kernel reads the path and the structure.
    unsafe { checked(libc::SYS_openat2, args) }.map(|file| file as i32)
}

/// Closes a descriptor of the library's own.
pub fn close(file: i32) {
    // SAFETY: It has no pointers.
    let _ = unsafe { call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0]) };
}

/// `fstatfs`: the type, and how it is mounted.
pub fn filesystem_of(fd: i32) -> Result<(i64, i64), Errno> {
    // SAFETY: All zeroes is one.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    let at = (&raw mut stat) as u64;
    // SAFETY: It fills the structure.
    unsafe { checked(libc::SYS_fstatfs, [fd as u64, at, 0, 0, 0, 0]) }?;
    // SAFETY: The flags are the eleventh word; the C library's binding hides it.
    let flags = unsafe { (&raw const stat).cast::<i64>().add(10).read() };
    Ok((stat.f_type, flags))
}

/// `getsockopt`, of options that have so many words or more.
pub fn option_of<const WORDS: usize>(fd: i32, level: i32, name: i32) -> Option<[u32; WORDS]> {
    let mut words = [0u32; WORDS];
    let mut size = size_of_val(&words) as u32;
    let (at, size_at) = (words.as_mut_ptr() as u64, (&raw mut size) as u64);
    let args = [fd as u64, level as u64, name as u64, at, size_at, 0];
    // SAFETY: It fills the array, as far as its size says.
    unsafe { checked(libc::SYS_getsockopt, args) }.ok()?;
    (size as usize == size_of_val(&words)).then_some(words)
}

/// Sleeps until the socket can be written to.
pub fn await_room(fd: i32) {
    let mut entry = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: One entry, which it fills.
    let _ = unsafe { call(libc::SYS_poll, [(&raw mut entry) as u64, 1, u64::MAX, 0, 0, 0]) };
}

/// `fcntl(F_GETFL)`.
pub fn flags_of(fd: i32) -> Result<i32, Errno> {
    // SAFETY: It has no pointers.
    unsafe { checked(libc::SYS_fcntl, [fd as u64, libc::F_GETFL as u64, 0, 0, 0, 0]) }
        .map(|flags| flags as i32)
}

/// The descriptor's offset; 0 if it has none.
pub fn position_of(fd: i32) -> u64 {
    // SAFETY: It has no pointers.
    unsafe { checked(libc::SYS_lseek, [fd as u64, 0, libc::SEEK_CUR as u64, 0, 0, 0]) }.unwrap_or(0)
}

/// Whether files may be of any size.
pub fn is_file_size_unlimited() -> bool {
    let mut limit = [0u64; 2];
    let args = [0, u64::from(libc::RLIMIT_FSIZE), 0, limit.as_mut_ptr() as u64, 0, 0];
    // SAFETY: It fills the array.
    unsafe { checked(libc::SYS_prlimit64, args) }.is_ok() && limit[0] == u64::MAX
}

/// The file that standard error is when the library is loaded: device, inode, and what a device
/// file stands for.
static STANDARD_ERROR: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// There is a standard error.
static HAS_STANDARD_ERROR: AtomicBool = AtomicBool::new(false);

fn identity_of(stat: &libc::stat) -> [u64; 3] {
    [stat.st_dev, stat.st_ino, stat.st_rdev]
}

/// Keeps which file standard error is.
pub fn keep_standard_error() {
    let Ok(stat) = stat_of(2) else { return };
    for (word, value) in STANDARD_ERROR.iter().zip(identity_of(&stat)) {
        word.store(value, Ordering::Relaxed);
    }
    HAS_STANDARD_ERROR.store(true, Ordering::Release);
}

/// Whether descriptor 2 is still the file that it was: programs may close it, and get its number
/// for a data file.
fn is_standard_error_kept() -> bool {
    HAS_STANDARD_ERROR.load(Ordering::Acquire)
        && stat_of(2).is_ok_and(|stat| {
            identity_of(&stat) == STANDARD_ERROR.each_ref().map(|word| word.load(Ordering::Relaxed))
        })
}

/// Writes a message to standard error, if that is what it was when the library was loaded.
pub fn complain(text: &[u8]) {
    if !is_standard_error_kept() {
        return;
    }
    // SAFETY: The text is readable.
    let _ = unsafe { call(libc::SYS_write, [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]) };
}

/// Closes a descriptor of the program's, or has its file written, by a call that has no other
/// argument.
pub fn finish(nr: i64, fd: i32) -> Result<(), Errno> {
    // SAFETY: It has no pointers.
    unsafe { checked(nr, [fd as u64, 0, 0, 0, 0, 0]) }.map(drop)
}

/// `readahead`. An error means that nothing is read ahead.
pub fn read_ahead(fd: i32, from: u64, size: u64) {
    // SAFETY: It has no pointers.
    let _ = unsafe { call(libc::SYS_readahead, [fd as u64, from, size, 0, 0, 0]) };
}

/// `readlink`: how many bytes of the path there are.
pub fn link_of(path: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
    let (path, size) = (path.as_ptr() as u64, to.len() as u64);
    let args = [path, to.as_mut_ptr() as u64, size, 0, 0, 0];
    // SAFETY: A path that ends in a zero, and a buffer of that size.
    unsafe { checked(libc::SYS_readlink, args) }.map(|size| size as usize)
}
