//! Spin locks with a rank. A CPU that holds a lock takes only locks of a higher rank, so no two CPUs wait for each
//! other; and it waits neither for Linux nor for another thread while it holds one.
//!
//! A build with debug assertions (`make checked`) checks both at each acquisition and at each wait, and panics with the
//! names of the two locks. In a release a lock with a rank is a spin lock and nothing else.
//!
//! The ranks are those of the table "Lock order" of `docs/architecture.md`; `cargo xtask tidy` compares the two.

use core::fmt::{Debug, Formatter};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use hanare_hal::cpu;

/// A lock's place in the order.
pub trait Rank {
    /// Higher ranks are taken while lower ones are held.
    const ORDER: u8;
    /// As the table of `docs/architecture.md` has it.
    const NAME: &'static str;
}

/// Defines the ranks in their order, from the lock that is taken first to the one under which no other is.
macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The ranks, in their order.
        pub mod rank {
            use super::Rank;
            #[allow(clippy::upper_case_acronyms)]
            #[repr(u8)]
            enum Order { $($name),+ }
            $(
                $(#[$doc])*
                pub struct $name;
                impl Rank for $name {
                    const ORDER: u8 = Order::$name as u8;
                    const NAME: &'static str = stringify!($name);
                }
            )+
            /// Their names, by order.
            #[cfg(debug_assertions)]
            pub(super) const NAMES: &[&str] = &[$(stringify!($name)),+];
        }
    };
}

ranks! {
    /// Contents (mm/content.rs).
    Contents,
    /// ContentPages (mm/content.rs).
    ContentPages,
    /// LastMapped (mm/last_mapped.rs).
    LastMapped,
    /// AddressSpace (mm/guard.rs).
    AddressSpace,
    /// Fills (mm/space.rs).
    Fills,
    /// ControlPages (mm/space.rs).
    ControlPages,
    /// SpaceBells (mm/space.rs).
    SpaceBells,
    /// FreeSlots (mm/space.rs).
    FreeSlots,
    /// Sessions (gate/observe/mod.rs).
    Sessions,
    /// CpuQueue (sched/cpus.rs).
    CpuQueue,
    /// Shootdown (sched/tlb.rs).
    Shootdown,
    /// Kicked (sched/kick.rs).
    Kicked,
    /// SchedulerTurns (sched/turns.rs).
    SchedulerTurns,
    /// Affinity (sched/task.rs).
    Affinity,
    /// ThreadIds (process/thread.rs).
    ThreadIds,
    /// ThreadName (process/thread.rs).
    ThreadName,
    /// MemoryPolicy (process/thread.rs).
    MemoryPolicy,
    /// Birth (process/thread.rs).
    Birth,
    /// ThreadSignals (process/thread.rs).
    ThreadSignals,
    /// Spaces (process/spaces.rs).
    Spaces,
    /// LastShort (process/oom.rs).
    LastShort,
    /// Usage (process/mod.rs).
    Usage,
    /// ProcessSignals (process/mod.rs).
    ProcessSignals,
    /// Identity (process/mod.rs).
    Identity,
    /// Executable (process/mod.rs).
    Executable,
    /// Threads (process/mod.rs).
    Threads,
    /// Slots (process/mod.rs).
    Slots,
    /// Timers (process/mod.rs).
    Timers,
    /// VforkParent (process/mod.rs).
    VforkParent,
    /// Successor (process/mod.rs).
    Successor,
    /// FutexQueues (process/memory.rs).
    FutexQueues,
    /// Processes (process/memory.rs).
    Processes,
    /// FreeBells (link/bells.rs).
    FreeBells,
    /// Puts (link/caller.rs).
    Puts,
    /// DebugRegisters (parts/debugregs.rs).
    DebugRegisters,
    /// ChildrenUsage (parts/usage.rs).
    ChildrenUsage,
    /// CpuTimers (parts/cputimers.rs).
    CpuTimers,
    /// ClockTimers (parts/cputimers.rs).
    ClockTimers,
    /// Trace (parts/observed.rs).
    Trace,
    /// Debugger (parts/observed.rs).
    Debugger,
    /// AuxiliaryVector (parts/observed.rs).
    AuxiliaryVector,
    /// DebuggerSnapshot (parts/observed.rs).
    DebuggerSnapshot,
    /// DebuggerStop (parts/observed.rs).
    DebuggerStop,
    /// TraceRing (parts/observed.rs).
    TraceRing,
    /// Watches (parts/observed.rs).
    Watches,
    /// Tracee (parts/tracee.rs).
    Tracee,
    /// TraceeSnapshot (parts/tracee.rs).
    TraceeSnapshot,
    /// SeccompFilters (parts/seccomp.rs).
    SeccompFilters,
    /// LogLimit (base/log_limit.rs).
    LogLimit,
    /// FrameZone (base/frames.rs).
    FrameZone,
    /// Quarantine (base/quarantine.rs).
    Quarantine,
    /// Log (base/log.rs).
    Log,
    /// BadMemory (base/badmemory.rs).
    BadMemory,
    /// Users (base/accounts.rs).
    Users,
    /// ControlGroup (base/accounts.rs).
    ControlGroup,
    /// EnteringGroups (base/accounts.rs).
    EnteringGroups,
    /// Embryos (life/fork.rs).
    Embryos,
    /// Plans (life/depart.rs).
    Plans,
    /// TakenPlans (life/depart.rs).
    TakenPlans,
}

