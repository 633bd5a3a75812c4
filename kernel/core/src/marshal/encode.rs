//! A call as a message: the caller's side.

use super::buffer::Buffer;
use super::walk::{ENTRY_MAX, Each, Entry, List, Party, Rule, walk};
use super::wire::{HEAD_BYTES, TEXT_MAX, USER_END, head_bytes, u32_at};
use crate::syscalls::arguments::{Counted, Direction};
use crate::usermemory::CallerMemory;
use hanare_abi::message::{MESSAGE_MAGIC, MESSAGE_OUTSIDE, MESSAGE_UNMAPPED, MessageHead};

/// Multiple at which a piece keeps its place in a sector: transfers past the page cache (O_DIRECT)
/// need it.
pub const SECTOR: usize = 512;
/// Multiple at which each piece begins.
pub const ALIGNMENT: usize = 16;

/// Something that may have to be written to the caller's memory when the call is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The caller's address.
    pub(super) addr: u64,
    /// Offset of the piece in the message.
    pub(super) at: usize,
    /// Bytes of the piece.
    pub(super) length: usize,
    /// Whether there are fewer than the call asks for.
    pub(super) is_partial: bool,
    pub(super) rule: Rule,
}

impl Piece {
    /// An entry of a list that nothing has been noted in.
    pub const NONE: Self =
        Self { addr: 0, at: 0, length: 0, is_partial: false, rule: Rule::Nothing };
}

/// Reason why a call has no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call has no description, for this reason.
    Undescribed(&'static str),
    /// The message takes a larger buffer.
    DoesNotFit {
        /// Bytes of the buffer that the message takes.
        needed: u64,
    },
    /// The list of what is written back is full.
    ListFull,
    /// More than one piece of memory is there in part only, or the end of a list of which Linux
    /// uses the beginning is not there.
    SeveralFaults,
    /// The caller's memory has been unmapped meanwhile.
    Unmapped,
}

/// A message that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Bytes of the message.
    pub size: usize,
    /// Entries of the list of pieces.
    pub pieces: usize,
}

/// Writes a call into `buffer`, and into `pieces` what may come back, for [`super::complete`].
///
/// # Errors
/// The call cannot be sent, for the reason said; the buffer may have been written to.
pub fn encode<B: Buffer + ?Sized>(
    memory: &impl CallerMemory,
    number: u32,
    args: &[u64; 6],
    buffer: &mut B,
    pieces: &mut [Piece],
) -> Result<Encoded, Refusal> {
    let end = buffer.size().min(u32::MAX as usize);
    let mut encoder = Encoder {
        memory,
        buffer,
        pieces,
        noted: 0,
        next: HEAD_BYTES as u64,
        end: end as u64,
        size: end,
        fault: None,
    };
    let mut args = *args;
    walk(&mut encoder, u64::from(number), &mut args)?;
    let (next, fault, noted) = (encoder.next, encoder.fault, encoder.noted);
    if next > encoder.end {
        return Err(Refusal::DoesNotFit { needed: next + (end as u64 - encoder.end) });
    }
    let size = if fault.is_some() { end } else { usize::try_from(next).unwrap_or(end) };
    let head = MessageHead {
        magic: MESSAGE_MAGIC,
        number,
        size: word(size),
        fault: word(fault.unwrap_or(0)),
        args,
        result: 0,
    };
    encoder.buffer.write(0, &head_bytes(&head));
    Ok(Encoded { size, pieces: noted })
}

/// Offsets in a message have 32 bits, as [`encode`] has seen to.
fn word(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

struct Encoder<'a, M, B: ?Sized> {
    memory: &'a M,
    buffer: &'a mut B,
    pieces: &'a mut [Piece],
    noted: usize,
    /// Where the next piece may begin. Behind `end` nothing is written any more, only counted.
    next: u64,
    end: u64,
    size: usize,
    fault: Option<usize>,
}

