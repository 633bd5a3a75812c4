//! The handlers of the system call table's rows, a file for each family; `dispatch.rs` finds the
//! row.

pub mod affinity;
pub mod aio;
pub mod clocks;
pub mod clocktimers;
pub mod context;
pub mod delegated;
pub mod dispatch;
pub mod execve;
pub mod futex;
pub mod handlers;
pub mod identity;
pub mod itimer;
pub mod machine;
pub mod madvise;
pub mod membarrier;
pub mod mempolicy;
pub mod mlock;
pub mod mmap;
pub mod mremap;
pub mod notified;
pub mod pinned;
pub mod prctl;
pub mod processes;
pub mod rlimits;
pub mod robust;
pub mod seccomp;
pub mod shm;
pub mod signals;
pub mod sleep;
pub mod usage;
pub mod waitv;
