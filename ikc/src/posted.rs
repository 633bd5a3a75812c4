//! Calls and functions that a program posts, and workers that execute them (`docs/posted.md`): all
//! of it lies in the program's memory, and both sides are its threads.
//!
//! [`Submissions`] is a ring of entries of one cache line. [`Record`]s hold results, one for each
//! *credit*. The poster holds a credit until the result has been picked up. Neither ring is ever
//! full for the holder of one: that is what bounds the depth, and why results always have room.
//! [`Credits`] is the list of free credits, [`Finished`] a ring of those that are done, for threads
//! that wait for any. [`Idle`] says which workers sleep, [`Watch`] whether the keeper does, which
//! starts more of them, [`Armed`] whether a thread sleeps for [`Finished`].
//!
//! The program may write anything anywhere in its memory. Whatever stands in a word of these, no
//! index leads out of a ring, and no step loops for ever.

mod armed;
mod credits;
mod finished;
mod idle;
mod record;
mod submissions;
#[cfg(all(test, not(loom)))]
mod tests;
mod watch;

pub use armed::Armed;
pub use credits::Credits;
pub use finished::{Finished, FinishedEntry};
pub use idle::Idle;
pub use record::{Begun, Cancel, Completed, Look, Record, RecordRef, Ticket};
pub use submissions::{ARGS, Entry, Filled, Submission, Submissions};
pub use watch::Watch;

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::sync::{AtomicU64, Ordering, spin};

/// Mutant for the models: a credit is given back before its entry is taken.
pub const FREES_EARLY: u8 = 40;
/// Mutant for the models: a worker that begins to work does not look whether there is more.
pub const NO_SECOND_LOOK: u8 = 41;
/// Mutant for the models: it looks only where another worker sleeps, not for one that could be
/// started.
pub const LOOKS_FOR_SLEEPERS: u8 = 45;
/// Mutant for the models: a worker that ends does not look whether something waits for it.
pub const ENDS_SILENTLY: u8 = 46;
/// Mutant for the models: a keeper that is about to sleep does not look again.
pub const SLEEPS_BLINDLY: u8 = 47;
/// Mutant for the models: a worker begins without an exchange, whatever the owner does meanwhile.
pub const BEGINS_ANYWAY: u8 = 42;
/// Mutant for the models: the list of credits has no tag.
pub const NO_TAG: u8 = 43;
/// Mutant for the models: a waiter that gives up does not look whether it will be rung.
pub const LEAVES_TOKEN: u8 = 44;

/// The slots of a ring: as many as a power of two.
#[derive(Debug)]
pub struct Slots<'a, T> {
    first: NonNull<T>,
    mask: u64,
    slots: PhantomData<&'a [T]>,
}

impl<T> Clone for Slots<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slots<'_, T> {}

impl<'a, T> Slots<'a, T> {
    /// These slots.
    ///
    /// # Panics
    /// If their number is not a power of two, or beyond what an index holds.
    #[must_use]
    pub const fn new(slots: &'a [T]) -> Self {
        assert!(slots.len().is_power_of_two() && slots.len() <= 1 << 16);
        let first = NonNull::from_ref(slots).cast();
        Self { first, mask: slots.len() as u64 - 1, slots: PhantomData }
    }

    /// Number of slots.
    #[must_use]
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "there is at least one")]
    pub const fn len(self) -> u64 {
        self.mask + 1
    }

    /// The slot of a position, or of an index, whatever it is.
    #[must_use]
    #[inline(always)]
    pub const fn at(self, position: u64) -> &'a T {
        // SAFETY: `new` has been given a slice of `mask + 1`, a power of two, for as long as `'a`.
        unsafe { self.first.add((position & self.mask) as usize).as_ref() }
    }
}

/// How often a consumer tries again because others were faster.
const TRIES: u32 = 64;

/// Consumer: takes what stands at the head. `read` reads the slot of a position, if it holds what
/// was published there. What it reads is not used unless the head stood there until after: a
/// producer writes the slot only when the head has passed it.
#[inline(always)]
fn take<T>(head: &AtomicU64, read: impl Fn(u64) -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        let position = head.load(Ordering::Acquire);
        match read(position) {
            None if head.load(Ordering::Relaxed) == position => return None,
            None => spin(),
            Some(value) => {
                let next = position.wrapping_add(1);
                let order = (Ordering::AcqRel, Ordering::Relaxed);
                if head.compare_exchange(position, next, order.0, order.1).is_ok() {
                    return Some(value);
                }
            }
        }
    }
    None
}
