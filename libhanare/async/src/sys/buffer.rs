//! The buffer for data of outstanding writes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::call::call;
use super::lock::Locked;
use super::pages::map;
use super::program;

/// A buffer of a fixed size. Positions count on beyond its end, and are taken modulo its size; no
/// piece goes beyond.
pub struct Buffer<const BYTES: u64> {
    start: AtomicU64,
}

impl<const BYTES: u64> Buffer<BYTES> {
    /// A buffer without memory.
    pub const fn new() -> Self {
        Self { start: AtomicU64::new(0) }
    }

    /// Gives it memory, if it has none. `None`: there is none.
    pub fn map(&self) -> Option<()> {
        if self.start.load(Ordering::Relaxed) == 0 {
            self.start.store(map(BYTES).ok()?, Ordering::Relaxed);
        }
        Some(())
    }

    /// Address of a piece.
    fn place(&self, position: u64, size: u64) -> u64 {
        debug_assert!(position % BYTES + size <= BYTES, "a piece does not go beyond the end");
        self.start.load(Ordering::Acquire) + position % BYTES
    }

    /// Copies memory of the program, which was found readable, to a position.
    pub fn fill(&self, _: &Locked, position: u64, from: u64, size: u64) {
        let to = self.place(position, size) as *mut u8;
        // SAFETY: It was readable, and calls that unmap it are other threads' mistake; the buffer
        // has room, into which the holder of the lock alone writes, and which no Rust reference
        // names.
        unsafe { program::copy(from as *const u8, to, size as usize) };
    }

    /// Writes a piece to a file: at its offset, or at `offset`. As the call returns.
    pub fn write(&self, fd: i32, (position, size): (u64, u64), offset: Option<u64>) -> i64 {
        let nr = if offset.is_some() { libc::SYS_pwrite64 } else { libc::SYS_write };
        let args = [fd as u64, self.place(position, size), size, offset.unwrap_or(0), 0, 0];
        // SAFETY: The kernel reads the buffer, which has as much.
        unsafe { call(nr, args) }
    }

    /// Sends a piece to a connection. As the call returns.
    pub fn send(&self, fd: i32, (position, size): (u64, u64)) -> i64 {
        let flags = libc::MSG_NOSIGNAL as u64;
        let args = [fd as u64, self.place(position, size), size, flags, 0, 0];
        // SAFETY: The kernel reads the buffer, which has as much.
        unsafe { call(libc::SYS_sendto, args) }
    }
}
