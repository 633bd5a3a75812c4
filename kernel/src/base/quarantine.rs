//! Frames that were unmapped here while Linux still held a reference (I/O in flight). They are
//! asked for again by `mm::quarantine::retry_quarantine`.

use crate::base::chain::{Chain, Run};
use crate::base::lock::{Mutex, rank};

static FRAMES: Mutex<Chain, rank::Quarantine> = Mutex::new(Chain::new());

/// Puts a run of single pages into quarantine. It stays a run of its own: a page that Linux holds
/// holds all of its run.
pub fn add(run: Run) {
    FRAMES.lock().push_apart(run);
}

/// Bytes in quarantine.
pub fn bytes() -> u64 {
    FRAMES.lock().pages() * 4096
}

/// Takes everything out of quarantine, to be looked at again.
pub fn take() -> Chain {
    core::mem::take(&mut *FRAMES.lock())
}
