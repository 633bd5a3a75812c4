//! A process: what its threads share, and its life from Linux' point of view.

pub mod cputime;
pub mod cputimers;
mod faulting;
pub mod futex;
pub mod identity;
pub mod info;
pub mod leaving;
pub mod limits;
pub mod members;
pub mod memory;
pub mod oom;
pub mod outside;
pub mod pi;
pub mod rights;
pub mod robust;
pub mod servers;
pub mod slots;
pub mod spaces;
pub mod states;
pub mod thread;
pub mod timens;
pub mod until;
pub mod usage;
pub mod usertsc;
pub mod waited;
pub mod workers;

pub use identity::{INIT, Identity, Ids, NOT_MAPPED};

use crate::base::accounts::{Charge, Place};
use crate::base::counts::{Counted, Kind};
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::base::{heap, time};
use crate::link::pool::Pool;
use crate::mm::window::space::Space;
use crate::parts::cputimers::{CpuTimers, Timer};
use crate::parts::usage::{Accounts, Children};
use crate::parts::{claims, observed, pooled, signals};
use crate::process::slots::Slots;
use crate::sched::cpus;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::control::Control;
use hanare_core::entropy::Entropy;
use hanare_core::errno::Result;
use hanare_core::life;
use hanare_core::link::Last;
use hanare_core::signal::{Actions, Mirrored};
use hanare_hal::shared;
use memory::Listed;
use spin::Once;
use thread::{ParentWaits, Thread};

/// A space and the processes that have it.
type ProcessSpace = memory::ProcessSpace<Process, Thread>;

/// A process.
pub struct Process {
    /// The process' space, which it shares only with processes that share its memory.
    pub space: Arc<ProcessSpace>,
    /// Slot of its first thread, and its name in the module: another one than 0 where
    /// another process was in the space first.
    pub first_slot: u32,
    /// The process that made it; of none, `hanare run` of Linux started it.
    pub parent: Weak<Process>,
    /// The thread of that one which made it: its id.
    pub creator: AtomicU32,
    /// Accounts: of its ended children, and of its parent, to which its own use goes.
    pub usage: Mutex<Accounts, rank::Usage>,
    /// Dispositions and process-directed pending signals.
    pub signals: Mutex<signals::ProcessSignals, rank::ProcessSignals>,
    /// A thread is setting a filter of system calls.
    pub filtering: AtomicBool,
    /// Some thread has changed its attributes (`slots`).
    pub attributes_vary: AtomicBool,
    /// Some thread has asked for its code to execute on Linux.
    pub has_utility_threads: AtomicBool,
    /// Descriptors that drivers of the LWK have claimed.
    pub claims: claims::OfProcess,
    /// Another process has, or had, its descriptor table (CLONE_FILES), which execve leaves.
    pub shares_table: AtomicBool,
    /// Processes with the same number here, and the same memory, have their handlers in
    /// common (CLONE_SIGHAND): the first slot of one of them.
    pub handlers: AtomicU32,
    /// Ids, limits and clocks that Linux has told, see [`Identity`].
    pub identity: Mutex<Identity, rank::Identity>,
    /// Random bytes for what the program asks first.
    pub entropy: Entropy,
    /// Absolute path of the running program (`/proc/self/exe`).
    pub exe: Mutex<Vec<u8>, rank::Executable>,
    /// Life-cycle state as [`life::Word`], which is read without a lock; see [`states`].
    word: AtomicU32,
    /// The process has, or had, tracees.
    pub traces: AtomicBool,
    /// One of its threads has heard of the stop of another one's tracee.
    pub hears_for_others: AtomicBool,
    /// The first thread has ended, and was traced.
    pub first_traced: AtomicBool,
    first_ended: FirstEnded,
    /// Life-cycle state and threads. Locked after the processes of its space.
    threads: Mutex<Listed<life::Process, Thread>, rank::Threads>,
    /// Request boxes with their servers, and whether Linux has to be told of dispositions
    /// (`Mirrored::owed`).
    pub pool: Pool,
    /// Pool of proxies, of a native task.
    pub native: Once<pooled::Native<ProcessSpace>>,
    /// Slots and the workers behind them.
    pub slots: Mutex<Slots, rank::Slots>,
    /// Timers that count CPU time.
    pub cpu_timers: CpuTimers<Thread>,
    /// Timers of timer_create.
    pub timers: Mutex<Vec<Timer>, rank::Timers>,
    /// Process id, stored once, before the process runs.
    pub pid: AtomicU32,
    pid_namespace: AtomicU64,
    /// The thread that waits until it has left the memory (vfork).
    parent_waits: Mutex<Option<ParentWaits>, rank::VforkParent>,
    /// The first thread of the process as which it goes on; see [`Process::continue_as`].
    successor: Mutex<Option<Weak<Thread>>, rank::Successor>,
    /// Tracers and debuggers.
    pub observed: observed::OfProcess<Process>,
    start_mask: AtomicU64,
    /// CPU cycles of threads that ended: user, system.
    pub ended_cycles: (AtomicU64, AtomicU64),
    /// Delegated calls of threads that ended.
    pub ended_calls: AtomicU64,
    /// Page faults of threads that have ended.
    pub ended_faults: AtomicU64,
    _place: Place,
    _charge: Charge,
    _counted: Counted,
}

