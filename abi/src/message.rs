//! A call as a message: its arguments with all that they refer to, for a side that executes it
//! without seeing the caller's memory. `kernel/core/src/marshal.rs` writes and reads it.
//!
//! A message is one run of bytes: its head, then what the arguments point to. It lies in one buffer
//! (*copied*), or is cut up and put into pages that name one another (*packed*). Where a pointer
//! stands, in an argument or in a structure, there is an offset from the start of the message
//! instead: zero is the null pointer, [`MESSAGE_OUTSIDE`] and [`MESSAGE_UNMAPPED`] stand for those
//! that the caller cannot use. Neither side trusts the other in anything of it.

/// First word of a message: "HNCL".
pub const MESSAGE_MAGIC: u32 = 0x4c43_4e48;
/// First word of a page of a packed message: "HNPG".
pub const MESSAGE_PAGE_MAGIC: u32 = 0x4750_4e48;
/// In place of a pointer that is none of a program's. Linux gets it as it is.
pub const MESSAGE_OUTSIDE: u64 = 0xffff_ffff_ffff_f000;
/// In place of a pointer to what the caller has not mapped, or not so that it can be used. Linux
/// gets an address of programs where nothing is mapped: an error comes where it is used, which may
/// be later than with one that is none of a program's.
pub const MESSAGE_UNMAPPED: u64 = 0xffff_ffff_ffff_e000;
/// Bytes of a page of a packed message, with its head.
pub const MESSAGE_PAGE_SIZE: u32 = 4096;
/// Bytes of the head of such a page.
pub const MESSAGE_PAGE_HEAD_SIZE: u32 = 32;
/// In place of the number of a page: there is none.
pub const MESSAGE_PAGE_NONE: u32 = 0xffff_ffff;

/// Start of a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// `MESSAGE_MAGIC`.
    pub magic: u32,
    /// Linux' number of the call.
    pub number: u32,
    /// Bytes of the message, its head among them.
    pub size: u32,
    /// Offset of what is there in part only, which ends with the message and, where it is
    /// executed, with the memory; zero: there is no such thing.
    pub fault: u32,
    /// The arguments; those that are pointers are offsets.
    pub args: [u64; 6],
    /// Result of the call (-errno for errors), written by the side that executed it.
    pub result: i64,
}

/// Start of a page of a packed message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePage {
    /// `MESSAGE_PAGE_MAGIC`.
    pub magic: u32,
    /// Number of the next page in the pool, or `MESSAGE_PAGE_NONE`.
    pub next: u32,
    /// How many pages come before it.
    pub index: u32,
    /// Pages of the message.
    pub count: u32,
    /// Number of the call; the same in all pages of a message.
    pub call: u64,
    /// Zero.
    pub reserved: u64,
}
