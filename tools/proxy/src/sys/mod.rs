//! Linux, and everything else that is unsafe.
//!
//! * `arch`: start, delegated calls, the thread pointer
//! * `call`: one system call
//! * `entries`: the functions of the layers above that are called from here
//! * `filter`: filters of system calls
//! * `handler`: the thread pointer in handlers
//! * `heap`: that there is none
//! * `pooled`: memory and state of a pooled proxy
//! * `shared`: memory given to the proxy by others
//! * `signal`: actions, masks, the handler's entry
//! * `thread`: how threads begin and end
//! * `utility`: a thread's own code, executed here
//! * `worker`: workers and the memory of their threads
//! * here: the system calls the proxy makes for itself
#![allow(unsafe_code)]

pub mod arch;
mod call;
pub mod entries;
pub mod filter;
mod handler;
mod heap;
pub mod pooled;
pub mod shared;
pub mod signal;
pub mod thread;
pub mod utility;
pub mod worker;

use core::ffi::CStr;
use core::mem::MaybeUninit;

use hanare_abi::cpus::LinuxCpuSet;
use hanare_abi::ioctl::IOCTL_COPY;
use linux_raw_sys::general::*;

pub use call::{Errno, Result, code};
use call::{check, plain, raw_call};

/// A structure of the ABI that an ioctl reads and writes.
///
/// # Safety
/// Plain words, every bit pattern valid, and the size is in the ioctl's number.
pub unsafe trait Argument {}
macro_rules! arguments {
    ($($name:ident)*) => { $(
        // SAFETY: integers and arrays of integers; see its IOCTL_ number.
        unsafe impl Argument for hanare_abi::ioctl::$name {}
    )* };
}
arguments!(Info Attach Serve Signal Usage Child Opened Listed Execed Rights Succeed Share Last Send Copy Forward);

// SAFETY: two integers, see above.
unsafe impl Argument for hanare_abi::utility::Eventfd {}

/// An ioctl of `/dev/hanare`.
pub fn ioctl<T: Argument>(fd: u32, number: u32, argument: &mut T) -> Result<()> {
    assert!((number >> 16) as usize & 0x3fff == size_of::<T>());
    let pointer = core::ptr::from_mut(argument) as u64;
    // SAFETY: the device touches as many bytes as the number says.
    check(unsafe { raw_call(__NR_ioctl, [fd.into(), number.into(), pointer, 0, 0, 0]) })?;
    Ok(())
}

/// An ioctl whose argument is a number.
pub fn ioctl_number(fd: u32, number: u32, argument: u64) -> Result<u64> {
    plain(__NR_ioctl, [fd.into(), number.into(), argument, 0, 0, 0])
}

/// An ioctl without an argument.
pub fn ioctl_plain(fd: u32, number: u32) -> Result<()> {
    plain(__NR_ioctl, [fd.into(), number.into(), 0, 0, 0, 0]).map(drop)
}

/// Maps `fd` at `start..end`, shared; with `replace` over what is there.
///
/// The range must lie below the proxy (checked).
pub fn map_device(fd: u32, start: u64, end: u64, offset: u64, replace: bool) -> Result<()> {
    assert!(start < end && end <= hanare_abi::layout::MESSAGES_END);
    let place = if replace { MAP_FIXED } else { MAP_FIXED_NOREPLACE };
    let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | place);
    let args = [start, end - start, protection.into(), flags.into(), fd.into(), offset];
    // SAFETY: nothing of the proxy lies in the range (it is linked above it).
    let at = check(unsafe { raw_call(__NR_mmap, args) })?;
    if at == start { Ok(()) } else { Err(Errno(linux_raw_sys::errno::EEXIST)) }
}

/// Maps `fd` where nothing is, for a core dump.
pub fn map_device_for_dump(fd: u32, start: u64, end: u64, offset: u64, write: bool) -> Result<()> {
    assert!(start < end && end <= hanare_abi::layout::CONTROL_END);
    let protection = PROT_READ | if write { PROT_WRITE } else { 0 };
    let flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    plain(__NR_mmap, [start, end - start, protection.into(), flags.into(), fd.into(), offset])
        .map(drop)
}

