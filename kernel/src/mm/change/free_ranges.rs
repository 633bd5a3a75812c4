//! Free addresses.

use super::reserve::lock_settled;
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::kept::reservation;
use crate::mm::window::caller::Caller;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::addr::page_down;
use hanare_core::errno::{self, Result};
use hanare_core::mmap::{MAP_32BIT, MAP_HUGETLB, MAP_STACK, page_size};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::Search;
use hanare_hal::paging::{LARGE, SMALL};

/// Where `MAP_32BIT` looks: as Linux, which begins anywhere in the 32 MiB below.
const LOW_MIN: u64 = 0x4200_0000;
const LOW_MAX: u64 = 0x8000_0000;

/// Picks a free address and reserves it; at the wished-for one if that is free. `beside`: what else
/// the caller is going to change.
pub fn choose_free(
    p: &Caller<'_>,
    addr: u64,
    len: u64,
    flags: u64,
    beside: PageRange,
) -> Result<u64> {
    let mut mm = lock_settled(p, beside)?;
    let at = find(&mut mm, addr, len, flags).ok_or(errno::ENOMEM)?;
    mm.insert(reservation(p.slot, PageRange::of(at, at + len)))?;
    Ok(at)
}

/// A free range, at the wished-for address if that is free.
fn find(mm: &mut AddressSpace, addr: u64, len: u64, flags: u64) -> Option<u64> {
    let low = flags & MAP_32BIT != 0;
    // As Linux, which raises a hint to vm.mmap_min_addr.
    let hint = if page_down(addr) == 0 { 0 } else { page_down(addr).max(USER_MIN) };
    // Large mappings are aligned so that large pages fit.
    let (align, least) = match page_size(flags) {
        Ok((size, _)) if flags & MAP_HUGETLB != 0 => (size, size),
        _ if len >= LARGE && flags & MAP_STACK == 0 => (LARGE, SMALL),
        _ => (SMALL, SMALL),
    };
    let end_max = if low { LOW_MAX } else { USER_MAX };
    let fits =
        hint != 0 && hint % least == 0 && hint.checked_add(len).is_some_and(|end| end <= end_max);
    if fits && mm.mappings().is_free(PageRange::of(hint, hint + len)) {
        return Some(hint);
    }
    if low {
        return mm.find_gap(len, SMALL, Search::BottomUp(LOW_MIN)).filter(|at| at + len <= LOW_MAX);
    }
    let base = mm.mmap_base();
    mm.find_gap(len, align, Search::TopDown(base))
        .or_else(|| mm.find_gap(len, least, Search::TopDown(base)))
        .or_else(|| mm.find_gap(len, least, Search::BottomUp(USER_MIN)))
}
