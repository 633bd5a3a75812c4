//! What the one producer of a queue keeps of a credit.

use std::cell::Cell;

/// What one producer keeps of each credit, side by side for no other reason than that it is found fast.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Own {
    /// The ticket of this credit that was given out, or is the next.
    pub(super) live: Cell<u64>,
    /// Some ticket that may be given out, below the count of those.
    pub(super) free: Cell<u64>,
}
