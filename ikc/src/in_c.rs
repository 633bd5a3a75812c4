//! The module's half in C beside the one in Rust: the same properties of both, and a walk through
//! all short sequences of steps of both sides, after each of which the two have left the same
//! words.

use proptest::prelude::*;
use std::array::from_fn;
use std::boxed::Box;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::vec;
use std::vec::Vec;

use hanare_abi::frame::GivenPage;
use hanare_abi::log::LOG_TEXT_OFFSET;
use hanare_abi::service::{SERVICE_READY, SERVICE_READY_FAULT};
use hanare_ikc_c::Module;

use crate::bell::{BellRef, BellWord};
use crate::clock::ClockWords;
use crate::doorbell::{DoorbellRef, DoorbellWords};
use crate::log::LogWriter;
use crate::mailbox::Bells;
use crate::offer::{OfferRef, OfferWords};
use crate::request::{RequestCall, RequestRef, RequestWords};
use crate::ring::{EntryPair, Full, Ring, ToLinux, ToLwk};
use crate::service::{ServiceCall, ServiceRef, ServiceWords};
use crate::sync::{AtomicU32, AtomicU64, IN_C, Ordering, REAL};

/// A step of either side, by its number; what it gives.
type Step<W> = fn(&W, usize) -> u64;

/// Every sequence of `length` of the `steps`, of which there are so many: `rust` and `c` make it in
/// words of their own.
fn walk<W>(length: u32, steps: usize, new: impl Fn() -> Box<W>, rust: Step<W>, c: Step<W>) {
    for sequence in 0..steps.pow(length) {
        let (in_rust, in_c) = (new(), new());
        let mut made = Vec::new();
        let mut left = sequence;
        for _ in 0..length {
            let step = left % steps;
            left /= steps;
            made.push(step);
            let found = (rust(&in_rust, step), c(&in_c, step));
            assert_eq!(found.0, found.1, "steps {made:?} give different results");
            assert!(bytes(&*in_rust) == bytes(&*in_c), "steps {made:?} leave different words");
        }
    }
}

fn bytes<W>(words: &W) -> &[u8] {
    // SAFETY: words without padding, which nothing changes meanwhile.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(words).cast(), size_of::<W>()) }
}

/// Words of zeros.
fn zeros<W>() -> Box<W> {
    let zeroed = Box::new(MaybeUninit::<W>::zeroed());
    // SAFETY: used for structures of atomics only.
    unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) }
}

/// Result of a step that may give nothing.
fn some(found: Option<u64>) -> u64 {
    found.unwrap_or(u64::MAX)
}

/// Counters of a ring (head, tail, and the head that the producer has seen), and its entries.
#[repr(C)]
struct RingWords<const ENTRIES: usize> {
    counters: [AtomicU32; 4],
    entries: [EntryPair; ENTRIES],
}

impl<const ENTRIES: usize> RingWords<ENTRIES> {
    fn new(start: u32) -> Box<Self> {
        let counters = from_fn(|_| AtomicU32::new(start));
        let words = Box::new(Self { counters, entries: from_fn(|_| EntryPair::new()) });
        let _ = words.to_lwk::<REAL>().emptied(0);
        let _ = words.to_linux::<REAL>().emptied(0);
        words
    }

    fn to_lwk<const MUTANT: u8>(&self) -> Ring<'_, ToLwk, MUTANT> {
        let [head, tail, seen, _] = &self.counters;
        Ring::new(head, tail, seen, &self.entries)
    }

    fn to_linux<const MUTANT: u8>(&self) -> Ring<'_, ToLinux, MUTANT> {
        let [head, tail, seen, _] = &self.counters;
        Ring::new(head, tail, seen, &self.entries)
    }
}

fn inbound_step<const MUTANT: u8, const N: usize>(words: &RingWords<N>, step: usize) -> u64 {
    let ring = words.to_lwk::<MUTANT>();
    match step {
        0 => ring.module_push(words.counters[1].load(Ordering::Relaxed) << 1 | 1).is_ok().into(),
        _ => some(ring.pop().map(u64::from)),
    }
}

fn outbound_step<const MUTANT: u8, const N: usize>(words: &RingWords<N>, step: usize) -> u64 {
    let ring = words.to_linux::<MUTANT>();
    match step {
        0 => ring.push(words.counters[1].load(Ordering::Relaxed).into()).is_ok().into(),
        _ => some(ring.module_pop()),
    }
}

#[test]
fn rings_walk_alike() {
    fn each<const N: usize>() {
        for start in [0, 1, u32::MAX, 0u32.wrapping_sub(N as u32), 2 * N as u32 - 1] {
            let new = || RingWords::<N>::new(start);
            walk(11, 2, new, inbound_step::<REAL, N>, inbound_step::<IN_C, N>);
            walk(11, 2, new, outbound_step::<REAL, N>, outbound_step::<IN_C, N>);
        }
    }
    each::<1>();
    each::<2>();
    each::<4>();
}

