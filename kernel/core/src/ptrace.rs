//! ptrace(2): its numbers, the register structures of x86-64, and what a tracer's
//! wait(2) says.

pub mod permitted;

use crate::errno::{EINVAL, EIO, Result};
use crate::limits::TASK_SIZE;
use crate::signal::{SIGRTMIN, SIGTRAP, SigSet};

/// Requests.
#[allow(missing_docs)]
pub mod request {
    pub const TRACEME: u64 = 0;
    pub const PEEKTEXT: u64 = 1;
    pub const PEEKDATA: u64 = 2;
    pub const PEEKUSER: u64 = 3;
    pub const POKETEXT: u64 = 4;
    pub const POKEDATA: u64 = 5;
    pub const POKEUSER: u64 = 6;
    pub const CONT: u64 = 7;
    pub const KILL: u64 = 8;
    pub const SINGLESTEP: u64 = 9;
    pub const GETREGS: u64 = 12;
    pub const SETREGS: u64 = 13;
    pub const GETFPREGS: u64 = 14;
    pub const SETFPREGS: u64 = 15;
    pub const ATTACH: u64 = 16;
    pub const DETACH: u64 = 17;
    pub const SYSCALL: u64 = 24;
    pub const ARCH_PRCTL: u64 = 30;
    pub const SINGLEBLOCK: u64 = 33;
    pub const SETOPTIONS: u64 = 0x4200;
    pub const GETEVENTMSG: u64 = 0x4201;
    pub const GETSIGINFO: u64 = 0x4202;
    pub const SETSIGINFO: u64 = 0x4203;
    pub const GETREGSET: u64 = 0x4204;
    pub const SETREGSET: u64 = 0x4205;
    pub const SEIZE: u64 = 0x4206;
    pub const INTERRUPT: u64 = 0x4207;
    pub const LISTEN: u64 = 0x4208;
    pub const PEEKSIGINFO: u64 = 0x4209;
    pub const GETSIGMASK: u64 = 0x420a;
    pub const SETSIGMASK: u64 = 0x420b;
    pub const SECCOMP_GET_FILTER: u64 = 0x420c;
    pub const SECCOMP_GET_METADATA: u64 = 0x420d;
    pub const GET_SYSCALL_INFO: u64 = 0x420e;
    pub const GET_RSEQ_CONFIGURATION: u64 = 0x420f;
}

/// `PTRACE_O_*`.
#[allow(missing_docs)]
pub mod option {
    pub const TRACESYSGOOD: u64 = 1;
    pub const TRACEFORK: u64 = 2;
    pub const TRACEVFORK: u64 = 4;
    pub const TRACECLONE: u64 = 8;
    pub const TRACEEXEC: u64 = 0x10;
    pub const TRACEVFORKDONE: u64 = 0x20;
    pub const TRACEEXIT: u64 = 0x40;
    pub const TRACESECCOMP: u64 = 0x80;
    pub const EXITKILL: u64 = 0x10_0000;
    pub const SUSPEND_SECCOMP: u64 = 0x20_0000;
    /// Options that the LWK serves.
    pub const SERVED: u64 = 0xff | EXITKILL | SUSPEND_SECCOMP;
    /// Options that Linux is told of: the others are events of the program, not of its worker.
    /// Linux says which tracers may suspend filters, and suspends those that the worker has. With
    /// [`TRACESECCOMP`] Linux asks the tracer before the worker makes a call that its filter leaves
    /// to a tracer. The tracer lets the call through once the program's tracer has.
    pub const LINUX: u64 = TRACESECCOMP | EXITKILL | SUSPEND_SECCOMP;
}

/// `PTRACE_EVENT_*`.
#[allow(missing_docs)]
pub mod event {
    pub const FORK: u32 = 1;
    pub const VFORK: u32 = 2;
    pub const CLONE: u32 = 3;
    pub const EXEC: u32 = 4;
    pub const VFORK_DONE: u32 = 5;
    pub const EXIT: u32 = 6;
    pub const SECCOMP: u32 = 7;
}

/// Register sets of `PTRACE_GETREGSET`.
#[allow(missing_docs)]
pub mod regset {
    pub const PRSTATUS: u64 = 1;
    pub const PRFPREG: u64 = 2;
    pub const X86_IOPERM: u64 = 0x201;
    pub const X86_XSTATE: u64 = 0x202;
}

/// The stop of a thread that the LWK has reported by a SIGTRAP of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The stop is none of these: a signal has come.
    Signal,
    /// The stop is before a system call.
    Entry,
    /// The stop is after a system call.
    Exit,
    /// `PTRACE_EVENT_*` and its message.
    Event(u32, u64),
}

