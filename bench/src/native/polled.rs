//! Both sides poll: a bare cache line, and the words that Linux and the LWK share.

use std::array;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

use hanare_abi::boot::RING_ENTRIES;
use hanare_ikc::{
    Answer, BoxRef, BoxWords, EntryPair, Interrupted, Kind, REAL, Ring, Serving, SlotRef,
    SlotWords, ToLinux, ToLwk, serve,
};

use super::pair::Exchange;

/// Looks between two pauses, as the worker and the LWK have it.
const LOOKS_PER_PAUSE: u32 = 32;

/// Looks until there is something.
#[inline(always)]
pub fn poll<T>(mut look: impl FnMut() -> Option<T>) -> T {
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

/// The limit of what has a direction, as a ring whose lines only one side writes: each side stores
/// to a word of its own, which the other one waits for. The processor can hand a line that both
/// sides write over with the read of the other's store; here it invalidates a copy, too, before
/// each store.
pub struct Lines([Line; 2]);

impl Lines {
    pub const fn new() -> Self {
        Self([Line::new(), Line::new()])
    }
}

impl Exchange for Lines {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        let [there, back] = &self.0;
        for number in 1..=count {
            there.0.store(number, Ordering::Release);
            poll(|| (back.0.load(Ordering::Acquire) == number).then_some(()));
        }
    }

    fn answer(&self, count: u32) {
        let [there, back] = &self.0;
        for number in 1..=count {
            poll(|| (there.0.load(Ordering::Acquire) == number).then_some(()));
            back.0.store(number, Ordering::Release);
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

/// Such a call by a request box, with one server that never sleeps.
pub struct Box {
    calls: BoxWords,
    slot: SlotWords,
}

impl Box {
    pub fn new() -> Self {
        Self { calls: BoxWords::new(), slot: SlotWords::new() }
    }
}

impl Exchange for Box {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        let (calls, slot) = (BoxRef::<REAL>::new(&self.calls), SlotRef::<REAL>::new(&self.slot));
        for number in 0..count {
            slot.lwk_box(number, [number.into(); 6]);
            let _nobody_sleeps = calls.put(0, 1);
            poll(|| slot.lwk_poll());
        }
    }

    fn answer(&self, count: u32) {
        let (calls, slot) = (BoxRef::<REAL>::new(&self.calls), SlotRef::<REAL>::new(&self.slot));
        let (serving, interrupted) = (Serving::<REAL>::new(), Interrupted::<REAL>::new());
        for _ in 0..count {
            poll(|| serve(calls, 0, &serving, &interrupted, |_| slot));
            let argument = slot.worker_takes(Kind::Call).args[0];
            serving.end();
            let _awake = slot.worker_complete(Answer::Done(argument.cast_signed()));
        }
    }
}

/// Counters that one side writes of two rings, on a line of their own: as producer of one ring, and
/// as consumer of the other.
#[repr(align(64))]
struct Counters {
    tail: AtomicU32,
    seen: AtomicU32,
    head: AtomicU32,
}

impl Counters {
    const fn new() -> Self {
        Self { tail: AtomicU32::new(0), seen: AtomicU32::new(0), head: AtomicU32::new(0) }
    }
}

/// A line and more, aligned as in the mailbox.
#[repr(align(64))]
struct Aligned<T>(T);

/// The two rings of a CPU's mailbox. An element moves the line of its entry, which the answer
/// shares.
pub struct Rings {
    linux: Counters,
    lwk: Counters,
    entries: Aligned<[EntryPair; RING_ENTRIES]>,
}

impl Rings {
    pub fn new() -> Self {
        let entries = Aligned(array::from_fn(|_| EntryPair::new()));
        Self { linux: Counters::new(), lwk: Counters::new(), entries }
    }

    const fn to_lwk(&self) -> Ring<'_, ToLwk> {
        let Counters { tail, seen, .. } = &self.linux;
        Ring::new(&self.lwk.head, tail, seen, &self.entries.0)
    }

    const fn to_linux(&self) -> Ring<'_, ToLinux> {
        let Counters { tail, seen, .. } = &self.lwk;
        Ring::new(&self.linux.head, tail, seen, &self.entries.0)
    }
}

impl Exchange for Rings {
    const BATCH: u32 = 1000;

    fn ask(&self, count: u32) {
        let (there, back) = (self.to_lwk(), self.to_linux());
        for number in 0..count {
            poll(|| there.push(number).ok());
            poll(|| back.pop());
        }
    }

    fn answer(&self, count: u32) {
        let (there, back) = (self.to_lwk(), self.to_linux());
        for _ in 0..count {
            let value = poll(|| there.pop());
            poll(|| back.push(value.into()).ok());
        }
    }
}
