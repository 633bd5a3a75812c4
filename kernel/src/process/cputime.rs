//! CPU time of threads and processes: clocks, the timers that count it, and its limit.
//! Linux sees what the worker uses, and learns the rest when the process ends.

use crate::base::{heap, time};
use crate::calls::clocktimers::{self, ClockTimer};
use crate::link::delegate;
use crate::process::Process;
use crate::process::spaces;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::sched::cpus;
use crate::signal::signals;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::cputimer::{CpuLimit, CpuSeconds, IntervalTimer};
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, SigInfo};
use hanare_core::time::{Clock, Timespec, Timeval};
use hanare_hal::usercopy;
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

const ITIMER_REAL: u64 = 0;
const ITIMER_VIRTUAL: u64 = 1;
const ITIMER_PROF: u64 = 2;

/// Timers of a process.
#[derive(Default)]
pub struct CpuTimers {
    /// One of them is armed.
    armed: AtomicBool,
    all: Mutex<All>,
    /// Those of timer_create.
    clocks: Mutex<Vec<ClockTimer>>,
}

#[derive(Clone, Copy, Default)]
struct All {
    virt: IntervalTimer,
    prof: IntervalTimer,
    limit: CpuSeconds,
}

impl All {
    /// ns of CPU time until the next one; `user` of `used` were not in the kernel.
    fn left(&self, user: u64, used: u64) -> Option<u64> {
        [self.virt.left(user), self.prof.left(used), self.limit.left(used)]
            .into_iter()
            .flatten()
            .min()
    }
}

impl CpuTimers {
    fn change(&self, f: impl FnOnce(&mut All)) {
        f(&mut self.all.lock());
        self.rearm();
        cpus::request_attention();
    }

    fn rearm(&self) {
        // Under the locks: what is set meanwhile is not overlooked.
        let (all, clocks) = (self.all.lock(), self.clocks.lock());
        let armed = all.left(0, 0).is_some() || clocktimers::any_armed(&clocks);
        self.armed.store(armed, Ordering::Release);
    }

    /// Does something with the timers of timer_create.
    pub fn with_clock_timers<T>(&self, f: impl FnOnce(&mut Vec<ClockTimer>) -> T) -> T {
        f(&mut self.clocks.lock())
    }

    /// A timer was set: the CPUs that run threads of `p` have to know.
    pub fn look_again(&self, p: &Process) {
        self.rearm();
        cpus::request_attention();
        if p.thread_count() > 1 || !core::ptr::eq(p, &*thread::current().process) {
            p.kick_all();
        }
    }

    /// RLIMIT_CPU, seconds.
    pub fn set_limit(&self, soft: u64, hard: u64) {
        self.change(|all| all.limit = CpuSeconds::new(soft, hard));
    }

    /// The limit of a process, for its child.
    pub fn limit(&self) -> (u64, u64) {
        self.all.lock().limit.limits()
    }

    /// Takes over the interval timers and the limit of a process that goes on as this one.
    pub fn take_over(&self, old: &CpuTimers) {
        let all = *old.all.lock();
        *self.all.lock() = all;
        self.rearm();
    }

    /// A timer interrupt is wanted after so many ns of CPU time of `thread`, which has
    /// these timers; `None`: none is armed.
    pub fn wanted(&self, thread: &Thread) -> Option<u64> {
        if !self.armed.load(Ordering::Acquire) {
            return None;
        }
        let (user, system) = thread.process.times_ns();
        let of_process = self.all.lock().left(user, user + system);
        let of_clocks = clocktimers::left(&self.clocks.lock(), thread);
        of_process.into_iter().chain(of_clocks).min()
    }
}

