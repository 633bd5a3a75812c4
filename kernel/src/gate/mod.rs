//! What stops a thread before user mode, or looks at it: core dumps, tracers, debuggers, rseq.

pub mod coredump;
pub mod debugregs;
pub mod observe;
pub mod ptrace;
pub mod registers;
pub mod rseq;
