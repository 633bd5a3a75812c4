//! What the rest of the kernel stands on: log, memory, time.

pub mod accounts;
pub mod badmemory;
pub mod chain;
pub mod failing;
pub mod frames;
pub mod heap;
pub mod log;
pub mod pages;
pub mod stacks;
pub mod time;
