//! Allocations that fail because a test wants it (`hanare debug fail-alloc`): the n-th of the heap
//! and of frames from now on, and perhaps each k-th behind it. Without such a test an allocation
//! costs one load more.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_hal::context;

static ON: AtomicBool = AtomicBool::new(false);
/// Allocations since failures were asked for.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// The first one that fails, counted from 1; 0: none, they are counted only.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// After how many the next one does; 0: never.
static STEP: AtomicU64 = AtomicU64::new(0);

/// Begins to count, or ends (`first` is `u64::MAX`). Gives how many were seen before.
pub fn set(first: u64, step: u64) -> u64 {
    ON.store(false, Ordering::SeqCst);
    FIRST.store(first, Ordering::SeqCst);
    STEP.store(step, Ordering::SeqCst);
    let seen = SEEN.swap(0, Ordering::SeqCst);
    ON.store(first != u64::MAX, Ordering::SeqCst);
    seen
}

/// Whether the allocation that is about to be made is to fail.
pub fn is_to_fail() -> bool {
    ON.load(Ordering::Relaxed) && counted()
}

#[cold]
fn counted() -> bool {
    let (first, step) = (FIRST.load(Ordering::Relaxed), STEP.load(Ordering::Relaxed));
    let n = SEEN.fetch_add(1, Ordering::Relaxed) + 1;
    if n == first {
        say(n);
    }
    first != 0 && (n == first || n > first && step != 0 && (n - first).is_multiple_of(step))
}

/// Logs the callers of the failing allocation, so that a hang or a panic that follows can be
/// understood.
fn say(n: u64) {
    let mut callers = [0; 12];
    for (to, from) in callers.iter_mut().zip(context::backtrace().skip(3)) {
        *to = from;
    }
    crate::info!("allocation {n} fails: {callers:x?}");
}
