//! The virtual address ranges everybody agrees on.
//!
//! ```text
//! 0x0000_0000_0001_0000  USER_MIN      the application: same addresses in the
//! 0x0000_7d00_0000_0000  USER_MAX      LWK's page table and in the proxy
//! 0x0000_7d00_0000_0000  CONTROL_BASE  slots, start block, scratch pages:
//! 0x0000_7d00_4000_0000  CONTROL_END   proxy and LWK only
//! 0x0000_7e00_0000_0000  PROXY_BASE    the proxy's own image, heap, mmap area
//! 0xffff_8000_0000_0000  DIRECT_BASE   LWK: its physical memory, at +paddr
//! 0xffff_c000_0000_0000  STACKS_BASE   LWK: its memory as kernel stacks: each 32 KiB
//!                                      at +2 * paddr, behind 32 KiB of nothing
//! 0xffff_fe80_0000_0000  CPU_STACKS_BASE  LWK: stacks of its CPUs, and nothing between
//! 0xffff_ffff_8000_0000  KERNEL_BASE   LWK: its image
//! ```
//!
//! The proxy maps `USER_MIN..CONTROL_END` as one VMA of `/dev/hanare` whose
//! file offset is `space << SPACE_SHIFT | address`.

/// Lowest address an application can map (Linux' default `mmap_min_addr`).
pub const USER_MIN: u64 = 0x1_0000;
/// End (exclusive) of the application's addresses.
pub const USER_MAX: u64 = 0x7d00_0000_0000;
/// Start of the control window: memory shared by the proxy and the LWK.
pub const CONTROL_BASE: u64 = USER_MAX;
/// Bytes of the control window.
pub const CONTROL_SIZE: u64 = 1 << 30;
/// End (exclusive) of the control window.
pub const CONTROL_END: u64 = CONTROL_BASE + CONTROL_SIZE;
/// Slots: slot `i` lies at `SLOT_BASE + i * sizeof(Slot)`.
pub const SLOT_BASE: u64 = CONTROL_BASE;
/// Bytes reserved for slots.
pub const SLOT_SIZE: u64 = 32 << 20;
/// The start block (see [`crate::start`]), written by the proxy before START.
pub const START_BASE: u64 = CONTROL_BASE + SLOT_SIZE;
/// Most bytes a start block can have: header, arguments and environment.
pub const START_SIZE: u64 = 16 << 20;
/// One scratch page per slot, for arguments of calls that the LWK makes on its
/// own account (a path, a `struct stat`): page `i` at `SCRATCH_BASE + i * 4096`.
pub const SCRATCH_BASE: u64 = CONTROL_BASE + (512 << 20);
/// Most threads one process can have.
pub const SLOTS_MAX: u32 = 131_072;
/// Where the proxy's image is linked.
pub const PROXY_BASE: u64 = 0x7e00_0000_0000;
/// Bit of the device's file offset where the space id starts.
pub const SPACE_SHIFT: u32 = 47;
/// Most spaces (processes) at once, over all instances; ids are 1..SPACES_MAX.
pub const SPACES_MAX: u32 = 65_536;

/// LWK: start of the direct map of its memory.
pub const DIRECT_BASE: u64 = 0xffff_8000_0000_0000;
/// LWK: start of the map of its memory in which each block has a guard of unmapped addresses below.
pub const STACKS_BASE: u64 = 0xffff_c000_0000_0000;
/// LWK: start of the stacks of its CPUs.
pub const CPU_STACKS_BASE: u64 = 0xffff_fe80_0000_0000;
/// LWK: where its image is linked.
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
