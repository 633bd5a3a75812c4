//! The heads of messages and of their pages, as bytes.

use hanare_abi::message::{MESSAGE_PAGE_HEAD_SIZE, MESSAGE_PAGE_SIZE, MessageHead, MessagePage};

/// Most entries of a list of `struct iovec` or `struct mmsghdr` (IOV_MAX).
pub const VECTORS_MAX: u64 = 1024;
/// Most bytes of a string, with its zero (PATH_MAX); Linux refuses longer ones.
pub const TEXT_MAX: usize = 4096;
/// End of a program's addresses.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// Bytes of a message's head.
pub const HEAD_BYTES: usize = size_of::<MessageHead>();
/// Bytes of a page.
pub const PAGE_BYTES: usize = MESSAGE_PAGE_SIZE as usize;
/// Bytes of a page's head.
pub const PAGE_HEAD_BYTES: usize = MESSAGE_PAGE_HEAD_SIZE as usize;
/// Bytes of a message in each page.
pub const PAYLOAD_BYTES: usize = PAGE_BYTES - PAGE_HEAD_BYTES;

const _: () = assert!(size_of::<MessagePage>() == PAGE_HEAD_BYTES);

/// A word of 32 bits at an offset; zero where there is none.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

/// A word of 64 bits at an offset; zero where there is none.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Writes a word of 64 bits, where there is room.
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) {
        place.copy_from_slice(value);
    }
}

/// A message's head as bytes.
pub fn head_bytes(head: &MessageHead) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    for (at, word) in [head.magic, head.number, head.size, head.fault].iter().enumerate() {
        put(&mut bytes, at * 4, &word.to_le_bytes());
    }
    for (at, argument) in head.args.iter().enumerate() {
        put_u64(&mut bytes, 16 + at * 8, *argument);
    }
    put_u64(&mut bytes, 64, head.result.cast_unsigned());
    bytes
}

/// A message's head out of bytes.
pub fn head_of(bytes: &[u8; HEAD_BYTES]) -> MessageHead {
    MessageHead {
        magic: u32_at(bytes, 0),
        number: u32_at(bytes, 4),
        size: u32_at(bytes, 8),
        fault: u32_at(bytes, 12),
        args: core::array::from_fn(|at| u64_at(bytes, 16 + at * 8)),
        result: u64_at(bytes, 64).cast_signed(),
    }
}

/// Offset of the result.
pub const RESULT_AT: usize = 64;

/// A page's head as bytes.
pub fn page_bytes(page: &MessagePage) -> [u8; PAGE_HEAD_BYTES] {
    let mut bytes = [0; PAGE_HEAD_BYTES];
    for (at, word) in [page.magic, page.next, page.index, page.count].iter().enumerate() {
        put(&mut bytes, at * 4, &word.to_le_bytes());
    }
    put_u64(&mut bytes, 16, page.call);
    put_u64(&mut bytes, 24, page.reserved);
    bytes
}

/// A page's head out of bytes.
pub fn page_of(bytes: &[u8]) -> MessagePage {
    MessagePage {
        magic: u32_at(bytes, 0),
        next: u32_at(bytes, 4),
        index: u32_at(bytes, 8),
        count: u32_at(bytes, 12),
        call: u64_at(bytes, 16),
        reserved: u64_at(bytes, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;
    use hanare_abi::message::{MESSAGE_MAGIC, MESSAGE_PAGE_MAGIC};

    #[test]
    fn heads_have_the_layout_of_the_abi() {
        let head = MessageHead {
            magic: MESSAGE_MAGIC,
            number: 1,
            size: 2,
            fault: 3,
            args: [4, 5, 6, 7, 8, 9],
            result: -10,
        };
        let bytes = head_bytes(&head);
        assert_eq!(&bytes[..4], b"HNCL");
        assert_eq!(head_of(&bytes), head);
        assert_eq!(offset_of!(MessageHead, result), RESULT_AT);
        assert_eq!(u64_at(&bytes, offset_of!(MessageHead, args) + 40), 9);
        assert_eq!(u32_at(&bytes, offset_of!(MessageHead, fault)), 3);
        let page = MessagePage {
            magic: MESSAGE_PAGE_MAGIC,
            next: 1,
            index: 2,
            count: 3,
            call: 4,
            reserved: 0,
        };
        let bytes = page_bytes(&page);
        assert_eq!(&bytes[..4], b"HNPG");
        assert_eq!(page_of(&bytes), page);
        assert_eq!(u64_at(&bytes, offset_of!(MessagePage, call)), 4);
    }
}
