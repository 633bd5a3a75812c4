//! The frame of a handler: how it is built and taken back, and the stack for it.

use crate::base::user::{self, UserAddr, put};
use crate::base::usermemory::Running;
use crate::parts::signals::Trap;
use crate::process::thread::Thread;
use crate::signal::signals;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace;
use hanare_core::signal::{
    self, AltStack, FpSwBytes, FpuFormat, QueuedSignal, RtSigFrame, SigAction, SigContext, SigSet,
    UContext,
};
use hanare_hal::fpu::{self, FpuState};
use hanare_hal::traps::Regs;
use hanare_hal::{gdt, usercopy};
use zerocopy::IntoBytes;

/// Puts the frame of a handler on the handler's stack.
pub fn build(
    queued: &QueuedSignal,
    action: &SigAction,
    regs: &mut Regs,
    alt: &AltStack,
    mask: SigSet,
    trap: Trap,
) -> Result<()> {
    if action.flags & signal::SA_RESTORER == 0 {
        return Err(errno::EFAULT); // as Linux: it is not optional here
    }
    let place = signal::place_frame(
        regs.rsp,
        action.flags & signal::SA_ONSTACK != 0,
        alt,
        fpu::size() as u64,
    )
    .ok_or(errno::EFAULT)?;
    save_fpu(place.fpstate)?;
    let frame = RtSigFrame {
        restorer: action.restorer,
        context: UContext {
            flags: signal::UC_FP_XSTATE | signal::UC_SIGCONTEXT_SS | signal::UC_STRICT_RESTORE_SS,
            link: 0,
            stack: *alt,
            mcontext: context_of(regs, trap, mask, place.fpstate),
            sigmask: mask,
        },
        info: queued.info,
    };
    put(UserAddr::of(place.frame), frame.as_bytes())?;
    fpu::reset();
    let base = place.frame;
    regs.rsp = base;
    regs.rip = action.handler;
    regs.rdi = u64::from(queued.signal);
    regs.rsi = base + core::mem::offset_of!(RtSigFrame, info) as u64;
    regs.rdx = base + core::mem::offset_of!(RtSigFrame, context) as u64;
    regs.rax = 0;
    regs.rflags &= !0x1_0500; // DF, TF, RF
    Ok(())
}

/// Puts the FPU state into a frame, by the CPU itself, which leaves to the kernel what lies between
/// the legacy area and the extended one.
fn save_fpu(at: u64) -> Result<()> {
    if fpu::mask() == 0 {
        let mut state = FpuState::new();
        state.save();
        put(UserAddr::of(at), state.bytes())?;
    } else {
        let mut between = [0; size_of::<FpSwBytes>() + signal::XSAVE_HEADER_SIZE];
        let marks = FpSwBytes::new(fpu::mask(), fpu::size() as u32);
        between[..size_of::<FpSwBytes>()].copy_from_slice(marks.as_bytes());
        put(UserAddr::behind(at, signal::SW_BYTES_OFFSET as u64), &between)?;
        usercopy::save_fpu(UserAddr::of(at)).map_err(|_| errno::EFAULT)?;
    }
    let magic = signal::FP_XSTATE_MAGIC2.to_le_bytes();
    put(UserAddr::behind(at, fpu::size() as u64), &magic).map(drop)
}

fn context_of(r: &Regs, trap: Trap, mask: SigSet, fpstate: u64) -> SigContext {
    SigContext {
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rdi: r.rdi,
        rsi: r.rsi,
        rbp: r.rbp,
        rbx: r.rbx,
        rdx: r.rdx,
        rax: r.rax,
        rcx: r.rcx,
        rsp: r.rsp,
        rip: r.rip,
        rflags: r.rflags,
        cs: gdt::USER_CS,
        gs: 0,
        fs: 0,
        ss: gdt::USER_DS,
        err: trap.error,
        trapno: trap.number,
        oldmask: mask.0,
        cr2: trap.cr2,
        fpstate,
        reserved: [0; 8],
    }
}

