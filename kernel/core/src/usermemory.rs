//! The memory of a program, for what reads it: the kernel's copies, or an array in a test.

/// The memory cannot be read or written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Memory whose owner may change it at any time, between two reads, too.
pub trait UserMemory {
    /// Reads as many bytes as `to` has.
    ///
    /// # Errors
    /// Some of them are not there; `to` may have been written to.
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault>;

    /// Reads a string, without its zero; `None`: it is longer than `buffer`, which is full of it.
    ///
    /// # Errors
    /// The memory ends before the string does.
    fn read_string<'a>(&self, addr: u64, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault>;

    /// Reads a word of 32 bits.
    ///
    /// # Errors
    /// See [`Self::read`].
    fn read_u32(&self, addr: u64) -> Result<u32, Fault> {
        let mut word = [0; 4];
        self.read(addr, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// Reads a word of 64 bits.
    ///
    /// # Errors
    /// See [`Self::read`].
    fn read_u64(&self, addr: u64) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.read(addr, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }
}

/// The memory of a caller, which can also be written.
pub trait CallerMemory: UserMemory {
    /// How many of these bytes, from the first on, can be written to.
    fn writable(&self, addr: u64, bytes: u64) -> u64;

    /// Writes all of `from`.
    ///
    /// # Errors
    /// Some of it cannot be written to.
    fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault>;
}

#[cfg(test)]
pub mod tests {
    //! Memory for the tests of what reads it.

    use super::{Fault, UserMemory};
    use std::vec::Vec;

    /// Memory from address 0 on, without strings.
    pub struct Bytes(pub Vec<u8>);

    impl UserMemory for Bytes {
        fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
            let bytes = self.0.get(addr as usize..addr as usize + to.len()).ok_or(Fault)?;
            to.copy_from_slice(bytes);
            Ok(())
        }

        fn read_string<'a>(&self, _: u64, _: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
            Err(Fault)
        }
    }
}
