//! Calls about the machine: its memory, which is the LWK's, ports, and registers of the CPU.

use crate::base::frames;
use crate::base::user::{UserAddr, put};
use crate::calls::context::handlers;
use hanare_core::errno::{self, Result};
use hanare_core::limits::TASK_SIZE;
use hanare_hal::cpu;
use zerocopy::IntoBytes;

handlers! { call:
    __NR_ioperm => ioperm(call.args[0], call.args[1], call.args[2]),
    __NR_iopl => iopl(call.args[0]),
    __NR_arch_prctl => arch_prctl(call.args[0], call.args[1]),
}

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

fn arch_prctl(code: u64, value: u64) -> Result<u64> {
    const SET_GS: u64 = 0x1001;
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    const GET_GS: u64 = 0x1004;
    const GET_CPUID: u64 = 0x1011;
    const SET_CPUID: u64 = 0x1012;
    match code {
        SET_FS | SET_GS if value >= TASK_SIZE => Err(errno::EPERM),
        SET_FS => {
            cpu::set_fs_base(value);
            Ok(0)
        }
        SET_GS => {
            cpu::set_user_gs_base(value);
            Ok(0)
        }
        GET_FS => put(UserAddr::of(value), &cpu::fs_base().to_le_bytes()),
        GET_GS => put(UserAddr::of(value), &cpu::user_gs_base().to_le_bytes()),
        // As on a CPU that cannot fault on CPUID.
        GET_CPUID => Ok(1),
        SET_CPUID => Err(errno::ENODEV),
        _ => Err(errno::EINVAL),
    }
}
