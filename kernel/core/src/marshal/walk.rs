//! The way through the arguments of a call, the same for the writer of a message and for its
//! reader.

use super::wire::{VECTORS_MAX, put_u64, u32_at, u64_at};
use crate::syscalls::arguments::Argument::{self, Int};
use crate::syscalls::arguments::{Counted, Direction, Structure};
use crate::syscalls::{Row, Service, row};

/// Most bytes of an entry of a list.
pub const ENTRY_MAX: usize = 64;
/// Bytes of a `struct sockaddr_storage`; Linux takes no longer address.
const ADDRESS_MAX: u64 = 128;
const VECTOR_BYTES: usize = 16;
const MESSAGE_BYTES: usize = 56;
const LISTED_MESSAGE_BYTES: usize = 64;
/// Bytes of the set of signals that the sixth argument of pselect6(2) points to.
const SIGNALS_BYTES: u64 = 8;

/// Part of a message that recvmsg(2), recvmmsg(2) or sendmmsg(2) writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The fields of the message's head that the call writes.
    Head,
    /// How many bytes were sent.
    Sent,
    /// The name, as long as the head says.
    Name,
    /// Control data, as long as the head says.
    Control,
    /// Data, one piece after the other.
    Data,
}

/// Rule by which a piece is written back to the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    Nothing,
    /// All of the piece, where the call succeeds.
    Success,
    /// All of the piece.
    Always,
    /// All of the piece; that it cannot be written is no error.
    Quiet,
    /// These bytes of every `unit`.
    Field { unit: u32, from: u32, to: u32 },
    /// So many bytes, and `unit` more for each that the result counts.
    Result { head: u32, unit: u32 },
    /// The next of as many bytes as the result says.
    Share,
    /// As many as the word at this offset of the message says.
    Length { at: usize },
    /// Part of a message, whose head is at this offset; `index`: of a list, of which the result
    /// counts those done.
    Message { at: usize, index: Option<u32>, part: Part },
}

/// An entry of a list, which is rewritten for the other side.
pub struct Entry {
    /// Bytes of the entry, then zeros.
    pub bytes: [u8; ENTRY_MAX],
    /// Place of the entry in its list.
    pub index: u32,
    /// Offset of the entry in the message.
    pub at: usize,
}

impl Entry {
    fn word(&self, at: usize) -> u64 {
        u64_at(&self.bytes, at)
    }

    fn set(&mut self, at: usize, value: u64) {
        put_u64(&mut self.bytes, at, value);
    }
}

/// A list whose entries hold pointers, or say a length that must not change any more.
#[derive(Clone, Copy)]
pub struct List {
    /// Bytes of an entry.
    pub size: usize,
    /// Number of entries.
    pub count: u64,
    /// Rule by which the list is written back.
    pub rule: Rule,
    /// Whether Linux uses the entries before one that it cannot read.
    pub in_turn: bool,
}

/// Function that rewrites an entry of a list.
pub type Each<'a, P> = &'a mut dyn FnMut(&mut P, &mut Entry) -> Result<(), <P as Party>::Error>;

/// One side: makes of each pointer what it is for the other one.
pub trait Party: Sized {
    /// The reason why the side cannot go on.
    type Error;

