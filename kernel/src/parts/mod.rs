//! Parts of threads and processes for the layers that work on them: the data alone. Types that
//! would name a thread or a process are generic.

pub mod claims;
pub mod cputimers;
pub mod debugregs;
pub mod futexes;
pub mod observed;
pub mod pooled;
pub mod registers;
pub mod ring;
pub mod rseq;
pub mod seccomp;
pub mod signals;
pub mod tracee;
pub mod usage;
pub mod utility;
