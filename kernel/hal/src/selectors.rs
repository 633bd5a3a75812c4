//! Segment selectors. They are Linux' own, since signal frames and debuggers show them.

/// Kernel code and data, user data and code selectors (as on Linux x86-64).
pub const KERNEL_CS: u16 = 0x10;
/// See [`KERNEL_CS`].
pub const KERNEL_DS: u16 = 0x18;
/// See [`KERNEL_CS`].
pub const USER_DS: u16 = 0x2b;
/// See [`KERNEL_CS`].
pub const USER_CS: u16 = 0x33;
