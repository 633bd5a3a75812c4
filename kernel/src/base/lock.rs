//! Spin locks with a rank. A CPU that holds a lock takes only locks of a higher rank, so no two
//! CPUs wait for each other; and it waits neither for Linux nor for another thread while it holds
//! one.
//!
//! A build with debug assertions (`make checked`) checks both at each acquisition and at each wait,
//! and panics with the names of the two locks. In a release a lock with a rank is a spin lock and
//! nothing else.
//!
//! `docs/locks.md` shows the order as a table, which `cargo xtask tidy --update` writes.
//!
//! Outside of the order: the log's lock, under which nothing is done but copying a line, and those
//! of the kernel heap, under which it takes frames and nothing else.

use core::fmt::{Debug, Formatter};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use hanare_hal::cpu;

/// A lock's place in the order.
#[cfg_attr(not(debug_assertions), allow(dead_code, reason = "a release does not look at it"))]
pub trait Rank {
    /// Higher ranks are taken while lower ones are held.
    const ORDER: u8;
    /// Name of the rank, for messages.
    const NAME: &'static str;
}

/// Defines the ranks in their order, from the lock that is taken first to the one under which no
/// other is.
macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The ranks, in their order.
        pub mod rank {
            use super::Rank;
            #[cfg_attr(not(debug_assertions), allow(dead_code, reason = "see `Rank`"))]
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
    /// Taking a frame with a hardware error out of use: one CPU at a time.
    BadMemory,
    /// Entering control groups: one thread at a time.
    EnteringGroups,
    /// The last decision about which process is killed for want of memory.
    LastShort,
    /// Observers: tracers of system calls and debuggers.
    Sessions,
    /// Programs that go on in a space of their own, until their proxy has come.
    Plans,
    /// Plans whose new space is there, by that space.
    TakenPlans,
    /// A part of the spaces.
    Spaces,
    /// The use of spaces that have ended, kept for Linux.
    Ends,
    /// Servers of a process' request box.
    Servers,
    /// Pools of proxies, by number; their proxies, by space.
    ProxyPools,
    /// Proxies of a pool.
    PooledProxies,
    /// The pooled proxy that a native task has.
    TaskProxy,
    /// Threads that wait for a pooled proxy.
    PoolWaiters,
    /// Slots and workers of a process.
    Slots,
    /// Slots that no thread of a space has.
    FreeSlots,
    /// Mappings and page table of a space. A CPU that waits for it serves TLB shootdowns.
    AddressSpace,
    /// Pages of a space that Linux is filling.
    Fills,
    /// Contents of program files that stay when no process maps them.
    KeptContents,
    /// Content of program files, by file.
    Contents,
    /// Frames of the content of one file.
    ContentPages,
    /// The file that a space mapped last.
    LastMapped,
    /// Claims of descriptors.
    Claims,
    /// Frames of a control window.
    ControlPages,
    /// Messages of a space, by slot.
    Messages,
    /// Bells of a space.
    SpaceBells,
    /// Bells that no slot has.
    FreeBells,
    /// Threads of a CPU. What a thread waits for is asked under it (`Wait::ready`).
    CpuQueue,
    /// Queues of a device for a CPU.
    DeviceQueue,
    /// Forks whose proxy has not come.
    Embryos,
    /// Interval timers and CPU limit of a process.
    CpuTimers,
    /// Timers of timer_create that count CPU time.
    ClockTimers,
    /// Ids of timers of Linux.
    Timers,
    /// Futex queues of a space.
    FutexQueues,
    /// State of a tracee.
    Tracee,
    /// The debugger of a process.
    Debugger,
    /// State of a debugger's stop, and its breakpoints.
    DebuggerStop,
    /// Registers of a thread that a tracer or a debugger stops, and which of the two does.
    Parking,
    /// Watchpoints of a debugger.
    Watches,
    /// The trace of a process.
    Trace,
    /// Lines of a trace that have not been read.
    TraceRing,
    /// Processes that have a space, and its life.
    Processes,
    /// Threads of a process, and their lives.
    Threads,
    /// The parent that waits for a process to leave its memory.
    VforkParent,
    /// The first thread of the process in which the program continues after an execve.
    Successor,
    /// seccomp filters of a thread.
    SeccompFilters,
    /// Accounts of a process, which its successor shares.
    Usage,
    /// CPU time and memory that the children of a process used.
    ChildrenUsage,
    /// Ids and times of a process.
    Identity,
    /// Name of the program of a process.
    Executable,
    /// Auxiliary vector of a program.
    AuxiliaryVector,
    /// Mask and pending signals of a thread.
    ThreadSignals,
    /// Dispositions and pending signals of a process.
    ProcessSignals,
    /// Credentials of a thread.
    ThreadIds,
    /// Name of a thread.
    ThreadName,
    /// Whether a thread waits for a time of a clock that can be set.
    FollowsClock,
    /// NUMA policy of a thread.
    MemoryPolicy,
    /// Registers that a thread begins with.
    Birth,
    /// CPUs that a thread may run on.
    Affinity,
    /// Debug registers of a thread.
    DebugRegisters,
    /// Files that a call has dropped.
    Puts,
    /// Threads of a CPU that are to look at what they wait for.
    Kicked,
    /// Turns of threads on a CPU.
    SchedulerTurns,
    /// The TLB shootdown that a CPU is asked for.
    Shootdown,
    /// Users and what they have.
    Users,
    /// The control group that a space is charged to.
    ControlGroup,
    /// Why a space was refused a page.
    Refusal,
    /// Accounts of a user with frames that Linux still holds, and what is known of those frames.
    QuarantinedAccounts,
    /// Frames that Linux still holds, by the account that gave them up.
    Quarantine,
    /// Free pages that a CPU has in stock.
    FrameStock,
    /// Free frames of a NUMA node; the kernel heap grows from there.
    FrameZone,
    /// Rate of log lines that programs cause.
    LogLimit,
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

    /// Takes the lock if it is free. The caller never waits, so any lock may be held.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        self.inner.try_lock().map(|inner| MutexGuard { inner, held: order::Held::note() })
    }

    /// The value, for a caller that alone knows of the lock.
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

