//! The end of a process by a signal.

use crate::gate::{observe, ptrace};
use crate::process::{self, thread::Thread};
use hanare_abi::control::Control;

/// Ends the process of the running thread `thread` by a signal, on Linux' side too.
pub fn die(thread: &Thread, signal: u32) {
    crate::sched::hold::at("fatal-signal");
    ptrace::on_exit(thread, signal);
    observe::killed_by(thread, signal);
    process::end_by_request(thread, Control::ExitSignal { signal });
}
