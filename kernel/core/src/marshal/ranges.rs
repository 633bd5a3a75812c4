//! Ranges of memory that a call refers to, for a side that executes the call in place and has to
//! know whether it may.

use super::encode::{Refusal, length_of};
use super::walk::{ENTRY_MAX, Each, Entry, List, Party, Rule, walk};
use super::wire::TEXT_MAX;
use crate::syscalls::arguments::{Counted, Direction};
use crate::usermemory::UserMemory;

/// Calls `each` with every piece of memory that a call refers to, in arguments and in structures:
/// its address, its length (of a string the longest), and its direction. Structures that cannot be
/// read are left out, since Linux cannot read them either.
///
/// # Errors
/// Nothing describes the call, or `each` has returned false.
pub fn ranges(
    memory: &impl UserMemory,
    number: u32,
    args: &[u64; 6],
    each: impl FnMut(u64, u64, Direction) -> bool,
) -> Result<(), RangesEnd> {
    let mut ranges = Ranges { memory, each };
    walk(&mut ranges, u64::from(number), &mut args.clone())
}

/// Reason why [`ranges`] has not come to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangesEnd {
    /// The call has no description.
    Refused(Refusal),
    /// The caller of [`ranges`] has had enough.
    Stopped,
}

struct Ranges<'a, M, F> {
    memory: &'a M,
    each: F,
}

impl<M: UserMemory, F: FnMut(u64, u64, Direction) -> bool> Party for Ranges<'_, M, F> {
    type Error = RangesEnd;

    fn undescribed(why: &'static str) -> RangesEnd {
        RangesEnd::Refused(Refusal::Undescribed(why))
    }

    fn range(
        &mut self,
        pointer: u64,
        length: u64,
        direction: Direction,
        _: Rule,
    ) -> Result<u64, RangesEnd> {
        let is_nothing = pointer == 0 || length == 0;
        let goes_on = is_nothing || (self.each)(pointer, length, direction);
        if goes_on { Ok(pointer) } else { Err(RangesEnd::Stopped) }
    }

    fn text(&mut self, pointer: u64) -> Result<u64, RangesEnd> {
        self.range(pointer, TEXT_MAX as u64, Direction::In, Rule::Nothing)
    }

    fn counted(
        &mut self,
        pointer: u64,
        counted: &Counted,
        direction: Direction,
    ) -> Result<u64, RangesEnd> {
        let first = if pointer == 0 { 0 } else { self.memory.read_u32(pointer).unwrap_or(0) };
        self.range(pointer, length_of(counted, first), direction, Rule::Nothing)
    }

    fn list(&mut self, pointer: u64, list: List, each: Each<'_, Self>) -> Result<u64, RangesEnd> {
        let direction = if list.rule == Rule::Nothing { Direction::In } else { Direction::InOut };
        let length = list.count.saturating_mul(list.size as u64);
        self.range(pointer, length, direction, Rule::Nothing)?;
        for (at, index) in (0..list.count).zip(0u32..) {
            let mut entry = Entry { bytes: [0; ENTRY_MAX], index, at: 0 };
            let addr = pointer.saturating_add(at * list.size as u64);
            if pointer == 0 || self.memory.read(addr, &mut entry.bytes[..list.size]).is_err() {
                break;
            }
            each(self, &mut entry)?;
        }
        Ok(pointer)
    }
}
