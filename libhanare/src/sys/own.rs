//! State that the one producer of a queue keeps for itself.

use std::cell::Cell;

/// Words of the one producer of a queue, which no other thread reads.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// How many tickets may be given out, times the size of `Own`.
    pub(super) bytes: Cell<u64>,
    /// Position in the ring of the next post.
    pub(super) tail: Cell<u64>,
    /// Credits that will come back without being picked up.
    pub(super) owed: Cell<u64>,
}

/// State that one producer keeps of each credit. Its words lie side by side for speed alone.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Own {
    /// The ticket of this credit that was given out, or is the next.
    pub live: Cell<u64>,
    /// Some ticket that may be given out, below the count of those.
    pub(super) free: Cell<u64>,
}