fn bell_step<const MUTANT: u8>(word: &BellWord, step: usize) -> u64 {
    let bell = BellRef::<MUTANT>::new(word);
    match step {
        0 => bell.arm(7, 3),
        1 => bell.arm(7, 0xffff),
        2 => bell.arm(u32::MAX, 3),
        3 => bell.disarm(7),
        4 => return some(bell.ring(7).map(u64::from)),
        5 => return some(bell.ring(u32::MAX).map(u64::from)),
        _ => return some(bell.ring(0).map(u64::from)),
    }
    0
}

#[test]
fn bells_walk_alike() {
    walk(6, 7, || Box::new(BellWord::new()), bell_step::<REAL>, bell_step::<IN_C>);
}

#[repr(C)]
struct BellBits {
    rung: AtomicU64,
    words: [AtomicU64; 16],
}

fn bit_step<const MUTANT: u8>(words: &BellBits, step: usize) -> u64 {
    let bells = Bells::<MUTANT>::new(&words.rung, &words.words);
    match [0, 63, 64, 1023].get(step) {
        Some(&bell) => bells.ring(bell),
        None => {
            let mut sum = 0;
            bells.take(|bell| sum = sum * 1024 + u64::from(bell));
            return sum;
        }
    }
    0
}

#[test]
fn bits_of_bells_walk_alike() {
    walk(5, 5, zeros::<BellBits>, bit_step::<REAL>, bit_step::<IN_C>);
}

/// A doorbell, and what its handler has seen.
#[repr(C)]
struct Rung {
    words: DoorbellWords,
    seen: [AtomicU32; 256],
}

fn doorbell_step<const MUTANT: u8>(rung: &Rung, step: usize) -> u64 {
    let doorbell = DoorbellRef::<MUTANT>::new(&rung.words);
    match [0, 63, 64, 255].get(step) {
        Some(&cpu) => doorbell.ring(cpu),
        None if step == 4 => {
            let mut sum = 0;
            let mut seen: [u32; 256] = from_fn(|i| rung.seen[i].load(Ordering::Relaxed));
            doorbell.take(&mut seen, |cpu| sum = sum * 256 + cpu as u64 + 1);
            rung.seen.iter().zip(seen).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
            sum
        }
        None => {
            doorbell.move_to((step as u64) << 32 | 0xf2);
            0
        }
    }
}

#[test]
fn doorbells_walk_alike() {
    walk(4, 7, zeros::<Rung>, doorbell_step::<REAL>, doorbell_step::<IN_C>);
}

fn request_step<const MUTANT: u8>(words: &RequestWords, step: usize) -> u64 {
    let request = RequestRef::<MUTANT>::new(words);
    match step {
        0 => request.module_post(RequestCall { kind: 5, space: 2, args: [1, 2, 3, 4] }),
        1 => return request.complete(-5).into(),
        2 => return some(request.module_poll().map(|(status, arg)| status as u64 ^ arg)),
        3 => return request.module_prepare_sleep().into(),
        4 => return request.module_abandon().into(),
        _ => return some(request.read().map(|call| call.args[3])),
    }
    0
}

#[test]
fn requests_walk_alike() {
    walk(5, 6, zeros::<RequestWords>, request_step::<REAL>, request_step::<IN_C>);
}

fn service_step<const MUTANT: u8>(words: &ServiceWords, step: usize) -> u64 {
    let service = ServiceRef::<MUTANT>::new(words);
    let prepare = |space, ready| {
        if service.is_free() {
            service.prepare(&ServiceCall { kind: 3, space, args: [1; 5], extents: &[], ready });
        }
    };
    match step {
        0 => prepare(1, SERVICE_READY),
        1 => prepare(2, SERVICE_READY_FAULT),
        2 => return service.withdraw().into(),
        3 => return service.module_begin(1, SERVICE_READY).into(),
        4 => return service.module_begin(2, SERVICE_READY_FAULT).into(),
        5 => return service.prepare_sleep(3).into(),
        _ if service.is_running() => return service.module_complete(1, 4).into(),
        _ => return some(service.poll().map(|status| status as u64)),
    }
    0
}

#[test]
fn services_walk_alike() {
    walk(5, 7, zeros::<ServiceWords>, service_step::<REAL>, service_step::<IN_C>);
}

fn offer_step<const MUTANT: u8>(words: &OfferWords, step: usize) -> u64 {
    let offer = OfferRef::<MUTANT>::new(words);
    match step {
        0 => offer.publish(1, 0x1000, &[5, 6].map(GivenPage::of_word)).into(),
        1 => offer.publish(65, u64::MAX << 12, &[GivenPage::of_word(7)]).into(),
        2 => {
            offer.withdraw(1);
            0
        }
        3 => some(offer.page(1, 0x2fff)),
        4 => some(offer.page(1, 0x3000)),
        5 => some(offer.page(1, 0xfff)),
        _ => some(offer.page(65, u64::MAX)),
    }
}

