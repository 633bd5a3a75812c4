//! Outcomes of calls and control requests that another side executes, and what follows from each
//! (`docs/link.md`).

pub mod kinds;
pub mod pool;
pub mod route;
pub mod search;

use crate::errno::{self, Errno};
use crate::syscalls::Restart;
use hanare_abi::control::Control;

/// A delegated system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Linux' number.
    pub nr: u32,
    /// Arguments of the call.
    pub args: [u64; 6],
    /// For whose sake it is made.
    pub sake: Sake,
}

impl Call {
    /// A call for the thread's own sake.
    #[must_use]
    pub const fn new(nr: u32, args: [u64; 6]) -> Self {
        Self { nr, args, sake: Sake::Thread }
    }

    /// A call for the process' sake, which a thread makes, too, that has to end.
    #[must_use]
    pub const fn of_process(nr: u32, args: [u64; 6]) -> Self {
        Self { nr, args, sake: Sake::Process }
    }
}

/// Last call or request of a thread, by which its process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// A system call.
    Call(Call),
    /// A control request.
    Request(Control),
}

/// For whose sake a thread asks for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sake {
    /// The thread's own: a thread that has to end begins nothing more of this kind.
    Thread,
    /// The process', which goes on when the thread has ended. Examples: memory that has to be the
    /// same on both sides, dispositions, threads that wait.
    Process,
}

/// For whose sake a control request is.
#[must_use]
pub const fn sake(request: &Control) -> Sake {
    match request {
        Control::Serve { .. }
        | Control::Remap { .. }
        | Control::MapPart { .. }
        | Control::SignalAction { .. } => Sake::Process,
        Control::ExitSignal { .. }
        | Control::StartFailed { .. }
        | Control::Execed { .. }
        | Control::TakeMask
        | Control::StopSignal { .. }
        | Control::RequeueSignal { .. }
        | Control::Thread { .. }
        | Control::Server { .. }
        | Control::Member
        | Control::Eventfd { .. }
        | Control::ThreadExit
        | Control::ThreadRenew { .. }
        | Control::Rights { .. }
        | Control::Succeed { .. }
        | Control::Fork { .. }
        | Control::Share { .. }
        | Control::Exec { .. }
        | Control::Filter { .. }
        | Control::Interrupt { .. }
        | Control::Dump
        | Control::DumpRange { .. }
        | Control::DumpThread { .. }
        | Control::Trap { .. } => Sake::Thread,
    }
}

/// State of the asking thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A thread that goes on.
    Runs,
    /// A thread that has to end; its process goes on.
    Ends,
    /// A thread whose process has no proxy any more.
    IsAlone,
}

/// Outcome of a call or a control request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The call was executed, with this result of a Linux system call.
    Done(i64),
    /// The call was not begun, because a signal came first. It is made again after that.
    NotStarted,
    /// The call was not begun: the thread has to end.
    ThreadEnding,
    /// The process has no proxy any more. Whether the call was executed is not known.
    PeerGone,
}

/// Reason why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The call was executed, and failed.
    Refused(Errno),
    /// The call was not begun ([`Outcome::NotStarted`]).
    NotStarted,
    /// The thread has to end ([`Outcome::ThreadEnding`]).
    ThreadEnding,
    /// The process has no proxy any more ([`Outcome::PeerGone`]).
    PeerGone,
}

/// Result of a call whose thread ends before it is in user mode again. No program sees it.
pub const ENDING: Errno = errno::EINTR;

/// At the edge: what a call returns of which the failed one was a part.
impl From<Failure> for Errno {
    fn from(failure: Failure) -> Errno {
        match failure {
            Failure::Refused(e) => e,
            // A part of a call is made again at once, so no program sees this result.
            Failure::NotStarted => errno::EINTR,
            Failure::ThreadEnding | Failure::PeerGone => ENDING,
        }
    }
}

impl Outcome {
    /// The result, or why there is none.
    ///
    /// # Errors
    /// What it says of Linux, or of the thread.
    pub fn result(self) -> Result<u64, Failure> {
        match self {
            Self::Done(value) => {
                Errno::from_return(value).map_or(Ok(value as u64), |e| Err(Failure::Refused(e)))
            }
            Self::NotStarted => Err(Failure::NotStarted),
            Self::ThreadEnding => Err(Failure::ThreadEnding),
            Self::PeerGone => Err(Failure::PeerGone),
        }
    }

    /// Whether the call was executed, and failed with `error`.
    #[must_use]
    pub fn is_refused(self, error: Errno) -> bool {
        self.result() == Err(Failure::Refused(error))
    }

