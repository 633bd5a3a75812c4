//! The transaction by which a mapping is changed that Linux has seen (`hanare_core::coherence`).

use super::caller::Caller;
use super::reserve::{must_wait, wait_until_settled};
use super::{AddressSpace, release};
use crate::base::{frames, heap};
use core::sync::atomic::{Ordering, fence};
use hanare_core::coherence::{Change, Range};
use hanare_core::errno::{self, Result};
use hanare_hal::paging::pte;
use hanare_hal::percpu;

impl AddressSpace {
    /// See [`Change::reserve`]. `ENOMEM`.
    pub(super) fn reserve(&mut self, change: &mut Change, needed: Range) -> Result<Range> {
        heap::fallible(|| change.reserve(&mut self.coherence, needed)).map_err(|_| errno::ENOMEM)
    }
}

impl AddressSpace {
    /// Hides pages that are to be given up and that others have, too, unless no CPU has a translation
    /// of them (see [`Change::may_give_up`]). Whether it did: CPUs drop them when the lock is given back.
    pub fn hide_shared(&mut self, (start, end): Range, change: &Change) -> bool {
        fence(Ordering::SeqCst); // what was hidden, then the look at who uses the table
        if self.active.others(percpu::index()).next().is_none() {
            return false; // the calling CPU drops them as they go
        }
        let mut is_hidden = false;
        self.table.update(start, end, &mut |leaf| {
            let is_present = leaf.entry & pte::PRESENT != 0;
            let is_shared = leaf.entry & pte::FOREIGN == 0 && frames::is_shared(leaf.frame());
            if change.may_give_up(is_shared, is_present) {
                return leaf.entry;
            }
            is_hidden = true;
            leaf.entry & !pte::PRESENT
        });
        if is_hidden {
            self.coherence.disturb((start, end));
            self.flush(start, end);
        }
        is_hidden
    }
}

/// Changes what is mapped in `whole`. `plan` says where Linux has to forget pages first; it
/// changes nothing that it does not leave as good as before. `commit` makes the change, under the
/// same lock as the plan that found nothing to be forgotten any more. May wait, for other threads,
/// too, that are busy with addresses of `whole`.
///
/// # Errors
/// Those of `plan` and `commit`; `ENOMEM`: Linux could not be asked. Then nothing was changed.
pub fn carry_out<T>(
    p: &Caller<'_>,
    whole: Range,
    mut plan: impl FnMut(&mut AddressSpace, &Change) -> Result<Option<Range>>,
    commit: impl FnOnce(&mut AddressSpace, &Change) -> Result<T>,
) -> Result<T> {
    let mut change = Change::new(whole);
    let mut is_forgotten = true;
    loop {
        let mut mm = p.mm.lock();
        change.resume(&mut mm.coherence, is_forgotten);
        if !is_forgotten {
            return Err(errno::ENOMEM);
        }
        if let Some(busy) = must_wait(p, &mm, whole.0, whole.1) {
            drop(mm);
            wait_until_settled(p, busy)?;
            continue;
        }
        let Some(needed) = plan(&mut mm, &change)? else { return commit(&mut mm, &change) };
        let (start, end) = mm.reserve(&mut change, needed)?;
        drop(mm);
        is_forgotten = release::zap(p, start, end);
    }
}
