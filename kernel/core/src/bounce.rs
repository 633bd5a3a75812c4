//! Bounce buffers: small arguments of a call in the scratch page of its slot, in place of the
//! program's memory.
//!
//! Linux makes page tables for the first page of a program that it touches, and looks through all
//! of them when the process ends: about 50,000 instructions, for a program that calls Linux a dozen
//! times. So the first calls of a space are made by way of the scratch page, until one comes that
//! cannot be.

use crate::syscalls::arguments::{Argument, Direction};
use crate::syscalls::{Row, is_one_of};
use linux_raw_sys::general::*;

/// Bytes of the scratch page.
pub const ROOM: u64 = 4096;
/// Most bytes of a string, with its zero.
pub const TEXT_MAX: usize = 512;
/// Most bytes that are read or written.
const BYTES_MAX: u64 = 2048;
/// Direct I/O has rules for the alignment of buffers: a bounce buffer has that of the program's.
const ALIGNMENT: u64 = 512;
/// Calls of a space that are made so, at most: a program that makes more of them does better with
/// mapped memory.
pub const CALLS_MAX: u32 = 32;

/// How the call uses a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A string is read.
    Text,
    /// The call reads the piece.
    In,
    /// The call writes it, as much as the result says or (`whole`) all of it.
    Out {
        /// The call writes all of the piece, whatever its result.
        whole: bool,
    },
}

/// An argument that points to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the argument.
    pub argument: usize,
    /// Use that the call makes of the piece.
    pub what: What,
    /// Address of the piece in the scratch page.
    pub at: u64,
    /// Length in bytes; of a string, the room for it.
    pub bytes: u64,
}

/// Plan for a call by the scratch page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pieces: [Option<Piece>; 2],
    /// In place of the third argument: fewer bytes than the program has room for. A result of as
    /// many says nothing.
    pub shortened: Option<u64>,
}

impl Plan {
    /// The pieces of memory.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().flatten()
    }
}

/// Calls that programs make when they begin.
const AMONG: [u32; 14] = [
    __NR_read,
    __NR_write,
    __NR_open,
    __NR_stat,
    __NR_fstat,
    __NR_lstat,
    __NR_pread64,
    __NR_access,
    __NR_readlink,
    __NR_getrlimit,
    __NR_openat,
    __NR_newfstatat,
    __NR_faccessat,
    __NR_prlimit64,
];

/// Whether call `number` is one that programs make when they begin.
#[must_use]
pub const fn is_among(number: u32) -> bool {
    is_one_of(number, &AMONG)
}

/// How the call is made by way of the scratch page. `None`: not at all.
#[must_use]
pub fn plan(row: &Row, args: &[u64; 6]) -> Option<Plan> {
    let number = u32::from(row.number);
    let (mut plan, mut end) = (Plan::default(), 0);
    if !is_among(number) {
        return None;
    }
    for (argument, kind) in row.arguments.iter().enumerate() {
        let pointer = args[argument];
        let (what, mut bytes) = match *kind {
            Argument::Text => (What::Text, TEXT_MAX as u64),
            Argument::Input(n) => (What::In, args[usize::from(n)]),
            Argument::Output(n) => (What::Out { whole: false }, args[usize::from(n)]),
            Argument::Struct(..) if pointer == 0 => continue,
            Argument::Struct(structure, Direction::In) => (What::In, structure.size() as u64),
            Argument::Struct(structure, Direction::Out) => {
                (What::Out { whole: true }, structure.size() as u64)
            }
            _ => continue,
        };
        let at = match what {
            What::Text => end,
            _ => end + pointer.wrapping_sub(end) % ALIGNMENT,
        };
        if number == __NR_readlink && bytes > BYTES_MAX && bytes <= i32::MAX as u64 {
            bytes = BYTES_MAX;
            plan.shortened = Some(bytes);
        }
        if bytes == 0 || bytes > BYTES_MAX {
            return None;
        }
        end = at + bytes;
        *plan.pieces.iter_mut().find(|piece| piece.is_none())? =
            Some(Piece { argument, what, at, bytes });
    }
    (end != 0 && end <= ROOM).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::{row, rows};
    use alloc::vec::Vec;

    fn plan_of(number: u32, args: [u64; 6]) -> Option<Plan> {
        plan(row(number.into()).unwrap(), &args)
    }

    #[test]
    fn a_path_and_a_structure_have_places_of_their_own() {
        let plan = plan_of(__NR_newfstatat, [3, 0x1001, 0x2010, 0, 0, 0]).unwrap();
        let pieces: Vec<_> = plan.pieces().copied().collect();
        let text = Piece { argument: 1, what: What::Text, at: 0, bytes: 512 };
        let stat =
            Piece { argument: 2, what: What::Out { whole: true }, at: 512 + 0x10, bytes: 144 };
        assert_eq!(pieces, [text, stat]);
    }

    #[test]
    fn a_null_structure_stays_null() {
        let plan = plan_of(__NR_prlimit64, [0, 3, 0, 0x5008, 0, 0]).unwrap();
        assert_eq!(plan.pieces().map(|p| p.argument).collect::<Vec<_>>(), [3]);
        assert_eq!(plan_of(__NR_prlimit64, [0, 3, 0, 0, 0, 0]), None, "nothing to bounce");
    }

    #[test]
    fn what_is_large_or_empty_is_made_as_it_is() {
        assert_eq!(plan_of(__NR_read, [0, 0x1000, 2049, 0, 0, 0]), None);
        assert_eq!(plan_of(__NR_read, [0, 0x1000, 0, 0, 0, 0]), None);
        assert_eq!(plan_of(__NR_read, [0, 0x1000, u64::MAX, 0, 0, 0]), None);
        assert_eq!(plan_of(__NR_mmap, [0, 4096, 0, 0, 0, 0]), None);
        assert!(plan_of(__NR_read, [0, 0x1000, 2048, 0, 0, 0]).is_some());
    }

    #[test]
    fn only_a_link_is_read_shortened() {
        let plan = plan_of(__NR_readlink, [0x1000, 0x2000, 4096, 0, 0, 0]).unwrap();
        assert_eq!(plan.shortened, Some(2048));
        assert_eq!(plan_of(__NR_readlink, [0x1000, 0x2000, 100, 0, 0, 0]).unwrap().shortened, None);
        assert_eq!(plan_of(__NR_readlink, [0x1000, 0x2000, 1 << 31, 0, 0, 0]), None);
    }

    #[test]
    fn pieces_are_aligned_as_the_programs_and_fit() {
        for row in rows().iter().filter(|row| is_among(row.number.into())) {
            for pointer in [1, 8, 511, 512, 0x7fff_ffff_f1ff, u64::MAX] {
                let args = [pointer, pointer, 2048, pointer, 0, 0];
                let plan = plan(row, &args);
                let mut end = 0;
                for piece in plan.iter().flat_map(Plan::pieces) {
                    assert!(piece.at >= end, "{}", row.name);
                    assert!(
                        piece.what == What::Text || piece.at % 512 == args[piece.argument] % 512,
                        "{}",
                        row.name
                    );
                    end = piece.at + piece.bytes;
                    assert!(end <= ROOM, "{}", row.name);
                }
            }
        }
    }
}
