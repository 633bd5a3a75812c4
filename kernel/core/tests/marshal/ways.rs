//! The ways to make a call.

use crate::calls::Call;
use crate::memory::{Guarded, Region};
use hanare_core::marshal::{
    Buffer, Encoded, PAYLOAD_BYTES, Packed, Page, Piece, Place, Refusal, asks_for_guard, complete,
    decode, encode, finish, gather, page_head,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Native,
    Copied,
    Packed,
}

/// The memory of the side that executes calls, and of the caller's kernel.
pub struct Ways {
    buffer: Guarded,
    own: Guarded,
    pool: Vec<Page>,
    chain: Vec<u32>,
    pieces: Vec<Piece>,
    calls: u64,
    pub refused: u32,
}

/// Left in a buffer by the message before.
const STALE: u8 = 0x5c;

impl Ways {
    pub fn new() -> Self {
        let pages = 48u32;
        Self {
            buffer: Guarded::new(pages as usize),
            own: Guarded::new(64),
            pool: vec![[STALE; 4096]; pages as usize],
            // Neither in order, nor beside one another.
            chain: (0..pages).map(|index| (index * 7 + 5) % pages).collect(),
            pieces: vec![Piece::NONE; 4096],
            calls: 0,
            refused: 0,
        }
    }

    pub fn make(&mut self, way: Way, region: &Region, call: &Call) -> i64 {
        match way {
            Way::Native => native(call),
            Way::Copied => self.copied(region, call),
            Way::Packed => self.packed(region, call),
        }
    }

    /// The message of a call. `None`: the call cannot be sent for the one reason that is expected
    /// here, and is made natively.
    fn sent(&mut self, call: &Call, encoded: Result<Encoded, Refusal>) -> Option<Encoded> {
        match encoded {
            Ok(encoded) => Some(encoded),
            Err(Refusal::SeveralFaults) => {
                self.refused += 1;
                None
            }
            Err(why) => panic!("{call:x?}: {why:?}"),
        }
    }

    fn place(&self, message: u64) -> Place {
        Place { message, own: self.own.addr(), has_guard: true }
    }

    fn copied(&mut self, mut region: &Region, call: &Call) -> i64 {
        let place = self.place(self.buffer.addr());
        let number = u32::try_from(call.number).unwrap();
        let buffer = self.buffer.bytes();
        buffer.fill(STALE);
        let encoded = encode(&region, number, &call.args, buffer, &mut self.pieces);
        let Some(encoded) = self.sent(call, encoded) else { return native(call) };
        let buffer = self.buffer.bytes();
        let decoded = decode(buffer, place, self.own.bytes());
        let decoded = decoded.unwrap_or_else(|why| panic!("{call:x?}: {why:?}"));
        assert_eq!(i64::from(decoded.number), call.number);
        let result = execute(call.number, &decoded.args);
        let buffer = self.buffer.bytes();
        finish(buffer, &decoded, self.own.bytes(), result);
        complete(buffer, &self.pieces[..encoded.pieces], &mut region)
    }

    fn packed(&mut self, mut region: &Region, call: &Call) -> i64 {
        self.calls += 1;
        let number = u32::try_from(call.number).unwrap();
        let mut packed = Packed::new(&mut self.pool, &self.chain).unwrap();
        let encoded = encode(&region, number, &call.args, &mut packed, &mut self.pieces);
        let Some(encoded) = self.sent(call, encoded) else { return native(call) };
        let mut packed = Packed::new(&mut self.pool, &self.chain).unwrap();
        packed.seal(self.calls, encoded.size);

        // The other side.
        let first = self.chain[0];
        let pages = page_head(&self.pool, first).unwrap().count as usize;
        let size = pages * PAYLOAD_BYTES;
        let arena = self.buffer.bytes();
        arena.fill(STALE);
        let start = if asks_for_guard(&self.pool, first) { arena.len() - size } else { 0 };
        let place = Place { has_guard: start > 0, ..self.place(self.buffer.addr() + start as u64) };
        let arena = &mut self.buffer.bytes()[start..start + size];
        let mut chain = vec![0; pages];
        let found = gather(&self.pool, first, self.calls, arena, &mut chain);
        assert_eq!(found, Some(pages));
        let decoded = decode(arena, place, self.own.bytes());
        let decoded = decoded.unwrap_or_else(|why| panic!("{call:x?}: {why:?}"));
        let result = execute(call.number, &decoded.args);
        let arena = &self.buffer.bytes()[start..start + size];
        let mut packed = Packed::new(&mut self.pool, &chain).unwrap();
        packed.write(decoded.written.from, &arena[decoded.written.from..decoded.written.to]);
        finish(&mut packed, &decoded, self.own.bytes(), result);

        let packed = Packed::new(&mut self.pool, &self.chain).unwrap();
        complete(&packed, &self.pieces[..encoded.pieces], &mut region)
    }
}

fn native(call: &Call) -> i64 {
    execute(call.number, &call.args)
}

/// The system call itself.
fn execute(number: i64, args: &[u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = *args;
    // SAFETY: the calls of the tests write to memory of the tests only, wherever their pointers
    // lead.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 {
        -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        result
    }
}
