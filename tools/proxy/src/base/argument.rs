//! Strings that an execve hands on.

use core::fmt::{self, Write};

/// A string of less than `N` bytes, ended by a zero.
pub struct Argument<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Argument<N> {
    /// An empty string, to be written.
    pub const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    /// The bytes, with zeros behind them.
    pub const fn bytes(&self) -> &[u8; N] {
        &self.bytes
    }
}

impl<const N: usize> Write for Argument<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1;
        let to =
            self.bytes[..room].get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}
