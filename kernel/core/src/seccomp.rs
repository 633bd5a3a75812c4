//! Filters of system calls (seccomp): classic BPF programs over a call's number and
//! arguments.

use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::errno::{EINVAL, Result};
use crate::lists;

pub mod notified;
pub mod worker;

/// Instructions of one filter at most (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;
/// Instructions of all filters of a thread at most, each counted as if it had
/// [`FILTER_COST`] more.
pub const MAX_TOTAL: usize = (1 << 18) / 8;
/// Instructions that each filter counts in [`MAX_TOTAL`] beside its own ones.
pub const FILTER_COST: usize = 4;
/// `AUDIT_ARCH_X86_64`.
pub const ARCH: u32 = 0xc000_003e;
/// Words of scratch memory.
const CELLS: usize = 16;
/// Bytes of `struct seccomp_data`.
const DATA_BYTES: u32 = 64;

/// Answers of a filter, in the upper half of its result (`SECCOMP_RET_*`). The least of several
/// filters' answers counts, as signed numbers.
pub mod action {
    /// Ends the process by SIGSYS.
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    /// Ends the thread.
    pub const KILL_THREAD: u32 = 0;
    /// Raises SIGSYS.
    pub const TRAP: u32 = 0x0003_0000;
    /// The call fails with the lower half as errno.
    pub const ERRNO: u32 = 0x0005_0000;
    /// A listener decides.
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    /// A tracer decides.
    pub const TRACE: u32 = 0x7ff0_0000;
    /// Allowed, and logged.
    pub const LOG: u32 = 0x7ffc_0000;
    /// Allowed.
    pub const ALLOW: u32 = 0x7fff_0000;
    /// The part that is the action.
    pub const MASK: u32 = 0xffff_0000;
}

/// Parts of an instruction's code.
mod code {
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;
    pub const CLASS: u16 = 0x07;
    pub const X: u16 = 0x08;
    pub const A: u16 = 0x10;
    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    pub const ADD: u16 = 0x00;
    pub const SUB: u16 = 0x10;
    pub const MUL: u16 = 0x20;
    pub const DIV: u16 = 0x30;
    pub const OR: u16 = 0x40;
    pub const AND: u16 = 0x50;
    pub const LSH: u16 = 0x60;
    pub const RSH: u16 = 0x70;
    pub const NEG: u16 = 0x80;
    pub const XOR: u16 = 0xa0;
    pub const JA: u16 = 0x00;
    pub const JEQ: u16 = 0x10;
    pub const JGT: u16 = 0x20;
    pub const JGE: u16 = 0x30;
    pub const JSET: u16 = 0x40;
    pub const TXA: u16 = 0x80;
}

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Instruction {
    /// Operation, in classic BPF's encoding.
    pub code: u16,
    /// Instructions skipped if a condition holds.
    pub jump_true: u8,
    /// Instructions skipped if the condition does not hold.
    pub jump_false: u8,
    /// Operand.
    pub k: u32,
}

/// `struct seccomp_data`: what a filter sees of a call.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct Data {
    /// Number.
    pub number: u32,
    /// [`ARCH`].
    pub arch: u32,
    /// Address behind the `syscall` instruction.
    pub instruction: u64,
    /// Arguments.
    pub args: [u64; 6],
}

/// A filter that ends, jumps forwards and reads only what there is.
#[derive(Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// Checks a filter.
    ///
    /// # Errors
    /// `EINVAL`: it is no filter, by the rules of Linux. `ENOMEM`.
    pub fn new(instructions: Vec<Instruction>) -> Result<Self> {
        let count = instructions.len();
        if count == 0 || count > MAX_INSTRUCTIONS {
            return Err(EINVAL);
        }
        for (i, instruction) in instructions.iter().enumerate() {
            if !is_valid(*instruction, count - 1 - i) {
                return Err(EINVAL);
            }
        }
        let ends = |i: &Instruction| i.code & code::CLASS == code::RET;
        if !instructions.last().is_some_and(ends) || !reads_what_was_written(&instructions)? {
            return Err(EINVAL);
        }
        Ok(Self(instructions))
    }

    /// Instructions.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// The filter's instructions.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Never so.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The filter's answer to a call.
    #[must_use]
    pub fn run(&self, data: &Data) -> u32 {
        let (mut a, mut x) = (0u32, 0u32);
        let mut cells = [0u32; CELLS];
        let mut at = 0;
        // Jumps go forwards only, so it comes to an end.
        while let Some(i) = self.0.get(at) {
            at += 1;
            let cell = i.k as usize % CELLS;
            match i.code & code::CLASS {
                code::LD => a = load(*i, data, &cells),
                code::LDX => x = load(*i, data, &cells),
                code::ST => cells[cell] = a,
                code::STX => cells[cell] = x,
                code::ALU => {
                    let operand = if i.code & code::X == 0 { i.k } else { x };
                    match calculate(i.code, a, operand) {
                        Some(result) => a = result,
                        None => return 0,
                    }
                }
                code::JMP => {
                    let operand = if i.code & code::X == 0 { i.k } else { x };
                    at += skipped(*i, a, operand);
                }
                code::RET => return if i.code & code::A == 0 { i.k } else { a },
                _ if i.code & code::TXA == 0 => x = a,
                _ => a = x,
            }
        }
        0
    }
}

