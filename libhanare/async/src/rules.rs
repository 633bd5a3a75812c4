//! The rule for each call: the whole list.
//!
//! A call without a row here waits for everything outstanding ([`AWAIT`]), and is then made. A call
//! is [`FREE`] if no other process can tell whether it was made before or after a write that this
//! process made earlier.

use std::sync::atomic::Ordering;

use libc::*;

use crate::calls::{CLASSES, FREE, LOOK};
use crate::rights;

/// Why they may be made while something is outstanding stands beside each group.
const FREE_CALLS: &[c_long] = &[
    // Memory of the process alone, whose changes other processes cannot see.
    SYS_madvise,
    SYS_mlock,
    SYS_munlock,
    SYS_mincore,
    SYS_membarrier,
    // What time it is. Sleeping takes time, as computing does.
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_time,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_times,
    // Identity of the process: no state changes.
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getgroups,
    SYS_getpgrp,
    SYS_getpgid,
    SYS_getsid,
    SYS_uname,
    SYS_getrlimit,
    SYS_getcpu,
    SYS_sched_getaffinity,
    SYS_getrandom,
    SYS_getitimer,
    SYS_rt_sigpending,
    // The thread's own state in the kernel.
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_rt_sigreturn,
    SYS_restart_syscall,
];

/// Calls about which [`crate::hook`] decides by the arguments.
const LOOKED_AT: &[c_long] = &[
    // Posted where the rules allow it.
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_close,
    SYS_fsync,
    SYS_fdatasync,
    // Free on files that are only read.
    SYS_read,
    SYS_pread64,
    SYS_readv,
    SYS_preadv,
    SYS_lseek,
    // They make descriptors, or change what a descriptor is.
    SYS_open,
    SYS_openat,
    SYS_openat2,
    SYS_creat,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_fcntl,
    SYS_ioctl,
    SYS_flock,
    SYS_close_range,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_pidfd_getfd,
    // Memory, which posted writes are copied from.
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_brk,
    SYS_futex,
    // Threads and processes.
    SYS_clone,
    SYS_clone3,
    SYS_fork,
    SYS_vfork,
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    // Signals.
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_sigaltstack,
    SYS_rt_sigsuspend,
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    // After these the library posts nothing any more.
    SYS_shmat,
    SYS_io_uring_setup,
    SYS_io_setup,
    SYS_userfaultfd,
    SYS_pkey_alloc,
    SYS_pkey_mprotect,
    SYS_arch_prctl,
    SYS_prctl,
    SYS_setrlimit,
    SYS_prlimit64,
    SYS_ptrace,
    SYS_remap_file_pages,
];

/// Calls about sockets: where replies are posted, [`crate::replies`] decides; elsewhere they wait.
const OF_SOCKETS: &[c_long] = &[
    // Posted.
    SYS_sendto,
    // Free while nothing but replies is outstanding.
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_accept,
    SYS_accept4,
    SYS_epoll_wait,
    SYS_epoll_ctl,
    SYS_poll,
    // They tell something of connections, or change what a write to them does.
    SYS_select,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_getpeername,
    SYS_connect,
    SYS_recvmmsg,
    SYS_preadv2,
    SYS_shutdown,
    SYS_sendfile,
    SYS_splice,
];

/// Fills the table.
pub fn install(has_sockets: bool) {
    let of_sockets = if has_sockets { OF_SOCKETS } else { &[] };
    let looked_at = [LOOKED_AT, of_sockets, rights::CALLS];
    for (calls, class) in
        [(FREE_CALLS, FREE)].into_iter().chain(looked_at.map(|calls| (calls, LOOK)))
    {
        for call in calls {
            CLASSES[*call as usize].store(class, Ordering::Relaxed);
        }
    }
}
