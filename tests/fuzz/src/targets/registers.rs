//! Registers that a tracer sets, and critical sections that a program tells of (rseq).

use hanare_abi::layout::USER_MAX;
use hanare_core::debugregs::{ADDRESSES, DebugRegisters, STATUS_HITS};
use hanare_core::ptrace::{
    FXSAVE, SETTABLE_FLAGS, USER_REGS, check_fxsave, check_xsave, enters_user_mode, index,
    set_word, stopped, user_offset,
};
use hanare_core::rseq::{Area, SIZE, Section, change};

use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "registers", check, size_max: 900, seeds };

const DEBUG: u8 = 0;
const GENERAL: u8 = 1;
const EXTENDED: u8 = 2;
const RSEQ: u8 = 3;

fn seeds() -> Vec<Vec<u8>> {
    let words = |kind: u8, words: &[u64]| {
        let mut seed = vec![kind];
        words.iter().for_each(|word| seed.extend_from_slice(&word.to_le_bytes()));
        seed
    };
    let mut state = vec![0; 1 + FXSAVE + 64 + 256];
    state[0] = EXTENDED;
    state[1 + 24..1 + 28].copy_from_slice(&0x1f80u32.to_le_bytes());
    state[1 + FXSAVE] = 7;
    vec![
        words(DEBUG, &[0, 0x1000, 7, 0x000d_0001, 1, 0x2004, 7, 0x00dd_0005, 6, 0x4001]),
        words(DEBUG, &[8 | 4 << 8 | 3 << 16, 0x1000, 9 | 8 << 8 | 1 << 16, 0x2000, 8, 0]),
        words(GENERAL, &[18, 0x246, 21, 0x7000, 17, 0x33, 23, 0x2b, 16, 0x40_1000]),
        state,
        words(RSEQ, &[0, 0x1000, 0x20, 0x2000, 0x1010]),
        words(RSEQ, &[0, 0x1000, 0x20, 0x1004, 0x1010]),
    ]
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    match input.byte() {
        DEBUG => debug(input),
        GENERAL => general(input),
        EXTENDED => extended(input.rest()),
        RSEQ => sections(input),
        _ => {}
    }
}

/// However a tracer sets them: the CPU looks for nothing that is not the program's.
fn debug(mut input: Input) {
    let mut registers = DebugRegisters::default();
    while !input.is_empty() {
        let (which, value) = (input.u64(), input.u64());
        let before = registers;
        let n = (which & 7) as usize;
        let done = match which & 8 {
            0 => registers.set(n, value),
            _ => registers.watch(n, value, which >> 8 & 0xff, which >> 16 & 7),
        };
        if done.is_err() {
            assert_eq!(registers, before, "an error changes nothing");
        }
        let (addresses, control) = registers.hardware();
        assert_eq!(control & !0xffff_0455, 0, "only local breakpoints: {control:#x}");
        assert_eq!(control & 0x55 != 0, registers.is_on());
        for (i, &address) in
            addresses.iter().enumerate().filter(|(i, _)| control >> (2 * i) & 1 != 0)
        {
            let (kind, len) =
                (control >> (16 + 4 * i) & 3, [1, 2, 8, 4][(control >> (18 + 4 * i) & 3) as usize]);
            assert!(kind != 2 && address.is_multiple_of(len) && address < 1 << 47);
            assert!(kind != 0 || len == 1);
        }
        let mut met = registers;
        let (hits, _) = met.met(value);
        assert!(
            hits & !STATUS_HITS == 0
                && (0..ADDRESSES).all(|i| hits >> i & 1 == 0 || control >> (2 * i) & 1 != 0)
        );
    }
}

/// No flag changes that is not the program's; selectors stay user mode's, and bases are its
/// addresses.
fn general(mut input: Input) {
    let mut regs = [0; USER_REGS];
    (regs[index::EFLAGS], regs[index::CS], regs[index::SS]) = (0x202, 0x33, 0x2b);
    while !input.is_empty() {
        let (which, value) = (input.u64(), input.u64());
        if let Ok(offset) = user_offset(which) {
            assert!(offset == which && which.is_multiple_of(8));
        }
        let before = regs;
        let which = (which % 40) as usize;
        let done = set_word(&mut regs, which, value);
        let others = (0..USER_REGS).filter(|&i| i != which || done.is_err());
        others.for_each(|i| assert_eq!(regs[i], before[i]));
        assert!(done.is_err() || which < USER_REGS);
        assert_eq!(regs[index::EFLAGS] & !SETTABLE_FLAGS, 0x202 & !SETTABLE_FLAGS);
        let (cs, ss) = (regs[index::CS], regs[index::SS]);
        assert!(cs & ss & 3 == 3 && (cs | ss) <= 0xffff, "selectors of user mode");
        assert_eq!(enters_user_mode(cs, ss), (cs, ss) == (0x33, 0x2b));
        assert!(regs[index::FS_BASE] < 1 << 47 && regs[index::GS_BASE] < 1 << 47);
        if let Some(stop) = stopped(value as u32) {
            assert!(stop.signal <= 0xff && value & 0xff == 0x7f);
        }
    }
}

fn extended(bytes: &[u8]) {
    const MASK: u64 = 0xe7;
    let mxcsr = bytes.get(24..28).map(|word| u32::from_le_bytes(word.try_into().expect("four")));
    assert_eq!(check_fxsave(bytes).is_ok(), mxcsr.is_some_and(|mxcsr| mxcsr < 1 << 16));
    if check_xsave(bytes, MASK).is_ok() {
        let header = &bytes[FXSAVE..FXSAVE + 64];
        // Without SSE and AVX Linux looks at no MXCSR.
        assert!(check_fxsave(bytes).is_ok() || header[0] & 6 == 0);
        assert_eq!(header[0] & !(MASK as u8), 0);
        assert!(header[1..].iter().all(|&byte| byte == 0));
    }
}

fn sections(mut input: Input) {
    let words: [u64; 4] = std::array::from_fn(|_| input.u64());
    let ip = input.u64();
    if let Ok(section) = Section::parse(words, USER_MAX) {
        assert!((4..USER_MAX).contains(&section.abort) && !section.contains(section.abort));
        assert!(!section.contains(ip) || ip < USER_MAX);
    }
    let mut area: Option<Area> = None;
    while !input.is_empty() {
        let (addr, flags, signature) =
            (input.u64(), u64::from(input.byte()), u32::from(input.byte()));
        let len = SIZE ^ flags >> 2;
        if let Ok(new) = change(area, addr, len, flags & 3, signature, USER_MAX) {
            assert_eq!(new.is_some(), area.is_none(), "registered once");
            if let Some(new) = new {
                assert!(new.addr == addr && addr.is_multiple_of(SIZE) && addr + SIZE <= USER_MAX);
            }
            area = new;
        }
    }
}
