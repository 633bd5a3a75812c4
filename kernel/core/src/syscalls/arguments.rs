//! Descriptions of each call's arguments: which are numbers, and which point to how much memory
//! that the call reads or writes.
//!
//! A call's row in `table.rs` names them. `hanare trace` prints by them, and `marshal` copies by
//! them the memory that a call refers to. An argument of a call such as ioctl(2) is of one of
//! several kinds: `choices.rs` has tables of these.

/// Direction of a call's access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The call reads the memory.
    In,
    /// The call writes it, all of it where it succeeds and nothing where it fails.
    Out,
    /// The call reads it, and may write to all or to parts of it.
    InOut,
    /// The call reads it, and may write to all or to parts of it. A failing write is no error (the
    /// time left of select(2)).
    InOutQuiet,
}

impl Direction {
    /// Whether the call reads the memory.
    #[must_use]
    pub const fn is_read(self) -> bool {
        !matches!(self, Self::Out)
    }

    /// Whether the call writes to the memory.
    #[must_use]
    pub const fn is_written(self) -> bool {
        !matches!(self, Self::In)
    }
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
    /// Bytes of this number, which a trace does not show.
    Bytes(u16),
}

impl Structure {
    /// Bytes of the structure.
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
            Self::Bytes(bytes) => bytes as usize,
        }
    }
}

/// A structure that says itself how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Bytes beside those that its first word, of 32 bits, counts.
    pub head: u16,
    /// Fewest bytes.
    pub least: u16,
    /// Most bytes; more are an error of Linux'.
    pub most: u16,
}

/// Which value chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The low 32 bits of an argument.
    One(u8),
    /// Two arguments' low 32 bits: the first is the upper half.
    Pair(u8, u8),
}

/// Description of an argument for a range of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// First command of the range.
    pub from: u64,
    /// Last command of the range.
    pub to: u64,
    /// Description of the argument.
    pub is: Argument,
}

/// Choice of an argument's description by another argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Value that chooses.
    pub key: Key,
    /// Cases, of which the first that fits counts.
    pub cases: &'static [Case],
    /// Description if no case fits.
    pub other: Argument,
}

impl Choice {
    /// The description that applies in a call with these arguments.
    #[must_use]
    pub fn of(&self, args: &[u64; 6]) -> Argument {
        let low = |n: u8| args[usize::from(n)] & 0xffff_ffff;
        let key = match self.key {
            Key::One(n) => low(n),
            Key::Pair(high, n) => low(high) << 32 | low(n),
        };
        let found = self.cases.iter().find(|case| (case.from..=case.to).contains(&key));
        found.map_or(self.other, |case| case.is)
    }
}

