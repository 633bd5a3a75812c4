//! Watching processes from outside: `hanare trace` and `hanare gdb`.
//!
//! An observer is a descriptor with a *session* on the LWK. Its requests are `OBSERVE_*`, each
//! answered at once; news are told by `EVENT_OBSERVE`. What the session keeps on the LWK is charged
//! to the user who made the descriptor. A trace ends with the descriptor, or once its last process
//! has ended and all records are read ([`TraceRing::over`]); of a debugger whose process has ended
//! only its status is left.

use crate::text::MESSAGE_SIZE;

/// Trace: args: [0] = `TRACE_*` flags, [1] = most bytes kept of a string. data: [0] = the user who
/// is charged for the ring, a user id of Linux' first user namespace; written by the module.
/// Answer: args: [0] = physical address of a [`TraceRing`], [1] = bytes of its text. `EAGAIN`: the
/// user has as many rings as the limit allows. `ENOMEM`: the user's limit of kernel memory, or
/// there is no memory.
pub const OBSERVE_TRACE: u32 = 1;
/// Ends the session: breakpoints are removed, threads go on. `EAGAIN`: one cannot be removed for
/// the moment; args: [0] = it is ended even then.
pub const OBSERVE_CLOSE: u32 = 2;
/// Answer: args: [0] = processes that the session watches, [1] = `OBSERVED_*` |
/// signal << 8 | thread id << 32; data: [0] = exit status as of wait(2), if it ended,
/// [1] = address (of a breakpoint or watchpoint).
pub const OBSERVE_STATUS: u32 = 3;
/// Debug: takes hold of the process; it is not stopped yet. EBUSY: another debugger has it. data:
/// [0] = the user who is charged for breakpoints, as of [`OBSERVE_TRACE`].
pub const OBSERVE_DEBUG: u32 = 4;
/// Stops all threads; `OBSERVE_STATUS` says when it is so.
pub const OBSERVE_STOP: u32 = 5;
/// Thread ids from number args[0] on. Answer: data.
pub const OBSERVE_THREADS: u32 = 6;
/// Registers of thread args[0]: data as Linux' `user_regs_struct`; args: [0] = 1 if it
/// is in the kernel: then they cannot be set.
pub const OBSERVE_GET_REGISTERS: u32 = 7;
/// Sets registers of thread args[0] to data, as Linux' `user_regs_struct`.
pub const OBSERVE_SET_REGISTERS: u32 = 8;
/// x87 and SSE registers of thread args[0]: 512 bytes of FXSAVE.
pub const OBSERVE_GET_FPU: u32 = 9;
/// Sets x87 and SSE registers of thread args[0] to data, as FXSAVE has them.
pub const OBSERVE_SET_FPU: u32 = 10;
/// Writes args[1] (1..=512) bytes at address args[0], whatever its protection, for this
/// process only. EFAULT: nothing is mapped there, or it is shared with others.
/// EAGAIN: no thread is stopped where it could do it.
pub const OBSERVE_WRITE: u32 = 11;
/// Breakpoint at address args[0]: args[1] = 1: set, 0: cleared. `ENOMEM`: the user's limit of
/// kernel memory. `ENOSPC`: the debugger has as many as it may.
pub const OBSERVE_BREAK: u32 = 12;
/// Next step of thread args[0]: args[1] = `ACTION_*` | signal to be delivered << 8.
pub const OBSERVE_ACTION: u32 = 13;
/// Goes on: threads by their `OBSERVE_ACTION`, the others by `ACTION_*` args[0].
pub const OBSERVE_RESUME: u32 = 14;
/// Text args[0] (`TEXT_*`) from byte args[1] on. Answer: data, args[0] = bytes (0: end).
pub const OBSERVE_TEXT: u32 = 15;
/// Watchpoint number args[0] (0..4) at args[1]: data: [0] = bytes (1, 2, 4, 8; 0: none),
/// [1] = 1: writes, 3: writes and reads.
pub const OBSERVE_WATCH: u32 = 16;
/// The highest `OBSERVE_*` operation.
pub const OBSERVE_LAST: u32 = 16;

/// Children and all threads are traced, too.
pub const TRACE_FOLLOW: u64 = 1;

