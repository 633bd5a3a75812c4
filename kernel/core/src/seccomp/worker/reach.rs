//! Reach of a program with a filter by a forged slot: calls that its worker makes in spite of the
//! filter. The lists are for readers. Tests compare them with the commands and calls that stand in
//! front of a filter.

use super::{BOUND, COMMANDS, FREE, PRCTLS};
use hanare_abi::ioctl::*;
use linux_raw_sys::general::*;
use linux_raw_sys::prctl::*;

/// One command, option or call, and what it gives a program that its filter does not let do the
/// same by a call of its own.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// The command's, option's or call's number.
    pub number: u32,
    /// Name of the number in `abi` or in Linux' headers.
    pub name: &'static str,
    /// Gain of the program, or why there is none.
    pub gains: &'static str,
}

macro_rules! reaches {
    ($($name:ident: $gains:literal,)+) => {
        &[$(Reach { number: $name, name: stringify!($name), gains: $gains }),+]
    };
}

/// The module's commands. Each is about the space of the caller's own memory (`served`,
/// `module/device/calls.c`), and what it asks of the LWK is checked there as a system call's
/// arguments are.
pub const OF_COMMANDS: &[Reach] = reaches! {
    IOCTL_WAIT: "sleeps until the LWK rings the slot",
    IOCTL_RING: "wakes a CPU of the LWK where one of its own threads sleeps, as often as that went to sleep",
    IOCTL_WORKER: "which of its process' threads serves a slot of its own space",
    IOCTL_SERVE: "begins a service that the LWK has asked of this space, once",
    IOCTL_SIGNAL: "a signal for one of its own threads, from any sender: what it could have handled by itself",
    IOCTL_USAGE: "its own use of CPU time and memory",
    IOCTL_START: "its own start block is read again: a second first thread is refused",
    IOCTL_DUMP: "what it maps from now on is in its core dump",
    IOCTL_DUMP_THREAD: "its worker takes on registers and dies of a signal whose action is the default",
    IOCTL_CHILD: "a space of its own with a token that the LWK has given out, once; EPERM without",
    IOCTL_OPENED: "of a descriptor that it has, of procfs, sysfs or cgroupfs, one that shows the LWK's machine",
    IOCTL_LISTED: "names of directories of procfs and sysfs are taken out of a buffer of its own",
    IOCTL_EXECED: "/proc/PID/exe is a file that it has opened and may execute; its descriptors that are close-on-exec close",
    IOCTL_RIGHTS: "what execve(2) takes away; nothing rises",
    IOCTL_SUCCEED: "its first thread gets the credentials of another one with the same filter, whose memory it can write anyway",
    IOCTL_SHARE: "a process with its memory, which exists on Linux, begins on the LWK; the LWK has to expect it",
    IOCTL_LAST: "its end by a signal is not shown to its tracer again",
    IOCTL_SEND: "signals to its own process, as by tgkill(2) and rt_sigqueueinfo(2) to itself",
    IOCTL_COPY: "its own memory is copied, by addresses that it may not touch, too: of its proxy, which it can have written anyway",
    IOCTL_FORWARD: "its proxy's handlers, as by rt_sigaction(2)",
    IOCTL_EXECUTE: "its worker may execute on Linux what the program may execute on the LWK",
    IOCTL_EVENTFD: "an eventfd that it has is written to when a thread of its own is rung",
};

/// The options of prctl(2).
pub const OF_PRCTLS: &[Reach] = reaches! {
    PR_GET_DUMPABLE: "whether it is dumped",
    PR_SET_DUMPABLE: "whether it is dumped, and others of its user may look into it",
    PR_SET_NAME: "the name of its worker",
    PR_GET_SECCOMP: "that it has a filter",
    PR_SET_MM: "where Linux says its parts lie, as far as its user may (CAP_SYS_RESOURCE for most of it)",
    PR_SET_NO_NEW_PRIVS: "less than it had",
    PR_GET_NO_NEW_PRIVS: "whether it may gain rights by execve(2)",
};

