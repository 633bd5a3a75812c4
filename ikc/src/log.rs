//! The kernel log ring, from the LWK's side.
#![cfg(not(loom))]

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use hanare_abi::log::{LOG_TEXT_OFFSET, LogRing};

/// Appends to the log. One writer at a time (`&mut`): the kernel keeps it in a lock.
#[derive(Debug)]
pub struct LogWriter<'a> {
    head: &'a AtomicU64,
    text: &'a [AtomicU8],
}

impl LogWriter<'_> {
    /// The log at `ring` with a text area of `size` bytes. It goes on where the
    /// ring's head is.
    ///
    /// # Safety
    /// `ring` points to a [`LogRing`] followed at [`LOG_TEXT_OFFSET`] by `size` bytes,
    /// all of which stay mapped, readable and writable, and are written only here.
    ///
    /// # Panics
    /// If `size` is not a power of two.
    #[must_use]
    pub unsafe fn from_raw(ring: *mut LogRing, size: usize) -> Self {
        assert!(size.is_power_of_two(), "log size is not a power of two");
        // SAFETY: the caller vouches for the memory; readers only read.
        unsafe {
            let text = ring.cast::<AtomicU8>().add(LOG_TEXT_OFFSET as usize);
            Self {
                head: AtomicU64::from_ptr(&raw mut (*ring).head),
                text: core::slice::from_raw_parts(text, size),
            }
        }
    }

    /// Bytes written since boot.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// Appends `bytes`; of more than the ring holds, the end.
    ///
    /// A reader takes `head`, copies, and takes `head` again: bytes more than the
    /// ring's size behind the second head were overwritten meanwhile. While bytes
    /// are being written, up to `bytes.len()` further ones may be: readers keep
    /// that distance, or accept a garbled first line.
    pub fn write(&mut self, bytes: &[u8]) {
        let head = self.head();
        let skip = bytes.len().saturating_sub(self.text.len());
        let mask = self.text.len() as u64 - 1;
        for (offset, byte) in bytes.iter().enumerate().skip(skip) {
            self.text[((head + offset as u64) & mask) as usize].store(*byte, Ordering::Relaxed);
        }
        self.head.store(head + bytes.len() as u64, Ordering::Release);
    }
}

impl core::fmt::Write for LogWriter<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn a_full_log_keeps_its_end(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..20)) {
            let mut memory = vec![0u64; 8 + 64 / 8];
            // SAFETY: header and 64 bytes of text; nothing else touches it meanwhile.
            let mut log = unsafe { LogWriter::from_raw(memory.as_mut_ptr().cast(), 64) };
            let mut all = Vec::new();
            for line in lines {
                log.write(&line);
                all.extend(line);
            }
            prop_assert_eq!(log.head(), all.len() as u64);
            prop_assert_eq!(memory[0], all.len() as u64);
            let text: Vec<u8> = memory[8..].iter().flat_map(|word| word.to_ne_bytes()).collect();
            for (at, byte) in all.iter().enumerate().rev().take(64) {
                prop_assert_eq!(text[at % 64], *byte);
            }
        }
    }
}
