//! The module's half of the protocol, as `module/protocol.h` has it, for the tests of `hanare-ikc`.
//!
//! The header is compiled as it is. Its atomics call back into this crate, which makes each access
//! one of Rust's atomics, or of loom's: so loom tries the interleavings and the stale values of the
//! C code, too.

use core::ffi::c_int;
use std::cell::Cell;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Mutants of the atomics, by the numbers that `hanare-ikc` has for them: fences do nothing;
/// nothing is released; an exchange is two steps.
const NO_FENCE: u8 = 1;
const NO_RELEASE: u8 = 2;
const NO_EXCHANGE: u8 = 3;

thread_local! {
    /// Mutant of the step that runs. Loom's threads are all on one thread, and have all the same.
    static MUTANT: Cell<u8> = const { Cell::new(0) };
}

fn is_mutant(mutant: u8) -> bool {
    MUTANT.get() == mutant
}

// ---- what the C code calls, see atomics.h ----

const ORDERED: c_int = 1;
const FENCE_FULL: c_int = 0;
const FENCE_READ: c_int = 1;

fn order(order: c_int, ordered: Ordering) -> Ordering {
    if order == ORDERED && !is_mutant(NO_RELEASE) { ordered } else { Ordering::Relaxed }
}

fn exchanges() -> Ordering {
    if is_mutant(NO_RELEASE) { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// Steps get references to words, and hand on nothing else.
macro_rules! word {
    ($word:ident: $atomic:ty) => {
        // SAFETY: each pointer was made of a reference, by `Module` below, which outlives the step;
        // or it is to another entry of a ring, within the slice that the step was given.
        unsafe { &*$word.cast::<$atomic>() }
    };
}

/// A word that C names only by its address.
type Address = *const u8;

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_load32(word: Address, how: c_int) -> u32 {
    word!(word: AtomicU32).load(order(how, Ordering::Acquire))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_load64(word: Address, how: c_int) -> u64 {
    word!(word: AtomicU64).load(order(how, Ordering::Acquire))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_store32(word: Address, value: u32, how: c_int) {
    word!(word: AtomicU32).store(value, order(how, Ordering::Release));
}

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_store64(word: Address, value: u64, how: c_int) {
    word!(word: AtomicU64).store(value, order(how, Ordering::Release));
}

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_cmpxchg64(word: Address, old: &mut u64, value: u64) -> bool {
    let word = word!(word: AtomicU64);
    if is_mutant(NO_EXCHANGE) {
        let found = word.load(Ordering::Acquire);
        let is_old = core::mem::replace(old, found) == found;
        if is_old {
            word.store(value, Ordering::Release);
        }
        return is_old;
    }
    let found = word.compare_exchange(*old, value, exchanges(), Ordering::Relaxed);
    found.map_err(|found| *old = found).is_ok()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_or64(word: Address, bits: u64) {
    word!(word: AtomicU64).fetch_or(bits, exchanges());
}

#[unsafe(no_mangle)]
extern "C-unwind" fn hanare_test_fence(which: c_int) {
    if !is_mutant(NO_FENCE) {
        fence(match which {
            FENCE_FULL => Ordering::SeqCst,
            FENCE_READ => Ordering::Acquire,
            _ => Ordering::Release,
        });
    }
}

// ---- what the C code has, see steps.c ----

unsafe extern "C-unwind" {
    fn hanare_c_must_ring(wait: Address) -> bool;
    fn hanare_c_inbound_push(
        tail: &mut u32,
        seen: &mut u32,
        head: Address,
        first: Address,
        stride: u32,
        count: u32,
        value: u32,
    ) -> bool;
    fn hanare_c_outbound_look(
        head: u32,
        first: Address,
        stride: u32,
        count: u32,
        event: &mut u64,
    ) -> bool;
    fn hanare_c_outbound_release(head: Address, value: u32);
    fn hanare_c_bell_take(bell: Address, space: u32) -> c_int;
    fn hanare_c_bell_set(word: Address, rung: Address, bit: u32);
    fn hanare_c_has_rung(rang: Address, seen: &mut u32) -> bool;
    fn hanare_c_doorbell_move(target: Address, to: u64);
    fn hanare_c_grant_over(state: Address);
    fn hanare_c_uses(begun: Address, ended: Address) -> u32;
    fn hanare_c_request_publish(state: Address);
    fn hanare_c_request_is_done(state: Address) -> bool;
    fn hanare_c_request_sleep(waiter: Address);
    fn hanare_c_request_abandon(waiter: Address, state: Address) -> bool;
    fn hanare_c_service_claim(word: Address, space: u32, ready: u32) -> bool;
    fn hanare_c_service_finish(word: Address, space: u32);
    fn hanare_c_clock_begin(sequence: Address);
    fn hanare_c_clock_end(sequence: Address);
    fn hanare_c_offer_begin(word: Address, owner: Address, space: u32, sequence: &mut u32) -> bool;
    fn hanare_c_offer_index(start: u64, count: u32, addr: u64) -> u64;
    fn hanare_c_offer_end(word: Address, sequence: u32) -> bool;
    #[cfg(not(loom))]
    fn hanare_c_log_copy(
        head: Address,
        text: Address,
        size: u32,
        position: &mut u64,
        to: *mut u8,
        room: u32,
    ) -> u32;
}

/// Calls a step, which accesses the words behind the references that it is given, and nothing else.
macro_rules! step {
    ($self:ident.$step:ident($($argument:expr),*)) => {{
        MUTANT.set($self.mutant);
        // SAFETY: the words outlive the call, and are accessed by the atomics above.
        unsafe { $step($($argument),*) }
    }};
}

fn at<T>(word: &T) -> Address {
    core::ptr::from_ref(word).cast()
}

/// Entries of a ring: which word of each is the ring's.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a, E, W> {
    entries: &'a [E],
    word: fn(&E) -> &W,
}

impl<'a, E, W> Entries<'a, E, W> {
    /// The words `word` of `entries`, of which there is a power of two.
    ///
    /// # Panics
    /// If there is not.
    #[must_use]
    pub fn new(entries: &'a [E], word: fn(&E) -> &W) -> Self {
        assert!(entries.len().is_power_of_two());
        Self { entries, word }
    }

    fn first(&self) -> Address {
        let offset = at((self.word)(&self.entries[0])) as usize - at(&self.entries[0]) as usize;
        self.entries.as_ptr().cast::<u8>().wrapping_add(offset)
    }
}

/// The module, with a mutant of its atomics, or 0.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    mutant: u8,
}

impl Module {
    /// The module with this mutant.
    #[must_use]
    pub const fn new(mutant: u8) -> Self {
        Self { mutant }
    }

    /// `hanare_must_ring`.
    #[must_use]
    pub fn must_ring(self, wait: &AtomicU32) -> bool {
        step!(self.hanare_c_must_ring(at(wait)))
    }

    /// `hanare_inbound_push`. The module's own counters lie elsewhere than in the module, and only
    /// one thread accesses them.
    #[must_use]
    pub fn inbound_push<E>(
        self,
        [head, tail, seen]: [&AtomicU32; 3],
        ring: Entries<'_, E, AtomicU32>,
        value: u32,
    ) -> bool {
        let (mut now, mut known) = (tail.load(Ordering::Relaxed), seen.load(Ordering::Relaxed));
        let (count, stride) = (ring.entries.len() as u32, size_of::<E>() as u32);
        let first = ring.first();
        let is_done = step!(self.hanare_c_inbound_push(
            &mut now,
            &mut known,
            at(head),
            first,
            stride,
            count,
            value
        ));
        tail.store(now, Ordering::Relaxed);
        seen.store(known, Ordering::Relaxed);
        is_done
    }

    /// `hanare_outbound_look`: the event, if there is one at `head`.
    #[must_use]
    pub fn outbound_look<E>(self, head: u32, ring: Entries<'_, E, AtomicU64>) -> Option<u64> {
        let (count, stride) = (ring.entries.len() as u32, size_of::<E>() as u32);
        let (first, mut event) = (ring.first(), 0);
        step!(self.hanare_c_outbound_look(head, first, stride, count, &mut event)).then_some(event)
    }

    /// `hanare_outbound_release`.
    pub fn outbound_release(self, head: &AtomicU32, value: u32) {
        step!(self.hanare_c_outbound_release(at(head), value));
    }

    /// `hanare_bell_take`.
    #[must_use]
    pub fn bell_take(self, bell: &AtomicU64, space: u32) -> Option<u32> {
        u32::try_from(step!(self.hanare_c_bell_take(at(bell), space))).ok()
    }

    /// `hanare_bell_set`.
    pub fn bell_set(self, word: &AtomicU64, rung: &AtomicU64, bit: u32) {
        step!(self.hanare_c_bell_set(at(word), at(rung), bit));
    }

    /// `hanare_has_rung`.
    #[must_use]
    pub fn has_rung(self, rang: &AtomicU32, seen: &mut u32) -> bool {
        step!(self.hanare_c_has_rung(at(rang), seen))
    }

    /// `hanare_doorbell_move`.
    pub fn doorbell_move(self, target: &AtomicU64, to: u64) {
        step!(self.hanare_c_doorbell_move(at(target), to));
    }

    /// `hanare_grant_over`.
    pub fn grant_over(self, state: &AtomicU32) {
        step!(self.hanare_c_grant_over(at(state)));
    }

    /// `hanare_uses`.
    #[must_use]
    pub fn uses(self, begun: &AtomicU32, ended: &AtomicU32) -> u32 {
        step!(self.hanare_c_uses(at(begun), at(ended)))
    }

    /// `hanare_request_publish`.
    pub fn request_publish(self, state: &AtomicU32) {
        step!(self.hanare_c_request_publish(at(state)));
    }

    /// `hanare_request_is_done`.
    #[must_use]
    pub fn request_is_done(self, state: &AtomicU32) -> bool {
        step!(self.hanare_c_request_is_done(at(state)))
    }

    /// `hanare_request_sleep`.
    pub fn request_sleep(self, waiter: &AtomicU32) {
        step!(self.hanare_c_request_sleep(at(waiter)));
    }

    /// `hanare_request_abandon`.
    #[must_use]
    pub fn request_abandon(self, waiter: &AtomicU32, state: &AtomicU32) -> bool {
        step!(self.hanare_c_request_abandon(at(waiter), at(state)))
    }

    /// `hanare_service_claim`.
    #[must_use]
    pub fn service_claim(self, word: &AtomicU64, space: u32, ready: u32) -> bool {
        step!(self.hanare_c_service_claim(at(word), space, ready))
    }

    /// `hanare_service_finish`.
    pub fn service_finish(self, word: &AtomicU64, space: u32) {
        step!(self.hanare_c_service_finish(at(word), space));
    }

    /// `hanare_clock_begin`.
    pub fn clock_begin(self, sequence: &AtomicU32) {
        step!(self.hanare_c_clock_begin(at(sequence)));
    }

    /// `hanare_clock_end`.
    pub fn clock_end(self, sequence: &AtomicU32) {
        step!(self.hanare_c_clock_end(at(sequence)));
    }

    /// `hanare_offer_begin`: the sequence.
    #[must_use]
    pub fn offer_begin(self, word: &AtomicU32, owner: &AtomicU32, space: u32) -> Option<u32> {
        let mut sequence = 0;
        step!(self.hanare_c_offer_begin(at(word), at(owner), space, &mut sequence))
            .then_some(sequence)
    }

    /// `hanare_offer_index`.
    #[must_use]
    pub fn offer_index(self, start: u64, count: u32, addr: u64) -> u64 {
        step!(self.hanare_c_offer_index(start, count, addr))
    }

    /// `hanare_offer_end`.
    #[must_use]
    pub fn offer_end(self, word: &AtomicU32, sequence: u32) -> bool {
        step!(self.hanare_c_offer_end(at(word), sequence))
    }

    /// `hanare_log_begin`, a copy, `hanare_log_end`: how many bytes of `to` were copied. No side
    /// writes the text meanwhile.
    #[cfg(not(loom))]
    #[must_use]
    pub fn log_copy(
        self,
        head: &AtomicU64,
        text: &[u8],
        position: &mut u64,
        to: &mut [u8],
    ) -> usize {
        let (size, room) = (text.len() as u32, to.len() as u32);
        let text = text.as_ptr();
        step!(self.hanare_c_log_copy(at(head), text, size, position, to.as_mut_ptr(), room))
            as usize
    }
}
