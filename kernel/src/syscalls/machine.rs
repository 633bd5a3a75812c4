//! Calls that ask about the machine: its memory is the LWK's.

use crate::frames;
use hanare_core::errno::{self, Result};
use hanare_hal::usercopy;
use zerocopy::IntoBytes;

/// `sysinfo`, after Linux has filled in the structure at `to`: memory is the LWK's;
/// uptime, load and number of processes stay.
pub fn sysinfo(to: u64) -> Result<u64> {
    /// Offsets of totalram (freeram, sharedram, bufferram, totalswap and freeswap
    /// follow), totalhigh (freehigh follows), mem_unit.
    const MEMORY: u64 = 32;
    const HIGH: u64 = 88;
    const UNIT: u64 = 104;
    let (free, total) = frames::usage();
    put(to + MEMORY, [total, free, 0, 0, 0, 0].as_bytes())?;
    put(to + HIGH, [0u64, 0].as_bytes())?;
    put(to + UNIT, &1u32.to_le_bytes())
}

fn put(addr: u64, bytes: &[u8]) -> Result<u64> {
    usercopy::write(addr, bytes).map(|()| 0).map_err(|_| errno::EFAULT)
}
