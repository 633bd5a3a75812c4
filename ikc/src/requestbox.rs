//! The request box: calls that any server of a process may execute, which server takes which, and
//! how a server sleeps.
//!
//! A call lies in its thread's slot; in the box it is a bit. **The side that clears the bit owns
//! the call**: a server executes it; the slot's own worker, in a signal's handler, answers that it
//! was not started; the LWK gives it to the own worker instead. So it is executed once, or not at
//! all, and one locked operation says by which side.
//!
//! **Sleep.** A server sets its bit in `idle`, then looks at the box once more. The LWK puts a call
//! in by setting its bit, then looks for an idle server, whose bit it clears, to which it says
//! which call it is rung for, and which it rings. So two calls do not wake the same server, and a
//! server that was rung begins with the call that it was rung for: that call need not be watched,
//! however many others wait. A server whose bit the LWK has cleared waits for that ring.
//!
//! **Signals.** A signal for the thread comes to its own worker, which is in no call. After the LWK
//! knows of it, the worker leaves a mark in the slot, then tries to take the call back. If the call
//! is not in the box, there are two cases. It is not there yet: then the server that will take it
//! looks at the mark. Or a server has it: that server has announced the slot *before* it cleared
//! the bit ([`Serving`]), so the worker finds it and sends it an interruption. The handler of the
//! interruption looks at the mark of the slot that is served by then. So an interruption that comes
//! late, or instead of another one (Linux keeps one pending), is for the right call, or for none.
//! In the latter case Linux may have ended another thread's call with EINTR: the server says of
//! each interruption that it was interrupted, and the LWK makes a call again for which no signal is
//! left.

use hanare_abi::requestbox::SERVERS_MAX;
#[cfg(not(loom))]
use hanare_abi::requestbox::{BOX_SLOTS, BOX_WORDS, RequestBox};

use crate::abort::Interrupted;
use crate::same_layout;
use crate::slot::{Answer, SlotRef};
use crate::sync::{
    ANNOUNCES_LATE, AtomicU32, AtomicU64, NO_EXCHANGE, NO_LOOK, NO_MARK, Ordering, REAL, exchanges,
    fence_of_exchange,
};

#[cfg(loom)]
const BOX_WORDS: usize = 1;

/// [`RequestBox`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(64)))]
#[derive(Debug)]
pub struct BoxWords {
    idle: AtomicU64,
    first: [AtomicU32; SERVERS_MAX as usize],
    #[cfg(not(loom))]
    reserved0: [AtomicU64; 3],
    #[cfg(not(loom))]
    doorbells: [AtomicU32; SERVERS_MAX as usize],
    #[cfg(not(loom))]
    reserved1: [AtomicU64; 4],
    waiting: [AtomicU64; BOX_WORDS],
}

same_layout!(BoxWords, RequestBox: idle, first, doorbells, waiting);

#[allow(clippy::new_without_default, reason = "for benches, models and tests")]
impl BoxWords {
    /// An empty box.
    #[must_use]
    pub fn new() -> Self {
        Self {
            idle: AtomicU64::new(0),
            first: core::array::from_fn(|_| AtomicU32::new(0)),
            #[cfg(not(loom))]
            reserved0: core::array::from_fn(|_| AtomicU64::new(0)),
            #[cfg(not(loom))]
            doorbells: core::array::from_fn(|_| AtomicU32::new(0)),
            #[cfg(not(loom))]
            reserved1: core::array::from_fn(|_| AtomicU64::new(0)),
            waiting: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// A request box in shared memory, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct BoxRef<'a, const MUTANT: u8 = REAL> {
    words: &'a BoxWords,
}

#[cfg(not(loom))]
impl BoxRef<'_> {
    /// The box at `place`.
    ///
    /// # Safety
    /// `place` points to a [`RequestBox`] aligned to 64 bytes that stays mapped, readable and
    /// writable for the reference's life, and that is accessed only through this crate (or by the
    /// other side's equivalent).
    #[must_use]
    pub const unsafe fn from_raw(place: *mut RequestBox) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which others may change;
        // the caller vouches for the memory.
        let words = unsafe { &*place.cast::<BoxWords>() };
        Self { words }
    }
}

