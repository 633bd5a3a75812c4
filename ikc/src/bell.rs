//! The bell of a slot: how often its worker may interrupt the CPU where a thread sleeps on it.
//!
//! A proxy can be forged: it rings whatever bell it likes, as often as it likes. So the bell says
//! itself whose it is, which CPU it rings and how often: once for each time that a thread went
//! to sleep on the slot. A worker rings no more than once for each of those, and not before; so
//! the rings that are left are always as many as may still come, and none is refused that a thread
//! waits for. They are counted, not marked: the ring for a call may come so late that the thread
//! sleeps in its next one already, which needs a ring, too. Later it cannot come: its worker takes
//! the next call after it.

use hanare_abi::boot::{BELL_CPU_SHIFT, BELL_FREE, BELL_RINGS_MAX, BELL_SPACE_SHIFT};
#[cfg(not(loom))]
use hanare_abi::boot::{BELL_WORKER_PROCESS_SHIFT, BELL_WORKER_SPACE_SHIFT, BELLS_MAX, Bell};
#[cfg(not(loom))]
use hanare_abi::layout::{SLOTS_MAX, SPACES_MAX};

use crate::same_layout;
use crate::sync::{AtomicU64, NO_COUNT, Ordering, REAL, counts, in_c};

const RINGS_MASK: u64 = (1 << BELL_CPU_SHIFT) - 1;
const CPU_MASK: u64 = (1 << (BELL_SPACE_SHIFT - BELL_CPU_SHIFT)) - 1;

#[cfg(not(loom))]
const _: () = assert!(BELL_RINGS_MAX <= RINGS_MASK && BELLS_MAX.is_power_of_two());

/// A [`Bell`] in the shared region, as atomics.
#[repr(C)]
#[derive(Debug)]
pub struct BellWord {
    word: AtomicU64,
    #[cfg(not(loom))]
    worker: AtomicU64,
}

same_layout!(BellWord, Bell: word, worker);

#[cfg(test)]
#[allow(clippy::new_without_default, reason = "for models and tests")]
impl BellWord {
    /// A bell that no space may ring.
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            #[cfg(not(loom))]
            worker: AtomicU64::new(0),
        }
    }

    /// A bell of this word.
    #[cfg(not(loom))]
    pub fn of(word: u64) -> Self {
        Self { word: AtomicU64::new(word), worker: AtomicU64::new(0) }
    }
}

/// A bell, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct BellRef<'a, const MUTANT: u8 = REAL> {
    bell: &'a BellWord,
}

#[cfg(not(loom))]
impl BellRef<'_> {
    /// The bell at `word`.
    ///
    /// # Safety
    /// `bell` points to an aligned bell that stays mapped, readable and writable for the
    /// reference's life, and that is accessed only through this crate (or by the module).
    #[must_use]
    pub const unsafe fn from_raw(bell: *mut BellWord) -> Self {
        // SAFETY: atomics, which others may change; the caller vouches for the memory.
        let bell = unsafe { &*bell };
        Self { bell }
    }

    /// LWK: the bell is a slot's of `space` from now on, which has no worker yet. None may ring it.
    pub fn give(&self, space: u32) {
        self.forget_worker();
        self.bell.word.store(u64::from(space) << BELL_SPACE_SHIFT, Ordering::Relaxed);
    }

    /// LWK, before it asks for a worker in place of the one that serves the slot: no id is known
    /// until that worker has come.
    pub fn forget_worker(&self) {
        self.bell.worker.store(0, Ordering::Relaxed);
    }

    /// LWK, after the answer to such a request: the id of the thread that serves the slot, if the
    /// module knows it as one of this process of `space`, whose first thread has the slot
    /// `first_slot`. A word of another space is what a late write has left.
    #[must_use]
    pub fn worker(&self, space: u32, first_slot: u32) -> Option<u32> {
        let word = self.bell.worker.load(Ordering::Acquire);
        let process = worker_of(space, first_slot, 0);
        let thread = word & THREAD_MASK;
        (thread != 0 && word - thread == process).then_some(thread as u32)
    }
}

#[cfg(not(loom))]
const THREAD_MASK: u64 = (1 << BELL_WORKER_PROCESS_SHIFT) - 1;
#[cfg(not(loom))]
const _: () = assert!(
    SPACES_MAX as u64 <= 1 << (64 - BELL_WORKER_SPACE_SHIFT)
        && SLOTS_MAX <= 1 << (BELL_WORKER_SPACE_SHIFT - BELL_WORKER_PROCESS_SHIFT)
        && SPACES_MAX <= BELL_FREE
        && BELLS_MAX <= BELL_FREE
);

/// The word of a worker (in C: `hanare_worker`).
#[cfg(not(loom))]
const fn worker_of(space: u32, first_slot: u32, thread: u32) -> u64 {
    (space as u64) << BELL_WORKER_SPACE_SHIFT
        | (first_slot as u64) << BELL_WORKER_PROCESS_SHIFT
        | thread as u64
}

