//! Signals: what is pending, what Linux forwards, faults, and delivery.
//!
//! Linux keeps dispositions that need no handler (see `docs/architecture.md`);
//! here is what the application catches or dies of.

use crate::mm::fault::Signal as Fault;
use crate::process::Process;
use crate::thread::Thread;
use crate::{coredump, cpus, cputime, delegate, observe, panic, pending, ptrace, rseq};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::slot::{MIRROR_FORWARD, OP_EXIT_SIGNAL, OP_STOP_SIGNAL};
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, Actions, AltStack, Disposition, FpSwBytes, Mirrored, Pending, QueuedSignal, RtSigFrame, SigAction, SigContext, SigInfo, SigSet, UContext};
use hanare_core::syscalls::Restart;
use hanare_hal::fpu::{self, FpuState};
use hanare_hal::traps::{Regs, vector};
use hanare_hal::{gdt, usercopy};
use zerocopy::{FromBytes, IntoBytes};

/// What a process's threads share.
#[derive(Default)]
pub struct ProcessSignals {
    /// Handlers and the like.
    pub actions: Box<Actions>,
    /// Sent to the process.
    pub pending: Pending,
    /// What Linux has been told of the actions.
    pub mirrored: Box<Mirrored>,
    /// A thread is telling Linux.
    pub(crate) telling: bool,
    /// Threads that wait for that.
    pub(crate) waiting_to_tell: u32,
}

impl ProcessSignals {
    /// Signals that the parent had ignored stay ignored.
    pub fn inherit_ignored(&mut self, ignored: u64) {
        *self.actions = Actions::with_ignored(SigSet(ignored));
        *self.mirrored = Mirrored::of(&self.actions);
    }

    /// For the child of a fork.
    pub fn inherit(&self) -> ProcessSignals {
        ProcessSignals { actions: self.actions.clone(), mirrored: Box::new(self.mirrored.of_child()), ..ProcessSignals::default() }
    }
}

/// A call that a signal interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// Linux returned EINTR; what follows depends on the call.
    Started(Restart),
    /// The LWK itself ended the call.
    Local(Restart),
    /// The worker saw the signal before it made the call: always made again.
    NotStarted,
}

/// One thread's part.
pub struct ThreadSignals {
    pub(crate) mask: SigSet,
    /// To be restored after a call with a mask of its own.
    saved_mask: Option<SigSet>,
    pub(crate) pending: Pending,
    alt: AltStack,
    /// Mask the worker has on Linux.
    applied: SigSet,
    interrupted: Option<Interrupted>,
}

impl ThreadSignals {
    /// With the mask of a new thread.
    pub fn new(mask: u64) -> ThreadSignals {
        let mask = SigSet(mask).blockable();
        ThreadSignals { mask, saved_mask: None, pending: Pending::default(), alt: AltStack::DISABLED, applied: mask, interrupted: None }
    }

    /// Whether one of the thread's own signals could be delivered.
    pub fn is_deliverable(&self) -> bool {
        self.pending.is_deliverable(self.mask)
    }

    /// Signals that wait for this thread alone.
    pub fn pending_set(&self) -> SigSet {
        self.pending.set()
    }

    /// The mask in force.
    pub fn mask_now(&self) -> SigSet {
        self.mask
    }

    /// For a new thread or process: mask and, for a process, the alternate stack
    /// are inherited, pending signals are not.
    pub fn inherit(&self, process: bool) -> ThreadSignals {
        let mask = self.saved_mask.unwrap_or(self.mask);
        let new = ThreadSignals::new(mask.0);
        match process {
            true => ThreadSignals { alt: self.alt, ..new },
            // The worker of a thread begins with everything blocked.
            false => ThreadSignals { applied: SigSet::ALL.blockable(), ..new },
        }
    }

    /// Whether Linux may keep signals back that the thread does not block.
    pub fn keeps_back(&self) -> bool {
        !self.applied.difference(self.mask).is_empty()
    }

    /// The mask for the worker's next call, which will then be applied.
    pub fn mask(&mut self) -> u64 {
        self.applied = self.mask;
        self.mask.0
    }

    /// Adds a signal for this thread.
    pub fn queue(&mut self, signal: u32, info: SigInfo) -> Result<bool> {
        self.pending.queue(signal, info)
    }