impl Stop {
    /// `si_code` of the SIGTRAP.
    #[must_use]
    pub const fn code(self, good: bool) -> i32 {
        match self {
            Self::Event(event, _) => (SIGTRAP | event << 8) as i32,
            _ if good => (SIGTRAP | 0x80) as i32,
            _ => SIGTRAP as i32,
        }
    }

    /// Status of wait4(2) above the low eight bits, which replaces `WSTOPSIG == SIGTRAP`. `good`:
    /// with `PTRACE_O_TRACESYSGOOD`.
    #[must_use]
    pub const fn status(self, good: bool) -> u32 {
        match self {
            Self::Signal => SIGTRAP,
            _ => self.code(good) as u32,
        }
    }

    /// Message of `PTRACE_GETEVENTMSG`.
    #[must_use]
    pub const fn message(self) -> u64 {
        match self {
            Self::Signal => 0,
            Self::Entry => 1,
            Self::Exit => 2,
            Self::Event(_, message) => message,
        }
    }
}

/// Two signals, or 0, that a tracer gives at the beginning and at the end of a call, as Linux takes
/// them: those of faults first, then by number, of a standard one that is given twice only one.
#[must_use]
pub fn in_order(at_entry: u32, at_exit: u32) -> [u32; 2] {
    match (at_entry, at_exit) {
        (0, _) | (_, 0) => [at_entry, at_exit],
        _ if at_entry == at_exit && at_entry < SIGRTMIN => [at_entry, 0],
        _ if SigSet::of(at_entry).with(at_exit).first() == Some(at_exit) => [at_exit, at_entry],
        _ => [at_entry, at_exit],
    }
}

/// Arguments of PTRACE_PEEKSIGINFO (`struct ptrace_peeksiginfo_args`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeekSigInfo {
    /// The first signal, counted from 0.
    pub first: u64,
    /// Whether signals of the process are asked for, not of the thread.
    pub is_shared: bool,
    /// Most signals to tell of.
    pub count: u64,
}

impl PeekSigInfo {
    /// From the program's structure.
    ///
    /// # Errors
    /// `EINVAL`: a flag that there is not, or a count below 0.
    pub fn new([first, flags_and_count]: [u64; 2]) -> Result<Self> {
        let (flags, count) = (flags_and_count as u32, (flags_and_count >> 32) as i32);
        let count = u64::try_from(count).map_err(|_| EINVAL)?;
        if flags > 1 { Err(EINVAL) } else { Ok(Self { first, is_shared: flags != 0, count }) }
    }

    /// The rest of the question, for Linux, after `copied` signals. `here`: signals that wait with
    /// the LWK.
    #[must_use]
    pub const fn of_linux(self, copied: u64, here: u64) -> Self {
        let first = self.first.saturating_add(copied).saturating_sub(here);
        Self { first, count: self.count.saturating_sub(copied), ..self }
    }

    /// The program's structure.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        [self.first, self.is_shared as u64 | self.count << 32]
    }
}

/// Words of `struct user_regs_struct`.
pub const USER_REGS: usize = 27;
/// Bytes of `struct user`.
pub const USER_BYTES: u64 = 928;
/// Offsets of the debug registers in `struct user`.
pub const DEBUG_REGS: core::ops::Range<u64> = 848..912;

/// Indices into `struct user_regs_struct`.
#[allow(missing_docs)]
pub mod index {
    pub const R10: usize = 7;
    pub const R9: usize = 8;
    pub const R8: usize = 9;
    pub const RAX: usize = 10;
    pub const RDX: usize = 12;
    pub const RSI: usize = 13;
    pub const RDI: usize = 14;
    pub const ORIG_RAX: usize = 15;
    pub const RIP: usize = 16;
    pub const CS: usize = 17;
    pub const EFLAGS: usize = 18;
    pub const RSP: usize = 19;
    pub const SS: usize = 20;
    pub const FS_BASE: usize = 21;
    pub const GS_BASE: usize = 22;
    pub const DS: usize = 23;
    pub const GS: usize = 26;
}

/// The flags that a tracer may set.
pub const SETTABLE_FLAGS: u64 = 0x5_4dd5;

/// Selectors of code and data in user mode, as every Linux on x86-64 has them.
const USER_CS: u64 = 0x33;
const USER_DS: u64 = 0x2b;

/// Whether a CPU enters user mode with these selectors. With others `iretq` faults, and Linux
/// raises SIGSEGV (SDM volume 2, IRET). Linux has one more, of 32-bit code, which this kernel does
/// not run.
pub const fn enters_user_mode(cs: u64, ss: u64) -> bool {
    cs == USER_CS && ss == USER_DS
}

