//! Calls whose arguments are copied, counted (`docs/delegation.md`, *Copied arguments*).

/// Why arguments are mapped that were to be copied: nothing describes them.
pub const MAPPED_UNDESCRIBED: u32 = 0;
/// Reason: the arguments are larger than a message can be.
pub const MAPPED_TOO_LARGE: u32 = 1;
/// There is no memory for the message, or no place.
pub const MAPPED_NO_MEMORY: u32 = 2;
/// Linux goes on with the memory after the call (`MSG_ZEROCOPY`).
pub const MAPPED_KEPT: u32 = 3;
/// A filter of system calls, which may look at where they lie, judges the call.
pub const MAPPED_JUDGED: u32 = 4;
/// Reason: more pieces than can be written back, or several that are there in part only.
pub const MAPPED_PIECES: u32 = 5;
/// The proxy has not taken the message.
pub const MAPPED_NOT_TAKEN: u32 = 6;
/// Another thread was changing the memory.
pub const MAPPED_CHANGED: u32 = 7;
/// Entries of [`crate::boot::CpuShared::mapped_by`].
pub const MAPPED_REASONS: usize = 8;
/// Entries of [`crate::boot::CpuShared::mapped_calls`]; the last one also counts higher numbers.
pub const MAPPED_CALLS: usize = 512;

/// Copied arguments of an instance, all CPUs together: [`crate::boot::CpuShared`] has the same of
/// each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopiedStatus {
    /// Out: 1: arguments of calls are copied where nothing else is said.
    pub copies: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: calls whose arguments were copied.
    pub calls: u64,
    /// Out: bytes copied for them from programs.
    pub bytes_in: u64,
    /// Out: bytes copied to programs.
    pub bytes_out: u64,
    /// Out: calls whose arguments were mapped instead, by reason.
    pub mapped_by: [u64; MAPPED_REASONS],
    /// In: address of as many words of 64 bits as [`MAPPED_CALLS`], or 0. They are those calls
    /// by number.
    pub mapped_calls: u64,
}
