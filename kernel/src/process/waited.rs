//! What `wait4` and `waitid` tell of a child, and what has to be done here before its parent knows.

use crate::base::user::put;
use crate::link::delegate;
use crate::process::Process;
use crate::process::spaces;
use crate::process::thread;
use crate::sched::cpus;
use crate::sched::tlb;
use alloc::sync::Arc;
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_hal::cpu;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_sched_yield;
use zerocopy::IntoBytes;

/// Of the options of wait4(2) and waitid(2).
const WNOHANG: u64 = 1;
/// `WSTOPPED` (which is `WUNTRACED`) and `WCONTINUED`.
const NOT_ONLY_ENDS: u64 = 2 | 8;
/// How long a child is waited for of which Linux has told that it was stopped, ns: it may go on already.
const PAUSES_NS: u64 = 100_000_000;
/// What Linux has told the end of is waited for here so long, at most.
const LEAVES_NS: u64 = 10_000_000_000;

/// What `wait4` or `waitid` has told.
struct Told {
    pid: u32,
    /// Whether it was an end, as far as can be seen: not that a child was stopped or goes on.
    is_end: bool,
    /// Whether it was that a child was stopped.
    is_stop: bool,
    /// Where `struct rusage` is to be written; 0: nowhere.
    rusage: u64,
    /// The child stays as it is (`WNOWAIT`).
    keep: bool,
}

impl Told {
    fn by_wait4(p: &Process, a: &[u64; 6], pid: u64) -> Told {
        const STOPPED: u32 = 0x7f;
        const CONTINUED: u32 = 0xffff;
        let status = match a[1] {
            0 => None,
            at => usercopy::read_u32(UserAddr::of(at)).ok(),
        };
        let is_stop = status.is_some_and(|status| status & 0xff == STOPPED);
        let is_end = match a[1] {
            0 => a[2] & NOT_ONLY_ENDS == 0 && !p.traces.load(Ordering::Relaxed),
            _ => !is_stop && status.is_some_and(|status| status != CONTINUED),
        };
        let (is_end, is_stop) = (is_end && pid != 0, is_stop && pid != 0);
        Told { pid: pid as u32, is_end, is_stop, rusage: a[3], keep: false }
    }

    fn by_waitid(a: &[u64; 6]) -> Result<Told> {
        const P_PID: u64 = 1;
        const WNOWAIT: u64 = 0x0100_0000;
        const SI_CODE: u64 = 8;
        const SI_PID: u64 = 16;
        const CLD_EXITED_TO_DUMPED: RangeInclusive<u32> = 1..=3;
        const CLD_STOPPED: u32 = 5;
        let (rusage, keep) = (a[4], a[3] & WNOWAIT != 0);
        if a[2] == 0 {
            let pid = if a[0] == P_PID { a[1] as u32 } else { 0 };
            let no_wait = a[3] & WNOHANG != 0; // there may have been nothing to tell
            return Ok(Told {
                pid,
                is_end: pid != 0 && !no_wait && a[3] & NOT_ONLY_ENDS == 0,
                is_stop: false,
                rusage,
                keep,
            });
        }
        let word = |at| usercopy::read_u32(UserAddr::behind(a[2], at)).map_err(|_| errno::EFAULT);
        let (pid, code) = (word(SI_PID)?, word(SI_CODE)?);
        Ok(Told {
            pid,
            is_end: pid != 0 && CLD_EXITED_TO_DUMPED.contains(&code),
            is_stop: pid != 0 && code == CLD_STOPPED,
            rusage,
            keep,
        })
    }
}

/// The call that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// wait4(2).
    Wait4,
    /// waitid(2).
    Waitid,
}

/// Hook of `wait4` and `waitid` of `p` after Linux has answered `result`.
pub fn waited(p: &Process, call: Call, a: &[u64; 6], result: u64) -> Result<()> {
    let told = match call {
        Call::Wait4 => Told::by_wait4(p, a, result),
        Call::Waitid => Told::by_waitid(a)?,
    };
    if told.is_end {
        wait_until_left(p, told.pid);
    }
    // Tracees stop otherwise (`ptrace::wait`).
    if told.is_stop && !p.traces.load(Ordering::Relaxed) {
        wait_until_paused(p, told.pid);
    }
    let accounts = p.usage.lock().clone();
    let Some(used) = accounts.take(told.pid, told.keep) else {
        return Ok(()); // stopped, continued, or none
    };
    if told.rusage != 0 {
        put(UserAddr::of(told.rusage), used.words().as_bytes())?;
    }
    Ok(())
}

/// Waits until a process that shares the memory of `p` and that Linux has told the end of has left
/// it: its thread ids are cleared, its robust futexes released, its use counted.
/// Linux does that before a parent hears of the end; here `REQUEST_PROCESS_END` may come later.
fn wait_until_left(p: &Process, pid: u32) {
    let is_it = |child: &Arc<Process>| {
        child.pid_namespace() == p.pid_namespace()
            && child.pid() == pid
            && !core::ptr::eq(&**child, p)
    };
    let Some(child) = p.memory().is_shared().then(|| p.memory().processes().find(is_it)).flatten()
    else {
        return;
    };
    child.await_gone();
    let me = thread::current();
    // Told by `Process::finish`, and when it has to end. Or the child does not go.
    cpus::until_told(|| child.is_gone() || me.must_end(), cpus::deadline(LEAVES_NS));
}

/// Waits until a process that Linux has told the stop of computes no more: of that `REQUEST_SPACE_PAUSE` may come later.
fn wait_until_paused(p: &Process, pid: u32) {
    let Some(child) = spaces::find_thread(p, pid).map(|first| first.process.clone()) else {
        return;
    };
    let (me, deadline) = (thread::current(), cpus::deadline(PAUSES_NS));
    while !child.is_paused() {
        if child.is_killed() || me.must_end() || me.has_signal() || cpu::rdtsc() >= deadline {
            return;
        }
        let _ = delegate::linux(__NR_sched_yield, [0; 6]); // who tells may need our worker's CPU
        cpus::yield_now();
    }
    // Each of its threads looks before it enters user mode again, and those that were there have passed through the kernel.
    child.kick_all();
    tlb::shoot(child.mm.active(), 0, 0);
}
