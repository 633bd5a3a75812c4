//! A system call, as its handler gets it.

use crate::base::user::UserAddr;
use crate::process::Process;
use crate::process::spaces::ProcessSpace;
use crate::process::thread::Thread;
use crate::route;
use alloc::sync::Arc;
use hanare_core::errno::Result;
use hanare_core::syscalls::Row;
use hanare_hal::traps::Regs;

/// A call of the running thread.
pub struct Context<'a> {
    /// The running thread.
    pub thread: &'static Thread,
    /// The thread's process.
    pub process: &'static Arc<Process>,
    /// The process' space, with all processes that have the space.
    pub space: &'static ProcessSpace,
    /// The call's row in the table.
    pub row: &'static Row,
    /// Arguments.
    pub args: [u64; 6],
    /// Registers of user mode. A handler that replaces them answers [`Served::Replaced`].
    pub regs: &'a mut Regs,
}

/// Outcome of a handler.
pub enum Served {
    /// The call has this result.
    Answered(Result<u64>),
    /// The registers are another context's (exec, sigreturn, exit).
    Replaced,
}

/// The function that serves a call.
pub type Handler = fn(&mut Context<'_>) -> Served;

/// The handlers of a family of calls, each with the number of its call.
pub type Family = &'static [(u32, Handler)];

impl Context<'_> {
    /// A call of the running thread `thread` with these registers.
    pub fn new<'a>(thread: &'static Thread, row: &'static Row, regs: &'a mut Regs) -> Context<'a> {
        let process = &thread.process;
        let (space, args) = (&*process.space, regs.arguments());
        Context { thread, process, space, row, args, regs }
    }

    /// Has Linux execute the call as it is, see [`route::call`].
    pub fn forward(&self) -> Result<u64> {
        route::call(self.thread, self.row, self.args)
    }

    /// An argument that is an address of the program's.
    pub fn address(&self, argument: usize) -> UserAddr {
        UserAddr::of(self.args[argument])
    }
}

/// `CALLS`, the handlers of a file: for each number an expression of type `Result<u64>`, of the
/// context `$call`.
macro_rules! handlers {
    ($call:ident: $($number:ident => $result:expr,)*) => {
        /// The handlers of this file.
        #[allow(unused_variables)] // of a call that needs nothing of its context
        pub const CALLS: $crate::calls::context::Family = &[$((
            linux_raw_sys::general::$number,
            |$call| $crate::calls::context::Served::Answered($result),
        )),*];
    };
}
pub(crate) use handlers;
