//! The registers of x86-64 as GDB numbers them.

use std::fmt::Write;
use std::num::NonZeroUsize;

use gdbstub::arch::{Arch, RegId, Registers};

/// x86-64 with SSE, fs_base, gs_base and orig_rax.
pub enum X86 {}

/// General registers in GDB's order: where each stands in Linux' `user_regs_struct`.
const GENERAL: [usize; 17] = [10, 5, 11, 12, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
/// eflags, cs, ss, ds, es, fs, gs: 32 bits each.
const SHORT: [usize; 7] = [18, 17, 20, 23, 24, 25, 26];
/// fs_base, gs_base, orig_rax.
const LAST: [usize; 3] = [21, 22, 15];
/// Words of `user_regs_struct`.
pub const WORDS: usize = 27;
/// Words of FXSAVE.
pub const FPU_WORDS: usize = 64;

/// The registers of a thread, as the LWK sends them.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// As Linux' `user_regs_struct`.
    pub general: [u64; WORDS],
    /// As FXSAVE stores it.
    pub fpu: [u64; FPU_WORDS],
}

impl Default for State {
    fn default() -> Self {
        Self { general: [0; WORDS], fpu: [0; FPU_WORDS] }
    }
}

impl State {
    fn fpu_bytes(&self) -> Vec<u8> {
        self.fpu.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn set_fpu_bytes(&mut self, at: usize, bytes: &[u8]) {
        let mut all = self.fpu_bytes();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        for (word, bytes) in self.fpu.iter_mut().zip(all.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8]));
        }
    }

    /// x87 control registers: fctrl, fstat, ftag, fiseg, fioff, foseg, fooff, fop.
    fn x87(&self) -> [u32; 8] {
        let fpu = self.fpu_bytes();
        let half = |at: usize| u32::from(u16::from_le_bytes([fpu[at], fpu[at + 1]]));
        let word = |at: usize| u32::from_le_bytes(fpu[at..at + 4].try_into().unwrap_or([0; 4]));
        // FXSAVE has one bit for each register: in use or not.
        let tags = (0..8).map(|n| if fpu[4] >> n & 1 == 1 { 0 } else { 3 << (2 * n) }).sum();
        [half(0), half(2), tags, half(12), word(8), half(20), word(16), half(6)]
    }

    fn set_x87(&mut self, values: &[u32]) {
        let half = |value: u32| (value as u16).to_le_bytes();
        let used: u8 = (0..8).filter(|n| values[2] >> (2 * n) & 3 != 3).map(|n| 1 << n).sum();
        self.set_fpu_bytes(0, &half(values[0]));
        self.set_fpu_bytes(2, &half(values[1]));
        self.set_fpu_bytes(4, &[used]);
        self.set_fpu_bytes(6, &half(values[7]));
        self.set_fpu_bytes(8, &values[4].to_le_bytes());
        self.set_fpu_bytes(12, &half(values[3]));
        self.set_fpu_bytes(16, &values[6].to_le_bytes());
        self.set_fpu_bytes(20, &half(values[5]));
    }
}

