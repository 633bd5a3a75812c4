//! The start block (`hanare_abi::start`), which a proxy writes, and which may say anything.

use hanare_abi::layout::START_SIZE;
use hanare_abi::start::{START_COPIED, START_MAPPED, StartBlock};

use crate::errno::{EINVAL, Result};

/// The header as its bytes have it.
#[must_use]
pub fn header(bytes: &[u8; size_of::<StartBlock>()]) -> StartBlock {
    let mut fields = Fields(bytes);
    // In the order in which they lie there, without a gap (see the tests).
    StartBlock {
        magic: fields.u64(),
        version: fields.u32(),
        strings_offset: fields.u32(),
        total_size: fields.u64(),
        argc: fields.u32(),
        envc: fields.u32(),
        secure: fields.u32(),
        control_fd: fields.u32(),
        sigmask: fields.u64(),
        sigignore: fields.u64(),
        stack_soft: fields.u64(),
        stack_hard: fields.u64(),
        as_soft: fields.u64(),
        data_soft: fields.u64(),
        random: fields.take(),
        hwcap: fields.u64(),
        hwcap2: fields.u64(),
        clktck: fields.u64(),
        flags: fields.u64(),
        cpu_soft: fields.u64(),
        cpu_hard: fields.u64(),
    }
}

/// Whether arguments of the program's calls are to be copied; `None`: as is usual in the instance.
#[must_use]
pub const fn copies(block: &StartBlock) -> Option<bool> {
    match (block.flags & START_COPIED != 0, block.flags & START_MAPPED != 0) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// The bytes of a header that have not been read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("a header has all its fields");
        self.0 = rest;
        *field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

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
    /// Strings of a start block: path, arguments, environment.
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
    use core::mem::offset_of;

    /// Bytes that are all different, so that a field read from a wrong place has another value.
    #[test]
    fn each_field_of_a_header_is_read_from_its_offset() {
        let bytes = core::array::from_fn(|i| i as u8);
        let block = header(&bytes);
        macro_rules! check {
            ($($field:ident: $type:ty),+) => {
                $(
                    let at = offset_of!(StartBlock, $field);
                    let (own, _) = bytes[at..].split_first_chunk().expect("inside");
                    assert_eq!(block.$field, <$type>::from_le_bytes(*own), stringify!($field));
                )+
                let sizes = [$(size_of::<$type>()),+].iter().sum::<usize>();
                assert_eq!(sizes + block.random.len(), size_of::<StartBlock>(), "no field is left out");
            };
        }
        check!(magic: u64, version: u32, strings_offset: u32, total_size: u64, argc: u32, envc: u32, secure: u32,
            control_fd: u32, sigmask: u64, sigignore: u64, stack_soft: u64, stack_hard: u64,
            as_soft: u64, data_soft: u64, hwcap: u64, hwcap2: u64, clktck: u64, flags: u64,
            cpu_soft: u64, cpu_hard: u64);
        let at = offset_of!(StartBlock, random);
        assert_eq!(block.random, bytes[at..at + 32]);
    }

    #[test]
    fn a_string_ends_with_a_zero() {
        let mut strings = Strings::new(b"/bin/a\0\0b");
        assert_eq!([strings.take(), strings.take()], [Ok(&b"/bin/a"[..]), Ok(&b""[..])]);
        assert_eq!(strings.take(), Err(EINVAL));
        assert_eq!(Strings::new(b"").take(), Err(EINVAL));
    }
}