/// Word and bit of a slot, which is below [`BOX_SLOTS`].
fn place(slot: u32) -> (usize, u64) {
    #[cfg(not(loom))]
    debug_assert!(slot < BOX_SLOTS);
    (slot as usize / 64 % BOX_WORDS, 1 << (slot % 64))
}

impl<'a, const MUTANT: u8> BoxRef<'a, MUTANT> {
    /// The box made of these words.
    #[must_use]
    pub const fn new(words: &'a BoxWords) -> Self {
        Self { words }
    }

    /// LWK: puts in the call that [`lwk_box`](SlotRef::lwk_box) has written to a slot. Which of
    /// `servers` (bit `n`: server `n`) has to be rung, if one sleeps.
    #[must_use]
    pub fn put(&self, slot: u32, servers: u64) -> Option<u32> {
        let (word, bit) = place(slot);
        self.words.waiting[word].fetch_or(bit, exchanges::<MUTANT>());
        fence_of_exchange::<MUTANT>();
        self.take_idle(servers).inspect(|&server| {
            // The ring publishes it.
            self.words.first[(server % SERVERS_MAX) as usize].store(slot + 1, Ordering::Relaxed);
        })
    }

    /// LWK: whether the call of a slot waits, as far as can be seen.
    #[must_use]
    pub fn waits(&self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        self.words.waiting[word].load(Ordering::Relaxed) & bit != 0
    }

    /// Server, which was rung: the slot whose call it was rung for, if it was for one.
    #[must_use]
    pub fn first(&self, server: u32) -> Option<u32> {
        let word = &self.words.first[(server % SERVERS_MAX) as usize];
        let slot = word.load(Ordering::Relaxed).checked_sub(1)?;
        word.store(0, Ordering::Relaxed); // not written as long as the server's bit is not set
        Some(slot)
    }

    /// Server, whose bit the LWK has taken: whether that one has said yet for which call it rings.
    #[must_use]
    #[cfg(not(loom))]
    pub fn is_told(&self, server: u32) -> bool {
        self.words.first[(server % SERVERS_MAX) as usize].load(Ordering::Relaxed) != 0
    }

    /// LWK: one of `servers` that sleeps, or is about to, and that no other CPU rings.
    #[must_use]
    pub fn take_idle(&self, servers: u64) -> Option<u32> {
        let mut last = None;
        // A proxy may set bits faster than they are taken here. A server that is rung without need
        // looks for nothing.
        for _ in 0..SERVERS_MAX {
            let idle = self.words.idle.load(Ordering::Relaxed) & servers;
            let bit = idle & idle.wrapping_neg();
            if bit == 0 {
                return None;
            }
            last = Some(bit.trailing_zeros());
            if self.words.idle.fetch_and(!bit, exchanges::<MUTANT>()) & bit != 0 {
                break;
            }
        }
        last
    }

    /// LWK: the doorbell next to where a server sleeps, plus 1, as it says; 0: not known.
    #[must_use]
    #[cfg(not(loom))]
    pub fn doorbell(&self, server: u32) -> u32 {
        self.words.doorbells[(server % SERVERS_MAX) as usize].load(Ordering::Relaxed)
    }

    /// Server: sets the doorbell that is next to server `server`.
    #[cfg(not(loom))]
    pub fn set_doorbell(&self, server: u32, doorbell: u32) {
        let word = &self.words.doorbells[(server % SERVERS_MAX) as usize];
        if word.load(Ordering::Relaxed) != doorbell {
            word.store(doorbell, Ordering::Relaxed);
        }
    }

    /// Takes the call of `slot` out, unless another side has done so: it is the caller's then.
    #[must_use]
    pub fn take_back(&self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        if MUTANT == NO_EXCHANGE {
            let before = self.words.waiting[word].load(Ordering::Acquire);
            self.words.waiting[word].store(before & !bit, Ordering::Release);
            return before & bit != 0;
        }
        self.words.waiting[word].fetch_and(!bit, exchanges::<MUTANT>()) & bit != 0
    }

