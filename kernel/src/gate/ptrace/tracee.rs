//! A traced thread stops for its tracer, and goes on with what that has changed.

use crate::gate::debugregs;
use crate::link::{delegate, services};
use crate::parts::registers::{Snapshot, TRAP_FLAG};
use crate::parts::tracee::{
    CALLS, EXECED, GIVES_UP, HELD, SEIZED, STEP, STEPPED, TOLD, TRACED, TRACER, TRAPS,
};
use crate::process::thread;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_abi::service::{MAY_BE_TRACED, SERVICE_MAY};
use hanare_core::errno;
use hanare_core::ptrace::{Stop, event, option};
use hanare_core::signal::{self, QueuedSignal, SigInfo};
use hanare_core::syscalls::{self, Restart};
use hanare_hal::traps::Regs;
use zerocopy::IntoBytes;

/// A system call that was interrupted, as a tracer sees it.
const ERESTARTSYS: u64 = -512i64 as u64;
const RESTARTS: core::ops::RangeInclusive<u64> = -516i64 as u64..=-512i64 as u64;

/// The thread is traced from now on, by `tracer` if that is known already.
pub fn begin(thread: &Arc<Thread>, tracer: Option<&Arc<Thread>>, flags: u32, options: u64) {
    let own = &thread.ptrace;
    own.options.store(options, Ordering::Relaxed);
    if let Some(tracer) = tracer {
        set_tracer(thread, tracer);
    }
    own.set(TRACED | flags);
    thread.process.observed.set_ptraced(true);
}

pub fn set_tracer(thread: &Thread, tracer: &Arc<Thread>) {
    tracer.ptrace.set(TRACER);
    tracer.process.traces.store(true, Ordering::Relaxed);
    thread.ptrace.state.lock().tracer = Arc::downgrade(tracer);
}

/// The thread is traced no more.
pub fn end(thread: &Arc<Thread>) {
    let own = &thread.ptrace;
    own.clear(TRACED | SEIZED | CALLS | STEP | STEPPED | EXECED | TOLD);
    own.options.store(0, Ordering::Relaxed);
    own.state.lock().tracer = Weak::new();
    let p = &thread.process;
    p.observed.set_ptraced(false);
    if p.threads().any(|t| t.ptrace.is_on()) {
        p.observed.set_ptraced(true);
    }
    let_go(thread);
}

/// The thread may go on.
pub fn let_go(thread: &Arc<Thread>) {
    let own = &thread.ptrace;
    {
        let mut snapshot = own.snapshot.lock();
        own.clear(HELD);
        if let Some(s) = &*snapshot
            && s.in_kernel
        {
            if s.changed {
                own.set(GIVES_UP);
            } else {
                *snapshot = None;
            }
        }
    }
    cpus::kick(thread);
}

/// The tracer may look.
pub fn tell_tracer(thread: &Thread) {
    let tracer = thread.ptrace.state.lock().tracer.upgrade();
    if let Some(tracer) = tracer {
        cpus::kick(&tracer);
    }
}

/// A held thread waits in the kernel: its registers are there to be seen.
pub fn in_kernel(thread: &Thread) {
    let mut s = Snapshot::of_waiting(thread);
    s.regs = shown(thread, &s.regs, true);
    *thread.ptrace.snapshot.lock() = Some(s);
    tell_tracer(thread);
}

/// `syscall` leaves address and flags in two registers; who comes from elsewhere has others.
fn is_call(regs: &Regs) -> bool {
    regs.rcx == regs.rip && regs.r11 == regs.rflags && regs.orig_rax as i64 >= 0
}

/// The registers as Linux shows them: -1 in place of the number where there is no call,
/// and a call that is not over is one that was interrupted.
fn shown(thread: &Thread, regs: &Regs, waits: bool) -> Regs {
    let is_call = is_call(regs);
    let over = !waits && !thread.signals.lock().is_interrupted();
    Regs {
        orig_rax: if is_call { regs.orig_rax } else { hanare_hal::traps::NO_CALL },
        rax: if is_call && !over { restart_code(regs) } else { regs.rax },
        ..*regs
    }
}

