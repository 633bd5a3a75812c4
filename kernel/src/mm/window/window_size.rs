//! How many pages of shared memory to ask Linux for at once.

use core::sync::atomic::{AtomicU64, Ordering};

/// Frames asked for at once.
pub(in crate::mm) const WINDOW: u64 = 64;

/// Where a process last wrote to shared memory that was not there. Linux makes what is asked for: a
/// hole of a file becomes blocks. So more than one page is asked for only if a process has written
/// one after the other for a while.
#[derive(Default)]
pub struct Writes {
    /// The page behind the last write.
    pub(in crate::mm) next: AtomicU64,
    run: AtomicU64,
}

impl Writes {
    /// Pages to ask for at `page`.
    pub(in crate::mm) fn window(&self, page: u64) -> u64 {
        const PATIENCE: u64 = 16;
        let run = if self.next.load(Ordering::Relaxed) == page {
            self.run.load(Ordering::Relaxed)
        } else {
            0
        };
        let pages = if run < PATIENCE { 1 } else { (run / 2).min(WINDOW) };
        self.run.store(run + pages, Ordering::Relaxed);
        pages
    }
}