fn load(i: Instruction, data: &Data, cells: &[u32; CELLS]) -> u32 {
    match i.code & 0xe0 {
        code::ABS => {
            let at = i.k as usize;
            let word = data.as_bytes().get(at..at + 4).and_then(|b| b.try_into().ok());
            word.map_or(0, u32::from_le_bytes)
        }
        code::MEM => cells[i.k as usize % CELLS],
        code::LEN => DATA_BYTES,
        _ => i.k,
    }
}

/// `None`: a division by zero, which ends the filter with 0.
const fn calculate(what: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match what & 0xf0 {
        code::ADD => a.wrapping_add(operand),
        code::SUB => a.wrapping_sub(operand),
        code::MUL => a.wrapping_mul(operand),
        code::DIV => return a.checked_div(operand),
        code::OR => a | operand,
        code::AND => a & operand,
        code::LSH => a.wrapping_shl(operand),
        code::RSH => a.wrapping_shr(operand),
        code::XOR => a ^ operand,
        _ => a.wrapping_neg(),
    })
}

const fn skipped(i: Instruction, a: u32, operand: u32) -> usize {
    let holds = match i.code & 0xf0 {
        code::JA => return i.k as usize,
        code::JEQ => a == operand,
        code::JGT => a > operand,
        code::JGE => a >= operand,
        _ => a & operand != 0,
    };
    (if holds { i.jump_true } else { i.jump_false }) as usize
}

/// Whether there is such an instruction, where `following` come after it.
const fn is_valid(i: Instruction, following: usize) -> bool {
    let operand = i.code & code::X == 0;
    match i.code & code::CLASS {
        code::LD if i.code & !code::CLASS == code::ABS => i.k < DATA_BYTES && i.k.is_multiple_of(4),
        code::LD | code::LDX => match i.code & !code::CLASS {
            code::IMM | code::LEN => true,
            code::MEM => (i.k as usize) < CELLS,
            _ => false,
        },
        code::ST | code::STX => i.code & !code::CLASS == 0 && (i.k as usize) < CELLS,
        code::ALU => match i.code & !(code::CLASS | code::X) {
            code::NEG => operand,
            code::DIV => !operand || i.k != 0,
            code::LSH | code::RSH => !operand || i.k < 32,
            code::ADD | code::SUB | code::MUL | code::OR | code::AND | code::XOR => true,
            _ => false,
        },
        code::JMP => match i.code & !(code::CLASS | code::X) {
            code::JA => operand && (i.k as usize) < following,
            code::JEQ | code::JGT | code::JGE | code::JSET => {
                (i.jump_true as usize) < following && (i.jump_false as usize) < following
            }
            _ => false,
        },
        code::RET => matches!(i.code & !code::CLASS, 0 | code::A),
        code::MISC => matches!(i.code & !code::CLASS, 0 | code::TXA),
        _ => false,
    }
}

