//! The virtual address ranges all sides agree on.
//!
//! ```text
//! 0x0000_0000_0001_0000  USER_MIN      the application: same addresses in the
//! 0x0000_7d00_0000_0000  USER_MAX      LWK's page table and in the proxy
//! 0x0000_7d00_2010_0000  CONTROL_BASE  scratch pages, slots, start block, request
//! 0x0000_7d00_4310_1000  CONTROL_END   box: proxy and LWK only
//! 0x0000_7d80_0000_0000  MESSAGES_BASE messages of calls whose arguments are copied:
//! 0x0000_7dfd_0000_0000  MESSAGES_END  mapped by the proxy at the first such call
//! 0x0000_7e00_0000_0000  PROXY_BASE    the proxy's own image, heap, mmap area
//! 0xffff_8000_0000_0000  DIRECT_BASE   LWK: its physical memory, at +paddr
//! 0xffff_c000_0000_0000  STACKS_BASE   LWK: its memory as kernel stacks: each 32 KiB
//!                                      at +2 * paddr, behind 32 KiB of nothing
//! 0xffff_fe80_0000_0000  CPU_STACKS_BASE  LWK: stacks of its CPUs, and nothing between
//! 0xffff_ffff_8000_0000  KERNEL_BASE   LWK: its image
//! ```
//!
//! The proxy maps [`part`]s of `USER_MIN..USER_MAX` and the control window as VMAs of `/dev/hanare`
//! whose file offset is `space << SPACE_SHIFT | address`.
//!
//! **Where the window lies** makes the end of a proxy short: Linux looks at each entry of each page
//! table below a VMA. What every proxy uses, the first slots and their scratch pages, has one table
//! in common. Little of the window lies in the same GiB. Between the two VMAs is so much room (more
//! than 2 MiB) that Linux does not look at their tables as those of one range.

use crate::PAGE_SIZE;

/// Lowest address an application can map (Linux' default `mmap_min_addr`).
pub const USER_MIN: u64 = 0x1_0000;
/// End (exclusive) of the application's addresses.
pub const USER_MAX: u64 = 0x7d00_0000_0000;
/// Parts of the application's addresses, from the lowest up, that a proxy maps each by itself:
/// Linux looks at each 512 GiB of a mapping when its process ends, whether something is there or
/// not.
pub const PARTS: u32 = 5;
/// All parts, a bit each, the lowest part's first.
pub const PARTS_ALL: u32 = (1 << PARTS) - 1;
/// Parts in which programs, their heaps and their stacks mostly are: the lowest TiB, the one around
/// two thirds of all, and the highest.
pub const PARTS_USUAL: u32 = 0b10101;

/// First address of a part, and the one behind its last.
pub const fn part(number: u32) -> (u64, u64) {
    match number {
        0 => (USER_MIN, 1 << 40),
        1 => (1 << 40, 0x5500_0000_0000),
        2 => (0x5500_0000_0000, 0x5680_0000_0000),
        3 => (0x5680_0000_0000, USER_MAX - (1 << 40)),
        _ => (USER_MAX - (1 << 40), USER_MAX),
    }
}

/// Start of the control window: memory shared by the proxy and the LWK.
pub const CONTROL_BASE: u64 = SCRATCH_BASE;
/// End (exclusive) of the control window.
pub const CONTROL_END: u64 = BOX_BASE + BOX_SIZE;
/// Bytes of the control window.
pub const CONTROL_SIZE: u64 = CONTROL_END - CONTROL_BASE;
/// One scratch page per slot, for arguments of calls that the LWK makes on its
/// own account (a path, a `struct stat`), the first one last: see [`scratch`].
pub const SCRATCH_BASE: u64 = SCRATCH_END - SLOTS_MAX as u64 * PAGE_SIZE;
/// End (exclusive) of the scratch pages.
pub const SCRATCH_END: u64 = USER_MAX + (1 << 30) + (1 << 20);
/// Slots: slot `i` lies at `SLOT_BASE + i * sizeof(Slot)`.
pub const SLOT_BASE: u64 = SCRATCH_END;
/// Bytes reserved for slots.
pub const SLOT_SIZE: u64 = 32 << 20;
/// The start block (see [`crate::start`]), written by the proxy before START.
pub const START_BASE: u64 = SLOT_BASE + SLOT_SIZE;
/// Most bytes a start block can have: header, arguments and environment.
pub const START_SIZE: u64 = 16 << 20;
/// The request box (see [`crate::requestbox`]); only processes that have one touch its page.
pub const BOX_BASE: u64 = START_BASE + START_SIZE;
/// Bytes reserved for the request box.
pub const BOX_SIZE: u64 = PAGE_SIZE;
/// Most threads one process can have.
pub const SLOTS_MAX: u32 = 131_072;
/// The scratch page of a slot.
pub const fn scratch(slot: u32) -> u64 {
    SCRATCH_END - (slot as u64 + 1) * PAGE_SIZE
}

/// Start of the messages of calls whose arguments are copied ([`crate::message`]): memory of the
/// LWK that the proxy maps when it is first asked to ([`MESSAGES_PART`]). The message of slot `i`
/// lies at [`message`] `(i)`.
pub const MESSAGES_BASE: u64 = 0x7d80_0000_0000;
/// End (exclusive) of the messages.
pub const MESSAGES_END: u64 = MESSAGES_BASE + MESSAGES_MAX as u64 * MESSAGE_STRIDE;
/// Slots that can have a message, the lowest ones.
pub const MESSAGES_MAX: u32 = 4000;
/// From one message to the next. Behind each lies at least as much that is never mapped.
pub const MESSAGE_STRIDE: u64 = 128 << 20;
/// Most bytes of a message: 64 MiB of data, and what belongs to it.
pub const MESSAGE_MAX: u64 = (64 << 20) + (2 << 20);
/// In place of the number of a [`part`]: the messages.
pub const MESSAGES_PART: u32 = 16;
/// Where the message of a slot lies.
pub const fn message(slot: u32) -> u64 {
    MESSAGES_BASE + slot as u64 * MESSAGE_STRIDE
}

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
