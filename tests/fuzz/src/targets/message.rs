//! Calls as messages, which a caller or a proxy may have written: whatever lies there.

use hanare_core::marshal::{
    Decoded, PAYLOAD_BYTES, Packed, Page, Piece, Place, complete, decode, encode, finish, gather,
    ranges,
};
use hanare_core::syscalls::arguments::Argument;
use hanare_core::syscalls::{arguments, rows};
use hanare_core::usermemory::{CallerMemory, Fault, UserMemory};

use crate::input::Input;
use crate::memory::Memory;
use crate::target::Target;

pub const TARGET: Target = Target { name: "message", check, size_max: 700, seeds };

const PLACE: Place = Place { message: 0x7000_0000, own: 0x6000_0000, has_guard: true };
/// Bytes of the memory that lists go to.
const OWN: usize = 1 << 17;
/// Bytes of a buffer that a message is written to.
const BUFFER: usize = 1 << 14;
/// Bytes of an argument.
const WORD: usize = 8;

/// The caller's memory, which notes where it was written to.
struct Caller<'a> {
    memory: Memory<'a>,
    written: Vec<(u64, u64)>,
}

impl UserMemory for Caller<'_> {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(addr, to)
    }

    fn read_string<'b>(&self, addr: u64, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>, Fault> {
        self.memory.read_string(addr, buffer)
    }
}

impl CallerMemory for Caller<'_> {
    fn writable(&self, addr: u64, bytes: u64) -> u64 {
        let there =
            |at: &u64| addr.checked_add(*at).is_some_and(|at| self.memory.first(at).is_some());
        (0..bytes.min(1 << 13)).take_while(there).count() as u64
    }

    fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        self.written.push((addr, from.len() as u64));
        Ok(())
    }
}

/// Calls of each kind, whose memory refers to itself.
fn seeds() -> Vec<Vec<u8>> {
    let at = 0x1_0000u64;
    let memory: Vec<u8> = [at + 64, 9, at + 32, 2, at + 64, 16, 0, 3]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let seed = |number: u16| {
        let mut seed = vec![0, 0];
        seed.extend_from_slice(&number.to_le_bytes());
        for word in [3, at, 2, at + 16, at + 24, 2] {
            seed.extend_from_slice(&word.to_le_bytes());
        }
        seed.extend_from_slice(&5i64.to_le_bytes());
        seed.extend_from_slice(&memory);
        seed
    };
    (0..rows().len()).filter_map(|row| u16::try_from(row).ok()).step_by(3).map(seed).collect()
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let (flags, changes) = (input.byte(), usize::from(input.byte() % 8));
    let row = usize::from(input.u16()) % rows().len();
    let number = u32::from(rows()[row].number);
    let args: [u64; 6] = std::array::from_fn(|_| input.u64());
    let result = input.u64() as i64;
    if flags & 1 == 1 {
        return pages(&input, flags);
    }
    let change: Vec<(u16, u64)> = (0..changes).map(|_| (input.u16(), input.u64())).collect();
    let memory = Memory::new(input.rest(), flags & 2 != 0);
    let mut caller = Caller { memory, written: Vec::new() };
    let (mut buffer, mut pieces) = (vec![0; BUFFER], vec![Piece::NONE; 2048]);
    let encoded = encode(&caller, number, &args, &mut buffer[..], &mut pieces);
    let mut own = vec![0; OWN];
    if encoded.is_ok() {
        decode(&buffer[..], PLACE, &mut own).expect("what is sent is understood");
    }
    for (at, word) in change {
        let at = usize::from(at) % (BUFFER - WORD);
        buffer[at..at + WORD].copy_from_slice(&word.to_le_bytes());
    }
    execute(&mut buffer, &mut own, result);
    let Ok(encoded) = encoded else { return };
    let mut allowed = Vec::new();
    // Memory that changes says something else now.
    if flags & 2 == 0 {
        let note =
            |addr: u64, length: u64, direction: hanare_core::syscalls::arguments::Direction| {
                if direction.is_written() {
                    allowed.push((addr, addr.saturating_add(length)));
                }
                true
            };
        assert_eq!(ranges(&caller, number, &args, note), Ok(()));
    }
    complete(&buffer[..], &pieces[..encoded.pieces], &mut caller);
    for (addr, length) in caller.written {
        let is_allowed = allowed.iter().any(|&(from, to)| from <= addr && addr + length <= to);
        assert!(is_allowed || flags & 2 != 0, "{number} {args:x?}: {addr:x} {length}");
    }
}

