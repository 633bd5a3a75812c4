//! Doorbells: how the CPUs of the LWK interrupt Linux, each for what it has put into its own
//! outbound ring.
//!
//! An instance has several, at different CPUs of Linux, and any CPU of the LWK may ring any of
//! them. A CPU puts its event into its ring, then counts its word in the doorbell up, then
//! interrupts. The handler remembers what it saw of each word, and reads the rings of those CPUs
//! whose words are others, and of no others. Each word has one writer, and 32 bits: between two
//! looks of a handler no CPU rings 2^32 times. Two handlers may find one CPU, each in its own
//! doorbell: a lock for each ring has one read after the other, and the later one finds what is
//! left.

#[cfg(not(loom))]
use hanare_abi::boot::DoorbellShared;
use hanare_abi::boot::RANG_CPUS;

use crate::one_writer::{Linux, Lwk, OneWriter};
use crate::same_layout;
use crate::sync::{
    AtomicU32, AtomicU64, NO_RELEASE, Ordering, REAL, SEES_LATE, full_fence, in_c, publish,
};

/// Loom has room for few atomics.
const CPUS: usize = if cfg!(loom) { 2 } else { RANG_CPUS };

/// [`DoorbellShared`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(128)))]
#[derive(Debug)]
pub struct DoorbellWords {
    target: OneWriter<AtomicU64, Linux>,
    #[cfg(not(loom))]
    reserved0: [AtomicU64; 7],
    rang: [OneWriter<AtomicU32, Lwk>; CPUS],
    #[cfg(not(loom))]
    reserved1: [AtomicU64; 8],
}

same_layout!(DoorbellWords, DoorbellShared: target, rang);

#[cfg(loom)]
#[allow(clippy::new_without_default, reason = "for the models")]
impl DoorbellWords {
    /// A doorbell that no CPU has rung, at `target`.
    pub fn new(target: u64) -> Self {
        Self { target: OneWriter::new(target), rang: core::array::from_fn(|_| OneWriter::new(0)) }
    }
}

/// A doorbell, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct DoorbellRef<'a, const MUTANT: u8 = REAL> {
    words: &'a DoorbellWords,
}

#[cfg(not(loom))]
impl<'a> DoorbellRef<'a> {
    /// The doorbell at `doorbell`.
    ///
    /// # Safety `doorbell` points to an aligned [`DoorbellShared`] that stays mapped, readable and
    /// writable for `'a`, and that is accessed only through this crate (or by the module).
    #[must_use]
    pub const unsafe fn from_raw(doorbell: *mut DoorbellShared) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; the caller vouches for the memory.
        let words = unsafe { &*doorbell.cast::<DoorbellWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> DoorbellRef<'a, MUTANT> {
    /// The doorbell made of these words.
    #[must_use]
    pub const fn new(words: &'a DoorbellWords) -> Self {
        Self { words }
    }

    /// LWK: CPU `cpu` has put something into its ring. Answers where to send the interrupt: APIC id
    /// << 32 | vector; 0: nowhere now (the CPU that moves the doorbell looks at all rings).
    ///
    /// # Panics
    /// If `cpu` is above 255.
    #[must_use]
    #[inline(always)]
    pub fn ring(&self, cpu: usize) -> u64 {
        let word = &self.words.rang[cpu];
        word.store(Lwk, word.load(Ordering::Relaxed).wrapping_add(1), publish::<MUTANT>());
        full_fence::<MUTANT>();
        self.words.target.load(Ordering::Relaxed)
    }

    /// Module, in the handler: finds the CPUs that rang since it has `seen` their words, and reads
    /// the ring of each.
    pub fn take(&self, seen: &mut [u32], mut each: impl FnMut(usize)) {
        for (cpu, (word, seen)) in self.words.rang.iter().zip(seen).enumerate() {
            if MUTANT == SEES_LATE {
                if word.load(Ordering::Acquire) != *seen {
                    each(cpu);
                    *seen = word.load(Ordering::Relaxed);
                }
                continue;
            }
            if Self::has_rung(word, seen) {
                each(cpu);
            }
        }
    }

    /// The part of [`take`](Self::take) for one CPU. In C: `hanare_has_rung`.
    fn has_rung(word: &OneWriter<AtomicU32, Lwk>, seen: &mut u32) -> bool {
        in_c!(MUTANT, module => module.has_rung(word.word(), seen));
        let order = if MUTANT == NO_RELEASE { Ordering::Relaxed } else { Ordering::Acquire };
        let now = word.load(order);
        core::mem::replace(seen, now) != now
    }

    /// Module (in C: `hanare_doorbell_move`): the interrupt is somewhere else from now on. The
    /// caller looks at all rings after that: a CPU that has read the old target has put its event
    /// into its ring before.
    pub fn move_to(&self, target: u64) {
        in_c!(MUTANT, module => module.doorbell_move(self.words.target.word(), target));
        self.words.target.store(Linux, target, Ordering::Relaxed);
        full_fence::<MUTANT>();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_cpus_that_rang_are_taken_once() {
        let mut memory = DoorbellShared {
            target: 5 << 32 | 0xf2,
            reserved0: [0; 7],
            rang: [0; RANG_CPUS],
            reserved1: [0; 8],
        };
        // SAFETY: the memory outlives it, and nothing else touches it meanwhile.
        let doorbell = unsafe { DoorbellRef::from_raw(&raw mut memory) };
        let mut seen = [0; RANG_CPUS];
        let mut taken = || {
            let mut cpus = Vec::new();
            doorbell.take(&mut seen, |cpu| cpus.push(cpu));
            cpus
        };
        for cpu in [255, 0, 64, 0] {
            assert_eq!(doorbell.ring(cpu), 5 << 32 | 0xf2);
        }
        assert_eq!((taken(), taken()), ([0, 64, 255].to_vec(), Vec::new()));
        doorbell.move_to(0);
        assert_eq!((doorbell.ring(3), taken()), (0, [3].to_vec()));
        assert_eq!([memory.rang[0], memory.rang[3], memory.rang[255]], [2, 1, 1]);
    }
}
