//! The machine-check banks of the calling CPU (SDM volume 3, chapter 17).
//!
//! Linux has switched reporting on (`IA32_MCG_CTL`, `IA32_MCi_CTL`, local delivery): INIT leaves
//! these registers as they are (SDM table 10-1), and so does Linux when it lets go of a CPU, for some
//! of them are one register for several CPUs.

use crate::cpu::{msr, rdmsr, wrmsr};
use core::arch::x86_64::__cpuid;

const STATUS_VALID: u64 = 1 << 63;
const STATUS_MISC: u64 = 1 << 59;
const STATUS_ADDRESS: u64 = 1 << 58;

/// What a CPU says of its banks.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// It has any, and [`banks`] says how many.
    pub there: bool,
    /// It is to be read as AMD's.
    pub amd: bool,
    /// `IA32_MCG_CAP.MCG_SER_P`: software can recover from some errors.
    pub software_recovery: bool,
    /// AMD SUCCOR.
    pub containment: bool,
    /// AMD McaOverflowRecov.
    pub overflow_recovery: bool,
}

impl Capabilities {
    /// Asks the calling CPU.
    pub fn detect() -> Capabilities {
        const MCE_AND_MCA: u32 = 1 << 7 | 1 << 14;
        let vendor = __cpuid(0).ebx.to_le_bytes();
        let there = __cpuid(1).edx & MCE_AND_MCA == MCE_AND_MCA;
        let extended =
            if __cpuid(0x8000_0000).eax >= 0x8000_0007 { __cpuid(0x8000_0007).ebx } else { 0 };
        let known = if there { rdmsr(msr::MCG_CAP) } else { 0 };
        Capabilities {
            there,
            amd: &vendor == b"Auth" || &vendor == b"Hygo",
            software_recovery: known & 1 << 24 != 0,
            containment: extended & 2 != 0,
            overflow_recovery: extended & 1 != 0,
        }
    }
}

/// How many the calling CPU has; cores of one machine may differ.
pub fn banks() -> usize {
    (rdmsr(msr::MCG_CAP) & 0xff) as usize
}

/// `IA32_MCG_STATUS`.
pub fn global_status() -> u64 {
    rdmsr(msr::MCG_STATUS)
}

/// The machine check has been handled: the next one does not reset the machine.
pub fn end() {
    // SAFETY: changes what the CPU does with the next machine check and nothing else.
    unsafe { wrmsr(msr::MCG_STATUS, 0) };
}

/// Status, address and further information of a bank that the CPU has; 0 for what is not valid.
pub fn read(bank: usize) -> (u64, u64, u64) {
    let at = msr::MC0_CTL + 4 * bank as u32;
    let status = rdmsr(at + 1);
    let of = |valid: u64, register: u32| {
        if status & STATUS_VALID != 0 && status & valid != 0 { rdmsr(register) } else { 0 }
    };
    (status, of(STATUS_ADDRESS, at + 2), of(STATUS_MISC, at + 3))
}

/// What the bank holds is known: it is free for the next error.
pub fn clear(bank: usize) {
    // SAFETY: writing 0 to a status register clears it (SDM 17.3.2.2).
    unsafe { wrmsr(msr::MC0_CTL + 4 * bank as u32 + 1, 0) };
}
