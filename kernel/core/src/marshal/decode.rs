//! A message as arguments again: the side that executes the call.

use super::buffer::Buffer;
use super::encode::{ALIGNMENT, SECTOR, length_of};
use super::walk::{ENTRY_MAX, Each, Entry, List, Part, Party, Rule, walk};
use super::wire::{HEAD_BYTES, RESULT_AT, TEXT_MAX, USER_END, head_of};
use crate::syscalls::arguments::{Counted, Direction};
use hanare_abi::message::{MESSAGE_MAGIC, MESSAGE_OUTSIDE, MESSAGE_UNMAPPED};

/// Lowest address that Linux lets a program map (`vm.mmap_min_addr`).
const UNMAPPED: u64 = 0x1000;

/// Reason why something is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The head is invalid, or says more bytes than there are.
    Head,
    /// Linux does not execute such a call, or nothing describes it, for this reason.
    Undescribed(&'static str),
    /// A pointer leads somewhere else than what the call refers to can lie.
    Pointer,
    /// A string does not end.
    Text,
    /// A piece whose end is missing is not where it has to be, or is as long as the call asks for.
    Fault,
    /// Lists take more memory of one's own than there is.
    NoRoom,
}

/// Where the memory lies, in the addresses of the side that executes the call. Nothing that matters
/// may lie in the page behind the message, and nothing at all where a message has a part that is
/// there in part only (`has_guard`).
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The message.
    pub message: u64,
    /// Address in the reader's own memory.
    pub own: u64,
    /// Whether no access is possible behind the last byte of the buffer that the message is in.
    pub has_guard: bool,
}

/// A list whose entries Linux writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    /// Offset in the reader's own memory.
    own: usize,
    at: usize,
    size: usize,
    count: usize,
    rule: Rule,
}

/// A call that can be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Number of the call.
    pub number: u32,
    /// Arguments of the call. They point into the message, and to lists in the executing side's own
    /// memory.
    pub args: [u64; 6],
    /// The part of the message that the call may write to.
    pub written: Span,
    list: Option<Written>,
}

/// Bytes `from` up to before `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The index of the first byte.
    pub from: usize,
    /// The index behind the last byte.
    pub to: usize,
}

/// Makes arguments of the message in `buffer`. Its head and its lists are read once; lists, which
/// hold addresses, go to memory that the other side does not see.
///
/// # Errors
/// It is not what [`super::encode`] writes.
pub fn decode<B: Buffer + ?Sized>(
    buffer: &B,
    place: Place,
    own: &mut [u8],
) -> Result<Decoded, Malformed> {
    let mut head = [0; HEAD_BYTES];
    buffer.read(0, &mut head);
    let head = head_of(&head);
    let size = usize::try_from(head.size).map_err(|_| Malformed::Head)?;
    let fault = usize::try_from(head.fault).map_err(|_| Malformed::Head)?;
    if head.magic != MESSAGE_MAGIC || !(HEAD_BYTES..=buffer.size()).contains(&size) {
        return Err(Malformed::Head);
    }
    if fault != 0
        && (!place.has_guard || size != buffer.size() || !(HEAD_BYTES..size).contains(&fault))
    {
        return Err(Malformed::Fault);
    }
    let mut decoder = Decoder {
        buffer,
        place,
        own,
        used: 0,
        next: HEAD_BYTES,
        end: if fault == 0 { size } else { fault },
        size,
        fault: (fault != 0).then_some(fault),
        written: Span { from: usize::MAX, to: 0 },
        list: None,
    };
    let mut args = head.args;
    walk(&mut decoder, u64::from(head.number), &mut args)?;
    if decoder.fault.is_some() {
        return Err(Malformed::Fault);
    }
    let written = decoder.written;
    let written = if written.to == 0 { Span::default() } else { written };
    Ok(Decoded { number: head.number, args, written, list: decoder.list })
}

/// Writes the result of a call into its message, and what Linux has written to lists.
pub fn finish<B: Buffer + ?Sized>(buffer: &mut B, call: &Decoded, own: &[u8], result: i64) {
    if let Some(list) = call.list {
        for index in 0..list.count {
            let from = list.own + index * list.size;
            let Some(entry) = own.get(from..from + list.size) else { break };
            for field in fields(list.rule) {
                if let Some(bytes) = entry.get(field.from..field.to) {
                    buffer.write(list.at + index * list.size + field.from, bytes);
                }
            }
        }
    }
    buffer.write(RESULT_AT, &result.to_le_bytes());
}

/// The fields of an entry of a list that a call writes to: of a word all, of messages what is no
/// address.
pub const fn fields(rule: Rule) -> &'static [Span] {
    const NAME: Span = Span { from: 8, to: 12 };
    const CONTROL_AND_FLAGS: Span = Span { from: 40, to: 52 };
    const SENT: Span = Span { from: 56, to: 60 };
    const WORD: Span = Span { from: 0, to: 4 };
    match rule {
        Rule::Message { index: None, part: Part::Head, .. } => &[NAME, CONTROL_AND_FLAGS],
        Rule::Message { part: Part::Head, .. } => &[NAME, CONTROL_AND_FLAGS, SENT],
        Rule::Message { part: Part::Sent, .. } => &[SENT],
        Rule::Always => &[WORD],
        _ => &[],
    }
}

struct Decoder<'a, B: ?Sized> {
    buffer: &'a B,
    place: Place,
    own: &'a mut [u8],
    used: usize,
    next: usize,
    end: usize,
    size: usize,
    /// Offset of the piece whose end is missing, until the walk has met it.
    fault: Option<usize>,
    written: Span,
    list: Option<Written>,
}

