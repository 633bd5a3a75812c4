//! Waiting for threads of a proxy that have been told to end.

use crate::link::delegate;
use crate::process::thread::Thread;
use crate::sched::cpus;
use hanare_core::errno;
use hanare_hal::cpu;
use linux_raw_sys::general::{
    __NR_sched_yield, __NR_tgkill, __NR_waitid, P_PID, WEXITED, WNOHANG, WNOWAIT,
};

/// How long a thread that matters only as one more of their number is waited for, ns.
pub const PATIENCE_NS: u64 = 1_000_000_000;

/// Waits until Linux has no task of the running process with this id, at most until a deadline. 0:
/// there is none. Whether there is none that ends.
pub fn wait(me: &Thread, tid: u32, deadline: Option<u64>) -> bool {
    let p = &me.process;
    let pid = u64::from(p.pid());
    // An id may have been given to a thread that lives, or to a worker that waits for one.
    let is_spare = || p.slots.lock().is_spare(tid, p.memory().id, p.first_slot);
    let is_given = || p.threads().any(|t| t.tid() == tid) || is_spare();
    if tid == 0 || is_given() {
        return true;
    }
    loop {
        match delegate::linux(me, __NR_tgkill, [pid, tid.into(), 0, 0, 0, 0]) {
            Err(error) => return error == errno::ESRCH,
            Ok(_) if deadline.is_some_and(|d| cpu::rdtsc() >= d) || me.must_end() => return false,
            Ok(_) => {}
        }
        let _ = delegate::linux(me, __NR_sched_yield, [0; 6]); // the one that ends may need our worker's CPU
        cpus::yield_now();
    }
}

/// Waits until Linux counts those no more that [`wait`] has found gone. Linux takes their ids away
/// first, then takes them out of the process' list, both under tasklist_lock. A process that asks
/// between the two is told that there are still several threads. waitid(2) waits for that lock. No
/// process is its own child, so that no child is waited for.
pub fn until_uncounted(me: &Thread) {
    const OPTIONS: u64 = WEXITED as u64 | (WNOHANG | WNOWAIT) as u64;
    let _ =
        delegate::linux(me, __NR_waitid, [P_PID.into(), me.process.pid().into(), 0, OPTIONS, 0, 0]);
}
