//! Requests of the module to the LWK, from the LWK's side.

#[cfg(not(loom))]
use hanare_abi::cpus::{CPU_SET_WORDS, CpuSet};
use hanare_abi::frame::GivenPage;
#[cfg(not(loom))]
use hanare_abi::request::Request;
use hanare_abi::request::{PAGES_MAX, REQUEST_DONE, REQUEST_POSTED};
#[cfg(test)]
use hanare_abi::wake::WAIT_GONE;

use crate::same_layout;
use crate::sleeper::Sleeper;
use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, publish};
#[cfg(test)]
use crate::sync::{full_fence, in_c};

/// [`Request`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(64)))]
#[derive(Debug)]
pub struct RequestWords {
    state: AtomicU32,
    kind: AtomicU32,
    space: AtomicU32,
    status: AtomicU32,
    count: AtomicU32,
    reserved0: AtomicU32,
    args: [AtomicU64; 4],
    reserved1: AtomicU64,
    waiter: AtomicU32,
    doorbell: AtomicU32,
    #[cfg(not(loom))]
    reserved3: [AtomicU64; 7],
    pages: [AtomicU64; PAGES_MAX],
    #[cfg(not(loom))]
    cpus: [AtomicU64; CPU_SET_WORDS],
}

same_layout!(RequestWords, Request: state, kind, space, status, count, args, waiter, doorbell, pages, cpus);

/// A request of the module, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCall {
    /// `REQUEST_*` kind.
    pub kind: u32,
    /// Space id or 0.
    pub space: u32,
    /// Meaning depends on `kind`.
    pub args: [u64; 4],
}

/// A request in the shared region.
#[derive(Clone, Copy, Debug)]
pub struct RequestRef<'a, const MUTANT: u8 = REAL> {
    words: &'a RequestWords,
}

#[cfg(not(loom))]
impl<'a> RequestRef<'a> {
    /// The request at `request`.
    ///
    /// # Safety
    /// `request` points to an aligned [`Request`] that stays mapped, readable and
    /// writable for `'a`, and that is accessed only through this crate (or by the
    /// module).
    #[must_use]
    pub const unsafe fn from_raw(request: *mut Request) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; the caller vouches for the memory.
        let words = unsafe { &*request.cast::<RequestWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> RequestRef<'a, MUTANT> {
    /// The request made of these words.
    #[must_use]
    pub const fn new(words: &'a RequestWords) -> Self {
        Self { words }
    }

    fn waiter(&self) -> Sleeper<'a, MUTANT> {
        Sleeper::new(&self.words.waiter)
    }

    /// Reads the request; `None`: none is posted there, so the index was wrong.
    #[must_use]
    pub fn read(&self) -> Option<RequestCall> {
        let words = self.words;
        if words.state.load(Ordering::Acquire) != REQUEST_POSTED {
            return None;
        }
        Some(RequestCall {
            kind: words.kind.load(Ordering::Relaxed),
            space: words.space.load(Ordering::Relaxed),
            args: core::array::from_fn(|i| words.args[i].load(Ordering::Relaxed)),
        })
    }

    /// The siginfo that came with `REQUEST_SIGNAL`: 16 words.
    #[must_use]
    pub fn siginfo(&self) -> [u64; 16] {
        core::array::from_fn(|i| self.words.pages[i].load(Ordering::Relaxed))
    }

    /// All words that came with the request.
    #[must_use]
    pub fn words(&self) -> [u64; PAGES_MAX] {
        core::array::from_fn(|i| self.words.pages[i].load(Ordering::Relaxed))
    }

    /// The CPUs that came with `REQUEST_SPACE_OPEN`.
    #[must_use]
    #[cfg(not(loom))]
    pub fn cpus(&self) -> CpuSet {
        let words = &self.words.cpus;
        CpuSet { words: core::array::from_fn(|i| words[i].load(Ordering::Relaxed)) }
    }

    /// Answers in `args[index]`.
    ///
    /// # Panics
    /// If `index` is above 3.
    pub fn set_arg(&self, index: usize, value: u64) {
        self.words.args[index].store(value, Ordering::Relaxed);
    }

    /// Answers with pages, at most [`PAGES_MAX`]; what is beyond is left out.
    pub fn set_pages(&self, pages: &[GivenPage]) {
        for (word, page) in self.words.pages.iter().zip(pages) {
            word.store(page.word(), Ordering::Relaxed);
        }
        self.set_count(pages.len());
    }

    /// Answers with words, at most [`PAGES_MAX`]; what is beyond is left out.
    pub fn set_words(&self, words: &[u64]) {
        for (place, word) in self.words.pages.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.set_count(words.len());
    }

