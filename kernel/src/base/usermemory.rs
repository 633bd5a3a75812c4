//! The running program's memory, for what `hanare_core` reads of it.

use hanare_core::usermemory::{Fault, UserMemory};
use hanare_hal::usercopy::{self, UserAddr};

/// The memory of the address space that is loaded.
pub struct Running;

impl UserMemory for Running {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        usercopy::read(UserAddr::of(addr), to).map_err(|_| Fault)
    }

    fn read_string<'a>(&self, addr: u64, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        usercopy::read_string(UserAddr::of(addr), buffer).map_err(|_| Fault)
    }

    // In one piece if it is aligned.
    fn read_u32(&self, addr: u64) -> Result<u32, Fault> {
        usercopy::read_u32(UserAddr::of(addr)).map_err(|_| Fault)
    }
}
