//! The result of a delegated call, made of its outcome.

use crate::gate::ptrace;
use crate::parts::signals::Interrupted;
use crate::process::thread::Thread;
use hanare_core::errno::{self, Errno, Result};
use hanare_core::link::{ENDING, Outcome, Returns};
use hanare_core::syscalls::{self, Restart};

/// Like [`of`], for an outcome that comes with whether a server of the request box executed the
/// call, which a signal interrupted.
#[cold]
pub fn by(me: &Thread, number: u32, args: &[u64; 6], outcome: (Outcome, bool)) -> Result<u64> {
    let (outcome, by_signal) = outcome;
    let restart = syscalls::row(number.into()).map_or(Restart::Never, |row| row.restart);
    if by_signal && restart == Restart::Sys && outcome.is_refused(errno::EINTR) {
        // Linux has not seen the flags of the signal that interrupted it: the handler's SA_RESTART
        // decides.
        me.signals.lock().set_interrupted(Interrupted::Local(restart));
        return Err(errno::EINTR);
    }
    of(me, number, args, outcome)
}

/// The result of a call of the running thread `me` with the arguments `args`.
#[inline(always)]
pub fn of(me: &Thread, number: u32, args: &[u64; 6], outcome: Outcome) -> Result<u64> {
    match outcome {
        Outcome::Done(value) if Errno::from_return(value).is_none() => Ok(value as u64),
        outcome => not_done(me, number, args, outcome),
    }
}

/// The result of a call that has failed, or was not executed, or not to its end.
#[cold]
fn not_done(me: &Thread, number: u32, args: &[u64; 6], outcome: Outcome) -> Result<u64> {
    let restart = syscalls::row(number.into()).map_or(Restart::Never, |row| row.restart);
    let interrupted = match outcome.of_call(restart) {
        Returns::Value(value) => return Ok(value),
        // A call that Linux could not do and the LWK can. A native task's descriptors are not those
        // of its own proxy.
        Returns::Error(errno::EIO) if !me.process.pool.is_packed() => {
            return ptrace::memory_file(me, number, args);
        }
        Returns::Error(e) => return Err(e),
        Returns::Never => return Err(ENDING),
        Returns::Again => Interrupted::NotStarted,
        Returns::Interrupted(restart) => Interrupted::Started(restart),
    };
    me.signals.lock().set_interrupted(interrupted);
    Err(errno::EINTR) // unless delivery has it made again
}
