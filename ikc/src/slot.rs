//! The slot: one delegated call at a time between a thread and its worker.

#[cfg(not(loom))]
use hanare_abi::slot::Slot;
use hanare_abi::slot::{SLOT_DONE, SLOT_IDLE, SLOT_REQUESTED, WAIT_ASLEEP, WAIT_AWAKE};

use crate::same_layout;
use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, full_fence, publish};

/// [`Slot`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(128)))]
#[derive(Debug)]
pub struct SlotWords {
    pub(crate) state: AtomicU32,
    nr: AtomicU32,
    args: [AtomicU64; 6],
    result: AtomicU64,
    worker_wait: AtomicU32,
    lwk_wait: AtomicU32,
    bell: AtomicU32,
    poll_us: AtomicU32,
    sigmask: AtomicU64,
    tid: AtomicU32,
    reserved0: AtomicU32,
    robust_list: AtomicU64,
    #[cfg(not(loom))]
    reserved: [AtomicU64; 2],
}

same_layout!(SlotWords, Slot:
    state, nr, args, result, worker_wait, lwk_wait, bell, poll_us, sigmask, tid, robust_list);

#[cfg(loom)]
#[allow(clippy::new_without_default, reason = "for the models")]
impl SlotWords {
    /// An idle slot.
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(SLOT_IDLE),
            nr: AtomicU32::new(0),
            args: core::array::from_fn(|_| AtomicU64::new(0)),
            result: AtomicU64::new(0),
            worker_wait: AtomicU32::new(WAIT_AWAKE),
            lwk_wait: AtomicU32::new(WAIT_AWAKE),
            bell: AtomicU32::new(0),
            poll_us: AtomicU32::new(0),
            sigmask: AtomicU64::new(0),
            tid: AtomicU32::new(0),
            reserved0: AtomicU32::new(0),
            robust_list: AtomicU64::new(0),
        }
    }
}

/// A slot in shared memory, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct SlotRef<'a, const MUTANT: u8 = REAL> {
    words: &'a SlotWords,
}

impl<'a> SlotRef<'a> {
    /// The slot at `slot`.
    ///
    /// # Safety
    /// `slot` points to a [`Slot`] aligned to 128 bytes that stays mapped,
    /// readable and writable for `'a`, and that is accessed only through this
    /// crate (or by the other side's equivalent).
    #[must_use]
    #[cfg(not(loom))]
    pub const unsafe fn from_raw(slot: *mut Slot) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; the caller vouches for the memory.
        let words = unsafe { &*slot.cast::<SlotWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> SlotRef<'a, MUTANT> {
    /// The slot made of these words.
    #[must_use]
    pub const fn new(words: &'a SlotWords) -> Self {
        Self { words }
    }

    /// LWK: posts a call. The slot is idle. Answers whether the worker sleeps
    /// and has to be rung (`EVENT_SLOT`).
    #[must_use]
    pub fn lwk_post(&self, nr: u32, args: [u64; 6]) -> bool {
        let words = self.words;
        words.nr.store(nr, Ordering::Relaxed);
        for (word, arg) in words.args.iter().zip(args) {
            word.store(arg, Ordering::Relaxed);
        }
        words.state.store(SLOT_REQUESTED, publish::<MUTANT>());
        full_fence::<MUTANT>();
        words.worker_wait.load(Ordering::Relaxed) == WAIT_ASLEEP
    }

    /// LWK: takes the result if the call is done; the slot is idle then.
    #[must_use]
    pub fn lwk_poll(&self) -> Option<i64> {
        if self.words.state.load(Ordering::Acquire) != SLOT_DONE {
            return None;
        }
        let result = self.words.result.load(Ordering::Relaxed);
        self.words.state.store(SLOT_IDLE, Ordering::Relaxed);
        Some(result as i64)
    }

    /// LWK: says that this thread is about to sleep and looks once more. `true`:
    /// it may sleep, and will be rung: its bell is one ring richer already. `false`: the
    /// result is there.
    #[must_use]
    pub fn lwk_prepare_sleep(&self) -> bool {
        self.words.lwk_wait.store(WAIT_ASLEEP, Ordering::Relaxed);
        full_fence::<MUTANT>();
        if self.words.state.load(Ordering::Relaxed) == SLOT_DONE {
            self.lwk_awake();
            return false;
        }
        true
    }

    /// LWK: whether the worker polls or works (as far as it has told).
    #[must_use]
    pub fn worker_is_awake(&self) -> bool {
        self.words.worker_wait.load(Ordering::Relaxed) == WAIT_AWAKE
    }

    /// Worker: whether the LWK's thread polls or works (as far as it has told).
    #[must_use]
    pub fn lwk_is_awake(&self) -> bool {
        self.words.lwk_wait.load(Ordering::Relaxed) == WAIT_AWAKE
    }

    /// LWK: says that this thread polls again.
    pub fn lwk_awake(&self) {
        self.words.lwk_wait.store(WAIT_AWAKE, Ordering::Relaxed);
    }

    /// LWK: whether a call can be posted.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.words.state.load(Ordering::Relaxed) == SLOT_IDLE
    }

    /// LWK: makes the slot of a new thread: idle, nobody asleep.
    pub fn lwk_reset(&self) {
        self.lwk_awake();
        self.words.worker_wait.store(WAIT_AWAKE, Ordering::Relaxed);
        self.words.state.store(SLOT_IDLE, Ordering::Release);
    }

    /// Worker: the call to execute, if there is one: number and arguments.
    #[must_use]
    pub fn worker_poll(&self) -> Option<(u32, [u64; 6])> {
        let words = self.words;
        if words.state.load(Ordering::Acquire) != SLOT_REQUESTED {
            return None;
        }
        let nr = words.nr.load(Ordering::Relaxed);
        Some((nr, core::array::from_fn(|i| words.args[i].load(Ordering::Relaxed))))
    }

