//! `siginfo_t` and the frame that signal delivery puts on the stack of x86-64,
//! as `arch/x86/include/uapi/asm/sigcontext.h` and `ucontext.h` have them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::set::{SIGBUS, SigSet};
use crate::addr::align_down;
use crate::errno::{self, Result};
use crate::limits::MIN_SIGNAL_STACK;
use crate::usermemory::{Fault, UserMemory};

/// `si_code`: sent by `kill`.
pub const SI_USER: i32 = 0;
/// `si_code`: sent by the kernel.
pub const SI_KERNEL: i32 = 0x80;
/// `si_code`: sent by `sigqueue`.
pub const SI_QUEUE: i32 = -1;
/// `si_code`: a timer of `timer_create` has expired.
pub const SI_TIMER: i32 = -2;
/// `si_code`: sent by `tgkill`.
pub const SI_TKILL: i32 = -6;
/// `si_code` of SIGILL: illegal operand.
pub const ILL_ILLOPN: i32 = 2;
/// `si_code` of SIGFPE: integer divided by zero.
pub const FPE_INTDIV: i32 = 1;
/// `si_code` of SIGFPE: float divided by zero.
pub const FPE_FLTDIV: i32 = 3;
/// `si_code` of SIGFPE: float overflow.
pub const FPE_FLTOVF: i32 = 4;
/// `si_code` of SIGFPE: float underflow.
pub const FPE_FLTUND: i32 = 5;
/// `si_code` of SIGFPE: inexact float.
pub const FPE_FLTRES: i32 = 6;
/// `si_code` of SIGFPE: invalid float operation.
pub const FPE_FLTINV: i32 = 7;
/// `si_code` of SIGSEGV: nothing mapped there.
pub const SEGV_MAPERR: i32 = 1;
/// `si_code` of SIGSEGV: not allowed there.
pub const SEGV_ACCERR: i32 = 2;
/// `si_code` of SIGBUS: wrong alignment.
pub const BUS_ADRALN: i32 = 1;
/// `si_code` of SIGBUS: no memory behind the address (behind the end of a file).
pub const BUS_ADRERR: i32 = 2;
/// `si_code` of SIGBUS: the memory is bad, and the program used it.
pub const BUS_MCEERR_AR: i32 = 4;
/// `si_code` of SIGTRAP: breakpoint.
pub const TRAP_BRKPT: i32 = 1;
/// `si_code` of SIGTRAP: single step.
pub const TRAP_TRACE: i32 = 2;
/// `TRAP_HWBKPT`: an address that debug registers name.
pub const TRAP_HWBKPT: i32 = 4;

/// `siginfo_t`. 128 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SigInfo {
    /// Signal number.
    pub signo: i32,
    /// Usually 0.
    pub errno: i32,
    /// Why: `SI_*`, `SEGV_*` …
    pub code: i32,
    /// Zero.
    pub reserved: i32,
    /// Depends on the signal: address of a fault; pid | uid << 32 of a sender; then a value.
    pub fields: [u64; 14],
}

impl SigInfo {
    fn with_code(signal: u32, code: i32) -> Self {
        Self { signo: signal as i32, code, ..Self::default() }
    }

    /// The number of the timer that has expired; `None`: it is about something else.
    #[must_use]
    pub fn timer(&self) -> Option<u32> {
        (self.code == SI_TIMER).then_some(self.fields[0] as u32)
    }

    /// Number of further expiries of the timer, as the information has it.
    #[must_use]
    pub fn overrun(&self) -> u32 {
        (self.fields[0] >> 32) as u32
    }

    /// Sets the number of further expiries of the timer.
    pub fn set_overrun(&mut self, overrun: u32) {
        self.fields[0] = self.fields[0] & u64::from(u32::MAX) | u64::from(overrun) << 32;
    }

    /// Sent by `kill` from a process.
    #[must_use]
    pub fn user(signal: u32, pid: u32, uid: u32) -> Self {
        let mut info = Self::with_code(signal, SI_USER);
        info.fields[0] = u64::from(pid) | u64::from(uid) << 32;
        info
    }

