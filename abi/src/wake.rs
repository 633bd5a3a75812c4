//! Sleep: the values of every word by which a side of the boundary says that it sleeps
//! (`docs/wakeup.md`).
//!
//! The word is written by its side alone. That side stores `WAIT_ASLEEP`, issues a full fence,
//! looks once more for what it waits for, then sleeps. The other side stores what is new, issues a
//! full fence, then reads the word, and rings unless it is `WAIT_AWAKE`.

/// A side that polls, works or looks before it sleeps: no doorbell is needed.
pub const WAIT_AWAKE: u32 = 0;
/// A side that sleeps or is about to: ring it.
pub const WAIT_ASLEEP: u32 = 1;
/// A side that has been killed and takes nothing: ring all the same, so that the request is cleared
/// up (requests only).
pub const WAIT_GONE: u32 = 2;
