//! Waiting for a child's proxy to come.
//!
//! A machine may stand still for a while, so a late proxy means nothing. The end of a child that
//! dies before it has come is not told. So Linux is asked now and then whether the child is still
//! there. A child that Linux has stopped (a frozen control group, SIGSTOP) may never come. Its
//! maker goes on, as on Linux, and the module tells its end.

use crate::link::{delegate, services};
use crate::process::thread::Thread;
use crate::sched::cpus;
use hanare_abi::service::SERVICE_CHILD;
use hanare_core::errno;
use hanare_hal::cpu;
use linux_raw_sys::general::{
    __NR_tgkill, __NR_waitid, __WALL, P_PID, WEXITED, WNOHANG, WNOWAIT, siginfo_t,
};

/// Time between two questions to Linux, ns.
const LOOK_NS: u64 = 100_000_000;

/// Most questions where Linux does not say of this child whether it lives.
const LOOKS: u32 = 100;

/// Waits for a child by `wait`, which comes back early or at the TSC value that it is given.
///
/// The wait ends when `wait` has come back early, when `has_come` holds, or when Linux has the
/// child `pid` no more. It ends, too, after `LOOKS` questions that Linux cannot answer, or when
/// `entrust` says that the maker may go on without the child. Gives whether `entrust` did.
pub fn await_child(
    me: &Thread,
    pid: u64,
    has_come: impl Fn() -> bool,
    wait: impl Fn(u64),
    entrust: impl Fn() -> bool,
) -> bool {
    let mut unknown = 0;
    loop {
        let look = cpus::deadline(LOOK_NS);
        wait(look);
        if has_come() || cpu::rdtsc() < look {
            return false;
        }
        match has_ended(me, pid) {
            Some(false) => {}
            None if unknown < LOOKS => unknown += 1,
            Some(true) | None => return false,
        }
        if entrust() {
            return true;
        }
    }
}

/// Has the module tell the end of the child `pid`, if Linux has stopped that. The child is to have
/// the slot, of the running process' space. Where that is 0, it is to have a space of its own, by
/// the token.
pub fn is_watched(me: &Thread, pid: u64, slot: u32, token: u64) -> bool {
    services::by_worker(me, SERVICE_CHILD, &[pid, slot.into(), token], &[]).is_ok()
}

/// Whether Linux has a child with this id no more, or has it as a zombie only. `None`: that cannot
/// be told.
fn has_ended(me: &Thread, pid: u64) -> Option<bool> {
    const OPTIONS: u64 = WEXITED as u64 | (WNOHANG | WNOWAIT | __WALL) as u64;
    let p = &me.process;
    let info = me.write_scratch(&[0; size_of::<siginfo_t>()]).ok()?;
    match delegate::for_process(me, __NR_waitid, [P_PID.into(), pid, info, OPTIONS, 0, 0]) {
        Ok(_) => Some(p.memory().control::<u32>(info) != 0), // si_signo: nothing where it lives
        // It has been waited for, or it is our sibling (CLONE_PARENT), which as a zombie is there,
        // too.
        Err(errno::ECHILD) => {
            let found = delegate::for_process(me, __NR_tgkill, [pid, pid, 0, 0, 0, 0]);
            (found == Err(errno::ESRCH)).then_some(true)
        }
        Err(_) => None,
    }
}