    /// Remembers an interrupted call until delivery.
    pub fn set_interrupted(&mut self, what: Interrupted) {
        cpus::request_attention();
        self.interrupted = Some(what);
    }

    /// Whether a call was interrupted and nobody has said yet what becomes of it.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// The call has a result after all.
    pub fn clear_interrupted(&mut self) {
        self.interrupted = None;
    }

    /// A call with a mask of its own begins.
    pub fn begin_temporary(&mut self, mask: SigSet) {
        cpus::request_attention();
        self.saved_mask = Some(self.mask);
        self.mask = mask.blockable();
    }

    /// For the thread that takes this one's place: all there is.
    pub fn hand_over(&mut self) -> ThreadSignals {
        let pending = core::mem::take(&mut self.pending);
        ThreadSignals { pending, ..ThreadSignals::new(self.mask.0) }
    }

    /// exec: the alternate stack goes, the rest stays.
    pub fn on_exec(&mut self) {
        self.alt = AltStack::DISABLED;
    }
}

/// `REQUEST_SIGNAL`.
pub fn from_linux(p: &Arc<Process>, signal: u32, slot: u32, info: &[u64; 16]) {
    if !signal::is_valid(signal) || p.signals.lock().actions.ignores(signal) {
        return;
    }
    let info = SigInfo::from_words(info);
    let thread = p.thread(slot);
    if thread.as_ref().is_some_and(|t| t.ptrace.takes(QueuedSignal { signal, info })) {
        return;
    }
    // Sent to the process (SI_USER, SI_QUEUE, SI_KERNEL) or to this thread: they are
    // pending apart, as on Linux. A thread that has ended leaves it to the others.
    let to_process = matches!(info.code, 0 | -1 | 0x80) || signal == signal::SIGCHLD;
    match &thread {
        Some(thread) if !to_process => {
            let mut s = thread.signals.lock();
            let _ = s.pending.queue(signal, info);
            if info.code == signal::SI_TIMER {
                s.applied = s.applied.with(signal); // see `hanare_abi::ioctl::Signal`
            }
            drop(s);
            cpus::kick(thread);
        }
        _ => {
            let _ = p.signals.lock().pending.queue(signal, info);
            match thread.filter(|t| !t.signals.lock().mask.contains(signal)) {
                Some(thread) => cpus::kick(&thread),
                None => retarget(p),
            }
        }
    }
}

/// A thread blocks signals or has ended: what is pending for the process is another
/// one's business now.
pub fn retarget(p: &Process) {
    let pending = p.signals.lock().pending.set();
    if pending.is_empty() {
        return;
    }
    let takes = |t: &&Arc<Thread>| !pending.difference(t.signals.lock().mask).is_empty();
    if let Some(thread) = p.threads().iter().find(takes) {
        cpus::kick(thread);
    }
}

/// kill, tkill, tgkill to oneself, where the signal would come right back: queued
/// here, or dropped if nothing comes of it. False: it is Linux' business (another target, blocked so that Linux keeps
/// it pending, or a default that Linux applies).
pub fn send_to_self(signal: u64, code: i32, own: bool) -> bool {
    let thread = cpus::current();
    if signal == 0 || signal > 64 || !own || thread.ptrace.is_on() || SigSet::UNBLOCKABLE.contains(signal as u32) {
        return false;
    }
    let signal = signal as u32;
    let id = *thread.process.identity.lock();
    let action = thread.process.signals.lock().actions.get(signal);
    let mut s = thread.signals.lock();
    if s.mask.contains(signal) {
        return false;
    }
    let job_control = SigSet::STOP.with(signal::SIGCONT).contains(signal);
    match signal::mirror(signal, &action) {
        MIRROR_FORWARD => {}
        // Nothing would happen.
        _ => return !job_control && !thread.process.observed.is_on(),
    }
    let mut info = SigInfo::user(signal, id.pid, id.uid);
    info.code = code;
    cpus::request_attention();
    s.pending.queue(signal, info).is_ok()
}

