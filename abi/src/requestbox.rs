//! The request box of a process: which of its slots hold a call that any of its *servers* may
//! execute. The call itself stays in the slot, in the state
//! [`SLOT_BOXED`](crate::slot::SLOT_BOXED).
//!
//! A process may have several, for calls of different kinds, each with servers of its own.
//!
//! The box lies in the control window at [`BOX_BASE`](crate::layout::BOX_BASE), so a proxy may
//! write anything there: the LWK reads there which server to ring, which it checks, and whether a
//! call that it takes back was still there. A wrong answer to either harms the proxy's own process
//! only.

/// Slots that have a place in the box: the lowest ones. Calls of other threads go to their own
/// workers.
pub const BOX_SLOTS: u32 = 512;
/// Words of [`RequestBox::waiting`].
pub const BOX_WORDS: usize = BOX_SLOTS as usize / 64;
/// Boxes of a process, one behind the other in the page. Which calls go by which says
/// `core/src/link/kinds.rs`.
pub const BOXES: usize = 3;
/// The box for all calls whose kind has none of its own.
pub const BOX_OTHER: u32 = 0;
/// Number of the box for calls about files.
pub const BOX_FILES: u32 = 1;
/// Number of the box for calls about sockets.
pub const BOX_NET: u32 = 2;
/// Most servers of a box.
pub const SERVERS_MAX: u32 = 8;
/// [`SERVERS_MAX`], for arrays.
pub const BOX_SERVERS: usize = SERVERS_MAX as usize;
/// Most servers of a process: server `n` is the one with the number `n % SERVERS_MAX` of box
/// `n / SERVERS_MAX`.
pub const ALL_SERVERS: usize = BOXES * BOX_SERVERS;

/// A cache line for each kind of word.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct RequestBox {
    /// Bit `n`: server `n` sleeps, or is about to. The server sets the bit. The side that clears
    /// it rings the server, or is the server.
    pub idle: u64,
    /// For each server the slot for whose call it was rung, plus 1: it looks there first.
    /// Written by the LWK before it rings.
    pub first: [u32; BOX_SERVERS],
    /// Zero, up to 64 bytes.
    pub reserved0: [u64; 3],
    /// For each server the doorbell next to where it sleeps, as in
    /// [`Slot::doorbell`](crate::slot::Slot::doorbell). Written by the server.
    pub doorbells: [u32; BOX_SERVERS],
    /// Zero, up to 128 bytes.
    pub reserved1: [u64; 4],
    /// Bit `n % 64` of word `n / 64`: the call in slot `n` waits. Set by the LWK. The side that
    /// clears it owns the call: a server executes it, the slot's worker or the LWK takes it
    /// back.
    pub waiting: [u64; BOX_WORDS],
}

/// How delegated calls of an instance reach the side that executes them, all CPUs together.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchStatus {
    /// Out: `DISPATCH_*` of [`crate::boot`].
    pub way: u32,
    /// Out: most servers of a process' box [`BOX_OTHER`].
    pub servers: u32,
    /// Out: bit `n`: calls of the kind with the number `n` have a box of their own.
    pub boxes: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: calls that servers have executed.
    pub boxed_calls: u64,
    /// Out: calls that were taken out of a box again, for their threads' own workers.
    pub unboxed_calls: u64,
    /// Out: servers that were started.
    pub servers_made: u64,
    /// Out: calls of native tasks that pooled proxies have executed.
    pub packed_calls: u64,
    /// Out: pooled proxies that have come.
    pub members_made: u64,
}