/// One argument. Numbers in brackets are the argument that says how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A signed number of 32 bits.
    Int,
    /// An unsigned number of 32 bits.
    Word,
    /// An unsigned number.
    Unsigned,
    /// An address that the call does not read or write at, or one whose memory nothing here
    /// describes.
    Hex,
    /// A position, or bits without names.
    Bits,
    /// Permissions, octal.
    Mode,
    /// A descriptor.
    Descriptor,
    /// A descriptor of a folder, or AT_FDCWD.
    Folder,
    /// One of several named values.
    One(Names),
    /// Bits with names.
    Flags(Names),
    /// Bytes up to a zero.
    Text,
    /// Bytes that are read: as many as another argument says.
    Input(u8),
    /// Bytes that are written: as many as the result says, at most another argument.
    Output(u8),
    /// Bytes that are written as with [`Output`](Self::Output), which a trace does not show.
    Records(u8),
    /// Bytes that are read and written: as many as another argument says.
    Buffer(u8),
    /// Bytes that are written; another argument points to how many at most, and then to how many
    /// they are.
    Sized(u8),
    /// Pointers to strings, up to a null pointer.
    Strings,
    /// A structure.
    Struct(Structure, Direction),
    /// A structure that says how long it is.
    Counted(&'static Counted, Direction),
    /// Structures, as many as another argument says.
    Many(Structure, u8, Direction),
    /// Structures that are written: as many as the result says, at most another argument.
    List(Structure, u8),
    /// Bits for descriptors below another argument; read and written.
    Set(u8),
    /// A message of a queue: its type, and as many bytes as another argument or, where it is
    /// written, the result says.
    Typed(u8, Direction),
    /// A socket address that is read, of as many bytes as another argument says.
    Address(u8),
    /// A socket address that is written; another argument points to its size.
    AddressOut(u8),
    /// `struct iovec`s, as many as another argument says.
    Vectors(u8, Direction),
    /// A `struct msghdr`, with all that it refers to.
    Message(Direction),
    /// `struct mmsghdr`s, as many as another argument says.
    Messages(u8, Direction),
    /// Description that depends on the command in another argument.
    Chosen(&'static Choice),
    /// Memory whose direction and size the command of an ioctl(2) says, which is another argument.
    Encoded(u8),
    /// The argument has no description, for this reason.
    Undescribed(&'static str),
}

impl Argument {
    /// The argument that says how much another one is.
    #[must_use]
    pub const fn other(self) -> Option<u8> {
        match self {
            Self::Input(n)
            | Self::Output(n)
            | Self::Records(n)
            | Self::Buffer(n)
            | Self::Sized(n)
            | Self::Many(_, n, _)
            | Self::List(_, n)
            | Self::Set(n)
            | Self::Typed(n, _)
            | Self::Address(n)
            | Self::AddressOut(n)
            | Self::Vectors(n, _)
            | Self::Messages(n, _)
            | Self::Encoded(n) => Some(n),
            Self::Int
            | Self::Word
            | Self::Unsigned
            | Self::Hex
            | Self::Bits
            | Self::Mode
            | Self::Descriptor
            | Self::Folder
            | Self::One(_)
            | Self::Flags(_)
            | Self::Text
            | Self::Strings
            | Self::Struct(..)
            | Self::Counted(..)
            | Self::Message(_)
            | Self::Chosen(_)
            | Self::Undescribed(_) => None,
        }
    }

    /// The description that applies in a call with these arguments.
    #[must_use]
    pub fn chosen(self, args: &[u64; 6]) -> Self {
        match self {
            Self::Chosen(choice) => choice.of(args),
            other => other,
        }
    }

    /// The number that an argument of this kind is where it says how many: as wide as Linux takes
    /// it, zero for a negative one.
    #[must_use]
    pub fn count(self, value: u64) -> u64 {
        let [a, b, c, d, ..] = value.to_le_bytes();
        let low = u32::from_le_bytes([a, b, c, d]);
        match self {
            Self::Int => u64::from(low.cast_signed().max(0).unsigned_abs()),
            Self::Word => u64::from(low),
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Argument::{Int, Output, Sized, Struct, Unsigned, Word};
    use super::Direction::InOut;
    use super::{Argument, Structure};
    use crate::syscalls::{Service, arguments, row, rows};
    use std::println;

    /// Every kind that an argument of a row can have.
    fn kinds(argument: Argument) -> std::vec::Vec<Argument> {
        match argument {
            Argument::Chosen(choice) => {
                choice.cases.iter().map(|case| case.is).chain([choice.other]).collect()
            }
            other => std::vec![other],
        }
    }

    #[test]
    fn references_are_to_other_arguments() {
        for row in rows() {
            for argument in row.arguments.iter().flat_map(|argument| kinds(*argument)) {
                let Some(other) = argument.other().map(usize::from) else { continue };
                let other = row.arguments.get(other).unwrap_or_else(|| panic!("{}", row.name));
                let is_good = match argument {
                    Sized(_) | Argument::AddressOut(_) => *other == Struct(Structure::Word, InOut),
                    Argument::Encoded(_) => matches!(other, Argument::One(_)),
                    _ => matches!(other, Unsigned | Word | Int),
                };
                assert!(is_good, "{}: {argument:?} by {other:?}", row.name);
            }
        }
    }

    #[test]
    fn every_delegated_call_is_described_or_says_why_not() {
        let (mut described, mut by_command, mut not) = (0, 0, 0);
        for row in rows().iter().filter(|row| matches!(row.service, Service::Delegated(_))) {
            if let [Argument::Undescribed(why)] = row.arguments {
                assert!(!why.is_empty() && row.args > 0, "{}", row.name);
                not += 1;
                continue;
            }
            assert_eq!(row.arguments.len(), usize::from(row.args), "{}", row.name);
            for argument in row.arguments {
                assert!(
                    !matches!(
                        argument,
                        Argument::Hex | Argument::Strings | Argument::Undescribed(_)
                    ),
                    "{}: {argument:?}",
                    row.name
                );
                assert!(
                    kinds(*argument)[..]
                        .iter()
                        .all(|kind| !matches!(kind, Argument::Hex | Argument::Strings)),
                    "{}: {argument:?}",
                    row.name
                );
            }
            described += 1;
            by_command += i32::from(row.arguments.iter().any(|a| matches!(a, Argument::Chosen(_))));
        }
        println!("{described} described, {by_command} of them by command; {not} not described");
    }

    #[test]
    fn counts_are_as_wide_as_linux_takes_them() {
        assert_eq!(Int.count(u64::MAX), 0);
        assert_eq!(Int.count(1 << 32 | 7), 7);
        assert_eq!(Word.count(u64::MAX), u64::from(u32::MAX));
        assert_eq!(Unsigned.count(u64::MAX), u64::MAX);
    }

    #[test]
    fn arguments_are_looked_up_by_number() {
        assert_eq!(arguments(0)[1], Output(2));
        assert!(arguments(u64::MAX).is_empty());
        assert_eq!(row(72).map(|row| row.arguments.len()), Some(3));
    }
}
