//! State of a credit that the one producer of a queue keeps for itself.

use std::cell::Cell;

/// State that one producer keeps of each credit. Its words lie side by side for speed alone.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Own {
    /// The ticket of this credit that was given out, or is the next.
    pub(super) live: Cell<u64>,
    /// Some ticket that may be given out, below the count of those.
    pub(super) free: Cell<u64>,
}
