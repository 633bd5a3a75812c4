//! Registers of granted devices: where they are mapped is in [`mmio`]. And room for words of Linux'
//! that drivers look at.

use crate::addr::PhysAddr;
use crate::paging::{NoMemory, SMALL, TableSource, linuxwords, map_kernel};
use crate::{mmio, pte, shared};

/// Maps the registers in the kernel's half, for all CPUs.
///
/// # Errors
/// [`NoMemory`]
pub fn map(source: &mut dyn TableSource) -> Result<(), NoMemory> {
    if shared::params().grant_count > 0 {
        linuxwords::init(source)?;
    }
    for grant in 0..shared::params().grant_count {
        let regions = shared::grant_description(grant).regions;
        for (number, region) in regions.iter().enumerate() {
            for page in (0..region.size).step_by(SMALL as usize) {
                let at = mmio::place(grant, number) + page;
                let frame = PhysAddr(region.base.address() + page);
                map_kernel(at, frame, pte::UNCACHED, source)?;
            }
        }
    }
    Ok(())
}
