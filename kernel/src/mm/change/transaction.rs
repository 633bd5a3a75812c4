//! The transaction by which a mapping is changed that Linux has seen (`hanare_core::coherence`).

use super::reserve::{must_wait, resume, wait_until_settled};
use crate::mm::map::address_space::AddressSpace;
use crate::mm::window::caller::Caller;
use crate::mm::window::release;
use hanare_core::coherence::Change;
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;

/// Changes what is mapped in `whole`. `plan` says where Linux has to forget pages first; it
/// changes nothing that it does not leave as good as before. `commit` makes the change, under the
/// same lock as the plan that found nothing to be forgotten any more. May wait, for other threads,
/// too, that are busy with addresses of `whole`.
///
/// # Errors
/// Those of `plan` and `commit`; `ENOMEM`: Linux could not be asked. Then nothing was changed.
pub fn carry_out<T>(
    p: &Caller<'_>,
    whole: PageRange,
    mut plan: impl FnMut(&mut AddressSpace, &Change) -> Result<Option<PageRange>>,
    commit: impl FnOnce(&mut AddressSpace, &Change) -> Result<T>,
) -> Result<T> {
    carry_out_with(
        p,
        whole,
        &mut (),
        |mm, change, ()| plan(mm, change),
        |(), range| release::zap(p, range),
        |mm, change, ()| commit(mm, change),
    )
}

/// As [`carry_out`], where `ask` has Linux forget a range, and whatever else; `known` is what the
/// steps have in common.
pub(super) fn carry_out_with<K, T>(
    p: &Caller<'_>,
    whole: PageRange,
    known: &mut K,
    mut plan: impl FnMut(&mut AddressSpace, &Change, &mut K) -> Result<Option<PageRange>>,
    mut ask: impl FnMut(&mut K, PageRange) -> bool,
    commit: impl FnOnce(&mut AddressSpace, &Change, &mut K) -> Result<T>,
) -> Result<T> {
    let mut change = Change::new(whole);
    let mut is_forgotten = true;
    loop {
        let mut mm = p.memory.mm.lock();
        resume(p.memory, &mut mm, &mut change, is_forgotten);
        if !is_forgotten {
            return Err(errno::ENOMEM);
        }
        if let Some(busy) = must_wait(p.memory, &mm, whole) {
            drop(mm);
            wait_until_settled(p, busy)?;
            continue;
        }
        let Some(needed) = plan(&mut mm, &change, known)? else {
            return commit(&mut mm, &change, known);
        };
        let reserved = mm.reserve(&mut change, needed)?;
        drop(mm);
        is_forgotten = ask(known, reserved);
    }
}
