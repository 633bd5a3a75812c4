//! Where a mapping goes.

use super::caller::Caller;
use super::free::choose_free;
use super::reserve::reservation;
use super::unmap::unmap_range;
use hanare_core::errno::{self, Result};
use hanare_core::limits::MAX_VMAS;

/// At the given address.
pub const MAP_FIXED: u64 = 0x10;
/// At the given address, if it is free.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// Picks the address, clears it for MAP_FIXED, and reserves it: other threads map too.
pub fn choose(p: &Caller<'_>, addr: u64, len: u64, flags: u64) -> Result<u64> {
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        let replace = flags & MAP_FIXED_NOREPLACE == 0;
        if p.mm.lock().vmas.count() > MAX_VMAS {
            return Err(errno::ENOMEM); // as Linux: before anything is unmapped
        }
        loop {
            if replace {
                unmap_range(p, addr, addr + len)?;
            }
            match p.mm.lock().vmas.insert(reservation(p.slot, addr, addr + len)) {
                Err(errno::EEXIST) if replace => {} // another thread was faster
                result => return result.map(|()| addr),
            }
        }
    }
    choose_free(p, addr, len, flags)
}