/// A page fault that could not be served.
pub fn raise_fault(fault: Fault, addr: u64, regs: &mut Regs, v: u8) {
    let (signal, code) = match fault {
        Fault::NotMapped => (signal::SIGSEGV, signal::SEGV_MAPERR),
        Fault::NotAllowed => (signal::SIGSEGV, signal::SEGV_ACCERR),
        Fault::Bus => (signal::SIGBUS, signal::BUS_ADRERR),
        Fault::NoMemory => {
            let pid = cpus::current().process.identity.lock().pid;
            let (free, total) = crate::frames::usage();
            crate::info!("out of memory: process {pid} killed ({} KiB of {} KiB free)", free >> 10, total >> 10);
            return die(signal::SIGKILL);
        }
    };
    force(QueuedSignal { signal, info: SigInfo::fault(signal, code, addr) }, regs, v, addr);
}

/// Any other exception of the application.
pub fn raise_exception(regs: &mut Regs, v: u8) {
    let (signal, info) = match v {
        vector::DIVIDE => fault_at(signal::SIGFPE, 1, regs.rip),
        vector::DEBUG => fault_at(signal::SIGTRAP, signal::TRAP_TRACE, regs.rip),
        vector::BREAKPOINT => (signal::SIGTRAP, SigInfo::kernel(signal::SIGTRAP)),
        vector::INVALID_OPCODE => fault_at(signal::SIGILL, 2, regs.rip),
        vector::X87 | vector::SIMD => fault_at(signal::SIGFPE, 7, regs.rip),
        vector::ALIGNMENT => fault_at(signal::SIGBUS, signal::BUS_ADRALN, 0),
        vector::STACK | vector::NOT_PRESENT => (signal::SIGBUS, SigInfo::kernel(signal::SIGBUS)),
        _ => (signal::SIGSEGV, SigInfo::kernel(signal::SIGSEGV)),
    };
    force(QueuedSignal { signal, info }, regs, v, 0);
}

/// The thread has met an address of its debug registers.
pub fn raise_watched(regs: &mut Regs) {
    let (signal, info) = fault_at(signal::SIGTRAP, signal::TRAP_HWBKPT, regs.rip);
    force(QueuedSignal { signal, info }, regs, vector::DEBUG, 0);
}

fn fault_at(signal: u32, code: i32, addr: u64) -> (u32, SigInfo) {
    (signal, SigInfo::fault(signal, code, addr))
}

/// A signal that a system call raises instead of being made: handled now, or the end.
pub fn force_call(queued: QueuedSignal, regs: &mut Regs) {
    cpus::request_attention();
    force(queued, regs, 0, 0);
    regs.orig_rax = crate::entry::NO_CALL;
}

/// A signal of the program's own doing: handled now, or the end.
fn force(queued: QueuedSignal, regs: &mut Regs, v: u8, addr: u64) {
    let thread = cpus::current();
    observe::trace::signal(thread, &queued);
    let Some(queued) = observe::debug::on_signal(thread, queued, regs) else { return };
    let Some(queued) = ptrace::on_forced(thread, queued, regs) else { return };
    let mask = thread.signals.lock().mask;
    let disposition = signal::decide_forced(queued.signal, &thread.process.signals.lock().actions, mask);
    match disposition {
        Disposition::Handle(action) => handle(thread, &queued, &action, regs, u64::from(v), addr),
        _ => {
            crate::debug!(
                "process {}: {} at {:#x} (exception {v}, address {addr:#x})",
                thread.process.identity.lock().pid,
                signal::name(queued.signal).unwrap_or("?"),
                regs.rip
            );
            if crate::log::debug_enabled() {
                panic::dump(regs);
            }
            match disposition {
                Disposition::Terminate { core: true } => coredump::die(thread, &queued, regs),
                _ => die(queued.signal),
            }
        }
    }
}

/// Ends the process by a signal, on Linux' side too.
pub fn die(signal: u32) {
    crate::hold::at("fatal-signal");
    ptrace::on_exit(cpus::current(), signal);
    observe::killed_by(cpus::current(), signal);
    delegate::last_call(OP_EXIT_SIGNAL, [u64::from(signal), 0, 0, 0, 0, 0]);
}

