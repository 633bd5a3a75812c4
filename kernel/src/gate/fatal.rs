//! The end of a process by a signal.

use crate::gate::{observe, ptrace};
use crate::process::{self, thread};
use hanare_abi::slot::OP_EXIT_SIGNAL;

/// Ends the process by a signal, on Linux' side too.
pub fn die(signal: u32) {
    crate::sched::hold::at("fatal-signal");
    ptrace::on_exit(thread::current(), signal);
    observe::killed_by(thread::current(), signal);
    process::end_by_last_call(OP_EXIT_SIGNAL, [u64::from(signal), 0, 0, 0, 0, 0]);
}
