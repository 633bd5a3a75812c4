//! Interface between a driver of the LWK's own and the rest of the kernel.

use crate::parts::claims::Claim;
use hanare_core::claims::Device;
use hanare_hal::usercopy::UserAddr;

/// A read or a write of a claimed descriptor.
pub struct Access {
    /// The program's buffer, which may be anywhere.
    pub buffer: UserAddr,
    /// Length of the buffer, bytes: any number.
    pub bytes: u64,
}

/// Result of a call.
pub enum Answer {
    /// The driver has executed it: what the call is to the program, a number of bytes or a negative
    /// errno.
    Done(i64),
    /// The driver has done nothing: Linux executes it.
    Linux,
}

/// A driver. Its functions run on any CPU, several at a time, and may wait (`sched::cpus::until`).
///
/// Whatever a function leaves out is Linux'. Calls come only of descriptors that the driver has
/// claimed.
pub trait Driver: Sync {
    /// The device that it has in this instance. It does not change.
    fn device(&self) -> Option<Device>;

    /// Whether it claims a descriptor of its device that was opened just now.
    fn claims(&self, _claim: &Claim) -> bool {
        true
    }

    /// read(2), pread64(2) of a descriptor that is open for reading.
    fn read(&self, _access: &Access) -> Answer {
        Answer::Linux
    }

    /// write(2), pwrite64(2) of a descriptor that is open for writing.
    fn write(&self, _access: &Access) -> Answer {
        Answer::Linux
    }
}
