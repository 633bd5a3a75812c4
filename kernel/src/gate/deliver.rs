//! The gate before user mode. A thread is stopped there by, in this order: a core dump, a pause, CPU
//! time that is used up, debuggers, tracers, its end; then its signals are delivered.

use crate::gate::{coredump, expiry, fatal, observe, ptrace, raise};
use crate::link::delegate;
use crate::process::{self, thread};
use crate::signal::restart::finish_interrupted;
use crate::signal::signals;
use hanare_abi::control::Control;
use hanare_core::signal::{self, Disposition};
use hanare_hal::traps::Regs;

/// Lets the running thread through, before every return to user mode. False: registers changed
/// (or may have), so the slow return is needed.
pub fn deliver(regs: &mut Regs) -> bool {
    let thread = thread::current();
    let p = &thread.process;
    let mut fast = true;
    let (mut any, mut handled) = (false, false);
    loop {
        if !p.life().is_calm() {
            coredump::join(thread, regs);
            if p.wait_while_paused(thread) {
                continue; // a dump may have begun
            }
        }
        expiry::check(thread);
        fast &= !observe::debug::before_user(thread, regs);
        fast &= !ptrace::before_user(thread, regs);
        if thread.must_end() {
            process::end_thread(p, thread);
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
                let _ = delegate::ask(Control::StopSignal { signal: queued.signal });
            }
            Disposition::Terminate { core: true } => coredump::die(thread, &queued, regs),
            Disposition::Terminate { core: false } => fatal::die(queued.signal),
            Disposition::Handle(action) => {
                p.signals.lock().actions.on_handled(queued.signal);
                finish_interrupted(thread, regs, Some((queued.signal, &action)), true);
                raise::handle(thread, &queued, &action, regs);
                ptrace::on_handler(thread);
                // The next one, if its handler may run too, gets a frame on top of
                // this one and runs first, as on Linux.
                handled = true;
            }
        }
    }
    if handled {
        signals::retarget(p); // the handlers block more
        signals::settle(thread);
        return false;
    }
    let changed = finish_interrupted(thread, regs, None, any);
    {
        let mut s = thread.signals.lock();
        s.mask = s.lasting;
    }
    signals::settle(thread);
    fast && !changed
}
