//! Calls of the program: what is done with each, and how many are outstanding.

use std::sync::atomic::{AtomicU8, AtomicU64};

/// Arguments of a call.
pub type Arguments = [u64; 6];

/// Numbers of calls that have a row in [`CLASSES`].
pub const CALLS: usize = 512;
/// Class of calls that are made as they are.
pub const FREE: u8 = 0;
/// Class of calls that wait for everything outstanding.
pub const AWAIT: u8 = 1;
/// Class of calls whose arguments `hook::ask` looks at.
pub const LOOK: u8 = 2;

/// Class of each call, by number.
pub static CLASSES: [AtomicU8; CALLS] = [const { AtomicU8::new(AWAIT) }; CALLS];

/// How many posted calls are outstanding, but for readahead.
pub static OUTSTANDING: AtomicU64 = AtomicU64::new(0);

/// Decision about a call.
pub enum Verdict {
    /// The call is made.
    Make,
    /// The call is made, and `hook::tell` is told its result.
    Watch,
    /// The call is not made; this is its result.
    Done(i64),
}
