//! Attributes as a program of C passes them.

use crate::engine::attributes::{Attributes, Cpus, spread};
use crate::engine::{Error, error};

impl Attributes {
    /// Reads the attributes of a program, which may know fewer or more fields than the library, and
    /// the CPUs that they name.
    ///
    /// # Errors
    /// EINVAL, or E2BIG: it wants something that this library does not know.
    ///
    /// # Safety
    /// At `from` there are as many bytes as its first word says, and at `cpus` as many numbers as
    /// `cpus_count` says.
    pub(super) unsafe fn read(from: *const Self) -> Result<(Self, Cpus), Error> {
        let mut attributes = Self::default();
        if from.is_null() {
            return Ok((attributes, spread(&[])));
        }
        // SAFETY: the first word is there.
        let size = unsafe { (&raw const (*from).size).read() } as usize;
        if size < size_of::<u32>() || size > 4096 {
            return error(libc::EINVAL);
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: the caller says that they are there; ours are as many at least.
        let rest = unsafe {
            let (from, to) = (from.cast::<u8>(), (&raw mut attributes).cast::<u8>());
            from.copy_to_nonoverlapping(to, known);
            std::slice::from_raw_parts(from.add(known), size - known)
        };
        if rest.iter().any(|&byte| byte != 0) {
            return error(libc::E2BIG);
        }
        attributes.check()?;
        let cpus = match attributes.cpus_count as usize {
            0 => &[],
            // SAFETY: the caller says that there are so many; `check` has looked for none.
            count => unsafe { std::slice::from_raw_parts(attributes.cpus.address(), count) },
        };
        Ok((attributes, spread(cpus)))
    }
}