impl Registers for State {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.general[16]
    }

    fn gdb_serialize(&self, mut write: impl FnMut(Option<u8>)) {
        let fpu = self.fpu_bytes();
        let mut bytes: Vec<u8> = Vec::new();
        GENERAL.iter().for_each(|&index| bytes.extend(self.general[index].to_le_bytes()));
        SHORT.iter().for_each(|&index| bytes.extend((self.general[index] as u32).to_le_bytes()));
        (0..8).for_each(|n| bytes.extend(&fpu[32 + n * 16..32 + n * 16 + 10]));
        self.x87().iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.extend(&fpu[160..416]);
        bytes.extend(&fpu[24..28]);
        LAST.iter().for_each(|&index| bytes.extend(self.general[index].to_le_bytes()));
        bytes.into_iter().for_each(|byte| write(Some(byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let mut rest = bytes;
        let mut take = |n: usize| -> Result<&[u8], ()> {
            let (first, last) = rest.split_at_checked(n).ok_or(())?;
            rest = last;
            Ok(first)
        };
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        for index in GENERAL {
            self.general[index] = word(take(8)?);
        }
        for index in SHORT {
            self.general[index] = word(take(4)?);
        }
        let mut fpu: Vec<(usize, Vec<u8>)> = Vec::new();
        for n in 0..8 {
            fpu.push((32 + n * 16, take(10)?.to_vec()));
        }
        let mut x87 = [0; 8];
        for value in &mut x87 {
            *value = word(take(4)?) as u32;
        }
        fpu.push((160, take(256)?.to_vec()));
        fpu.push((24, take(4)?.to_vec()));
        for index in LAST {
            self.general[index] = word(take(8)?);
        }
        fpu.iter().for_each(|(at, bytes)| self.set_fpu_bytes(*at, bytes));
        self.set_x87(&x87);
        Ok(())
    }
}

/// Registers are read and written all at once.
#[derive(Debug)]
pub enum NoRegister {}

impl RegId for NoRegister {
    fn from_raw_id(_: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        None
    }
}

impl Arch for X86 {
    type Usize = u64;
    type Registers = State;
    type RegId = NoRegister;
    type BreakpointKind = usize;
}

/// The description that GDB asks for.
pub fn description() -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
         <architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi><feature name=\"org.gnu.gdb.i386.core\">",
    );
    let register = |text: &mut String, name: &str, bits: u32, kind: &str| {
        let _ = write!(text, "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>");
    };
    let general = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split(' ');
    for name in general {
        let kind = match name {
            "rip" => "code_ptr",
            "rbp" | "rsp" => "data_ptr",
            _ => "int64",
        };
        register(&mut xml, name, 64, kind);
    }
    for name in "eflags cs ss ds es fs gs".split(' ') {
        register(&mut xml, name, 32, "int32");
    }
    for n in 0..8 {
        register(&mut xml, &format!("st{n}"), 80, "i387_ext");
    }
    for name in "fctrl fstat ftag fiseg fioff foseg fooff fop".split(' ') {
        register(&mut xml, name, 32, "int");
    }
    xml += "</feature><feature name=\"org.gnu.gdb.i386.sse\">";
    for (name, kind, count) in [
        ("v4f", "ieee_single", 4),
        ("v2d", "ieee_double", 2),
        ("v16i8", "int8", 16),
        ("v8i16", "int16", 8),
        ("v4i32", "int32", 4),
        ("v2i64", "int64", 2),
    ] {
        let _ = write!(xml, "<vector id=\"{name}\" type=\"{kind}\" count=\"{count}\"/>");
    }
    xml += "<union id=\"vec128\">";
    for (name, kind) in [
        ("v4_float", "v4f"),
        ("v2_double", "v2d"),
        ("v16_int8", "v16i8"),
        ("v8_int16", "v8i16"),
        ("v4_int32", "v4i32"),
        ("v2_int64", "v2i64"),
        ("uint128", "uint128"),
    ] {
        let _ = write!(xml, "<field name=\"{name}\" type=\"{kind}\"/>");
    }
    xml += "</union>";
    for n in 0..16 {
        register(&mut xml, &format!("xmm{n}"), 128, "vec128");
    }
    register(&mut xml, "mxcsr", 32, "int32");
    xml += "</feature><feature name=\"org.gnu.gdb.i386.segments\">";
    register(&mut xml, "fs_base", 64, "int");
    register(&mut xml, "gs_base", 64, "int");
    xml += "</feature><feature name=\"org.gnu.gdb.i386.linux\">";
    register(&mut xml, "orig_rax", 64, "int");
    xml + "</feature></target>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gdb_reads_it_can_write() {
        let mut state = State::default();
        state.general.iter_mut().zip(1..).for_each(|(word, n)| *word = n);
        state.fpu.iter_mut().zip(1..).for_each(|(word, n)| *word = n * 0x0101);
        let mut bytes = Vec::new();
        state.gdb_serialize(|byte| bytes.extend(byte));
        assert_eq!(bytes.len(), 17 * 8 + 7 * 4 + 80 + 32 + 256 + 4 + 24);
        assert_eq!(bytes[16 * 8], 17); // rip
        let mut other = state.clone();
        other.general = [0; WORDS];
        other.gdb_deserialize(&bytes).unwrap();
        assert_eq!(other, state);
        assert!(other.gdb_deserialize(&bytes[1..]).is_err());
    }

    #[test]
    fn as_many_registers_as_are_sent() {
        assert_eq!(description().matches("<reg ").count(), 17 + 7 + 8 + 8 + 16 + 1 + 3);
    }
}
