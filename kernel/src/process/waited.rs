//! Events that `wait4` and `waitid` tell of a child, and what has to be done here before its parent
//! knows.

use crate::base::user::put;
use crate::link::delegate;
use crate::process::Process;
use crate::process::spaces;
use crate::process::thread::Thread;
use crate::sched::cpus;
use crate::sched::tlb;
use alloc::sync::Arc;
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::signal::SigInfo;
use hanare_hal::cpu;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_sched_yield;
use zerocopy::IntoBytes;

/// How long a child is waited for of which Linux has told that it was stopped, ns: it may go on
/// already.
const PAUSES_NS: u64 = 100_000_000;
/// How long the end of a child is waited for here, at most, after Linux has told it, ns.
const LEAVES_NS: u64 = 10_000_000_000;

/// The event that `wait4` or `waitid` has told.
struct Told {
    pid: u32,
    /// Whether the child has ended, as far as can be seen: it was neither stopped nor continued.
    is_end: bool,
    /// Whether the child was stopped.
    is_stop: bool,
    /// Address where `struct rusage` is to be written; 0: nowhere.
    rusage: u64,
    /// The child stays as it is (`WNOWAIT`).
    keep: bool,
}

/// Offsets in `siginfo_t`.
pub const SI_CODE: u64 = 8;
pub const SI_PID: u64 = 16;
pub const SI_STATUS: u64 = 24;
/// `si_code`: a child was stopped.
pub const CLD_STOPPED: u32 = 5;

/// The call that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// wait4(2).
    Wait4,
    /// waitid(2).
    Waitid,
}

/// Where a call tells of a child: at the program's address, or in the scratch page if the program
/// gave none.
pub struct Place<'a> {
    at: u64,
    /// The thread whose scratch page has the result.
    scratch: Option<&'a Thread>,
}

impl Place<'_> {
    /// The arguments with which Linux executes the call of the running thread `me`, so that it
    /// can be seen what that tells.
    pub fn of(me: &Thread, call: Call, mut args: [u64; 6]) -> Result<([u64; 6], Place<'_>)> {
        let pointer = match call {
            Call::Wait4 => &mut args[1],
            Call::Waitid => &mut args[2],
        };
        let scratch = (*pointer == 0).then_some(me);
        if scratch.is_some() {
            *pointer = me.write_scratch(&[0; size_of::<SigInfo>()])?;
        }
        let at = *pointer;
        Ok((args, Place { at, scratch }))
    }

    /// Whether that is the scratch page.
    pub fn is_scratch(&self) -> bool {
        self.scratch.is_some()
    }

    /// The word at this offset.
    pub fn word(&self, offset: u64) -> Result<u32> {
        if let Some(thread) = self.scratch {
            return Ok(thread.process.memory().control(self.at + offset));
        }
        usercopy::read_u32(UserAddr::behind(self.at, offset)).map_err(|_| errno::EFAULT)
    }

    /// Address where the program finds the result; 0: nowhere.
    pub fn of_program(&self, offset: u64) -> u64 {
        if self.is_scratch() { 0 } else { self.at.saturating_add(offset) }
    }
}

impl Told {
    fn by_wait4(a: &[u64; 6], place: &Place<'_>, pid: u64) -> Told {
        const STOPPED: u32 = 0x7f;
        const CONTINUED: u32 = 0xffff;
        let status = if pid == 0 { None } else { place.word(0).ok() };
        let is_stop = status.is_some_and(|status| status & 0xff == STOPPED);
        let is_end = !is_stop && status.is_some_and(|status| status != CONTINUED);
        Told { pid: pid as u32, is_end, is_stop, rusage: a[3], keep: false }
    }

    fn by_waitid(a: &[u64; 6], place: &Place<'_>) -> Result<Told> {
        const WNOWAIT: u64 = 0x0100_0000;
        const CLD_EXITED_TO_DUMPED: RangeInclusive<u32> = 1..=3;
        let (pid, code) = (place.word(SI_PID)?, place.word(SI_CODE)?);
        Ok(Told {
            pid,
            is_end: pid != 0 && CLD_EXITED_TO_DUMPED.contains(&code),
            is_stop: pid != 0 && code == CLD_STOPPED,
            rusage: a[4],
            keep: a[3] & WNOWAIT != 0,
        })
    }
}

/// Hook of `wait4` and `waitid` of the running thread `me` after Linux has answered `result`, and
/// told more at `place`.
pub fn waited(me: &Thread, call: Call, a: &[u64; 6], place: &Place<'_>, result: u64) -> Result<()> {
    let p = &me.process;
    let told = match call {
        Call::Wait4 => Told::by_wait4(a, place, result),
        Call::Waitid => Told::by_waitid(a, place)?,
    };
    if told.is_end {
        wait_until_left(me, told.pid);
    }
    // Tracees stop otherwise (`ptrace::wait`).
    if told.is_stop && !p.traces.load(Ordering::Relaxed) {
        wait_until_paused(me, told.pid);
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
fn wait_until_left(me: &Thread, pid: u32) {
    let p = &me.process;
    let is_it = |child: &Arc<Process>| {
        child.pid_namespace() == p.pid_namespace() && child.pid() == pid && !Arc::ptr_eq(child, p)
    };
    let Some(child) = p.memory().is_shared().then(|| p.space.processes().find(is_it)).flatten()
    else {
        return;
    };
    child.await_gone();
    // Told by `Process::finish`, and when it has to end. Or the child does not go.
    cpus::until_told(|| child.is_gone() || me.must_end(), cpus::deadline(LEAVES_NS));
}

/// Waits until a stopped process computes no more. Linux may have told the stop before
/// `REQUEST_SPACE_PAUSE` comes.
fn wait_until_paused(me: &Thread, pid: u32) {
    let Some(child) = spaces::find_thread(&me.process, pid).map(|first| first.process.clone())
    else {
        return;
    };
    let deadline = cpus::deadline(PAUSES_NS);
    while !child.is_paused() {
        if child.is_killed() || me.must_end() || me.has_signal() || cpu::rdtsc() >= deadline {
            return;
        }
        let _ = delegate::linux(me, __NR_sched_yield, [0; 6]); // who tells may need our worker's CPU
        cpus::yield_now();
    }
    // Each of its threads looks before it enters user mode again, and those that were there have
    // passed through the kernel.
    child.kick_all();
    tlb::shoot(child.memory().mm.active(), PageRange::NONE);
}
