//! Memory that the arguments of a call point to, read for a trace.

use alloc::vec::Vec;

use super::arguments::{Argument, Direction, Structure};
use crate::lists;
use crate::usermemory::UserMemory;

/// Most bytes of a path.
pub const PATH_BYTES: usize = 512;
/// Most strings of an array.
pub const STRINGS: usize = 32;
/// Most entries of another one.
pub const ENTRIES: usize = 8;
/// Most bytes of a socket address.
pub const ADDRESS_BYTES: usize = 128;
/// Most bytes of a set of descriptors: FD_SETSIZE of them.
pub const SET_BYTES: usize = 128;
/// Bytes of a `struct msghdr`.
const MESSAGE_BYTES: usize = 56;
/// Bytes before each capture: which argument, how many bytes.
const HEAD_BYTES: usize = 8;

/// Captures, one after the other, each with its head.
#[derive(Default)]
pub struct Captures {
    /// The captures as they stand in a record.
    pub bytes: Vec<u8>,
}

impl Captures {
    /// Adds what `read` puts into a buffer of `most` bytes, as many as it says. What cannot be read
    /// is left out, and what there is no memory for.
    fn add(&mut self, argument: usize, most: usize, read: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let start = self.bytes.len();
        let data = start + HEAD_BYTES;
        let room = HEAD_BYTES + most.next_multiple_of(8);
        if lists::more_room(&mut self.bytes, room).is_err() {
            return;
        }
        lists::resize_within(&mut self.bytes, data + most, 0);
        let Some(length) = read(&mut self.bytes[data..]) else {
            self.bytes.truncate(start);
            return;
        };
        self.bytes[start..start + 4].copy_from_slice(&(argument as u32).to_le_bytes());
        self.bytes[start + 4..data].copy_from_slice(&(length as u32).to_le_bytes());
        self.bytes.truncate(data + length);
        lists::resize_within(&mut self.bytes, data + length.next_multiple_of(8), 0);
    }

    fn add_memory(&mut self, m: &impl UserMemory, argument: usize, addr: u64, bytes: usize) {
        if addr != 0 {
            self.add(argument, bytes, |data| m.read(addr, data).ok().map(|()| bytes));
        }
    }

    fn add_text(&mut self, m: &impl UserMemory, argument: usize, addr: u64) {
        self.add(argument, PATH_BYTES, |data| text(m, addr, data));
    }

    fn add_strings(&mut self, m: &impl UserMemory, argument: usize, mut addr: u64) {
        self.add(argument, STRINGS * (PATH_BYTES + 1), |data| {
            let mut at = 0;
            for _ in 0..STRINGS {
                let pointer = m.read_u64(addr).ok()?;
                if pointer == 0 {
                    break;
                }
                at += text(m, pointer, &mut data[at..at + PATH_BYTES])?;
                data[at] = 0;
                at += 1;
                addr += 8;
            }
            Some(at)
        });
    }
}

/// Bytes of a string, as far as it fits.
fn text(m: &impl UserMemory, addr: u64, data: &mut [u8]) -> Option<usize> {
    m.read_string(addr, data)
        .ok()
        .map(|whole| whole.map(<[u8]>::len))
        .map(|n| n.unwrap_or(PATH_BYTES))
}

