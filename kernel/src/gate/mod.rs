//! What stops a thread before user mode, or looks at it: core dumps, tracers, debuggers, rseq.

pub mod coredump;
pub mod debugregs;
pub mod deliver;
pub mod expiry;
pub mod fatal;
pub mod observe;
pub mod park;
pub mod ptrace;
pub mod raise;
pub mod rseq;
