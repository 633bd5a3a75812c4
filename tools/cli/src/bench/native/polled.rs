//! Both sides poll: a bare cache line, and the words that Linux and the LWK share.

use std::array;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hanare_ikc::{Answer, Ring, SlotRef, SlotWords};

use super::pair::Exchange;

/// Looks between two pauses, as the worker and the LWK have it.
const LOOKS_PER_PAUSE: u32 = 32;

/// Looks until there is something.
#[inline(always)]
fn poll<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        for _ in 0..LOOKS_PER_PAUSE {
            if let Some(found) = look() {
                return found;
            }
        }
        spin_loop();
    }
}

/// The limit: each side waits for the other's store to one word and stores its own.
#[repr(align(256))]
pub struct Line(AtomicU32);

impl Line {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Exchange for Line {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        for _ in 0..count {
            self.0.store(1, Ordering::Release);
            poll(|| (self.0.load(Ordering::Acquire) == 0).then_some(()));
        }
    }

    fn answer(&self, count: u32) {
        for _ in 0..count {
            poll(|| (self.0.load(Ordering::Acquire) == 1).then_some(()));
            self.0.store(0, Ordering::Release);
        }
    }
}

/// A delegated call as the LWK and its worker make it, without the call itself.
pub struct Slot(SlotWords);

impl Slot {
    pub const fn new() -> Self {
        Self(SlotWords::new())
    }
}

impl Exchange for Slot {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        let slot: SlotRef = SlotRef::new(&self.0);
        for number in 0..count {
            let _awake = slot.lwk_post(number, [number.into(); 6]);
            poll(|| slot.lwk_poll());
        }
    }

    fn answer(&self, count: u32) {
        let slot: SlotRef = SlotRef::new(&self.0);
        for _ in 0..count {
            let asked = slot.worker_takes(poll(|| slot.worker_poll()));
            let _awake = slot.worker_complete(Answer::Done(asked.args[0].cast_signed()));
        }
    }
}

/// A line of its own.
#[repr(align(64))]
struct Aligned<T>(T);

/// Entries of a ring of the mailbox for Linux.
const ENTRIES: usize = 64;

/// A ring laid out as in a CPU's mailbox: head, tail and entries in lines of their own.
///
/// An element moves three lines where the ping-pong moves one: the tail, then the entry, and the head, which the
/// producer reads at every push although the ring is not full.
struct Words {
    tail: Aligned<AtomicU32>,
    head: Aligned<AtomicU32>,
    entries: Aligned<[AtomicU64; ENTRIES]>,
}

impl Words {
    fn new() -> Self {
        Self {
            tail: Aligned(AtomicU32::new(0)),
            head: Aligned(AtomicU32::new(0)),
            entries: Aligned(array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    const fn ring(&self) -> Ring<'_, AtomicU64> {
        Ring::new(&self.head.0, &self.tail.0, &self.entries.0)
    }
}

/// Two rings of a CPU's mailbox.
pub struct Rings {
    there: Words,
    back: Words,
}

impl Rings {
    pub fn new() -> Self {
        Self { there: Words::new(), back: Words::new() }
    }
}

impl Exchange for Rings {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        let (there, back) = (self.there.ring(), self.back.ring());
        for number in 0..count {
            poll(|| there.push(number.into()).ok());
            poll(|| back.pop());
        }
    }

    fn answer(&self, count: u32) {
        let (there, back) = (self.there.ring(), self.back.ring());
        for _ in 0..count {
            let value = poll(|| there.pop());
            poll(|| back.push(value).ok());
        }
    }
}
