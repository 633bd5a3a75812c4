//! The ioctls of `/dev/hanare`.
//!
//! An open descriptor has one role, given by its first call: *manager* (boot, status; no role
//! needed), *builder* (`IOCTL_CREATE`: an instance under construction, released again if the
//! descriptor is closed before `IOCTL_BOOT` succeeds), or *space* (`IOCTL_ATTACH`: a proxy
//! process). Calls that change the partition need CAP_SYS_ADMIN. Every structure with a `message`
//! gets a sentence there when the call fails: what was wrong and what to do.

use crate::cpus::LinuxCpuSet;
use crate::info::{ProcessInfo, ThreadInfo};
pub use crate::manage::*;
use crate::observe::{Observation, Observe, TraceRead};
use crate::pooled::PoolMake;
pub use crate::text::{MESSAGE_SIZE, NAME_SIZE};

/// Type byte of the ioctl numbers.
pub const IOCTL_TYPE: u32 = b'H' as u32;

const fn number(direction: u32, nr: u32, size: usize) -> u32 {
    assert!(size < 1 << 14);
    direction << 30 | (size as u32) << 16 | IOCTL_TYPE << 8 | nr
}
const fn iowr<T>(nr: u32) -> u32 {
    number(3, nr, size_of::<T>())
}

/// `IOCTL_ATTACH`: the descriptor becomes a space of a running instance.
/// ENOENT: no such instance; ENODEV: it is not running, or does not answer. When it dies,
/// every attached process gets SIGBUS (BUS_ADRERR, si_addr = `CONTROL_BASE`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// In: name; empty: the only instance, or the one called `default`. Out: its name.
    pub name: [u8; NAME_SIZE],
    /// In: CPUs of Linux on which it may run (must belong to the instance); empty: the whole
    /// instance.
    pub cpus: LinuxCpuSet,
    /// Out: space id; the device's file offset is `space << 47 | address`.
    pub space: u32,
    /// Out: number of CPUs it may run on.
    pub cpu_count: u32,
    /// In: number of the descriptor, which no program is shown.
    pub fd: u32,
    /// In: zero. Out: 1 if Linux counts events of the caller (`perf stat`).
    pub counted: u32,
    /// In: `ATTACH_*` of [`crate::pooled`].
    pub kind: u32,
    /// In: descriptor of the pool, of all but `ATTACH_PROGRAM`; else 0.
    pub pool_fd: u32,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_SERVE`: run service `index` in the caller's context. EPERM: it is not of this space;
/// EINVAL: not ready.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Serve {
    /// In: service index.
    pub index: u32,
    /// Zero.
    pub reserved: u32,
}

/// `IOCTL_SIGNAL`: tell the LWK of a signal that the worker of `slot` took. Returns when the LWK
/// has queued it. The worker blocks some from then on until it takes its next request
/// (`stays_blocked` in `abi/src/signal.rs`). `EAGAIN`: it was sent to the process, and the thread
/// blocks it, of which Linux has not been told yet, or has ended. The worker blocks it likewise,
/// and sends it to the process once more, so that Linux finds another thread that takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// In: signal number.
    pub signal: u32,
    /// In: slot.
    pub slot: u32,
    /// In: siginfo_t as the handler got it.
    pub info: [u64; 16],
}

/// `IOCTL_LAST`: the caller ends by this signal's default action next, which its tracer has
/// seen: Linux does not stop it once more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Last {
    /// In: signal number.
    pub signal: u32,
    /// Zero.
    pub reserved: u32,
}

/// `IOCTL_USAGE`: resource use of the caller's space; see `REQUEST_USAGE`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Out: user and system time, ns.
    pub user_ns: u64,
    /// System time, ns.
    pub system_ns: u64,
    /// Out: resident bytes, peak.
    pub resident_bytes: u64,
    /// Most bytes that were resident.
    pub peak_bytes: u64,
}

/// `IOCTL_CHILD`: by the child of a fork, or the proxy that `Control::Exec` has loaded again: the
/// inherited descriptor becomes that of a space of its own, child of `parent`. Where the descriptor
/// table is the parent's (CLONE_FILES), the descriptor stays as it is: it serves all processes that
/// have the table, each for the space that is its memory. EPERM: the descriptor does not serve
/// `parent`. ESRCH: that has ended, or knows no such token.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// In: token of `Control::Fork` or `Control::Exec`.
    pub token: u64,
    /// In: 1: of `Control::Exec`; 0: of `Control::Fork`.
    pub program: u32,
    /// In: 1: the program has more rights than its caller (AT_SECURE).
    pub secure: u32,
    /// In: file ids that move from the parent to the new space; 0: none.
    pub files: [u64; 3],
    /// In: id of the parent's space.
    pub parent: u32,
    /// In: 1: the caller has its parent's descriptor table; `Control::Fork` only.
    pub shares_table: u32,
    /// Out: space id.
    pub space: u32,
    /// Out: where the application's addresses are to be mapped, a bit for each part; 0:
    /// `Control::Remap` will say.
    pub parts: u32,
}

/// Registers in [`DumpThread`]: r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi,
/// rdi, rip, rflags, rsp.
pub const DUMP_THREAD_REGS: usize = 18;

/// `IOCTL_DUMP_THREAD`: for a core dump the calling thread takes on these registers and
/// either dies of `signal`, whose action is the default, or, with 0, stays in the
/// call until another thread of the process does.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DumpThread {
    /// In: signal number or 0.
    pub signal: u32,
    /// In: with a signal, how many other threads were told to stay, which is waited for.
    pub others: u32,
    /// In: registers.
    pub regs: [u64; DUMP_THREAD_REGS],
    /// In: siginfo_t.
    pub info: [u64; 16],
}

/// `IOCTL_SEND`: sends a signal to a thread of the calling process, or to the process. A filter
/// of system calls could not tell a worker's own process from others of its user.
/// ESRCH: no such thread of it. EAGAIN: too many are pending.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// In: signal number.
    pub signal: u32,
    /// In: thread id, or 0: the process. It is pending there for any thread that does not block
    /// it.
    pub tid: u32,
    /// In: 1: it was pending there before, and is older than what is pending now.
    pub is_back: u32,
    /// Zero.
    pub reserved: u32,
    /// In: siginfo_t.
    pub info: [u64; 16],
}

/// `IOCTL_COPY`: copies memory of the calling process, whether or not it may be touched. EFAULT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// In: address that the bytes come from.
    pub from: u64,
    /// In: address that the bytes go to.
    pub to: u64,
    /// In: how many bytes.
    pub bytes: u64,
}

/// `IOCTL_FORWARD`: a handler for many signals of the caller's, as by sigaction(2). EINVAL:
/// SIGKILL, SIGSTOP.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// In: the signals, a bit each, the first signal's lowest.
    pub signals: u64,
    /// In: those of them that get the handler though the process ignores them.
    pub ignored_too: u64,
    /// In: address of the handler.
    pub handler: u64,
    /// In: address that the handler returns to.
    pub restorer: u64,
}

/// `IOCTL_OPENED`: descriptor `fd` was opened by the application. If it is a file of procfs or
/// sysfs that shows the machine or an LWK process, the answer is 1 in `shows`. With `replace` set,
/// `fd` is closed then, and `fd` of the answer is a descriptor that shows the LWK's machine
/// instead. Or `fd` is only closed: the LWK's machine has no such file (`ENOENT`), or the file is
/// about a thread that has ended, and the error is Linux'.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// In: the descriptor. Out: the one instead.
    pub fd: i32,
    /// In: 1: give a descriptor instead that shows the LWK's machine.
    pub replace: u32,
    /// In: 1: the new descriptor is close-on-exec.
    pub close_on_exec: u32,
    /// Out: 0, or `OPENED_*`.
    pub shows: u32,
}

/// `Opened::shows`: the file shows the LWK's machine.
pub const OPENED_OURS: u32 = 1;
/// `Opened::shows`: a device that is none to an LWK program.
pub const OPENED_NOTHING: u32 = 2;

/// `IOCTL_LISTED`: `getdents` of descriptor `fd` gave `bytes` at `buffer`: takes
/// out the names that an LWK program is not to see. Out: bytes left.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// In: the directory.
    pub fd: i32,
    /// In: 1: entries of `getdents`, 0: of `getdents64`.
    pub old: u32,
    /// In: address of the entries.
    pub buffer: u64,
    /// In: bytes there. Out: bytes left.
    pub bytes: u64,
}

/// `IOCTL_SHARE`: the calling process is one of several that have the space (CLONE_VM).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// In: slot of its first thread.
    pub slot: u32,
    /// In: 1: it is new and begins; 0: its end is to be told, nothing else.
    pub begin: u32,
}

/// `IOCTL_EXECED`: the caller's program is now file `file` of its space:
/// `/proc/PID/exe` says so, and descriptors that are close-on-exec are closed, but for
/// that of the space. -EACCES: not a file that the caller may execute.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Execed {
    /// In: file id of `SERVICE_PROGRAM_GET`, or 0: leave it as it is.
    pub file: u64,
    /// In: addresses of arguments and environment in the application's memory, for
    /// `/proc/PID/cmdline` and `environ` as LWK programs see them.
    pub arg_start: u64,
    /// End of the arguments.
    pub arg_end: u64,
    /// Start of the environment.
    pub env_start: u64,
    /// End of the environment.
    pub env_end: u64,
}

/// `IOCTL_RIGHTS`: a new program begins on the caller: its rights become what execve(2) makes them,
/// as far as none is more than before. EAGAIN: one would be, which only an execve(2) of Linux
/// gives; nothing has changed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Out: 1: they are others than before.
    pub changed: u32,
    /// Out: 1: the program has more rights than its caller (AT_SECURE).
    pub secure: u32,
    /// Out: 1: it has more than the program before it: Linux has made the process one that only
    /// the superuser may look into.
    pub gained: u32,
    /// In: 1: what would be more stays as it is, in the place of EAGAIN.
    pub keeps: u32,
}

/// `IOCTL_SUCCEED`: the calling first thread of a process takes over what Linux keeps for
/// another one, which called execve(2) and waits for a request: credentials and the like.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Succeed {
    /// In: thread id, as the caller sees it.
    pub tid: u32,
    /// Zero.
    pub reserved: u32,
}

/// `IOCTL_PROCESS`: the process with the lowest space id above `after`.
/// ENOENT: no more, or no such instance.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProcessStatus {
    /// In: instance.
    pub name: [u8; NAME_SIZE],
    /// In: space id to go on from, 0 at first. Out: space id of this one.
    pub after: u32,
    /// Out: process id, in the caller's namespace; 0: not seen from there.
    pub pid: u32,
    /// Out.
    pub info: ProcessInfo,
}

/// `IOCTL_THREADS`: threads of a space.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// In: instance.
    pub name: [u8; NAME_SIZE],
    /// In: space id.
    pub space: u32,
    /// In and out: where to go on, 0 at first, as in [`crate::info::INFO_THREADS`].
    pub from: u32,
    /// Out: entries of `threads`; 0: no more.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: threads.
    pub threads: [ThreadInfo; THREADS_AT_ONCE],
}

/// Most threads one `IOCTL_THREADS` tells of.
pub const THREADS_AT_ONCE: usize = 8;

/// `IOCTL_END`: a space that has ended on Linux, of which the LWK has not said yet that nothing is
/// left. The caller's own, or any for `CAP_SYS_PTRACE`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EndStatus {
    /// In: instance.
    pub name: [u8; NAME_SIZE],
    /// In and out: its id; the one that is asked for has the next higher one. `ENOENT`: none.
    pub after: u32,
    /// Out: process id, in the caller's namespace; 0: not seen from there.
    pub pid: u32,
    /// Out: Linux' number of the CPU that has been asked and has not answered; or
    /// [`END_CPU_NONE`].
    pub cpu: u32,
    /// Out: 1: the task that ends waits for it; 0: it does not any more.
    pub waits: u32,
    /// Out: threads that the LWK had of it when it answered last.
    pub threads: u32,
    /// Out: Linux thread id of one of them, in the proxy's namespace; 0: not known.
    pub tid: u32,
    /// Out: how long ago it has ended, ms.
    pub since_ms: u64,
}

/// In [`EndStatus::cpu`]: none.
pub const END_CPU_NONE: u32 = u32::MAX;

/// Ioctl with [`Info`].
pub const IOCTL_INFO: u32 = iowr::<Info>(0);
/// Ioctl with [`Create`].
pub const IOCTL_CREATE: u32 = iowr::<Create>(1);
/// Ioctl with [`AddMemory`].
pub const IOCTL_ADD_MEMORY: u32 = iowr::<AddMemory>(2);
/// Ioctl with [`AddCpu`].
pub const IOCTL_ADD_CPU: u32 = iowr::<AddCpu>(3);
/// Ioctl with [`AddDevice`].
pub const IOCTL_ADD_DEVICE: u32 = iowr::<AddDevice>(46);
/// Ioctl with [`Boot`].
pub const IOCTL_BOOT: u32 = iowr::<Boot>(4);
/// Ioctl with [`Shutdown`].
pub const IOCTL_SHUTDOWN: u32 = iowr::<Shutdown>(5);
/// Ioctl with [`Status`].
pub const IOCTL_STATUS: u32 = iowr::<Status>(6);
/// Ioctl with [`Log`].
pub const IOCTL_LOG: u32 = iowr::<Log>(7);
/// Ioctl with [`Debug`].
pub const IOCTL_DEBUG: u32 = iowr::<Debug>(8);
/// Ioctl with [`Attach`].
pub const IOCTL_ATTACH: u32 = iowr::<Attach>(16);
/// Ioctl with [`PoolMake`].
pub const IOCTL_POOL: u32 = iowr::<PoolMake>(9);
/// No argument: start the program of the start block (`REQUEST_SPACE_START`).
pub const IOCTL_START: u32 = number(0, 17, 0);
/// The worker of a slot sleeps until the LWK rings it. The argument is a number, so that nothing is
/// copied: the slot's index, and [`WAIT_RING_SHIFT`] bits up the bell that is rung first
/// (`IOCTL_RING`), plus 1; 0: none. Returns the doorbell of the CPU where the worker goes on, plus
/// 1, or 0; see [`crate::slot::Slot::doorbell`]. EINVAL: there is no such slot or bell; EINTR: a
/// signal, after the bell; EIO: the LWK died or goes down.
pub const IOCTL_WAIT: u32 = number(0, 18, 0);
/// Rings the bell that is the argument, by its index in the instance. Nothing happens if it is not
/// one of the space's, or has been rung as often as its thread went to sleep. EINVAL: there is no
/// such bell; EIO: as above.
pub const IOCTL_RING: u32 = number(0, 19, 0);
/// A thread of the calling process serves a slot. The argument is the slot's bell, and
/// [`WORKER_SHIFT`] bits up the thread's id, as the caller sees it. The module tells the LWK the
/// ids where no proxy can write ([`crate::boot::Bell::worker`]). EINVAL: there is no such bell;
/// EPERM: it is another space's, or the LWK does not know the caller as a process of the space;
/// ESRCH: the process has no such thread.
pub const IOCTL_WORKER: u32 = number(0, 45, 0);
/// Place of the thread's id in the argument of [`IOCTL_WORKER`].
pub const WORKER_SHIFT: u32 = 32;
/// Place of the slot to ring in the argument of [`IOCTL_WAIT`].
pub const WAIT_RING_SHIFT: u32 = 32;
/// Ioctl with [`Serve`].
pub const IOCTL_SERVE: u32 = iowr::<Serve>(20);
/// Ioctl with [`Signal`].
pub const IOCTL_SIGNAL: u32 = iowr::<Signal>(21);
/// Ioctl with [`Usage`].
pub const IOCTL_USAGE: u32 = iowr::<Usage>(22);
/// No argument: what the caller maps from now on goes into its core dump.
pub const IOCTL_DUMP: u32 = number(0, 51, 0);
/// Ioctl with [`DumpThread`].
pub const IOCTL_DUMP_THREAD: u32 = iowr::<DumpThread>(52);
/// Ioctl with [`Child`].
pub const IOCTL_CHILD: u32 = iowr::<Child>(23);
/// Ioctl with [`Observe`].
pub const IOCTL_OBSERVE: u32 = iowr::<Observe>(24);
/// Ioctl with [`Observation`].
pub const IOCTL_OBSERVATION: u32 = iowr::<Observation>(25);
/// Ioctl with [`TraceRead`].
pub const IOCTL_TRACE_READ: u32 = iowr::<TraceRead>(26);
/// Ioctl with [`Opened`].
pub const IOCTL_OPENED: u32 = iowr::<Opened>(48);
/// Ioctl with [`Listed`].
pub const IOCTL_LISTED: u32 = iowr::<Listed>(49);
/// Ioctl with [`Execed`].
pub const IOCTL_EXECED: u32 = iowr::<Execed>(50);
/// Ioctl with [`Rights`].
pub const IOCTL_RIGHTS: u32 = iowr::<Rights>(54);
/// Ioctl with [`Succeed`].
pub const IOCTL_SUCCEED: u32 = iowr::<Succeed>(55);
/// Ioctl with [`Share`].
pub const IOCTL_SHARE: u32 = iowr::<Share>(53);
/// Ioctl with [`Last`].
pub const IOCTL_LAST: u32 = iowr::<Last>(60);
/// Ioctl with [`Send`].
pub const IOCTL_SEND: u32 = iowr::<Send>(61);
/// Ioctl with [`Copy`].
pub const IOCTL_COPY: u32 = iowr::<Copy>(62);
/// Ioctl with [`Forward`].
pub const IOCTL_FORWARD: u32 = iowr::<Forward>(63);
/// No argument: the caller may execute what its program may ([`crate::utility`]). EPERM: the space
/// is another process'.
pub const IOCTL_EXECUTE: u32 = number(0, 42, 0);
/// Whether the caller, a pooled proxy, may make calls of the native task whose space is the
/// argument: either may have confined itself since it joined the pool. EPERM: the one may what the
/// other may not; ESRCH: the task has ended; EINVAL: the caller is no pooled proxy.
pub const IOCTL_SERVES: u32 = number(0, 44, 0);
/// Ioctl with [`Eventfd`](crate::utility::Eventfd).
pub const IOCTL_EVENTFD: u32 = iowr::<crate::utility::Eventfd>(43);
/// Ioctl with [`ProcessStatus`].
pub const IOCTL_PROCESS: u32 = iowr::<ProcessStatus>(40);
/// Ioctl with [`Threads`].
pub const IOCTL_THREADS: u32 = iowr::<Threads>(41);
/// Ioctl with [`EndStatus`].
pub const IOCTL_END: u32 = iowr::<EndStatus>(45);
