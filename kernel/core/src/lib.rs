//! The LWK's logic: everything that can be decided without touching hardware,
//! and is therefore tested on the host.
//!
//! `kernel/` wires it to `kernel/hal`; nothing here knows page tables, locks or
//! CPUs. Locking is the caller's: every structure is plain data behind `&mut`.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod wrong;

pub mod account;
pub mod addr;
pub mod bandwidth;
pub mod binfmt;
pub mod bounce;
pub mod buddy;
pub mod claims;
pub mod clone;
pub mod coherence;
pub mod cpulist;
pub mod cputimer;
pub mod debugregs;
pub mod directed;
pub mod elf;
pub mod entropy;
pub mod errno;
pub mod fair;
pub mod framekind;
pub mod futex;
pub mod gate;
pub mod groups;
pub mod grouptable;
pub mod ledger;
pub mod life;
pub mod limits;
pub mod link;
pub mod lists;
pub mod machinecheck;
pub mod marshal;
pub mod mempolicy;
pub mod mitigations;
pub mod mmap;
pub mod native;
pub mod nodes;
pub mod nvme;
pub mod options;
pub mod pagemap;
pub mod pagerange;
pub mod pat;
pub mod pins;
pub mod ptrace;
pub mod quarantine;
pub mod rangeset;
pub mod ratelimit;
pub mod rlimits;
pub mod rseq;
pub mod rss;
pub mod script;
pub mod seccomp;
pub mod shortage;
pub mod signal;
pub mod stack;
pub mod start;
pub mod syscalls;
pub mod sysfs;
pub mod time;
pub mod transfers;
pub mod transport;
pub mod turns;
pub mod userlimits;
pub mod usermemory;
pub mod vma;

pub use errno::{Errno, Result};
