//! Where a mapping goes.

use super::caller::Caller;
use super::free::choose_free;
use super::parts::{GROWS_BELOW, reach};
use super::reserve::{reservation, unreserve};
use super::unmap::unmap_range;
use hanare_core::errno::{self, Result};
use hanare_core::limits::MAX_VMAS;

/// At the given address.
pub const MAP_FIXED: u64 = 0x10;
/// Flag of a mapping that grows down when the addresses below it are touched.
const MAP_GROWSDOWN: u64 = 0x100;
/// At the given address, if it is free.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// Picks the address, clears it for MAP_FIXED, and reserves it: other threads map too.
pub fn choose(p: &Caller<'_>, addr: u64, len: u64, flags: u64) -> Result<u64> {
    let at = reserve(p, addr, len, flags)?;
    // One that grows down may do so without a call of the program's.
    let below = if flags & MAP_GROWSDOWN != 0 { GROWS_BELOW } else { 0 };
    match reach(p, at.saturating_sub(below), at + len) {
        Ok(()) => Ok(at),
        Err(e) => {
            unreserve(p, at, at + len);
            Err(e)
        }
    }
}

fn reserve(p: &Caller<'_>, addr: u64, len: u64, flags: u64) -> Result<u64> {
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
