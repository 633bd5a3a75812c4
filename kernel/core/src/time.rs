//! Time: from TSC ticks to nanoseconds, and the structures of time calls.

use hanare_abi::clock::{ClockPage, coarse_ns};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::errno::{EINVAL, Result};

/// Nanoseconds in a second.
pub const NS_PER_SEC: u64 = 1_000_000_000;

/// Clock ids of Linux (`uapi/linux/time.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Clock {
    /// Wall time.
    Realtime = 0,
    /// Since boot, without suspend.
    Monotonic = 1,
    /// CPU time of the process.
    ProcessCpu = 2,
    /// CPU time of the thread.
    ThreadCpu = 3,
    /// Monotonic without NTP's slewing.
    MonotonicRaw = 4,
    /// Realtime at the last tick.
    RealtimeCoarse = 5,
    /// Monotonic at the last tick.
    MonotonicCoarse = 6,
    /// Since boot, with suspend.
    Boottime = 7,
    /// International atomic time.
    Tai = 11,
}

impl Clock {
    /// The clock of a `clockid_t` that is served locally; `None` for the others
    /// (alarm clocks, other processes' clocks, dynamic clocks), which are delegated.
    #[must_use]
    pub const fn from_id(id: i32) -> Option<Self> {
        Some(match id {
            0 => Self::Realtime,
            1 => Self::Monotonic,
            // -6, -2: what clock_getcpuclockid makes for the caller itself
            2 | -6 => Self::ProcessCpu,
            3 | -2 => Self::ThreadCpu,
            4 => Self::MonotonicRaw,
            5 => Self::RealtimeCoarse,
            6 => Self::MonotonicCoarse,
            7 => Self::Boottime,
            11 => Self::Tai,
            _ => return None,
        })
    }
}

/// `(ticks * mult) >> shift` without overflow of the product; ns. A shift of 128
/// or more gives 0, a result beyond 64 bits saturates.
#[must_use]
pub const fn ticks_to_ns(ticks: u64, mult: u64, shift: u32) -> u64 {
    if shift >= 128 {
        return 0;
    }
    let ns = (ticks as u128 * mult as u128) >> shift;
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

/// The clock that was `base_ns` at TSC value `base_tsc`, at TSC value `tsc`; ns.
/// A TSC slightly behind the sample (another CPU took it) counts as the sample.
#[must_use]
pub const fn clock_ns(base_ns: u64, base_tsc: u64, mult: u64, shift: u32, tsc: u64) -> u64 {
    let delta = tsc.wrapping_sub(base_tsc);
    let delta = if (delta as i64) < 0 { 0 } else { delta };
    base_ns.saturating_add(ticks_to_ns(delta, mult, shift))
}

/// Value of a clock at TSC value `tsc`, from a consistent copy of the clock page;
/// ns. `None` for the CPU-time clocks, which the page does not know.
#[must_use]
pub const fn read_clock(page: &ClockPage, clock: Clock, tsc: u64) -> Option<u64> {
    let base_ns = match clock {
        Clock::Realtime | Clock::RealtimeCoarse => page.realtime_ns,
        Clock::Monotonic | Clock::MonotonicCoarse => page.monotonic_ns,
        Clock::MonotonicRaw => page.raw_ns,
        Clock::Boottime => page.boottime_ns,
        Clock::Tai => page.tai_ns,
        Clock::ProcessCpu | Clock::ThreadCpu => return None,
    };
    let fine_ns = clock_ns(base_ns, page.tsc, page.mult, page.shift, tsc);
    Some(match clock {
        Clock::RealtimeCoarse => coarse_ns(page.realtime_coarse_ns, fine_ns),
        Clock::MonotonicCoarse => coarse_ns(page.monotonic_coarse_ns, fine_ns),
        _ => fine_ns,
    })
}

/// Offsets of a time namespace's monotonic and boottime clocks, ns, from the text of
/// `/proc/self/timens_offsets`.
#[must_use]
pub fn namespace_offsets(text: &str) -> Option<(i64, i64)> {
    let offset = |clock: &str| {
        let mut words =
            text.lines().find(|line| line.starts_with(clock))?.split_ascii_whitespace().skip(1);
        let (seconds, ns): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        seconds.checked_mul(NS_PER_SEC as i64)?.checked_add(ns)
    };
    Some((offset("monotonic")?, offset("boottime")?))
}

/// TSC ticks that `ns` take at `tsc_khz`, rounded up, saturating.
#[must_use]
pub const fn ns_to_ticks(ns: u64, tsc_khz: u32) -> u64 {
    let ticks = (ns as u128 * tsc_khz as u128).div_ceil(1_000_000);
    if ticks > u64::MAX as u128 { u64::MAX } else { ticks as u64 }
}

/// `struct __kernel_timespec`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timespec {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds, 0..1e9.
    pub nsec: i64,
}

