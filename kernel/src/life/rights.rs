//! Rights of a thread at execve: the worker has them, and execve may change them.

use crate::gate::ptrace;
use crate::link::delegate;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::process::{Identity, NOT_MAPPED};
use hanare_abi::control::{Control, RANDOM_BYTES, RIGHTS_CHANGED, RIGHTS_SECURE};
use hanare_core::errno::{self, Result};

use crate::process::rights::{ONLY_ASKS, READ_IMPLIES_EXEC, refresh_ids};
use linux_raw_sys::general::{__NR_personality, __NR_prctl};
use linux_raw_sys::prctl::{PR_GET_DUMPABLE, PR_SET_DUMPABLE};

/// Rights and random bytes that Linux gives to a program that replaces another one. The worker has
/// the rights already.
pub struct Rights {
    flags: u64,
    random: [u8; RANDOM_BYTES],
}

/// Renews the rights, for the program that the running thread is about to begin. The other threads
/// are there still: where Linux has no memory for it, nothing has happened.
///
/// # Errors
/// `EAGAIN`: the program would have more rights than the one before it. Only an execve of Linux'
/// own gives these (`depart`). Not where a debugger is, which stays with the memory that it has:
/// there the program gets no more.
pub fn renew(thread: &Thread) -> Result<Rights> {
    let p = &thread.process;
    let scratch = thread.write_scratch(&[0; RANDOM_BYTES])?;
    let keeps = u32::from(p.observed.is_debugged());
    let flags = delegate::result_of(thread, Control::Rights { random: scratch, keeps })?;
    Ok(Rights { flags, random: p.memory().control(scratch) })
}

impl Rights {
    /// The running thread is alone: they are the process'. New threads do not find them at a
    /// worker from before.
    pub fn take(&self, thread: &Thread) -> Identity {
        let p = &thread.process;
        let has = |flag| self.flags & flag as u64 != 0;
        if has(RIGHTS_CHANGED) {
            workers::attributes_changed(thread);
        }
        if has(RIGHTS_CHANGED) || has(RIGHTS_SECURE) {
            ptrace::on_rights(thread);
        }
        let known = *thread.ids.lock();
        if has(RIGHTS_CHANGED)
            || [known.uid, known.euid, known.gid, known.egid].contains(&NOT_MAPPED)
        {
            refresh_ids(thread);
        }
        let mut id = p.identity.lock();
        (id.random, id.secure, id.membarrier) = (self.random, has(RIGHTS_SECURE), 0);
        *id
    }
}

/// prctl(2).
const GET_DUMPABLE: u64 = PR_GET_DUMPABLE as u64;
const SET_DUMPABLE: u64 = PR_SET_DUMPABLE as u64;

/// Hides the process, which is about to run a program that its user may not read. Only the
/// superuser may look into it from now on. `EACCES`: it is observed already. Gives what
/// PR_GET_DUMPABLE said before.
pub fn hide(me: &Thread) -> Result<u64> {
    let dumpable = delegate::linux(me, __NR_prctl, [GET_DUMPABLE, 0, 0, 0, 0, 0])?;
    delegate::linux(me, __NR_prctl, [SET_DUMPABLE, 0, 0, 0, 0, 0])?;
    if me.process.observed.is_on() {
        show_again(me, Some(dumpable));
        return Err(errno::EACCES);
    }
    Ok(dumpable)
}

/// The old program goes on.
pub fn show_again(me: &Thread, dumpable: Option<u64>) {
    if let Some(before) = dumpable {
        let _ = delegate::linux(me, __NR_prctl, [SET_DUMPABLE, before, 0, 0, 0, 0]);
    }
}

/// READ_IMPLIES_EXEC ends with the program, also where Linux keeps it.
pub fn forget_read_implies_exec(me: &Thread) {
    let set = core::mem::take(&mut me.process.identity.lock().read_implies_exec);
    if set && let Ok(now) = delegate::linux(me, __NR_personality, [ONLY_ASKS.into(), 0, 0, 0, 0, 0])
    {
        let _ = delegate::linux(
            me,
            __NR_personality,
            [now & !u64::from(READ_IMPLIES_EXEC), 0, 0, 0, 0, 0],
        );
    }
}
