//! A pooled proxy: whose it is, and whether it has begun with a call (`abi/src/pooled.rs`).
//!
//! One word decides three races: two tasks want the same proxy; a task wants one that is about to
//! leave; a proxy dies, and the task has to know whether its call was begun.

#[cfg(not(loom))]
use hanare_abi::pooled::Member;
use hanare_abi::pooled::{MEMBER_BEGUN, MEMBER_CLAIMED, MEMBER_FREE, MEMBER_LEAVES};

use crate::same_layout;
use crate::sync::{AtomicU32, BEGINS_LATE, Ordering, REAL, takes};

/// [`Member`] as atomics.
#[repr(C)]
#[derive(Debug)]
pub struct MemberWords {
    state: AtomicU32,
    reserved: AtomicU32,
}

same_layout!(MemberWords, Member: state, reserved);

impl MemberWords {
    /// The words of a proxy that no task has.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { state: AtomicU32::new(MEMBER_FREE), reserved: AtomicU32::new(0) }
    }
}

/// The page of a pooled proxy. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct MemberRef<'a, const MUTANT: u8 = REAL> {
    words: &'a MemberWords,
}

impl MemberRef<'_> {
    /// The page at `page`.
    ///
    /// # Safety
    /// `page` points to an aligned [`Member`] that stays mapped, readable and writable for the
    /// lifetime, and that is accessed only through this crate.
    #[must_use]
    #[cfg(not(loom))]
    pub const unsafe fn from_raw(page: *mut Member) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which others may change;
        // the caller vouches for the memory.
        let words = unsafe { &*page.cast::<MemberWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> MemberRef<'a, MUTANT> {
    /// The page made of these words.
    #[must_use]
    pub const fn new(words: &'a MemberWords) -> Self {
        Self { words }
    }

    /// LWK: takes a proxy that no task has. False: another CPU was faster, or it leaves.
    #[must_use]
    pub fn claim(&self) -> bool {
        let state = &self.words.state;
        // A look first: a busy one's line stays where it is.
        state.load(Ordering::Relaxed) == MEMBER_FREE
            && takes::<MUTANT>(state, MEMBER_FREE, MEMBER_CLAIMED)
    }

    /// LWK, whose proxy it is: before a call is sent. What was begun before is over.
    pub fn prepare(&self) {
        self.words.state.store(MEMBER_CLAIMED, Ordering::Relaxed);
    }

    /// LWK, whose proxy it is: gives it back to the pool, for any task.
    pub fn free(&self) {
        self.words.state.store(MEMBER_FREE, Ordering::Release);
    }

    /// LWK, when the proxy is gone: whether it may have executed something of the call that it was
    /// sent.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.words.state.load(Ordering::Acquire) != MEMBER_CLAIMED
    }

    /// Proxy: before it executes anything of a call, which it does by calling `execute`.
    pub fn begin<R>(&self, execute: impl FnOnce() -> R) -> R {
        let begun = || self.words.state.store(MEMBER_BEGUN, Ordering::Release);
        if MUTANT == BEGINS_LATE {
            let result = execute();
            begun();
            return result;
        }
        begun();
        execute()
    }

    /// Proxy, which has had nothing to do for a while. True: no task takes it now, and it ends.
    #[must_use]
    pub fn leave(&self) -> bool {
        takes::<MUTANT>(&self.words.state, MEMBER_FREE, MEMBER_LEAVES)
    }
}
