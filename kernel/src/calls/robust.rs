//! Registrations of a thread: robust futexes, the word that its end clears, restartable
//! sequences.

use crate::base::user::put;
use crate::calls::context::{Context, handlers};
use crate::gate::rseq;
use crate::link::delegate;
use crate::process::thread::Thread;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::errno::{self, Result};
use hanare_core::signal::SIGTERM;

handlers! { call:
    __NR_set_tid_address => {
        call.thread.clear_tid.store(call.args[0], Ordering::Relaxed);
        Ok(call.thread.tid().into())
    },
    __NR_set_robust_list => set_robust_list(call.thread, call.args[0], call.args[1]),
    __NR_get_robust_list => get_robust_list(call),
    __NR_rseq => {
        rseq::register(call.thread, call.args[0], call.args[1], call.args[2], call.args[3])
    },
}

/// set_robust_list(2). Linux knows the list too (`Slot::robust_list`), from the next call on. It
/// serves for ends that are not the LWK's doing and for waiters that are not on the LWK.
fn set_robust_list(thread: &Thread, head: u64, size: u64) -> Result<u64> {
    if size != 24 {
        return Err(errno::EINVAL);
    }
    thread.set_robust_list(head);
    // A thread that blocks all signals is one that glibc has just begun: it will open its mask in a
    // moment, which is a call. And without memory that other processes have no thread waits there;
    // to have some is a call, or a request.
    let p = &thread.process;
    let has_waiters = || p.memory().is_shared() || p.memory().mm.lock().shares_with_linux();
    if !thread.signals.lock().mask.contains(SIGTERM) && has_waiters() {
        let _ = delegate::ask(thread, Control::TakeMask);
    }
    Ok(0)
}

/// get_robust_list(2): of a thread of this process; Linux knows no other's.
fn get_robust_list(call: &Context<'_>) -> Result<u64> {
    let (me, a) = (call.thread, &call.args);
    let mut head = None;
    call.process.each_thread(|t| {
        if a[0] == 0 && core::ptr::eq(&**t, me) || a[0] != 0 && t.tid() == a[0] as u32 {
            head = Some(t.robust_list.load(Ordering::Relaxed));
        }
    });
    match head {
        Some(head) => {
            put(call.address(2), &24u64.to_le_bytes())?;
            put(call.address(1), &head.to_le_bytes())
        }
        None => call.forward(),
    }
}