#[test]
fn offers_walk_alike() {
    walk(5, 7, || Box::new(OfferWords::new()), offer_step::<REAL>, offer_step::<IN_C>);
}

#[test]
fn the_clock_is_written_alike() {
    let write = |words: &ClockWords, step| {
        words.module_write::<REAL>(step as u64, 3);
        0
    };
    let write_in_c = |words: &ClockWords, step| {
        words.module_write::<IN_C>(step as u64, 3);
        0
    };
    walk(4, 2, zeros::<ClockWords>, write, write_in_c);
}

/// All that a reader may ask of a short log, whatever it has of it: it gets what it asks for, or
/// what is left of that.
#[test]
fn the_log_is_read_as_it_was_written() {
    const SIZE: usize = 8;
    for written in 0..3 * SIZE as u64 {
        let mut memory = vec![0u64; (LOG_TEXT_OFFSET as usize + SIZE) / 8];
        // SAFETY: header and text; nothing else touches them meanwhile.
        let mut log = unsafe { LogWriter::from_raw(memory.as_mut_ptr().cast(), SIZE) };
        let all: Vec<u8> = (0..written as u8).collect();
        all.chunks(3).for_each(|line| log.write(line));
        let head = AtomicU64::new(memory[0]);
        let text = bytes(<&[u64; 1]>::try_from(&memory[LOG_TEXT_OFFSET as usize / 8..]).unwrap());
        for from in 0..written + 2 {
            for room in 0..SIZE + 2 {
                let (mut position, mut to) = (from, vec![0; room]);
                let count = Module::new(REAL).log_copy(&head, text, &mut position, &mut to);
                let first = from.clamp(written.saturating_sub(SIZE as u64), written);
                let expected = &all[first as usize..(first as usize + room).min(all.len())];
                assert_eq!((&to[..count], position), (expected, first + count as u64));
            }
        }
    }
}

fn bounded_queue<const MUTANT: u8>(start: u32, steps: &[Option<u32>]) -> Result<(), TestCaseError> {
    let (inbound, outbound) = (RingWords::<8>::new(start), RingWords::<8>::new(start));
    let (inbound, outbound) = (inbound.to_lwk::<MUTANT>(), outbound.to_linux::<MUTANT>());
    let mut model = VecDeque::new();
    for step in steps {
        match step.map(|value| value >> 1) {
            Some(value) => {
                let expected = if model.len() == 8 { Err(Full) } else { Ok(()) };
                if expected.is_ok() {
                    model.push_back(value);
                }
                prop_assert_eq!(inbound.module_push(value), expected);
                prop_assert_eq!(outbound.push(value.into()), expected);
            }
            None => {
                let expected = model.pop_front();
                prop_assert_eq!(inbound.pop(), expected);
                prop_assert_eq!(outbound.module_pop(), expected.map(u64::from));
            }
        }
    }
    Ok(())
}

fn forged_words<const MUTANT: u8>(start: [u32; 3], words: [u64; 8]) -> Result<(), TestCaseError> {
    let [head, tail, seen] = start.map(AtomicU32::new);
    let entries: [EntryPair; 8] = from_fn(|i| EntryPair::of(words[i]));
    let outbound = Ring::<ToLinux, MUTANT>::new(&head, &tail, &seen, &entries);
    let taken = core::iter::from_fn(|| outbound.module_pop()).take(100).count();
    prop_assert!(taken <= 8);
    let inbound = Ring::<ToLwk, MUTANT>::new(&head, &tail, &seen, &entries);
    let pushed = (0..100).filter(|_| inbound.module_push(1).is_ok()).count();
    prop_assert!(pushed <= 16);
    Ok(())
}

proptest! {
    #[test]
    fn each_ring_is_a_bounded_queue(start in any::<u32>(), steps in proptest::collection::vec(proptest::option::of(any::<u32>()), 0..200)) {
        bounded_queue::<REAL>(start, &steps)?;
        bounded_queue::<IN_C>(start, &steps)?;
    }

    /// Whatever the LWK writes, into entries and counters, the module reads nothing twice.
    #[test]
    fn forged_words_give_the_module_at_most_a_full_ring(start in any::<[u32; 3]>(), words in any::<[u64; 8]>()) {
        forged_words::<REAL>(start, words)?;
        forged_words::<IN_C>(start, words)?;
    }

    /// Whatever a bell's word is, both take the same of it, or nothing.
    #[test]
    fn forged_bells_are_taken_alike(word in any::<u64>(), space in proptest::option::of(any::<u32>())) {
        let space = space.unwrap_or((word >> 32) as u32);
        let (in_rust, in_c) = (BellWord::of(word), BellWord::of(word));
        prop_assert_eq!(BellRef::<REAL>::new(&in_rust).ring(space), BellRef::<IN_C>::new(&in_c).ring(space));
        prop_assert!(bytes(&in_rust) == bytes(&in_c));
    }
}