    /// Sent by the kernel without further information.
    #[must_use]
    pub fn kernel(signal: u32) -> Self {
        Self::with_code(signal, SI_KERNEL)
    }

    /// A fault at `address` (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP).
    #[must_use]
    pub fn fault(signal: u32, code: i32, address: u64) -> Self {
        let mut info = Self::with_code(signal, code);
        info.fields[0] = address;
        info
    }

    /// SIGBUS for bad memory: the page around `address` is lost.
    #[must_use]
    pub fn bad_memory(address: u64) -> Self {
        const PAGE_BITS: u64 = 12;
        let mut info = Self::fault(SIGBUS, BUS_MCEERR_AR, address);
        info.fields[1] = PAGE_BITS; // si_addr_lsb
        info
    }

    /// From the 16 words of a request of the module.
    #[must_use]
    pub fn from_words(words: &[u64; 16]) -> Self {
        zerocopy::transmute!(*words)
    }

    /// The information as 16 words.
    #[must_use]
    pub fn to_words(self) -> [u64; 16] {
        zerocopy::transmute!(self)
    }
}

/// `stack_t` (sigaltstack). 24 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AltStack {
    /// First byte.
    pub sp: u64,
    /// `SS_*`.
    pub flags: i32,
    /// Zero.
    pub reserved: i32,
    /// Bytes of the stack.
    pub size: u64,
}

/// `ss_flags`: the thread runs on it (answer only).
pub const SS_ONSTACK: i32 = 1;
/// `ss_flags`: there is none.
pub const SS_DISABLE: i32 = 2;
/// `ss_flags`: it is disabled while a handler runs on it.
pub const SS_AUTODISARM: i32 = 1 << 31;

impl AltStack {
    /// The state without an alternate stack.
    pub const DISABLED: Self = Self { sp: 0, flags: SS_DISABLE, reserved: 0, size: 0 };

    /// Whether `sp` lies on the stack, as Linux' `on_sig_stack`.
    #[must_use]
    pub const fn holds(&self, sp: u64) -> bool {
        // a frame is pushed below sp, so the end counts and the start does not
        self.flags & (SS_AUTODISARM | SS_DISABLE) == 0 && sp > self.sp && sp - self.sp <= self.size
    }

    /// Flags that `sigaltstack` answers in `ss_flags` to a thread whose stack pointer is `sp`.
    #[must_use]
    pub const fn flags_at(&self, sp: u64) -> i32 {
        let place = if self.size == 0 {
            SS_DISABLE
        } else if self.holds(sp) {
            SS_ONSTACK
        } else {
            0
        };
        (self.flags & SS_AUTODISARM) | place
    }
}

impl AltStack {
    /// The alternate stack of a thread whose stack pointer is `sp`, after the thread has asked for
    /// `wanted`.
    ///
    /// # Errors
    /// `EPERM`: it runs on the one that it has. `ENOMEM`: that would be too small. `EINVAL`: flags
    /// that there are not.
    pub fn replaced_by(&self, wanted: Self, sp: u64) -> Result<Self> {
        if self.holds(sp) {
            return Err(errno::EPERM);
        }
        match wanted.flags & !SS_AUTODISARM {
            SS_DISABLE => Ok(Self { flags: wanted.flags, ..Self::DISABLED }),
            0 | SS_ONSTACK if wanted.size < MIN_SIGNAL_STACK => Err(errno::ENOMEM),
            0 | SS_ONSTACK => Ok(Self { reserved: 0, ..wanted }),
            _ => Err(errno::EINVAL),
        }
    }
}

/// `struct sigcontext` of x86-64. 256 bytes.
#[allow(missing_docs, reason = "the registers' names say it")]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SigContext {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub rflags: u64,
    pub cs: u16,
    pub gs: u16,
    pub fs: u16,
    pub ss: u16,
    /// Error code of the exception.
    pub err: u64,
    /// Vector of the exception.
    pub trapno: u64,
    /// Low word of the signal mask, for old programs.
    pub oldmask: u64,
    /// Address of the page fault.
    pub cr2: u64,
    /// Address of the FPU state, or 0.
    pub fpstate: u64,
    /// Zero.
    pub reserved: [u64; 8],
}

