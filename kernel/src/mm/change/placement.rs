//! Where a mapping goes.

use super::free_ranges::choose_free;
use super::reserve::{lock_settled, unreserve};
use super::unmap::replace_range;
use crate::mm::map::kept::reservation;
use crate::mm::window::address_parts::{GROWS_BELOW, reach};
use crate::mm::window::caller::Caller;
use hanare_core::errno::{self, Result};
use hanare_core::limits::MAX_VMAS;
use hanare_core::mmap::{MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN};
use hanare_core::pagerange::PageRange;

/// Picks the address, clears it for MAP_FIXED, and reserves it: other threads map too. `beside`:
/// what else the caller is going to change, [`PageRange::NONE`] mostly.
///
/// # Errors
/// Nothing is reserved. With MAP_FIXED what was there is as it was, but where not all of it could
/// be unmapped (see [`replace_range`]).
pub fn choose(p: &Caller<'_>, addr: u64, len: u64, flags: u64, beside: PageRange) -> Result<u64> {
    // One that grows down may do so without a call of the program's.
    let below = if flags & MAP_GROWSDOWN != 0 { GROWS_BELOW } else { 0 };
    let reach = |at: u64| reach(p, PageRange::of(at.saturating_sub(below), at + len));
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0 {
        let at = choose_free(p, addr, len, flags, beside)?;
        return reach(at).map(|()| at).inspect_err(|_| unreserve(p, PageRange::of(at, at + len)));
    }
    if p.memory.mm.lock().mappings().count() > MAX_VMAS {
        return Err(errno::ENOMEM); // as Linux: before anything is unmapped
    }
    reach(addr)?;
    let range = PageRange::of(addr, addr + len);
    if flags & MAP_FIXED_NOREPLACE == 0 {
        return replace_range(p, range, beside).map(|()| addr);
    }
    lock_settled(p, range)?.insert(reservation(p.slot, range)).map(|()| addr)
}
