//! The end of a process by a signal.

use crate::gate::{observe, ptrace};
use crate::process::{self, thread};
use hanare_abi::control::Control;

/// Ends the process by a signal, on Linux' side too.
pub fn die(signal: u32) {
    crate::sched::hold::at("fatal-signal");
    ptrace::on_exit(thread::current(), signal);
    observe::killed_by(thread::current(), signal);
    process::end_by_request(Control::ExitSignal { signal });
}
