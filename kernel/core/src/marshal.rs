//! Calls as messages: the arguments of a call with all that they refer to, in one run of bytes, for
//! a side that executes it without seeing the caller's memory (`abi/src/message.rs` has the
//! layout).
//!
//! The table of descriptions (`syscalls/arguments.rs`) says what belongs to a call. The caller's
//! side makes a message of it ([`encode`]) and keeps a list of what comes back. The executing side
//! makes arguments of the message again ([`decode`]), and says the result ([`finish`]). The
//! caller's side writes to the caller's memory what Linux would have written ([`complete`]). One
//! function (`walk.rs`) goes through the arguments for both sides, so they agree without a word
//! about it in the message, and a message that says something else is malformed.
//!
//! A pointer that the caller cannot use becomes one that Linux cannot use, so Linux says `EFAULT`
//! itself, or another error that comes first. What is there in part only ends with the memory of
//! the executing side, behind which nothing is mapped: Linux goes as far as it would have, and
//! stops there.
//!
//! Limits: a message has at most 4 GiB, and as many bytes as its buffer. Lists of `struct iovec`
//! and `struct mmsghdr` have as many entries as Linux allows ([`VECTORS_MAX`]), and strings
//! [`TEXT_MAX`] bytes. Each piece that is written back has one entry in a list of the caller's
//! side. A call that does not fit is refused ([`Refusal`]), never changed: whether a shorter
//! transfer would do depends on what the descriptor is ([`shorter`]).

mod buffer;
mod complete;
mod decode;
mod encode;
mod ranges;
mod short;
mod walk;
mod wire;

pub use buffer::{Buffer, Packed, Page, Runs, asks_for_guard, gather, page_head};
pub use complete::complete;
pub use decode::{Decoded, Malformed, Place, Span, decode, finish};
pub use encode::{Encoded, Piece, Refusal, encode};
pub use ranges::{RangesEnd, ranges};
pub use short::{Short, shorter};
pub use walk::refers;
pub use wire::{HEAD_BYTES, PAGE_HEAD_BYTES, PAYLOAD_BYTES, TEXT_MAX, VECTORS_MAX, page_bytes};

#[cfg(test)]
mod tests;
