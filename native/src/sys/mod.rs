//! Foundation of the crate: system calls, memory, the program's start. The only unsafe code.
#![allow(unsafe_code)]

mod calls;
mod heap;
mod start;

pub use calls::{Fd, RawStatus};
pub(crate) use calls::{
    accept, bind, close, connect, create_socket, directory_entries, exit, fchmod, fstat, listen,
    local_address, mkdirat, openat, proxy, read, renameat, reuse_address, shutdown, stat_at,
    unlinkat, write,
};
pub use heap::Heap;
pub(crate) use start::name;
pub use start::{Program, Strings, run};