/// The thread runs.
pub const OBSERVED_RUNS: u64 = 0;
/// A stop has begun; some threads are not there yet.
pub const OBSERVED_STOPPING: u64 = 1;
/// Stopped because it was asked.
pub const OBSERVED_STOPPED: u64 = 2;
/// Stopped before a signal is delivered.
pub const OBSERVED_SIGNAL: u64 = 3;
/// Stopped at a breakpoint of the debugger.
pub const OBSERVED_BREAK: u64 = 4;
/// Stopped after a step.
pub const OBSERVED_STEP: u64 = 5;
/// Stopped at a watchpoint.
pub const OBSERVED_WATCH: u64 = 6;
/// The thread has ended.
pub const OBSERVED_ENDED: u64 = 7;

/// Remains stopped.
pub const ACTION_STAY: u64 = 0;
/// Runs.
pub const ACTION_CONTINUE: u64 = 1;
/// Executes one instruction.
pub const ACTION_STEP: u64 = 2;

/// Path of the program.
pub const TEXT_PROGRAM: u64 = 0;
/// The process' auxiliary vector.
pub const TEXT_AUXV: u64 = 1;

/// Head of the ring of a trace, alone on a page; the text begins on the next one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TraceRing {
    /// Bytes written since the beginning. Written by the LWK.
    pub head: u64,
    /// Records that found no room. Written by the LWK.
    pub lost: u64,
    /// 1: no process is traced any more, and nothing more will be written, unless it becomes 0
    /// again. Written by the LWK.
    pub over: u64,
    /// Zero.
    pub reserved: [u64; 5],
    /// Bytes read since the beginning. Written by the module.
    pub tail: u64,
}
/// Where the text of a ring begins.
pub const TRACE_TEXT_OFFSET: u64 = 4096;

/// A call began; captured: what it reads.
pub const RECORD_ENTER: u32 = 1;
/// A call ended; captured: what it has written.
pub const RECORD_EXIT: u32 = 2;
/// A signal is delivered: `number`; args: the first words of its siginfo.
pub const RECORD_SIGNAL: u32 = 3;
/// The process ends by signal `number`.
pub const RECORD_KILLED: u32 = 4;
/// The process is gone.
pub const RECORD_GONE: u32 = 5;

/// The LWK served the call.
pub const SERVED_LOCAL: u32 = 1;
/// Linux served the call.
pub const SERVED_DELEGATED: u32 = 2;
/// Neither kernel served the call: it was refused.
pub const SERVED_REFUSED: u32 = 3;
/// The LWK served the call, and asked Linux for something.
pub const SERVED_HELPED: u32 = 4;

/// One record, followed by its captures, each a [`Capture`] and its bytes, filled up
/// to a multiple of 8.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Bytes with the captures.
    pub size: u32,
    /// `RECORD_*`.
    pub kind: u32,
    /// Process and thread.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Number of the call, or of a signal.
    pub number: u32,
    /// `SERVED_*` of a call that ended.
    pub served: u32,
    /// Linux' clock, ns since 1970.
    pub time_ns: u64,
    /// How long the call took.
    pub duration_ns: u64,
    /// Result of the call.
    pub result: i64,
    /// Arguments of the call.
    pub args: [u64; 6],
}

/// Memory that an argument of a call points to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// Which argument.
    pub argument: u32,
    /// Bytes that follow.
    pub bytes: u32,
}

/// `IOCTL_OBSERVE`: the descriptor becomes an observer (tracer, debugger) of an LWK process.
/// Permission: the caller may open the process' `/proc/PID/mem` for writing, which is Linux' rule
/// for ptrace. EBADF: not such a descriptor; ESRCH: not an LWK process. An observer can be polled:
/// readable when the LWK has news, hung up when the process is gone.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Observe {
    /// In: descriptor of `/proc/PID/mem` of the proxy, open for reading and writing.
    pub memory: i32,
    /// Zero.
    pub reserved: u32,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}

/// `IOCTL_OBSERVATION`: one `OBSERVE_*` request of an observer. ESRCH: process or
/// thread is gone; EIO: the LWK is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// In: `OBSERVE_*`.
    pub op: u32,
    /// Out: words of the answer in `data`.
    pub count: u32,
    /// In and out: arguments.
    pub args: [u64; 2],
    /// In and out: what goes with it.
    pub data: [u64; 64],
}

/// `IOCTL_TRACE_READ`: takes records ([`Record`]) out of the ring that
/// `OBSERVE_TRACE` made. Never waits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TraceRead {
    /// In: buffer address.
    pub buffer: u64,
    /// In: bytes of the buffer. Out: bytes read.
    pub size: u64,
    /// Out: records that found no room so far.
    pub lost: u64,
}
