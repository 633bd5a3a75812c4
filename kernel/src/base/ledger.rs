//! The ledger of frames (`DEBUG_LEDGER`): all frames are looked at, and beside them stands what
//! others count.

use crate::base::{accounts, frames, heap, owners, quarantine};
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::request::{
    LEDGER_CONTENTS_COUNTED, LEDGER_FREE_COUNTED, LEDGER_HEAP_COUNTED, LEDGER_IMAGE,
    LEDGER_QUARANTINE_COUNTED, LEDGER_RINGS_COUNTED, LEDGER_TOTAL, LEDGER_WORDS,
};
use hanare_core::ledger::{KERNEL, Ledger};
use hanare_hal::paging::SMALL;
use hanare_hal::shared;

/// Pages of programs and libraries that are kept for later runs: `mm::content` counts them.
pub static CONTENT_PAGES: AtomicU64 = AtomicU64::new(0);

/// The ledger, with the frames of one user. `asked` 0: of none; otherwise of the first user whose
/// id is `asked` - 1 or more. In front of it stand the user's id plus 1, the user's charges, and
/// the number of processes. What changes meanwhile is counted twice, or not at all.
pub fn report(asked: u64) -> ([u64; 4], [u64; LEDGER_WORDS]) {
    let from = asked.checked_sub(1).and_then(|from| u32::try_from(from).ok());
    let user = from.and_then(accounts::first_from);
    let number = user.as_ref().map_or(KERNEL, |user| user.number());
    let mut ledger = Ledger::default();
    frames::walk(|frame, pages, state| ledger.count(state, pages, owners::of(frame), number));
    let mut words = ledger.words();
    let p = shared::params();
    words[LEDGER_IMAGE] = (p.image_base - p.shared_base + p.image_size).div_ceil(SMALL);
    words[LEDGER_FREE_COUNTED] = frames::usage_without_stocks().0 / SMALL;
    words[LEDGER_QUARANTINE_COUNTED] = quarantine::bytes() / SMALL;
    words[LEDGER_HEAP_COUNTED] = heap::pages();
    words[LEDGER_CONTENTS_COUNTED] = CONTENT_PAGES.load(Ordering::Relaxed);
    words[LEDGER_RINGS_COUNTED] = accounts::rings() / SMALL;
    debug_assert_eq!(words[LEDGER_TOTAL] * SMALL, shared::chunks().iter().map(|c| c.size).sum());
    let charged = user.as_ref().map_or([0; 3], |user| user.charged());
    let [kernel, memory, processes] = charged;
    ([user.map_or(0, |user| u64::from(user.uid()) + 1), kernel, memory, processes], words)
}