/// The result that the call of `regs` would have on Linux if a signal ended it now.
fn restart_code(regs: &Regs) -> u64 {
    const ERESTARTNOHAND: u64 = -514i64 as u64;
    const ERESTART_RESTARTBLOCK: u64 = -516i64 as u64;
    match syscalls::row(regs.orig_rax).map(|row| row.restart) {
        Some(Restart::NoHand) => ERESTARTNOHAND,
        Some(Restart::Block) => ERESTART_RESTARTBLOCK,
        _ => ERESTARTSYS,
    }
}

/// The thread may go on, or has to.
struct LetGo<'a>(&'a Thread);

impl cpus::Wait for LetGo<'_> {
    fn ready(&self) -> bool {
        !self.0.ptrace.has(HELD) || self.0.must_end() || self.0.process.is_dumping()
    }
    fn announce(&self, _: bool) {}
}

/// Waits until the thread may go on, and takes the registers that it is to have.
fn wait_to_go(thread: &Thread) -> Option<Box<Snapshot>> {
    loop {
        if !cpus::Wait::ready(&LetGo(thread)) {
            cpus::wait(&LetGo(thread), 0);
        }
        let mut snapshot = thread.ptrace.snapshot.lock();
        // Under the lock: who finds it there while the thread is held may rely on it.
        if cpus::Wait::ready(&LetGo(thread)) {
            return snapshot.take().filter(|s| s.changed);
        }
    }
}

/// No trap flag of the tracer's among the registers.
fn without_trap(thread: &Thread, regs: &mut Regs) {
    if thread.ptrace.clear(TRAPS) {
        regs.rflags &= !TRAP_FLAG;
    }
}

/// Held on the way to user mode.
fn park(thread: &Thread, regs: &mut Regs) {
    without_trap(thread, regs);
    adopt(thread, regs);
    {
        let mut snapshot = thread.ptrace.snapshot.lock();
        *snapshot = Some(Snapshot::take(&shown(thread, regs, false), false));
    }
    tell_tracer(thread);
    if let Some(s) = wait_to_go(thread) {
        load(thread, &s, regs);
    }
}

/// Takes on registers that were set while the thread waited in the kernel.
fn adopt(thread: &Thread, regs: &mut Regs) {
    let changed = thread.ptrace.snapshot.lock().take().filter(|s| s.changed);
    thread.ptrace.clear(GIVES_UP);
    if let Some(s) = changed {
        load(thread, &s, regs);
    }
}

fn load(thread: &Thread, s: &Snapshot, regs: &mut Regs) {
    let (result, from_call) = (regs.rax, is_call(regs));
    s.load(regs);
    let restarts = regs.orig_rax as i64 >= 0 && RESTARTS.contains(&regs.rax);
    match (restarts, from_call) {
        // Nothing was changed that has to do with the call: its result stays, or it
        // is made again.
        (true, true) => regs.rax = result,
        // The registers of a call of before: it is made again.
        (true, false) => {
            regs.rax = regs.orig_rax;
            regs.rip = regs.rip.wrapping_sub(2);
        }
        (false, _) => thread.signals.lock().clear_interrupted(),
    }
}

/// On the way to user mode: the thread stops if it is held. True: every register counts.
pub fn before_user(thread: &Thread, regs: &mut Regs) -> bool {
    let traced = thread.ptrace.flags.load(Ordering::Relaxed) & !TRACER != 0;
    if traced {
        traced_before_user(thread, regs);
    }
    debugregs::before_user(thread);
    traced
}

