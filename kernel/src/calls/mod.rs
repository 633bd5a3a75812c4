//! The handlers of the system call table's rows, a file for each family; `dispatch.rs` finds the
//! row.

pub mod aio;
pub mod clocktimers;
pub mod delegated;
pub mod dispatch;
pub mod futex;
pub mod itimer;
pub mod local;
pub mod machine;
pub mod madvise;
pub mod mempolicy;
pub mod mlock;
pub mod mmap;
pub mod mremap;
pub mod notified;
pub mod prctl;
pub mod rlimits;
pub mod seccomp;
pub mod shm;
pub mod sleep;
pub mod waitv;