/// Puts the registers of the running thread where rt_sigreturn(2) of Linux takes them from: the
/// context at `at`, the FPU state at `fpstate`. Linux sets `stack` as the alternate one by that.
pub fn put_context(regs: &Regs, at: UserAddr, fpstate: u64, stack: AltStack) -> Result<()> {
    save_fpu(fpstate)?;
    let context = UContext {
        flags: signal::UC_FP_XSTATE | signal::UC_SIGCONTEXT_SS | signal::UC_STRICT_RESTORE_SS,
        link: 0,
        stack,
        mcontext: context_of(regs, Trap::default(), SigSet(0), fpstate),
        sigmask: SigSet(0),
    };
    put(at, context.as_bytes()).map(drop)
}

/// Takes the registers of the running thread from a context in which Linux has put them.
pub fn take_context(regs: &mut Regs, at: UserAddr) -> Result<()> {
    let context: UContext = user::get(at)?;
    load(regs, &context.mcontext)
}

/// Loads the frame on the stack of a handler that returns.
///
/// # Errors
/// It is not there, or wrong.
pub fn restore(thread: &Thread, regs: &mut Regs) -> Result<()> {
    let context: UContext = user::get(UserAddr::of(regs.rsp))?; // behind the return address
    // What the handler blocked may wait here, or on Linux.
    signals::set_mask(thread, context.sigmask.blockable());
    load(regs, &context.mcontext)?;
    let _ = set_alternate(thread, context.stack, regs.rsp); // as Linux, wrong or not
    if may_return_to(&context) { Ok(()) } else { Err(errno::EFAULT) }
}

/// Whether the CPU enters user mode with the frame's selectors. As Linux, which gives them user
/// mode's privilege, heeds the stack's only where the frame says so, and then faults on its way
/// there.
fn may_return_to(context: &UContext) -> bool {
    let (cs, ss) = (context.mcontext.cs | 3, context.mcontext.ss | 3);
    let heeds = context.flags & signal::UC_STRICT_RESTORE_SS != 0;
    ptrace::enters_user_mode(cs.into(), if heeds { ss } else { gdt::USER_DS }.into())
}

/// Loads the registers, with the FPU's. If that cannot be had, the others are loaded all the same.
fn load(regs: &mut Regs, c: &SigContext) -> Result<()> {
    let settable = 0x5_0dd5; // Linux' FIX_EFLAGS
    *regs = Regs {
        r15: c.r15,
        r14: c.r14,
        r13: c.r13,
        r12: c.r12,
        rbp: c.rbp,
        rbx: c.rbx,
        r11: c.r11,
        r10: c.r10,
        r9: c.r9,
        r8: c.r8,
        rax: c.rax,
        rcx: c.rcx,
        rdx: c.rdx,
        rsi: c.rsi,
        rdi: c.rdi,
        orig_rax: hanare_hal::traps::NO_CALL,
        rip: c.rip,
        cs: u64::from(gdt::USER_CS),
        rflags: regs.rflags & !settable | c.rflags & settable | 0x200,
        rsp: c.rsp,
        ss: u64::from(gdt::USER_DS),
    };
    restore_fpu(c.fpstate).inspect_err(|_| fpu::reset())
}

fn restore_fpu(at: u64) -> Result<()> {
    if at == 0 {
        fpu::reset();
        return Ok(());
    }
    let format = signal::fpu_format(&Running, at, fpu::mask() != 0, fpu::size())
        .map_err(|_| errno::EFAULT)?;
    let at = UserAddr::of(at);
    match format {
        FpuFormat::Extended(features) => usercopy::load_fpu(at, features),
        FpuFormat::Legacy => usercopy::load_legacy_fpu(at),
    }
    .map_err(|_| errno::EFAULT)
}

/// sigaltstack.
pub fn altstack(thread: &Thread, new: UserAddr, old: UserAddr, sp: u64) -> Result<u64> {
    let before = thread.signals.lock().alt;
    if !new.is_null() {
        set_alternate(thread, user::get(new)?, sp)?;
    }
    if !old.is_null() {
        let shown = AltStack { flags: before.flags_at(sp), reserved: 0, ..before };
        put(old, shown.as_bytes())?;
    }
    Ok(0)
}

/// Sets the alternate stack of the running thread `thread`, whose stack pointer is `sp`.
fn set_alternate(thread: &Thread, wanted: AltStack, sp: u64) -> Result<()> {
    let mut s = thread.signals.lock();
    s.alt = s.alt.replaced_by(wanted, sp)?;
    Ok(())
}
