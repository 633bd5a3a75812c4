//! Calls about which a listener decides (SECCOMP_RET_USER_NOTIF, `docs/seccomp.md`).
//!
//! A call that the worker makes as it is needs nothing here. Linux tells the listener, by the
//! filter that the worker has there, and does what that says. Other calls the LWK serves itself, or
//! a worker may make them whatever its filter says. The listener is told of those by a call that
//! stands for them:
//!
//! * The module knows the call by a number (`SERVICE_NOTIFY`).
//! * The worker makes `NR_NOTIFY` with the number, of which Linux tells the listener.
//! * The module says whether the listener has let the call go on (`SERVICE_CONTINUED`).
//!
//! The worker's answer counts for nothing but the call's value.

use crate::life::depart;
use crate::link::{direct, services};
use crate::parts::signals::Interrupted;
use crate::process::thread::Thread;
use crate::signal::dispositions;
use hanare_abi::service::{
    CALL_WORDS, NOTIFY_ALONE, NOTIFY_EXECVE, SERVICE_CONTINUED, SERVICE_NOTIFY,
};
use hanare_abi::slot::NR_NOTIFY;
use hanare_core::errno::{self, Errno};
use hanare_core::link::{Call, ENDING, Failure, Outcome};
use hanare_core::seccomp::notified::{Way, way};
use hanare_core::syscalls::{self, Row};
use hanare_hal::traps::Regs;

/// The way in which a call goes on, after its listener was asked where necessary.
pub enum Decision {
    /// The LWK serves the call as ever.
    GoesOn,
    /// The call is an execve, about which the listener is asked when the worker makes it. One that
    /// fails needs [`forget`].
    Departs(u64),
    /// The call is made on Linux, and the LWK has no part in it.
    Plainly(&'static Row),
    /// The call is not made: `rax` gets this value.
    Answered(u64),
}

/// Has a listener decide about a call of the running thread `me`.
pub fn ask(me: &Thread, regs: &Regs, listener: u64) -> Decision {
    let (number, args) = (regs.orig_rax as u32, regs.arguments());
    let row = syscalls::row(number.into());
    let control_fd = me.process.identity.lock().control_fd;
    let filter = me.seccomp.with_listener(listener);
    if filter.as_ref().is_some_and(|f| f.waits) {
        dispositions::end_on_linux(me);
    }
    // The worker's execve has other arguments than the program's.
    let notifies = || filter.as_ref().is_some_and(|f| f.always_notifies(number));
    let departs = || depart::is_needed(me) && notifies();
    match way(row, &args, control_fd, departs) {
        Way::AsEver => Decision::GoesOn,
        Way::Plainly => row.map_or(Decision::GoesOn, Decision::Plainly),
        Way::Execve => match tell(me, regs, listener, NOTIFY_EXECVE) {
            Ok(call) => Decision::Departs(call),
            Err(answered) => answered,
        },
        Way::Apart => match tell(me, regs, listener, NOTIFY_ALONE) {
            Ok(call) => decided(me, listener, call),
            Err(answered) => answered,
        },
    }
}

/// An execve that failed, perhaps before Linux has heard of it: what the module knows is for no
/// later one.
pub fn forget(me: &Thread, listener: u64, call: u64) {
    // One that succeeded ends the thread, whose worker is another program's.
    if !me.must_end() {
        let _ = services::by_worker(me, SERVICE_CONTINUED, &[listener, call], &[]);
    }
}

/// Has the module know the call of the running thread `me`: the number by which it does.
fn tell(me: &Thread, regs: &Regs, listener: u64, how: u64) -> Result<u64, Decision> {
    let mut words = [0; CALL_WORDS];
    (words[0], words[1]) = (regs.orig_rax & 0xffff_ffff, regs.rip);
    words[2..].copy_from_slice(&regs.arguments());
    let (process, tid) = (me.process.first_slot.into(), me.tid().into());
    let told = services::by_worker_unless_signalled(
        me,
        SERVICE_NOTIFY,
        &[listener, how, process, tid],
        &words,
    );
    told.map(|answer| answer.status).map_err(|why| failed(me, why))
}

fn failed(me: &Thread, why: Failure) -> Decision {
    match why {
        Failure::NotStarted => again(me),
        why => error(why.into()),
    }
}

const fn error(e: Errno) -> Decision {
    Decision::Answered(e.as_return() as u64)
}

/// A signal came: the call is made again when it has been delivered, as it is where a listener is
/// left without an answer.
fn again(me: &Thread) -> Decision {
    me.signals.lock().set_interrupted(Interrupted::NotStarted);
    error(errno::EINTR)
}

/// Asks the listener about a call that the module knows by the number `call`.
fn decided(me: &Thread, listener: u64, call: u64) -> Decision {
    match direct::call(me, Call::new(NR_NOTIFY, [call, 0, 0, 0, 0, 0])) {
        // There is no such call: it has gone on, or the listener is gone, or says so.
        Outcome::Done(value) if Errno::from_return(value) == Some(errno::ENOSYS) => {
            match services::by_worker(me, SERVICE_CONTINUED, &[listener, call], &[]) {
                Ok(answer) if answer.status == 1 => Decision::GoesOn,
                Ok(_) | Err(Failure::Refused(_)) => error(errno::ENOSYS),
                Err(why) => failed(me, why),
            }
        }
        Outcome::Done(value) => Decision::Answered(value as u64),
        Outcome::NotStarted => again(me),
        Outcome::ThreadEnding | Outcome::PeerGone => error(ENDING),
    }
}
