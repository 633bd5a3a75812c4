//! Rows of the table of system calls.

use super::arguments::Argument;
use crate::errno::Errno;
use linux_raw_sys::general::{__NR_ioperm, __NR_iopl, __NR_seccomp};
use linux_raw_sys::prctl::{
    PR_CAP_AMBIENT, PR_CAPBSET_DROP, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP,
    PR_SET_SECUREBITS,
};

/// Kernel that serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The LWK.
    Local,
    /// Linux, by the thread's worker, with the same arguments.
    Delegated(Hook),
    /// No kernel: this error, for this reason.
    Refused(Errno, &'static str),
}

/// The LWK's part in a delegated call: a variant for each way in which one is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// The LWK does nothing besides.
    None,
    /// `kill`: to the caller itself the signal is queued here, to a thread that has ended it is
    /// `ESRCH`.
    Kill,
    /// `tkill`: a signal to the caller itself is queued here; a thread that has ended is `ESRCH`.
    Tkill,
    /// `tgkill`: as [`Hook::Tkill`].
    Tgkill,
    /// `rt_tgsigqueueinfo`: a thread of the LWK is told that the signal is its own.
    QueueToThread,
    /// `rt_sigqueueinfo`: a process of the LWK is told that the signal is for all its threads.
    QueueToProcess,
    /// `close`: the control descriptor is not the program's: `EBADF`.
    Close,
    /// `dup2`, `dup3`: neither descriptor may be the control descriptor: `EBADF`.
    Dup2,
    /// `close_range`: goes around the control descriptor, in two calls where it lies inside. The
    /// thread may get a descriptor table of its own.
    CloseRange,
    /// Identity may have changed: ask for the ids again when it succeeded; [`Hook::Rights`] as
    /// well.
    Credentials,
    /// `unshare`: [`Hook::Credentials`], and the thread's namespaces may be others than its
    /// process'.
    Unshare,
    /// `setns`: as [`Hook::Unshare`], and the clocks may be those of another time namespace.
    Setns,
    /// Changes what Linux keeps for each thread: a worker that had another thread
    /// is not like this one any more.
    Attributes,
    /// Changes the rights of the calling thread: no worker that had another thread keeps what
    /// it had, unless a living thread has that, too.
    Rights,
    /// `getitimer`: timers that count CPU time are the LWK's.
    Getitimer,
    /// `setitimer`: timers that count CPU time are the LWK's.
    Setitimer,
    /// `timer_create`: timers on CPU-time clocks are the LWK's; remembered for `execve`.
    TimerCreate,
    /// `timer_settime` of such a timer.
    TimerSettime,
    /// `timer_gettime` of such a timer.
    TimerGettime,
    /// `timer_getoverrun` of such a timer.
    TimerGetoverrun,
    /// `timer_delete`: forgotten again.
    TimerDelete,
    /// `getrlimit`: RLIMIT_AS is the LWK's.
    Getrlimit,
    /// `setrlimit`: RLIMIT_STACK, RLIMIT_AS, RLIMIT_DATA and RLIMIT_CPU are also known to
    /// the LWK: take over what was set.
    Setrlimit,
    /// `prlimit64`: both.
    Prlimit,
    /// `truncate`, `ftruncate`: pages of private mappings behind the file's new end go.
    Truncate,
    /// `msync`: the range must be mapped; only shared file mappings go to Linux.
    Msync,
    /// `personality`: ADDR_NO_RANDOMIZE and READ_IMPLIES_EXEC matter to `execve`.
    Personality,
    /// `getrandom`: the first few bytes come from what Linux gave when the program began.
    Random,
    /// `sysinfo`: memory is the LWK's.
    Sysinfo,
    /// `io_uring_setup`: threads of Linux' own may give descriptors another meaning from now on.
    IoUringSetup,
    /// A driver of Linux' may pin memory of the program: `ioctl`, `setsockopt`,
    /// `io_uring_register`.
    Pins,
    /// Reads or writes the memory of another process: its proxy has it.
    OtherMemory,
    /// Waits for signals on Linux: those pending in the LWK that the thread blocks have gone back
    /// there (`Control::RequeueSignal`).
    SigWait,
    /// `rt_sigtimedwait`: signals pending in the LWK answer the call.
    Sigtimedwait,
    /// `epoll_pwait` and its like have a signal mask of their own for the time they wait, which is
    /// Linux' business; the LWK delivers what was forwarded meanwhile although the thread's mask
    /// blocks it.
    EpollPwait,
    /// `ppoll`: as [`Hook::EpollPwait`], with the mask as another argument.
    Ppoll,
    /// `pselect6`, `io_pgetevents`: as [`Hook::EpollPwait`], with a structure that points to the
    /// mask.
    Pselect,
    /// `io_uring_enter`: as [`Hook::Pselect`], if a flag says that there is such a structure.
    IoUringEnter,
    /// `perf_event_open`: threads of the LWK are not counted: `ENOENT`.
    Perf,
    /// `wait4`: the time and memory of an ended child are the LWK's.
    Wait4,
    /// `waitid`: the time and memory of an ended child are the LWK's.
    Waitid,
    /// Looks at a file by its path: Linux shows directories in sysfs that the LWK's
    /// machine has not, and what a worker has whose thread has ended.
    Path,
    /// Looks at a file as [`Path`](Self::Path), with the descriptor of a directory before the path.
    PathAt,
}

