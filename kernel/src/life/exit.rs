//! The end of a thread, and with the last one that of its process.

use crate::gate::{observe, ptrace};
use crate::life::{child, share};
use crate::link::delegate;
use crate::mm::window::messages;
use crate::process::thread::Thread;
use crate::process::{Process, robust, servers, usage, workers};
use crate::sched::cpus;
use crate::signal::signals;
use core::sync::atomic::Ordering;
use hanare_core::link::Last;
use hanare_hal::paging;

/// Ends the running thread: the process is gone, or only the thread ends. Nothing on its stack is
/// dropped: callers own nothing.
pub fn thread(thread: &Thread) -> ! {
    let p = &thread.process;
    let (user, system) = thread.task().cycles();
    p.ended_cycles.0.fetch_add(user, Ordering::Relaxed);
    p.ended_cycles.1.fetch_add(system, Ordering::Relaxed);
    p.ended_calls
        .fetch_add(thread.task().counts.delegated.load(Ordering::Relaxed), Ordering::Relaxed);
    p.ended_faults
        .fetch_add(thread.task().counts.faults.load(Ordering::Relaxed), Ordering::Relaxed);
    if p.is_killed() {
        share::leave(thread);
    } else {
        robust::release(thread);
        signals::leave(p, thread);
    }
    // Before the others can know that we are gone: the last one frees the table.
    paging::use_kernel();
    p.memory().mm.left();
    let (dismissed, is_awaited) = workers::begin_leaving(p, thread);
    observe::thread_gone(p);
    ptrace::thread_gone(thread);
    if !p.is_killed() {
        servers::leave_alone(p);
        workers::give(p, thread, dismissed); // a worker waits for the next thread
    }
    if is_awaited {
        p.kick_all();
    }
    p.has_left(thread);
    cpus::exit_current()
}

/// The process is gone: tracers and debuggers are told, and its parent may ask for what it used.
pub fn process_gone(p: &Process) {
    observe::gone(p);
    usage::ended(p);
}

/// The process of the running thread `me` ends by what is never answered, see
/// [`delegate::last_call`].
pub fn by_last_call(me: &Thread, last: Last) {
    me.process.last_call(me);
    delegate::last_call(me, last, || {
        if me.must_end() && !me.process.is_killed() {
            thread(me); // another thread's execve came first
        }
    });
}

/// Ends the running thread `me`; if it is the last one, the process by that last call.
pub fn by_call(me: &Thread, last: Last) -> ! {
    if me.process.exit(me) {
        share::leave(me);
        robust::forget_empty(me);
        if me.robust_list.load(Ordering::Relaxed) == 0 {
            me.process.quiet(me);
        }
        me.process.claims.give_up_all();
        by_last_call(me, last);
        thread(me)
    }
    workers::rights_end(me);
    messages::shrink(&me.caller(), 0);
    robust::release(me);
    child::clear_tid(me);
    thread(me)
}
