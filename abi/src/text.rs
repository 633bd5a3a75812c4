//! Texts in structures, each ended by a zero.

/// Bytes of an instance name with its zero: letters, digits, `-`, `_`, `.`.
pub const NAME_SIZE: usize = 32;
/// Bytes of a message with its zero.
pub const MESSAGE_SIZE: usize = 200;
