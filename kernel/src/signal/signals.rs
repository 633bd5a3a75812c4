//! Signals: what is pending, what Linux forwards, faults, and delivery.
//!
//! Linux keeps dispositions that need no handler (see `docs/architecture.md`);
//! here is what the application catches or dies of.

use crate::base::heap;
use crate::gate::{coredump, observe, ptrace, rseq};
use crate::link::delegate;
use crate::mm::access::Signal as Fault;
use crate::mm::limits;
use crate::parts::signals::Trap;
use crate::process::exit;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::process::{Process, cputime, oom};
use crate::sched::{cpus, panic};
use crate::signal::restart::finish_interrupted;
use crate::signal::sigframe;
use crate::signal::{pending, unhandled};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_abi::slot::{MIRROR_FORWARD, OP_EXIT_SIGNAL, OP_NOP, OP_STOP_SIGNAL};
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, AltStack, Disposition, QueuedSignal, SigAction, SigInfo, SigSet};
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::{Regs, vector};
use hanare_hal::usercopy;
use zerocopy::IntoBytes;

/// `REQUEST_SIGNAL`. `EAGAIN`: Linux is to find another thread that takes it.
pub fn from_linux(p: &Arc<Process>, signal: u32, slot: u32, info: &[u64; 16]) -> Result<()> {
    let info = SigInfo::from_words(info);
    let thread = p.thread(slot);
    let directed = info.code == signal::SI_QUEUE
        && thread.as_ref().is_some_and(|t| t.signals.lock().directed.take(signal));
    if !signal::is_valid(signal) || p.signals.lock().actions.ignores(signal) {
        return Ok(());
    }
    if thread.as_ref().is_some_and(|t| t.ptrace.takes(QueuedSignal { signal, info })) {
        return Ok(());
    }
    // Sent to the process (SI_USER, SI_QUEUE, SI_KERNEL) or to this thread: they are
    // pending apart, as on Linux. A thread that has ended leaves it to the others.
    let room = limits::room_for_mappings(0);
    let for_thread = SigSet::of(signal::SIGPIPE).with(signal::SIGXFSZ).contains(signal);
    let to_process = matches!(info.code, 0 | signal::SI_QUEUE | 0x80) && !for_thread && !directed
        || signal == signal::SIGCHLD;
    let taken =
        thread.as_ref().is_some_and(|t| t.signals.lock().take(signal, info, to_process, room));
    if !taken && !pending::NEVER_BLOCKED.contains(signal) {
        return Err(errno::EAGAIN); // the others may be in calls of Linux', which only Linux interrupts
    }
    if !taken {
        heap::fallible(|| p.signals.lock().pending.add(signal, info, room));
        retarget(p);
    }
    if let Some(thread) = thread {
        cpus::kick(&thread); // also to give back what it blocks
    }
    Ok(())
}

/// A thread ends, and has its worker still: what it was to take for the process is the others'
/// business. They may be in calls of Linux', so that it goes there; where another one's execve
/// ends it, that one takes it.
pub fn leave(p: &Process, thread: &Thread) {
    let left = {
        let mut s = thread.signals.lock();
        s.set(SigSet::ALL); // nothing more is left to it
        s.pending.clear(); // as on Linux; the first thread's worker may serve the next program
        s.give_up(SigSet::ALL)
    };
    requeue(p, left);
    pending::give_back_blocked(thread);
    retarget(p);
}

fn requeue(p: &Process, signals: Vec<QueuedSignal>) {
    let mut shared = p.signals.lock();
    for queued in signals {
        heap::fallible(|| shared.pending.add(queued.signal, queued.info, true));
    }
}

/// A thread blocks signals or has ended: what is pending for the process is another's business.
pub fn retarget(p: &Process) {
    let pending = p.signals.lock().pending.set();
    if pending.is_empty() {
        return;
    }
    let takes = |t: &Arc<Thread>| !pending.difference(t.signals.lock().mask).is_empty();
    // The one that is longest there, as Linux prefers the first.
    if let Some(thread) = p.threads().filter(takes).last() {
        cpus::kick(&thread);
    }
}

/// kill, tkill, tgkill to oneself, where the signal would come right back: queued
/// here, or dropped if nothing comes of it. False: it is Linux' business (another target, blocked so that Linux keeps
/// it pending, or a default that Linux applies).
pub fn send_to_self(signal: u64, code: i32, own: bool) -> bool {
    let thread = thread::current();
    if signal == 0
        || signal > 64
        || !own
        || thread.ptrace.is_on()
        || SigSet::UNBLOCKABLE.contains(signal as u32)
    {
        return false;
    }
    let signal = signal as u32;
    let (pid, uid) = (thread.process.identity.lock().pid, thread.ids.lock().uid);
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
    let mut info = SigInfo::user(signal, pid, uid);
    info.code = code;
    cpus::request_attention();
    heap::fallible(|| s.pending.queue(signal, info)).is_ok()
}