impl<B: Buffer + ?Sized> Decoder<'_, B> {
    fn address(&self, at: usize) -> u64 {
        self.place.message + at as u64
    }

    /// A pointer that leads to no memory.
    const fn nowhere(pointer: u64) -> Option<u64> {
        match pointer {
            0 | MESSAGE_OUTSIDE => Some(pointer),
            MESSAGE_UNMAPPED => Some(UNMAPPED),
            _ => None,
        }
    }

    /// Where `length` bytes lie whose pointer is this: behind everything before them, with a gap
    /// that only has to do with alignment.
    fn take(&mut self, pointer: u64, length: u64) -> Result<usize, Malformed> {
        let at = usize::try_from(pointer).map_err(|_| Malformed::Pointer)?;
        let length = usize::try_from(length).map_err(|_| Malformed::Pointer)?;
        let end = at.checked_add(length).ok_or(Malformed::Pointer)?;
        let gap = at.checked_sub(self.next).ok_or(Malformed::Pointer)?;
        let gap_max = if length >= SECTOR { SECTOR + ALIGNMENT } else { ALIGNMENT };
        if gap >= gap_max || end > self.end {
            return Err(Malformed::Pointer);
        }
        self.next = end;
        Ok(at)
    }

    /// Whether only the first part of the memory at `pointer` is in the message. That part must be
    /// shorter than the call asks for.
    fn is_partial(&mut self, pointer: u64, length: u64) -> Result<bool, Malformed> {
        let Some(fault) = self.fault.filter(|&fault| fault as u64 == pointer) else {
            return Ok(false);
        };
        if length <= (self.size - fault) as u64 {
            return Err(Malformed::Fault);
        }
        self.fault = None;
        Ok(true)
    }

    fn writes(&mut self, from: usize, to: usize) {
        self.written.from = self.written.from.min(from);
        self.written.to = self.written.to.max(to);
    }
}

impl<B: Buffer + ?Sized> Party for Decoder<'_, B> {
    type Error = Malformed;

    fn undescribed(why: &'static str) -> Malformed {
        Malformed::Undescribed(why)
    }

    fn range(
        &mut self,
        pointer: u64,
        length: u64,
        direction: Direction,
        _: Rule,
    ) -> Result<u64, Malformed> {
        if let Some(nowhere) = Self::nowhere(pointer) {
            return Ok(nowhere);
        }
        if length == 0 {
            return Ok(self.address(self.next));
        }
        if self.is_partial(pointer, length)? {
            let fault = self.end;
            if direction.is_written() {
                self.writes(fault, self.size);
            }
            return Ok(self.address(fault));
        }
        let at = self.take(pointer, length)?;
        if direction.is_written() {
            self.writes(at, self.next);
        }
        Ok(self.address(at))
    }

    fn text(&mut self, pointer: u64) -> Result<u64, Malformed> {
        if let Some(nowhere) = Self::nowhere(pointer) {
            return Ok(nowhere);
        }
        if self.is_partial(pointer, u64::MAX)? {
            return Ok(self.address(self.end));
        }
        let start = usize::try_from(pointer).map_err(|_| Malformed::Pointer)?;
        let mut length = 0;
        let mut bytes = [0; 256];
        // Behind the end are zeros, which `take` refuses.
        while length <= TEXT_MAX {
            let run = &mut bytes[..(TEXT_MAX + 1 - length).min(256)];
            self.buffer.read(start.saturating_add(length), run);
            if let Some(zero) = run.iter().position(|&byte| byte == 0) {
                let at = self.take(pointer, (length + zero + 1) as u64)?;
                return Ok(self.address(at));
            }
            length += run.len();
        }
        Err(Malformed::Text)
    }

    fn counted(
        &mut self,
        pointer: u64,
        counted: &Counted,
        direction: Direction,
    ) -> Result<u64, Malformed> {
        if let Some(nowhere) = Self::nowhere(pointer) {
            return Ok(nowhere);
        }
        let at = usize::try_from(pointer).map_err(|_| Malformed::Pointer)?;
        let mut first = [0; 4];
        self.buffer.read(at, &mut first);
        let length = length_of(counted, u32::from_le_bytes(first));
        self.range(pointer, length, direction, Rule::Nothing)
    }

    fn list(&mut self, pointer: u64, list: List, each: Each<'_, Self>) -> Result<u64, Malformed> {
        if let Some(nowhere) = Self::nowhere(pointer) {
            return Ok(nowhere);
        }
        if list.count == 0 {
            return Ok(self.place.own);
        }
        let start = self.take(pointer, list.count.saturating_mul(list.size as u64))?;
        let count = usize::try_from(list.count).map_err(|_| Malformed::Pointer)?;
        let own = self.used;
        let used = own + (count * list.size).next_multiple_of(ALIGNMENT);
        if used > self.own.len() {
            return Err(Malformed::NoRoom);
        }
        self.used = used;
        for (index, number) in (0..count).zip(0u32..) {
            let at = start + index * list.size;
            let mut entry = Entry { bytes: [0; ENTRY_MAX], index: number, at };
            self.buffer.read(at, &mut entry.bytes[..list.size]);
            each(self, &mut entry)?;
            let from = own + index * list.size;
            self.own[from..from + list.size].copy_from_slice(&entry.bytes[..list.size]);
        }
        if list.rule != Rule::Nothing {
            self.list = Some(Written { own, at: start, size: list.size, count, rule: list.rule });
            self.writes(start, start + count * list.size);
        }
        Ok(self.place.own + own as u64)
    }
}

const _: () = assert!(MESSAGE_OUTSIDE >= USER_END, "no memory of a program lies there");
