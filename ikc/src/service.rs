//! Services: what the LWK asks of the module, from the LWK's side.

#[cfg(not(loom))]
use hanare_abi::service::Service;
use hanare_abi::service::{EXTENTS_MAX, SERVICE_DONE, SERVICE_FREE, SERVICE_RUNNING};

use crate::same_layout;
use crate::sleeper::Sleeper;
use crate::sync::{AtomicU32, AtomicU64, NO_EXCHANGE, Ordering, REAL, in_c, publish};

/// [`Service`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(64)))]
#[derive(Debug)]
pub struct ServiceWords {
    /// The state, and above it the space: the module claims an entry by both.
    state: AtomicU64,
    kind: AtomicU32,
    count: AtomicU32,
    status: AtomicU64,
    args: [AtomicU64; 5],
    held: AtomicU64,
    #[cfg(not(loom))]
    reserved0: [AtomicU64; 7],
    cpu: AtomicU32,
    lwk_wait: AtomicU32,
    #[cfg(not(loom))]
    reserved1: [AtomicU64; 7],
    extents: [AtomicU64; EXTENTS_MAX],
}

same_layout!(ServiceWords, Service: state, kind, count, status, args, held, cpu, lwk_wait, extents);

/// A service that the LWK asks of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCall<'a> {
    /// `SERVICE_*` kind.
    pub kind: u32,
    /// Space it belongs to, or 0 for none.
    pub space: u32,
    /// Arguments, by the kind.
    pub args: [u64; 5],
    /// Frames: address | pages - 1; at most [`EXTENTS_MAX`], the rest is left out.
    pub extents: &'a [u64],
    /// Thread or process to run, of `SERVICE_READY*`.
    pub ready: u32,
}

/// A service entry in the shared region. Each entry belongs to one LWK CPU, which
/// keeps count of those it uses.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRef<'a, const MUTANT: u8 = REAL> {
    words: &'a ServiceWords,
}

#[cfg(not(loom))]
impl<'a> ServiceRef<'a> {
    /// The entry at `service`.
    ///
    /// # Safety
    /// `service` points to an aligned [`Service`] that stays mapped, readable and
    /// writable for `'a`, and that is accessed only through this crate (or by the
    /// module).
    #[must_use]
    pub const unsafe fn from_raw(service: *mut Service) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; the caller vouches for the memory.
        let words = unsafe { &*service.cast::<ServiceWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> ServiceRef<'a, MUTANT> {
    /// The entry made of these words.
    #[must_use]
    pub const fn new(words: &'a ServiceWords) -> Self {
        Self { words }
    }

    fn sleeper(&self) -> Sleeper<'a, MUTANT> {
        Sleeper::new(&self.words.lwk_wait)
    }

    fn state(&self, order: Ordering) -> u32 {
        self.words.state.load(order) as u32
    }

    /// Takes the entry from one state to another by one exchange. `false`: the other side was
    /// first.
    fn takes(&self, from: u64, to: u64) -> bool {
        let word = &self.words.state;
        if MUTANT == NO_EXCHANGE {
            word.store(to, Ordering::Release);
            return true;
        }
        word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the entry is not in use.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.state(Ordering::Acquire) == SERVICE_FREE
    }

    /// Fills a free entry in; it can be run from here on. No side is rung until
    /// [`prepare_sleep`](Self::prepare_sleep).
    pub fn prepare(&self, call: &ServiceCall<'_>) {
        let words = self.words;
        words.kind.store(call.kind, Ordering::Relaxed);
        words.status.store(0, Ordering::Relaxed);
        words.held.store(0, Ordering::Relaxed);
        for (word, arg) in words.args.iter().zip(call.args) {
            word.store(arg, Ordering::Relaxed);
        }
        for (word, extent) in words.extents.iter().zip(call.extents) {
            word.store(*extent, Ordering::Relaxed);
        }
        words.count.store(call.extents.len().min(EXTENTS_MAX) as u32, Ordering::Relaxed);
        self.awake();
        words.state.store(owned(call.space, call.ready), publish::<MUTANT>());
    }

    /// The status, when the service is done: see the kind.
    #[must_use]
    pub fn poll(&self) -> Option<i64> {
        (self.state(Ordering::Acquire) == SERVICE_DONE)
            .then(|| self.words.status.load(Ordering::Relaxed) as i64)
    }

    /// Asks for CPU `cpu` (index in the instance) to be rung and looks once more. `true`: may
    /// sleep, will be rung. `false`: it is done.
    #[must_use]
    pub fn prepare_sleep(&self, cpu: u32) -> bool {
        self.words.cpu.store(cpu, Ordering::Relaxed);
        self.sleeper().prepare_sleep(|| self.state(Ordering::Relaxed) == SERVICE_DONE)
    }

    /// LWK: stores that no thread sleeps on this service any more.
    pub fn awake(&self) {
        self.sleeper().wakes();
    }

    /// The answer's args, after [`poll`](Self::poll) gave a status.
    #[must_use]
    pub fn args(&self) -> [u64; 5] {
        core::array::from_fn(|i| self.words.args[i].load(Ordering::Relaxed))
    }

