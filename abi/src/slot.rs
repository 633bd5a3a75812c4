//! The slot: one delegated call at a time between a thread and its worker.
//!
//! A call costs one cache line (the first); the second one holds the sleep flags
//! and is touched only when somebody sleeps or changes policy. The slot is mapped
//! into the proxy: the LWK validates everything it reads from it.

/// No call in flight. The LWK may write a request.
pub const SLOT_IDLE: u32 = 0;
/// Request written by the LWK (release), to be executed by the worker.
pub const SLOT_REQUESTED: u32 = 1;
/// Answer written by the worker (release). The LWK sets `SLOT_IDLE` again.
pub const SLOT_DONE: u32 = 2;

/// The other side polls (or works): no doorbell needed.
pub const WAIT_AWAKE: u32 = 0;
/// The other side sleeps or is about to: ring it.
pub const WAIT_ASLEEP: u32 = 1;

/// `nr` from here on is not a Linux system call but an `OP_*` of the worker.
pub const OP_BASE: u32 = 0x8000_0000;
/// args: [0] = service index: `IOCTL_SERVE` it. Result = 0 or the ioctl's -errno.
pub const OP_SERVE: u32 = OP_BASE;
/// End the process by signal args[0] with the default action (never returns).
pub const OP_EXIT_SIGNAL: u32 = OP_BASE + 1;
/// The program could not be started: args: [0] = errno, [1] = `START_FAILED_*`.
/// The proxy prints why and exits 127 (not found) or 126 (never returns).
pub const OP_START_FAILED: u32 = OP_BASE + 2;
/// Mirror a signal disposition: args: [0] = signal, [1] = `MIRROR_*`,
/// [2] = SA_RESTART, SA_NOCLDSTOP, SA_NOCLDWAIT as given. See `docs/architecture.md`, signals.
pub const OP_SIGNAL_ACTION: u32 = OP_BASE + 3;
/// execve succeeded: args: [0] = address (control window) of the new program's
/// name, zero-terminated: close close-on-exec descriptors, reset dispositions
/// that were caught, name the process. [1] = file id of the program, or 0;
/// [2] = address (control window) of [`EXECED_WORDS`] words for Linux' memory map,
/// in the order of `struct prctl_mm_map`, or 0: what `/proc/PID/cmdline`, `environ`
/// and `auxv` show. [3] = 1: nobody but the superuser is to look into the program.
pub const OP_EXECED: u32 = OP_BASE + 4;
/// start_code, end_code, start_data, end_data, start_brk, brk, start_stack,
/// arg_start, arg_end, env_start, env_end, address and bytes of auxv.
pub const EXECED_WORDS: usize = 13;
/// Map the device again over args[0]..args[1], after a shared mapping ended there.
pub const OP_REMAP: u32 = OP_BASE + 5;
/// Do nothing: the cost of a delegation without Linux' part.
pub const OP_NOP: u32 = OP_BASE + 6;
/// Leave the process as it is but stop it by signal args[0] (job control):
/// default disposition, raise, restore when continued. Result 0.
pub const OP_STOP_SIGNAL: u32 = OP_BASE + 7;
/// Give signal args[0] (with the siginfo at scratch page) back to Linux, to be
/// pending there under the mask that was just set: args[1] = 1 for the process, 0 for
/// the thread.
pub const OP_REQUEUE_SIGNAL: u32 = OP_BASE + 8;

/// Start one more worker, for slot args[0] (a thread of this process); args[1]: CLONE_FS
/// and CLONE_FILES where it gets a copy and does not share. Result =
/// its Linux thread id, or -errno. It polls its slot like the first one.
pub const OP_THREAD: u32 = OP_BASE + 9;
/// End the worker of this slot (its thread has ended); never answered. The
/// process goes on with its other workers.
pub const OP_THREAD_EXIT: u32 = OP_BASE + 10;
/// End the worker of this slot (its thread has ended), and have a new one, which is like
/// it but for its thread id, serve the slot. The new one answers: 0; `tid` is its own then.
/// If there can be none: -errno, `tid` is 0, and the slot is not looked at any more.
/// args: [0] = 0, or a slot without a worker, which gets one in the same way: the request
/// that is there already (`OP_NOP`) is its answer's.
pub const OP_THREAD_RENEW: u32 = OP_BASE + 16;
/// A new program begins on this worker's thread: its rights become what execve(2) makes of
/// them. args: [0] = address (control window) for [`RANDOM_BYTES`] random bytes, or 0.
/// Result = `RIGHTS_*`, or -errno.
pub const OP_RIGHTS: u32 = OP_BASE + 17;
/// For the addresses of a program and its AT_RANDOM.
pub const RANDOM_BYTES: usize = 32;
/// `OP_RIGHTS`: they are others than before.
pub const RIGHTS_CHANGED: i64 = 1;
/// `OP_RIGHTS`: the program has more than who started it (AT_SECURE).
pub const RIGHTS_SECURE: i64 = 2;
/// The program goes on in the first worker, which makes this call: it becomes to Linux what
/// the one with thread id args[0] is, which execve(2) was called in and which waits. Result
/// 0, or -errno.
pub const OP_SUCCEED: u32 = OP_BASE + 25;
/// fork of the proxy: args: [0] = token for `IOCTL_CHILD`, [1] = exit signal in the
/// low seven bits, and the flags of clone3 that matter to Linux (CLONE_PARENT,
/// namespaces, CLONE_PIDFD, CLONE_FILES ..., never CLONE_VM), [2..6] = pidfd,
/// set_tid, set_tid_size and cgroup of `struct clone_args`.
/// Result in the parent = the child's process id, or -errno. The child makes the
/// inherited descriptor its own space with `IOCTL_CHILD`, from where on it runs on the
/// LWK, maps the control window, and serves slot 0 with the worker that came through
/// the fork. What lies below the control window is mapped by
/// `OP_REMAP`s that the LWK sends, around shared mappings that Linux has copied.
pub const OP_FORK: u32 = OP_BASE + 11;