fn traced_before_user(thread: &Thread, regs: &mut Regs) {
    let own = &thread.ptrace;
    loop {
        if thread.must_end() || thread.process.is_dumping() {
            return;
        }
        if own.has(HELD) {
            park(thread, regs);
            continue;
        }
        if own.has(GIVES_UP) {
            adopt(thread, regs);
        }
        if own.clear(EXECED) {
            let pid = thread.process.identity.lock().pid;
            let uid = thread.ids.lock().uid;
            signal_stop(thread, regs, SigInfo::user(signal::SIGTRAP, pid, uid));
            continue;
        }
        if own.clear(STEPPED) && own.has(STEP) {
            signal_stop(
                thread,
                regs,
                SigInfo::fault(signal::SIGTRAP, signal::TRAP_BRKPT, regs.rip),
            );
            continue;
        }
        break;
    }
    if own.has(STEP) && regs.rflags & TRAP_FLAG == 0 {
        regs.rflags |= TRAP_FLAG;
        own.set(TRAPS);
    }
}

/// A SIGTRAP for the tracer's sake; what it lets through waits for delivery.
fn signal_stop(thread: &Thread, regs: &mut Regs, info: SigInfo) {
    if let Some(queued) =
        stop(thread, regs, QueuedSignal { signal: signal::SIGTRAP, info }, Stop::Signal)
    {
        let _ = thread.signals.lock().queue(queued.signal, queued.info);
    }
}

/// Stops for the tracer by a signal; gives it if the tracer lets it through.
fn stop(
    thread: &Thread,
    regs: &mut Regs,
    queued: QueuedSignal,
    stop: Stop,
) -> Option<QueuedSignal> {
    let own = &thread.ptrace;
    cpus::request_attention();
    without_trap(thread, regs);
    let mut seen = *regs;
    if stop == Stop::Signal {
        seen = shown(thread, regs, false);
    }
    *own.snapshot.lock() = Some(Snapshot::take(&seen, false));
    // The worker has stopped for another signal meanwhile, of which the tracer knows: it waits
    // for the registers, and the stop that begins here comes only after that one.
    if own.has(HELD) {
        tell_tracer(thread);
    }
    {
        let mut state = own.state.lock();
        (state.stop, state.reported, state.let_through) = (stop, false, None);
    }
    own.trapping.store(queued.signal, Ordering::SeqCst);
    let sent = thread
        .process
        .write_scratch(thread.slot_index, queued.info.as_bytes())
        .and_then(|_| delegate::result_of(Control::Trap { signal: queued.signal }));
    own.trapping.store(0, Ordering::SeqCst);
    let changed = wait_to_go(thread);
    let let_through = {
        let mut state = own.state.lock();
        (state.stop, state.reported) = (Stop::Signal, false);
        state.let_through.take()
    };
    if let Some(s) = changed {
        if stop == Stop::Signal { load(thread, &s, regs) } else { s.load(regs) }
    }
    match sent {
        Ok(_) => let_through,
        // Linux takes no more signals: as if there were no tracer.
        Err(_) => Some(queued),
    }
}

/// Stops at something that is not a signal.
pub fn report(thread: &Thread, regs: &mut Regs, what: Stop) {
    let uid = thread.ids.lock().uid;
    let good = thread.ptrace.wants(option::TRACESYSGOOD);
    let mut info = SigInfo::user(signal::SIGTRAP, thread.slot.tid(), uid);
    info.code = what.code(good);
    // The SIGTRAP is none that the program could get.
    let _ = stop(thread, regs, QueuedSignal { signal: signal::SIGTRAP, info }, what);
}

pub fn report_event(thread: &Thread, regs: &mut Regs, event: u32, message: u32) {
    report(thread, regs, Stop::Event(event, message.into()));
    thread.ptrace.set(TOLD);
}

/// A signal of the program's own doing: the tracer hears of it first.
pub fn on_forced(thread: &Thread, queued: QueuedSignal, regs: &mut Regs) -> Option<QueuedSignal> {
    if !thread.ptrace.has(TRACED) || queued.signal == signal::SIGKILL {
        return Some(queued);
    }
    stop(thread, regs, queued, Stop::Signal)
}

