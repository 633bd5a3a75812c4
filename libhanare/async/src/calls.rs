//! Calls of the program: what is done with each, and how many are outstanding.

use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::sys;

/// What a call is made with.
pub type Arguments = [u64; 6];

/// Numbers of calls that have a row in [`CLASSES`].
pub const CALLS: usize = 512;
/// The call is made as it is.
pub const FREE: u8 = 0;
/// It waits for everything that is outstanding.
pub const AWAIT: u8 = 1;
/// `hook::ask` looks at its arguments.
pub const LOOK: u8 = 2;

/// What is done with each call.
pub static CLASSES: [AtomicU8; CALLS] = [const { AtomicU8::new(AWAIT) }; CALLS];

/// How many posted calls are outstanding, but for readahead.
pub static OUTSTANDING: AtomicU64 = AtomicU64::new(0);

/// What becomes of a call.
pub enum Verdict {
    /// It is made.
    Make,
    /// It is made, and `hook::tell` is told its result.
    Watch,
    /// It is not made; this is its result.
    Done(i64),
}

/// Makes the call of the program, from here.
pub fn make(nr: i64, args: &Arguments) -> i64 {
    // SAFETY: The program makes it with these arguments; what it does to memory that is not the program's, it would do
    // anyway.
    unsafe { sys::call(nr, *args) }
}
