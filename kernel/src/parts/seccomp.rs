//! Which system calls a thread may make: its mode and its filters.

use crate::base::accounts::Charge;
use crate::base::heap;
use crate::base::lock::{Mutex, rank};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use hanare_core::seccomp::worker::always_notifies;
use hanare_core::seccomp::{Data, Program, action};

/// No call is judged.
pub const NONE: u8 = 0;
/// SECCOMP_MODE_STRICT.
pub const STRICT: u8 = 1;
/// SECCOMP_MODE_FILTER.
pub const FILTER: u8 = 2;

/// Filters, the latest last.
pub type Filters = Option<Arc<Vec<Arc<Filter>>>>;

/// A program of a filter, which its user is charged for as long as any thread has it.
pub struct Filter {
    /// The filter's instructions, checked.
    pub program: Program,
    /// Id of its listener (`SERVICE_LISTENER`), or 0. Set before any thread has the filter.
    pub listener: AtomicU64,
    /// The listener's calls wait for the answer once they have been received
    /// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).
    pub waits: bool,
    /// The charge of the filter's user for its memory.
    pub _charge: Charge,
}

impl Filter {
    /// Whether its listener is told of each call `number`, whatever its arguments.
    pub fn always_notifies(&self, number: u32) -> bool {
        heap::fallible(|| always_notifies(self.instructions(), number)).unwrap_or(false)
    }
}

impl Deref for Filter {
    type Target = Program;
    fn deref(&self) -> &Program {
        &self.program
    }
}

/// Filters of one thread, and what follows from them.
#[derive(Default)]
pub struct Seccomp {
    /// [`NONE`], [`STRICT`], [`FILTER`].
    pub mode: AtomicU8,
    /// The thread's filters.
    pub filters: Mutex<Filters, rank::SeccompFilters>,
    /// The number by which the module knows the execve that the thread makes, if a listener decides
    /// about it when Linux makes it: such an execve goes no other way. 0: none.
    pub departs: AtomicU64,
}

/// The mode and the filters that a new thread or process gets from its creator.
#[derive(Clone)]
pub struct Inherited(pub u8, pub Filters);

impl Seccomp {
    /// The mode as PR_GET_SECCOMP shows it.
    pub fn mode(&self) -> u8 {
        self.mode.load(Ordering::Acquire)
    }

    /// The state as [`ThreadInfo`](hanare_abi::info::ThreadInfo) has it.
    pub fn told(&self) -> u32 {
        let filters = self.filters.lock().as_ref().map_or(0, |f| f.len());
        u32::from(self.mode()) | (filters as u32) << 2
    }

    /// The part that a new thread or process inherits.
    pub fn inherited(&self) -> Inherited {
        let filters = self.filters.lock();
        Inherited(self.mode(), filters.clone())
    }

    /// Takes what a creator had.
    pub fn inherit(&self, from: Inherited) {
        let old = {
            let mut filters = self.filters.lock();
            self.mode.store(from.0, Ordering::Release);
            core::mem::replace(&mut *filters, from.1)
        };
        drop(old);
    }

    /// The filters' answer about a call, and the listener of the filter that gives it, or 0.
    pub fn answer(&self, data: &Data) -> (u32, u64) {
        let filters = self.filters.lock().clone();
        let all = filters.as_ref().map_or(&[][..], |f| f);
        let answers = all.iter().rev().map(|f| (f.run(data), f.listener.load(Ordering::Relaxed)));
        // Of equal ones the latest filter's; min_by_key gives the first.
        answers.min_by_key(|(a, _)| (a & action::MASK) as i32).unwrap_or((action::ALLOW, 0))
    }

    /// The filter with this listener.
    pub fn with_listener(&self, listener: u64) -> Option<Arc<Filter>> {
        let filters = self.filters.lock().clone()?;
        filters.iter().find(|f| f.listener.load(Ordering::Relaxed) == listener).cloned()
    }
}