/// The calls, whatever is asked of their arguments.
pub const OF_CALLS: &[Reach] = reaches! {
    __NR_futex: "waits and wake-ups of words that it has, with others where memory is shared",
    __NR_sched_yield: "nothing",
    __NR_clock_gettime: "the time, which the vDSO tells it",
    __NR_nanosleep: "its worker sleeps",
    __NR_restart_syscall: "a call of these goes on",
    __NR_getpid: "its own ids",
    __NR_getppid: "its own ids",
    __NR_gettid: "its own ids",
    __NR_getuid: "its own ids",
    __NR_getgid: "its own ids",
    __NR_geteuid: "its own ids",
    __NR_getegid: "its own ids",
    __NR_capget: "its own capabilities; of other processes what /proc/PID/status shows to every user",
    __NR_rt_sigaction: "its proxy's handlers, which the LWK has set",
    __NR_rt_sigprocmask: "the mask of its worker",
    __NR_rt_sigreturn: "its worker's registers, which it can have written anyway",
    __NR_rt_sigpending: "its own pending signals",
    __NR_rt_sigtimedwait: "its own pending signals",
    __NR_munmap: "less memory in its proxy",
    __NR_mremap: "other addresses for memory that it has",
    __NR_msync: "what it has written to files is on the disk earlier",
    __NR_mincore: "which of its pages Linux has",
    __NR_madvise: "its pages are kept, forgotten or brought in",
    __NR_exit: "its end",
    __NR_exit_group: "its end",
    __NR_arch_prctl: "the segment bases of its worker",
    __NR_set_tid_address: "a word of its own is cleared at its end",
    __NR_set_robust_list: "its locks are given back at its end",
    __NR_close: "fewer descriptors",
    __NR_close_range: "fewer descriptors",
    __NR_fstat: "attributes of files that it has open",
    __NR_fstatfs: "attributes of file systems of which it has a file open",
    __NR_getrandom: "random bytes, which the CPU gives as well",
    __NR_io_destroy: "fewer contexts of asynchronous I/O",
    __NR_timer_settime: "a timer that it has is set",
    __NR_timer_delete: "fewer timers",
    __NR_sched_getattr: "policies of threads, which /proc/PID/stat shows to every user",
    __NR_ioprio_get: "priorities of its user's processes",
    __NR_ioctl: "the commands above, of the device's descriptor only",
    __NR_mmap: "anonymous memory, and memory of its own space, not executable",
    __NR_mprotect: "access to its proxy's memory, not execution",
    __NR_clone: "threads and processes with the same filter in the same namespaces, children of its own",
    __NR_fcntl: "whether a descriptor is there, and closes by execve(2)",
    __NR_shmctl: "attributes of segments of shared memory",
    __NR_tgkill: "whether there is such a thread, which /proc says",
    __NR_tkill: "whether there is such a thread, which /proc says",
    __NR_waitid: "how a child is, without reaping it",
    __NR_openat: "whether a file is there, with what attributes (O_PATH), as far as its user may look",
    __NR_prctl: "the options above",
    __NR_personality: "its own",
    __NR_prlimit64: "limits of its user's processes; its own for stack, CPU time and addresses, as far as its user may",
    __NR_seccomp: "more filters",
    __NR_sched_setattr: "its worker's policy, as far as its user may",
    __NR_ioprio_set: "its worker's priority of I/O, as far as its user may",
};

/// Lines that are missing, and lines of what no filter has in front of it.
#[must_use]
pub fn differences() -> (usize, usize) {
    let calls = || FREE.into_iter().chain(BOUND.iter().map(|&(number, _)| number));
    let has = |lines: &[Reach], number| lines.iter().filter(|l| l.number == number).count() == 1;
    let missing = COMMANDS.iter().filter(|&&n| !has(OF_COMMANDS, n)).count()
        + PRCTLS.iter().filter(|&&n| !has(OF_PRCTLS, n)).count()
        + calls().filter(|&n| !has(OF_CALLS, n)).count();
    let extra = OF_COMMANDS.iter().filter(|l| !COMMANDS.contains(&l.number)).count()
        + OF_PRCTLS.iter().filter(|l| !PRCTLS.contains(&l.number)).count()
        + OF_CALLS.iter().filter(|l| !calls().any(|n| n == l.number)).count();
    (missing, extra)
}
