//! Calls that a signal interrupted: what becomes of them.

use crate::parts::signals::Interrupted;
use crate::process::thread::Thread;
use hanare_core::errno::{self, Result};
use hanare_core::signal::{SIGBUS, SigAction};
use hanare_core::syscalls::Restart;
use hanare_hal::traps::Regs;
use linux_raw_sys::general::__NR_restart_syscall;

/// restart_syscall(2).
pub fn restart_syscall(thread: &Thread) -> Result<u64> {
    let rest = thread.signals.lock().take_rest();
    rest.map_or(Err(errno::EINTR), |rest| rest.go_on())
}

/// Whether Linux knows of SA_RESTART of a signal's handler.
fn knows_restart(thread: &Thread, signal: u32) -> bool {
    let p = &thread.process;
    p.signals.lock().mirrored.restarts(signal) && !(signal == SIGBUS && p.pool.has_interruptions())
}

/// Decides what becomes of an interrupted call; true if registers changed.
pub fn finish_interrupted(
    thread: &Thread,
    regs: &mut Regs,
    handler: Option<(u32, &SigAction)>,
    any: bool,
) -> bool {
    let Some(what) = thread.signals.lock().take_interrupted() else { return false };
    let again = match (what, handler) {
        (Interrupted::NotStarted, _) => true,
        // Where Linux knows of SA_RESTART, it has decided (not for sockets with a timeout).
        (Interrupted::Started(Restart::Sys), Some((signal, a))) => {
            a.restarts() && !knows_restart(thread, signal)
        }
        (Interrupted::Local(Restart::Sys), Some((_, a))) => a.restarts(),
        (Interrupted::Local(_), None) => true,
        (Interrupted::Started(Restart::Sys | Restart::NoHand | Restart::Block), None) => any,
        _ => false,
    };
    if again {
        let rests = what == Interrupted::Local(Restart::Block);
        regs.rax = if rests { __NR_restart_syscall.into() } else { regs.orig_rax };
        regs.rip = regs.rip.wrapping_sub(2); // the length of `syscall`; a tracer may have set it to anything
    } else {
        regs.rax = errno::EINTR.as_return() as u64;
        let rest = thread.signals.lock().take_rest(); // it is over
        drop(rest);
    }
    true
}
