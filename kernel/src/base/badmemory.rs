//! Page frames whose memory is bad: they are never handed out again.

use crate::base::lock::{Mutex, rank};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use hanare_hal::addr::PhysAddr;
use hanare_hal::memory;

/// Frames that can be kept; with more of them a machine is to be repaired.
const MOST: usize = 256;

static FRAMES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ADDING: Mutex<(), rank::BadMemory> = Mutex::new(());

/// Keeps the frame of `paddr` back from now on, also while it is mapped. It may be Linux' own.
/// True: that is new, and Linux is to be told.
pub fn add(paddr: PhysAddr) -> bool {
    let frame = paddr.page_down();
    let guard = ADDING.lock();
    if contains(frame, 0) {
        return false;
    }
    let count = COUNT.load(Ordering::Relaxed);
    assert!(count < MOST, "more than {MOST} pages of bad memory");
    FRAMES[count].store(frame.0, Ordering::Relaxed);
    COUNT.store(count + 1, Ordering::Release);
    drop(guard);
    let whose =
        if memory::is_ours(frame, 4096) { "this instance's, not used again" } else { "Linux'" };
    crate::info!("memory: the page {frame:#x} is bad ({whose}); {} in all", count + 1);
    true
}

/// Whether there is any.
#[inline]
pub fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

/// Whether one of the `1 << order` frames from `paddr` on is bad.
#[inline]
pub fn contains(paddr: PhysAddr, order: u32) -> bool {
    let count = COUNT.load(Ordering::Acquire);
    count != 0
        && FRAMES[..count]
            .iter()
            .any(|f| (paddr.0..paddr.0 + (4096 << order)).contains(&f.load(Ordering::Relaxed)))
}
