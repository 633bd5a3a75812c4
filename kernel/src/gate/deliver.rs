//! The gate before user mode: what stops a thread there, in the order of [`Reason`].

use crate::gate::{coredump, debugregs, expiry, fatal, observe, park, ptrace, raise};
use crate::link::delegate;
use crate::parts::tracee::{EXECED, TRACED, WRONG_SELECTORS};
use crate::process;
use crate::process::thread::Thread;
use crate::signal::restart::finish_interrupted;
use crate::signal::signals;
use hanare_abi::control::Control;

use core::sync::atomic::Ordering;
use hanare_core::gate::{Pass, Reason};
use hanare_core::signal::{self, Disposition, QueuedSignal};
use hanare_hal::traps::Regs;

/// Whether there is that reason to stop the running thread.
#[inline(always)] // of a reason that is known little is left
fn stands(thread: &Thread, reason: Reason) -> bool {
    let p = &thread.process;
    match reason {
        Reason::End => thread.must_end(),
        Reason::Dump => p.is_dumping(),
        Reason::Pause => p.pauses(thread),
        Reason::Time => p.cpu_timers.armed.load(Ordering::Acquire),
        // A thread that is to park for a core dump stops for nothing else.
        Reason::Exec => thread.ptrace.has(EXECED) && !p.is_dumping(),
        Reason::Selectors => thread.ptrace.has(WRONG_SELECTORS) && !p.is_dumping(),
        Reason::DebuggerStep | Reason::Hold | Reason::Registers | Reason::TracerStep => {
            thread.parking.now().stands(reason, p.observed.holds()) && !p.is_dumping()
        }
        Reason::Signal => true,
    }
}

/// Lets the running thread `thread` through, before every return to user mode. False: registers
/// changed (or may have), so the slow return is needed.
pub fn deliver(thread: &Thread, regs: &mut Regs) -> bool {
    let p = &thread.process;
    let mut pass = Pass::default();
    let mut fast = true;
    let (mut any, mut handled) = (false, false);
    while let Some(reason) = pass.next(|reason| stands(thread, reason)) {
        match reason {
            Reason::End => process::end_thread(thread),
            Reason::Dump => coredump::join(thread, regs),
            Reason::Pause => p.wait_while_paused(thread),
            Reason::Time => expiry::check(thread),
            Reason::DebuggerStep => observe::debug::step_stop(thread, regs),
            Reason::Hold => park::at_gate(thread, regs),
            Reason::Registers => park::take_back(thread, regs),
            Reason::Selectors => {
                thread.ptrace.clear(WRONG_SELECTORS);
                raise::force_segv(thread, regs);
            }
            Reason::Exec => ptrace::exec_stop(thread, regs),
            Reason::TracerStep => ptrace::step_stop(thread, regs),
            Reason::Signal => {
                let Some((queued, disposition)) = next_signal(thread) else { break };
                any = true;
                handled |= deliver_signal(thread, queued, disposition, regs);
            }
        }
        fast &= matches!(reason, Reason::Dump | Reason::Pause | Reason::Time);
    }
    if handled {
        signals::retarget(p); // the handlers block more
    } else {
        fast &= !finish_interrupted(thread, regs, None, any);
        let mut s = thread.signals.lock();
        s.mask = s.lasting;
    }
    signals::settle(thread);
    fast &= !park::arm(thread, regs) && !thread.ptrace.has(TRACED);
    debugregs::before_user(thread);
    fast
}

/// Takes the next signal that the thread does not block, and says what becomes of it.
fn next_signal(thread: &Thread) -> Option<(QueuedSignal, Disposition)> {
    let mut own = thread.signals.lock();
    let mask = own.mask;
    let mut shared = thread.process.signals.lock();
    let queued = own.dequeue(&mut shared.pending, mask)?;
    Some((queued, signal::decide(queued.signal, &shared.actions)))
}

/// Does what is to be done about a signal; whether a handler runs, the last one first, as on Linux.
fn deliver_signal(
    thread: &Thread,
    mut queued: QueuedSignal,
    mut disposition: Disposition,
    regs: &mut Regs,
) -> bool {
    let p = &thread.process;
    crate::sched::hold::at("signal-taken");
    if p.observed.is_on() {
        observe::trace::signal(thread, &queued);
        let Some(chosen) = observe::debug::on_signal(thread, queued, regs) else { return false };
        queued = chosen;
        disposition = signal::decide(queued.signal, &p.signals.lock().actions);
    }
    match disposition {
        Disposition::Ignore | Disposition::Continue => {}
        Disposition::Stop => {
            let _ = delegate::ask(thread, Control::StopSignal { signal: queued.signal });
        }
        Disposition::Terminate { core: true } => coredump::die(thread, &queued, regs),
        Disposition::Terminate { core: false } => fatal::die(thread, queued.signal),
        Disposition::Handle(action) => {
            p.signals.lock().actions.on_handled(queued.signal);
            finish_interrupted(thread, regs, Some((queued.signal, &action)), true);
            raise::handle(thread, &queued, &action, regs);
            return true;
        }
    }
    false
}
