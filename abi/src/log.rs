//! The kernel log ring: text lines, readable while the LWK runs or after it died.

/// Header; the text area of `BootParams::log_size` bytes follows at +64.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct LogRing {
    /// Bytes written since boot (free running); byte `i` is at `i % log_size`.
    /// Written by the LWK (release) after the bytes.
    pub head: u64,
    /// Zero, up to 64 bytes.
    pub reserved: [u64; 7],
}

/// Offset of the text area from the header.
pub const LOG_TEXT_OFFSET: u32 = 64;
