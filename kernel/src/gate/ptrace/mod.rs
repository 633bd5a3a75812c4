//! ptrace(2), the tracee's side: what a traced thread does for its tracer.
//!
//! Linux does the tracing, of the workers: it knows who traces whom, stops them at
//! signals and tells wait(2). A thread whose worker is stopped is *held* from the moment
//! its tracer hears of the stop ([`tracer`]): it leaves its registers in a [`Snapshot`],
//! where it is, if it waits in the kernel, else on its way to user mode. What only the LWK
//! knows of (faults, breakpoints, system calls, execve) becomes a stop when the thread has
//! its worker take a signal (`OP_TRAP`); the tracer's answer is what comes back.

mod children;
mod memory;
mod registers;
mod tracer;

pub use children::{before_child, hold_child, on_child, on_exit, on_vfork_done};
pub use memory::memory_file;
pub use tracer::{call, wait};

use crate::gate::debugregs;
use crate::gate::registers::{Snapshot, TRAP_FLAG};
use crate::link::{delegate, services};
use crate::process::spaces;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanare_abi::service::{MAY_BE_TRACED, SERVICE_MAY};
use hanare_abi::slot::OP_TRAP;
use hanare_core::errno;
use hanare_core::ptrace::{Stop, event, option};
use hanare_core::signal::{self, QueuedSignal, SigInfo};
use hanare_core::syscalls::{self, Restart};
use hanare_hal::traps::Regs;
use spin::Mutex;
use zerocopy::IntoBytes;

/// Linux traces its worker.
const TRACED: u32 = 1;
/// By PTRACE_SEIZE.
const SEIZED: u32 = 2;
/// It stops at system calls (PTRACE_SYSCALL).
const CALLS: u32 = 4;
/// It stops after one instruction (PTRACE_SINGLESTEP).
const STEP: u32 = 8;
/// It has done one that the CPU does not trap after: a call, or to begin a handler.
const STEPPED: u32 = 0x10;
/// The trap flag is there on the tracer's account.
const TRAPS: u32 = 0x20;
/// It may not go on in user mode.
const HELD: u32 = 0x40;
/// It has a new program, which it has to say.
const EXECED: u32 = 0x80;
/// Its registers were set while it waits in the kernel: it gives up waiting.
const GIVES_UP: u32 = 0x100;
/// It is no more.
const GONE: u32 = 0x200;
/// It has, or had, tracees.
const TRACER: u32 = 0x400;
/// Its tracer has heard of the call that it makes, and will hear of its end.
const TOLD: u32 = 0x800;

/// A system call that was interrupted, as a tracer sees it.
const ERESTARTSYS: u64 = -512i64 as u64;
const RESTARTS: core::ops::RangeInclusive<u64> = -516i64 as u64..=-512i64 as u64;

/// One thread's part.
#[derive(Default)]
pub struct OfThread {
    flags: AtomicU32,
    /// `PTRACE_O_*`.
    options: AtomicU64,
    /// The signal of `OP_TRAP`, while that is under way.
    trapping: AtomicU32,
    state: Mutex<State>,
    snapshot: Mutex<Option<Box<Snapshot>>>,
}

struct State {
    stop: Stop,
    /// The tracer has heard of it.
    reported: bool,
    /// The signal of `OP_TRAP`, if the tracer lets it through.
    let_through: Option<QueuedSignal>,
    tracer: Weak<Thread>,
    /// A child that is not to begin before the tracer has heard of it.
    child: Option<Arc<Thread>>,
    /// Its id before it became the first thread by execve, until that is told.
    former: u32,
}

impl Default for State {
    fn default() -> Self {
        State {
            stop: Stop::Signal,
            reported: false,
            let_through: None,
            tracer: Weak::new(),
            child: None,
            former: 0,
        }
    }
}

impl OfThread {
    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    fn set(&self, flag: u32) {
        self.flags.fetch_or(flag, Ordering::SeqCst);
    }

