//! Dispositions: rt_sigaction(2), and what Linux is told of it.

use crate::base::user::{self, UserAddr, put};
use crate::link::delegate;
use crate::process::Process;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, Mirrored, SigAction, SigSet, Told};
use zerocopy::IntoBytes;

/// rt_sigaction.
pub fn action(signal: u64, new: UserAddr, old: UserAddr, size: u64) -> Result<u64> {
    if size != 8 {
        return Err(errno::EINVAL);
    }
    let mut wanted = None;
    if !new.is_null() {
        let action: SigAction = user::get(new)?;
        // What is not known is not kept: so a program finds out.
        wanted = Some(SigAction { flags: action.flags & signal::SA_KNOWN, ..action });
    }
    let signal = signal as u32;
    if !signal::is_valid(signal) {
        return Err(errno::EINVAL);
    }
    let thread = thread::current();
    let p = &thread.process;
    let before = p.signals.lock().actions.get(signal);
    if let Some(action) = wanted {
        {
            let mut s = p.signals.lock();
            s.actions.set(signal, action)?;
            if s.actions.ignores(signal) {
                s.pending.discard(SigSet::of(signal));
            }
        }
        tell(thread, SigSet::of(signal), Mirrored::changed);
        if p.is_shared() {
            set_in_common(p, signal, action);
        }
    }
    if !old.is_null() {
        put(old, before.as_bytes())?;
    }
    Ok(0)
}

/// The same for processes that have their handlers in common with `p` (CLONE_SIGHAND), as
/// their proxies have, so that nothing more is to be told.
fn set_in_common(p: &Arc<Process>, signal: u32, action: SigAction) {
    let common = p.handlers.load(Ordering::Relaxed);
    let mirrored = Mirrored::clone(&p.signals.lock().mirrored);
    for other in p.processes() {
        if other.handlers.load(Ordering::Relaxed) != common || Arc::ptr_eq(&other, p) {
            continue;
        }
        let mut s = other.signals.lock();
        let _ = s.actions.set(signal, action); // it was possible for the first
        if s.actions.ignores(signal) {
            s.pending.discard(SigSet::of(signal));
        }
        *s.mirrored = mirrored.clone();
    }
}

/// Tells Linux of `signals` what `what` says that it has to know. One thread at a time,
/// so that what is told last is what is so.
fn tell(
    thread: &Thread,
    signals: SigSet,
    what: fn(&mut Mirrored, u32, &SigAction) -> Option<Told>,
) {
    let p = &thread.process;
    for signal in (1..=signal::SIGNAL_MAX).filter(|&s| signals.contains(s)) {
        let told = loop {
            {
                let mut s = p.signals.lock();
                if !s.telling {
                    let action = s.actions.get(signal);
                    let told = what(&mut s.mirrored, signal, &action);
                    s.telling = told.is_some();
                    p.owes.store(!s.mirrored.owed().is_empty(), Ordering::Relaxed);
                    break told;
                }
                s.waiting_to_tell += 1;
            }
            cpus::until(|| !p.signals.lock().telling || thread.must_end(), cpus::NEVER);
            p.signals.lock().waiting_to_tell -= 1;
            if thread.must_end() {
                return;
            }
        };
        let Some(told) = told else { continue };
        let (mirror, flags) = (told.class, told.flags);
        let _ = delegate::ask(Control::SignalAction { signal, mirror, flags });
        let waited_for = {
            let mut s = p.signals.lock();
            s.telling = false;
            s.waiting_to_tell != 0
        };
        if waited_for {
            p.kick_all();
        }
    }
}

/// Before Linux executes something: it learns what it has not been told yet.
pub fn tell_owed(thread: &Thread) {
    let owed = thread.process.signals.lock().mirrored.owed();
    tell(thread, owed, Mirrored::take_owed);
}

/// exec: caught signals become default; the proxy does the same ([`execed`]).
pub fn on_exec() {
    let thread = thread::current();
    thread.signals.lock().on_exec();
    thread.process.signals.lock().actions.on_exec();
}

/// The proxy has done its part of an exec; Linux is told of the rest.
pub fn execed() {
    let thread = thread::current();
    thread.process.signals.lock().mirrored.on_exec();
    tell(thread, SigSet::ALL, Mirrored::changed);
}

/// Caught signals become default, here and in the proxy.
pub fn clear_handlers() {
    let thread = thread::current();
    thread.process.signals.lock().actions.on_exec();
    tell(thread, SigSet::ALL, Mirrored::changed);
}
