//! The clock page: Linux' time, written by the module about once a second, read
//! by the LWK and by the vDSO in applications without a trap.
//!
//! A reader takes `sequence` (even), the fields, `sequence` again; then
//! `ns = base_ns + ((rdtsc - tsc) * mult) >> shift`. The module chooses `mult` so
//! that no clock ever runs backwards between two updates.

/// Read-only for everyone but the module. One page, alone.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct ClockPage {
    /// Odd while the module writes.
    pub sequence: u32,
    /// Shift of the multiplication, see the module documentation.
    pub shift: u32,
    /// TSC value at the sample.
    pub tsc: u64,
    /// Factor, see the module documentation.
    pub mult: u64,
    /// CLOCK_MONOTONIC at `tsc`, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME at `tsc`, ns.
    pub realtime_ns: u64,
    /// CLOCK_BOOTTIME at `tsc`, ns.
    pub boottime_ns: u64,
    /// CLOCK_MONOTONIC_RAW at `tsc`, ns.
    pub raw_ns: u64,
    /// CLOCK_TAI at `tsc`, ns.
    pub tai_ns: u64,
    /// Minutes west of Greenwich and DST flag, for gettimeofday's second argument.
    pub minutes_west: i32,
    /// `tz_dsttime`.
    pub dst: i32,
    /// CLOCK_REALTIME_COARSE as of Linux' last tick, ns: what files are stamped with.
    /// This and the next are written at each tick, outside the sequence.
    pub realtime_coarse_ns: u64,
    /// CLOCK_MONOTONIC_COARSE, the same.
    pub monotonic_coarse_ns: u64,
}

/// How far the coarse clocks are behind at most, ns: Linux does not tick while it is idle.
pub const COARSE_LAG_NS: u64 = 10_000_000;

/// A coarse clock from its word and the fine clock's value; ns.
#[must_use]
pub const fn coarse_ns(tick_ns: u64, fine_ns: u64) -> u64 {
    let least = fine_ns.saturating_sub(COARSE_LAG_NS);
    if tick_ns > fine_ns {
        fine_ns
    } else if tick_ns < least {
        least
    } else {
        tick_ns
    }
}
