//! What a row of the table says of a system call.

use crate::errno::Errno;

/// Who serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The LWK.
    Local(LocalCall),
    /// Linux, by the thread's worker, with the same arguments.
    Delegated(Hook),
    /// Nobody: this error, for this reason.
    Refused(Errno, &'static str),
}

/// What a delegated call means for the LWK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Nothing.
    None,
    /// Sends a signal: to the caller itself it is queued here, to a thread that has ended
    /// it is `ESRCH`.
    Signal,
    /// `close`: the control descriptor is not the program's: `EBADF`.
    Close,
    /// `dup2`, `dup3`: neither descriptor may be the control descriptor: `EBADF`.
    Dup2,
    /// `close_range`: goes around the control descriptor, in two calls where it lies inside.
    CloseRange,
    /// Identity may have changed: ask for the ids again when it succeeded; [`Hook::Rights`] as well.
    Credentials,
    /// Changes what Linux keeps for each thread: a worker that had another thread
    /// is not like this one any more.
    Attributes,
    /// Changes the rights of the calling thread: no worker that had another thread keeps what
    /// it had, unless a living thread has that, too.
    Rights,
    /// `setitimer`, `getitimer`: timers that count CPU time are the LWK's.
    CpuTimer,
    /// `timer_create`, `timer_delete`: remembered for `execve`.
    Timer,
    /// RLIMIT_STACK, RLIMIT_AS, RLIMIT_DATA and RLIMIT_SIGPENDING are also known to
    /// the LWK: take over what was set.
    Rlimit,
    /// `msync`: the range must be mapped; only shared file mappings go to Linux.
    Msync,
    /// `personality`: ADDR_NO_RANDOMIZE and READ_IMPLIES_EXEC matter to `execve`.
    Personality,
    /// `sysinfo`: memory is the LWK's.
    Sysinfo,
    /// Reads or writes the memory of another process: its proxy has it.
    OtherMemory,
    /// Waits for signals on Linux: those pending in the LWK go back there first
    /// (`OP_REQUEUE_SIGNAL`), or answer the call.
    SigWait,
    /// Has a signal mask of its own for the time it waits, which is Linux' business;
    /// the LWK delivers what was forwarded meanwhile although the thread's mask blocks it.
    TempMask,
    /// `perf_event_open`: threads of the LWK are not counted: `ENOENT`.
    Perf,
    /// `wait4`, `waitid`: the time and memory of an ended child are the LWK's.
    Wait,
    /// Looks at a file by its path: Linux shows directories in sysfs that the LWK's
    /// machine has not.
    Path,
}

impl Hook {
    /// One line for the documentation; empty for [`Hook::None`].
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Signal => "to the caller itself local",
            Self::Close | Self::Dup2 => "keeps the control descriptor",
            Self::CloseRange => "goes around the control descriptor",
            Self::Credentials => "the LWK asks for the ids again",
            Self::Attributes => "",
            Self::Rights => "idle workers have no more rights than threads",
            Self::CpuTimer => "timers that count CPU time are local",
            Self::Timer => "on CPU-time clocks local; remembered for `execve`",
            Self::Rlimit => "limits of stack, address space, data and CPU time are taken over",
            Self::Msync => "only shared file mappings reach Linux",
            Self::Personality => "randomisation and READ_IMPLIES_EXEC are taken over",
            Self::Sysinfo => "memory is the LWK's",
            Self::OtherMemory => "through the other process's proxy",
            Self::SigWait => "signals pending in the LWK count",
            Self::TempMask => "the mask for the wait is set by Linux",
            Self::Perf => "threads of the LWK are not counted: `ENOENT`",
            Self::Wait => "times and memory of an ended child are those on the LWK",
            Self::Path => "directories of CPUs and nodes in sysfs are the LWK's",
        }
    }
}

/// What an interrupted call does after the signal was handled (Linux' `ERESTART*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It does not wait, or cannot be interrupted.
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

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number in `rax`.
    pub number: u32,
    /// Name in Linux' table.
    pub name: &'static str,
    /// Number of arguments, 0..=6.
    pub args: u8,
    /// Who serves it.
    pub service: Service,
    /// What happens when a signal interrupts it.
    pub restart: Restart,
    /// The vDSO answers it without a trap, too.
    pub vdso: bool,
}

macro_rules! local_calls {
    ($($variant:ident = $name:literal,)*) => {
        /// The calls that the LWK serves itself, or will (their rows say whether
        /// they are refused for now).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum LocalCall {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl LocalCall {
            /// Name in Linux' table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

local_calls! {
    Mmap = "mmap",
    Mprotect = "mprotect",
    Munmap = "munmap",
    Brk = "brk",
    RtSigaction = "rt_sigaction",
    RtSigprocmask = "rt_sigprocmask",
    RtSigreturn = "rt_sigreturn",
    SchedYield = "sched_yield",
    Mremap = "mremap",
    Mincore = "mincore",
    Madvise = "madvise",
    Shmat = "shmat",
    Getpid = "getpid",
    Clone = "clone",
    Fork = "fork",
    Vfork = "vfork",
    Execve = "execve",
    Exit = "exit",
    Shmdt = "shmdt",
    Gettimeofday = "gettimeofday",
    Getrusage = "getrusage",
    Times = "times",
    Ptrace = "ptrace",
    Getuid = "getuid",
    Getgid = "getgid",
    Geteuid = "geteuid",
    Getegid = "getegid",
    RtSigpending = "rt_sigpending",
    RtSigsuspend = "rt_sigsuspend",
    Sigaltstack = "sigaltstack",
    Mlock = "mlock",
    Munlock = "munlock",
    Mlockall = "mlockall",
    Munlockall = "munlockall",
    Prctl = "prctl",
    ArchPrctl = "arch_prctl",
    Gettid = "gettid",
    Time = "time",
    Futex = "futex",
    SchedSetaffinity = "sched_setaffinity",
    SchedGetaffinity = "sched_getaffinity",
    RemapFilePages = "remap_file_pages",
    SetTidAddress = "set_tid_address",
    RestartSyscall = "restart_syscall",
    ClockGettime = "clock_gettime",
    ClockGetres = "clock_getres",
    Nanosleep = "nanosleep",
    ClockNanosleep = "clock_nanosleep",
    ExitGroup = "exit_group",
    Mbind = "mbind",
    MigratePages = "migrate_pages",
    SetMempolicy = "set_mempolicy",
    GetMempolicy = "get_mempolicy",
    SetRobustList = "set_robust_list",
    GetRobustList = "get_robust_list",
    Getcpu = "getcpu",
    Execveat = "execveat",
    Membarrier = "membarrier",
    Seccomp = "seccomp",
    Iopl = "iopl",
    Ioperm = "ioperm",
    Mlock2 = "mlock2",
    PkeyMprotect = "pkey_mprotect",
    Rseq = "rseq",
    IoSetup = "io_setup",
    IoDestroy = "io_destroy",
    Clone3 = "clone3",
    ProcessMadvise = "process_madvise",
    FutexWaitv = "futex_waitv",
    FutexWake = "futex_wake",
    FutexWait = "futex_wait",
    FutexRequeue = "futex_requeue",
    Mseal = "mseal",
}
