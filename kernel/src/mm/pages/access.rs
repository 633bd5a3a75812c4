//! An access to memory: what the CPU says of one that faulted, and what it ends with.

use hanare_core::vma::Prot;
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::UserAddr;

/// Error code bits of a page fault (SDM volume 3, 4.7): the access was a write.
pub const WRITE: u64 = 2;
/// The access came from user mode.
pub const USER: u64 = 4;
/// The access was an instruction fetch.
pub const FETCH: u64 = 16;

/// An access that faulted.
#[derive(Clone, Copy, Debug)]
pub struct FaultInfo {
    /// The address that was accessed.
    pub addr: UserAddr,
    /// The right that the access needs.
    pub wanted: Prot,
    /// The access comes again if it is not served: then a signal need not wait.
    pub may_come_again: bool,
}

impl FaultInfo {
    /// The access to `addr`, with the error code of the CPU's page fault.
    pub fn of(addr: UserAddr, error: u64, may_come_again: bool) -> FaultInfo {
        let wanted = if error & FETCH != 0 {
            Prot::EXEC
        } else if error & WRITE != 0 {
            Prot::WRITE
        } else {
            Prot::READ
        };
        FaultInfo { addr, wanted, may_come_again }
    }

    /// The address of the page.
    pub const fn page(&self) -> u64 {
        self.addr.get() & !(SMALL - 1)
    }

    /// Whether the access writes.
    pub const fn writes(&self) -> bool {
        self.wanted.contains(Prot::WRITE)
    }

    /// Whether a mapping with these rights allows the access. x86 pages that can be written or
    /// executed can be read.
    pub fn is_allowed(&self, prot: Prot) -> bool {
        if self.wanted == Prot::READ { !prot.is_empty() } else { prot.contains(self.wanted) }
    }
}

/// Errors of an access that cannot be served: the signal that the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGSEGV, SEGV_MAPERR: nothing is mapped there.
    NotMapped,
    /// SIGSEGV, SEGV_ACCERR: the mapping has not these rights.
    NotAllowed,
    /// SIGBUS, BUS_ADRERR: behind the end of the file.
    Bus,
    /// Out of memory: the process is killed.
    NoMemory,
    /// SIGBUS, BUS_MCEERR_AR: the memory was bad, what was in it is lost.
    BadMemory,
}
