//! seccomp filters: which are filters, and what they answer.

use hanare_core::seccomp::{ARCH, Data, Instruction, MAX_INSTRUCTIONS, Program};
use zerocopy::IntoBytes;

use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "filter", check, size_max: 1024, seeds };

/// Codes that Linux lets a seccomp filter have (`chk_code_allowed`, `seccomp_check_filter`).
pub const CODES: [u16; 42] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20, 0x24,
    0x25, 0x2c, 0x2d, 0x34, 0x35, 0x3c, 0x3d, 0x44, 0x45, 0x4c, 0x4d, 0x54, 0x5c, 0x60, 0x61, 0x64,
    0x6c, 0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0xa4, 0xac, 0x06,
];

const fn op(code: u16, k: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, k }
}

const fn jump(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, k }
}

/// Filters like those of real programs.
pub fn programs() -> Vec<Vec<Instruction>> {
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    // libseccomp: architecture, x32, a list of numbers, an argument of 64 bits.
    let libseccomp = vec![
        op(0x20, 4),
        jump(0x15, ARCH, 0, 9),
        op(0x20, 0),
        jump(0x35, 0x4000_0000, 0, 1),
        jump(0x15, u32::MAX, 0, 6),
        jump(0x15, 0, 4, 0),
        jump(0x15, 59, 0, 3),
        op(0x20, 20),
        jump(0x15, 0, 0, 2),
        op(0x20, 16),
        jump(0x25, 2, 0, 1),
        op(0x06, ERRNO | 1),
        op(0x06, ALLOW),
    ];
    // OpenSSH's sandbox: numbers one after the other, masks of arguments.
    let openssh = vec![
        op(0x20, 4),
        jump(0x15, ARCH, 1, 0),
        op(0x06, 0),
        op(0x20, 0),
        jump(0x15, 2, 0, 1),
        op(0x06, ERRNO | 13),
        jump(0x15, 9, 0, 5),
        op(0x20, 32),
        op(0x54, !3),
        jump(0x15, 0, 0, 1),
        op(0x06, ALLOW),
        op(0x20, 0),
        jump(0x15, 231, 0, 1),
        op(0x06, ALLOW),
        op(0x06, 0x8000_0000),
    ];
    // Chromium's: a tree of comparisons, and a trap that says which.
    let chromium = vec![
        op(0x20, 0),
        jump(0x45, 0x4000_0000, 7, 0),
        jump(0x35, 100, 3, 0),
        jump(0x35, 39, 0, 5),
        jump(0x35, 40, 4, 0),
        op(0x05, 1),
        jump(0x15, 231, 0, 2),
        op(0x06, ALLOW),
        op(0x06, 0x7ffc_0000),
        op(0x06, 0x0003_0017),
    ];
    // Every kind of instruction once.
    let all = vec![
        op(0x80, 0),
        op(0x02, 3),
        op(0x07, 0),
        op(0x03, 4),
        op(0x20, 8),
        op(0x0c, 0),
        op(0x14, 1),
        op(0x24, 3),
        op(0x34, 5),
        op(0x44, 2),
        op(0x5c, 0),
        op(0x64, 31),
        op(0x74, 31),
        op(0xac, 0),
        op(0x84, 0),
        op(0x61, 3),
        op(0x87, 0),
        op(0x60, 4),
        op(0x16, 0),
    ];
    // The number goes through the index register.
    let index = vec![
        op(0x20, 0),
        op(0x07, 0),
        op(0x00, 9),
        op(0x87, 0),
        jump(0x15, 2, 0, 1),
        op(0x06, ALLOW),
        op(0x06, 0),
    ];
    vec![libseccomp, openssh, chromium, all, index, hanare_core::seccomp::worker::STRICT.to_vec()]
}

/// A program as an input that [`read`] reads as it is, behind `head`.
pub fn as_input(head: &[u8], program: &[Instruction]) -> Vec<u8> {
    let mut input = head.to_vec();
    for i in program {
        input.extend_from_slice(&i.code.to_le_bytes());
        input.extend_from_slice(&[i.jump_true, i.jump_false]);
        input.extend_from_slice(&i.k.to_le_bytes());
    }
    input
}

/// Reads the rest of an input as a program: as it is or, if it is to be `mended`, so that most of
/// it passes the checks.
pub fn read(mut input: Input, mended: bool) -> Vec<Instruction> {
    let mut program = Vec::new();
    while !input.is_empty() && program.len() <= MAX_INSTRUCTIONS {
        let (code, jump_true, jump_false) = (input.u16(), input.byte(), input.byte());
        program.push(Instruction { code, jump_true, jump_false, k: input.u32() });
    }
    if mended {
        let count = program.len();
        for (at, i) in program.iter_mut().enumerate() {
            mend(i, count - 1 - at);
        }
        program.push(op(0x06, 0x7fff_0000));
    }
    program
}

/// `following`: how many come behind it, without the one that is put at the end.
fn mend(i: &mut Instruction, following: usize) {
    if !CODES.contains(&i.code) {
        i.code = CODES[usize::from(i.code) % CODES.len()];
    }
    let most = following + 1;
    match i.code {
        0x20 => i.k = i.k % 16 * 4,
        0x02 | 0x03 | 0x60 | 0x61 => i.k %= 16,
        0x34 => i.k = i.k.max(1),
        0x64 | 0x74 => i.k %= 32,
        0x05 => i.k %= most as u32,
        code if code & 7 == 5 => {
            i.jump_true = (usize::from(i.jump_true) % most) as u8;
            i.jump_false = (usize::from(i.jump_false) % most) as u8;
        }
        _ => {}
    }
}