/// Whether the first thread of a process has ended, or is about to, while others may go on. Such
/// processes are counted as long as there is anything of them.
#[derive(Default)]
struct FirstEnded(AtomicBool);

impl Drop for FirstEnded {
    fn drop(&mut self) {
        if self.0.load(Ordering::Relaxed) {
            shared::firsts_ended().fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether there may be a process whose first thread has ended before others.
pub fn has_first_ended() -> bool {
    shared::firsts_ended().load(Ordering::Acquire) != 0
}

impl Process {
    /// A process in `space`, without threads, in the state `life`.
    pub fn new(
        space: Arc<ProcessSpace>,
        first_slot: u32,
        parent: Weak<Process>,
        life: life::Process,
    ) -> Result<Arc<Process>> {
        let bytes = size_of::<Process>()
            + size_of::<Actions>()
            + size_of::<Mirrored>()
            + size_of::<Children>()
            + heap::SMALL_PARTS;
        heap::room(bytes)?;
        let account = &space.memory.account;
        let (_place, _charge) = (account.process()?, account.charge(bytes as u64)?);
        let usage = Mutex::new(
            parent.upgrade().map_or_else(Accounts::default, |p| p.usage.lock().of_child()),
        );
        let observed = observed::OfProcess::default();
        observed.set(observed::COPIES, space.memory.copies());
        let user = account.user().signals.clone();
        let process = lists::arc_within(Process {
            space,
            first_slot,
            parent,
            creator: AtomicU32::new(0),
            usage,
            signals: Mutex::new(signals::ProcessSignals::new(user)),
            filtering: AtomicBool::new(false),
            claims: claims::OfProcess::default(),
            shares_table: AtomicBool::new(false),
            attributes_vary: AtomicBool::new(false),
            has_utility_threads: AtomicBool::new(false),
            handlers: AtomicU32::new(first_slot),
            identity: Mutex::new(Identity::default()),
            entropy: Entropy::default(),
            exe: Mutex::new(Vec::new()),
            word: AtomicU32::new(life.word().bits()),
            traces: AtomicBool::new(false),
            hears_for_others: AtomicBool::new(false),
            first_traced: AtomicBool::new(false),
            first_ended: FirstEnded::default(),
            threads: Mutex::new(Listed::new(life)),
            pool: Pool::default(),
            native: Once::new(),
            slots: Mutex::new(Slots::first(first_slot)?),
            cpu_timers: CpuTimers::default(),
            timers: Mutex::new(Vec::new()),
            parent_waits: Mutex::new(None),
            successor: Mutex::new(None),
            pid: AtomicU32::new(0),
            pid_namespace: AtomicU64::new(0),
            observed,
            start_mask: AtomicU64::new(0),
            ended_cycles: (AtomicU64::new(0), AtomicU64::new(0)),
            ended_calls: AtomicU64::new(0),
            ended_faults: AtomicU64::new(0),
            _place,
            _charge,
            _counted: Counted::new(Kind::Process),
        });
        Ok(process)
    }

    /// Others change the meaning of its descriptors unseen from the call on that its running thread
    /// is about to make: Linux' own threads, utility threads, a process or a thread with the same
    /// table or another one.
    pub fn descriptors_change_unseen(&self) {
        if !self.memory().last_mapped.holds_never() {
            self.memory().last_mapped.never_holds();
        }
        self.claims.are_over();
    }

    /// The memory of the process' space.
    #[inline]
    pub fn memory(&self) -> &Space {
        &self.space.memory
    }

    /// The id of the process.
    #[inline]
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Number of the process id namespace that its ids belong to, as the module has it.
    pub fn pid_namespace(&self) -> u64 {
        self.pid_namespace.load(Ordering::Relaxed)
    }

    /// Sets the pid namespace, once, before the process runs.
    pub fn set_pid_namespace(&self, number: u64) {
        self.pid_namespace.store(number, Ordering::Relaxed);
    }

    /// The process goes on as `new` in a space of its own after execve (`depart`): what Linux
    /// and others know of it is `new`'s from now on, and its threads here end.
    pub fn continue_as(&self, new: &Process, first: &Arc<Thread>) {
        *self.successor.lock() = Some(Arc::downgrade(first));
        let (user, system) = self.cycles();
        new.ended_cycles.0.store(user, Ordering::Relaxed);
        new.ended_cycles.1.store(system, Ordering::Relaxed);
        new.ended_faults.store(self.faults(), Ordering::Relaxed);
        new.creator.store(self.creator.load(Ordering::Relaxed), Ordering::Relaxed);
        new.cpu_timers.take_over(&self.cpu_timers);
        let exe = self.exe.lock().clone();
        *new.exe.lock() = exe;
        // No lock of one process is taken with that of another held.
        let signals = self.signals.lock().hand_over();
        new.signals.lock().take_over(signals);
    }

    /// Does something with the threads. The list is locked meanwhile.
    pub fn with_threads<R>(&self, f: impl FnOnce(&[Arc<Thread>]) -> R) -> R {
        f(&self.threads.lock().all)
    }

    /// Does something with each thread. The list is locked meanwhile.
    pub fn each_thread(&self, mut f: impl FnMut(&Arc<Thread>)) {
        self.threads.lock().all.iter().for_each(&mut f);
    }

    /// The first thread of the process as which it goes on, if that is there.
    pub fn successor(&self) -> Option<Arc<Thread>> {
        self.successor.lock().as_ref().and_then(Weak::upgrade)
    }

    /// The threads that live, the newest one first, without one that begins meanwhile. Nothing is
    /// locked between two of them.
    pub fn threads(&self) -> impl Iterator<Item = Arc<Thread>> + '_ {
        memory::newest_first(&self.threads)
    }

    /// Every thread of it looks again at what it waits for, or comes by the kernel.
    pub fn kick_all(&self) {
        self.threads().for_each(|t| cpus::kick(t.task()));
    }

    /// The thread `me` is about to end. Said before any other thread can see that it has ended.
    fn ends(&self, me: &Thread) {
        if me.tid() == self.pid() && !self.first_ended.0.swap(true, Ordering::Relaxed) {
            shared::firsts_ended().fetch_add(1, Ordering::Release);
        }
    }

    /// Number of threads that live.
    pub fn thread_count(&self) -> usize {
        self.threads.lock().all.len()
    }

    /// The thread with this slot.
    pub fn thread(&self, slot: u32) -> Option<Arc<Thread>> {
        self.threads.lock().all.iter().find(|t| t.port.slot_index == slot).cloned()
    }

    /// Sets the signal mask of the first thread.
    pub fn set_start_mask(&self, mask: u64) {
        self.start_mask.store(mask, Ordering::Relaxed);
    }

    /// Signal mask of the first thread.
    pub fn start_mask(&self) -> u64 {
        self.start_mask.load(Ordering::Relaxed)
    }

    /// Page faults of all threads, ended ones too.
    pub fn faults(&self) -> u64 {
        let of = |t: &Arc<Thread>| t.task().counts.faults.load(Ordering::Relaxed);
        self.ended_faults.load(Ordering::Relaxed)
            + self.threads.lock().all.iter().map(of).sum::<u64>()
    }

    /// User and system time, ns.
    pub fn times_ns(&self) -> (u64, u64) {
        let (user, system) = self.cycles();
        (time::cycles_to_ns(user), time::cycles_to_ns(system))
    }

    /// User and system time, TSC cycles.
    fn cycles(&self) -> (u64, u64) {
        let (mut user, mut system) = (
            self.ended_cycles.0.load(Ordering::Relaxed),
            self.ended_cycles.1.load(Ordering::Relaxed),
        );
        for t in self.threads.lock().all.iter() {
            let (u, s) = t.task().cycles();
            user += u;
            system += s;
        }
        (user, system)
    }
}

/// Functions of the layers above that end threads, processes and spaces.
pub struct Ends {
    /// Ends the running thread: its process is gone, or only the thread ends.
    pub thread: fn(&Thread) -> !,
    /// The running thread's process ends by what is never answered.
    pub by_last_call: fn(&Thread, Last),
    /// The process is gone, once, unless it goes on as another one.
    pub process: fn(&Process),
    /// The space with this id is gone.
    pub space: fn(u32),
}

static ENDS: Once<&Ends> = Once::new();

/// Registers the ends, before the first thread begins.
pub fn init_ends(ends: &'static Ends) {
    ENDS.call_once(|| ends);
}

fn ends() -> &'static Ends {
    ENDS.get().expect("init_ends")
}

/// Ends the running thread `thread`.
pub fn end_thread(thread: &Thread) -> ! {
    (ends().thread)(thread)
}

/// The process of the running thread `thread` ends by a request that is never answered.
pub fn end_by_request(thread: &Thread, request: Control) {
    (ends().by_last_call)(thread, Last::Request(request));
}

/// A process is gone: tracers and debuggers are told, and its parent gets what it used.
fn process_gone(p: &Process) {
    (ends().process)(p);
}

/// A space is gone.
pub fn space_gone(space: u32) {
    (ends().space)(space);
}
