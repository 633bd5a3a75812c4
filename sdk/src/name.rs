//! Names of instances.

use hanare_abi::ioctl::NAME_SIZE;

use crate::{Error, Result, text};

/// Longest instance name in bytes.
pub const NAME_LENGTH_MAX: usize = NAME_SIZE - 1;

/// Whether an instance can have this name; the error says what is allowed.
pub fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // One that begins otherwise looks like an option, or is a folder's.
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !begins_well || name.len() > NAME_LENGTH_MAX || !name.bytes().all(allowed) {
        return Err(Error::Name(name.into()));
    }
    Ok(())
}

/// A checked name as the ABI has it.
pub(crate) fn field(name: &str) -> Result<[u8; NAME_SIZE]> {
    check_name(name)?;
    Ok(text::field(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_instances_are_checked() {
        for good in ["default", "a", "3", "node-1_x.y", &"n".repeat(31)] {
            assert_eq!(text::from_bytes(&field(good).unwrap()), good);
        }
        for bad in ["", "a b", "ä", "a/b", "-a", ".", "_x", &"n".repeat(32)] {
            assert!(matches!(field(bad), Err(Error::Name(_))), "{bad}");
        }
    }
}
