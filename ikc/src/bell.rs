//! The bell of a slot: how often its worker may interrupt the CPU where a thread sleeps on it.
//!
//! A proxy can be forged: it rings whatever bell it likes, as often as it likes. So the bell says
//! itself whose it is, which CPU it rings and how often: once for each time that a thread went
//! to sleep on the slot. A worker rings no more than once for each of those, and not before; so
//! the rings that are left are always as many as may still come, and none is refused that a thread
//! waits for. They are counted, not marked: the ring for a call may come so late that the thread
//! sleeps in its next one already, which needs a ring, too. Later it cannot come: its worker takes
//! the next call after it.

#[cfg(not(loom))]
use hanare_abi::boot::BELLS_MAX;
use hanare_abi::boot::{BELL_CPU_SHIFT, BELL_RINGS_MAX, BELL_SPACE_SHIFT};

use crate::sync::{AtomicU64, NO_COUNT, Ordering, REAL, counts};

const RINGS_MASK: u64 = (1 << BELL_CPU_SHIFT) - 1;
const CPU_MASK: u64 = (1 << (BELL_SPACE_SHIFT - BELL_CPU_SHIFT)) - 1;

#[cfg(not(loom))]
const _: () = assert!(BELL_RINGS_MAX <= RINGS_MASK && BELLS_MAX.is_power_of_two());

/// A bell in the shared region.
#[repr(transparent)]
#[derive(Debug)]
pub struct BellWord(AtomicU64);

#[cfg(test)]
#[allow(clippy::new_without_default, reason = "for models and tests")]
impl BellWord {
    /// A bell that no space may ring.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

/// A bell, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct BellRef<'a, const MUTANT: u8 = REAL> {
    word: &'a AtomicU64,
}

#[cfg(not(loom))]
impl BellRef<'_> {
    /// The bell at `word`.
    ///
    /// # Safety
    /// `word` points to an aligned word that stays mapped, readable and writable for the
    /// reference's life, and that is accessed only through this crate (or by the module).
    #[must_use]
    pub const unsafe fn from_raw(word: *mut BellWord) -> Self {
        // SAFETY: an atomic, which others may change; the caller vouches for the memory.
        let word = unsafe { &(*word).0 };
        Self { word }
    }
}

impl<'a, const MUTANT: u8> BellRef<'a, MUTANT> {
    /// The bell of this word.
    #[must_use]
    pub const fn new(word: &'a BellWord) -> Self {
        Self { word: &word.0 }
    }

    /// LWK, in [`lwk_prepare_sleep`](crate::SlotRef::lwk_prepare_sleep), by an exchange: the thread is about to
    /// sleep on `cpu`, for which a worker of `space` may ring once more.
    #[inline(always)]
    pub fn arm(&self, space: u32, cpu: u32) {
        let word = self.word.load(Ordering::Relaxed);
        let unarmed =
            u64::from(space) << BELL_SPACE_SHIFT | (u64::from(cpu) & CPU_MASK) << BELL_CPU_SHIFT;
        // All but the rings is changed only here, and a worker makes those fewer.
        let left = word.wrapping_sub(unarmed);
        if left < BELL_RINGS_MAX && MUTANT != NO_COUNT {
            self.word.fetch_add(1, Ordering::AcqRel);
        } else {
            self.set(word, space, unarmed);
        }
    }

    /// The rest of [`arm`](Self::arm), where the bell was another space's or CPU's, or has all rings.
    #[cold]
    fn set(&self, mut word: u64, space: u32, unarmed: u64) {
        loop {
            let left = if owner(word) == space { word & RINGS_MASK } else { 0 };
            let armed = unarmed | counts::<MUTANT>(left, BELL_RINGS_MAX);
            match self.word.compare_exchange(word, armed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// LWK: nobody may ring it any more; `note` is kept there.
    pub fn disarm(&self, note: u32) {
        self.word.store(u64::from(note) << BELL_SPACE_SHIFT, Ordering::Relaxed);
    }

    /// LWK: what [`disarm`](Self::disarm) left there.
    #[must_use]
    pub fn note(&self) -> u32 {
        owner(self.word.load(Ordering::Relaxed))
    }

    /// Module (its C twin is in `module/`): a worker of `space` rings. The CPU to interrupt; `None`:
    /// nobody has asked for it.
    #[must_use]
    pub fn ring(&self, space: u32) -> Option<u32> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if owner(word) != space || word & RINGS_MASK == 0 {
                return None;
            }
            match self.word.compare_exchange(word, word - 1, Ordering::AcqRel, Ordering::Acquire) {
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
        let word = BellWord(AtomicU64::new(0));
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
    }
}