impl<'a, const MUTANT: u8> BellRef<'a, MUTANT> {
    /// The bell of this word.
    #[must_use]
    pub const fn new(bell: &'a BellWord) -> Self {
        Self { bell }
    }

    /// LWK, in [`lwk_prepare_sleep`](crate::SlotRef::lwk_prepare_sleep), by an exchange: the thread
    /// is about to sleep on `cpu`, for which a worker of `space` may ring once more.
    #[inline(always)]
    pub fn arm(&self, space: u32, cpu: u32) {
        let word = self.bell.word.load(Ordering::Relaxed);
        let unarmed =
            u64::from(space) << BELL_SPACE_SHIFT | (u64::from(cpu) & CPU_MASK) << BELL_CPU_SHIFT;
        // All but the rings is changed only here, and a worker makes those fewer.
        let left = word.wrapping_sub(unarmed);
        if left < BELL_RINGS_MAX && MUTANT != NO_COUNT {
            self.bell.word.fetch_add(1, Ordering::AcqRel);
        } else {
            self.set(word, space, unarmed);
        }
    }

    /// The rest of [`arm`](Self::arm), where the bell was another space's or CPU's, or has all
    /// rings.
    #[cold]
    fn set(&self, mut word: u64, space: u32, unarmed: u64) {
        loop {
            let left = if owner(word) == space { word & RINGS_MASK } else { 0 };
            let armed = unarmed | counts::<MUTANT>(left, BELL_RINGS_MAX);
            match self.bell.word.compare_exchange(word, armed, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// LWK: no worker may ring it any more; `note` is kept there.
    pub fn disarm(&self, note: u32) {
        let free = u64::from(BELL_FREE | note) << BELL_SPACE_SHIFT;
        self.bell.word.store(free, Ordering::Relaxed);
    }

    /// LWK: what [`disarm`](Self::disarm) left there.
    #[must_use]
    pub fn note(&self) -> u32 {
        owner(self.bell.word.load(Ordering::Relaxed)) & !BELL_FREE
    }

    /// Module (in C: `hanare_bell_take`): a worker of `space` rings. The CPU to interrupt; `None`:
    /// no side has asked for it.
    #[must_use]
    pub fn ring(&self, space: u32) -> Option<u32> {
        in_c!(MUTANT, module => module.bell_take(&self.bell.word, space));
        let mut word = self.bell.word.load(Ordering::Acquire);
        loop {
            if owner(word) != space || word & RINGS_MASK == 0 {
                return None;
            }
            match self.bell.word.compare_exchange(
                word,
                word - 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some((word >> BELL_CPU_SHIFT & CPU_MASK) as u32),
                Err(now) => word = now,
            }
        }
    }
}

fn owner(word: u64) -> u32 {
    (word >> BELL_SPACE_SHIFT) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_bell_rings_as_often_as_its_thread_slept() {
        let word = BellWord::new();
        let bell = BellRef::<REAL>::new(&word);
        assert_eq!((bell.ring(0), bell.ring(7)), (None, None));
        bell.arm(7, 3);
        bell.arm(7, 5);
        assert_eq!(bell.ring(8), None); // a stranger
        assert_eq!((bell.ring(7), bell.ring(7), bell.ring(7)), (Some(5), Some(5), None));
        for _ in 0..BELL_RINGS_MAX + 10 {
            bell.arm(7, 1);
        }
        assert_eq!((0..1000).filter_map(|_| bell.ring(7)).count() as u64, BELL_RINGS_MAX);
        bell.arm(7, 1);
        bell.arm(9, 2); // another process' thread has it now
        assert_eq!((bell.ring(7), bell.ring(9), bell.ring(9)), (None, Some(2), None));
        bell.arm(9, 2);
        bell.disarm(9); // the next free one: not a space
        assert_eq!((bell.note(), bell.ring(9)), (9, None));
        assert_ne!(owner(word.word.load(Ordering::Relaxed)), 9); // nor may it name its worker
    }

    #[test]
    fn a_bell_that_is_given_knows_no_worker_of_another_space() {
        let word = BellWord::new();
        let bell = BellRef::<REAL>::new(&word);
        bell.arm(7, 3);
        word.worker.store(worker_of(7, 2, 101), Ordering::Relaxed); // the module
        assert_eq!(bell.worker(7, 2), Some(101));
        assert_eq!(bell.worker(7, 0), None); // another process that has the space
        bell.disarm(0);
        bell.give(9);
        assert_eq!((bell.worker(9, 2), bell.ring(9), bell.ring(7)), (None, None, None));
        assert_eq!(owner(word.word.load(Ordering::Relaxed)), 9);
        word.worker.store(worker_of(7, 2, 101), Ordering::Relaxed); // late
        assert_eq!((bell.worker(9, 2), bell.worker(9, 0)), (None, None));
        word.worker.store(worker_of(9, 2, 0), Ordering::Relaxed);
        assert_eq!(bell.worker(9, 2), None);
        word.worker.store(worker_of(65_535, 131_071, 0x3f_ffff), Ordering::Relaxed);
        assert_eq!(bell.worker(65_535, 131_071), Some(0x3f_ffff));
    }
}
