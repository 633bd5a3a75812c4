//! Calls that ask about the machine: its memory is the LWK's.

use crate::base::frames;
use crate::base::user::{UserAddr, put};
use hanare_core::errno::{self, Result};
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
    put(UserAddr::behind(to, MEMORY), [total, free, 0, 0, 0, 0].as_bytes())?;
    put(UserAddr::behind(to, HIGH), [0u64, 0].as_bytes())?;
    put(UserAddr::behind(to, UNIT), &1u32.to_le_bytes())
}

/// `ioperm`: no process may have ports here, as on a kernel in lockdown.
pub fn ioperm(from: u64, count: u64, on: u64) -> Result<u64> {
    const PORTS: u64 = 65536;
    if from.checked_add(count).is_none_or(|end| end <= from || end > PORTS) {
        return Err(errno::EINVAL);
    }
    if on as u32 == 0 { Ok(0) } else { Err(errno::EPERM) }
}

/// `iopl`, the same.
pub fn iopl(level: u64) -> Result<u64> {
    match level as u32 {
        0 => Ok(0),
        1..=3 => Err(errno::EPERM),
        _ => Err(errno::EINVAL),
    }
}