/// Executes a message inside of itself, unless it is none.
fn execute(buffer: &mut [u8], own: &mut [u8], result: i64) {
    let Ok(call) = decode(buffer, PLACE, own) else { return };
    let size = buffer.len() as u64;
    let list = pointers_lead_inside(&call, size);
    if let Some(count) = list {
        let at = (call.args[1] - PLACE.own) as usize;
        for entry in own[at..at + count as usize * 16].chunks_exact(16) {
            let mut entry = Input::new(entry);
            let (base, length) = (entry.u64(), entry.u64());
            let end = base.saturating_add(length);
            let is_good = is_nowhere(base)
                || base >= PLACE.message && end <= PLACE.message + size
                // It goes on behind the end, where nothing is.
                || (PLACE.message..PLACE.message + size).contains(&base)
                    && u64::from(u32::from_le_bytes(buffer[12..16].try_into().unwrap())) == base - PLACE.message;
            assert!(is_good, "{base:x} {length}");
        }
    }
    finish(buffer, &call, own, result);
}

fn is_nowhere(pointer: u64) -> bool {
    [0, 0x1000, 0xffff_ffff_ffff_f000].contains(&pointer)
}

/// Says how many vectors the second argument leads to, if it does.
fn pointers_lead_inside(call: &Decoded, size: u64) -> Option<u64> {
    use Argument::*;
    assert!(call.written.to as u64 <= size);
    for (at, argument) in arguments(u64::from(call.number)).iter().enumerate() {
        let made = call.args[at];
        let is_good = match argument {
            Text | Input(_) | Output(_) | Records(_) | Buffer(_) | Struct(..) | Counted(..)
            | Many(..) | List(..) | Set(_) | Typed(..) | Address(_) | AddressOut(_) | Sized(_)
            | Vectors(..) | Message(_) | Messages(..) => {
                is_nowhere(made)
                    || (PLACE.message..=PLACE.message + size).contains(&made)
                    || (PLACE.own..=PLACE.own + OWN as u64).contains(&made)
            }
            _ => true,
        };
        assert!(is_good, "{call:x?}");
    }
    match arguments(u64::from(call.number)) {
        [_, Vectors(..), ..] if !is_nowhere(call.args[1]) && call.args[2] <= 1024 => {
            Some(call.args[2])
        }
        _ => None,
    }
}

/// Pages that any side may have written.
fn pages(input: &Input<'_>, flags: u8) {
    let mut input = input.clone();
    let mut pool: Vec<Page> = vec![[0; 4096]; 6];
    let mut chain = [0; 4];
    for (number, page) in (0u32..).zip(&mut pool) {
        let bytes = input.bytes(100);
        page[..bytes.len()].copy_from_slice(bytes);
        if flags & 4 != 0 {
            page[..4].copy_from_slice(b"HNPG");
            page[4..8].copy_from_slice(&(number + 1).to_le_bytes());
            page[8..12].copy_from_slice(&number.to_le_bytes());
        }
    }
    let mut to = vec![0; chain.len() * PAYLOAD_BYTES];
    if let Some(count) = gather(&pool, u32::from(flags >> 4), 0, &mut to, &mut chain) {
        assert!((1..=chain.len()).contains(&count));
        assert!(Packed::new(&mut pool, &chain[..count]).is_some());
        execute(&mut to[..count * PAYLOAD_BYTES], &mut vec![0; OWN], 1);
    }
}