impl Hook {
    /// One line for the documentation; empty for [`Hook::None`].
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None
            | Self::Attributes
            | Self::IoUringSetup
            | Self::Pins
            | Self::QueueToProcess => "",
            Self::Kill | Self::Tkill | Self::Tgkill | Self::QueueToThread => {
                "to the caller itself local"
            }
            Self::Close | Self::Dup2 => "keeps the control descriptor",
            Self::CloseRange => "goes around the control descriptor",
            Self::Credentials | Self::Unshare | Self::Setns => "the LWK asks for the ids again",
            Self::Rights => "idle workers have no more rights than threads",
            Self::Getitimer | Self::Setitimer => "timers that count CPU time are local",
            Self::TimerCreate
            | Self::TimerSettime
            | Self::TimerGettime
            | Self::TimerGetoverrun
            | Self::TimerDelete => "on CPU-time clocks local; remembered for `execve`",
            Self::Getrlimit | Self::Setrlimit | Self::Prlimit => {
                "limits of stack, address space, data and CPU time are taken over"
            }
            Self::Truncate => "pages of private mappings behind the end go",
            Self::Msync => "only shared file mappings reach Linux",
            Self::Personality => "randomisation and READ_IMPLIES_EXEC are taken over",
            Self::Sysinfo => "memory is the LWK's",
            Self::OtherMemory => "through the other process's proxy",
            Self::SigWait | Self::Sigtimedwait => "signals pending in the LWK count",
            Self::EpollPwait | Self::Ppoll | Self::Pselect | Self::IoUringEnter => {
                "the mask for the wait is set by Linux"
            }
            Self::Perf => "threads of the LWK are not counted: `ENOENT`",
            Self::Wait4 | Self::Waitid => "times and memory of an ended child are those on the LWK",
            Self::Random => "the first few bytes come from what Linux gave when the program began",
            Self::Path | Self::PathAt => {
                "directories of CPUs and nodes in sysfs, and links of processes, are the LWK's"
            }
        }
    }
}

/// Action of an interrupted call after the signal was handled (Linux' `ERESTART*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The call does not wait, or cannot be interrupted.
    Never,
    /// `ERESTARTSYS`: again if the handler has SA_RESTART, else `EINTR`.
    Sys,
    /// `ERESTARTNOHAND`: again if no handler ran, else `EINTR`.
    NoHand,
    /// `ERESTART_RESTARTBLOCK`: goes on with the time that is left if no handler
    /// ran, else `EINTR`.
    Block,
    /// Always `EINTR`.
    Interrupted,
}

/// Which thread of the proxy may execute a delegated call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The calling thread's own worker: the call depends on what Linux keeps for each thread, or
    /// could: the thread id, the signal mask and pending signals, credentials, keyrings, children,
    /// limits of scheduling, ioctls.
    Own,
    /// Any server of the process' request box: the call is about descriptors, paths or the process.
    Any,
    /// Any server, or the calling thread's own worker: the call may raise signals for the thread
    /// that executes it (SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU). If the caller blocks one of them, the
    /// own worker executes the call: there the signal has to be pending.
    Unmasked,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number in `rax`.
    pub number: u16,
    /// Name in Linux' table.
    pub name: &'static str,
    /// Number of arguments, 0..=6.
    pub args: u8,
    /// Description of each argument; empty: plain words.
    pub arguments: &'static [Argument],
    /// Kernel that serves the call.
    pub service: Service,
    /// Threads of the proxy that may execute the call, if it is delegated.
    pub by: By,
    /// Action after a signal has interrupted the call.
    pub restart: Restart,
    /// The vDSO answers the call without a trap, too.
    pub vdso: bool,
}

/// Operations of prctl(2) that change the rights of the calling thread.
pub const PRCTL_RIGHTS: [(u32, &str); 6] = [
    (PR_SET_KEEPCAPS, "PR_SET_KEEPCAPS"),
    (PR_SET_SECCOMP, "PR_SET_SECCOMP"),
    (PR_CAPBSET_DROP, "PR_CAPBSET_DROP"),
    (PR_SET_SECUREBITS, "PR_SET_SECUREBITS"),
    (PR_SET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS"),
    (PR_CAP_AMBIENT, "PR_CAP_AMBIENT"),
];

/// Whether prctl(2) with this first argument changes the rights of the calling thread.
#[must_use]
pub fn prctl_changes_rights(operation: u32) -> bool {
    PRCTL_RIGHTS.iter().any(|(known, _)| *known == operation)
}

impl Row {
    /// Whether the call changes, or can change, what the calling thread may do, and not what the
    /// process' other threads may: identity, capabilities, namespaces, keyrings, security modules,
    /// filters of system calls, ports. Of prctl(2) see [`PRCTL_RIGHTS`].
    #[must_use]
    pub const fn changes_rights(&self) -> bool {
        match self.service {
            Service::Delegated(hook) => {
                matches!(hook, Hook::Credentials | Hook::Unshare | Hook::Setns | Hook::Rights)
            }
            Service::Local => {
                let number = self.number as u32;
                number == __NR_seccomp || number == __NR_iopl || number == __NR_ioperm
            }
            Service::Refused(..) => false,
        }
    }
}
