//! The slot: what the LWK asks of one worker, one thing at a time: a delegated call of its thread,
//! or a control request of the LWK's own ([`crate::control`]).
//!
//! A call costs one cache line (the first). Of the next two each side writes one, and only when it
//! sleeps or changes policy; the other side reads it. The slot is mapped into the proxy: the LWK
//! validates everything it reads from it.

/// Nothing is asked. The LWK may write a call or a request.
pub const SLOT_IDLE: u32 = 0;
/// System call written by the LWK (release), to be executed by the worker for its thread.
pub const SLOT_REQUESTED: u32 = 1;
/// Control request written by the LWK (release), see `CONTROL_*`.
pub const SLOT_CONTROL: u32 = 2;
/// Answer written by the worker (release). The LWK sets `SLOT_IDLE` again.
pub const SLOT_DONE: u32 = 4;
/// Answer, too: a signal has kept the call from being started. The LWK delivers the signal and
/// then makes the call again (what Linux calls ERESTARTNOINTR). Control requests are never
/// answered so.
pub const SLOT_NOT_STARTED: u32 = 8;
/// System call written by the LWK (release), which waits in the request box
/// ([`crate::requestbox`]): the side that takes its bit out of the box answers it. The slot's
/// worker is not asked for it.
pub const SLOT_BOXED: u32 = 16;
/// States in which the worker is asked for something.
pub const SLOT_ASKED: u32 = SLOT_REQUESTED | SLOT_CONTROL;
/// States in which it has answered.
pub const SLOT_ANSWERED: u32 = SLOT_DONE | SLOT_NOT_STARTED;

/// In place of the number of a system call: the call is a message ([`crate::message`]). `args[0]`
/// is its address, which is that of the slot ([`crate::layout::message`]), `args[1]` the bytes of
/// its buffer, behind which nothing is mapped. The result is 0 where the call was executed, whose
/// result is in the message, or -errno where it cannot be executed from the message.
pub const NR_MESSAGE: u32 = 0x4d_5347;
/// In place of the number of a system call, in the slot of a pooled proxy ([`crate::pooled`]): the
/// call is a packed message. `args[0]` is the number of its first page, or `MESSAGE_PAGE_NONE`,
/// `args[1]` whose call it is, as its pages say, `args[2]` flags (`PACKED_*`). The result is 0
/// where the call was executed, whose result is in the message, or -errno.
pub const NR_PACKED: u32 = 0x50_434b;
/// In place of the number of a system call that the LWK serves itself, or that a worker may make
/// whatever its filter says: a listener of the filter is to decide about it. Linux has no such
/// call, so a filter without a listener lets it pass (`ENOSYS`); one with a listener notifies that,
/// which is told the call for which this one stands ([`crate::service::SERVICE_NOTIFY`]), named by
/// `args[0]`.
pub const NR_NOTIFY: u32 = 0x4e_5459;

/// 256 bytes: a cache line for the call, one for the LWK's words, one for the worker's.
#[repr(C, align(256))]
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// `SLOT_*`.
    pub state: u32,
    /// Number of the Linux system call, or of the control request (`CONTROL_*`).
    pub nr: u32,
    /// Arguments of the system call, or the fields of the control request, in their order.
    pub args: [u64; 6],
    /// Result of the system call or the request (-errno for errors); `SLOT_DONE` only.
    pub result: i64,

    /// `WAIT_*` ([`crate::wake`]): the LWK thread, written by the LWK.
    pub lwk_wait: u32,
    /// Bell to ring for this thread, always the same one. Written by the LWK, before there is a
    /// worker.
    pub bell: u32,
    /// How long the worker polls before it sleeps, in microseconds; 0: not at
    /// all. Written by the LWK.
    pub poll_us: u32,
    /// Zero.
    pub reserved0: u32,
    /// Signal mask (bit n-1 = signal n) the worker must have during the next
    /// call; the worker compares it with its own. Written by the LWK.
    pub sigmask: u64,
    /// Head of the application thread's list of robust futexes (set_robust_list(2)), or
    /// 0; the worker has Linux know it before the next call, so that Linux walks the
    /// list when the worker ends with its process. Written by the LWK.
    pub robust_list: u64,
    /// Zero, up to 128 bytes.
    pub reserved1: [u64; 4],

    /// `WAIT_*`: the worker, written by the worker.
    pub worker_wait: u32,
    /// Linux thread id of the worker, written by the worker; 0: none serves the slot any more.
    /// To the LWK it says only whether there is a worker: ids come from the module
    /// ([`crate::boot::Bell::worker`]).
    pub tid: u32,
    /// The doorbell next to where the worker sleeps, plus 1; 0: not known. Written by the
    /// worker, as `IOCTL_WAIT` has said; the LWK does not rely on it.
    pub doorbell: u32,
    /// 1: a signal has come for the thread, of which the LWK knows. Its call in the request box
    /// is not started, or interrupted. Written by the worker; the server that finds it writes 0.
    pub interrupted: u32,
    /// 1: the server that executed the last call of the request box was interrupted in it by a
    /// signal of which the LWK knows. Written by the server before its answer.
    pub ended_by_signal: u32,
    /// Linux thread id of the server that executes the thread's call in the request box, or has
    /// executed the last one; 0: none has. Written by the server.
    pub server: u32,
    /// Zero, up to 256 bytes.
    pub reserved3: [u64; 13],
}
