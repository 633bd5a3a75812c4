//! System calls of the library itself: made by instructions of its own, which are not replaced.

use std::arch::asm;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An error number, above 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// Size of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Makes a call.
///
/// # Safety
///
/// As the call says of its arguments.
pub unsafe fn call(nr: i64, args: [u64; 6]) -> i64 {
    let result;
    // SAFETY: The caller's; the kernel changes rax, rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") nr => result, in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5], lateout("rcx") _, lateout("r11") _,
            options(nostack));
    }
    result
}

/// Like [`call`]; an error is one.
///
/// # Safety
///
/// As the call says of its arguments.
pub unsafe fn checked(nr: i64, args: [u64; 6]) -> Result<u64, Errno> {
    // SAFETY: The caller's.
    match unsafe { call(nr, args) } {
        result @ 0.. => Ok(result as u64),
        error => Err(Errno(-error as i32)),
    }
}

/// Maps private memory where there is none; `false`: something is there.
pub fn map_at(place: u64, size: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let args =
        [place, size, (libc::PROT_READ | libc::PROT_WRITE) as u64, flags as u64, u64::MAX, 0];
    // SAFETY: MAP_FIXED_NOREPLACE replaces nothing.
    match unsafe { checked(libc::SYS_mmap, args) } {
        Ok(at) if at == place => true,
        Ok(at) => {
            // A kernel that does not know the flag: what it mapped is ours.
            // SAFETY: Nobody else knows of it.
            let _ = unsafe { call(libc::SYS_munmap, [at, size, 0, 0, 0, 0]) };
            false
        }
        Err(_) => false,
    }
}

/// Maps private memory.
pub fn map(size: u64) -> Result<u64, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let args = [0, size, (libc::PROT_READ | libc::PROT_WRITE) as u64, flags as u64, u64::MAX, 0];
    // SAFETY: It replaces nothing.
    unsafe { checked(libc::SYS_mmap, args) }
}

/// Gives mapped memory back.
pub fn unmap(start: u64, size: u64) {
    // SAFETY: The caller's own, which nobody uses any more.
    let _ = unsafe { call(libc::SYS_munmap, [start, size, 0, 0, 0, 0]) };
}

/// Changes the protection of pages that the caller knows.
pub fn protect(start: u64, size: u64, protection: i32) -> Result<(), Errno> {
    // SAFETY: Used on the library's memory, and on text that stays readable and executable.
    unsafe { checked(libc::SYS_mprotect, [start, size, protection as u64, 0, 0, 0]) }.map(drop)
}

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

/// Threads of the process, where /proc is mounted.
pub fn threads() -> Option<u64> {
    // SAFETY: All zeroes is one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let path = c"/proc/self/task";
    let at = (&raw mut stat) as u64;
    // SAFETY: A path, and a structure that it fills.
    unsafe { checked(libc::SYS_stat, [path.as_ptr() as u64, at, 0, 0, 0, 0]) }.ok()?;
    stat.st_nlink.checked_sub(2)
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

/// A set of signals, as the kernel has it.
pub type Mask = u64;

/// Blocks signals, or sets the mask; what it was.
pub fn set_mask(how: i32, mask: Mask) -> Mask {
    let mut old: Mask = 0;
    let args = [how as u64, (&raw const mask) as u64, (&raw mut old) as u64, 8, 0, 0];
    // SAFETY: Two words of the stack.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, args) };
    old
}

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
    // SAFETY: Its first byte and its last can be read.
    (is_readable(address) && is_readable(address + 7))
        .then(|| unsafe { (address as *const u64).read_unaligned() })
}

/// Copies with one instruction, which needs no registers that a system call keeps.
///
/// # Safety
///
/// As [`ptr::copy_nonoverlapping`] says.
pub unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: The caller's.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// The file that standard error is when the library is loaded: device, inode, and what a device file stands for.
static STANDARD_ERROR: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// There is one.
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

/// Whether descriptor 2 is still the file that it was: programs may close it, and get its number for a data file.
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

/// Sleeps while the word has that value, or a little longer.
pub fn sleep_on(word: &std::sync::atomic::AtomicU32, value: u32) {
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let args = [ptr::from_ref(word) as u64, wait as u64, u64::from(value), 0, 0, 0];
    // SAFETY: The word lives as long as the reference.
    let _ = unsafe { call(libc::SYS_futex, args) };
}

/// Wakes all that sleep on it.
pub fn wake_on(word: &std::sync::atomic::AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let args = [ptr::from_ref(word) as u64, wake as u64, i32::MAX as u64, 0, 0, 0];
    // SAFETY: The word lives as long as the reference.
    let _ = unsafe { call(libc::SYS_futex, args) };
}

/// `PR_HANARE_RUN_ON`: where a thread executes beside an LWK, and how it is woken there (docs/utility-threads.md).
fn run_on(arguments: [u64; 4]) -> i64 {
    const PR_HANARE_RUN_ON: u64 = 0x484e_524f;
    let [what, first, second, third] = arguments;
    // SAFETY: The caller's, which gives memory away for it, or none is concerned.
    unsafe { call(libc::SYS_prctl, [PR_HANARE_RUN_ON, what, first, second, third, 0]) }
}

/// The calling thread executes on Linux from now on. False: there is no LWK, or it cannot.
///
/// # Safety
/// The area is used by nobody else as long as the thread lives.
pub unsafe fn run_on_linux(area: u64, bytes: u64) -> bool {
    run_on([1, area, bytes, u64::MAX]) == 0
}

/// The calling thread is woken by [`ring`] from now on, in [`sleep_until_rung`]. False: there is no LWK.
pub fn be_rung() -> bool {
    run_on([3, u64::from(u32::MAX - 1), 0, 0]) == 0
}

/// Wakes a thread that is rung. The LWK bounds how often it is asked to.
pub fn ring(thread: i32) {
    while run_on([4, thread as u64, 0, 0]) == i64::from(-libc::EAGAIN) {
        give_way();
    }
}

/// Sleeps until a thread rings, or not so long. False: it cannot; mostly since the calling thread
/// executes on the LWK now.
pub fn sleep_until_rung() -> bool {
    let result = run_on([5, 0, 0, 0]);
    result == 0 || result == i64::from(-libc::EINTR)
}

/// CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [libc::CLOCK_MONOTONIC as u64, (&raw mut time) as u64, 0, 0, 0, 0];
    // SAFETY: It fills the structure.
    let _ = unsafe { call(libc::SYS_clock_gettime, args) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: It returns a number.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Whether the process has a thread of this id. One that has ended, and is counted still, is there.
pub fn has_thread(thread: i32) -> bool {
    // SAFETY: Neither has pointers; no signal is sent.
    unsafe {
        let process = call(libc::SYS_getpid, [0; 6]) as u64;
        call(libc::SYS_tgkill, [process, thread as u64, 0, 0, 0, 0]) != i64::from(-libc::ESRCH)
    }
}

/// Sleeps.
pub fn sleep(time_ns: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time_ns };
    // SAFETY: It reads the time.
    let _ = unsafe { call(libc::SYS_nanosleep, [(&raw const time) as u64, 0, 0, 0, 0, 0]) };
}

/// Lets others run.
pub fn give_way() {
    // SAFETY: It has no arguments.
    let _ = unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}
