//! The requests by which a worker makes another one, or ends.

use hanare_abi::ioctl::{IOCTL_SHARE, Share};
use hanare_abi::layout::SLOTS_MAX;
use linux_raw_sys::errno::EINVAL;

use super::slot::answer;
use crate::process::Process;
use crate::sys::worker::{Role, Worker};
use crate::sys::{self, Errno, signal, thread};

/// `OP_THREAD`: gives the thread id, which is in the slot as well.
pub fn start_worker(process: &Process, slot: u64, own: u64) -> sys::Result<u32> {
    let slot = slot_number(slot)?;
    let tid = thread::spawn(slot, Role::Thread, own)?;
    process.space.window.slot(slot).set_tid(tid);
    Ok(tid)
}

/// `OP_SHARE`: gives the process id.
pub fn share(process: &Process, args: &[u64; 6]) -> sys::Result<u32> {
    let [slot, flags, pidfd, own, ids, more] = *args;
    let wanted = thread::Wanted { ids: (ids, more & 0xffff_ffff), cgroup: more >> 32 };
    declare(process, slot_number(own)?, false)?;
    thread::share(slot_number(slot)?, flags, pidfd, wanted)
}

/// A slot that the LWK names.
fn slot_number(slot: u64) -> sys::Result<u32> {
    u32::try_from(slot).ok().filter(|slot| *slot < SLOTS_MAX).ok_or(Errno(EINVAL))
}

/// Has the module watch for this process' end; `begin`: the LWK is to run its program.
pub fn declare(process: &Process, slot: u32, begin: bool) -> sys::Result<()> {
    sys::ioctl(process.space.fd, IOCTL_SHARE, &mut Share { slot, begin: begin.into() })
}

/// `OP_THREAD_EXIT`: the thread id 0 says that the slot is not looked at any more.
pub fn end_worker(process: &Process, worker: &Worker) -> ! {
    signal::set_mask(!0);
    process.space.window.slot(worker.slot()).set_tid(0);
    thread::end(worker.block)
}

/// `OP_THREAD_RENEW`: the successors answer, where there is one.
pub fn renew_worker(process: &Process, worker: &Worker, other: u64) -> ! {
    signal::set_mask(!0);
    let other = u32::try_from(other).ok().filter(|slot| (1..SLOTS_MAX).contains(slot));
    for index in core::iter::once(worker.slot()).chain(other) {
        if let Err(error) = thread::spawn(index, Role::Successor, 0) {
            let slot = process.space.window.slot(index);
            slot.set_tid(0);
            answer(process, worker, slot, -i64::from(error.0));
        }
    }
    thread::end(worker.block)
}