impl<M: CallerMemory, B: Buffer + ?Sized> Encoder<'_, M, B> {
    /// Room for `length` bytes, at this place in a sector if they may be data; `None`: it does not
    /// fit.
    fn room(&mut self, in_sector: Option<u64>, length: u64) -> Option<usize> {
        let mut at = self.start();
        let sector = SECTOR as u64;
        if let Some(place) = in_sector.filter(|_| length >= sector) {
            at += (place % sector + sector - at % sector) % sector;
        }
        self.next = at.saturating_add(length);
        (self.next <= self.end).then(|| usize::try_from(at).unwrap_or(usize::MAX))
    }

    /// Offset at which the next piece begins.
    const fn start(&self) -> u64 {
        self.next.next_multiple_of(ALIGNMENT as u64)
    }

    /// Notes what may have to be written back.
    fn note(&mut self, piece: Piece) -> Result<(), Refusal> {
        if piece.rule == Rule::Nothing {
            return Ok(());
        }
        *self.pieces.get_mut(self.noted).ok_or(Refusal::ListFull)? = piece;
        self.noted += 1;
        Ok(())
    }

    /// Puts a piece whose end is missing at the end of the buffer. `present`: how many bytes of it
    /// there are.
    fn partial(&mut self, pointer: u64, present: usize, rule: Rule) -> Result<u64, Refusal> {
        if present == 0 {
            return Ok(MESSAGE_UNMAPPED);
        }
        if self.fault.is_some() {
            return Err(Refusal::SeveralFaults);
        }
        let Some(at) = self.size.checked_sub(present) else {
            return Err(Refusal::DoesNotFit { needed: self.next.saturating_add(present as u64) });
        };
        self.end = at as u64;
        self.fault = Some(at);
        if self.next <= self.end {
            self.buffer.load(at, present, self.memory, pointer);
        }
        self.note(Piece { addr: pointer, at, length: present, is_partial: true, rule })?;
        Ok(at as u64)
    }
}

/// Stand-in for a pointer that leads nowhere; `None`: a program may have so many bytes there.
fn nowhere(pointer: u64, length: u64) -> Option<u64> {
    if pointer == 0 {
        return Some(0);
    }
    let end = pointer.checked_add(length);
    end.is_none_or(|end| end > USER_END).then_some(MESSAGE_OUTSIDE)
}