/// Before every return to user mode. False: registers changed (or may have), so
/// the slow return is needed.
pub fn deliver(regs: &mut Regs) -> bool {
    let thread = cpus::current();
    let p = &thread.process;
    let mut fast = true;
    let (mut any, mut handled) = (false, false);
    loop {
        p.wait_while_paused(thread);
        coredump::join(thread, regs);
        cputime::check(thread);
        fast &= !observe::debug::before_user(thread, regs);
        fast &= !ptrace::before_user(thread, regs);
        if thread.must_end() {
            p.exit_thread(thread);
        }
        let next = {
            let mut own = thread.signals.lock();
            let mask = own.mask;
            let mut shared = p.signals.lock();
            signal::dequeue_thread(&mut own.pending, &mut shared.pending, mask).map(|q| (q, signal::decide(q.signal, &shared.actions)))
        };
        let Some((queued, mut disposition)) = next else { break };
        any = true;
        fast = false;
        crate::hold::at("signal-taken");
        let mut queued = queued;
        if p.observed.is_on() {
            observe::trace::signal(thread, &queued);
            let Some(chosen) = observe::debug::on_signal(thread, queued, regs) else { continue };
            queued = chosen;
            disposition = signal::decide(queued.signal, &p.signals.lock().actions);
        }
        match disposition {
            Disposition::Ignore | Disposition::Continue => {}
            Disposition::Stop => {
                let _ = delegate::call(OP_STOP_SIGNAL, [u64::from(queued.signal), 0, 0, 0, 0, 0]);
            }
            Disposition::Terminate { core: true } => coredump::die(thread, &queued, regs),
            Disposition::Terminate { core: false } => die(queued.signal),
            Disposition::Handle(action) => {
                p.signals.lock().actions.on_handled(queued.signal);
                finish_interrupted(thread, regs, Some((queued.signal, &action)), true);
                handle(thread, &queued, &action, regs, 0, 0);
                ptrace::on_handler(thread);
                // The next one, if its handler may run too, gets a frame on top of
                // this one and runs first, as on Linux.
                handled = true;
            }
        }
    }
    if handled {
        retarget(p); // the handlers block more
        pending::give_back_blocked(thread);
        return false;
    }
    let changed = finish_interrupted(thread, regs, None, any);
    let mut s = thread.signals.lock();
    if let Some(mask) = s.saved_mask.take() {
        s.mask = mask;
    }
    drop(s);
    pending::give_back_blocked(thread);
    fast && !changed
}

/// Decides what becomes of an interrupted call; true if registers changed.
fn finish_interrupted(thread: &Thread, regs: &mut Regs, handler: Option<(u32, &SigAction)>, any: bool) -> bool {
    let Some(what) = thread.signals.lock().interrupted.take() else { return false };
    let again = match (what, handler) {
        (Interrupted::NotStarted, Some(_)) => thread.signals.lock().saved_mask.is_none(),
        (Interrupted::NotStarted, None) => true,
        // Where Linux knows of SA_RESTART, it has decided (not for sockets with a timeout).
        (Interrupted::Started(Restart::Sys), Some((signal, a))) => a.restarts() && !thread.process.signals.lock().mirrored.restarts(signal),
        (Interrupted::Local(Restart::Sys), Some((_, a))) => a.restarts(),
        (Interrupted::Local(_), None) => true,
        (Interrupted::Started(Restart::Sys | Restart::NoHand | Restart::Block), None) => any,
        _ => false,
    };
    if again {
        regs.rax = regs.orig_rax;
        regs.rip -= 2; // the length of `syscall`
    } else {
        regs.rax = errno::EINTR.as_return() as u64;
    }
    true
}

/// Builds the frame and points the registers at the handler.
fn handle(thread: &Thread, queued: &QueuedSignal, action: &SigAction, regs: &mut Regs, trapno: u64, cr2: u64) {
    let (alt, mask) = {
        let s = thread.signals.lock();
        (s.alt, s.saved_mask.unwrap_or(s.mask))
    };
    if rseq::before_handler(thread, regs).is_err() || build_frame(queued, action, regs, &alt, mask, trapno, cr2).is_err() {
        return match queued.signal {
            signal::SIGSEGV => die(signal::SIGSEGV),
            // As Linux' force_sigsegv(): it may have a handler, on a stack of its own.
            _ => force(QueuedSignal { signal: signal::SIGSEGV, info: SigInfo::kernel(signal::SIGSEGV) }, regs, 0, 0),
        };
    }
    let mut s = thread.signals.lock();
    s.saved_mask = None;
    s.mask = action.mask_in_handler(queued.signal, s.mask);
    if s.alt.flags & signal::SS_AUTODISARM != 0 {
        s.alt = AltStack::DISABLED;
    }
}

