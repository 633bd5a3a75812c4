//! Utility threads: threads of a program whose user-mode code executes on a Linux CPU, in the proxy
//! (`docs/utility-threads.md`).
//!
//! A thread asks for it by `prctl` ([`PR_HANARE_RUN_ON`]) and gives memory of its own away for it,
//! the *area*. Instead of entering user mode, the LWK puts the thread's registers there, as the
//! frame of a signal handler, and posts [`NR_UTILITY`] to the thread's slot. The worker returns
//! from that frame, by rt_sigreturn(2). It leaves the thread's code by a signal, whose handler has
//! the rest of the area as its stack: so Linux puts the registers there, too, and the answer says
//! where. Neither side copies them, and both take such frames from programs anyway.

use crate::PAGE_SIZE;

/// prctl(2): where the calling thread's user-mode code executes, and how such a thread is woken
/// from the LWK. The second argument is one of `RUN_ON_*`. Linux does not know it: EINVAL.
pub const PR_HANARE_RUN_ON: u32 = 0x484e_524f; // "HNRO"
/// On the LWK, as every thread when it begins.
pub const RUN_ON_LWK: u64 = 0;
/// On Linux. The third argument is the address of the area, a multiple of the page size, the fourth
/// its bytes, the fifth a CPU of Linux', or -1 for any. EINVAL: the area is not like that.
/// EOPNOTSUPP: this thread cannot.
pub const RUN_ON_LINUX: u64 = 1;
/// The result is 1 if the calling thread executes on Linux now, else 0.
pub const RUN_ON_ASK: u64 = 2;
/// The calling thread is rung by an eventfd from now on, until it executes another program or ends:
/// [`RUN_ON_RING`] adds one to it. The third argument is the descriptor, -1 (32 bits): by none, or
/// -2 ([`RUNG_ASLEEP`]): in [`RUN_ON_SLEEP`]. EBADF, EINVAL: it is no eventfd. EOPNOTSUPP: this
/// thread cannot.
pub const RUN_ON_EVENTFD: u64 = 3;
/// Rings a thread of the calling process, whose id is the third argument, without a delegated call:
/// Linux adds one to its eventfd soon, and may do so once for rings that come together. ESRCH:
/// there is no such thread; ENXIO: it is not rung; EAGAIN: the CPU has rung too often just now.
/// Then the program writes to the eventfd itself, or tries again.
pub const RUN_ON_RING: u64 = 4;
/// The calling thread sleeps until it is rung; a ring that came before counts. It needs no
/// descriptor. It may return without a ring. EINTR: a signal came. EAGAIN: the thread executes on
/// the LWK.
pub const RUN_ON_SLEEP: u64 = 5;
/// Descriptor of [`RUN_ON_EVENTFD`]: none.
pub const NO_EVENTFD: u32 = u32::MAX;
/// Descriptor of [`RUN_ON_EVENTFD`]: none, it sleeps in [`RUN_ON_SLEEP`].
pub const RUNG_ASLEEP: u32 = u32::MAX - 1;

/// `IOCTL_EVENTFD`: the eventfd to which one is added at each `EVENT_EVENTFD` of a slot, in place
/// of the one before. EBADF, EINVAL: it is none, or the slot is not one of the first 1024.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Eventfd {
    /// In: the slot.
    pub slot: u32,
    /// In: descriptor, or [`NO_EVENTFD`].
    pub descriptor: u32,
}

/// Least bytes of an area.
pub const AREA_MIN: u64 = 8 * PAGE_SIZE;
/// Most bytes of an area.
pub const AREA_MAX: u64 = 256 * PAGE_SIZE;
/// Offset in the area of the frame that the LWK writes: what `rsp` points to when its handler
/// returns, behind the return address.
pub const AREA_FRAME: u64 = 64;
/// Offset in the area of the FPU state of that frame.
pub const AREA_FPU: u64 = 1024;
/// Offset in the area of the handlers' stack, which goes to the area's end.
pub const AREA_STACK: u64 = 3 * PAGE_SIZE;

/// In place of the number of a system call: the worker executes the thread's code. `args[0]` is the
/// address of the area, `args[1]` its bytes, `args[2]` the thread's FS base, `args[3]` a CPU of
/// Linux' or all bits for any, `args[4]` the descriptor that the thread may not close, `args[5]`
/// the thread's GS base. The result is the address of the `ucontext` with the thread's registers
/// and one of `LEFT_*`, or -errno: nothing was executed, and never will be.
pub const NR_UTILITY: u32 = 0x55_544c;

/// The thread left its code for a signal, which the LWK has been told of, or to end.
pub const LEFT_SIGNAL: u64 = 0;
/// The thread left its code for a system call that the LWK has to serve: registers are as after the
/// `syscall` instruction, `rax` is the number.
pub const LEFT_CALL: u64 = 1;
/// An instruction raised an exception: the LWK is to execute it.
pub const LEFT_FAULT: u64 = 2;
/// An instruction that is over raised an exception (a step, `int3`, `int 4`), which the LWK is to
/// raise, too. Plus its vector: 1, 3 or 4.
pub const LEFT_TRAP: u64 = 2;
/// Bits of `LEFT_*`; a `ucontext` lies at a multiple of 8 bytes.
pub const LEFT_MASK: u64 = 7;
/// si_code of the SIGBUS by which a worker is interrupted (`Control::Interrupt`,
/// `SERVICE_INTERRUPT`).
pub const INTERRUPT_CODE: i32 = -0x4a;
/// Offset in the area of the thread's FS base, which the worker writes when the thread leaves its
/// code.
pub const AREA_FS_BASE: u64 = 0;
/// Offset in the area of the thread's GS base, likewise.
pub const AREA_GS_BASE: u64 = 8;
/// Offset in the area of the address of the worker, by which a handler finds it.
pub const AREA_WORKER: u64 = 16;