    /// Clears flags; whether one was set.
    fn clear(&self, flag: u32) -> bool {
        self.flags.fetch_and(!flag, Ordering::SeqCst) & flag != 0
    }

    fn wants(&self, wanted: u64) -> bool {
        self.has(TRACED) && self.options.load(Ordering::Relaxed) & wanted != 0
    }

    /// Whether it may not go on in user mode.
    pub fn is_held(&self) -> bool {
        self.has(HELD)
    }

    /// Whether it is traced.
    pub fn is_on(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TRACED != 0
    }

    /// Whether a tracer waits for its registers, which it can leave where it waits.
    pub fn is_awaited(&self) -> bool {
        self.flags.load(Ordering::SeqCst) & HELD != 0 && self.snapshot.lock().is_none()
    }

    /// Whether it has to leave what it waits for.
    pub fn gives_up(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & GIVES_UP != 0
    }

    /// A signal that Linux forwards is the one of `OP_TRAP`: true, and it is kept apart.
    pub fn takes(&self, queued: QueuedSignal) -> bool {
        let ours = self
            .trapping
            .compare_exchange(queued.signal, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
            && queued.signal != 0;
        if ours {
            self.state.lock().let_through = Some(queued);
        }
        ours
    }
}

/// It is traced from now on, by `tracer` if that is known already.
fn begin(thread: &Arc<Thread>, tracer: Option<&Arc<Thread>>, flags: u32, options: u64) {
    let own = &thread.ptrace;
    own.options.store(options, Ordering::Relaxed);
    if let Some(tracer) = tracer {
        set_tracer(thread, tracer);
    }
    own.set(TRACED | flags);
    thread.process.observed.set_ptraced(true);
}

fn set_tracer(thread: &Thread, tracer: &Arc<Thread>) {
    tracer.ptrace.set(TRACER);
    tracer.process.traces.store(true, Ordering::Relaxed);
    thread.ptrace.state.lock().tracer = Arc::downgrade(tracer);
}

/// It is traced no more.
fn end(thread: &Arc<Thread>) {
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

/// It may go on.
fn let_go(thread: &Arc<Thread>) {
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
fn tell_tracer(thread: &Thread) {
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

/// What the call would return on Linux if a signal ended it now.
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
        !self.0.ptrace.has(HELD)
            || self.0.must_end()
            || self.0.process.dumping.load(Ordering::Acquire)
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
        if thread.must_end() || thread.process.dumping.load(Ordering::Acquire) {
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
        .and_then(|_| delegate::linux(OP_TRAP, [u64::from(queued.signal), 0, 0, 0, 0, 0]));
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
fn report(thread: &Thread, regs: &mut Regs, what: Stop) {
    let uid = thread.ids.lock().uid;
    let good = thread.ptrace.wants(option::TRACESYSGOOD);
    let mut info = SigInfo::user(signal::SIGTRAP, thread.slot.tid(), uid);
    info.code = what.code(good);
    // The SIGTRAP is none that the program could get.
    let _ = stop(thread, regs, QueuedSignal { signal: signal::SIGTRAP, info }, what);
}

fn report_event(thread: &Thread, regs: &mut Regs, event: u32, message: u32) {
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

/// It is over.
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

/// The running thread ends: its tracer waits for it no longer, its tracees go on.
pub fn thread_gone(thread: &Thread) {
    let own = &thread.ptrace;
    own.set(GONE);
    children::let_go_child(thread); // one that it was killed over
    if thread.slot_index == thread.process.first_slot {
        thread.process.first_traced.store(own.has(TRACED), Ordering::Relaxed);
    }
    if own.has(TRACED) {
        tell_tracer(thread);
    }
    if own.has(TRACER) {
        spaces::each_thread(|t| {
            let mine = t.ptrace.state.lock().tracer.as_ptr() == core::ptr::from_ref(thread);
            if mine {
                end(t);
            }
        });
    }
}