/// Before user mode: queues the signals of timers that have expired.
pub fn check(thread: &Thread) {
    let p = &thread.process;
    if !p.cpu_timers.armed.load(Ordering::Acquire) {
        return;
    }
    let (user, system) = p.times_ns();
    let (virt, prof, limit) = {
        let mut all = p.cpu_timers.all.lock();
        (
            all.virt.take_expired(user),
            all.prof.take_expired(user + system),
            all.limit.check(user + system),
        )
    };
    clocktimers::check(thread);
    p.cpu_timers.rearm();
    let send = |signal| {
        if thread.ptrace.is_on()
            && crate::signal::pending::send(thread, signal, SigInfo::kernel(signal)).is_ok()
        {
            return; // by way of Linux, where a tracer sees it
        }
        let mut s = p.signals.lock();
        if !s.actions.ignores(signal) {
            heap::fallible(|| s.pending.add(signal, SigInfo::kernel(signal), true));
        }
    };
    if virt {
        send(signal::SIGVTALRM);
    }
    if prof {
        send(signal::SIGPROF);
    }
    match limit {
        CpuLimit::Within => {}
        CpuLimit::Warn => {
            send(signal::SIGXCPU);
            tell_limit(thread);
        }
        CpuLimit::Kill => crate::signal::signals::die(signal::SIGKILL),
    }
    signals::retarget(p); // others may take what this thread blocks
}

/// The soft limit has moved on: getrlimit(2) is Linux' business.
fn tell_limit(thread: &Thread) {
    const PRLIMIT64: u32 = 302;
    const RLIMIT_CPU: u64 = 0;
    let p = &thread.process;
    let (soft, hard) = p.cpu_timers.limit();
    if let Ok(at) = p.write_scratch(thread.slot_index, [soft, hard].as_bytes()) {
        let _ = delegate::linux(PRLIMIT64, [0, RLIMIT_CPU, at, 0, 0, 0]);
    }
}

/// Times that a clock has counted, ns.
pub fn process_ns(p: &Process) -> u64 {
    let (user, system) = p.times_ns();
    user + system
}

/// The same of one thread: user and system.
pub fn thread_ns(t: &Thread) -> (u64, u64) {
    let (user, system) = t.cycles();
    (time::cycles_to_ns(user), time::cycles_to_ns(system))
}

/// Whether a CPU clock that names a thread means the running one.
pub fn is_own_thread(id: i32) -> bool {
    let target = !(id >> 3) as u32;
    id & 4 != 0 && (target == 0 || target == thread::current().slot.tid())
}

/// A clock of CPU time of a process, or of one of its threads.
#[derive(Clone)]
pub struct CpuClock {
    /// `None`: of the process.
    thread: Option<Weak<Thread>>,
    /// Without what the kernel did.
    user: bool,
}

impl CpuClock {
    const PER_THREAD: i32 = 4;

