//! One side of the wake-up protocol between kernels (`docs/wakeup.md`): the word in which it says
//! that it sleeps.

use hanare_abi::wake::{WAIT_ASLEEP, WAIT_AWAKE};

use crate::sync::{AtomicU32, Ordering, REAL, fence_of_exchange, full_fence, in_c};

/// The word in which one side says whether it sleeps. Only that side writes it.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper<'a, const MUTANT: u8 = REAL> {
    word: &'a AtomicU32,
}

impl<'a, const MUTANT: u8> Sleeper<'a, MUTANT> {
    /// The sleeper whose state this word holds (`WAIT_*`).
    #[must_use]
    pub const fn new(word: &'a AtomicU32) -> Self {
        Self { word }
    }

    /// The sleeper stores that it sleeps, then looks once more. `true`: it may sleep, and is rung
    /// for what comes later. `false`: something has come; it is awake again.
    #[must_use]
    #[inline(always)]
    pub fn prepare_sleep(&self, has_come: impl FnOnce() -> bool) -> bool {
        self.word.store(WAIT_ASLEEP, Ordering::Relaxed);
        full_fence::<MUTANT>();
        if has_come() {
            self.wakes();
            return false;
        }
        true
    }

    /// As [`prepare_sleep`](Self::prepare_sleep), for a sleeper that changes another word by an
    /// exchange when it goes to sleep: `exchange` does that, and is the fence.
    #[must_use]
    #[inline(always)]
    pub fn prepare_sleep_by_exchange(
        &self,
        exchange: impl FnOnce(),
        has_come: impl FnOnce() -> bool,
    ) -> bool {
        self.word.store(WAIT_ASLEEP, Ordering::Relaxed);
        exchange();
        fence_of_exchange::<MUTANT>();
        if has_come() {
            self.wakes();
            return false;
        }
        true
    }

    /// The sleeper stores that it is awake, and polls again.
    #[inline(always)]
    pub fn wakes(&self) {
        self.word.store(WAIT_AWAKE, Ordering::Relaxed);
    }

    /// Whether the sleeper has stored that it is awake: a hint, which may be old.
    #[must_use]
    #[inline(always)]
    pub fn is_awake(&self) -> bool {
        self.word.load(Ordering::Relaxed) == WAIT_AWAKE
    }

    /// The module has published something. `true`: it has to ring. In C: `hanare_must_ring`.
    #[must_use]
    pub fn must_be_rung_by_module(&self) -> bool {
        in_c!(MUTANT, module => module.must_ring(self.word));
        self.must_be_rung()
    }

    /// The other side has published something. `true`: it has to ring.
    #[must_use]
    #[inline(always)]
    pub fn must_be_rung(&self) -> bool {
        full_fence::<MUTANT>();
        !self.is_awake()
    }
}