/// `struct ucontext`. 304 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct UContext {
    /// `UC_*`.
    pub flags: u64,
    /// Zero.
    pub link: u64,
    /// The alternate stack's settings.
    pub stack: AltStack,
    /// Registers.
    pub mcontext: SigContext,
    /// Mask to be restored.
    pub sigmask: SigSet,
}

/// `uc_flags`: the FPU state has the extended layout.
pub const UC_FP_XSTATE: u64 = 1;
/// `uc_flags`: `ss` is saved.
pub const UC_SIGCONTEXT_SS: u64 = 2;
/// `uc_flags`: `ss` is restored strictly.
pub const UC_STRICT_RESTORE_SS: u64 = 4;

/// `struct rt_sigframe`. 440 bytes; `rsp` points to it when the handler starts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RtSigFrame {
    /// Return address: the restorer.
    pub restorer: u64,
    /// `rdx` of the handler points here.
    pub context: UContext,
    /// `rsi` of the handler points here.
    pub info: SigInfo,
}

/// `struct _fpx_sw_bytes`: lies at [`SW_BYTES_OFFSET`] of the FPU state. 48 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FpSwBytes {
    /// [`FP_XSTATE_MAGIC1`].
    pub magic1: u32,
    /// Bytes of the state, magic2 included.
    pub extended_size: u32,
    /// XCR0 bits saved.
    pub xfeatures: u64,
    /// Bytes of the XSAVE image.
    pub xstate_size: u32,
    /// Zero.
    pub reserved: [u32; 7],
}

/// First mark of an extended FPU state.
pub const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
/// Second mark, right behind the XSAVE image.
pub const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Bytes of the second mark.
pub const FP_XSTATE_MAGIC2_SIZE: usize = 4;
/// Offset of [`FpSwBytes`] in the 512-byte legacy area.
pub const SW_BYTES_OFFSET: usize = 464;
/// Bytes of the header of an XSAVE area, which is behind the legacy area.
pub const XSAVE_HEADER_SIZE: usize = 64;
/// Bytes of an FPU state without XSAVE.
pub const FXSAVE_SIZE: usize = 512;

const _: () = {
    assert!(size_of::<SigInfo>() == 128);
    assert!(size_of::<AltStack>() == 24);
    assert!(size_of::<SigContext>() == 256);
    assert!(size_of::<UContext>() == 304);
    assert!(size_of::<RtSigFrame>() == 440);
    assert!(size_of::<FpSwBytes>() == 48);
    assert!(core::mem::offset_of!(UContext, mcontext) == 40);
    assert!(core::mem::offset_of!(UContext, sigmask) == 296);
    assert!(core::mem::offset_of!(SigContext, rip) == 128);
    assert!(core::mem::offset_of!(SigContext, fpstate) == 184);
};

impl FpSwBytes {
    /// The marks of an XSAVE image of `xstate_size` bytes with the features `xfeatures`.
    #[must_use]
    pub const fn new(xfeatures: u64, xstate_size: u32) -> Self {
        Self {
            magic1: FP_XSTATE_MAGIC1,
            extended_size: xstate_size + FP_XSTATE_MAGIC2_SIZE as u32,
            xfeatures,
            xstate_size,
            reserved: [0; 7],
        }
    }

    /// Whether a frame that `rt_sigreturn` finds may have an extended state that this
    /// kernel (whose images have at most `xstate_size` bytes) can restore: it has if
    /// [`FP_XSTATE_MAGIC2`] lies at offset `self.xstate_size`. If not, only the first
    /// 512 bytes are restored. As Linux' `check_xstate_in_sigframe`.
    #[must_use]
    pub const fn may_be_extended(&self, xstate_size: u32) -> bool {
        self.magic1 == FP_XSTATE_MAGIC1
            && self.xstate_size as usize >= FXSAVE_SIZE + XSAVE_HEADER_SIZE
            && self.xstate_size <= xstate_size
            && self.xstate_size <= self.extended_size
    }
}