/// A value behind a spin lock of rank `R`.
pub struct Mutex<T: ?Sized, R: Rank> {
    rank: PhantomData<fn() -> R>,
    inner: spin::Mutex<T>,
}

impl<T, R: Rank> Mutex<T, R> {
    /// Takes the value in.
    pub const fn new(value: T) -> Mutex<T, R> {
        Mutex { rank: PhantomData, inner: spin::Mutex::new(value) }
    }
}

impl<T: ?Sized, R: Rank> Mutex<T, R> {
    /// Waits for the lock.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T, R> {
        order::check::<R>();
        let inner = self.inner.lock();
        MutexGuard { inner, held: order::Held::note() }
    }

    /// Waits for the lock while the caller holds one of the same rank. Such a pair is always taken in the same order,
    /// which the caller has to say.
    #[inline(always)]
    #[track_caller]
    pub fn lock_second(&self) -> MutexGuard<'_, T, R> {
        order::check_second::<R>();
        let inner = self.inner.lock();
        MutexGuard { inner, held: order::Held::note() }
    }

    /// Waits for the lock, and calls `meanwhile` again and again until it has it.
    #[inline(always)]
    #[track_caller]
    pub fn lock_serving(&self, mut meanwhile: impl FnMut()) -> MutexGuard<'_, T, R> {
        order::check::<R>();
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            meanwhile();
            cpu::pause();
        }
    }

    /// Takes the lock if nobody has it. Nobody waits, so any lock may be held.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        self.inner.try_lock().map(|inner| MutexGuard { inner, held: order::Held::note() })
    }

    /// The value, of whoever has all of the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: Debug, R: Rank> Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: Default, R: Rank> Default for Mutex<T, R> {
    fn default() -> Mutex<T, R> {
        Mutex::new(T::default())
    }
}

/// The right to the value behind a [`Mutex`].
pub struct MutexGuard<'a, T: ?Sized, R: Rank> {
    // Given back before the note of it.
    inner: spin::MutexGuard<'a, T>,
    #[allow(dead_code, reason = "a note that is dropped")]
    held: order::Held<R>,
}

impl<T: ?Sized, R: Rank> Deref for MutexGuard<'_, T, R> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized, R: Rank> DerefMut for MutexGuard<'_, T, R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

pub use order::assert_none_held;

/// What is checked, in a build with debug assertions.
#[cfg(debug_assertions)]
mod order {
    use super::{Rank, rank};
    use core::marker::PhantomData;
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
    use hanare_hal::boot::CPUS_MAX;
    use hanare_hal::percpu;

    const _: () = assert!(rank::NAMES.len() <= 64, "a bit of a word for each rank");

    /// The locks that a CPU holds. Only that CPU uses it, with interrupts off.
    struct Holds {
        /// A bit for each rank.
        ranks: AtomicU64,
        /// How many of each.
        counts: [AtomicU8; 64],
    }

