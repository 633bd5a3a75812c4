//! A program's memory, made of an input, that changes while it is read.

use std::cell::Cell;

use hanare_core::usermemory::{Fault, UserMemory};

/// Pages at the beginning of every 64 KiB below 1 MiB; nothing else is mapped.
pub struct Memory<'a> {
    bytes: &'a [u8],
    /// Reads so far, which everything that is read depends on, if it `changes`.
    reads: Cell<u8>,
    changes: bool,
    /// Most bytes asked for at once.
    most: Cell<usize>,
}

const PAGE: u64 = 4096;

impl<'a> Memory<'a> {
    /// Every page has `bytes`, again and again.
    pub const fn new(bytes: &'a [u8], changes: bool) -> Self {
        Self { bytes, reads: Cell::new(0), changes, most: Cell::new(0) }
    }

    /// The most bytes that were read at once.
    pub const fn most(&self) -> usize {
        self.most.get()
    }

    /// The byte at an address, at its first read.
    pub fn first(&self, addr: u64) -> Option<u8> {
        self.byte(addr, 0)
    }

    fn byte(&self, addr: u64, read: u8) -> Option<u8> {
        let mapped = addr < 1 << 20 && addr % (16 * PAGE) < PAGE;
        let at = (addr % PAGE) as usize;
        mapped.then(|| match self.bytes.len() {
            0 => 0,
            length => self.bytes[at % length].wrapping_add(if self.changes { read } else { 0 }),
        })
    }

    fn count(&self, bytes: usize) -> u8 {
        self.most.set(self.most.get().max(bytes));
        self.reads.replace(self.reads.get().wrapping_add(1))
    }
}

impl UserMemory for Memory<'_> {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        let read = self.count(to.len());
        for (at, byte) in to.iter_mut().enumerate() {
            let addr = addr.checked_add(at as u64).ok_or(Fault)?;
            *byte = self.byte(addr, read).ok_or(Fault)?;
        }
        Ok(())
    }

    fn read_string<'b>(&self, addr: u64, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>, Fault> {
        let read = self.count(buffer.len());
        for at in 0..buffer.len() {
            let addr = addr.checked_add(at as u64).ok_or(Fault)?;
            buffer[at] = self.byte(addr, read).ok_or(Fault)?;
            if buffer[at] == 0 {
                return Ok(Some(&buffer[..at]));
            }
        }
        Ok(None)
    }
}
