//! State that a preloaded library (`docs/async.md`) and its one worker have in common: [`Worker`]
//! says whether there is one, [`Nap`] whether it sleeps and how it is woken, [`Progress`] which
//! threads wait until it has done so many calls.

use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, full_fence};

/// Mutant for the models: a worker is there as soon as a thread starts one.
pub const THERE_EARLY: u8 = 50;
/// Mutant for the models: the thread that starts a worker does not look again whether that is
/// allowed.
pub const STARTS_BLINDLY: u8 = 51;
/// Mutant for the models: a waiter is woken with the call behind that for which it waits.
pub const WAKES_LATE: u8 = 52;
/// Mutant for the models: the waker changes the word first, and forgets those that have said that
/// they wait then.
pub const FORGETS_LATE: u8 = 53;
/// Mutant for the models: a worker that turns to the other way to sleep says so even where it has
/// been woken.
pub const TURNS_BLINDLY: u8 = 54;

const NONE: u32 = 0;
const STARTS: u32 = 1;
const RUNS: u32 = 2;
const ENDS: u32 = 3;
/// The worker could not be started. No thread tries again.
const FAILED: u32 = 4;

/// Whether there is a worker. Nothing is posted for one that has not started: it may fail to, and
/// what it needs is not there yet.
#[derive(Debug)]
#[repr(transparent)]
pub struct Worker<const MUTANT: u8 = REAL>(AtomicU32);

impl<const MUTANT: u8> Default for Worker<MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MUTANT: u8> Worker<MUTANT> {
    /// There is none.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// In the child of a fork: there is none.
    pub fn reset(&self) {
        self.0.store(NONE, Ordering::Release);
    }

    /// Whether calls may be posted for it: what it needs is there as well.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let state = self.0.load(Ordering::Acquire);
        state == RUNS || MUTANT == THERE_EARLY && state == STARTS
    }

    /// Whether there is one, or one is being started or ended. False behind a look by which no
    /// worker is wanted any more: there will be none.
    #[must_use]
    pub fn may_be_there(&self) -> bool {
        full_fence::<MUTANT>();
        !matches!(self.0.load(Ordering::Acquire), NONE | FAILED)
    }

    /// Whether the caller has to start it, and to say [`Worker::started`] then. `is_off`: no worker
    /// is wanted any more, see [`Worker::begin_end`].
    #[must_use]
    pub fn begin_start(&self, is_off: impl Fn() -> bool) -> bool {
        if self.0.load(Ordering::Relaxed) != NONE || is_off() {
            return false;
        }
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        if self.0.compare_exchange(NONE, STARTS, order.0, order.1).is_err() {
            return false;
        }
        full_fence::<MUTANT>();
        if MUTANT != STARTS_BLINDLY && is_off() {
            self.0.store(NONE, Ordering::Release);
            return false;
        }
        true
    }

    /// The worker has started, or could not be.
    pub fn started(&self, is_there: bool) {
        self.0.store(if is_there { RUNS } else { FAILED }, Ordering::Release);
    }

    /// No worker is wanted any more: whether the caller has to end it, and to say [`Worker::ended`]
    /// then. Otherwise there is none. Waits, by `pause`, for the thread that starts or ends the
    /// worker.
    #[must_use]
    pub fn begin_end(&self, mut pause: impl FnMut()) -> bool {
        full_fence::<MUTANT>();
        loop {
            match self.0.load(Ordering::Acquire) {
                NONE | FAILED => return false,
                RUNS => {
                    let order = (Ordering::AcqRel, Ordering::Relaxed);
                    if self.0.compare_exchange(RUNS, ENDS, order.0, order.1).is_ok() {
                        return true;
                    }
                }
                _ => pause(),
            }
        }
    }

    /// The worker has ended.
    pub fn ended(&self) {
        self.0.store(NONE, Ordering::Release);
    }
}

/// No thread waits.
const NOBODY: u64 = u64::MAX;

/// Calls that the worker has done, and the threads that wait for so many. Waiters sleep on a word
/// that changes when the first of them may go on: the others look again, and sleep again.
#[derive(Debug)]
pub struct Progress<const MUTANT: u8 = REAL> {
    /// The least number that a thread waits for.
    awaited: AtomicU64,
    word: AtomicU32,
}

