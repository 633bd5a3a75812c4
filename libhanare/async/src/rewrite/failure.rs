//! Why system calls cannot be led to the library.

/// Reason why an object's calls cannot be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// An instruction has no room for a jump.
    NoRoom(u64),
    /// There is no free memory within reach of a jump.
    NoMemory,
    /// The text cannot be made writable.
    Protected,
    /// The object's headers are not understood.
    Malformed,
    /// More objects than the library remembers.
    TooMany,
}