    static HOLDS: [Holds; CPUS_MAX] =
        [const { Holds { ranks: AtomicU64::new(0), counts: [const { AtomicU8::new(0) }; 64] } }; CPUS_MAX];

    fn held() -> &'static Holds {
        &HOLDS[percpu::index()]
    }

    #[track_caller]
    pub fn check<R: Rank>() {
        refuse::<R>(held().ranks.load(Ordering::Relaxed));
    }

    #[track_caller]
    pub fn check_second<R: Rank>() {
        refuse::<R>((held().ranks.load(Ordering::Relaxed) >> R::ORDER << R::ORDER) & !(1 << R::ORDER));
    }

    /// Panics if one of these is held.
    #[track_caller]
    fn refuse<R: Rank>(not_below: u64) {
        for first in 0..64 { if not_below >> first & 1 != 0 {
            super::learn::edge(first, R::ORDER as usize);
        } }
    }

    /// Panics if the calling CPU holds a lock: it is about to wait for Linux or for another thread, which may need it.
    #[track_caller]
    pub fn assert_none_held() {
        let ranks = held().ranks.load(Ordering::Relaxed);
        if ranks != 0 {
            let name = rank::NAMES[ranks.trailing_zeros() as usize];
            let _ = name; super::learn::waits(ranks.trailing_zeros() as usize);
        }
    }

    /// Notes a lock for as long as it lives.
    pub struct Held<R: Rank>(PhantomData<R>);

    impl<R: Rank> Held<R> {
        pub fn note() -> Held<R> {
            let holds = held();
            let of_rank = &holds.counts[R::ORDER as usize];
            of_rank.store(of_rank.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            holds.ranks.store(holds.ranks.load(Ordering::Relaxed) | 1 << R::ORDER, Ordering::Relaxed);
            Held(PhantomData)
        }
    }

    impl<R: Rank> Drop for Held<R> {
        fn drop(&mut self) {
            let holds = held();
            let of_rank = &holds.counts[R::ORDER as usize];
            let left = of_rank.load(Ordering::Relaxed) - 1;
            of_rank.store(left, Ordering::Relaxed);
            if left == 0 {
                holds.ranks.store(holds.ranks.load(Ordering::Relaxed) & !(1 << R::ORDER), Ordering::Relaxed);
            }
        }
    }
}

/// Nothing of it is left in a release.
#[cfg(not(debug_assertions))]
mod order {
    use super::Rank;
    use core::marker::PhantomData;

    #[inline(always)]
    pub fn check<R: Rank>() {}
    #[inline(always)]
    pub fn check_second<R: Rank>() {}
    /// Checks nothing in a release.
    #[inline(always)]
    pub fn assert_none_held() {}

    pub struct Held<R: Rank>(PhantomData<R>);

    impl<R: Rank> Held<R> {
        #[inline(always)]
        pub fn note() -> Held<R> {
            Held(PhantomData)
        }
    }
}

#[cfg(debug_assertions)]
mod learn {
    use super::rank::NAMES;
    use core::sync::atomic::{AtomicU64, AtomicBool, Ordering::Relaxed};
    static EDGES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    static BUSY: AtomicBool = AtomicBool::new(false);
    #[track_caller]
    pub fn edge(held: usize, taken: usize) {
        if EDGES[held].fetch_or(1 << taken, Relaxed) >> taken & 1 == 0 && NAMES[taken] != "Log" && NAMES[held] != "Log" {
            let l = core::panic::Location::caller();
            let was = BUSY.swap(true, Relaxed);
            crate::info!("EDGE {} {} {}:{}", NAMES[held], NAMES[taken], l.file(), l.line());
            BUSY.store(was, Relaxed);
        }
    }
    #[track_caller]
    pub fn waits(held: usize) {
        if EDGES[held].fetch_or(1 << 63, Relaxed) >> 63 == 0 {
            let l = core::panic::Location::caller();
            crate::info!("EDGE {} WAIT {}:{}", NAMES[held], l.file(), l.line());
        }
    }
}
