//! When timers that count CPU time expire next, and the numbers of those of timer_create(2).

use crate::base::lists;
use crate::link::delegate;
use crate::parts::cputimers::{ClockTimer, Timer};
use crate::process::Process;
use crate::process::thread::Thread;
use crate::sched::cpus;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::signal::SigInfo;
use linux_raw_sys::general::__NR_timer_delete;

/// A timer of the running process `p` was set: the CPUs that run its threads have to know.
pub fn look_again(p: &Process) {
    p.cpu_timers.rearm();
    cpus::request_attention();
    if p.thread_count() > 1 {
        p.kick_all();
    }
}

/// A timer interrupt is wanted after so many ns of CPU time of `thread`; `None`: none is armed.
pub fn wanted(thread: &Thread) -> Option<u64> {
    let timers = &thread.process.cpu_timers;
    if !timers.armed.load(Ordering::Acquire) {
        return None;
    }
    let (user, system) = thread.process.times_ns();
    let of_process = timers.all.lock().left(user, user + system);
    let of_clocks = timers.with_clock_timers(|timers| left(timers, thread));
    of_process.into_iter().chain(of_clocks).min()
}

/// A signal that Linux has sent is on its way to the program. If it is that of a timer of CPU time,
/// this says how often the timer has expired, which Linux does not know.
pub fn tell(p: &Process, info: &mut SigInfo) {
    let Some(id) = info.timer() else { return };
    p.cpu_timers.with_clock_timers(|timers| {
        if let Some(timer) = timers.iter_mut().find(|timer| timer.id == id) {
            info.set_overrun(timer.expiries.tell());
        }
    });
}

/// Such a signal has gone back to Linux, which sends it again.
pub fn take_back(p: &Process, info: &SigInfo) {
    let Some(id) = info.timer() else { return };
    p.cpu_timers.with_clock_timers(|timers| {
        if let Some(timer) = timers.iter_mut().find(|timer| timer.id == id) {
            timer.expiries.take_back(info.overrun());
        }
    });
}

/// timer_delete, after Linux has deleted its own.
fn deleted(p: &Process, id: u32) {
    p.cpu_timers.with_clock_timers(|timers| timers.retain(|t| t.id != id));
}

/// Time until the next timer expires while `thread` runs, ns.
fn left(timers: &[ClockTimer<Thread>], thread: &Thread) -> Option<u64> {
    let p = &thread.process;
    let counting = timers.iter().filter(|t| t.clock.counts(thread));
    counting.filter_map(|t| t.timer.left(t.clock.now(p)?)).min()
}

/// Deletes Linux' timer. False: it is there still.
pub fn delete(me: &Thread, id: u32) -> bool {
    delegate::linux(me, __NR_timer_delete, [u64::from(id), 0, 0, 0, 0, 0]).is_ok()
}

/// timer_create: the new timer, so that execve can delete it.
pub fn timer_created(p: &Process, timer: Timer) -> Result<()> {
    let mut timers = p.timers.lock();
    lists::push(&mut timers, timer).map_err(|_| errno::EAGAIN)
}

/// Whether a timer of the process, whose signal is for the process, has sent this.
pub fn is_for_process(p: &Process, info: &SigInfo) -> bool {
    let of_process = |id| p.timers.lock().iter().any(|t| t.id == id && !t.is_of_thread);
    info.timer().is_some_and(of_process)
}

/// timer_delete.
pub fn timer_deleted(p: &Process, id: u64) {
    p.timers.lock().retain(|timer| timer.id != id as u32);
    deleted(p, id as u32);
}

/// execve: timers of timer_create do not survive it.
pub fn on_exec(me: &Thread) {
    let p = &me.process;
    let timers = core::mem::take(&mut *p.timers.lock());
    for Timer { id, .. } in timers {
        delete(me, id);
        deleted(p, id);
    }
}