/// A debug exception that is nobody's business any more: who stepped is gone.
pub fn stepped(regs: &mut Regs) -> bool {
    let thread = thread::current();
    if !thread.ptrace.has(TRAPS) {
        return false;
    }
    without_trap(thread, regs);
    cpus::request_attention();
    !thread.ptrace.has(STEP)
}

/// A system call begins. False: it is not made.
pub fn enter(thread: &Thread, regs: &mut Regs) -> bool {
    if !thread.ptrace.has(TRACED) {
        return true;
    }
    cpus::request_attention();
    regs.rax = errno::ENOSYS.as_return() as u64;
    if !thread.ptrace.has(CALLS) {
        return true;
    }
    report(thread, regs, Stop::Entry);
    thread.ptrace.set(TOLD);
    regs.orig_rax as i32 >= 0 && !thread.must_end()
}

/// A system call is over.
pub fn leave(thread: &Thread, regs: &mut Regs) {
    let own = &thread.ptrace;
    if !own.has(TRACED) || thread.must_end() {
        return;
    }
    cpus::request_attention();
    // A stop that lies within the call for us comes behind it on Linux.
    if own.clear(TOLD) && own.has(CALLS) {
        let interrupted = thread.signals.lock().is_interrupted();
        if interrupted {
            regs.rax = restart_code(regs);
        }
        report(thread, regs, Stop::Exit);
    }
    if own.has(STEP) {
        own.set(STEPPED);
    }
}

/// A handler begins.
pub fn on_handler(thread: &Thread) {
    if thread.ptrace.has(STEP) {
        thread.ptrace.set(STEPPED);
    }
}

/// The thread `old` has replaced the program, and `new` goes on for it, with the id and the
/// worker of the first one.
pub fn succeed(old: &Thread, new: &Arc<Thread>) {
    if !old.process.first_traced.load(Ordering::Relaxed) {
        return;
    }
    let tracer = old.ptrace.state.lock().tracer.upgrade();
    let kept = old.ptrace.flags.load(Ordering::SeqCst) & (SEIZED | CALLS | STEP);
    begin(new, tracer.as_ref(), kept, old.ptrace.options.load(Ordering::Relaxed));
    new.ptrace.state.lock().former = old.slot.tid();
}

/// The thread `old` has replaced the program, and `new` goes on for it in another space, with
/// its worker.
pub fn continue_as(old: &Thread, new: &Arc<Thread>) {
    let flags = old.ptrace.flags.load(Ordering::SeqCst);
    if flags & TRACED == 0 {
        return;
    }
    let tracer = old.ptrace.state.lock().tracer.upgrade();
    begin(
        new,
        tracer.as_ref(),
        flags & (SEIZED | CALLS | STEP),
        old.ptrace.options.load(Ordering::Relaxed),
    );
    new.ptrace.state.lock().former = old.slot.tid();
    old.ptrace.clear(TRACED); // its end is not that of a tracee
}

/// The thread gets rights from a program that it is about to run: who traced it, and does so no
/// more on Linux, is not to have them.
pub fn on_rights(thread: &Thread) {
    if thread.ptrace.is_on()
        && services::by_worker(SERVICE_MAY, &[0, 0, MAY_BE_TRACED], &[]).is_err()
    {
        end(&thread::current_arc());
    }
}

/// A new program begins.
pub fn on_exec(thread: &Thread, regs: &mut Regs) {
    let own = &thread.ptrace;
    if own.wants(option::TRACEEXEC) {
        let former = core::mem::take(&mut own.state.lock().former);
        report_event(
            thread,
            regs,
            event::EXEC,
            if former == 0 { thread.slot.tid() } else { former },
        );
    } else if own.has(TRACED) && !own.has(SEIZED) {
        own.set(EXECED | TOLD);
    }
}