    /// The return of a program's call with this outcome. `restart`: what the call does after an
    /// interruption.
    #[inline]
    #[must_use]
    pub fn of_call(self, restart: Restart) -> Returns {
        match self {
            Self::Done(value) => match Errno::from_return(value) {
                None => Returns::Value(value as u64),
                Some(errno::EINTR) if restart != Restart::Never => Returns::Interrupted(restart),
                Some(e) => Returns::Error(e),
            },
            Self::NotStarted => Returns::Again,
            Self::ThreadEnding | Self::PeerGone => Returns::Never,
        }
    }
}

/// Return of a program's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// The call returns this value.
    Value(u64),
    /// The call returns this error.
    Error(Errno),
    /// The call returns nothing yet: it is made again when the signal that came first has been
    /// delivered.
    Again,
    /// Linux has interrupted the call: it returns `EINTR`, or is made again, as delivery and
    /// handler have it.
    Interrupted(Restart),
    /// The call never returns: its thread ends.
    Never,
}

/// Whether `asker` may begin what it asks for.
///
/// # Errors
/// The outcome, where it may not.
#[inline]
pub const fn may_begin(asker: Asker, sake: Sake) -> Result<(), Outcome> {
    match (asker, sake) {
        (Asker::Runs, _) | (Asker::Ends, Sake::Process) => Ok(()),
        (Asker::Ends, Sake::Thread) => Err(Outcome::ThreadEnding),
        (Asker::IsAlone, _) => Err(Outcome::PeerGone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RESTARTS: [Restart; 5] =
        [Restart::Never, Restart::Sys, Restart::NoHand, Restart::Block, Restart::Interrupted];

    #[test]
    fn only_linux_says_that_it_interrupted_a_call() {
        let eintr = Outcome::Done(errno::EINTR.as_return());
        for restart in RESTARTS {
            let expected = match restart {
                Restart::Never => Returns::Error(errno::EINTR),
                _ => Returns::Interrupted(restart),
            };
            assert_eq!(eintr.of_call(restart), expected);
            assert_eq!(Outcome::NotStarted.of_call(restart), Returns::Again);
            assert_eq!(Outcome::ThreadEnding.of_call(restart), Returns::Never);
            assert_eq!(Outcome::PeerGone.of_call(restart), Returns::Never);
        }
    }

    #[test]
    fn a_thread_that_has_to_end_asks_for_its_process_only() {
        let remap = Control::Remap { start: 0, end: 0 };
        let action = Control::SignalAction {
            signal: 1,
            mirror: hanare_abi::control::Mirror::Default,
            flags: 0,
            ignored: 0,
        };
        for request in [remap, action, Control::Serve { service: 1 }] {
            assert_eq!(may_begin(Asker::Ends, sake(&request)), Ok(()));
            assert_eq!(may_begin(Asker::IsAlone, sake(&request)), Err(Outcome::PeerGone));
        }
        let exit = Control::ExitSignal { signal: 9 };
        assert_eq!(may_begin(Asker::Ends, sake(&exit)), Err(Outcome::ThreadEnding));
        assert_eq!(may_begin(Asker::Runs, sake(&exit)), Ok(()));
        assert_eq!(may_begin(Asker::Ends, Call::new(1, [0; 6]).sake), Err(Outcome::ThreadEnding));
        assert_eq!(may_begin(Asker::Ends, Call::of_process(1, [0; 6]).sake), Ok(()));
        assert_eq!(may_begin(Asker::IsAlone, Sake::Process), Err(Outcome::PeerGone));
    }

    proptest! {
        /// Whatever Linux returns is a result: no value means something else.
        #[test]
        fn every_value_is_a_result(value: i64, restart in prop::sample::select(&RESTARTS[..])) {
            let outcome = Outcome::Done(value);
            let failed = Errno::from_return(value);
            prop_assert_eq!(outcome.result().err(), failed.map(Failure::Refused));
            prop_assert_eq!(failed.is_some_and(|e| outcome.is_refused(e)), failed.is_some());
            match outcome.of_call(restart) {
                Returns::Value(v) => prop_assert_eq!((v as i64, failed), (value, None)),
                Returns::Error(e) => prop_assert_eq!(Some(e), failed),
                Returns::Interrupted(_) => prop_assert_eq!(failed, Some(errno::EINTR)),
                Returns::Again | Returns::Never => prop_assert!(false),
            }
        }

        /// Results like -513, which programs get from F_GETOWN, are no requests to restart a call.
        #[test]
        fn small_negative_values_are_results(value in -4200i64..0) {
            let returned = Outcome::Done(value).of_call(Restart::Sys);
            prop_assert!(!matches!(returned, Returns::Again | Returns::Never));
        }
    }
}