fn build_frame(queued: &QueuedSignal, action: &SigAction, regs: &mut Regs, alt: &AltStack, mask: SigSet, trapno: u64, cr2: u64) -> core::result::Result<(), usercopy::Fault> {
    let mut state = FpuState::new();
    state.save();
    let size = fpu::size();
    let place = signal::place_frame(regs.rsp, action.flags & signal::SA_ONSTACK != 0, alt, size as u64).ok_or(usercopy::Fault)?;
    let mut image: Vec<u8> = state.bytes().to_vec();
    let sw = if fpu::mask() != 0 { FpSwBytes::new(fpu::mask(), size as u32) } else { FpSwBytes::default() };
    image[signal::SW_BYTES_OFFSET..signal::SW_BYTES_OFFSET + size_of::<FpSwBytes>()].copy_from_slice(sw.as_bytes());
    image.extend_from_slice(&signal::FP_XSTATE_MAGIC2.to_le_bytes());
    let frame = RtSigFrame {
        restorer: action.restorer,
        context: UContext {
            flags: signal::UC_FP_XSTATE | signal::UC_SIGCONTEXT_SS | signal::UC_STRICT_RESTORE_SS,
            link: 0,
            stack: AltStack { flags: alt.flags_at(regs.rsp), ..*alt },
            mcontext: context_of(regs, trapno, cr2, mask, place.fpstate),
            sigmask: mask,
        },
        info: queued.info,
    };
    usercopy::write(place.fpstate, &image)?;
    usercopy::write(place.frame, frame.as_bytes())?;
    FpuState::new().restore();
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

fn context_of(r: &Regs, trapno: u64, cr2: u64, mask: SigSet, fpstate: u64) -> SigContext {
    SigContext {
        r8: r.r8, r9: r.r9, r10: r.r10, r11: r.r11, r12: r.r12, r13: r.r13, r14: r.r14, r15: r.r15,
        rdi: r.rdi, rsi: r.rsi, rbp: r.rbp, rbx: r.rbx, rdx: r.rdx, rax: r.rax, rcx: r.rcx, rsp: r.rsp,
        rip: r.rip, rflags: r.rflags, cs: gdt::USER_CS, gs: 0, fs: 0, ss: gdt::USER_DS,
        err: error_code(r, trapno, cr2), trapno, oldmask: mask.0, cr2, fpstate, reserved: [0; 8],
    }
}

/// As Linux, which does not tell which of its own addresses are mapped.
fn error_code(r: &Regs, trapno: u64, cr2: u64) -> u64 {
    match trapno {
        0 => 0,
        14 if cr2 >= 1 << 47 => r.orig_rax | 1,
        _ => r.orig_rax,
    }
}

/// rt_sigreturn: takes the frame back. A bad frame ends the process by SIGSEGV.
pub fn sigreturn(regs: &mut Regs) {
    if restore_frame(regs).is_err() {
        die(signal::SIGSEGV);
    }
}

fn restore_frame(regs: &mut Regs) -> core::result::Result<(), usercopy::Fault> {
    let mut bytes = [0; size_of::<RtSigFrame>()];
    usercopy::read(regs.rsp.wrapping_sub(8), &mut bytes)?;
    let frame = RtSigFrame::read_from_bytes(&bytes).map_err(|_| usercopy::Fault)?;
    let c = &frame.context.mcontext;
    if c.fpstate != 0 {
        restore_fpu(c.fpstate)?;
    }
    let settable = 0x24_0dd5; // as Linux' FIX_EFLAGS, with ID
    *regs = Regs {
        r15: c.r15, r14: c.r14, r13: c.r13, r12: c.r12, rbp: c.rbp, rbx: c.rbx, r11: c.r11, r10: c.r10,
        r9: c.r9, r8: c.r8, rax: c.rax, rcx: c.rcx, rdx: c.rdx, rsi: c.rsi, rdi: c.rdi, orig_rax: crate::entry::NO_CALL,
        rip: c.rip, cs: u64::from(gdt::USER_CS), rflags: regs.rflags & !settable | c.rflags & settable | 0x200,
        rsp: c.rsp, ss: u64::from(gdt::USER_DS),
    };
    if regs.rip >= 1 << 47 {
        return Err(usercopy::Fault); // iretq would fault in the kernel
    }
    // What the handler blocked may wait here, or on Linux.
    set_mask(cpus::current(), frame.context.sigmask.blockable());
    let mut s = cpus::current().signals.lock();
    if frame.context.stack.size != 0 {
        let flags = frame.context.stack.flags & (signal::SS_AUTODISARM | signal::SS_DISABLE);
        s.alt = AltStack { flags, ..frame.context.stack };
    }
    Ok(())
}

fn restore_fpu(at: u64) -> core::result::Result<(), usercopy::Fault> {
    let size = fpu::size();
    let mut image = alloc::vec![0; size];
    usercopy::read(at, &mut image[..signal::FXSAVE_SIZE])?;
    let sw = FpSwBytes::read_from_bytes(&image[signal::SW_BYTES_OFFSET..signal::SW_BYTES_OFFSET + size_of::<FpSwBytes>()]).map_err(|_| usercopy::Fault)?;
    let mut magic2 = [0; 4];
    let extended = fpu::mask() != 0
        && sw.xstate_size as usize <= size
        && usercopy::read(at + u64::from(sw.xstate_size), &mut magic2).is_ok()
        && sw.is_extended(size as u32, u32::from_le_bytes(magic2));
    let mut state = FpuState::new();
    if extended {
        usercopy::read(at, &mut image[..sw.xstate_size as usize])?;
    } else if image.len() > signal::FXSAVE_SIZE {
        image[512] = 3; // x87 and SSE are in the legacy area, the rest initial
    }
    state.set_bytes(&image);
    state.restore();
    Ok(())
}

/// rt_sigprocmask.
pub fn procmask(how: u64, new: u64, old: u64, size: u64) -> Result<u64> {
    if size != 8 {
        return Err(errno::EINVAL);
    }
    let thread = cpus::current();
    let before = thread.signals.lock().mask;
    if new != 0 {
        let set = SigSet(usercopy::read_u64(new).map_err(|_| errno::EFAULT)?);
        let now = match how {
            0 => before.union(set),
            1 => before.difference(set),
            2 => set,
            _ => return Err(errno::EINVAL),
        };
        set_mask(thread, now.blockable());
    }
    if old != 0 {
        usercopy::write(old, before.as_bytes()).map_err(|_| errno::EFAULT)?;
    }
    Ok(0)
}

/// Sets the mask; the worker learns of it with the next call, at once if signals
/// may be waiting on Linux that are not blocked any more.
fn set_mask(thread: &Thread, mask: SigSet) {
    cpus::request_attention();
    let (unblocked, blocked) = {
        let mut s = thread.signals.lock();
        let blocked = !mask.difference(s.mask).is_empty();
        s.mask = mask;
        (!s.applied.difference(mask).is_empty(), blocked)
    };
    if blocked {
        retarget(&thread.process);
    }
    if unblocked {
        let _ = delegate::call(hanare_abi::slot::OP_NOP, [0; 6]);
    }
}

/// sigaltstack.
pub fn altstack(new: u64, old: u64, sp: u64) -> Result<u64> {
    let thread = cpus::current();
    let before = thread.signals.lock().alt;
    if new != 0 {
        let mut bytes = [0; size_of::<AltStack>()];
        usercopy::read(new, &mut bytes).map_err(|_| errno::EFAULT)?;
        let wanted = AltStack::read_from_bytes(&bytes).map_err(|_| errno::EINVAL)?;
        if before.holds(sp) {
            return Err(errno::EPERM);
        }
        let mode = wanted.flags & !signal::SS_AUTODISARM;
        if mode != 0 && mode != signal::SS_DISABLE && mode != signal::SS_ONSTACK {
            return Err(errno::EINVAL);
        }
        if mode != signal::SS_DISABLE && wanted.size < hanare_core::limits::MIN_SIGNAL_STACK {
            return Err(errno::ENOMEM);
        }
        let set = if mode == signal::SS_DISABLE { AltStack::DISABLED } else { AltStack { flags: wanted.flags & signal::SS_AUTODISARM, ..wanted } };
        thread.signals.lock().alt = set;
    }
    if old != 0 {
        let shown = AltStack { flags: before.flags_at(sp), ..before };
        usercopy::write(old, shown.as_bytes()).map_err(|_| errno::EFAULT)?;
    }
    Ok(0)
}
