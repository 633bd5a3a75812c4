//! System calls with Linux' numbers, each as a safe function of types that say how much the kernel
//! reads or writes.

use core::ffi::CStr;
use core::mem::{MaybeUninit, size_of};
use core::ptr::null_mut;

use hanare_syscall::syscall;
use linux_raw_sys::general::*;
use linux_raw_sys::net::{SO_REUSEADDR, SOL_SOCKET};

use crate::errno::{Errno, Result};

/// A descriptor's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fd(i32);

impl Fd {
    /// Standard input, which Linux gives a program at its start.
    pub const INPUT: Self = Self(0);
    /// Standard output.
    pub const OUTPUT: Self = Self(1);
    /// Standard error output.
    pub const ERROR: Self = Self(2);
    /// In place of a directory: the working directory.
    pub const HERE: Self = Self(AT_FDCWD);

    fn word(self) -> usize {
        self.0 as usize // sign-extended, as a C program passes an int
    }

    /// Descriptor that a call has made, out of its result.
    pub(crate) fn made(number: usize) -> Self {
        Self(number as i32) // below the limit of open files
    }
}

/// Structure that the status calls write.
pub type RawStatus = stat;

/// One system call.
///
/// # Safety
/// Pointers among the arguments have to be valid for what the call reads and writes, and the call
/// must not take memory away that Rust knows of.
unsafe fn call(number: u32, arguments: [usize; 6]) -> Result<usize> {
    let arguments = arguments.map(|argument| argument as u64);
    // SAFETY: the caller answers for the arguments.
    Errno::check(unsafe { syscall(number.into(), arguments) })
}