/// The checks of a build with debug assertions.
#[cfg(debug_assertions)]
mod order {
    use super::{Rank, rank};
    use core::marker::PhantomData;
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
    use hanare_hal::boot::CPUS_MAX;
    use hanare_hal::percpu;

    /// Most ranks: a bit of two words for each.
    const RANKS_MAX: usize = 128;
    const _: () = assert!(rank::NAMES.len() <= RANKS_MAX, "a bit for each rank");

    /// The locks that a CPU holds. Only that CPU uses it, with interrupts off.
    struct Holds {
        /// A bit for each rank.
        ranks: [AtomicU64; 2],
        /// Number of locks of each rank that are held.
        counts: [AtomicU8; RANKS_MAX],
    }

    impl Holds {
        const fn none() -> Holds {
            Holds {
                ranks: [const { AtomicU64::new(0) }; 2],
                counts: [const { AtomicU8::new(0) }; RANKS_MAX],
            }
        }

        fn ranks(&self) -> u128 {
            let [low, high] =
                [0, 1].map(|i: usize| u128::from(self.ranks[i].load(Ordering::Relaxed)));
            low | high << 64
        }

        fn set_ranks(&self, ranks: u128) {
            self.ranks[0].store(ranks as u64, Ordering::Relaxed);
            self.ranks[1].store((ranks >> 64) as u64, Ordering::Relaxed);
        }
    }

    static HOLDS: [Holds; CPUS_MAX] = [const { Holds::none() }; CPUS_MAX];

    fn held() -> &'static Holds {
        &HOLDS[percpu::index()]
    }

    /// Panics if the calling CPU holds a lock of this rank or of a higher one.
    #[track_caller]
    pub fn check<R: Rank>() {
        let not_lower = held().ranks() >> R::ORDER;
        if not_lower != 0 {
            let first = rank::NAMES[usize::from(R::ORDER) + not_lower.trailing_zeros() as usize];
            panic!("lock order: {} is taken while {first} is held", R::NAME);
        }
    }

    /// Panics if the calling CPU holds a lock: it is about to wait for Linux or for another thread,
    /// which may need it.
    #[track_caller]
    pub fn assert_none_held() {
        let ranks = held().ranks();
        if ranks != 0 {
            let first = rank::NAMES[ranks.trailing_zeros() as usize];
            panic!("lock order: a wait while {first} is held");
        }
    }

    /// Notes a lock for as long as it lives.
    pub struct Held<R: Rank>(PhantomData<R>);

    impl<R: Rank> Held<R> {
        pub fn note() -> Held<R> {
            let holds = held();
            let of_rank = &holds.counts[R::ORDER as usize];
            of_rank.store(of_rank.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            holds.set_ranks(holds.ranks() | 1 << R::ORDER);
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
                holds.set_ranks(holds.ranks() & !(1 << R::ORDER));
            }
        }
    }
}

/// The checks of a release: none.
#[cfg(not(debug_assertions))]
mod order {
    use super::Rank;
    use core::marker::PhantomData;

    #[inline(always)]
    pub fn check<R: Rank>() {}
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
