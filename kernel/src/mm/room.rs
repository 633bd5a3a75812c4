//! Memory that comes back where it is short.

use super::{content, quarantine};

/// Memory is short, and the running thread waits: true if something came back.
pub(super) fn make_room() -> bool {
    let gave_back = content::give_back();
    quarantine::retry_waiting() || gave_back
}
