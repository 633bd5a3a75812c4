//! Parking: how a thread stops for a tracer or a debugger, and goes on.
//! `hanare_core::gate::Parking` decides; here its registers are left and taken back.
//!
//! A thread parks on its way to user mode ([`at_gate`]). One that waits in the kernel leaves its
//! registers where it is ([`in_kernel`]), and parks when it comes out.

use crate::parts::observed::{DEBUGGED, Debugger, tell};
use crate::parts::registers::{self, Snapshot};
use crate::parts::tracee::{REPLACED, WRONG_SELECTORS};
use crate::process::Process;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::boxed::Box;
use alloc::sync::Arc;
use hanare_core::gate::{Parking, TRAP_FLAG, Trap, Who};
use hanare_core::syscalls::{self, Restart};
use hanare_hal::traps::{self, NO_CALL, Regs};

/// A system call that was interrupted, as a tracer sees it.
const ERESTARTSYS: u64 = -512i64 as u64;
const RESTARTS: core::ops::RangeInclusive<u64> = -516i64 as u64..=-512i64 as u64;

/// The debugger of a thread's process.
pub fn debugger_of(thread: &Thread) -> Option<Arc<Debugger<Process>>> {
    let o = &thread.process.observed;
    if o.has(DEBUGGED) { o.debugger.lock().clone() } else { None }
}

impl Debugger<Process> {
    /// Tells the debugger when the last thread has stopped.
    pub fn look_whether_complete(&self, p: &Process) {
        {
            // Locked all the time: what is seen is about this stop.
            let mut s = self.state.lock();
            if !s.stop.is_pending() {
                return;
            }
            let Some(first) = p.threads().last() else { return };
            // With each one's lock: a thread that takes its registers has seen before that it is
            // not held.
            if !p
                .threads()
                .all(|t| t.parking.change(|parking, _| parking.contains(Parking::REGISTERS)))
            {
                return;
            }
            s.stop.complete(first.tid());
        }
        tell(self.session);
    }
}

/// The thread's registers are there: the tracer or the debugger that holds it may look.
fn tell_holders(thread: &Thread) {
    if thread.parking.now().contains(Parking::HELD) {
        tell_tracer(thread);
    }
    if thread.process.observed.holds()
        && let Some(d) = debugger_of(thread)
    {
        d.look_whether_complete(&thread.process);
    }
}

/// The tracer may look.
pub fn tell_tracer(thread: &Thread) {
    let tracer = thread.ptrace.state.lock().tracer.upgrade();
    if let Some(tracer) = tracer {
        cpus::kick(tracer.task());
    }
}

/// The registers as Linux shows them: -1 in place of the number where there is no call,
/// and a call that is not over is one that was interrupted.
fn shown(thread: &Thread, regs: &Regs, waits: bool) -> Regs {
    let is_call = regs.is_call(TRAP_FLAG);
    let is_execve = thread.ptrace.has(REPLACED); // of which nothing is left in the other registers
    let over = !waits && !thread.signals.lock().is_interrupted();
    Regs {
        orig_rax: if is_call || is_execve { regs.orig_rax } else { NO_CALL },
        rax: if is_call && !over { restart_code(regs) } else { regs.rax },
        ..*regs
    }
}

/// The result that the call of `regs` would have on Linux if a signal ended it now.
pub fn restart_code(regs: &Regs) -> u64 {
    const ERESTARTNOHAND: u64 = -514i64 as u64;
    const ERESTART_RESTARTBLOCK: u64 = -516i64 as u64;
    match syscalls::row(regs.orig_rax).map(|row| row.restart) {
        Some(Restart::NoHand) => ERESTARTNOHAND,
        Some(Restart::Block) => ERESTART_RESTARTBLOCK,
        _ => ERESTARTSYS,
    }
}

/// Takes on registers that were set, in the middle of a call.
fn load_raw(thread: &Thread, s: &Snapshot, regs: &mut Regs) {
    if s.load(regs) {
        thread.ptrace.clear(WRONG_SELECTORS);
    } else {
        thread.ptrace.set(WRONG_SELECTORS);
    }
}

