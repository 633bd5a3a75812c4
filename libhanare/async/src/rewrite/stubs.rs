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
//! `rcx` and `r11` are free, because `syscall` overwrites them. Between the decision and the call nothing is on the
//! stack: the call may be one after which there is another stack, or two users of it.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::Failure;
use super::objects::Text;
use super::plan::{JUMP_BYTES, Patch};
use super::survey::SYSCALL;
use crate::sys::{self, PAGE_BYTES};

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
    let mut writer = Writer { area, bytes: Vec::with_capacity(size) };
    for entry in &ENTRIES {
        writer.bytes.extend(entry.load(Ordering::Relaxed).to_le_bytes());
    }
    let stubs: Vec<_> = patches.iter().map(|patch| writer.stub(patch)).collect();
    // SAFETY: The area is ours, writable, and large enough.
    unsafe { ptr::copy_nonoverlapping(writer.bytes.as_ptr(), area as *mut u8, writer.bytes.len()) };
    sys::protect(area, size as u64, libc::PROT_READ | libc::PROT_EXEC)
        .map_err(|_| Failure::Protected)?;
    let (start, end) = (text.start & !(PAGE_BYTES - 1), text.end.next_multiple_of(PAGE_BYTES));
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    sys::protect(start, end - start, all).map_err(|_| Failure::Protected)?;
    for (patch, stub) in patches.iter().zip(stubs) {
        // SAFETY: The survey and the plan say that nothing but the instructions named by the patch stands there, and that
        // nobody enters them but at their first byte; the text is writable.
        unsafe { lead(patch, stub) };
    }
    sys::protect(start, end - start, libc::PROT_READ | libc::PROT_EXEC)
        .map_err(|_| Failure::Protected)
}

/// Memory within reach of long jumps from the whole text.
fn near(text: &Text, size: u64) -> Option<u64> {
    let size = size.next_multiple_of(PAGE_BYTES);
    let first = text.end.next_multiple_of(PAGE_BYTES);
    // Behind the object, then before it: in steps that grow, so that neither end takes long.
    let mut distance = PAGE_BYTES;
    while distance < REACH_BYTES {
        let places =
            [first + distance, (text.start & !(PAGE_BYTES - 1)).saturating_sub(distance + size)];
        for place in places.into_iter().filter(|place| *place >= 1 << 20) {
            if sys::map_at(place, size) {
                return Some(place);
            }
        }
        distance += (distance / 2).next_multiple_of(PAGE_BYTES);
    }
    None
}

/// # Safety
///
/// The bytes of the patch and of its gap are writable, and nobody executes them while they change, or only at their first
/// byte.
unsafe fn lead(patch: &Patch, stub: u64) {
    let from = patch.gap.unwrap_or(patch.start);
    let mut jump = [0; JUMP_BYTES as usize];
    jump[0] = 0xe9;
    jump[1..].copy_from_slice(&displacement(from + JUMP_BYTES, stub));
    // SAFETY: The caller's.
    unsafe { ptr::copy_nonoverlapping(jump.as_ptr(), from as *mut u8, jump.len()) };
    if let Some(gap) = patch.gap {
        let distance = gap.wrapping_sub(patch.end) as u8;
        // SAFETY: The caller's. Two bytes in one store, after what they lead to.
        unsafe { ptr::write_unaligned(patch.start as *mut [u8; 2], [0xeb, distance]) };
    }
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
