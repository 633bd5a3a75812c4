//! Results of a call, written to the caller's memory.

use super::buffer::Buffer;
use super::decode::fields;
use super::encode::Piece;
use super::walk::{Part, Rule};
use super::wire::RESULT_AT;
use crate::errno::{EFAULT, EINTR, Errno};
use crate::usermemory::CallerMemory;

/// Writes what came back to the caller's memory, as [`super::encode`] has noted it, and says the
/// result. Whatever the message holds now, nothing else is written to, and no more.
pub fn complete<B: Buffer + ?Sized>(
    buffer: &B,
    pieces: &[Piece],
    memory: &mut impl CallerMemory,
) -> i64 {
    let mut result = [0; 8];
    buffer.read(RESULT_AT, &mut result);
    let mut completion =
        Completion { buffer, result: i64::from_le_bytes(result), left: None, has_failed: false };
    for piece in pieces {
        completion.write(piece, memory);
    }
    let has_succeeded = Errno::from_return(completion.result).is_none();
    if completion.has_failed && has_succeeded { EFAULT.as_return() } else { completion.result }
}

struct Completion<'a, B: ?Sized> {
    buffer: &'a B,
    result: i64,
    /// Data still to be distributed over pieces: for which message, and how many bytes are left.
    left: Option<(Option<usize>, u64)>,
    has_failed: bool,
}

impl<B: Buffer + ?Sized> Completion<'_, B> {
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 4];
        self.buffer.read(at, &mut word);
        u64::from(u32::from_le_bytes(word))
    }

    /// The number that the call has returned; zero where it failed.
    fn counted(&self) -> u64 {
        u64::try_from(self.result).unwrap_or(0)
    }

    fn has_succeeded(&self) -> bool {
        Errno::from_return(self.result).is_none()
    }

    fn has_failed_by(&self, error: Errno) -> bool {
        Errno::from_return(self.result) == Some(error)
    }

    fn write(&mut self, piece: &Piece, memory: &mut impl CallerMemory) {
        let whole = piece.length as u64;
        let bytes = match piece.rule {
            Rule::Nothing => 0,
            Rule::Success => whole * u64::from(self.has_succeeded()),
            Rule::Always | Rule::Quiet => whole,
            // poll(2) says what it has seen also when a signal ends it.
            Rule::Field { unit, from, to }
                if !piece.is_partial && (self.has_succeeded() || self.has_failed_by(EINTR)) =>
            {
                let (unit, from, to) = (unit as usize, from as usize, to as usize);
                for start in (0..piece.length).step_by(unit) {
                    self.store(piece, start + from, to - from, memory);
                }
                0
            }
            Rule::Field { .. } => 0,
            Rule::Result { head, unit } => {
                let bytes = self.counted().saturating_mul(u64::from(unit));
                bytes.saturating_add(u64::from(head) * u64::from(self.has_succeeded()))
            }
            Rule::Share => self.share(None, self.counted(), whole),
            Rule::Length { at } => self.word(at) * u64::from(self.has_succeeded()),
            Rule::Message { at, index, part } => self.message(piece, at, index, part, memory),
        };
        // Of what is there in part only Linux may have written all there is, and then failed, or
        // begun an entry that it does not count. Otherwise another thread's data may lie behind
        // what the call has written.
        let begins_another =
            |unit: u64| unit > 1 && bytes < whole && self.has_succeeded() && whole - bytes < unit;
        let has_met_end = piece.is_partial
            && (self.has_failed_by(EFAULT)
                || matches!(piece.rule, Rule::Result { unit, .. } if begins_another(unit.into())));
        let bytes = if has_met_end { whole } else { bytes.min(whole) };
        self.store(piece, 0, usize::try_from(bytes).unwrap_or(piece.length), memory);
    }

    /// Takes up to `most` of what is left of a message's data.
    fn share(&mut self, message: Option<usize>, all: u64, most: u64) -> u64 {
        let left = match self.left {
            Some((of, left)) if of == message => left,
            _ => all,
        };
        let taken = left.min(most);
        self.left = Some((message, left - taken));
        taken
    }

    /// Bytes of a part of a message; fields of its head are written at once.
    fn message(
        &mut self,
        piece: &Piece,
        at: usize,
        index: Option<u32>,
        part: Part,
        memory: &mut impl CallerMemory,
    ) -> u64 {
        let is_done = match index {
            None => self.has_succeeded(),
            Some(index) => u64::from(index) < self.counted(),
        };
        if !is_done {
            return 0;
        }
        match part {
            Part::Head | Part::Sent => {
                for field in fields(piece.rule) {
                    self.store(piece, field.from, field.to - field.from, memory);
                }
                0
            }
            Part::Name => self.word(at + 8),
            Part::Control => self.word(at + 40) | self.word(at + 44) << 32,
            Part::Data => {
                let all = if index.is_some() { self.word(at + 56) } else { self.counted() };
                self.share(Some(at), all, piece.length as u64)
            }
        }
    }

    fn store(&mut self, piece: &Piece, from: usize, bytes: usize, memory: &mut impl CallerMemory) {
        if bytes == 0 {
            return;
        }
        let addr = piece.addr.saturating_add(from as u64);
        let stored = self.buffer.store(piece.at + from, bytes, memory, addr);
        self.has_failed |= stored.is_err() && piece.rule != Rule::Quiet;
    }
}
