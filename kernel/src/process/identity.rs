//! Identity of a process and of its threads, with limits and clocks, as Linux told them.

use hanare_core::rlimits::Found;

/// Identity and limits that Linux told us.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    pub secure: bool,
    pub control_fd: u32,
    pub stack_soft: u64,
    pub data_soft: u64,
    pub as_soft: u64,
    /// Hard limit of the address space, once it was set.
    pub as_hard: Option<u64>,
    /// Limits as Linux last reported them.
    pub limits: Found,
    pub hwcap: u64,
    pub hwcap2: u64,
    pub clktck: u64,
    pub random: [u8; 32],
    pub no_random: bool,
    /// Memory that may be read may be executed (`personality`).
    pub read_implies_exec: bool,
    pub time: Offsets,
    /// Commands registered with membarrier(2), as bits.
    pub membarrier: u64,
}

/// Users and groups of a thread, as Linux told them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    pub uid: u32,
    pub euid: u32,
    pub gid: u32,
    pub egid: u32,
}

/// The id that Linux shows for a user or group that has none in the user namespace.
pub const NOT_MAPPED: u32 = 65534;

/// The id that the first process of a pid namespace has there.
pub const INIT: u32 = 1;

/// Clocks of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offsets {
    /// Children and the next program of the process may have other clocks than it has.
    pub children: bool,
    /// Offset added to the machine's monotonic clock.
    pub monotonic_ns: i64,
    /// Offset added to the machine's time since boot.
    pub boottime_ns: i64,
}

impl Offsets {
    /// Whether the clocks of the process are not the machine's.
    pub fn differ(&self) -> bool {
        self.monotonic_ns != 0 || self.boottime_ns != 0
    }
}