impl<M: CallerMemory, B: Buffer + ?Sized> Party for Encoder<'_, M, B> {
    type Error = Refusal;

    fn undescribed(why: &'static str) -> Refusal {
        Refusal::Undescribed(why)
    }

    fn range(
        &mut self,
        pointer: u64,
        length: u64,
        direction: Direction,
        rule: Rule,
    ) -> Result<u64, Refusal> {
        if let Some(nowhere) = nowhere(pointer, length) {
            return Ok(nowhere);
        }
        if length == 0 {
            return Ok(self.next);
        }
        if direction == Direction::Out {
            let present = self.memory.writable(pointer, length);
            if present < length {
                let present = usize::try_from(present).unwrap_or(usize::MAX);
                return self.partial(pointer, present, rule);
            }
        }
        let before = self.next;
        let Some(at) = self.room(Some(pointer), length) else { return Ok(0) };
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if direction.is_read() {
            let present = self.buffer.load(at, bytes, self.memory, pointer);
            if present < bytes {
                self.next = before;
                return self.partial(pointer, present, rule);
            }
        }
        self.note(Piece { addr: pointer, at, length: bytes, is_partial: false, rule })?;
        Ok(at as u64)
    }

    fn text(&mut self, pointer: u64) -> Result<u64, Refusal> {
        if let Some(nowhere) = nowhere(pointer, 0) {
            return Ok(nowhere);
        }
        let mut found = 0;
        let mut ended = false;
        let mut bytes = [0; 256];
        let start = self.start();
        // Chunks do not cross pages, so each is there or not.
        while found < TEXT_MAX && !ended {
            let addr = pointer.saturating_add(found as u64);
            let chunk = (256 - usize::try_from(addr % 256).unwrap_or(0)).min(TEXT_MAX - found);
            if self.memory.read(addr, &mut bytes[..chunk]).is_err() {
                return self.partial(pointer, found, Rule::Nothing);
            }
            let zero = bytes[..chunk].iter().position(|&byte| byte == 0);
            ended = zero.is_some();
            let count = zero.map_or(chunk, |zero| zero + 1);
            let at = start.saturating_add(found as u64);
            if at + count as u64 <= self.end {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                self.buffer.write(at, &bytes[..count]);
            }
            found += count;
        }
        // One that is too long for Linux ends here, and is still too long.
        let length = found + usize::from(!ended);
        let Some(at) = self.room(None, length as u64) else { return Ok(0) };
        if !ended {
            self.buffer.write(at + found, &[0]);
        }
        Ok(at as u64)
    }

    fn counted(
        &mut self,
        pointer: u64,
        counted: &Counted,
        direction: Direction,
    ) -> Result<u64, Refusal> {
        if let Some(nowhere) = nowhere(pointer, 0) {
            return Ok(nowhere);
        }
        let mut first = [0; 4];
        if self.memory.read(pointer, &mut first).is_err() {
            return Ok(MESSAGE_UNMAPPED);
        }
        let rule = if direction.is_written() { Rule::Always } else { Rule::Nothing };
        let length = length_of(counted, u32_at(&first, 0));
        let at = self.range(pointer, length, direction, rule)?;
        // The length is what was read first.
        if let Ok(at) = usize::try_from(at)
            && at >= HEAD_BYTES
            && at < self.size
        {
            self.buffer.write(at, &first);
        }
        Ok(at)
    }

    fn list(&mut self, pointer: u64, list: List, each: Each<'_, Self>) -> Result<u64, Refusal> {
        if let Some(nowhere) = nowhere(pointer, list.count.saturating_mul(list.size as u64)) {
            return Ok(nowhere);
        }
        if list.count == 0 {
            return Ok(self.next);
        }
        let mut entry = Entry { bytes: [0; ENTRY_MAX], index: 0, at: 0 };
        let addr = |index: u64| pointer.saturating_add(index * list.size as u64);
        for index in 0..list.count {
            if self.memory.read(addr(index), &mut entry.bytes[..list.size]).is_err() {
                return match index > 0 && list.in_turn {
                    true => Err(Refusal::SeveralFaults),
                    false => Ok(MESSAGE_UNMAPPED),
                };
            }
        }
        let start = self.room(None, list.count * list.size as u64);
        for (index, number) in (0..list.count).zip(0u32..) {
            entry.bytes = [0; ENTRY_MAX];
            let bytes = &mut entry.bytes[..list.size];
            self.memory.read(addr(index), bytes).map_err(|_| Refusal::Unmapped)?;
            let at = start.unwrap_or(0).saturating_add(number as usize * list.size);
            (entry.index, entry.at) = (number, at);
            let rule = match list.rule {
                Rule::Message { index, part, .. } => {
                    Rule::Message { at, index: index.map(|_| number), part }
                }
                rule => rule,
            };
            let piece = Piece { addr: addr(index), at, length: list.size, is_partial: false, rule };
            self.note(piece)?;
            each(self, &mut entry)?;
            if start.is_some() {
                self.buffer.write(at, &entry.bytes[..list.size]);
            }
        }
        Ok(start.unwrap_or(0) as u64)
    }
}

/// Bytes of a structure whose first word says its size.
pub fn length_of(counted: &Counted, first: u32) -> u64 {
    let bytes = u64::from(first).saturating_add(u64::from(counted.head));
    bytes.clamp(u64::from(counted.least), u64::from(counted.most))
}
