//! Pooled proxies: Linux processes made beforehand, which execute the packed calls of *native
//! tasks*, programs of the LWK whose memory no process of Linux has (`docs/delegation.md`, *Packed
//! arguments and pooled proxies*).
//!
//! A pool belongs to the processes that hold its descriptor
//! ([`IOCTL_POOL`](crate::ioctl::IOCTL_POOL)). A pooled proxy is a space in which no program runs.
//! A pooled proxy's control window has one slot; where others have messages it has a [`Member`]
//! page, and behind that the pages of packed calls ([`crate::message`]).

use crate::layout::{MESSAGES_BASE, message};
use crate::text::{MESSAGE_SIZE, NAME_SIZE};
use crate::{PAGE_SIZE, message::MESSAGE_PAGE_SIZE};

/// Where a pooled proxy finds its [`Member`] page.
pub const MEMBER_BASE: u64 = MESSAGES_BASE;
/// Where the pages of its calls begin: page `n` lies `n * MESSAGE_PAGE_SIZE` behind.
pub const PACKED_BASE: u64 = MEMBER_BASE + PAGE_SIZE;
/// Most pages of a packed call: a MiB, less their heads.
pub const PACKED_PAGES: u32 = 256;
const _: () = assert!(MEMBER_BASE == message(0) && MESSAGE_PAGE_SIZE as u64 == PAGE_SIZE);
/// Most pooled proxies of a pool.
pub const POOL_MAX: u32 = 1024;

/// The program of a proxy runs in the space. In [`Attach::kind`](crate::ioctl::Attach::kind), as
/// what follows.
pub const ATTACH_PROGRAM: u32 = 0;
/// A native task runs in the space: the process maps nothing of its memory.
pub const ATTACH_NATIVE: u32 = 1;
/// No program runs in the space: the process is a pooled proxy.
pub const ATTACH_MEMBER: u32 = 2;
/// Bits of the number of proxies that a pool may have, in `args[3]` of
/// [`REQUEST_SPACE_OPEN`](crate::request::REQUEST_SPACE_OPEN), where [2] is 0: the kind in the
/// lowest 8 bits, this number behind them, the number of the pool from bit 32 on.
pub const POOLED_LIMIT_SHIFT: u32 = 8;
/// Lowest bit of the number of the pool in that word.
pub const POOLED_POOL_SHIFT: u32 = 32;

/// The pooled proxy serves no task.
pub const MEMBER_FREE: u32 = 0;
/// A task has it, alone. Nothing of its call has been executed.
pub const MEMBER_CLAIMED: u32 = 1;
/// A call that it was sent is being executed, or has been.
pub const MEMBER_BEGUN: u32 = 2;
/// The pooled proxy had nothing to do for a while, and ends.
pub const MEMBER_LEAVES: u32 = 3;

/// Page of a pooled proxy that says what it is doing. The proxy may write anything there: it harms
/// the users of its pool only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// `MEMBER_*`. From `FREE` the LWK takes it to `CLAIMED`, the proxy to `LEAVES`, by one
    /// exchange; from `CLAIMED` the proxy takes it to `BEGUN`, the LWK back, and to `FREE`.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

/// Flag of a packed call: the proxy has been the caller's for calls before, and is free of their
/// traces when it answers. Without a page it is the only thing to do.
pub const PACKED_CLEAN: u64 = 1;

/// `IOCTL_POOL`: the descriptor becomes a pool of an instance: a process that has it may attach
/// native tasks and pooled proxies to it, as long as it has the rights of the process that made the
/// pool. When it is closed the proxies end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolMake {
    /// In: name of the instance; empty: the only instance, or the one called `default`. Out: its
    /// name.
    pub name: [u8; NAME_SIZE],
    /// In: most proxies, up to [`POOL_MAX`].
    pub limit: u32,
    /// In: how long a proxy may have nothing to do before it ends, ms; 0: for ever.
    pub idle_ms: u32,
    /// Out: why not.
    pub message: [u8; MESSAGE_SIZE],
}
