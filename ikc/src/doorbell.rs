//! Doorbells: how the CPUs of the LWK interrupt Linux, each for what it has put into its own outbound ring.
//!
//! An instance has several, at different CPUs of Linux, and any CPU of the LWK may ring any of them. A CPU puts its event
//! into its ring, then its bit into the doorbell, then interrupts. The handler takes the bits by one exchange, and reads the rings
//! of those CPUs and no others. Two handlers may find the bit of one CPU, each in its own doorbell: a lock for each
//! ring has one read after the other, and the later one finds what is left.

#[cfg(not(loom))]
use hanare_abi::boot::DoorbellShared;
use hanare_abi::boot::RANG_WORDS;

use crate::same_layout;
use crate::set::bits;
use crate::sync::{
    AtomicU64, NO_EXCHANGE, Ordering, REAL, exchanges, fence_of_exchange, full_fence,
};

/// [`DoorbellShared`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(128)))]
#[derive(Debug)]
pub struct DoorbellWords {
    target: AtomicU64,
    #[cfg(not(loom))]
    reserved0: [AtomicU64; 7],
    rang: [AtomicU64; RANG_WORDS],
    #[cfg(not(loom))]
    reserved1: [AtomicU64; 4],
}

same_layout!(DoorbellWords, DoorbellShared: target, rang);

#[cfg(loom)]
#[allow(clippy::new_without_default, reason = "for the models")]
impl DoorbellWords {
    /// A doorbell that nobody has rung, at `target`.
    pub fn new(target: u64) -> Self {
        Self { target: AtomicU64::new(target), rang: core::array::from_fn(|_| AtomicU64::new(0)) }
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
    /// # Safety
    /// `doorbell` points to an aligned [`DoorbellShared`] that stays mapped, readable and writable for `'a`, and that is
    /// accessed only through this crate (or by the module).
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

    /// LWK: CPU `cpu` has put something into its ring. Answers where to send the interrupt: APIC id << 32 | vector; 0: nowhere
    /// now (the CPU that moves the doorbell looks at all rings).
    ///
    /// # Panics
    /// If `cpu` is above 255.
    #[must_use]
    #[inline(always)]
    pub fn ring(&self, cpu: usize) -> u64 {
        self.words.rang[cpu / 64].fetch_or(1 << (cpu % 64), exchanges::<MUTANT>());
        fence_of_exchange::<MUTANT>();
        self.words.target.load(Ordering::Relaxed)
    }

    /// Module (its C twin is in `module/`), in the handler: takes the CPUs that rang, and reads the ring of each.
    pub fn take(&self, mut each: impl FnMut(usize)) {
        for (i, word) in self.words.rang.iter().enumerate() {
            let found = word.load(Ordering::Relaxed);
            if found == 0 {
                continue;
            }
            if MUTANT == NO_EXCHANGE {
                bits(found).for_each(|bit| each(i * 64 + bit as usize));
                word.store(0, Ordering::Release);
                continue;
            }
            bits(word.swap(0, exchanges::<MUTANT>())).for_each(|bit| each(i * 64 + bit as usize));
        }
    }

    /// Module (its C twin is in `module/`): the interrupt is somewhere else from now on. The caller looks at all rings after
    /// that: a CPU that has read the old target has put its event into its ring before.
    pub fn move_to(&self, target: u64) {
        self.words.target.store(target, Ordering::Relaxed);
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
            rang: [0; RANG_WORDS],
            reserved1: [0; 4],
        };
        // SAFETY: the memory outlives it, and nothing else touches it meanwhile.
        let doorbell = unsafe { DoorbellRef::from_raw(&raw mut memory) };
        let taken = || {
            let mut cpus = Vec::new();
            doorbell.take(|cpu| cpus.push(cpu));
            cpus
        };
        for cpu in [255, 0, 64, 0] {
            assert_eq!(doorbell.ring(cpu), 5 << 32 | 0xf2);
        }
        assert_eq!((taken(), taken()), ([0, 64, 255].to_vec(), Vec::new()));
        doorbell.move_to(0);
        assert_eq!((doorbell.ring(3), taken()), (0, [3].to_vec()));
        assert_eq!(memory.rang, [0; RANG_WORDS]);
    }
}
