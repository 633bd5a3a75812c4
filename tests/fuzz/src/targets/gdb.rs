//! Registers as GDB writes them, and its signals.

#[path = "../../../../tools/cli/src/gdb/registers.rs"]
#[allow(dead_code)]
mod registers;
#[path = "../../../../tools/cli/src/gdb/signals.rs"]
mod signals;

use gdbstub::arch::Registers;
use gdbstub::common::Signal;
use registers::{FPU_WORDS, State, WORDS};

use crate::input::Input;
use crate::target::Target;

pub const TARGET: Target = Target { name: "gdb", check, size_max: 1400, seeds };

/// Bytes of all registers.
const SIZE: usize = 17 * 8 + 7 * 4 + 80 + 32 + 256 + 4 + 24;

fn seeds() -> Vec<Vec<u8>> {
    let counting: Vec<u8> = (0..1289u32).map(|i| i as u8).collect();
    vec![vec![0; 1289], vec![0xff; 1289], counting, vec![9; 40]]
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let signal = input.byte();
    let linux = signals::from_gdb(Signal(signal));
    assert!(linux <= 64 && (linux == 0 || signals::to_gdb(linux) == Signal(signal)));
    let before = State {
        general: std::array::from_fn::<u64, WORDS, _>(|_| input.u64()),
        fpu: std::array::from_fn::<u64, FPU_WORDS, _>(|_| input.u64()),
    };
    assert_eq!(written(&before).len(), SIZE);

    let bytes = input.rest();
    let mut state = before.clone();
    if state.gdb_deserialize(bytes).is_err() {
        return assert!(bytes.len() < SIZE);
    }
    assert!(bytes.len() >= SIZE);
    // What GDB writes it reads, and nothing else has changed: written once more, it stays.
    let mut again = before;
    again.gdb_deserialize(&written(&state)).expect("as many as there are");
    assert_eq!(again, state);
    let (read, general) = (written(&state), 17 * 8 + 7 * 4 + 80);
    assert_eq!(read[..general], bytes[..general]);
    assert_eq!(read[general + 32..], bytes[general + 32..SIZE]);
    assert_eq!(state.pc().to_le_bytes(), bytes[16 * 8..17 * 8]);
}

fn written(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.gdb_serialize(|byte| bytes.extend(byte));
    bytes
}
