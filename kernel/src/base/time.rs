//! Time: the TSC, read against the clock page that the module keeps.

use core::sync::atomic::{AtomicU64, Ordering};
use hanare_core::time::{Clock, read_clock};
use hanare_hal::{cpu, shared};

/// A deadline, TSC value, that never comes.
pub const NEVER: u64 = u64::MAX;

static BOOT_TSC: AtomicU64 = AtomicU64::new(0);

/// Remembers when this kernel came up.
pub fn init() {
    BOOT_TSC.store(cpu::rdtsc(), Ordering::Relaxed);
}

/// ns since [`init`]; 0 before.
pub fn since_boot_ns() -> u64 {
    match BOOT_TSC.load(Ordering::Relaxed) {
        0 => 0,
        start => cycles_to_ns(cpu::rdtsc().wrapping_sub(start)),
    }
}

/// TSC cycles that were counted, in ns. Always at the same rate, so that no sum of them goes
/// back or jumps: that of the clock page is bent each second, to meet Linux' clock.
pub fn cycles_to_ns(cycles: u64) -> u64 {
    (u128::from(cycles) * 1_000_000 / u128::from(shared::params().tsc_khz.max(1))) as u64
}

/// ns from now in TSC cycles, at the rate at which the clocks run now.
pub fn ns_to_cycles(ns: u64) -> u64 {
    let page = shared::clock().read();
    if page.mult == 0 || page.shift >= 64 {
        return hanare_core::time::ns_to_ticks(ns, shared::params().tsc_khz);
    }
    u64::try_from((u128::from(ns) << page.shift) / u128::from(page.mult)).unwrap_or(u64::MAX)
}

/// Value of one of Linux' clocks, ns.
pub fn now(clock: Clock) -> Option<u64> {
    let page = shared::clock().read();
    read_clock(&page, clock, cpu::rdtsc())
}
