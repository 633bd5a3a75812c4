//! Limits that Linux keeps and the LWK applies (`hanare_core::rlimits`): asked for by a thread that
//! may know of a change, and told by the module.
//!
//! A process that changes a limit from outside may tell the program so, by what one of its calls on
//! Linux returns. So a thread that has made calls there since it asked last asks again before a
//! limit matters. A thread that makes none is told, and so is a limit of CPU time, which matters
//! all the time: the module looks twice a second.

use crate::link::caller::Delegates;
use crate::link::services;
use crate::process::Process;
use crate::process::thread::Thread;
use core::sync::atomic::Ordering;
use hanare_abi::service::{LIMITS_WORDS, SERVICE_LIMITS};
use hanare_core::errno::{self, Result};
use hanare_core::link::Failure;

type Service =
    fn(&dyn Delegates, u32, &[u64], &[u64]) -> core::result::Result<services::Answer, Failure>;

/// Whether limits may be others by what the running thread knows.
pub fn may_differ(me: &Thread) -> bool {
    me.limits_looked.load(Ordering::Relaxed) != me.task().counts.calls()
        && me.process.native.get().is_none()
}

/// Asks for the running process' limits if they may be others. Takes no lock meanwhile.
pub fn look(me: &Thread) {
    if may_differ(me) {
        let calls = me.task().counts.calls();
        // Those of before, where no worker can be asked now: others are told of within a second.
        let by = services::by_worker_at_once;
        let _ = ask_by(by, me, &me.process, me.tid());
        me.limits_looked.store(calls, Ordering::Relaxed);
    }
}

/// Asks for the limits of a process, of which the worker of the running thread `me` knows a thread
/// by this id.
///
/// # Errors
/// `ESRCH`: there is no such thread, or it is about to end. `ENOSYS`: the running thread has no
/// worker; its limits are those that it began with.
pub fn ask(me: &Thread, p: &Process, tid: u32) -> Result<()> {
    ask_by(services::by_worker, me, p, tid)
}

fn ask_by(by: Service, me: &Thread, p: &Process, tid: u32) -> Result<()> {
    if me.process.native.get().is_some() {
        return Err(errno::ENOSYS);
    }
    let answer = by(me, SERVICE_LIMITS, &[tid.into(), p.memory().id.into()], &[])?;
    let words: &[u64; LIMITS_WORDS] = (&*answer.extents).try_into().map_err(|_| errno::EIO)?;
    p.take_limits(answer.args[0], words);
    Ok(())
}

impl Process {
    /// Applies the limits that Linux has.
    pub fn take_limits(&self, sequence: u64, words: &[u64; LIMITS_WORDS]) {
        let cpu = {
            let mut id = self.identity.lock();
            let Some(changes) = id.limits.take(sequence, words) else { return };
            id.data_soft = changes.data;
            id.stack_soft = changes.stack.unwrap_or(id.stack_soft);
            id.as_soft = changes.space.unwrap_or(id.as_soft);
            id.as_hard = Some(changes.space_hard);
            changes.cpu
        };
        if cpu.is_some() {
            // The last one that was taken, by any thread: this may be late.
            loop {
                let last = self.identity.lock().limits.cpu();
                self.cpu_timers.set_limit(last.0, last.1);
                if self.identity.lock().limits.cpu() == last {
                    break;
                }
            }
            self.kick_all(); // CPUs that run its threads have another time to interrupt them
        }
    }
}
