//! Which arguments of a call point to memory that it touches, in a form that each call can look at.

use super::arguments::{Argument, Direction};
use super::{NUMBERS, row};

/// Pointers of a call that are looked at: its first ones.
pub const POINTERS_MAX: usize = 2;

/// One pointer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Index of the pointer among the call's pointers.
    pub index: usize,
    /// Index of the argument.
    pub argument: usize,
    /// The call writes there; else it reads.
    pub writes: bool,
    each: u32,
    count: Option<usize>,
}

impl Pointer {
    /// Bytes that it points to, with these arguments: at most, where the call says how many there
    /// are.
    #[must_use]
    pub fn bytes(&self, args: &[u64; 6]) -> u64 {
        u64::from(self.each).saturating_mul(self.count.map_or(1, |argument| args[argument]))
    }
}

/// The first pointers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointers([Option<Pointer>; POINTERS_MAX]);

impl Pointers {
    const NONE: Self = Self([None; POINTERS_MAX]);

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// The first ones of what a row says. Structures that lead to others are left out.
    const fn of(arguments: &[Argument]) -> Self {
        let (mut found, mut count, mut at) = (Self::NONE, 0, 0);
        while at < arguments.len() && count < POINTERS_MAX {
            if let Some(mut pointer) = pointer(at, arguments[at]) {
                pointer.index = count;
                found.0[count] = Some(pointer);
                count += 1;
            }
            at += 1;
        }
        found
    }
}

impl IntoIterator for Pointers {
    type Item = Pointer;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Pointer>, POINTERS_MAX>>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

const fn pointer(argument: usize, what: Argument) -> Option<Pointer> {
    let (writes, each, count) = match what {
        // The page where it begins: most are short.
        Argument::Text => (false, 1, None),
        Argument::Input(bytes) | Argument::Address(bytes) => (false, 1, Some(bytes)),
        Argument::Output(bytes) | Argument::Records(bytes) | Argument::Buffer(bytes) => {
            (true, 1, Some(bytes))
        }
        Argument::Struct(structure, direction) => (writes(direction), structure.size(), None),
        Argument::Many(structure, number, direction) => {
            (writes(direction), structure.size(), Some(number))
        }
        Argument::List(structure, number) => (true, structure.size(), Some(number)),
        // One that leads to others, or whose length lies in memory.
        Argument::Strings
        | Argument::Sized(_)
        | Argument::Counted(..)
        | Argument::Set(_)
        | Argument::Typed(..)
        | Argument::AddressOut(_)
        | Argument::Vectors(..)
        | Argument::Message(_)
        | Argument::Messages(..)
        | Argument::Chosen(_)
        | Argument::Encoded(_)
        | Argument::Undescribed(_)
        // No pointer.
        | Argument::Int
        | Argument::Word
        | Argument::Unsigned
        | Argument::Hex
        | Argument::Bits
        | Argument::Mode
        | Argument::Descriptor
        | Argument::Folder
        | Argument::One(_)
        | Argument::Flags(_) => return None,
    };
    let count = match count {
        Some(number) => Some(number as usize),
        None => None,
    };
    Some(Pointer { index: 0, argument, writes, each: each as u32, count })
}

/// Whether the call may write there.
const fn writes(direction: Direction) -> bool {
    match direction {
        Direction::In => false,
        Direction::Out | Direction::InOut | Direction::InOutQuiet => true,
    }
}

/// Pointers of each call, by number.
static POINTERS: [Pointers; NUMBERS] = {
    let mut all = [Pointers::NONE; NUMBERS];
    let mut number = 0;
    while number < NUMBERS {
        if let Some(row) = row(number as u64) {
            all[number] = Pointers::of(row.arguments);
        }
        number += 1;
    }
    all
};

/// The pointers of call `number`.
#[must_use]
#[inline]
pub const fn of_call(number: usize) -> Pointers {
    if number < NUMBERS { POINTERS[number] } else { Pointers::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::general::{__NR_getppid, __NR_openat, __NR_poll, __NR_read, __NR_stat};

    fn of(number: u32) -> std::vec::Vec<(usize, bool, u64)> {
        let args = [1, 2, 3, 4, 5, 6];
        let told = |p: Pointer| (p.argument, p.writes, p.bytes(&args));
        of_call(number as usize).into_iter().map(told).collect()
    }

    #[test]
    fn pointers_are_found_with_their_lengths() {
        assert_eq!(of(__NR_read), [(1, true, 3)]);
        assert_eq!(of(__NR_openat), [(1, false, 1)]);
        assert_eq!(of(__NR_stat), [(0, false, 1), (1, true, 144)]);
        assert_eq!(of(__NR_poll), [(0, true, 16)]);
        assert!(of_call(__NR_getppid as usize).is_empty() && of_call(usize::MAX).is_empty());
    }

    #[test]
    fn a_length_that_no_memory_has_is_no_overflow() {
        let [pollfds] = of_call(__NR_poll as usize).0[..1] else { unreachable!() };
        let pointer = pollfds.expect("poll has a pointer");
        assert_eq!(pointer.bytes(&[0, u64::MAX, 0, 0, 0, 0]), u64::MAX);
    }
}