impl<const MUTANT: u8> Default for Progress<MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MUTANT: u8> Progress<MUTANT> {
    /// No thread waits.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { awaited: AtomicU64::new(NOBODY), word: AtomicU32::new(0) }
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self { awaited: AtomicU64::new(NOBODY), word: AtomicU32::new(0) }
    }

    /// In the child of a fork: no thread waits.
    pub fn reset(&self) {
        self.awaited.store(NOBODY, Ordering::Release);
    }

    /// Word on which waiters sleep.
    pub const fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Waiter for so many: sleeps while the word has this value, and asks again then. `None`: they
    /// are done.
    #[must_use]
    pub fn prepare_sleep(&self, count: u64, done: impl FnOnce() -> u64) -> Option<u32> {
        // Before it says that it waits: the waker forgets all that have said so, and changes the
        // word behind that.
        let value = self.word.load(Ordering::Acquire);
        self.awaited.fetch_min(count + u64::from(MUTANT == WAKES_LATE), Ordering::AcqRel);
        full_fence::<MUTANT>();
        (done() < count).then_some(value)
    }

    /// Worker, when so many are done: whether it wakes all that sleep. One look, where no thread
    /// waits for these.
    #[must_use]
    pub fn wakes(&self, done: u64) -> bool {
        full_fence::<MUTANT>();
        if self.awaited.load(Ordering::Relaxed) > done {
            return false;
        }
        if MUTANT == FORGETS_LATE {
            self.word.fetch_add(1, Ordering::AcqRel);
        }
        let _ = self.awaited.swap(NOBODY, Ordering::AcqRel);
        if MUTANT != FORGETS_LATE {
            self.word.fetch_add(1, Ordering::AcqRel);
        }
        true
    }
}

const AWAKE: u32 = 0;
const BY_FUTEX: u32 = 1;
const RUNG: u32 = 2;

/// Way in which a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// On the futex that is [`Nap::word`], while that has the value [`Nap::VALUE`].
    Futex,
    /// On Linux, until a thread of the LWK rings it (`PR_HANARE_RUN_ON`). A ring that comes before
    /// it sleeps counts.
    Rung,
}

/// Whether the worker sleeps, or is about to, and in which way.
#[derive(Debug)]
#[repr(transparent)]
pub struct Nap<const MUTANT: u8 = REAL>(AtomicU32);

impl<const MUTANT: u8> Default for Nap<MUTANT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MUTANT: u8> Nap<MUTANT> {
    /// The futex has this value while a worker sleeps on it.
    pub const VALUE: u32 = BY_FUTEX;

    /// The worker is awake.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// In the child of a fork: no thread sleeps.
    pub fn reset(&self) {
        self.0.store(AWAKE, Ordering::Release);
    }

    /// The futex.
    pub const fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Worker: whether it is to sleep in this way now, and to ask again then. Not where `has_work`
    /// says that something was posted.
    #[must_use]
    pub fn begins(&self, way: Way, has_work: impl FnOnce() -> bool) -> bool {
        self.0.store(if way == Way::Futex { BY_FUTEX } else { RUNG }, Ordering::Release);
        full_fence::<MUTANT>();
        if has_work() {
            self.0.store(AWAKE, Ordering::Release);
            return false;
        }
        true
    }

    /// Worker, which is about to sleep until it is rung and finds that it cannot: whether it sleeps
    /// on the futex instead. It may have been rung.
    #[must_use]
    pub fn turns_to_futex(&self) -> bool {
        if MUTANT == TURNS_BLINDLY {
            self.0.store(BY_FUTEX, Ordering::Release);
            return true;
        }
        self.0.compare_exchange(RUNG, BY_FUTEX, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// How the worker has to be woken by the thread that has posted something. `None`: not at all.
    #[must_use]
    pub fn wakes(&self) -> Option<Way> {
        full_fence::<MUTANT>();
        if self.0.load(Ordering::Relaxed) == AWAKE {
            return None;
        }
        match self.0.swap(AWAKE, Ordering::AcqRel) {
            AWAKE => None,
            BY_FUTEX => Some(Way::Futex),
            _ => Some(Way::Rung),
        }
    }
}