/// Bytes that call `number` reads (`In`, before it) or has written (`Out`, after it, with its
/// result). `most`: bytes kept of data.
#[must_use]
pub fn capture(
    m: &impl UserMemory,
    number: u64,
    args: &[u64; 6],
    result: i64,
    direction: Direction,
    most: usize,
) -> Captures {
    let mut c = Captures::default();
    let before = direction == Direction::In;
    let bounded = |n: u64, most: usize| usize::try_from(n).unwrap_or(most).min(most);
    let kinds = super::arguments(number);
    for (i, argument) in kinds.iter().enumerate() {
        let other = |n: u8| {
            let n = usize::from(n);
            kinds.get(n).map_or(args[n], |kind| kind.count(args[n]))
        };
        let is_touched = |d: Direction| if before { d.is_read() } else { d.is_written() };
        match argument.chosen(args) {
            Argument::Text if before => c.add_text(m, i, args[i]),
            Argument::Strings if before => c.add_strings(m, i, args[i]),
            // One byte more, so that the reader sees that there is more.
            Argument::Input(n) if before => {
                c.add_memory(m, i, args[i], bounded(other(n), most + 1))
            }
            Argument::Output(_) if !before && result > 0 => {
                c.add_memory(m, i, args[i], bounded(result.cast_unsigned(), most + 1))
            }
            Argument::Struct(Structure::Bytes(_), _) => {}
            Argument::Struct(s, d) if is_touched(d) => c.add_memory(m, i, args[i], s.size()),
            Argument::Many(s, n, d) if is_touched(d) => {
                c.add_memory(m, i, args[i], s.size() * bounded(other(n), ENTRIES))
            }
            Argument::List(s, _) if !before && result > 0 => {
                let count = bounded(result.cast_unsigned(), ENTRIES);
                c.add_memory(m, i, args[i], s.size() * count)
            }
            Argument::Set(n) => {
                let words = other(n).div_ceil(64);
                c.add_memory(m, i, args[i], 8 * bounded(words, SET_BYTES / 8))
            }
            Argument::Address(n) if before => {
                c.add_memory(m, i, args[i], bounded(other(n), ADDRESS_BYTES))
            }
            Argument::AddressOut(n) | Argument::Sized(n) if !before => {
                let at = args[usize::from(n)];
                let size = if at == 0 { 0 } else { m.read_u32(at).unwrap_or(0) };
                c.add_memory(m, i, args[i], bounded(u64::from(size), ADDRESS_BYTES));
            }
            Argument::Vectors(n, _) if before => {
                c.add_memory(m, i, args[i], 16 * bounded(other(n), ENTRIES))
            }
            Argument::Message(d) if d.is_written() != before => {
                c.add_memory(m, i, args[i], MESSAGE_BYTES)
            }
            _ => {}
        }
    }
    if !before && result < 0 {
        c.bytes.clear();
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::failing;
    use crate::usermemory::Fault;
    use linux_raw_sys::general::__NR_execve;

    /// Words and strings from address 8 on.
    struct Memory(&'static [u8]);

    impl UserMemory for Memory {
        fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
            let from = self.0.get(addr as usize - 8..).and_then(|m| m.get(..to.len()));
            from.map(|from| to.copy_from_slice(from)).ok_or(Fault)
        }

        fn read_string<'a>(&self, addr: u64, to: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
            let from = self.0.get(addr as usize - 8..).ok_or(Fault)?;
            let length = from.iter().position(|&byte| byte == 0).ok_or(Fault)?;
            to[..length].copy_from_slice(&from[..length]);
            Ok(Some(&to[..length]))
        }
    }

    /// An array of two strings, and a path.
    const MEMORY: Memory =
        Memory(b"\x20\0\0\0\0\0\0\0\x23\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0ls\0/tmp\0/bin/ls\0");

    fn execve() -> Vec<u8> {
        let args = [0x28, 8, 0, 0, 0, 0];
        capture(&MEMORY, u64::from(__NR_execve), &args, 0, Direction::In, 64).bytes
    }

    #[test]
    fn strings_and_arrays_of_strings_are_captured() {
        let path = b"\0\0\0\0\x07\0\0\0/bin/ls\0";
        let strings = b"\x01\0\0\0\x08\0\0\0ls\0/tmp\0";
        assert_eq!(execve(), [&path[..], strings].concat());
    }

    #[test]
    fn without_memory_an_argument_is_left_out() {
        let (whole, has_failed) = failing::at(2, execve);
        assert!(!has_failed);
        let (path, strings) = whole.split_at(16);
        assert_eq!(failing::at(0, execve), (strings.to_vec(), true));
        assert_eq!(failing::at(1, execve), (path.to_vec(), true));
    }
}
