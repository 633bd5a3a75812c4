//! The start block: what a new program is started with, written by the proxy at
//! [`crate::layout::START_BASE`] before `IOCTL_START`.
//!
//! The header is followed, at `strings_offset`, by zero-terminated strings: the
//! path of the program, then `argc` arguments, then `envc` environment strings.
//! The LWK checks every count and length against `total_size`. The ids of process and user are not
//! in the block: the module says them when the space opens (`REQUEST_SPACE_OPEN`).

/// Header of the start block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StartBlock {
    /// [`crate::MAGIC`].
    pub magic: u64,
    /// [`crate::VERSION`] of the proxy.
    pub version: u32,
    /// Offset of the first string from the start of the block.
    pub strings_offset: u32,
    /// Bytes of the whole block.
    pub total_size: u64,
    /// Number of arguments, of environment strings.
    pub argc: u32,
    /// Number of strings of the environment.
    pub envc: u32,
    /// 1 if the proxy was started with AT_SECURE.
    pub secure: u32,
    /// The descriptor of `/dev/hanare` in the proxy; the LWK keeps the
    /// application from closing it.
    pub control_fd: u32,
    /// Blocked signals and ignored signals inherited (bit n-1 = signal n).
    pub sigmask: u64,
    /// Signals that are ignored.
    pub sigignore: u64,
    /// RLIMIT_STACK soft and hard of the caller (before the launcher changed it).
    pub stack_soft: u64,
    /// Hard RLIMIT_STACK.
    pub stack_hard: u64,
    /// RLIMIT_AS, RLIMIT_DATA soft.
    pub as_soft: u64,
    /// Soft RLIMIT_DATA.
    pub data_soft: u64,
    /// Random bytes for AT_RANDOM and address space layout.
    pub random: [u8; 32],
    /// Linux' AT_HWCAP, AT_HWCAP2, AT_CLKTCK, AT_MINSIGSTKSZ of the proxy.
    pub hwcap: u64,
    /// AT_HWCAP2.
    pub hwcap2: u64,
    /// AT_CLKTCK.
    pub clktck: u64,
    /// `START_*` flags.
    pub flags: u64,
    /// RLIMIT_CPU soft and hard, seconds.
    pub cpu_soft: u64,
    /// Hard RLIMIT_CPU.
    pub cpu_hard: u64,
}

/// No address space randomisation (personality ADDR_NO_RANDOMIZE).
pub const START_NO_RANDOM: u64 = 1;
/// Exit of the program is reported with the LWK's counters on stderr.
pub const START_STATS: u64 = 2;
/// Arguments of the program's calls are copied, whatever is usual in the instance.
pub const START_COPIED: u64 = 4;
/// Arguments of the program's calls are mapped, whatever is usual in the instance.
pub const START_MAPPED: u64 = 8;
/// The program's calls go by the request box where they may, whatever the instance says.
pub const START_BOX: u64 = 16;
/// The program's calls go to each thread's own worker, whatever the instance says.
pub const START_DIRECT: u64 = 32;
/// The program's calls go by the request box while it has more threads than servers, whatever the
/// instance says.
pub const START_AUTO: u64 = 64;
/// A native task keeps a pooled proxy from the beginning.
pub const START_KEEPS: u64 = 128;