    fn set_count(&self, count: usize) {
        self.words.count.store(count.min(PAGES_MAX) as u32, Ordering::Relaxed);
    }

    /// The doorbell next to where the waiter sleeps, plus 1; 0: not known. The waiter may be
    /// another one by the time that it is rung.
    #[must_use]
    pub fn doorbell(&self) -> u32 {
        self.words.doorbell.load(Ordering::Relaxed)
    }

    /// Completes the request: `status` is 0, a negative errno or
    /// `STATUS_SERVE_FIRST`. Answers whether `EVENT_REQUEST` has to be sent. The
    /// request is the module's from here on.
    #[must_use]
    pub fn complete(&self, status: i32) -> bool {
        self.words.status.store(status as u32, Ordering::Relaxed);
        self.words.state.store(REQUEST_DONE, publish::<MUTANT>());
        self.waiter().must_be_rung()
    }
}

/// The module's side: for the models and tests. In C: `hanare_request_*`.
#[cfg(test)]
#[allow(dead_code, reason = "used by the models")]
impl<const MUTANT: u8> RequestRef<'_, MUTANT> {
    pub(crate) fn module_post(&self, call: RequestCall) {
        self.waiter().wakes();
        self.words.kind.store(call.kind, Ordering::Relaxed);
        self.words.space.store(call.space, Ordering::Relaxed);
        for (word, arg) in self.words.args.iter().zip(call.args) {
            word.store(arg, Ordering::Relaxed);
        }
        in_c!(MUTANT, module => module.request_publish(&self.words.state));
        self.words.state.store(REQUEST_POSTED, publish::<MUTANT>());
    }

    fn module_is_done(&self) -> bool {
        in_c!(MUTANT, module => module.request_is_done(&self.words.state));
        self.words.state.load(Ordering::Acquire) == REQUEST_DONE
    }

    pub(crate) fn module_poll(&self) -> Option<(i32, u64)> {
        self.module_is_done().then(|| {
            let status = self.words.status.load(Ordering::Relaxed) as i32;
            (status, self.words.args[0].load(Ordering::Relaxed))
        })
    }

    pub(crate) fn module_prepare_sleep(&self) -> bool {
        // The waiter is said to be awake again when the entry is used again.
        in_c!(MUTANT, module => {
            module.request_sleep(&self.words.waiter);
            let is_done = module.request_is_done(&self.words.state);
            if is_done {
                self.waiter().wakes();
            }
            !is_done
        });
        self.waiter().prepare_sleep(|| self.words.state.load(Ordering::Relaxed) == REQUEST_DONE)
    }

    /// The waiter goes away. `true`: the answer is there, and the entry is free. `false`: an event
    /// comes with the answer.
    pub(crate) fn module_abandon(&self) -> bool {
        in_c!(MUTANT, module => module.request_abandon(&self.words.waiter, &self.words.state));
        self.words.waiter.store(WAIT_GONE, Ordering::Relaxed);
        full_fence::<MUTANT>();
        self.module_is_done()
    }
}

#[cfg(loom)]
#[allow(clippy::new_without_default, reason = "for the models")]
impl RequestWords {
    /// A free request.
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            space: AtomicU32::new(0),
            status: AtomicU32::new(0),
            count: AtomicU32::new(0),
            reserved0: AtomicU32::new(0),
            args: core::array::from_fn(|_| AtomicU64::new(0)),
            reserved1: AtomicU64::new(0),
            waiter: AtomicU32::new(0),
            doorbell: AtomicU32::new(0),
            pages: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::mem::MaybeUninit;

    #[test]
    fn a_request_is_answered_in_place() {
        let zeroed = Box::new(MaybeUninit::<Request>::zeroed());
        // SAFETY: a request of zeros is a free request.
        let mut memory: Box<Request> = unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) };
        // SAFETY: the memory outlives it, and nothing else touches it meanwhile.
        let request = unsafe { RequestRef::from_raw(&raw mut *memory) };
        assert_eq!(request.read(), None);
        let call = RequestCall { kind: 5, space: 2, args: [0x1000, 1, 64, 0] };
        request.module_post(call);
        assert_eq!(request.read(), Some(call));
        assert_eq!(request.siginfo(), [0; 16]);
        request.set_words(&[7; 100]);
        request.set_arg(0, 9);
        assert!(!request.complete(-5));
        assert!(!request.module_prepare_sleep());
        assert_eq!(request.module_poll(), Some((-5, 9)));
        request.module_post(call);
        assert!(request.module_prepare_sleep());
        assert!(request.complete(-5));
        assert_eq!((memory.status, memory.count, memory.pages), (-5, 64, [7; 64]));
    }
}
