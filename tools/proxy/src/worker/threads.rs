//! The requests by which a worker makes another one, or ends.

use hanare_abi::ioctl::{IOCTL_SHARE, IOCTL_WORKER, Share, WORKER_SHIFT};
use hanare_abi::layout::SLOTS_MAX;
use hanare_ikc::Answer;
use linux_raw_sys::errno::EINVAL;

use super::slot::answer;
use crate::process::Process;
use crate::sys::worker::Worker;
use crate::sys::{self, Errno, signal, thread};

/// `Control::Thread`: gives the thread id, which is in the slot as well.
pub fn start_worker(process: &Process, slot: u32, own: u64) -> sys::Result<u32> {
    let slot = slot_number(slot)?;
    let tid = thread::spawn(slot, own)?;
    register(process, slot, tid)?;
    Ok(tid)
}

/// Says which thread serves a slot: to the module, which tells the LWK, and in the slot.
pub fn register(process: &Process, index: u32, tid: u32) -> sys::Result<()> {
    let slot = process.space.window.slot(index);
    slot.set_tid(tid);
    let worker = u64::from(tid) << WORKER_SHIFT | u64::from(slot.bell());
    sys::ioctl_number(process.space.fd, IOCTL_WORKER, worker).map(drop)
}

/// `Control::Share`: gives the process id. `own`: the first slot of this process.
pub fn share(
    process: &Process,
    own: u32,
    slot: u32,
    flags: u64,
    pidfd: u64,
    wanted: thread::Wanted,
) -> sys::Result<u32> {
    declare(process, slot_number(own)?, false)?;
    thread::share(slot_number(slot)?, flags, pidfd, wanted)
}

/// A slot that the LWK names.
fn slot_number(slot: u32) -> sys::Result<u32> {
    Some(slot).filter(|slot| *slot < SLOTS_MAX).ok_or(Errno(EINVAL))
}

/// Has the module watch for this process' end; `begin`: the LWK is to run its program.
pub fn declare(process: &Process, slot: u32, begin: bool) -> sys::Result<()> {
    sys::ioctl(process.space.fd, IOCTL_SHARE, &mut Share { slot, begin: begin.into() })
}

/// `Control::ThreadExit`: the thread id 0 says that the slot is not looked at any more.
pub fn end_worker(process: &Process, worker: &Worker) -> ! {
    signal::set_mask(!0);
    worker.forget_lists();
    process.space.window.slot(worker.slot()).set_tid(0);
    thread::end(worker.block)
}

/// `Control::ThreadRenew`: the successors answer, where there is one.
pub fn renew_worker(process: &Process, worker: &Worker, other: u32) -> ! {
    signal::set_mask(!0);
    worker.forget_lists();
    let other = Some(other).filter(|slot| (1..SLOTS_MAX).contains(slot));
    for index in core::iter::once(worker.slot()).chain(other) {
        if let Err(error) = thread::spawn_successor(index) {
            let slot = process.space.window.slot(index);
            slot.set_tid(0);
            answer(process, worker, slot, Answer::Done(-i64::from(error.0)));
        }
    }
    thread::end(worker.block)
}
