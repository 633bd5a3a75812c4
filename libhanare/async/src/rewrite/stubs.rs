//! Stubs, and the jumps that lead to them.
//!
//! ```text
//!           what stood before the call
//!           lea   rcx, plain
//!           jmp   [ask]            comes back at watched, plain or done
//! watched:  syscall
//!           lea   rcx, done
//!           jmp   [tell]           comes back at done
//! plain:    syscall
//! done:     what stood after the call
//!           jmp   back
//! ```
//!
//! `rcx` and `r11` are free, because `syscall` overwrites them. Between the decision and the call
//! nothing is on the stack: the call may be one after which there is another stack, or two users of
//! it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::Failure;
use super::plan::{JUMP_BYTES, Patch};
use super::survey::SYSCALL;
use crate::sys::PAGE_BYTES;
use crate::sys::code::{self, Area, Jump};
use crate::sys::objects::Text;

/// Bytes of the two addresses at the beginning of an object's stubs: see [`lead_to`].
const ADDRESSES_BYTES: usize = 16;
/// A stub without what was moved to it.
const STUB_BYTES: usize = (ASK_BYTES + WATCHED_BYTES + DONE_BYTES + JUMP_BYTES) as usize;
/// `lea rcx, [address]; jmp [cell]`.
const ASK_BYTES: u64 = 13;
const REACH_BYTES: u64 = 1 << 30;
/// From a stub's watched call to its plain one.
pub const WATCHED_BYTES: u64 = 15;
/// From a stub's plain call to what comes after.
pub const DONE_BYTES: u64 = 2;

/// Where stubs go before a call, and after one that is watched.
static ENTRIES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Stubs go there from now on: `ask` before a call, `tell` after one that is watched.
pub fn lead_to(ask: extern "C" fn(), tell: extern "C" fn()) {
    for (entry, function) in ENTRIES.iter().zip([ask, tell]) {
        entry.store(function as *const () as u64, Ordering::Relaxed);
    }
}

/// Writes the stubs of an object and leads its calls to them.
pub fn install(text: &Text, patches: &[Patch]) -> Result<(), Failure> {
    let size = patches
        .iter()
        .map(|patch| STUB_BYTES + patch.before.len() + patch.after.len())
        .sum::<usize>()
        + ADDRESSES_BYTES;
    let area = near(text, size as u64).ok_or(Failure::NoMemory)?;
    let mut writer = Writer { area: area.start, bytes: Vec::with_capacity(size) };
    for entry in &ENTRIES {
        writer.bytes.extend(entry.load(Ordering::Relaxed).to_le_bytes());
    }
    let jumps: Vec<_> = patches.iter().map(|patch| jump(patch, writer.stub(patch))).collect();
    area.write(&writer.bytes).map_err(|_| Failure::Protected)?;
    code::replace(text, &jumps).map_err(|_| Failure::Protected)
}

/// Memory within reach of long jumps from the whole text.
fn near(text: &Text, size: u64) -> Option<Area> {
    let size = size.next_multiple_of(PAGE_BYTES);
    let first = text.end.next_multiple_of(PAGE_BYTES);
    // Behind the object, then before it: in steps that grow, so that neither end takes long.
    let mut distance = PAGE_BYTES;
    while distance < REACH_BYTES {
        let places =
            [first + distance, (text.start & !(PAGE_BYTES - 1)).saturating_sub(distance + size)];
        for place in places.into_iter().filter(|place| *place >= 1 << 20) {
            if let Some(area) = Area::at(place, size) {
                return Some(area);
            }
        }
        distance += (distance / 2).next_multiple_of(PAGE_BYTES);
    }
    None
}

/// The jumps from a patch to its stub.
fn jump(patch: &Patch, stub: u64) -> Jump {
    let from = patch.gap.unwrap_or(patch.start);
    let mut long = [0; JUMP_BYTES as usize];
    long[0] = 0xe9;
    long[1..].copy_from_slice(&displacement(from + JUMP_BYTES, stub));
    let short = patch.gap.map(|gap| (patch.start, [0xeb, gap.wrapping_sub(patch.end) as u8]));
    Jump { long: (from, long), short }
}

fn displacement(from: u64, to: u64) -> [u8; 4] {
    (to.wrapping_sub(from) as i32).to_le_bytes()
}

struct Writer {
    area: u64,
    bytes: Vec<u8>,
}

impl Writer {
    fn here(&self) -> u64 {
        self.area + self.bytes.len() as u64
    }

    fn stub(&mut self, patch: &Patch) -> u64 {
        let start = self.here();
        self.bytes.extend(&patch.before);
        let plain = self.here() + ASK_BYTES + WATCHED_BYTES;
        self.load_and_jump(plain, self.area);
        self.bytes.extend(SYSCALL);
        self.load_and_jump(plain + DONE_BYTES, self.area + 8);
        self.bytes.extend(SYSCALL);
        self.bytes.extend(&patch.after);
        self.bytes.push(0xe9);
        let from = self.here() + 4;
        self.bytes.extend(displacement(from, patch.back));
        start
    }

    /// `lea rcx, [address]; jmp [cell]`.
    fn load_and_jump(&mut self, address: u64, cell: u64) {
        self.bytes.extend([0x48, 0x8d, 0x0d]);
        let from = self.here() + 4;
        self.bytes.extend(displacement(from, address));
        self.bytes.extend([0xff, 0x25]);
        let from = self.here() + 4;
        self.bytes.extend(displacement(from, cell));
    }
}