impl Timespec {
    /// The timespec of so many nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self { sec: (ns / NS_PER_SEC) as i64, nsec: (ns % NS_PER_SEC) as i64 }
    }

    /// To nanoseconds, saturating at 2^64-1 (a wait "for ever").
    ///
    /// # Errors
    /// `EINVAL`: negative seconds, or nanoseconds outside 0..1e9.
    pub const fn to_ns(self) -> Result<u64> {
        if self.sec < 0 || self.nsec < 0 || self.nsec >= NS_PER_SEC as i64 {
            return Err(EINVAL);
        }
        Ok((self.sec as u64).saturating_mul(NS_PER_SEC).saturating_add(self.nsec as u64))
    }
}

/// `struct __kernel_old_timeval`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timeval {
    /// Seconds.
    pub sec: i64,
    /// Microseconds, 0..1e6.
    pub usec: i64,
}

impl Timeval {
    /// The timeval of so many nanoseconds, rounded down.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self { sec: (ns / NS_PER_SEC) as i64, usec: (ns % NS_PER_SEC / 1000) as i64 }
    }

    /// From nanoseconds that may be fewer than none, rounded down.
    #[must_use]
    pub const fn from_signed_ns(ns: i64) -> Self {
        let second = NS_PER_SEC as i64;
        Self { sec: ns.div_euclid(second), usec: ns.rem_euclid(second) / 1000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn coarse_clocks_are_those_of_the_last_tick() {
        let fine = 1_000 * NS_PER_SEC;
        assert_eq!(coarse_ns(fine - 3_000_000, fine), fine - 3_000_000);
        assert_eq!(coarse_ns(fine + 500, fine), fine); // never ahead
        assert_eq!(coarse_ns(0, fine), fine - 10_000_000); // Linux is idle
    }

    #[test]
    fn offsets_of_a_time_namespace_are_read() {
        let text = "monotonic          100         5\nboottime           -20         0\n";
        assert_eq!(namespace_offsets(text), Some((100_000_000_005, -20_000_000_000)));
        assert_eq!(namespace_offsets("monotonic 1\nboottime 0 0\n"), None);
        assert_eq!(namespace_offsets("monotonic 9999999999999 0\nboottime 0 0\n"), None);
    }

    #[test]
    fn ticks_and_nanoseconds_convert_without_overflow() {
        // 2.5 GHz: 0.4 ns per tick
        let (shift, mult) = (32, (4u64 << 32) / 10);
        assert_eq!(ticks_to_ns(2_500_000_000, mult, shift), 999_999_999);
        assert_eq!(clock_ns(1000, 50, 1 << 8, 8, 60), 1010);
        assert_eq!(clock_ns(1000, 50, 1 << 8, 8, 40), 1000);
        assert_eq!(ns_to_ticks(1_000_000, 2_500_000), 2_500_000);
        assert_eq!(ticks_to_ns(u64::MAX, u64::MAX, 200), 0);
        assert_eq!(ticks_to_ns(u64::MAX, u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn a_timespec_out_of_range_is_refused() {
        assert_eq!(Timespec::from_ns(1_500_000_000), Timespec { sec: 1, nsec: 500_000_000 });
        assert_eq!(Timespec { sec: 1, nsec: NS_PER_SEC as i64 }.to_ns(), Err(EINVAL));
        assert_eq!(Timespec { sec: -1, nsec: 0 }.to_ns(), Err(EINVAL));
        assert_eq!(Timespec { sec: i64::MAX, nsec: 5 }.to_ns(), Ok(u64::MAX));
    }

    proptest! {
        #[test]
        fn nanoseconds_survive_a_timespec(ns in any::<u64>()) {
            prop_assert_eq!(Timespec::from_ns(ns).to_ns(), Ok(ns));
        }

        #[test]
        fn a_clock_never_goes_back(a in 0u64..1 << 60, b in 0u64..1 << 60, mult in 1u64..1 << 40, shift in 0u32..64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(clock_ns(7, 0, mult, shift, low) <= clock_ns(7, 0, mult, shift, high));
        }
    }
}
