//! Whether page-table isolation is on. The rest of it builds on page tables, which ask for this.

use core::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether user mode has page tables of its own.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Turns it on; before the first page table is made.
pub fn turn_on() {
    ON.store(true, Ordering::Relaxed);
}