    /// `held` of the answer: bit i = Linux still holds a frame of extent i.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.words.held.load(Ordering::Relaxed)
    }

    /// Copies the answer's extents, at most as many as fit, and answers how many.
    pub fn extents(&self, to: &mut [u64]) -> usize {
        let count = (self.words.count.load(Ordering::Relaxed) as usize).min(EXTENTS_MAX);
        for (to, word) in to.iter_mut().zip(&self.words.extents[..count]) {
            *to = word.load(Ordering::Relaxed);
        }
        count.min(to.len())
    }

    /// Gives the entry back, after it is done or before it is run. `false`: it is being run, and
    /// its frames are Linux' until it is done.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        let word = self.words.state.load(Ordering::Acquire);
        let free = owned(0, SERVICE_FREE);
        match word as u32 {
            SERVICE_RUNNING => false,
            SERVICE_DONE | SERVICE_FREE => {
                self.words.state.store(free, Ordering::Release);
                true
            }
            _ready => self.takes(word, free),
        }
    }

    /// Module (in C: `hanare_service_claim`): claims an entry of `space` that is ready for it.
    #[must_use]
    pub fn module_begin(&self, space: u32, ready: u32) -> bool {
        in_c!(MUTANT, module => module.service_claim(&self.words.state, space, ready));
        self.takes(owned(space, ready), owned(space, SERVICE_RUNNING))
    }

    /// Whether the entry is being run.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_running(&self) -> bool {
        self.state(Ordering::Relaxed) == SERVICE_RUNNING
    }

    /// Module: finishes what it has begun. Answers whether to ring the CPU.
    #[must_use]
    pub fn module_complete(&self, space: u32, status: i64) -> bool {
        self.words.status.store(status as u64, Ordering::Relaxed);
        self.module_finish(space);
        self.sleeper().must_be_rung_by_module()
    }

    /// The part of [`module_complete`](Self::module_complete) that publishes. In C:
    /// `hanare_service_finish`.
    fn module_finish(&self, space: u32) {
        in_c!(MUTANT, module => module.service_finish(&self.words.state, space));
        self.words.state.store(owned(space, SERVICE_DONE), publish::<MUTANT>());
    }
}

/// The word of an entry of `space` in a state.
const fn owned(space: u32, state: u32) -> u64 {
    (space as u64) << 32 | state as u64
}

#[cfg(loom)]
#[allow(clippy::new_without_default, reason = "for the models")]
impl ServiceWords {
    /// A free entry.
    pub fn new() -> Self {
        Self {
            state: AtomicU64::new(owned(0, SERVICE_FREE)),
            kind: AtomicU32::new(0),
            count: AtomicU32::new(0),
            status: AtomicU64::new(0),
            args: core::array::from_fn(|_| AtomicU64::new(0)),
            held: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            lwk_wait: AtomicU32::new(0),
            extents: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use hanare_abi::service::{SERVICE_READY, SERVICE_READY_FAULT};
    use std::boxed::Box;
    use std::mem::MaybeUninit;

    #[test]
    fn an_entry_is_prepared_executed_and_free_again() {
        let zeroed = Box::new(MaybeUninit::<Service>::zeroed());
        // SAFETY: an entry of zeros is a free entry.
        let mut memory: Box<Service> = unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) };
        // SAFETY: the memory outlives it, and nothing else touches it meanwhile.
        let service = unsafe { ServiceRef::from_raw(&raw mut *memory) };
        assert!(service.is_free());
        let extents = [0x20_0000 | 511; 70];
        service.prepare(&ServiceCall {
            kind: 3,
            space: 1,
            args: [1, 2, 3, 4, 5],
            extents: &extents,
            ready: SERVICE_READY_FAULT,
        });
        assert_eq!(service.poll(), None);
        assert!(service.prepare_sleep(1));
        assert!(!service.module_begin(1, SERVICE_READY)); // not for a worker
        assert!(service.module_begin(1, SERVICE_READY_FAULT));
        assert!(!service.withdraw());
        assert!(!service.module_begin(1, SERVICE_READY_FAULT));
        assert!(service.module_complete(1, 4096));
        assert!(!service.prepare_sleep(1));
        assert_eq!(service.poll(), Some(4096));
        let mut copy = [0; 3];
        assert_eq!((service.extents(&mut copy), copy), (3, [0x20_01ff; 3]));
        assert_eq!((service.args(), service.held()), ([1, 2, 3, 4, 5], 0));
        assert!(service.withdraw() && service.is_free());
        service.prepare(&ServiceCall {
            kind: 3,
            space: 1,
            args: [0; 5],
            extents: &[],
            ready: SERVICE_READY,
        });
        assert!(service.withdraw() && service.withdraw() && service.is_free());
        assert!(!service.module_begin(1, SERVICE_READY));
        memory.count = u32::MAX;
        // SAFETY: as above.
        let service = unsafe { ServiceRef::from_raw(&raw mut *memory) };
        assert_eq!(service.extents(&mut [0; 100]), EXTENTS_MAX);
    }
}