/// Whether on every path a cell is written before it is read.
fn reads_what_was_written(instructions: &[Instruction]) -> Result<bool> {
    // Cells that are written whichever way an instruction is come to.
    let mut known = lists::filled(instructions.len(), u16::MAX)?;
    let mut written = 0u16;
    for (at, i) in instructions.iter().enumerate() {
        written &= known[at];
        let cell = 1u16 << (i.k as usize % CELLS);
        let mut jump = |skip: usize| {
            if let Some(k) = known.get_mut(at + 1 + skip) {
                *k &= written;
            }
        };
        match i.code & code::CLASS {
            code::ST | code::STX => written |= cell,
            code::LD | code::LDX if i.code & 0xe0 == code::MEM && written & cell == 0 => {
                return Ok(false);
            }
            code::JMP if i.code & 0xf0 == code::JA => {
                jump(i.k as usize);
                written = u16::MAX;
            }
            code::JMP => {
                jump(i.jump_true as usize);
                jump(i.jump_false as usize);
                written = u16::MAX;
            }
            _ => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const fn op(code: u16, k: u32) -> Instruction {
        Instruction { code, jump_true: 0, jump_false: 0, k }
    }

    const fn jump(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
        Instruction { code, jump_true, jump_false, k }
    }

    const DATA: Data = Data {
        number: 39,
        arch: ARCH,
        instruction: 0x1234_5678_9abc_def0,
        args: [1, 2, 3, 4, 5, 0xffff_ffff_0000_0006],
    };

    fn run(instructions: &[Instruction]) -> u32 {
        Program::new(instructions.to_vec()).unwrap().run(&DATA)
    }

    #[test]
    fn reads_every_word_of_the_call() {
        let word = |at| run(&[op(0x20, at), op(0x16, 0)]);
        assert_eq!([word(0), word(4), word(8), word(12)], [39, ARCH, 0x9abc_def0, 0x1234_5678]);
        assert_eq!([word(16), word(56), word(60)], [1, 6, 0xffff_ffff]);
        assert_eq!(run(&[op(0x80, 0), op(0x16, 0)]), 64);
    }

    #[test]
    fn arithmetic_is_that_of_32_bits() {
        let two = |what, a, k| run(&[op(0x00, a), op(0x04 | what, k), op(0x16, 0)]);
        let by_x = |what, a, x| run(&[op(0x01, x), op(0x00, a), op(0x0c | what, 0), op(0x16, 0)]);
        for f in [&two as &dyn Fn(u16, u32, u32) -> u32, &by_x] {
            assert_eq!(f(code::ADD, u32::MAX, 2), 1);
            assert_eq!(f(code::SUB, 1, 2), u32::MAX);
            assert_eq!(f(code::MUL, 3, 5), 15);
            assert_eq!(f(code::DIV, 17, 5), 3);
            assert_eq!(f(code::OR, 5, 2), 7);
            assert_eq!(f(code::AND, 7, 5), 5);
            assert_eq!(f(code::XOR, 7, 5), 2);
            assert_eq!(f(code::LSH, 1, 31), 1 << 31);
            assert_eq!(f(code::RSH, 1 << 31, 31), 1);
        }
        assert_eq!(two(code::NEG, 1, 0), u32::MAX);
        assert_eq!(by_x(code::DIV, 17, 0), 0);
        // Through cells and registers.
        let through = [
            op(0x00, 8),
            op(0x02, 3),
            op(0x07, 0),
            op(0x03, 4),
            op(0x00, 1),
            op(0x60, 3),
            op(0x61, 4),
            op(0x0c, 0),
            op(0x16, 0),
        ];
        assert_eq!(run(&through), 16);
        assert_eq!(run(&[op(0x01, 9), op(0x87, 0), op(0x16, 0)]), 9);
    }

    #[test]
    fn jumps_go_by_their_comparison() {
        let decide =
            |what, k| run(&[op(0x20, 0), jump(0x05 | what, k, 0, 1), op(0x06, 1), op(0x06, 2)]);
        assert_eq!([decide(code::JEQ, 39), decide(code::JEQ, 40)], [1, 2]);
        assert_eq!([decide(code::JGT, 38), decide(code::JGT, 39)], [1, 2]);
        assert_eq!([decide(code::JGE, 39), decide(code::JGE, 40)], [1, 2]);
        assert_eq!([decide(code::JSET, 1), decide(code::JSET, 8)], [1, 2]);
        assert_eq!(run(&[op(0x05, 1), op(0x06, 1), op(0x06, 2)]), 2);
    }

    #[test]
    fn refuses_what_is_no_filter() {
        let refused = |instructions: &[Instruction]| {
            assert_eq!(Program::new(instructions.to_vec()), Err(EINVAL), "{instructions:?}")
        };
        let end = op(0x06, 0);
        refused(&[]);
        refused(&vec![end; MAX_INSTRUCTIONS + 1]);
        assert!(Program::new(vec![end; MAX_INSTRUCTIONS]).is_ok());
        refused(&[op(0x00, 0)]); // does not end
        refused(&[op(0x05, 0)]);
        refused(&[op(0x05, 1), end]);
        refused(&[op(0x05, u32::MAX), end]);
        refused(&[jump(0x15, 0, 1, 0), end]);
        refused(&[jump(0x15, 0, 0, 1), end]);
        for at in [1, 64, 62, u32::MAX] {
            refused(&[op(0x20, at), end]);
        }
        // Loads of bytes, of packets, MOD, division by nothing, shifts too far, cells that are not.
        for bad in [
            op(0x30, 0),
            op(0x28, 0),
            op(0x40, 0),
            op(0xb1, 0),
            op(0x94, 1),
            op(0x34, 0),
            op(0x64, 32),
            op(0x74, 32),
            op(0x60, 16),
            op(0x02, 16),
            op(0x0e, 0),
            op(0x0800, 0),
        ] {
            refused(&[op(0x02, 0), bad, end]);
        }
        refused(&[op(0x60, 3), end]); // read, not written
        refused(&[jump(0x15, 0, 1, 0), op(0x02, 0), op(0x60, 0), end]); // written on one path
        assert!(
            Program::new(vec![jump(0x15, 0, 1, 0), op(0x02, 0), op(0x02, 0), op(0x60, 0), end])
                .is_ok()
        );
    }
}