    /// Worker: says that it is about to sleep and looks once more. `true`: it may
    /// sleep (`IOCTL_WAIT`), and will be rung. `false`: a call is there.
    #[must_use]
    pub fn worker_prepare_sleep(&self) -> bool {
        self.words.worker_wait.store(WAIT_ASLEEP, Ordering::Relaxed);
        full_fence::<MUTANT>();
        if self.words.state.load(Ordering::Relaxed) == SLOT_REQUESTED {
            self.worker_awake();
            return false;
        }
        true
    }

    /// Worker: says that it polls again.
    pub fn worker_awake(&self) {
        self.words.worker_wait.store(WAIT_AWAKE, Ordering::Relaxed);
    }

    /// Worker: answers the call. Answers whether the LWK thread sleeps and its
    /// CPU has to be rung (`IOCTL_RING`).
    #[must_use]
    pub fn worker_complete(&self, result: i64) -> bool {
        self.words.result.store(result as u64, Ordering::Relaxed);
        self.words.state.store(SLOT_DONE, publish::<MUTANT>());
        full_fence::<MUTANT>();
        self.words.lwk_wait.load(Ordering::Relaxed) == WAIT_ASLEEP
    }

    /// Bell to ring for this thread.
    #[must_use]
    pub fn bell(&self) -> u32 {
        self.words.bell.load(Ordering::Relaxed)
    }

    /// LWK: sets the bell to ring; before [`lwk_prepare_sleep`](Self::lwk_prepare_sleep).
    pub fn set_bell(&self, bell: u32) {
        self.words.bell.store(bell, Ordering::Relaxed);
    }

    /// How long the worker polls before it sleeps, microseconds.
    #[must_use]
    pub fn poll_us(&self) -> u32 {
        self.words.poll_us.load(Ordering::Relaxed)
    }

    /// LWK: sets how long the worker polls, microseconds; 0: not at all.
    pub fn set_poll_us(&self, poll_us: u32) {
        self.words.poll_us.store(poll_us, Ordering::Relaxed);
    }

    /// Signal mask the worker must have during the next call (bit n-1 = signal n).
    #[must_use]
    pub fn sigmask(&self) -> u64 {
        self.words.sigmask.load(Ordering::Relaxed)
    }

    /// LWK: sets the mask, before [`lwk_post`](Self::lwk_post).
    pub fn set_sigmask(&self, mask: u64) {
        self.words.sigmask.store(mask, Ordering::Relaxed);
    }

    /// The list of robust futexes that Linux has to know of during the next call.
    #[must_use]
    pub fn robust_list(&self) -> u64 {
        self.words.robust_list.load(Ordering::Relaxed)
    }

    /// LWK: sets that, before [`lwk_post`](Self::lwk_post).
    pub fn set_robust_list(&self, head: u64) {
        self.words.robust_list.store(head, Ordering::Relaxed);
    }

    /// Linux thread id of the worker.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.words.tid.load(Ordering::Relaxed)
    }

    /// Worker: says who it is.
    pub fn set_tid(&self, tid: u32) {
        self.words.tid.store(tid, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::mem::MaybeUninit;

    fn slot() -> Box<Slot> {
        let zeroed = Box::new(MaybeUninit::<Slot>::zeroed());
        // SAFETY: a slot of zeros is a slot.
        unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) }
    }

    #[test]
    fn one_call() {
        let mut memory = slot();
        // SAFETY: the memory outlives both, and nothing else touches it.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        assert!(side.is_idle());
        assert_eq!(side.worker_poll(), None);
        assert!(side.worker_prepare_sleep());
        assert!(side.lwk_post(1, [1, 2, 3, 4, 5, 6]));
        side.worker_awake();
        assert_eq!(side.lwk_poll(), None);
        assert_eq!(side.worker_poll(), Some((1, [1, 2, 3, 4, 5, 6])));
        assert!(!side.worker_prepare_sleep());
        assert!(side.lwk_prepare_sleep());
        assert!(side.worker_complete(-14));
        assert!(!side.lwk_prepare_sleep());
        assert_eq!(side.lwk_poll(), Some(-14));
        assert_eq!(side.lwk_poll(), None);
        side.set_bell(9);
        side.set_poll_us(50);
        side.set_sigmask(1 << 63);
        side.set_tid(7);
        side.set_robust_list(1 << 40);
        assert_eq!((side.bell(), side.poll_us(), side.sigmask(), side.tid()), (9, 50, 1 << 63, 7));
        assert_eq!((memory.bell, memory.poll_us, memory.sigmask, memory.tid), (9, 50, 1 << 63, 7));
        assert_eq!(
            (memory.state, memory.nr, memory.result, memory.robust_list),
            (SLOT_IDLE, 1, -14, 1 << 40)
        );
    }

    #[test]
    fn threads() {
        const CALLS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let mut memory = slot();
        // SAFETY: the memory outlives both threads, and nothing else touches it.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for call in 0..CALLS {
                    let (nr, args) = loop {
                        match side.worker_poll() {
                            Some(found) => break found,
                            None => std::thread::yield_now(),
                        }
                    };
                    assert_eq!((nr, args), (call as u32, [call; 6]));
                    let _ = side.worker_complete(-(call as i64));
                }
            });
            for call in 0..CALLS {
                let _ = side.lwk_post(call as u32, [call; 6]);
                let result = loop {
                    match side.lwk_poll() {
                        Some(result) => break result,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(result, -(call as i64));
            }
        });
    }
}
