//! The machine-check banks of the calling CPU (SDM volume 3, chapter 17).
//!
//! Linux has switched reporting on (`IA32_MCG_CTL`, `IA32_MCi_CTL`, local delivery): INIT leaves
//! these registers as they are (SDM table 10-1), and so does Linux when it lets go of a CPU, for
//! some of them are one register for several CPUs.

use crate::cpu::{msr, rdmsr, wrmsr};
use raw_cpuid::CpuId;

const STATUS_VALID: u64 = 1 << 63;
const STATUS_MISC: u64 = 1 << 59;
const STATUS_ADDRESS: u64 = 1 << 58;

/// Capabilities of a CPU's machine-check banks.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Whether the CPU has any; [`banks`] says how many.
    pub there: bool,
    /// Whether the banks are to be read as AMD's.
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
        let cpu = CpuId::new();
        let vendor = cpu.get_vendor_info();
        let there = cpu.get_feature_info().is_some_and(|has| has.has_mce() && has.has_mca());
        let recovery = cpu.get_advanced_power_mgmt_info(); // of which RAS is a part
        let known = if there { rdmsr(msr::MCG_CAP) } else { 0 };
        Capabilities {
            there,
            amd: vendor.is_some_and(|v| matches!(v.as_str(), "AuthenticAMD" | "HygonGenuine")),
            software_recovery: known & 1 << 24 != 0,
            containment: recovery.as_ref().is_some_and(|has| has.has_succor()),
            overflow_recovery: recovery.is_some_and(|has| has.has_mca_overflow_recovery()),
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

/// Clears a bank whose content is known: it is free for the next error.
pub fn clear(bank: usize) {
    // SAFETY: writing 0 to a status register clears it (SDM 17.3.2.2).
    unsafe { wrmsr(msr::MC0_CTL + 4 * bank as u32 + 1, 0) };
}
