//! Dispositions: rt_sigaction(2), and what Linux is told of it.

use crate::base::user::{self, UserAddr, put};
use crate::link::delegate;
use crate::process::Process;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, Mirrored, SigAction, SigSet, Told};
use zerocopy::IntoBytes;

/// rt_sigaction.
pub fn action(
    thread: &Thread,
    signal: u64,
    new: UserAddr,
    old: UserAddr,
    size: u64,
) -> Result<u64> {
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
    let p = &thread.process;
    let (before, is_known) = {
        let mut s = p.signals.lock();
        let before = s.actions.get(signal);
        if let Some(action) = wanted {
            s.actions.set(signal, action)?;
            if s.actions.ignores(signal) {
                s.pending.discard(SigSet::of(signal));
            }
        }
        (before, !s.telling && s.mirrored.is_known(signal, &s.actions.get(signal)))
    };
    if let Some(action) = wanted {
        if !is_known {
            tell_changed(thread, SigSet::of(signal));
        }
        if p.memory().is_shared() {
            set_in_common(p, signal, action);
        }
    }
    if !old.is_null() {
        put(old, before.as_bytes())?;
    }
    Ok(0)
}

/// Sets the disposition of processes that have their handlers in common with `p` (CLONE_SIGHAND).
/// So have their proxies, so that Linux need not be told.
fn set_in_common(p: &Arc<Process>, signal: u32, action: SigAction) {
    let common = p.handlers.load(Ordering::Relaxed);
    for other in p.space.processes() {
        if other.handlers.load(Ordering::Relaxed) != common || Arc::ptr_eq(&other, p) {
            continue;
        }
        let mirrored = Mirrored::clone(&p.signals.lock().mirrored);
        let mut s = other.signals.lock();
        let _ = s.actions.set(signal, action); // it was possible for the first
        if s.actions.ignores(signal) {
            s.pending.discard(SigSet::of(signal));
        }
        *s.mirrored = mirrored;
    }
}

/// Tells Linux of `signals` what it has to know at once.
fn tell_changed(thread: &Thread, signals: SigSet) {
    let p = &thread.process;
    let signals = {
        let s = p.signals.lock();
        if s.telling { signals } else { s.mirrored.unknown(signals, &s.actions) }
    };
    if signals.is_empty() {
        return;
    }
    let is_calling = !p.is_alone() || has_handlers_in_common(p);
    let blocked = {
        let s = thread.signals.lock();
        s.mask.union(s.applied)
    };
    tell(thread, signals, |mirrored, signal, action| {
        mirrored.changed(signal, action, is_calling, blocked)
    });
}

/// Whether the handlers of `p` are those of another process, too (CLONE_SIGHAND).
fn has_handlers_in_common(p: &Arc<Process>) -> bool {
    let common = p.handlers.load(Ordering::Relaxed);
    let is_other = |other: &Arc<Process>| !Arc::ptr_eq(other, p);
    p.memory().is_shared()
        && p.space.processes().any(|o| is_other(&o) && o.handlers.load(Ordering::Relaxed) == common)
}

/// Tells Linux of `signals` what `what` says that it has to know. One thread at a time,
/// so that what is told last is what is so.
fn tell(
    thread: &Thread,
    signals: SigSet,
    what: impl Fn(&mut Mirrored, u32, &SigAction) -> Option<Told>,
) {
    let p = &thread.process;
    let mut left = signals;
    while let Some(signal) = left.first() {
        left = left.without(signal);
        let told = loop {
            {
                let mut s = p.signals.lock();
                if !s.telling {
                    let s = &mut *s;
                    let told = what(&mut s.mirrored, signal, &s.actions.get(signal));
                    s.telling = told.is_some();
                    // In the same request what else is owed, as far as it can.
                    let also = told.map(|told| (told, s.mirrored.take_ignored(&s.actions)));
                    p.pool.set_owes(!s.mirrored.owed().is_empty());
                    break also;
                }
                s.waiting_to_tell += 1;
            }
            cpus::until(|| !p.signals.lock().telling || thread.must_end(), cpus::NEVER);
            p.signals.lock().waiting_to_tell -= 1;
            if thread.must_end() {
                return;
            }
        };
        let Some((told, SigSet(ignored))) = told else { continue };
        let (mirror, flags) = (told.class, told.flags);
        let _ = delegate::ask(thread, Control::SignalAction { signal, mirror, flags, ignored });
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

/// A call of the process may wait where no handler interrupts it: what ends the process by its
/// default has to be Linux' own.
pub fn end_on_linux(thread: &Thread) {
    if thread.process.signals.lock().mirrored.end_on_linux() {
        tell_changed(thread, SigSet::ALL);
    }
}

/// Before Linux executes something: it learns what it has not been told yet.
#[cold]
#[inline(never)]
pub fn tell_owed(thread: &Thread) {
    let owed = thread.process.signals.lock().mirrored.owed();
    tell(thread, owed, Mirrored::take_owed);
}

/// exec: caught signals become default; the proxy does the same ([`execed`]).
pub fn on_exec(thread: &Thread) {
    thread.signals.lock().on_exec();
    thread.process.signals.lock().actions.on_exec();
}

/// The proxy has done its part of an exec; Linux is told of the rest.
pub fn execed(thread: &Thread) {
    thread.process.signals.lock().mirrored.on_exec();
    tell_changed(thread, SigSet::ALL);
}

/// Caught signals become default, here and in the proxy.
pub fn clear_handlers(thread: &Thread) {
    thread.process.signals.lock().actions.on_exec();
    tell_changed(thread, SigSet::ALL);
}