/// Sets one word of `struct user_regs_struct`, as Linux' `putreg`.
///
/// # Errors
/// `EIO`: not a value for it.
pub fn set_word(regs: &mut [u64; USER_REGS], which: usize, value: u64) -> Result<()> {
    match which {
        index::EFLAGS => regs[which] = regs[which] & !SETTABLE_FLAGS | value & SETTABLE_FLAGS,
        index::FS_BASE | index::GS_BASE if value >= TASK_SIZE => return Err(EIO),
        // A selector has 16 bits; one for another privilege is an error. What no CPU enters user
        // mode with is found when it is about to ([`enters_user_mode`]).
        index::CS | index::SS if value & 3 != 3 => return Err(EIO),
        index::CS | index::SS => regs[which] = value & 0xffff,
        // These stay what they are.
        index::DS..=index::GS if value & 0xffff != 0 && value & 3 != 3 => return Err(EIO),
        index::DS..=index::GS => {}
        _ => *regs.get_mut(which).ok_or(EIO)? = value,
    }
    Ok(())
}

/// Whether `PTRACE_PEEKUSER` and `POKEUSER` take this offset.
///
/// # Errors
/// `EIO`: it is not a word of `struct user`.
pub fn user_offset(offset: u64) -> Result<u64> {
    if !offset.is_multiple_of(8) || offset >= USER_BYTES { Err(EIO) } else { Ok(offset) }
}

/// Bytes of FXSAVE.
pub const FXSAVE: usize = 512;
/// Bits of MXCSR that exist.
const MXCSR: u32 = 0xffff;

/// Whether `bytes` may be a thread's state of x87 and SSE (`NT_PRFPREG`).
///
/// # Errors
/// `EINVAL`: it has bits that the CPU would refuse.
pub fn check_fxsave(bytes: &[u8]) -> Result<()> {
    let mxcsr =
        bytes.get(24..28).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes).ok_or(EINVAL)?;
    if mxcsr & !MXCSR == 0 { Ok(()) } else { Err(EINVAL) }
}

/// Whether `bytes` may be a thread's extended state (`NT_X86_XSTATE`), of the components in `mask`.
///
/// # Errors
/// `EINVAL`: its header says that it is something else.
pub fn check_xsave(bytes: &[u8], mask: u64) -> Result<()> {
    /// x87, SSE, AVX: those that MXCSR is about.
    const WITH_MXCSR: u64 = 7;
    let header = bytes.get(FXSAVE..FXSAVE + 64).ok_or(EINVAL)?;
    let present = u64::from_le_bytes(header[..8].try_into().unwrap_or_default());
    if present & !mask != 0 || header[8..].iter().any(|&b| b != 0) {
        return Err(EINVAL);
    }
    if present & WITH_MXCSR != 0 { check_fxsave(bytes) } else { Ok(()) }
}

/// State of a child, as wait4(2) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The signal.
    pub signal: u32,
    /// `PTRACE_EVENT_*` of Linux' own, or 0.
    pub event: u32,
}

/// Reads a status of wait4(2); `None`: the child is not stopped.
#[must_use]
pub const fn stopped(status: u32) -> Option<Stopped> {
    if status & 0xff == 0x7f {
        Some(Stopped { signal: status >> 8 & 0xff, event: status >> 16 })
    } else {
        None
    }
}

/// Bytes of `struct ptrace_syscall_info`.
pub const SYSCALL_INFO: usize = 88;

/// `struct ptrace_syscall_info` and how many bytes of it are valid.
#[must_use]
pub fn syscall_info(
    stop: Stop,
    good: bool,
    regs: &[u64; USER_REGS],
) -> ([u8; SYSCALL_INFO], usize) {
    const ARCH: u32 = 0xc000_003e;
    const COMMON: usize = 24;
    const RET_DATA: usize = COMMON + 56;
    let mut all = [0; SYSCALL_INFO];
    let mut put = |at: usize, word: u64| all[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(8, regs[index::RIP]);
    put(16, regs[index::RSP]);
    let mut put_call = || {
        // rdi, rsi, rdx, r10, r8, r9
        for (i, &from) in [index::ORIG_RAX, 14, 13, 12, 7, 9, 8].iter().enumerate() {
            put(COMMON + 8 * i, regs[from]);
        }
    };
    let (op, size) = match stop {
        Stop::Entry if good => {
            put_call();
            (1, RET_DATA)
        }
        Stop::Event(event::SECCOMP, data) => {
            put_call();
            all[RET_DATA..RET_DATA + 4].copy_from_slice(&(data as u32).to_le_bytes());
            (3, RET_DATA + 4)
        }
        Stop::Exit if good => {
            let value = regs[index::RAX];
            put(COMMON, value);
            all[COMMON + 8] = u8::from(value >= -4095i64 as u64);
            (2, COMMON + 9)
        }
        _ => (0, COMMON),
    };
    all[0] = op;
    all[4..8].copy_from_slice(&ARCH.to_le_bytes());
    (all, size)
}

#[cfg(test)]
mod tests;
