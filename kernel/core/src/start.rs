//! The start block (`hanare_abi::start`), which a proxy writes, and which may say anything.

use hanare_abi::layout::START_SIZE;
use hanare_abi::start::StartBlock;

use crate::errno::{EINVAL, Result};

/// Bytes of the strings behind the header. The block has been copied and does not change.
///
/// # Errors
/// `EINVAL`: it is none, that of another version, or larger than its place.
pub fn strings_size(block: &StartBlock) -> Result<u64> {
    let ok = block.magic == hanare_abi::MAGIC
        && block.version == hanare_abi::VERSION
        && u64::from(block.strings_offset) >= size_of::<StartBlock>() as u64
        && block.total_size <= START_SIZE;
    let size = block.total_size.checked_sub(u64::from(block.strings_offset));
    size.filter(|_| ok).ok_or(EINVAL)
}

/// The zero-terminated strings in some bytes, one after the other.
#[derive(Clone, Debug)]
pub struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    /// Those of a start block: path, arguments, environment.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next one, without its zero.
    ///
    /// # Errors
    /// `EINVAL`: there is no zero any more.
    pub fn take(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(EINVAL)?;
        let (string, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_with_a_zero() {
        let mut strings = Strings::new(b"/bin/a\0\0b");
        assert_eq!([strings.take(), strings.take()], [Ok(&b"/bin/a"[..]), Ok(&b""[..])]);
        assert_eq!(strings.take(), Err(EINVAL));
        assert_eq!(Strings::new(b"").take(), Err(EINVAL));
    }
}