    /// Whether no call waits, as far as can be seen.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.words.waiting.iter().fold(0, |all, word| all | word.load(Ordering::Relaxed)) == 0
    }

    /// Server: a slot whose call waits, the first one from `from` on, then from 0 on, so that none
    /// is passed over for ever.
    fn next(&self, from: u32) -> Option<u32> {
        let (first, bit) = place(from);
        (0..=BOX_WORDS).find_map(|i| {
            let word = (first + i) % BOX_WORDS;
            let bits = self.words.waiting[word].load(Ordering::Relaxed);
            // The first word's lower bits come last.
            let bits = match i {
                0 => bits & bit.wrapping_neg(),
                _ => bits,
            };
            (bits != 0).then(|| word as u32 * 64 + bits.trailing_zeros())
        })
    }

    /// Server: says that it is about to sleep, and looks at the box once more. `true`: it sleeps
    /// (`IOCTL_WAIT` on its own slot), and is rung, or will be. `false`: it goes on.
    #[must_use]
    pub fn prepare_sleep(&self, server: u32) -> bool {
        self.words.idle.fetch_or(1 << server, exchanges::<MUTANT>());
        fence_of_exchange::<MUTANT>();
        self.is_empty() || !self.wakes(server)
    }

    /// Server, which was not rung: does not sleep any more. `false`: a ring is on its way, for
    /// which it waits.
    #[must_use]
    pub fn wakes(&self, server: u32) -> bool {
        let bit = 1 << server;
        self.words.idle.fetch_and(!bit, exchanges::<MUTANT>()) & bit != 0
    }
}

/// The slot whose call a server executes, or is about to take, plus 1; 0: none. In the proxy's own
/// memory, written by the server.
#[derive(Debug)]
pub struct Serving<const MUTANT: u8 = REAL>(AtomicU32);

#[allow(clippy::new_without_default, reason = "const")]
impl<const MUTANT: u8> Serving<MUTANT> {
    /// A server that serves no call.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn begin(&self, slot: u32) {
        self.0.store(slot + 1, Ordering::Relaxed);
    }

    /// Server: executes nothing any more; interruptions that come from now on are ignored. Before
    /// it answers.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Slot of the call that the server serves.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// A call that a server has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Slot in which the call lies.
    pub slot: u32,
    /// A signal came first: it is to be answered by [`Answer::NotStarted`].
    pub is_marked: bool,
}

/// Server: takes a call that waits, from slot `from` on, and looks whether it may be started.
/// `interrupted` is the server's.
#[must_use]
pub fn serve<'a, const MUTANT: u8>(
    calls: BoxRef<'_, MUTANT>,
    from: u32,
    serving: &Serving<MUTANT>,
    interrupted: &Interrupted<MUTANT>,
    slot_of: impl Fn(u32) -> SlotRef<'a, MUTANT>,
) -> Option<Taken> {
    while let Some(slot) = calls.next(from) {
        // An interruption for the call before is void.
        serving.end();
        interrupted.clear();
        if MUTANT != ANNOUNCES_LATE {
            serving.begin(slot);
        }
        if calls.take_back(slot) {
            if MUTANT == ANNOUNCES_LATE {
                serving.begin(slot);
            }
            let is_marked = MUTANT != NO_LOOK && slot_of(slot).take_mark();
            return Some(Taken { slot, is_marked });
        }
        serving.end();
    }
    None
}

/// Worker, in the handler of a signal that the LWK knows of: the call of its slot, which may be in
/// one of the `boxes`, does not begin, or is interrupted. `send` interrupts the server with an
/// index, one of those whose words are `servers`. `true`: the call was taken back and answered, and
/// the LWK's thread has to be rung.
#[must_use]
pub fn interrupt<'s, 'b, const MUTANT: u8>(
    boxes: impl IntoIterator<Item = BoxRef<'b, MUTANT>>,
    number: u32,
    slot: SlotRef<'_, MUTANT>,
    servers: impl Iterator<Item = &'s Serving<MUTANT>>,
    mut send: impl FnMut(usize),
) -> bool {
    if MUTANT != NO_MARK {
        slot.mark();
    }
    if boxes.into_iter().any(|calls| calls.take_back(number)) {
        let _ = slot.take_mark();
        return slot.worker_complete(Answer::NotStarted);
    }
    for (server, serving) in servers.enumerate() {
        if serving.slot() == Some(number) {
            send(server);
        }
    }
    false
}