/// A call, out of 64 bytes.
pub fn call(input: &mut Input) -> Data {
    let (number, arch) = (input.u32(), input.u32());
    // Mostly the own one.
    let arch = if arch.is_multiple_of(16) { arch } else { ARCH };
    Data { number, arch, instruction: input.u64(), args: std::array::from_fn(|_| input.u64()) }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut head = [0; 65];
    head[5] = 1; // its own architecture
    programs().iter().map(|program| as_input(&head, program)).collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let mended = input.byte() & 1 == 1;
    let data = call(&mut input);
    let instructions = read(input, mended);
    let valid = is_filter(&instructions);
    let program = match Program::new(instructions.clone()) {
        Ok(program) => program,
        Err(_) => return assert!(!valid, "refused: {instructions:?}"),
    };
    assert!(valid, "accepted: {instructions:?}");
    assert_eq!(program.instructions(), instructions);
    assert_eq!((program.len(), program.is_empty()), (instructions.len(), false));
    assert_eq!(program.run(&data), answer(&instructions, &data), "{instructions:?}");
}

/// The checks of Linux' `bpf_check_classic` and `check_load_and_stores`, in another way: cells
/// that are written on all ways are found backwards, from each instruction that reads one.
fn is_filter(program: &[Instruction]) -> bool {
    let count = program.len();
    if !(1..=MAX_INSTRUCTIONS).contains(&count) || !matches!(program[count - 1].code, 0x06 | 0x16) {
        return false;
    }
    let mut ways_in = vec![Vec::new(); count];
    for (at, i) in program.iter().enumerate() {
        let fits = match i.code {
            0x16 => true,
            0x20 => i.k < 64 && i.k % 4 == 0,
            0x02 | 0x03 | 0x60 | 0x61 => i.k < 16,
            0x34 => i.k != 0,
            0x64 | 0x74 => i.k < 32,
            code => CODES.contains(&code),
        };
        if !fits {
            return false;
        }
        let next = match i.code {
            0x06 | 0x16 if at == count - 1 => vec![],
            // As if it went on behind a return, too: so Linux takes it.
            0x05 => vec![at as u64 + 1 + u64::from(i.k)],
            code if code & 7 == 5 => {
                [i.jump_true, i.jump_false].iter().map(|&n| at as u64 + 1 + u64::from(n)).collect()
            }
            _ => vec![at as u64 + 1],
        };
        for to in next {
            let Some(ways) = ways_in.get_mut(to as usize) else { return false };
            ways.push(at);
        }
    }
    // What cannot be come to reads nothing.
    let mut reached = vec![false; count];
    reached[0] = true;
    for at in 1..count {
        reached[at] = ways_in[at].iter().any(|&from| reached[from]);
    }
    let unwritten = |reader: usize| {
        let (mut seen, mut left) = (vec![false; count], vec![reader]);
        while let Some(at) = left.pop() {
            if at == 0 {
                return true;
            }
            for &from in &ways_in[at] {
                let writes = matches!(program[from].code, 0x02 | 0x03)
                    && program[from].k == program[reader].k;
                if reached[from] && !writes && !std::mem::replace(&mut seen[from], true) {
                    left.push(from);
                }
            }
        }
        false
    };
    !(0..count).any(|at| reached[at] && matches!(program[at].code, 0x60 | 0x61) && unwritten(at))
}

/// Answer of a valid filter, by codes as a whole. Panics if it leaves the program, reads behind the
/// call or a cell that was not written.
pub fn answer(program: &[Instruction], data: &Data) -> u32 {
    let (mut a, mut x, mut cells, mut at) = (0u32, 0u32, [None; 16], 0);
    for _ in 0..program.len() {
        let i = program[at];
        at += 1;
        let k = i.k;
        let holds =
            |condition: bool| usize::from(if condition { i.jump_true } else { i.jump_false });
        match i.code {
            0x00 => a = k,
            0x01 => x = k,
            0x02 => cells[k as usize] = Some(a),
            0x03 => cells[k as usize] = Some(x),
            0x04 => a = a.wrapping_add(k),
            0x0c => a = a.wrapping_add(x),
            0x14 => a = a.wrapping_sub(k),
            0x1c => a = a.wrapping_sub(x),
            0x24 => a = a.wrapping_mul(k),
            0x2c => a = a.wrapping_mul(x),
            0x34 => a /= k,
            0x3c if x == 0 => return 0,
            0x3c => a /= x,
            0x44 => a |= k,
            0x4c => a |= x,
            0x54 => a &= k,
            0x5c => a &= x,
            0x64 => a <<= k,
            0x6c => a <<= x & 31,
            0x74 => a >>= k,
            0x7c => a >>= x & 31,
            0x84 => a = a.wrapping_neg(),
            0xa4 => a ^= k,
            0xac => a ^= x,
            0x05 => at += k as usize,
            0x15 => at += holds(a == k),
            0x1d => at += holds(a == x),
            0x25 => at += holds(a > k),
            0x2d => at += holds(a > x),
            0x35 => at += holds(a >= k),
            0x3d => at += holds(a >= x),
            0x45 => at += holds(a & k != 0),
            0x4d => at += holds(a & x != 0),
            0x06 => return k,
            0x16 => return a,
            0x07 => x = a,
            0x87 => a = x,
            0x20 => {
                let word = &data.as_bytes()[k as usize..k as usize + 4];
                a = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            }
            0x60 => a = cells[k as usize].expect("written before"),
            0x61 => x = cells[k as usize].expect("written before"),
            0x80 => a = 64,
            0x81 => x = 64,
            code => panic!("{code:#x} is no instruction"),
        }
    }
    panic!("it does not end: {program:?}")
}