/// A page fault that could not be served.
pub fn raise_fault(fault: Fault, addr: u64, regs: &mut Regs) {
    let (signal, code) = match fault {
        Fault::NotMapped => (signal::SIGSEGV, signal::SEGV_MAPERR),
        Fault::NotAllowed => (signal::SIGSEGV, signal::SEGV_ACCERR),
        Fault::Bus => (signal::SIGBUS, signal::BUS_ADRERR),
        Fault::BadMemory => {
            trapped(Trap::page_fault(regs.orig_rax, addr));
            return raise_bad_memory(addr, regs);
        }
        Fault::NoMemory => {
            oom::kill_current();
            return die(signal::SIGKILL);
        }
    };
    trapped(Trap::page_fault(regs.orig_rax, addr));
    force(
        QueuedSignal { signal, info: SigInfo::fault(signal, code, addr) },
        regs,
        Cause::Exception,
    );
}

/// The program used memory at `addr` that is bad.
pub fn raise_bad_memory(addr: u64, regs: &mut Regs) {
    force(
        QueuedSignal { signal: signal::SIGBUS, info: SigInfo::bad_memory(addr) },
        regs,
        Cause::Exception,
    );
}

/// An exception is about to raise a signal.
fn trapped(trap: Trap) {
    thread::current().signals.lock().trap = trap;
}

/// The same for one that tells no address.
fn trapped_by(v: u8, error: u64) {
    let cr2 = thread::current().signals.lock().trap.cr2;
    trapped(Trap { number: u64::from(v), error, cr2 });
}

/// Any other exception of the application.
pub fn raise_exception(regs: &mut Regs, v: u8) {
    let (signal, info) = match v {
        vector::DIVIDE => fault_at(signal::SIGFPE, 1, regs.rip),
        vector::DEBUG => fault_at(signal::SIGTRAP, signal::TRAP_TRACE, regs.rip),
        vector::BREAKPOINT => (signal::SIGTRAP, SigInfo::kernel(signal::SIGTRAP)),
        vector::INVALID_OPCODE => fault_at(signal::SIGILL, 2, regs.rip),
        vector::X87 | vector::SIMD => match float_code(v == vector::X87) {
            Some(code) => fault_at(signal::SIGFPE, code, regs.rip),
            None => return, // it is over
        },
        vector::ALIGNMENT => fault_at(signal::SIGBUS, signal::BUS_ADRALN, 0),
        vector::STACK | vector::NOT_PRESENT => (signal::SIGBUS, SigInfo::kernel(signal::SIGBUS)),
        _ => (signal::SIGSEGV, SigInfo::kernel(signal::SIGSEGV)),
    };
    trapped_by(v, if matches!(v, vector::DEBUG | vector::BREAKPOINT) { 0 } else { regs.orig_rax });
    force(QueuedSignal { signal, info }, regs, Cause::Exception);
}

/// Which float exception the running thread has met.
fn float_code(x87: bool) -> Option<i32> {
    let mut state = FpuState::new();
    state.save();
    signal::float_code(state.bytes(), x87)
}

/// The thread has met an address of its debug registers.
pub fn raise_watched(regs: &mut Regs) {
    let (signal, info) = fault_at(signal::SIGTRAP, signal::TRAP_HWBKPT, regs.rip);
    trapped_by(vector::DEBUG, 0);
    force(QueuedSignal { signal, info }, regs, Cause::Exception);
}

fn fault_at(signal: u32, code: i32, addr: u64) -> (u32, SigInfo) {
    (signal, SigInfo::fault(signal, code, addr))
}

/// A signal that a system call raises instead of being made: handled now, or the end.
pub fn force_call(queued: QueuedSignal, regs: &mut Regs) {
    cpus::request_attention();
    force(queued, regs, Cause::Kernel);
    regs.orig_rax = hanare_hal::traps::NO_CALL;
}

/// A frame cannot be taken or made: SIGSEGV, as Linux' force_sig().
pub fn force_segv(regs: &mut Regs) {
    force(
        QueuedSignal { signal: signal::SIGSEGV, info: SigInfo::kernel(signal::SIGSEGV) },
        regs,
        Cause::Kernel,
    );
}

/// The source of a signal that the program itself caused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// An exception of the processor, which the log tells of.
    Exception,
    /// A system call, or a frame that cannot be made.
    Kernel,
}

