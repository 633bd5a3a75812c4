//! Segment selectors. They are Linux' own, since signal frames and debuggers show them.

/// Selector of the kernel's code (all as on Linux x86-64).
pub const KERNEL_CS: u16 = 0x10;
/// Selector of the kernel's data.
pub const KERNEL_DS: u16 = 0x18;
/// Selector of user data.
pub const USER_DS: u16 = 0x2b;
/// Selector of user code.
pub const USER_CS: u16 = 0x33;