/// clone of the proxy with its memory (CLONE_VM), but as a process of its own, whose first
/// worker serves slot args[0]; it says `IOCTL_SHARE`. args: [1] = exit signal in the low
/// byte, and the flags of clone(2) that matter to Linux, [2] = address for CLONE_PIDFD,
/// [3] = first slot of the calling process, [4] = address of the wanted process ids
/// (`set_tid` of clone3(2)) or 0, [5] = their number, and from bit 32 on the descriptor for
/// CLONE_INTO_CGROUP. Result = process id, or -errno.
pub const OP_SHARE: u32 = OP_BASE + 19;

/// execve that Linux makes: the proxy makes the execveat(2) itself, of directory args[1], path at
/// args[2], flags args[3] and the arguments at args[5], or the path alone if that is 0. The module has Linux load the proxy again in place of the program
/// (`module/space/program.c`); the new image takes token args[0] to `IOCTL_CHILD`, with the file ids
/// args[4]: the program, and in the upper half its ELF interpreter, or 0. Result = -errno; no answer if it
/// succeeds.
pub const OP_EXEC: u32 = OP_BASE + 26;

/// Has Linux judge this worker's calls by a filter (seccomp(2)) that comes in parts, from the
/// first on: args: [0] = address (control window) of the part, [1] = its bytes, [2] = those of
/// the filter before it, [3] = those of the whole filter, [4] = `SECCOMP_FILTER_FLAG_*`,
/// [5] = 1: with no_new_privs, which is set first. Result = of the last part that of seccomp(2),
/// of others 0, or -errno; then the next filter begins anew.
pub const OP_FILTER: u32 = OP_BASE + 27;
/// Bytes of a part of a filter, at most.
pub const FILTER_PART: usize = 4096;

/// Interrupt the worker with thread id args[0] (its thread has to end): the call it
/// is in ends as by a signal, one it has not begun answers `RESULT_NOT_STARTED`.
pub const OP_INTERRUPT: u32 = OP_BASE + 12;

/// A core dump is about to be made: args: [0] = signal. Result 1: yes, and what is
/// mapped from now on is for it; 0: the process may not have one.
pub const OP_DUMP: u32 = OP_BASE + 13;
/// For the dump: args[0]..args[1] is unmapped (args[2] = 0), mapped to be dumped
/// (1: to be read, 2: to be written, too), or, a mapping of Linux', left out (3).
pub const OP_DUMP_RANGE: u32 = OP_BASE + 14;
/// Last call of a thread before a core dump: args[0] = address (control window) of a
/// [`crate::ioctl::Pose`], followed by FS base, GS base, and FPU state as `xsave`
/// makes it (args[1] bytes). Does not return.
pub const OP_POSE: u32 = OP_BASE + 15;

/// Linux shall have a thread that is traced stop for its tracer: take signal args[0] (with
/// the siginfo at scratch page), whatever the mask and the disposition say. Result 0 when
/// the tracer has let the worker go on; what it lets through comes by `IOCTL_SIGNAL` before
/// that.
pub const OP_TRAP: u32 = OP_BASE + 24;

/// `OP_SIGNAL_ACTION`: the default action is to do nothing, or the application
/// ignores it: SIG_IGN / SIG_DFL of Linux.
pub const MIRROR_DEFAULT: u64 = 0;
/// The application ignores it.
pub const MIRROR_IGNORE: u64 = 1;
/// Forward it to the LWK (caught, or fatal by default).
pub const MIRROR_FORWARD: u64 = 2;

/// `OP_START_FAILED`: opening or reading the file itself failed.
pub const START_FAILED_FILE: u64 = 0;
/// The interpreter (`#!` or ELF) was not found or is bad.
pub const START_FAILED_INTERPRETER: u64 = 1;
/// Not a program this machine can run.
pub const START_FAILED_FORMAT: u64 = 2;
/// No memory.
pub const START_FAILED_MEMORY: u64 = 3;

/// Result of a call that a signal kept from being started: the LWK delivers the
/// signal and then makes the call again (what Linux calls ERESTARTNOINTR).
pub const RESULT_NOT_STARTED: i64 = -513;

/// 128 bytes, two cache lines.
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// `SLOT_*`.
    pub state: u32,
    /// Linux system call number, or `OP_*`.
    pub nr: u32,
    /// Arguments, in the order of the system call.
    pub args: [u64; 6],
    /// What the system call returned (-errno for errors).
    pub result: i64,

    /// `WAIT_*`: the worker, written by the worker.
    pub worker_wait: u32,
    /// `WAIT_*`: the LWK thread, written by the LWK.
    pub lwk_wait: u32,
    /// Bell to ring for this thread, always the same one. Written by the LWK.
    pub bell: u32,
    /// How long the worker polls before it sleeps, in microseconds; 0: not at
    /// all. Written by the LWK.
    pub poll_us: u32,
    /// Signal mask (bit n-1 = signal n) the worker must have during the next
    /// call; the worker compares it with its own. Written by the LWK.
    pub sigmask: u64,
    /// Linux thread id of the worker, written by the worker before START.
    pub tid: u32,
    /// Zero.
    pub reserved0: u32,
    /// Head of the application thread's list of robust futexes (set_robust_list(2)), or
    /// 0; the worker has Linux know it before the next call, so that Linux walks the
    /// list when the worker ends with its process. Written by the LWK.
    pub robust_list: u64,
    /// Zero, up to 128 bytes.
    pub reserved: [u64; 2],
}