/// Whether Linux puts a mapping that may be anywhere above `address`.
pub fn maps_above(address: u64) -> bool {
    let (protection, flags) = (PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    let args = [0, hanare_abi::PAGE_SIZE, protection.into(), flags.into(), u64::MAX, 0];
    let Ok(at) = plain(__NR_mmap, args) else { return false };
    let _ = plain(__NR_munmap, [at, hanare_abi::PAGE_SIZE, 0, 0, 0, 0]);
    at >= address
}

/// Unmaps a part of the application's addresses.
pub fn unmap(start: u64, end: u64) -> Result<()> {
    assert!(start < end && end <= hanare_abi::layout::CONTROL_END);
    plain(__NR_munmap, [start, end - start, 0, 0, 0, 0]).map(drop)
}

/// A mapping of Linux' own is not dumped.
pub fn leave_out_of_dump(start: u64, end: u64) -> Result<()> {
    plain(__NR_madvise, [start, end - start, MADV_DONTDUMP.into(), 0, 0, 0]).map(drop)
}

/// Whether the process may be dumped, and its files in /proc are its user's
/// (PR_SET_DUMPABLE).
pub fn set_dumpable(may: bool) {
    let _ =
        plain(__NR_prctl, [linux_raw_sys::prctl::PR_SET_DUMPABLE.into(), may.into(), 0, 0, 0, 0]);
}

/// Whether the process may be dumped (PR_GET_DUMPABLE).
pub fn is_dumpable() -> bool {
    plain(__NR_prctl, [linux_raw_sys::prctl::PR_GET_DUMPABLE.into(), 0, 0, 0, 0, 0]) == Ok(1)
}

/// Whether filters of system calls judge what this thread asks of Linux (PR_GET_SECCOMP).
pub fn is_filtered() -> bool {
    plain(__NR_prctl, [linux_raw_sys::prctl::PR_GET_SECCOMP.into(), 0, 0, 0, 0, 0]) != Ok(0)
}

/// Has the calling thread be scheduled as the thread `tid` is, if it may.
pub fn schedule_as(tid: u32) {
    let mut attributes = [0u8; 64];
    let at = attributes.as_mut_ptr() as u64;
    // SAFETY: it writes as many bytes as it is told.
    let known = check(unsafe {
        raw_call(__NR_sched_getattr, [tid.into(), at, attributes.len() as u64, 0, 0, 0])
    });
    if known.is_ok() {
        // SAFETY: it reads what was written there, which begins with its size.
        let _ = check(unsafe { raw_call(__NR_sched_setattr, [0, at, 0, 0, 0, 0]) });
    }
    const WHO_PROCESS: u64 = 1; // a thread, in fact
    let of_io = |tid: u32| plain(__NR_ioprio_get, [WHO_PROCESS, tid.into(), 0, 0, 0, 0]);
    if let Ok(priority) = of_io(tid)
        && of_io(0) != Ok(priority)
    {
        let _ = plain(__NR_ioprio_set, [WHO_PROCESS, 0, priority, 0, 0, 0]);
    }
}

/// Unmaps a part of the vdso, which the proxy does not use.
pub fn unmap_vdso(start: u64, end: u64) -> Result<()> {
    assert!(end <= hanare_abi::layout::PROXY_BASE);
    plain(__NR_munmap, [start, end - start, 0, 0, 0, 0]).map(drop)
}

/// Opens a file.
pub fn open(path: &CStr, flags: u32) -> Result<u32> {
    let path = path.as_ptr() as u64;
    // SAFETY: a C string.
    let fd =
        check(unsafe { raw_call(__NR_openat, [AT_FDCWD as u64, path, flags.into(), 0, 0, 0]) })?;
    Ok(fd as u32)
}

/// Closes a descriptor.
pub fn close(fd: u32) {
    let _ = plain(__NR_close, [fd.into(), 0, 0, 0, 0, 0]);
}

/// Reads into `buffer`.
pub fn read(fd: u32, buffer: &mut [u8]) -> Result<usize> {
    let args = [fd.into(), buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0, 0];
    // SAFETY: a buffer of that length.
    Ok(check(unsafe { raw_call(__NR_read, args) })? as usize)
}

/// Writes `bytes`, as far as it goes.
pub fn write(fd: u32, bytes: &[u8]) -> Result<usize> {
    let args = [fd.into(), bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    // SAFETY: a buffer of that length.
    Ok(check(unsafe { raw_call(__NR_write, args) })? as usize)
}

/// Device and inode of a descriptor's file.
pub fn file_of(fd: u32) -> Result<(u64, u64)> {
    let mut found = MaybeUninit::<stat>::uninit();
    // SAFETY: a structure of the kernel's own definition.
    check(unsafe { raw_call(__NR_fstat, [fd.into(), found.as_mut_ptr() as u64, 0, 0, 0, 0]) })?;
    // SAFETY: Linux has filled it.
    let found = unsafe { found.assume_init() };
    Ok((found.st_dev, found.st_ino))
}

/// `fcntl` with a number as its argument.
pub fn fcntl(fd: u32, command: u32, value: u64) -> Result<u64> {
    assert!([F_GETFD, F_SETFD, F_DUPFD, F_DUPFD_CLOEXEC].contains(&command));
    plain(__NR_fcntl, [fd.into(), command.into(), value, 0, 0, 0])
}

/// A resource limit: soft and hard.
pub fn get_limit(resource: u32) -> Result<rlimit64> {
    let mut limit = rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let pointer = &raw mut limit as u64;
    // SAFETY: a structure of the kernel's own definition.
    check(unsafe { raw_call(__NR_prlimit64, [0, resource.into(), 0, pointer, 0, 0]) })?;
    Ok(limit)
}

/// Sets a resource limit.
pub fn set_limit(resource: u32, limit: &rlimit64) -> Result<()> {
    let pointer = core::ptr::from_ref(limit) as u64;
    // SAFETY: a structure of the kernel's own definition.
    check(unsafe { raw_call(__NR_prlimit64, [0, resource.into(), pointer, 0, 0, 0]) })?;
    Ok(())
}

/// Sets a resource limit; what it was.
pub fn exchange_limit(resource: u32, limit: &rlimit64) -> Result<rlimit64> {
    let mut before = rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let (new, old) = (core::ptr::from_ref(limit) as u64, &raw mut before as u64);
    // SAFETY: structures of the kernel's own definition.
    check(unsafe { raw_call(__NR_prlimit64, [0, resource.into(), new, old, 0, 0]) })?;
    Ok(before)
}

/// A question without arguments that cannot fail: `getpid` and the like.
fn identity(nr: u32) -> u32 {
    plain(nr, [0; 6]).unwrap_or(0) as u32
}

/// Process id.
pub fn pid() -> u32 {
    identity(__NR_getpid)
}
/// Thread id.
pub fn thread_id() -> u32 {
    identity(__NR_gettid)
}
/// Real and effective user id.
pub fn user_ids() -> (u32, u32) {
    (identity(__NR_getuid), identity(__NR_geteuid))
}
/// Real and effective group id.
pub fn group_ids() -> (u32, u32) {
    (identity(__NR_getgid), identity(__NR_getegid))
}

/// The execution domain's flags.
pub fn personality() -> u32 {
    plain(__NR_personality, [0xffff_ffff, 0, 0, 0, 0, 0]).unwrap_or(0) as u32
}

/// Fills `bytes` with random ones.
pub fn random(bytes: &mut [u8]) -> Result<()> {
    let args = [bytes.as_mut_ptr() as u64, bytes.len() as u64, GRND_INSECURE.into(), 0, 0, 0];
    // SAFETY: a buffer of that length.
    check(unsafe { raw_call(__NR_getrandom, args) }).map(drop)
}

/// Names this thread, and the process' first one, which `ps` shows.
pub fn set_name(name: &CStr) {
    let args = [linux_raw_sys::prctl::PR_SET_NAME.into(), name.as_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: a C string; Linux reads at most 16 bytes of it.
    let _ = unsafe { raw_call(__NR_prctl, args) };
    if pid() == thread_id() {
        return;
    }
    if let Ok(fd) = open(c"/proc/self/comm", O_WRONLY | O_CLOEXEC) {
        let _ = write(fd, name.to_bytes());
        close(fd);
    }
}

/// Linux' `struct prctl_mm_map`.
#[repr(C)]
pub struct MemoryMap {
    addresses: [u64; 11],
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

impl MemoryMap {
    /// From the words of `Control::Execed`; the program's file stays as it is.
    pub fn new(words: &[u64; hanare_abi::control::EXECED_WORDS]) -> Self {
        let addresses = core::array::from_fn(|i| words[i]);
        Self { addresses, auxv: words[11], auxv_size: words[12] as u32, exe_fd: u32::MAX }
    }
}

/// A copy of memory of the application or of the control window, in memory of the proxy's own; `fd`
/// is the device.
pub fn copy_of(fd: u32, start: u64, bytes: u64) -> Result<u64> {
    use hanare_abi::layout::{CONTROL_END, USER_MIN};
    let is_there = |end: u64| start >= USER_MIN && start < end && end <= CONTROL_END;
    if !start.checked_add(bytes).is_some_and(is_there) {
        return Err(Errno(linux_raw_sys::errno::EINVAL));
    }
    let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    // SAFETY: a new mapping where nothing is.
    let copy = check(unsafe {
        raw_call(__NR_mmap, [0, bytes, protection.into(), flags.into(), u64::MAX, 0])
    })?;
    if copy < hanare_abi::layout::PROXY_BASE {
        // Where the program's memory goes when there is some: such large strings no program has.
        let _ = plain(__NR_munmap, [copy, bytes, 0, 0, 0, 0]);
        return Err(Errno(linux_raw_sys::errno::ENOMEM));
    }
    // By the module, because the application may have unmapped it meanwhile: no fault here.
    match ioctl(fd, IOCTL_COPY, &mut hanare_abi::ioctl::Copy { from: start, to: copy, bytes }) {
        Ok(()) => Ok(copy),
        Err(error) => {
            forget_copy(copy, bytes);
            Err(error)
        }
    }
}

/// Gives a copy of [`copy_of`] back; none (0) is none.
pub fn forget_copy(copy: u64, bytes: u64) {
    if copy >= hanare_abi::layout::PROXY_BASE {
        let _ = plain(__NR_munmap, [copy, bytes, 0, 0, 0, 0]);
    }
}

/// Tells Linux where program, heap, stack, arguments and environment are.
pub fn set_memory_map(map: &MemoryMap) -> Result<()> {
    use linux_raw_sys::prctl::{PR_SET_MM, PR_SET_MM_MAP};
    let args = [
        PR_SET_MM.into(),
        PR_SET_MM_MAP.into(),
        map as *const MemoryMap as u64,
        size_of::<MemoryMap>() as u64,
        0,
        0,
    ];
    // SAFETY: Linux reads the structure, and the words that it names of the
    // application's memory; it only remembers the other addresses.
    check(unsafe { raw_call(__NR_prctl, args) }).map(drop)
}

/// CLOCK_MONOTONIC in ns.
pub fn monotonic_ns() -> u64 {
    let mut time = __kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of the kernel's own definition.
    let _ = unsafe {
        raw_call(__NR_clock_gettime, [CLOCK_MONOTONIC.into(), &raw mut time as u64, 0, 0, 0, 0])
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Has thread `tid` run on these CPUs. It stays where it is if it may run on none of them.
pub fn run_on(tid: u32, cpus: &LinuxCpuSet) {
    let (bytes, at) = (size_of_val(cpus) as u64, &raw const *cpus as u64);
    // SAFETY: a set of CPUs, which Linux only reads.
    let _ = unsafe { raw_call(__NR_sched_setaffinity, [tid.into(), bytes, at, 0, 0, 0]) };
}

/// Has this thread run on one CPU, or anywhere that it may (`None`). A CPU that it may not run on
/// is no error: it stays where it is.
pub fn run_on_cpu(cpu: Option<u32>) {
    const WORDS: usize = 128; // as many CPUs as Linux can have
    let mut cpus = [u64::MAX; WORDS];
    if let Some(cpu) = cpu {
        cpus.fill(0);
        let Some(word) = cpus.get_mut(cpu as usize / 64) else { return };
        *word = 1 << (cpu % 64);
    }
    let bytes = size_of_val(&cpus) as u64;
    // SAFETY: a set of CPUs, which Linux only reads.
    let _ = unsafe { raw_call(__NR_sched_setaffinity, [0, bytes, cpus.as_ptr() as u64, 0, 0, 0]) };
}

/// Sleeps; a signal ends it early.
pub fn sleep_ms(ms: u64) {
    let time =
        __kernel_timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 };
    // SAFETY: a structure of the kernel's own definition; no remainder is wanted.
    let _ = unsafe { raw_call(__NR_nanosleep, [&raw const time as u64, 0, 0, 0, 0, 0]) };
}

/// fork: 0 in the child, which has this thread only, the child's id in the parent.
///
/// # Panics
/// If the child would share memory with this process.
pub fn fork(args: &clone_args) -> Result<u32> {
    const OLDER: u64 = 0xffff_ff00;
    assert!(args.flags & u64::from(CLONE_VM | CLONE_THREAD | CLONE_SETTLS) == 0 && args.stack == 0);
    if args.flags & !OLDER == 0 && args.set_tid_size == 0 {
        // Allowed also where a filter of system calls does not know clone3. Linux checks the
        // address, which is the application's.
        return plain(__NR_clone, [args.flags | args.exit_signal, 0, args.pidfd, 0, 0, 0])
            .map(|pid| pid as u32);
    }
    // SAFETY: a copy of this process goes on with the same stack. The kernel checks
    // the addresses in `args`, which are the application's.
    let result = unsafe {
        raw_call(
            __NR_clone3,
            [core::ptr::from_ref(args) as u64, size_of::<clone_args>() as u64, 0, 0, 0, 0],
        )
    };
    check(result).map(|pid| pid as u32)
}

/// Program to be executed, as of `Control::Exec`.
pub struct Execution {
    /// Directory that the path is relative to.
    pub directory: u64,
    /// Address in the control window.
    pub path: u64,
    /// Address of the arguments; 0: the path alone.
    pub arguments: u64,
    /// As of execveat(2).
    pub flags: u64,
}

/// execve(2) or execveat(2). Comes back with an error only.
pub fn exec(how: &Execution, environment: [&CStr; 2]) -> Errno {
    let Execution { directory: dir, path, arguments: argv, flags } = *how;
    let alone = [path, 0];
    let argv = if argv == 0 { alone.as_ptr() as u64 } else { argv };
    let strings = [environment[0].as_ptr() as u64, environment[1].as_ptr() as u64, 0];
    let envp = strings.as_ptr() as u64;
    // The call that the program most likely made, for filters of system calls.
    let (nr, args) = match (dir as i32, flags) {
        (AT_FDCWD, 0) => (__NR_execve, [path, argv, envp, 0, 0, 0]),
        _ => (__NR_execveat, [dir, path, argv, envp, flags, 0]),
    };
    // SAFETY: Linux only reads, and checks `path` and `argv`; the lists here end with a null, and
    // so do the strings.
    match check(unsafe { raw_call(nr, args) }) {
        Err(error) => error,
        Ok(_) => Errno(linux_raw_sys::errno::EIO), // cannot be
    }
}

/// Ends the process.
pub fn exit(status: u32) -> ! {
    loop {
        let _ = plain(__NR_exit_group, [status.into(), 0, 0, 0, 0, 0]);
    }
}
