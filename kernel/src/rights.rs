//! The rights of a thread, which its worker has: what execve does to them, and what they allow
//! it to do to others.

use crate::process::{Identity, NOT_MAPPED, Process};
use crate::syscalls::delegated;
use crate::thread::Thread;
use crate::{delegate, ptrace, services, slots};
use hanare_abi::service::SERVICE_MAY;
use hanare_abi::slot::{OP_RIGHTS, RANDOM_BYTES, RIGHTS_CHANGED, RIGHTS_SECURE};
use hanare_core::errno::Result;

/// A program takes another one's place in the running thread: rights of its own, which
/// new threads do not find at a worker from before, and other random bytes.
pub fn renew(thread: &Thread) -> Result<Identity> {
    let p = &thread.process;
    let mut random = [0; RANDOM_BYTES];
    let scratch = p.write_scratch(thread.slot_index, &random)?;
    let rights = delegate::call(OP_RIGHTS, [scratch, 0, 0, 0, 0, 0]);
    let has = |flag| rights > 0 && rights & flag != 0;
    p.read_control(scratch, &mut random);
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
    (id.random, id.secure, id.membarrier) = (random, has(RIGHTS_SECURE), 0);
    Ok(*id)
}

/// Whether Linux lets the running thread do `what` (`MAY_*`) to the thread `tid` of another
/// process. The module says so: its worker's answers may be anybody's.
pub fn may(what: u64, tid: u32, of: &Process) -> Result<()> {
    services::by_worker(SERVICE_MAY, &[tid.into(), of.space.into(), what], &[]).map(drop)
}
