//! An access to memory: what the CPU says of one that faulted, and what it ends with.

/// Error code bits of a page fault (SDM volume 3, 4.7): the access was a write.
pub const WRITE: u64 = 2;
/// The access came from user mode.
pub const USER: u64 = 4;
/// The access was an instruction fetch.
pub const FETCH: u64 = 16;

/// Errors of an access that cannot be served: the signal that the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGSEGV, SEGV_MAPERR: nothing is mapped there.
    NotMapped,
    /// SIGSEGV, SEGV_ACCERR: not with these rights.
    NotAllowed,
    /// SIGBUS, BUS_ADRERR: behind the end of the file.
    Bus,
    /// Out of memory: the process is killed.
    NoMemory,
    /// SIGBUS, BUS_MCEERR_AR: the memory was bad, what was in it is lost.
    BadMemory,
}