/// A signal of the program's own doing: handled now, or the end.
fn force(queued: QueuedSignal, regs: &mut Regs, cause: Cause) {
    let thread = thread::current();
    if thread.must_end() {
        // What was read or written may be missing for that very reason.
        exit::thread(&thread.process, thread);
    }
    observe::trace::signal(thread, &queued);
    let raised = queued.signal;
    let Some(queued) = observe::debug::on_signal(thread, queued, regs) else { return };
    let Some(queued) = ptrace::on_forced(thread, queued, regs) else { return };
    let mask = thread.signals.lock().mask;
    let disposition =
        signal::decide_forced(queued.signal, &thread.process.signals.lock().actions, mask);
    match disposition {
        Disposition::Handle(action) => handle(thread, &queued, &action, regs),
        _ => {
            if cause == Cause::Exception && queued.signal == raised && !thread.ptrace.is_on() {
                let trap = thread.signals.lock().trap;
                unhandled::log(thread, raised, trap, regs);
            }
            if crate::base::log::debug_enabled() {
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
    crate::sched::hold::at("fatal-signal");
    ptrace::on_exit(thread::current(), signal);
    observe::killed_by(thread::current(), signal);
    exit::by_last_call(OP_EXIT_SIGNAL, [u64::from(signal), 0, 0, 0, 0, 0]);
}

/// Before every return to user mode. False: registers changed (or may have), so
/// the slow return is needed.
pub fn deliver(regs: &mut Regs) -> bool {
    let thread = thread::current();
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
            exit::thread(p, thread);
        }
        let next = {
            let mut own = thread.signals.lock();
            let mask = own.mask;
            let mut shared = p.signals.lock();
            own.dequeue(&mut shared.pending, mask)
                .map(|q| (q, signal::decide(q.signal, &shared.actions)))
        };
        let Some((queued, mut disposition)) = next else { break };
        any = true;
        fast = false;
        crate::sched::hold::at("signal-taken");
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
                handle(thread, &queued, &action, regs);
                ptrace::on_handler(thread);
                // The next one, if its handler may run too, gets a frame on top of
                // this one and runs first, as on Linux.
                handled = true;
            }
        }
    }
    if handled {
        retarget(p); // the handlers block more
        settle(thread);
        return false;
    }
    let changed = finish_interrupted(thread, regs, None, any);
    {
        let mut s = thread.signals.lock();
        s.mask = s.lasting;
    }
    settle(thread);
    fast && !changed
}

/// The mask is that which user mode will have: what it blocks goes elsewhere, and Linux
/// sends what it does not block and the worker does.
fn settle(thread: &Thread) {
    pass_on_blocked(thread);
    pending::give_back_blocked(thread);
    let keeps_back = thread.signals.lock().keeps_back();
    if keeps_back {
        cpus::request_attention();
        let _ = delegate::call(OP_NOP, [0; 6]);
    }
}

/// What the thread was to take for the process, and blocks now, is the others' business.
fn pass_on_blocked(thread: &Thread) {
    let blocked = {
        let mut s = thread.signals.lock();
        let mask = s.mask;
        s.give_up(mask)
    };
    if !blocked.is_empty() {
        requeue(&thread.process, blocked);
        retarget(&thread.process);
    }
}

/// Builds the frame and points the registers at the handler.
fn handle(thread: &Thread, queued: &QueuedSignal, action: &SigAction, regs: &mut Regs) {
    let (alt, mask, trap) = {
        let s = thread.signals.lock();
        (s.alt, s.lasting, s.trap)
    };
    if rseq::before_handler(thread, regs).is_err()
        || sigframe::build(queued, action, regs, &alt, mask, trap).is_err()
    {
        return match queued.signal {
            signal::SIGSEGV => die(signal::SIGSEGV),
            _ => force_segv(regs), // it may have a handler, on a stack of its own
        };
    }
    let mut s = thread.signals.lock();
    let mask = action.mask_in_handler(queued.signal, s.mask);
    s.set(mask);
    if s.alt.flags & signal::SS_AUTODISARM != 0 {
        s.alt = AltStack::DISABLED;
    }
}

/// rt_sigprocmask.
pub fn procmask(how: u64, new: u64, old: u64, size: u64) -> Result<u64> {
    if size != 8 {
        return Err(errno::EINVAL);
    }
    let thread = thread::current();
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
pub fn set_mask(thread: &Thread, mask: SigSet) {
    cpus::request_attention();
    let (unblocked, blocked) = {
        let mut s = thread.signals.lock();
        let blocked = !mask.difference(s.mask).is_empty();
        s.set(mask);
        (!s.applied.difference(mask).is_empty(), blocked)
    };
    if blocked {
        retarget(&thread.process);
    }
    if unblocked {
        let _ = delegate::call(OP_NOP, [0; 6]);
    }
}
