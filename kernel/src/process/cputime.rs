//! CPU time of threads and processes, and the clocks that count it. Linux sees what the worker
//! uses, and learns the rest when the process ends.

use crate::base::time;
use crate::parts::cputimers;
use crate::process::Process;
use crate::process::spaces;
use crate::process::thread::Thread;
use alloc::sync::Arc;
use hanare_core::time::Clock;

/// Times that a clock has counted, ns.
pub fn process_ns(p: &Process) -> u64 {
    let (user, system) = p.times_ns();
    user + system
}

/// CPU time of a thread: user and system, ns.
pub fn thread_ns(t: &Thread) -> (u64, u64) {
    let (user, system) = t.task().cycles();
    (time::cycles_to_ns(user), time::cycles_to_ns(system))
}

/// Whether a CPU clock that names a thread means the running one, `me`.
pub fn is_own_thread(me: &Thread, id: i32) -> bool {
    let target = !(id >> 3) as u32;
    id & 4 != 0 && (target == 0 || target == me.tid())
}

/// A clock of CPU time of a process, or of one of its threads.
pub type CpuClock = cputimers::CpuClock<Thread>;

impl CpuClock {
    const PER_THREAD: i32 = 4;

    /// The clock with an id as `clock_getcpuclockid` and `pthread_getcpuclockid` make it, or
    /// of the running thread `me`; `None`: it is another kind of clock, or not one of `p`.
    pub fn of(me: &Thread, id: i32, p: &Process) -> Option<CpuClock> {
        const KIND: i32 = 3;
        const USER: i32 = 1;
        const DEVICE: i32 = 3;
        let own = || Some(Arc::downgrade(&me.arc()));
        match Clock::from_id(id) {
            Some(Clock::ProcessCpu) => return Some(CpuClock { thread: None, user: false }),
            Some(Clock::ThreadCpu) => return Some(CpuClock { thread: own(), user: false }),
            _ if id >= 0 || id & KIND == DEVICE => return None,
            _ => {}
        }
        let (target, user) = (!(id >> 3) as u32, id & KIND == USER);
        if id & Self::PER_THREAD == 0 {
            let ours = target == 0 || target == p.pid();
            return ours.then_some(CpuClock { thread: None, user });
        }
        let thread = match target {
            0 => own(),
            tid => Some(Arc::downgrade(&p.threads().find(|t| t.tid() == tid)?)),
        };
        Some(CpuClock { thread, user })
    }

    /// ns so far; `None`: the thread is gone.
    pub fn now(&self, p: &Process) -> Option<u64> {
        let (user, system) = match &self.thread {
            None => p.times_ns(),
            Some(thread) => thread_ns(&*thread.upgrade()?),
        };
        Some(if self.user { user } else { user + system })
    }

    /// Whether the clock goes on while `thread` runs.
    pub fn counts(&self, thread: &Thread) -> bool {
        self.thread.as_ref().is_none_or(|t| core::ptr::eq(t.as_ptr(), thread))
    }
}

/// The CPU clock with this id, and the process that it counts. The clock is the running process',
/// one of its threads', or another process' whose program runs here, too.
pub fn find(me: &Thread, id: i32) -> Option<(Arc<Process>, CpuClock)> {
    let p = &me.process;
    if let Some(clock) = CpuClock::of(me, id, p) {
        return Some((p.clone(), clock));
    }
    if id >= 0 || id & CpuClock::PER_THREAD != 0 {
        return None;
    }
    let other = spaces::find_thread(p, !(id >> 3) as u32)?.process.clone();
    let clock = CpuClock::of(me, id, &other)?;
    Some((other, clock))
}

/// The value of a CPU clock that names a process or thread, if it is one of the LWK's.
pub fn clock_of(me: &Thread, id: i32) -> Option<u64> {
    if id >= 0 {
        return None;
    }
    let (process, clock) = find(me, id)?;
    clock.now(&process)
}