/// Server, in the handler of an interruption: whether it is for the call that is executed.
#[must_use]
pub fn is_interrupted<'a, const MUTANT: u8>(
    serving: &Serving<MUTANT>,
    slot_of: impl Fn(u32) -> SlotRef<'a, MUTANT>,
) -> bool {
    serving.slot().is_some_and(|slot| slot_of(slot).take_mark())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slot::SlotWords;
    use core::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn calls_are_taken_in_turn() {
        let words = BoxWords::new();
        let calls = BoxRef::<REAL>::new(&words);
        for slot in [0, 63, 64, 511] {
            assert_eq!(calls.put(slot, !0), None);
        }
        assert_eq!(
            [0, 1, 64, 65].map(|from| calls.next(from)),
            [Some(0), Some(63), Some(64), Some(511)]
        );
        assert!(calls.take_back(511) && !calls.take_back(511));
        assert_eq!(calls.next(65), Some(0), "from the start again");
        assert!([0, 63].into_iter().all(|slot| calls.take_back(slot)));
        assert_eq!(calls.next(65), Some(64), "the lower bits of the word where it began come last");
        assert!(!calls.is_empty() && calls.take_back(64) && calls.is_empty());
        assert_eq!(calls.next(511), None);
    }

    #[test]
    fn each_sleeping_server_is_rung_once() {
        let words = BoxWords::new();
        let calls = BoxRef::<REAL>::new(&words);
        assert!([2, 5, 63].into_iter().all(|server| calls.prepare_sleep(server)));
        assert_eq!(calls.put(1, 0xff), Some(2));
        assert_eq!(calls.put(2, 0xff), Some(5));
        assert_eq!(calls.put(3, 0xff), None, "there is no server 63");
        assert_eq!([2, 5, 2].map(|server| calls.first(server)), [Some(1), Some(2), None]);
        assert!(!calls.prepare_sleep(2), "calls wait");
        assert_eq!(calls.take_idle(!0), Some(63));
        assert!(!calls.wakes(63), "it is rung");
        assert!([1, 2, 3].into_iter().all(|slot| calls.waits(slot) && calls.take_back(slot)));
        assert!(calls.prepare_sleep(63) && calls.wakes(63));
        assert_eq!(calls.take_idle(!0), None);
    }

    #[test]
    fn an_interruption_is_for_the_call_of_the_marked_slot() {
        let (words, slot_words) = (BoxWords::new(), [SlotWords::new(), SlotWords::new()]);
        let calls = BoxRef::<REAL>::new(&words);
        let slot_of = |slot: u32| SlotRef::<REAL>::new(&slot_words[slot as usize]);
        let (serving, interrupted) = (Serving::<REAL>::new(), Interrupted::<REAL>::new());
        let take = || serve(calls, 0, &serving, &interrupted, slot_of);
        let interrupt = |slot| {
            let mut sent = false;
            let servers = [&serving].into_iter();
            assert!(!interrupt([calls], slot, slot_of(slot), servers, |_| sent = true));
            sent
        };
        let call = |slot| {
            slot_of(slot).lwk_box(1, [0; 6]);
            let _ = calls.put(slot, 0);
        };
        call(0);
        assert_eq!(take(), Some(Taken { slot: 0, is_marked: false }));
        assert!(interrupt(0) && is_interrupted(&serving, slot_of));
        assert!(!is_interrupted(&serving, slot_of), "once");
        assert!(!interrupt(1), "another thread's");
        assert!(!is_interrupted(&serving, slot_of));
        assert!(interrupt(0), "whose interruption comes late");
        serving.end();
        assert!(!is_interrupted(&serving, slot_of), "the call is over");
        call(1);
        assert_eq!(take(), Some(Taken { slot: 1, is_marked: true }), "the signal came first");
        assert!(!is_interrupted(&serving, slot_of), "that was for the call before");
        serving.end();
        assert_eq!(take(), None);
    }

    #[test]
    fn a_call_that_waits_is_taken_back_and_answered() {
        let (words, slot_words) = (BoxWords::new(), SlotWords::new());
        let (calls, slot) = (BoxRef::<REAL>::new(&words), SlotRef::<REAL>::new(&slot_words));
        slot.lwk_box(1, [0; 6]);
        assert_eq!((slot.worker_poll(), slot.lwk_poll()), (None, None));
        let _ = calls.put(7, 0);
        assert!(!interrupt([calls], 7, slot, core::iter::empty(), |_| ()));
        assert_eq!((slot.lwk_poll(), slot.take_mark()), (Some(Answer::NotStarted), false));
        assert!(calls.is_empty());
    }

    /// Words that a forged proxy writes: none, all bits, or any.
    fn forged_words() -> impl Iterator<Item = u64> {
        let mut state = 1_u64;
        core::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match state >> 61 {
                0 => 0,
                1 => u64::MAX,
                _ => state ^ state >> 29,
            }
        })
    }

    /// A forged proxy: writes all words of the box and of a slot until `is_over`.
    fn forge(words: &BoxWords, slot: &SlotWords, is_over: impl Fn() -> bool) {
        let slot = SlotRef::<REAL>::new(slot);
        for word in forged_words().take_while(|_| !is_over()) {
            words.idle.store(word, Ordering::Relaxed);
            words.idle.fetch_xor(0xff, Ordering::Relaxed);
            words.first.iter().for_each(|first| first.store(word as u32, Ordering::Relaxed));
            words.doorbells.iter().for_each(|bell| bell.store(word as u32, Ordering::Relaxed));
            words.waiting.iter().for_each(|waiting| waiting.store(word, Ordering::Relaxed));
            let _ = slot.worker_complete(Answer::Done(word as i64));
            slot.set_ended_by_signal(word & 1 != 0);
        }
    }

    /// The LWK's steps of a call end, and ring none but servers that there are, while the proxy
    /// writes what it likes.
    #[test]
    fn a_forged_box_names_no_server_that_is_not_there() {
        let (words, slot_words) = (BoxWords::new(), SlotWords::new());
        let (calls, slot) = (BoxRef::<REAL>::new(&words), SlotRef::<REAL>::new(&slot_words));
        // Until enough was forged, however seldom both threads have a CPU at once.
        const ENOUGH: u64 = if cfg!(miri) { 1 } else { 1_000 };
        let end = Instant::now() + Duration::from_secs(600);
        let is_forged = AtomicBool::new(false);
        let is_over = || is_forged.load(Ordering::Relaxed) || Instant::now() >= end;
        let (mut answers, mut rings) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| forge(&words, &slot_words, is_over));
            for (round, servers) in (0..).zip(forged_words().take_while(|_| !is_over())) {
                is_forged.store(answers >= ENOUGH && rings >= ENOUGH, Ordering::Relaxed);
                let servers = servers >> (round % 57) & 0xff;
                let number = round % BOX_SLOTS;
                slot.lwk_box(round, [0; 6]);
                let rung = calls.put(number, servers);
                if let Some(server) = rung {
                    rings += 1;
                    assert_ne!(servers >> server & 1, 0, "server {server} of {servers:#x}");
                    let _ = calls.doorbell(server);
                }
                assert!(calls.take_idle(servers).is_none_or(|server| servers >> server & 1 != 0));
                // It is taken back, or answered, or neither: all that is the proxy's own harm.
                if calls.waits(number) && calls.take_back(number) {
                    slot.lwk_unbox();
                } else if slot.lwk_poll().is_some() {
                    answers += 1;
                }
            }
        });
        assert!(is_forged.into_inner(), "{answers} answers, {rings} rings: too little was forged");
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        /// A server that looks at a forged box takes what lies there, each slot once, and finds an
        /// end.
        #[test]
        fn a_server_takes_each_bit_of_a_forged_box_once(waiting in proptest::array::uniform8(0_u64..), from in 0..BOX_SLOTS) {
            let (words, slot_words) = (BoxWords::new(), SlotWords::new());
            let calls = BoxRef::<REAL>::new(&words);
            words.waiting.iter().zip(waiting).for_each(|(word, bits)| word.store(bits, Ordering::Relaxed));
            let (serving, interrupted) = (Serving::<REAL>::new(), Interrupted::<REAL>::new());
            let slot_of = |_: u32| SlotRef::<REAL>::new(&slot_words);
            let bits = waiting.iter().map(|bits| bits.count_ones()).sum::<u32>();
            let mut seen = [0; BOX_WORDS];
            for _ in 0..bits {
                let Taken { slot, .. } = serve(calls, from, &serving, &interrupted, slot_of).expect("one waits");
                assert!(slot < BOX_SLOTS);
                seen[slot as usize / 64] |= 1 << (slot % 64);
            }
            assert_eq!((seen, serve(calls, from, &serving, &interrupted, slot_of)), (waiting, None));
        }
    }
}
