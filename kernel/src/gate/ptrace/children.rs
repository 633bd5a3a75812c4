//! Events of a tracee, and its children, which a tracer may get with it.
//!
//! Linux is not asked for events: it would tell of the workers that come and go. The tracee
//! stops where the event is; a new thread or process does not enter user mode before its
//! parent goes on, or whoever traces that has taken it over ([`take`]).

use super::tracer::{linux, trace};
use super::{HELD, SEIZED, let_go, report, report_event};
use crate::gate::registers::Snapshot;
use crate::process::spaces;
use crate::process::thread;
use crate::process::thread::Thread;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_core::ptrace::{Stop, event, option, request};
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
    child.ptrace.set(HELD);
    parent.ptrace.state.lock().child = Some(child.clone());
    if parent.ptrace.has(super::GONE) {
        let_go_child(parent);
    }
}

/// The child of `parent` may begin, unless it is for its own tracer to say so: the parent's
/// tracer went away, or did not want it, or knows it by another id; or the parent is gone.
pub fn let_go_child(parent: &Thread) {
    let child = parent.ptrace.state.lock().child.take();
    if let Some(child) = child.filter(|c| !c.ptrace.is_on()) {
        let_go(&child);
    }
}

/// The child `tid` is there.
pub fn on_child(thread: &Thread, regs: &mut Regs, event: Option<u32>, tid: u32) {
    let Some(event) = event else { return };
    report_event(thread, regs, event, tid);
    let_go_child(thread);
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
        let mut regs = Snapshot::of_waiting(thread).regs;
        report(thread, &mut regs, Stop::Event(event::EXIT, status.into()));
    }
}

/// The tracer has heard of a stop: a child that it is told of is its own from now on, and
/// stops.
pub fn take(thread: &Thread, stop: Stop) {
    let Stop::Event(event::FORK | event::VFORK | event::CLONE, tid) = stop else { return };
    let Some(child) =
        spaces::find_thread(&thread::current().process, tid as u32).filter(|c| !c.ptrace.is_on())
    else {
        return;
    };
    let options = thread.ptrace.options.load(Ordering::Relaxed);
    let seized = thread.ptrace.has(SEIZED);
    let how = if seized { request::SEIZE } else { request::ATTACH };
    if linux([how, tid, 0, if seized { options & option::LINUX } else { 0 }, 0, 0]).is_err() {
        return;
    }
    if trace(&child, if seized { SEIZED } else { 0 }, options).is_ok() && seized {
        let _ = linux([request::INTERRUPT, tid, 0, 0, 0, 0]);
    }
}