/// Format of the FPU state in a frame, by which the CPU loads it from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FpuFormat {
    /// An XSAVE area. These components are loaded, and the others become initial.
    Extended(u64),
    /// The 512 bytes of FXSAVE. All but x87 and SSE becomes initial.
    Legacy,
}

/// Reads how the FPU state that a frame points to is to be loaded, by a kernel whose images have
/// `size` bytes. Extended states are there only if the CPU `has_xsave` and the marks are right.
///
/// # Errors
/// The marks cannot be read; that includes the second one, where the first is right.
pub fn fpu_format(
    memory: &impl UserMemory,
    at: u64,
    has_xsave: bool,
    size: usize,
) -> core::result::Result<FpuFormat, Fault> {
    if !has_xsave {
        return Ok(FpuFormat::Legacy);
    }
    let behind = |bytes: u64| at.checked_add(bytes).ok_or(Fault);
    let mut sw = FpSwBytes::default();
    memory.read(behind(SW_BYTES_OFFSET as u64)?, sw.as_mut_bytes())?;
    if !sw.may_be_extended(size as u32) {
        return Ok(FpuFormat::Legacy);
    }
    Ok(match memory.read_u32(behind(sw.xstate_size.into())?)? {
        FP_XSTATE_MAGIC2 => FpuFormat::Extended(sw.xfeatures),
        _ => FpuFormat::Legacy,
    })
}

/// The `si_code` of the float exception that an FPU state shows, of the x87 unit or of SSE;
/// `None`: none is pending. As Linux' `fpu__exception_code`.
#[must_use]
pub fn float_code(state: &[u8], x87: bool) -> Option<i32> {
    let word = |at: usize| state.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let (control, status, mxcsr) = (word(0), word(2), word(24));
    let met = if x87 { status & !control } else { mxcsr & !(mxcsr >> 7) };
    [
        (0x01, FPE_FLTINV),
        (0x04, FPE_FLTDIV),
        (0x08, FPE_FLTOVF),
        (0x12, FPE_FLTUND),
        (0x20, FPE_FLTRES),
    ]
    .into_iter()
    .find_map(|(bits, code)| (met & bits != 0).then_some(code))
}

/// Place for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Address of the [`RtSigFrame`]: `rsp` of the handler (16n + 8).
    pub frame: u64,
    /// Address of the FPU state, 64-byte aligned.
    pub fpstate: u64,
}

/// Bytes below the stack pointer that a leaf function may use.
pub const RED_ZONE: u64 = 128;

/// Chooses where to put the frame of a handler: `sp` is the interrupted stack
/// pointer, `on_alt` is SA_ONSTACK, `fpu_bytes` those of the XSAVE image. `None`:
/// the alternate stack would overflow, or there is no room: SIGSEGV.
#[must_use]
pub fn place_frame(sp: u64, on_alt: bool, alt: &AltStack, fpu_bytes: u64) -> Option<FramePlace> {
    let mut inside = alt.holds(sp);
    let enters = on_alt && !inside && alt.flags_at(sp.wrapping_sub(RED_ZONE)) & SS_ONSTACK == 0;
    let at = if enters && alt.size != 0 {
        inside = true;
        alt.sp.checked_add(alt.size)?
    } else {
        sp.checked_sub(RED_ZONE)?
    };
    let fpu_bytes = fpu_bytes + FP_XSTATE_MAGIC2_SIZE as u64;
    let fpstate = align_down(at.checked_sub(fpu_bytes)?, 64);
    let frame = fpstate.checked_sub(size_of::<RtSigFrame>() as u64)?;
    let frame = align_down(frame, 16).checked_sub(8)?;
    if inside && !(frame > alt.sp && frame - alt.sp <= alt.size) {
        return None;
    }
    Some(FramePlace { frame, fpstate })
}