    /// No such call, or nothing says what it refers to.
    fn undescribed(why: &'static str) -> Self::Error;

    /// `length` bytes at `pointer`.
    fn range(
        &mut self,
        pointer: u64,
        length: u64,
        direction: Direction,
        rule: Rule,
    ) -> Result<u64, Self::Error>;

    /// A string.
    fn text(&mut self, pointer: u64) -> Result<u64, Self::Error>;

    /// A structure whose first word says how long it is.
    fn counted(
        &mut self,
        pointer: u64,
        counted: &Counted,
        direction: Direction,
    ) -> Result<u64, Self::Error>;

    /// A list, entry by entry.
    fn list(&mut self, pointer: u64, list: List, each: Each<'_, Self>) -> Result<u64, Self::Error>;
}

/// Whether some argument of a call may be more than a word.
#[must_use]
pub const fn refers(row: &Row) -> bool {
    let mut at = 0;
    while at < row.arguments.len() {
        let is_word = matches!(
            row.arguments[at],
            Argument::Int
                | Argument::Word
                | Argument::Unsigned
                | Argument::Bits
                | Argument::Mode
                | Argument::Descriptor
                | Argument::Folder
                | Argument::One(_)
                | Argument::Flags(_)
        );
        if !is_word {
            return true;
        }
        at += 1;
    }
    false
}

/// Rewrites the arguments of a call. `Err`: there is no such call that Linux executes, nothing
/// describes it, or what `party` says.
pub fn walk<P: Party>(party: &mut P, number: u64, args: &mut [u64; 6]) -> Result<(), P::Error> {
    let Some(row) = row(number).filter(|row| matches!(row.service, Service::Delegated(_))) else {
        return Err(P::undescribed("Linux does not execute this call"));
    };
    if let [Argument::Undescribed(why)] = row.arguments {
        return Err(P::undescribed(why));
    }
    let before = *args;
    let count = |n: u8| {
        let n = usize::from(n);
        row.arguments[n].count(before[n])
    };
    let mut is_done = [false; 6];
    for (at, argument) in row.arguments.iter().enumerate() {
        if is_done[at] {
            continue;
        }
        let argument = argument.chosen(&before);
        if let Argument::Sized(n) | Argument::AddressOut(n) = argument {
            let n = usize::from(n);
            (args[at], args[n]) = sized(party, before[at], before[n])?;
            is_done[n] = true;
            continue;
        }
        args[at] = one(party, argument, before[at], &before, count)?;
    }
    Ok(())
}

/// Rewrites one argument.
fn one<P: Party>(
    party: &mut P,
    argument: Argument,
    value: u64,
    args: &[u64; 6],
    count: impl Fn(u8) -> u64,
) -> Result<u64, P::Error> {
    use Direction::{In, InOut, Out};
    match argument {
        Argument::Int
        | Argument::Word
        | Argument::Unsigned
        | Argument::Bits
        | Argument::Mode
        | Argument::Descriptor
        | Argument::Folder
        | Argument::One(_)
        | Argument::Flags(_) => Ok(value),
        Argument::Text => party.text(value),
        Argument::Input(n) => party.range(value, count(n), In, Rule::Nothing),
        Argument::Output(n) | Argument::Records(n) => {
            party.range(value, count(n), Out, Rule::Result { head: 0, unit: 1 })
        }
        Argument::Buffer(n) => party.range(value, count(n), InOut, Rule::Always),
        Argument::Struct(Structure::Fpair, _) => mask(party, value),
        Argument::Struct(structure, direction) => {
            party.range(value, structure.size() as u64, direction, whole(direction))
        }
        Argument::Counted(counted, direction) => party.counted(value, counted, direction),
        Argument::Many(structure, n, direction) => {
            let length = count(n).saturating_mul(structure.size() as u64);
            let rule = match structure {
                Structure::Poll => Rule::Field { unit: 8, from: 6, to: 8 },
                _ => whole(direction),
            };
            party.range(value, length, direction, rule)
        }
        Argument::List(structure, n) => {
            let unit = u32::try_from(structure.size()).unwrap_or(u32::MAX);
            let length = count(n).saturating_mul(u64::from(unit));
            party.range(value, length, Out, Rule::Result { head: 0, unit })
        }
        Argument::Set(n) => party.range(value, count(n).div_ceil(64) * 8, InOut, Rule::Success),
        Argument::Typed(n, direction) => {
            let rule = match direction.is_written() {
                true => Rule::Result { head: 8, unit: 1 },
                false => Rule::Nothing,
            };
            party.range(value, count(n).saturating_add(8), direction, rule)
        }
        // Linux looks at no address that is longer.
        Argument::Address(n) => party.range(value, address(count(n)), In, Rule::Nothing),
        Argument::Vectors(n, direction) => {
            let rule = if direction.is_written() { Rule::Share } else { Rule::Nothing };
            vectors(party, value, count(n), direction, rule)
        }
        Argument::Message(direction) => messages(party, value, None, direction),
        Argument::Messages(n, direction) => messages(party, value, Some(count(n)), direction),
        Argument::Encoded(n) => {
            let command = args[usize::from(n)];
            let direction = match command >> 30 & 3 {
                0 => return Ok(value),
                1 => In,
                2 => Out,
                _ => InOut,
            };
            party.range(value, command >> 16 & 0x3fff, direction, whole(direction))
        }
        Argument::Undescribed(why) => Err(P::undescribed(why)),
        Argument::Hex
        | Argument::Strings
        | Argument::Chosen(_)
        | Argument::Sized(_)
        | Argument::AddressOut(_) => Err(P::undescribed("an address without a description")),
    }
}

const fn whole(direction: Direction) -> Rule {
    match direction {
        Direction::In => Rule::Nothing,
        Direction::Out => Rule::Success,
        Direction::InOut => Rule::Always,
        Direction::InOutQuiet => Rule::Quiet,
    }
}

const fn address(length: u64) -> u64 {
    if length <= ADDRESS_MAX { length } else { 0 }
}

/// Rewrites a buffer, and the pointer to its length. The word there says the most bytes before the
/// call, and the written ones after it.
fn sized<P: Party>(party: &mut P, value: u64, length: u64) -> Result<(u64, u64), P::Error> {
    let (mut most, mut at) = (0, 0);
    let list = List { size: 4, count: 1, rule: Rule::Always, in_turn: false };
    let length = party.list(length, list, &mut |_, entry| {
        most = Int.count(u64::from(u32_at(&entry.bytes, 0)));
        at = entry.at;
        Ok(())
    })?;
    let value = party.range(value, most, Direction::InOut, Rule::Length { at })?;
    Ok((value, length))
}

/// The last argument of pselect6(2): the address of a set of signals, and its size.
fn mask<P: Party>(party: &mut P, value: u64) -> Result<u64, P::Error> {
    let list = List { size: 16, count: 1, rule: Rule::Nothing, in_turn: false };
    party.list(value, list, &mut |party, entry| {
        // Linux refuses every other size.
        let length = if entry.word(8) == SIGNALS_BYTES { SIGNALS_BYTES } else { 0 };
        let signals = party.range(entry.word(0), length, Direction::In, Rule::Nothing)?;
        entry.set(0, signals);
        Ok(())
    })
}

fn vectors<P: Party>(
    party: &mut P,
    value: u64,
    count: u64,
    direction: Direction,
    rule: Rule,
) -> Result<u64, P::Error> {
    // More is an error before anything is read.
    let count = if count <= VECTORS_MAX { count } else { 0 };
    let list = List { size: VECTOR_BYTES, count, rule: Rule::Nothing, in_turn: false };
    party.list(value, list, &mut |party, entry| {
        let base = party.range(entry.word(0), entry.word(8), direction, rule)?;
        entry.set(0, base);
        Ok(())
    })
}

/// A `struct msghdr`, or as many `struct mmsghdr` as `count` says.
fn messages<P: Party>(
    party: &mut P,
    value: u64,
    count: Option<u64>,
    direction: Direction,
) -> Result<u64, P::Error> {
    let (size, is_out) = match count {
        None => (MESSAGE_BYTES, direction.is_written()),
        Some(_) => (LISTED_MESSAGE_BYTES, direction.is_written()),
    };
    // The heads' rule is that of each entry; `at` and `index` are filled in for it.
    let rule = match (is_out, count) {
        (true, _) => Rule::Message { at: 0, index: count.map(|_| 0), part: Part::Head },
        (false, Some(_)) => Rule::Message { at: 0, index: Some(0), part: Part::Sent },
        (false, None) => Rule::Nothing,
    };
    let entries = count.unwrap_or(1).min(VECTORS_MAX);
    let list = List { size, count: entries, rule, in_turn: count.is_some() };
    party.list(value, list, &mut |party, entry| {
        let index = count.map(|_| entry.index);
        message(party, entry, index, is_out)
    })
}

fn message<P: Party>(
    party: &mut P,
    entry: &mut Entry,
    index: Option<u32>,
    is_out: bool,
) -> Result<(), P::Error> {
    let at = entry.at;
    let (rule, direction): (&dyn Fn(Part) -> Rule, _) = match is_out {
        true => (&|part| Rule::Message { at, index, part }, Direction::Out),
        false => (&|_| Rule::Nothing, Direction::In),
    };
    // Bytes between control messages stay as they were, so those are sent as well.
    let control_direction = if is_out { Direction::InOut } else { Direction::In };
    let name_bytes = Int.count(u64::from(u32_at(&entry.bytes, 8))).min(ADDRESS_MAX);
    let name = party.range(entry.word(0), name_bytes, direction, rule(Part::Name))?;
    entry.set(0, name);
    let data = vectors(party, entry.word(16), entry.word(24), direction, rule(Part::Data))?;
    entry.set(16, data);
    // Linux refuses more than an int.
    let control_bytes = entry.word(40);
    let length = if control_bytes <= i32::MAX.unsigned_abs().into() { control_bytes } else { 0 };
    let control = party.range(entry.word(32), length, control_direction, rule(Part::Control))?;
    entry.set(32, control);
    Ok(())
}
