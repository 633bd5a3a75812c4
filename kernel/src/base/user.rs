//! Results that go to a program's memory.

use hanare_core::errno::{self, Result};
use hanare_hal::usercopy;

/// Writes a result there; what the call that does so answers.
///
/// # Errors
/// `EFAULT`: the memory cannot be written.
pub fn put(addr: u64, bytes: &[u8]) -> Result<u64> {
    usercopy::write(addr, bytes).map(|()| 0).map_err(|_| errno::EFAULT)
}
