//! State that the processes of a space share: the space itself, its futexes, the list of them.

use crate::base::accounts::Charge;
use crate::base::counts::{Counted, Kind};
use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, Rank, rank};
use crate::mm::window::space;
use crate::parts::futexes::Futexes;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanare_core::errno::Result;
use hanare_core::life::{Refused, Space, SpaceEffect, SpaceEvent};
use hanare_core::link::ENDING;

/// No request waits for the end of a space.
pub const NO_REQUEST: u32 = u32::MAX;

/// The life of a process and its threads, or of a space and its processes, which one lock guards.
pub struct Listed<L, T> {
    /// The state.
    pub life: L,
    /// The members, the oldest first.
    pub all: Vec<Arc<T>>,
}

impl<L, T> Listed<L, T> {
    /// The state `life`, without members.
    pub const fn new(life: L) -> Self {
        Listed { life, all: Vec::new() }
    }
}

/// Iterates over a list from the newest entry to the oldest. If an entry is removed meanwhile, only
/// visited entries move; they may be visited again.
pub fn newest_first<L, T, R: Rank>(
    all: &Mutex<Listed<L, T>, R>,
) -> impl Iterator<Item = Arc<T>> + '_ {
    let mut left = usize::MAX;
    core::iter::from_fn(move || {
        let all = &all.lock().all;
        left = left.min(all.len()).checked_sub(1)?;
        all.get(left).cloned()
    })
}

/// A space and the processes that have it.
pub struct ProcessSpace<P, T> {
    /// The memory, with the control window.
    pub memory: space::Space,
    /// Waiters on futexes in private memory.
    pub futexes: Mutex<Futexes<T>, rank::FutexQueues>,
    /// The processes that have the space, the first one first. Never empty once it is open.
    pub processes: Mutex<Listed<Space, P>, rank::Processes>,
    /// TSC value until which threads that need memory wait for the end of the space; 0: none has
    /// waited.
    patience: AtomicU64,
    /// The request that is answered then, or [`NO_REQUEST`].
    pub close_request: AtomicU32,
    _charge: Charge,
    _counted: Counted,
}

impl<P, T> ProcessSpace<P, T> {
    /// A space that no process has yet.
    pub fn new(memory: space::Space) -> Result<Arc<Self>> {
        let _charge = memory.account.charge(size_of::<Self>() as u64)?;
        heap::arc(ProcessSpace {
            memory,
            futexes: Mutex::new(Futexes::default()),
            processes: Mutex::new(Listed::new(Space::NEW)),
            patience: AtomicU64::new(0),
            close_request: AtomicU32::new(NO_REQUEST),
            _charge,
            _counted: Counted::new(Kind::Space),
        })
    }

    /// One step of its life. `also` is done to its processes under the same lock.
    ///
    /// # Errors
    /// There is no such step.
    pub fn step(
        &self,
        event: SpaceEvent,
        also: impl FnOnce(&mut Vec<Arc<P>>, SpaceEffect),
    ) -> core::result::Result<SpaceEffect, Refused> {
        let mut processes = self.processes.lock();
        let effect = processes.life.step(event)?;
        self.memory.set_life(&processes.life);
        also(&mut processes.all, effect);
        Ok(effect)
    }

    /// One more process has it.
    ///
    /// # Errors
    /// [`ENDING`]: Linux has closed it. `ENOMEM`.
    pub fn enter(&self, process: &Arc<P>) -> Result<()> {
        let mut processes = self.processes.lock();
        heap::more_room(&mut processes.all, 1)?;
        processes.life.step(SpaceEvent::Enter).map_err(|_| ENDING)?;
        self.memory.set_life(&processes.life);
        lists::push_within(&mut processes.all, process.clone());
        Ok(())
    }

    /// The processes that have it, the newest one first, see [`newest_first`]. Nothing is locked
    /// between two of them.
    pub fn processes(&self) -> impl Iterator<Item = Arc<P>> + '_ {
        newest_first(&self.processes)
    }

    /// The process that had it first, or the next one of those that are left.
    pub fn first(&self) -> Option<Arc<P>> {
        self.processes.lock().all.first().cloned()
    }

    /// TSC value until which threads that need memory wait for the end of this space, which is on
    /// its way out. The first one that asks sets it.
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