    /// The clock with an id as `clock_getcpuclockid` and `pthread_getcpuclockid` make it, or
    /// of the caller; `None`: it is another kind of clock, or not one of `p`.
    pub fn of(id: i32, p: &Process) -> Option<CpuClock> {
        const KIND: i32 = 3;
        const USER: i32 = 1;
        const DEVICE: i32 = 3;
        let own = || Some(Arc::downgrade(&thread::current_arc()));
        match Clock::from_id(id) {
            Some(Clock::ProcessCpu) => return Some(CpuClock { thread: None, user: false }),
            Some(Clock::ThreadCpu) => return Some(CpuClock { thread: own(), user: false }),
            _ if id >= 0 || id & KIND == DEVICE => return None,
            _ => {}
        }
        let (target, user) = (!(id >> 3) as u32, id & KIND == USER);
        if id & Self::PER_THREAD == 0 {
            let ours = target == 0 || target == p.identity.lock().pid;
            return ours.then_some(CpuClock { thread: None, user });
        }
        let thread = match target {
            0 => own(),
            tid => Some(Arc::downgrade(&p.threads().find(|t| t.slot.tid() == tid)?)),
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

    /// Whether it goes on while `thread` runs.
    pub fn counts(&self, thread: &Thread) -> bool {
        self.thread.as_ref().is_none_or(|t| core::ptr::eq(t.as_ptr(), thread))
    }
}

/// The CPU clock with this id, of this process, of one of its threads, or of another process
/// whose program runs here, too; and whose it is.
pub fn find(id: i32) -> Option<(Arc<Process>, CpuClock)> {
    let p = &thread::current().process;
    if let Some(clock) = CpuClock::of(id, p) {
        return Some((p.clone(), clock));
    }
    if id >= 0 || id & CpuClock::PER_THREAD != 0 {
        return None;
    }
    let other = spaces::find_thread(p, !(id >> 3) as u32)?.process.clone();
    let clock = CpuClock::of(id, &other)?;
    Some((other, clock))
}

/// The value of a CPU clock that names a process or thread, if it is one of the LWK's.
pub fn clock_of(id: i32) -> Option<u64> {
    if id >= 0 {
        return None;
    }
    let (process, clock) = find(id)?;
    clock.now(&process)
}

fn read_itimer(at: u64) -> Result<(u64, u64)> {
    let one = |at| -> Result<u64> {
        let mut bytes = [0; size_of::<Timeval>()];
        usercopy::read(at, &mut bytes).map_err(|_| errno::EFAULT)?;
        let t = Timespec::read_from_bytes(&bytes).map_err(|_| errno::EINVAL)?;
        if !(0..1_000_000).contains(&t.nsec) || t.sec < 0 {
            return Err(errno::EINVAL);
        }
        Ok((t.sec as u64).saturating_mul(1_000_000_000).saturating_add(t.nsec as u64 * 1000))
    };
    Ok((one(at + 16)?, one(at)?))
}

fn write_itimer(at: u64, (value, interval): (u64, u64)) -> Result<()> {
    let up = |ns: u64| Timeval::from_ns(ns.saturating_add(999));
    let both = [up(interval), up(value)];
    usercopy::write(at, both.as_bytes()).map_err(|_| errno::EFAULT)
}

/// setitimer(2), getitimer(2) of the timers that count CPU time; `None`: the other
/// one, which is Linux' business.
pub fn itimer(which: u64, new: Option<u64>, old: u64) -> Option<Result<u64>> {
    if which == ITIMER_REAL || which > ITIMER_PROF {
        return None;
    }
    Some((|| {
        let wanted =
            new.map(|at| if at == 0 { Ok((0, 0)) } else { read_itimer(at) }).transpose()?;
        let p = &thread::current().process;
        let (user, system) = p.times_ns();
        let now = if which == ITIMER_VIRTUAL { user } else { user + system };
        let mut before = (0, 0);
        p.cpu_timers.change(|all| {
            let timer = if which == ITIMER_VIRTUAL { &mut all.virt } else { &mut all.prof };
            before = timer.get(now);
            if let Some((value, interval)) = wanted {
                *timer = IntervalTimer::set(now, value, interval);
            }
        });
        if wanted.is_some() {
            p.cpu_timers.look_again(p);
        }
        if old != 0 || new.is_none() {
            write_itimer(old, before)?;
        }
        Ok(0)
    })())
}

/// timer_create: the new timer's number, so that execve can delete it.
pub fn timer_created(id: u32) -> Result<()> {
    let mut timers = thread::current().process.timers.lock();
    heap::more_room(&mut timers, 1).map_err(|_| errno::EAGAIN)?;
    timers.push(id);
    Ok(())
}

/// timer_delete.
pub fn timer_deleted(id: u64) {
    let p = &thread::current().process;
    p.timers.lock().retain(|&t| t != id as u32);
    clocktimers::deleted(p, id as u32);
}

/// execve: timers of timer_create do not survive it.
pub fn on_exec(p: &Process) {
    let timers = core::mem::take(&mut *p.timers.lock());
    for id in timers {
        clocktimers::delete(id);
        clocktimers::deleted(p, id);
    }
}
