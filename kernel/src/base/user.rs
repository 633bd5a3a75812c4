//! Reads of a program's memory, and writes of results there. Where the memory cannot be reached a
//! call answers `EFAULT`.

use hanare_core::errno::{self, Result};
use hanare_hal::usercopy;
use zerocopy::{FromBytes, IntoBytes};

pub use hanare_hal::usercopy::UserAddr;

/// Reads a value.
pub fn get<T: FromBytes + IntoBytes>(addr: UserAddr) -> Result<T> {
    let mut value = T::new_zeroed();
    read(addr, value.as_mut_bytes())?;
    Ok(value)
}

/// Reads as many bytes as `to` has.
pub fn read(addr: UserAddr, to: &mut [u8]) -> Result<()> {
    usercopy::read(addr, to).map_err(|_| errno::EFAULT)
}

/// Writes a result; what the call that does so answers.
pub fn put(addr: UserAddr, bytes: &[u8]) -> Result<u64> {
    usercopy::write(addr, bytes).map(|()| 0).map_err(|_| errno::EFAULT)
}
