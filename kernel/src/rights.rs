//! The rights of a thread, which its worker has: what execve does to them, and what they allow
//! it to do to others.

use crate::process::{Identity, NOT_MAPPED, Process};
use crate::syscalls::delegated;
use crate::thread::Thread;
use crate::{delegate, ptrace, services, slots};
use hanare_abi::service::SERVICE_MAY;
use hanare_abi::slot::{OP_RIGHTS, RANDOM_BYTES, RIGHTS_CHANGED, RIGHTS_SECURE};
use hanare_core::errno::Result;

/// What a program that takes another one's place has from Linux: rights of its own, which its
/// worker has already, and other random bytes.
pub struct Rights {
    flags: u64,
    random: [u8; RANDOM_BYTES],
}

/// Those of the program that the running thread is about to begin. The other threads are
/// there still: where Linux has no memory for it, nothing has happened.
pub fn renew(thread: &Thread) -> Result<Rights> {
    let p = &thread.process;
    let mut random = [0; RANDOM_BYTES];
    let scratch = p.write_scratch(thread.slot_index, &random)?;
    let flags = delegate::linux(OP_RIGHTS, [scratch, 0, 0, 0, 0, 0])?;
    p.read_control(scratch, &mut random);
    Ok(Rights { flags, random })
}

impl Rights {
    /// The running thread is alone: they are the process'. New threads do not find them at a
    /// worker from before.
    pub fn take(&self, thread: &Thread) -> Identity {
        let p = &thread.process;
        let has = |flag| self.flags & flag as u64 != 0;
        if has(RIGHTS_CHANGED) {
            slots::attributes_changed(thread);
        }
        if has(RIGHTS_CHANGED) || has(RIGHTS_SECURE) {
            ptrace::on_rights(thread);
        }
        let known = *p.identity.lock();
        if has(RIGHTS_CHANGED) || [known.uid, known.euid, known.gid, known.egid].contains(&NOT_MAPPED) {
            delegated::refresh_identity();
        }
        let mut id = p.identity.lock();
        (id.random, id.secure, id.membarrier) = (self.random, has(RIGHTS_SECURE), 0);
        *id
    }
}

/// Whether Linux lets the running thread do `what` (`MAY_*`) to the thread `tid` of another
/// process. The module says so: its worker's answers may be anybody's.
pub fn may(what: u64, tid: u32, of: &Process) -> Result<()> {
    services::by_worker(SERVICE_MAY, &[tid.into(), of.space.into(), what], &[]).map(drop)
}
