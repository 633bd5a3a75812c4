//! Events of a tracee, and its children, which a tracer may get with it.
//!
//! Linux is not asked for events: it would tell of the workers that come and go. The tracee stops
//! where the event is. A new thread or process does not enter user mode before its parent goes on,
//! or the parent's tracer has taken it over (`waits::take`).

use super::tracee::{end, report, report_event};
use crate::gate::park;
use crate::link::delegate;
use crate::parts::registers;
use crate::parts::tracee::{GONE, TRACED, TRACER};
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::ptrace::{Stop, event, option};
use hanare_hal::traps::Regs;

/// A child is about to be made: the event, if a tracer wants to know. `child`: its first
/// thread, where that is there already.
pub fn before_child(thread: &Thread, child: Option<&Arc<Thread>>, event: u32) -> Option<u32> {
    let wanted = match event {
        event::VFORK => option::TRACEVFORK,
        event::FORK => option::TRACEFORK,
        _ => option::TRACECLONE,
    };
    if !thread.ptrace.wants(wanted) {
        return None;
    }
    thread.ptrace.state.lock().child = None;
    if let Some(child) = child {
        hold_child(thread, child);
    }
    Some(event)
}

/// The first thread of a child that `parent` makes does not begin before its parent goes on.
pub fn hold_child(parent: &Thread, child: &Arc<Thread>) {
    park::hold(child);
    parent.ptrace.state.lock().child = Some(child.clone());
    if parent.ptrace.has(GONE) {
        let_go_child(parent);
    }
}

/// The child of `parent` may begin, unless it is for its own tracer to say so: the parent's
/// tracer went away, or did not want it, or knows it by another id; or the parent is gone.
pub fn let_go_child(parent: &Thread) {
    let child = parent.ptrace.state.lock().child.take();
    if let Some(child) = child.filter(|c| !c.ptrace.is_on()) {
        park::let_go(&child);
    }
}

/// The child `tid` is there.
pub fn on_child(thread: &Thread, regs: &mut Regs, event: Option<u32>, tid: u32) {
    let Some(event) = event else { return };
    report_event(thread, regs, event, tid);
    let_go_child(thread);
}

/// The thread is about to make a child that it waits for. As on Linux no signal but SIGKILL
/// interrupts that. What comes, the signal of the child's end above all, is told behind the call,
/// and so behind the events of that. The worker blocks it until the thread is on its way to user
/// mode (`signals::settle`).
pub fn on_vfork(thread: &Thread) {
    if thread.ptrace.has(TRACED) {
        cpus::request_attention();
        thread.signals.lock().hold_back();
        let _ = delegate::ask(thread, Control::TakeMask);
    }
}

/// The child `tid` has given back its parent's memory.
pub fn on_vfork_done(thread: &Thread, regs: &mut Regs, tid: u32) {
    if thread.ptrace.wants(option::TRACEVFORKDONE) {
        report_event(thread, regs, event::VFORK_DONE, tid);
    }
}

/// The thread is about to end, with this status of wait(2).
pub fn on_exit(thread: &Thread, status: u32) {
    let own = &thread.ptrace;
    if own.wants(option::TRACEEXIT) {
        own.options.fetch_and(!option::TRACEEXIT, Ordering::Relaxed);
        let mut regs = registers::of_running();
        let _ = report(thread, &mut regs, Stop::Event(event::EXIT, status.into()));
    }
}

/// The running thread ends: its tracer waits for it no longer, its tracees go on.
pub fn thread_gone(thread: &Thread) {
    let own = &thread.ptrace;
    own.set(GONE);
    let_go_child(thread); // one that it was killed over
    if thread.port.slot_index == thread.process.first_slot {
        thread.process.first_traced.store(own.has(TRACED), Ordering::Relaxed);
    }
    if own.has(TRACED) {
        park::tell_tracer(thread);
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
