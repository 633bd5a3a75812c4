//! Waits for words of which some have their waiters in the LWK and others on Linux
//! (futex_waitv(2)).
//!
//! The thread is put into the queues of its space for the first kind, and then its worker waits on
//! Linux for the second. A wake-up in the LWK has to end the worker's wait, and may come before
//! that has begun. So the worker waits for one word more, the note: a thread that takes the waiter
//! out of the queues writes the note, and then wakes it on Linux. Linux compares the note as it
//! queues the worker, as it does any word, so that a worker which comes too late does not wait.
//!
//! The note comes first. Linux tells the last word that was woken: a wake-up of another word is not
//! hidden by one of the note.

use super::Place;
use crate::errno::{EINVAL, Result};

/// The note of a thread that none has taken out of the queues.
pub const NOTE_WAITS: u32 = 0;
/// The note of a thread that was woken in the LWK.
pub const NOTE_WOKEN: u32 = 1;

/// Index of the note among the words that Linux is told.
const NOTE: u64 = 0;

/// Whether Linux woke the note of a thread that has not been woken: for an earlier wait, which
/// ended without it. Then the worker is to wait again.
#[must_use]
pub fn is_late(on_linux: &Result<u64>, is_woken: bool) -> bool {
    *on_linux == Ok(NOTE) && !is_woken
}

/// The result of a wait for the words at `places`. `on_linux`: what Linux gave for the note and its
/// own words, in their order. `woken`: the word for which the LWK woke the thread, found as it left
/// the queues.
///
/// # Errors
/// Linux', where no word was woken; `EINVAL` where it tells a word that it was not given.
pub fn result(on_linux: Result<u64>, woken: Option<u64>, places: &[Place]) -> Result<u64> {
    match (on_linux, woken) {
        (Err(_) | Ok(NOTE), Some(index)) => Ok(index),
        (Ok(told), _) => of_linux(places).nth((told as usize).wrapping_sub(1)).ok_or(EINVAL),
        (Err(error), None) => Err(error),
    }
}

/// Indices of the words that have their waiters on Linux.
pub fn of_linux(places: &[Place]) -> impl Iterator<Item = u64> + '_ {
    (0..).zip(places).filter(|&(_, &place)| place == Place::Linux).map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
