//! CPU time of control groups: [`hanare_core::bandwidth`] for the threads of this CPU.

use crate::base::accounts::{Account, BANDWIDTHS};
use hanare_core::bandwidth::{Allowance, Slices};
use hanare_hal::{cpu, shared};

/// The largest grant of CPU time, as Linux' (`sched_cfs_bandwidth_slice_us`). The CPU takes an
/// interrupt at its end.
const SLICE_MAX_MS: u64 = 5;
/// How many of the smallest grants make a ms.
const SLICES_MIN_PER_MS: u64 = 10;

/// Whether there is something to do for a thread with such an allowance.
#[inline]
pub fn concerns(allowance: &Allowance, account: &Account) -> bool {
    account.cpu_group() != hanare_core::groups::NOBODY || allowance.has_group()
}

/// For how many cycles a thread that has used so many in its life may go on in user mode.
///
/// # Errors
/// Not before this TSC value.
pub fn renew(allowance: &Allowance, account: &Account, used: u64) -> Result<u64, u64> {
    let khz = u64::from(shared::params().tsc_khz);
    let slices = Slices { least: khz / SLICES_MIN_PER_MS, most: khz * SLICE_MAX_MS };
    allowance.renew(&BANDWIDTHS, account.cpu_group(), used, cpu::rdtsc(), slices)
}

/// Whether programs of an account may run now.
pub fn has_time(account: &Account) -> bool {
    BANDWIDTHS.has_time(account.cpu_group(), cpu::rdtsc())
}

/// A thread that has used so many cycles in its life leaves the CPU.
pub fn settle(allowance: &Allowance, used: u64) {
    allowance.settle(&BANDWIDTHS, used, cpu::rdtsc());
}