/// A call none of whose arguments is an address.
fn plain(number: u32, a: usize, b: usize, c: usize) -> Result<usize> {
    // SAFETY: used for calls that take no address, and do nothing to memory.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// A call whose second argument is the address of bytes that it reads, whose third says how many.
fn reading(number: u32, fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: as many bytes as the slice has are read, and none is kept.
    unsafe { call(number, [fd.word(), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// A call whose second argument is the address of bytes that it writes, whose third says how many.
fn writing(number: u32, fd: Fd, bytes: &mut [u8]) -> Result<usize> {
    // SAFETY: as many bytes as the slice has are written at most.
    unsafe { call(number, [fd.word(), bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// A call with a directory, a path and two numbers.
fn at(number: u32, folder: Fd, path: &CStr, third: usize, fourth: usize) -> Result<usize> {
    // SAFETY: a CStr ends with a zero, up to which the kernel reads.
    unsafe { call(number, [folder.word(), path.as_ptr() as usize, third, fourth, 0, 0]) }
}

/// `read(2)`.
pub(crate) fn read(fd: Fd, to: &mut [u8]) -> Result<usize> {
    writing(__NR_read, fd, to)
}

/// `write(2)`.
pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    reading(__NR_write, fd, bytes)
}

/// `getdents64(2)`: entries of a directory, as many as there is room for.
pub(crate) fn directory_entries(fd: Fd, to: &mut [u8]) -> Result<usize> {
    writing(__NR_getdents64, fd, to)
}

/// `openat(2)`; the descriptor is closed by an execve.
pub(crate) fn openat(folder: Fd, path: &CStr, flags: u32, mode: u32) -> Result<Fd> {
    at(__NR_openat, folder, path, (flags | O_CLOEXEC) as usize, mode as usize).map(Fd::made)
}

/// `close(2)`.
pub(crate) fn close(fd: Fd) -> Result<()> {
    plain(__NR_close, fd.word(), 0, 0).map(drop)
}

/// `fstat(2)`.
pub(crate) fn fstat(fd: Fd) -> Result<RawStatus> {
    let mut status = MaybeUninit::<RawStatus>::zeroed();
    // SAFETY: the call writes one structure.
    unsafe { call(__NR_fstat, [fd.word(), status.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    // SAFETY: all of its fields are numbers.
    Ok(unsafe { status.assume_init() })
}

/// `newfstatat(2)`.
pub(crate) fn stat_at(folder: Fd, path: &CStr, flags: u32) -> Result<RawStatus> {
    let mut status = MaybeUninit::<RawStatus>::zeroed();
    let (path, to) = (path.as_ptr() as usize, status.as_mut_ptr() as usize);
    // SAFETY: the path ends with a zero; the call writes one structure.
    unsafe { call(__NR_newfstatat, [folder.word(), path, to, flags as usize, 0, 0]) }?;
    // SAFETY: all of its fields are numbers.
    Ok(unsafe { status.assume_init() })
}

/// `fchmod(2)`.
pub(crate) fn fchmod(fd: Fd, mode: u32) -> Result<()> {
    plain(__NR_fchmod, fd.word(), mode as usize, 0).map(drop)
}

/// `mkdirat(2)`.
pub(crate) fn mkdirat(folder: Fd, path: &CStr, mode: u32) -> Result<()> {
    at(__NR_mkdirat, folder, path, mode as usize, 0).map(drop)
}

/// `unlinkat(2)`.
pub(crate) fn unlinkat(folder: Fd, path: &CStr, flags: u32) -> Result<()> {
    at(__NR_unlinkat, folder, path, flags as usize, 0).map(drop)
}

/// `renameat(2)`.
pub(crate) fn renameat(folder: Fd, from: &CStr, to_folder: Fd, to: &CStr) -> Result<()> {
    let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
    // SAFETY: both paths end with a zero.
    unsafe { call(__NR_renameat, [folder.word(), from, to_folder.word(), to, 0, 0]) }.map(drop)
}

/// `socket(2)`; the descriptor is closed by an execve.
pub(crate) fn create_socket(family: u32, kind: u32) -> Result<Fd> {
    plain(__NR_socket, family as usize, (kind | O_CLOEXEC) as usize, 0).map(Fd::made)
}

/// `setsockopt(2)` of SO_REUSEADDR.
pub(crate) fn reuse_address(fd: Fd) -> Result<()> {
    let on = 1_u32;
    let (option, length) = (SO_REUSEADDR as usize, size_of::<u32>());
    let on = &raw const on as usize;
    // SAFETY: the call reads one number.
    unsafe { call(__NR_setsockopt, [fd.word(), SOL_SOCKET as usize, option, on, length, 0]) }
        .map(drop)
}

/// `bind(2)`.
pub(crate) fn bind(fd: Fd, address: &[u8]) -> Result<()> {
    reading(__NR_bind, fd, address).map(drop)
}

/// `connect(2)`.
pub(crate) fn connect(fd: Fd, address: &[u8]) -> Result<()> {
    reading(__NR_connect, fd, address).map(drop)
}

/// `listen(2)`.
pub(crate) fn listen(fd: Fd, waiting_max: u32) -> Result<()> {
    plain(__NR_listen, fd.word(), waiting_max as usize, 0).map(drop)
}

/// `accept4(2)`, without the other side's address.
pub(crate) fn accept(fd: Fd) -> Result<Fd> {
    // SAFETY: without an address nothing is written.
    unsafe { call(__NR_accept4, [fd.word(), 0, 0, O_CLOEXEC as usize, 0, 0]) }.map(Fd::made)
}

/// `shutdown(2)`.
pub(crate) fn shutdown(fd: Fd, how: u32) -> Result<()> {
    plain(__NR_shutdown, fd.word(), how as usize, 0).map(drop)
}

/// `getsockname(2)`: how many bytes the address has.
pub(crate) fn local_address(fd: Fd, to: &mut [u8]) -> Result<usize> {
    let mut length = to.len() as u32; // as long as a structure
    let (address, size) = (to.as_mut_ptr() as usize, &raw mut length as usize);
    // SAFETY: at most as many bytes as the slice has are written, and one number.
    unsafe { call(__NR_getsockname, [fd.word(), address, size, 0, 0, 0]) }?;
    Ok(to.len().min(length as usize))
}

/// `prctl(2)` with a request about the proxy, of which Linux knows nothing.
pub(crate) fn proxy(option: u32, request: usize) -> Result<usize> {
    plain(__NR_prctl, option as usize, request, 0)
}

/// Has SIGPIPE ignored: a write without a reader is told by an error.
pub(crate) fn ignore_broken_pipes() {
    const SIG_IGN: u64 = 1;
    let action = [SIG_IGN, 0, 0, 0]; // handler, flags, restorer, mask
    let (signal, action) = (SIGPIPE as usize, action.as_ptr() as usize);
    // SAFETY: the call reads one structure of four words. Where it fails SIGPIPE is what it was.
    _ = unsafe { call(__NR_rt_sigaction, [signal, action, 0, size_of::<u64>(), 0, 0]) };
}

/// Ends the program.
pub(crate) fn exit(status: u8) -> ! {
    loop {
        _ = plain(__NR_exit_group, status.into(), 0, 0);
    }
}

/// Pages of memory, zeroed; nothing if there is none.
pub(super) fn map(bytes: usize) -> *mut u8 {
    let protection = (PROT_READ | PROT_WRITE) as usize;
    let flags = (MAP_PRIVATE | MAP_ANONYMOUS) as usize;
    // SAFETY: the mapping is a new one, where the kernel finds room.
    let mapped = unsafe { call(__NR_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    mapped.map_or(null_mut(), |address| address as *mut u8)
}

/// Gives pages back.
///
/// # Safety
/// The pages came from [`map`], and no code uses them.
pub(super) unsafe fn unmap(pages: *mut u8, bytes: usize) {
    // SAFETY: promised by the caller. What cannot be unmapped stays, which does no harm.
    _ = unsafe { call(__NR_munmap, [pages as usize, bytes, 0, 0, 0, 0]) };
}
