//! Exit statuses and the one line that says what went wrong.

use std::fmt;

use crate::output;

/// A command failed.
pub const FAILED: i32 = 1;
/// The command line was wrong.
pub const USAGE: i32 = 2;
/// `hanare run`, `trace` and `gdb`: Hanare itself failed, a wrong command line included.
pub const HANARE: i32 = 125;
/// `hanare run`: the program exists but cannot be run.
pub const CANNOT_RUN: i32 = 126;
/// `hanare run`: there is no such program.
pub const NOT_FOUND: i32 = 127;

/// An error with an exit status of its own.
#[derive(Debug)]
pub struct WithStatus {
    /// Exit status.
    pub status: i32,
    /// Text to print on standard error.
    pub message: String,
}

impl fmt::Display for WithStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for WithStatus {}

/// A wrong command line that is noticed late.
pub fn wrong_usage(message: String) -> anyhow::Error {
    WithStatus { status: USAGE, message }.into()
}

/// Prints the error as one line; gives the exit status, `otherwise` if it has none.
pub fn report(error: &anyhow::Error, otherwise: i32) -> i32 {
    output::complain(format_args!("hanare: {}\n", format!("{error:#}").replace('\n', " ")));
    error.downcast_ref::<WithStatus>().map_or(otherwise, |error| error.status)
}
