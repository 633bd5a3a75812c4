//! Strings in fixed fields.

use hanare_abi::ioctl::NAME_SIZE;

use crate::{Error, Result};

/// Longest instance name in bytes.
pub const NAME_LENGTH_MAX: usize = NAME_SIZE - 1;

/// Whether an instance can have this name; the error says what is allowed.
pub fn check_name(text: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // One that begins otherwise looks like an option, or is a folder's.
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !begins_well || text.len() > NAME_LENGTH_MAX || !text.bytes().all(allowed) {
        return Err(Error::Name(text.into()));
    }
    Ok(())
}

/// An instance name as the ABI has it, checked.
pub(crate) fn name(text: &str) -> Result<[u8; NAME_SIZE]> {
    check_name(text)?;
    Ok(field(text.as_bytes()))
}

/// Bytes with zeros behind; they must fit with one zero at least.
pub(crate) fn field<const N: usize>(bytes: &[u8]) -> [u8; N] {
    assert!(bytes.len() < N);
    let mut field = [0; N];
    field[..bytes.len()].copy_from_slice(bytes);
    field
}

/// What stands before the first zero, as text of one line.
pub(crate) fn from_bytes(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_instances_are_checked() {
        for good in ["default", "a", "3", "node-1_x.y", &"n".repeat(31)] {
            assert_eq!(from_bytes(&name(good).unwrap()), good);
        }
        for bad in ["", "a b", "ä", "a/b", "-a", ".", "_x", &"n".repeat(32)] {
            assert!(matches!(name(bad), Err(Error::Name(_))), "{bad}");
        }
    }

    #[test]
    fn text_ends_at_zero_or_at_the_end() {
        assert_eq!(from_bytes(b"abc\0def"), "abc");
        assert_eq!(from_bytes(b"abc\n"), "abc");
        assert_eq!(from_bytes(&[0xff, 0]), "\u{fffd}");
    }
}
