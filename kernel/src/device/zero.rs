//! The tests' driver: boot option `claim=MAJOR:MINOR` gives it a character device, of which it
//! touches nothing. It reads zeros and writes to nowhere, as `/dev/zero` does, whatever Linux'
//! driver would.

use super::driver::{Access, Answer, Driver};
use super::granted::Granted;
use hanare_core::errno;
use hanare_hal::usercopy::{self, UserAddr};

/// Most bytes of one call, as Linux has it.
const BYTES_MAX: u64 = 0x7fff_f000;
/// Bytes that are written to the program's memory at a time.
const CHUNK: usize = 256;

/// The driver.
pub struct Zero;

impl Driver for Zero {
    fn name(&self) -> &'static str {
        "zero"
    }

    fn begin(&self, _granted: &'static Granted) -> Result<(), &'static str> {
        Ok(())
    }

    fn read(&self, access: &Access<'_>) -> Answer {
        Answer::Done(zero(access.buffer.get(), access.bytes.min(BYTES_MAX)))
    }

    fn write(&self, access: &Access<'_>) -> Answer {
        Answer::Done(access.bytes.min(BYTES_MAX) as i64)
    }
}

/// Writes zeros to the program's memory: how many, or `EFAULT`.
fn zero(buffer: u64, bytes: u64) -> i64 {
    let mut done = 0;
    while done < bytes {
        let part = &[0; CHUNK][..CHUNK.min((bytes - done) as usize)];
        if usercopy::write(UserAddr::behind(buffer, done), part).is_err() {
            break;
        }
        done += part.len() as u64;
    }
    if done == 0 && bytes != 0 { errno::EFAULT.as_return() } else { done as i64 }
}
