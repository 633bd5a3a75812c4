//! What execve does to the rights of the thread that calls it, which its worker has.

use crate::process::{Identity, NOT_MAPPED};
use crate::syscalls::delegated;
use crate::thread::Thread;
use crate::{delegate, slots};
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
        let known = *p.identity.lock();
        if has(RIGHTS_CHANGED) || [known.uid, known.euid, known.gid, known.egid].contains(&NOT_MAPPED) {
            delegated::refresh_identity();
        }
        let mut id = p.identity.lock();
        (id.random, id.secure, id.membarrier) = (self.random, has(RIGHTS_SECURE), 0);
        *id
    }
}
