//! What the arguments of a call point to, read for a trace.

use alloc::vec;
use alloc::vec::Vec;

use super::arguments::{Argument, Direction, arguments};
use crate::usermemory::UserMemory;

/// Most bytes of a path.
pub const PATH_BYTES: usize = 512;
/// Most strings of an array.
pub const STRINGS: usize = 32;
/// Most entries of another one.
pub const ENTRIES: usize = 8;
/// Most bytes of a socket address.
pub const ADDRESS_BYTES: usize = 128;

/// Captures, one after the other, each with its head.
#[derive(Default)]
pub struct Captures {
    /// As they stand in a record.
    pub bytes: Vec<u8>,
}

impl Captures {
    fn add(&mut self, argument: usize, data: &[u8]) {
        self.bytes.extend_from_slice(&(argument as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn add_memory(&mut self, m: &impl UserMemory, argument: usize, addr: u64, bytes: usize) {
        let mut data = vec![0; bytes];
        if addr != 0 && m.read(addr, &mut data).is_ok() {
            self.add(argument, &data);
        }
    }

    fn add_text(&mut self, m: &impl UserMemory, argument: usize, addr: u64) {
        let mut data = vec![0; PATH_BYTES];
        match m.read_string(addr, &mut data) {
            Ok(Some(text)) => {
                let length = text.len();
                self.add(argument, &data[..length]);
            }
            Ok(None) => self.add(argument, &data),
            Err(_) => {}
        }
    }

    fn add_strings(&mut self, m: &impl UserMemory, argument: usize, mut addr: u64) {
        let mut all = Vec::new();
        for _ in 0..STRINGS {
            let Ok(pointer) = m.read_u64(addr) else { return };
            if pointer == 0 {
                break;
            }
            let mut data = vec![0; PATH_BYTES];
            match m.read_string(pointer, &mut data) {
                Ok(Some(text)) => all.extend_from_slice(text),
                Ok(None) => all.extend_from_slice(&data),
                Err(_) => return,
            }
            all.push(0);
            addr += 8;
        }
        self.add(argument, &all);
    }
}

/// What call `number` reads (`In`, before it) or has written (`Out`, after it, with its
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
    let name = super::name(number);
    let before = direction == Direction::In;
    let bounded = |n: u64, most: usize| usize::try_from(n).unwrap_or(most).min(most);
    for (i, argument) in arguments(name).iter().enumerate() {
        let other = |n: u8| args[usize::from(n)];
        match *argument {
            Argument::Text if before => c.add_text(m, i, args[i]),
            Argument::Strings if before => c.add_strings(m, i, args[i]),
            // One byte more, so that the reader sees that there is more.
            Argument::Input(n) if before => {
                c.add_memory(m, i, args[i], bounded(other(n), most + 1))
            }
            Argument::Output(_) if !before && result > 0 => {
                c.add_memory(m, i, args[i], bounded(result as u64, most + 1))
            }
            Argument::Struct(s, d) if d == direction => c.add_memory(m, i, args[i], s.size()),
            Argument::Many(s, n, d) if d == direction => {
                c.add_memory(m, i, args[i], s.size() * bounded(other(n), ENTRIES))
            }
            Argument::Address(n) if before => {
                c.add_memory(m, i, args[i], bounded(other(n), ADDRESS_BYTES))
            }
            Argument::AddressOut(n) if !before => {
                let size = if other(n) == 0 { 0 } else { m.read_u32(other(n)).unwrap_or(0) };
                c.add_memory(m, i, args[i], bounded(u64::from(size), ADDRESS_BYTES));
            }
            Argument::Vectors(n, _) if before => {
                c.add_memory(m, i, args[i], 16 * bounded(other(n), ENTRIES))
            }
            _ => {}
        }
    }
    if !before && result < 0 {
        c.bytes.clear();
    }
    c
}
