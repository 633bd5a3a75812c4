//! What the arguments of each call are: which are numbers, and which point to how
//! much memory that the call reads or writes.
//!
//! A call's row in `table.rs` names them. `hanare trace` prints by them.

/// Who touches the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The call reads it.
    In,
    /// The call writes it.
    Out,
}

/// Sets of names that the values of an argument have.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Open,
    Protection,
    Map,
    Access,
    Clone,
    Seek,
    At,
    Signal,
    How,
    Family,
    Socket,
    SocketLevel,
    SocketOption,
    Message,
    Fcntl,
    Futex,
    Clock,
    Resource,
    Epoll,
    EpollCreate,
    Wait,
    Prctl,
    ArchPrctl,
    Madvise,
    Ioctl,
    Remap,
    Pipe,
    Shutdown,
    Sync,
    TimerFlags,
    Random,
    Memfd,
    Who,
    StatxMask,
    Membarrier,
}

/// Structures in the short form that a trace shows.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    Timespec,
    Timeval,
    TimespecPair,
    TimevalPair,
    Stat,
    Statx,
    SignalSet,
    SignalAction,
    DescriptorPair,
    Poll,
    Limit,
    Utsname,
    EpollEvent,
    Word,
    Long,
    Fpair,
}

impl Structure {
    /// Its bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Word => 4,
            Self::SignalSet | Self::Long | Self::DescriptorPair | Self::Poll => 8,
            Self::EpollEvent => 12,
            Self::Timespec | Self::Timeval | Self::Limit | Self::Fpair => 16,
            Self::SignalAction | Self::TimespecPair | Self::TimevalPair => 32,
            Self::Stat => 144,
            Self::Statx => 256,
            Self::Utsname => 390,
        }
    }
}

/// One argument. Numbers in brackets are the argument that says how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A signed number of 32 bits.
    Int,
    /// An unsigned number.
    Unsigned,
    /// An address, or bits without names.
    Hex,
    /// A position, or bits without names.
    Bits,
    /// Permissions, octal.
    Mode,
    /// A descriptor.
    Descriptor,
    /// A descriptor of a folder, or AT_FDCWD.
    Folder,
    /// One value of several.
    One(Names),
    /// Bits.
    Flags(Names),
    /// Bytes up to a zero.
    Text,
    /// Bytes that are read: as many as another argument says.
    Input(u8),
    /// Bytes that are written: as many as the result says, at most another argument.
    Output(u8),
    /// Pointers to strings, up to a null pointer.
    Strings,
    /// A structure.
    Struct(Structure, Direction),
    /// As many as another argument says.
    Many(Structure, u8, Direction),
    /// A socket address that is read, of as many bytes as another argument says.
    Address(u8),
    /// One that is written; another argument points to its size.
    AddressOut(u8),
    /// `struct iovec`s, as many as another argument says.
    Vectors(u8, Direction),
}

#[cfg(test)]
mod tests {
    use super::Argument::{
        Address, AddressOut, Input, Int, Many, Output, Struct, Unsigned, Vectors,
    };
    use super::Structure::Word;
    use crate::syscalls::{arguments, rows};

    #[test]
    fn references_are_to_other_arguments() {
        for row in rows() {
            for argument in row.arguments {
                let other = match *argument {
                    Input(n)
                    | Output(n)
                    | Address(n)
                    | AddressOut(n)
                    | Vectors(n, _)
                    | Many(_, n, _) => usize::from(n),
                    _ => continue,
                };
                assert!(other < row.arguments.len(), "{}", row.name);
                assert!(
                    matches!(row.arguments[other], Unsigned | Int | Struct(Word, _)),
                    "{}",
                    row.name
                );
            }
        }
    }

    #[test]
    fn arguments_are_looked_up_by_number() {
        assert_eq!(arguments(0)[1], Output(2));
        assert!(arguments(u64::MAX).is_empty());
    }
}
