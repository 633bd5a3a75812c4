//! Grants: devices of Linux' of which a driver of the LWK has a part, until Linux' driver lets go.
//!
//! A CPU counts a use before it looks whether the device is there still. The module says that it is
//! not, and waits until as many uses have ended as have begun. A use may end on another CPU than it
//! has begun on: each CPU has its own words, and their sums are compared.

use hanare_abi::grant::{GRANT_GONE, GRANT_THERE};
#[cfg(not(loom))]
use hanare_abi::grant::{Grant, GrantQueue};

use crate::one_writer::{Linux, Lwk, OneWriter};
use crate::sync::{AtomicU32, Ordering, REAL, full_fence, in_c, publish};

/// The words of a CPU, of one device.
#[repr(C)]
#[derive(Debug)]
pub struct UseWords {
    begun: OneWriter<AtomicU32, Lwk>,
    ended: OneWriter<AtomicU32, Lwk>,
}

/// A use that has begun, of which a driver makes what it touches the device by.
#[derive(Debug)]
pub struct Begun(());

impl UseWords {
    /// No use yet.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { begun: OneWriter::new(0), ended: OneWriter::new(0) }
    }

    /// LWK: a use has ended on this CPU, once.
    #[inline(always)]
    pub fn end(&self, _: &Begun) {
        self.ended.store(
            Lwk,
            self.ended.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Release,
        );
    }

    /// Module (in C: `hanare_uses`): how many more uses have begun on this CPU than have ended
    /// on it, below zero if those of others have ended here.
    #[must_use]
    pub fn uses<const MUTANT: u8>(&self) -> u32 {
        in_c!(MUTANT, module => module.uses(self.begun.word(), self.ended.word()));
        let ended = self.ended.load(Ordering::Acquire);
        self.begun.load(Ordering::Relaxed).wrapping_sub(ended)
    }
}

/// A grant, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct GrantRef<'a, const MUTANT: u8 = REAL> {
    state: &'a OneWriter<AtomicU32, Linux>,
}

#[cfg(not(loom))]
impl<'a> GrantRef<'a> {
    /// The grant at `grant`.
    ///
    /// # Safety `grant` points to an aligned [`Grant`] that stays mapped for `'a`, and whose state
    /// is accessed only through this crate (or by the module).
    #[must_use]
    pub const unsafe fn from_raw(grant: *mut Grant) -> Self {
        // SAFETY: a word that others may change is an atomic; the caller vouches for the memory.
        let state = unsafe { &*(&raw mut (*grant).state).cast() };
        Self { state }
    }
}

impl<'a, const MUTANT: u8> GrantRef<'a, MUTANT> {
    /// The grant with this state.
    #[must_use]
    #[cfg(loom)]
    pub(crate) const fn new(state: &'a OneWriter<AtomicU32, Linux>) -> Self {
        Self { state }
    }

    /// LWK: begins a use on the CPU with these words, which ends with [`UseWords::end`]. `None`:
    /// the device is gone, and there is no use to be ended.
    #[must_use]
    #[inline(always)]
    pub fn begin(&self, cpu: &UseWords) -> Option<Begun> {
        let count = cpu.begun.load(Ordering::Relaxed).wrapping_add(1);
        cpu.begun.store(Lwk, count, publish::<MUTANT>());
        full_fence::<MUTANT>();
        let begun = Begun(());
        if self.state.load(Ordering::Acquire) == GRANT_THERE {
            return Some(begun);
        }
        cpu.end(&begun);
        None
    }

    /// Module (in C: `hanare_grant_over`): the device is gone. It waits then until all CPUs'
    /// [`uses`](UseWords::uses) add up to zero.
    pub fn over(&self) {
        in_c!(MUTANT, module => module.grant_over(self.state.word()));
        self.state.store(Linux, GRANT_GONE, Ordering::Relaxed);
        full_fence::<MUTANT>();
    }
}

/// Which pair of queues a controller has for a CPU, as the LWK sees it.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub struct PairRef<'a> {
    round: &'a OneWriter<AtomicU32, Linux>,
    id: &'a OneWriter<AtomicU32, Linux>,
}

#[cfg(not(loom))]
impl<'a> PairRef<'a> {
    /// The state at `queue`.
    ///
    /// # Safety
    /// `queue` points to an aligned [`GrantQueue`] that stays mapped for `'a`, and is accessed only
    /// through this crate (or by the module).
    #[must_use]
    pub const unsafe fn from_raw(queue: *mut GrantQueue) -> Self {
        // SAFETY: words that others may change are atomics; the caller vouches for the memory.
        unsafe {
            Self { round: &*(&raw mut (*queue).round).cast(), id: &*(&raw mut (*queue).id).cast() }
        }
    }

    /// LWK: which pair it is. All commands of an earlier one are over.
    #[must_use]
    #[inline(always)]
    pub fn round(&self) -> u32 {
        self.round.load(Ordering::Acquire)
    }

    /// LWK: the number by which the controller knows it, read after [`round`](Self::round); 0:
    /// there is none.
    #[must_use]
    #[inline(always)]
    pub fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }
}
