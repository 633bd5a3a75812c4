//! The gate: core dumps, tracers, debuggers and rseq, which stop a thread on its way to user mode
//! or look at it.

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
