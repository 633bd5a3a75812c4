//! What processes share that share a space: the space itself, its futexes, the list of them.

use crate::base::accounts::Charge;
use crate::base::counts::{Counted, Kind};
use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, Rank, rank};
use crate::mm::space::Space;
use crate::parts::futexes::Futexes;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_core::errno::Result;

/// No request waits for the end of a space.
pub const NO_REQUEST: u32 = u32::MAX;

/// What is in a list, the newest one first. One that goes from there meanwhile moves only those
/// that have been seen, which may be seen again.
pub fn newest_first<T, R: Rank>(all: &Mutex<Vec<Arc<T>>, R>) -> impl Iterator<Item = Arc<T>> + '_ {
    let mut left = usize::MAX;
    core::iter::from_fn(move || {
        let all = all.lock();
        left = left.min(all.len()).checked_sub(1)?;
        all.get(left).cloned()
    })
}

/// A space and the processes that have it. It dereferences to its [`Space`].
pub struct ProcessSpace<P, T> {
    memory: Space,
    /// Waiters on futexes in private memory.
    pub futexes: Mutex<Futexes<T>, rank::FutexQueues>,
    /// Who has it, the first one first. Never empty once it is open.
    pub processes: Mutex<Vec<Arc<P>>, rank::Processes>,
    /// TSC value until which whoever needs memory waits for its end; 0: nobody has.
    patience: AtomicU64,
    /// What there was is freed, or is about to be.
    pub reaped: AtomicBool,
    /// The request that is answered then, or [`NO_REQUEST`].
    pub close_request: AtomicU32,
    _charge: Charge,
    _counted: Counted,
}

impl<P, T> Deref for ProcessSpace<P, T> {
    type Target = Space;
    fn deref(&self) -> &Space {
        &self.memory
    }
}

impl<P, T> ProcessSpace<P, T> {
    /// One that no process has yet.
    pub fn new(memory: Space) -> Result<Arc<Self>> {
        let _charge = memory.account.charge(size_of::<Self>() as u64)?;
        heap::arc(ProcessSpace {
            memory,
            futexes: Mutex::new(Futexes::default()),
            processes: Mutex::new(Vec::new()),
            patience: AtomicU64::new(0),
            reaped: AtomicBool::new(false),
            close_request: AtomicU32::new(NO_REQUEST),
            _charge,
            _counted: Counted::new(Kind::Space),
        })
    }

    /// One more process has it. `ENOMEM`.
    pub fn enter(&self, process: Arc<P>) -> Result<()> {
        let mut processes = self.processes.lock();
        lists::push(&mut processes, process)?;
        self.set_users(processes.len());
        Ok(())
    }

    /// The processes that have it, the newest one first, see [`newest_first`]. Nothing is locked
    /// between two of them.
    pub fn processes(&self) -> impl Iterator<Item = Arc<P>> + '_ {
        newest_first(&self.processes)
    }

    /// The process that had it first, or the next one of those that are left.
    pub fn first(&self) -> Option<Arc<P>> {
        self.processes.lock().first().cloned()
    }

    /// TSC value until which whoever needs memory waits for the end of this space, which is on its
    /// way out: who asks first says how long.
    pub fn patience(&self, first: impl FnOnce() -> u64) -> u64 {
        match self.patience.load(Ordering::Relaxed) {
            0 => {
                let until = first().max(1);
                self.patience
                    .compare_exchange(0, until, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|known| known, |_| until)
            }
            until => until,
        }
    }
}