/// Takes on registers that were set.
fn load(thread: &Thread, s: &Snapshot, regs: &mut Regs) {
    let (result, from_call) = (regs.rax, regs.is_call(TRAP_FLAG));
    load_raw(thread, s, regs);
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

/// A held thread waits in the kernel: its registers are there to be seen.
pub fn in_kernel(thread: &Thread) {
    let all = || thread.process.observed.holds();
    thread.parking.change(|parking, left| {
        // Looked at under the lock: a change that lets it go drops them under it.
        if parking.is_awaited(all()) {
            let regs = shown(thread, &registers::of_running(), true);
            *left = Some(Snapshot::take(regs));
            parking.leave(true);
        }
    });
    tell_holders(thread);
}

/// The running thread will begin a program with `regs`: nothing that was set of it before counts.
pub fn begin(thread: &Thread, regs: &Regs) {
    traps::save_registers(regs);
    thread.ptrace.clear(WRONG_SELECTORS);
    thread.parking.change(|parking, left| {
        if parking.begin() {
            let drops = parking.settle(thread.process.observed.holds());
            *left = (!drops).then(|| Snapshot::take(*regs));
        }
    });
}

/// The running thread leaves its registers on its way to user mode, or, `raw`, in the middle of a
/// call.
pub fn leave(thread: &Thread, regs: &mut Regs, raw: bool) {
    thread.parking.change(|parking, left| {
        parking.disarm(&mut regs.rflags);
        if let Some(s) = left.take().filter(|_| parking.contains(Parking::SET)) {
            load(thread, &s, regs);
        }
        *left = Some(Snapshot::take(if raw { *regs } else { shown(thread, regs, false) }));
        parking.leave(false);
    });
    tell_holders(thread);
}

/// The running thread, whose registers are left, waits until it may go on. The registers that were
/// set.
fn wait(thread: &Thread) -> Option<Box<Snapshot>> {
    let may_go = || !thread.is_held() || thread.must_end() || thread.process.is_dumping();
    loop {
        cpus::until(may_go, cpus::NEVER);
        // Looked at under the lock: a tracer that finds them there while the thread is held may
        // rely on them.
        let taken = thread
            .parking
            .change(|parking, left| may_go().then(|| left.take().filter(|_| parking.take())));
        if let Some(set) = taken {
            return set;
        }
    }
}

/// The running thread, whose registers are left, goes on when it may; `raw` as of [`leave`].
pub fn go_on(thread: &Thread, regs: &mut Regs, raw: bool) {
    match wait(thread) {
        Some(s) if raw => load_raw(thread, &s, regs),
        Some(s) => load(thread, &s, regs),
        None => {}
    }
}

/// The running thread is on its way to user mode, and has left its registers where it waited.
pub fn take_back(thread: &Thread, regs: &mut Regs) {
    let all = || thread.process.observed.holds();
    let set = thread.parking.change(|parking, left| {
        parking.disarm(&mut regs.rflags);
        let may_go = !parking.is_held(all());
        left.take_if(|_| may_go).filter(|_| parking.take())
    });
    if let Some(s) = set {
        load(thread, &s, regs);
    }
}

/// Parks the running thread on its way to user mode until no tracer and no debugger holds it.
pub fn at_gate(thread: &Thread, regs: &mut Regs) {
    leave(thread, regs, false);
    go_on(thread, regs, false);
}

/// A tracer or a debugger has let go of the thread, or does by that change.
pub fn let_go_by(thread: &Thread, change: impl FnOnce(&mut Parking)) {
    thread.parking.change(|parking, left| {
        change(parking);
        if parking.settle(thread.process.observed.holds()) {
            *left = None;
        }
    });
}

/// The tracer lets the thread go.
pub fn let_go(thread: &Thread) {
    let_go_by(thread, |parking| parking.hold(Who::Tracer, false));
    cpus::kick(thread.task());
}

/// The tracer holds the thread.
pub fn hold(thread: &Thread) {
    thread.parking.change(|parking, _| parking.hold(Who::Tracer, true));
}

/// The running thread has made a call, or is about to begin a handler. If it is stepped, the step
/// is over.
pub fn stepped(thread: &Thread, regs: &mut Regs) {
    if thread.parking.now().is_stepped() {
        cpus::request_attention();
        thread.parking.change(|parking, _| {
            parking.disarm(&mut regs.rflags);
            parking.stepped();
        });
    }
}

/// The running thread has trapped after an instruction.
pub fn trapped(thread: &Thread, regs: &mut Regs) -> Trap {
    cpus::request_attention();
    thread.parking.change(|parking, _| parking.trapped(&mut regs.rflags))
}

/// No trap flag but the program's own among the registers of the running thread.
pub fn disarm(thread: &Thread, regs: &mut Regs) {
    if thread.parking.now().is_stepped() {
        thread.parking.change(|parking, _| parking.disarm(&mut regs.rflags));
    }
}

/// The running thread enters user mode. True: every register counts.
pub fn arm(thread: &Thread, regs: &mut Regs) -> bool {
    thread.parking.now().is_stepped()
        && thread.parking.change(|parking, _| parking.arm(&mut regs.rflags))
}
