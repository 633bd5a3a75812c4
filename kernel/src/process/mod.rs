//! A process: what its threads share, and its life from Linux' point of view.

pub mod cputime;
pub mod cputimers;
mod faulting;
pub mod futex;
pub mod identity;
pub mod info;
pub mod memory;
pub mod oom;
pub mod rights;
pub mod slots;
pub mod spaces;
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
use crate::parts::cputimers::CpuTimers;
use crate::parts::usage::{Accounts, Children};
use crate::parts::vfork::Vfork;
use crate::parts::{observed, signals};
use crate::process::slots::Slots;
use crate::sched::cpus;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::control::Control;
use hanare_core::errno::{self, Result};
use hanare_core::link::{ENDING, Last};
use hanare_core::signal::{Actions, Mirrored};
use spin::Once;
use thread::Thread;

/// A space and the processes that have it.
type ProcessSpace = memory::ProcessSpace<Process, Thread>;

/// A process. It dereferences to its [`ProcessSpace`], which it shares only with processes that
/// share its memory.
pub struct Process {
    memory: Arc<ProcessSpace>,
    /// Slot of its first thread, and its name in the module: another one than 0 where
    /// another process was in the space first.
    pub first_slot: u32,
    /// The process that made it; of none, `hanare run` of Linux started it.
    pub parent: Weak<Process>,
    /// Accounts: of its ended children, and of its parent, to which its own use goes.
    pub usage: Mutex<Accounts, rank::Usage>,
    /// Dispositions and process-directed pending signals.
    pub signals: Mutex<signals::ProcessSignals, rank::ProcessSignals>,
    /// Linux has to be told of dispositions (`Mirrored::owed`).
    pub owes: AtomicBool,
    /// A thread is setting a filter of system calls.
    pub filtering: AtomicBool,
    /// Some thread has changed its attributes (`slots`).
    pub attributes_vary: AtomicBool,
    /// Another process has, or had, its descriptor table (CLONE_FILES), which execve leaves.
    pub shares_table: AtomicBool,
    /// Processes with the same number here, and the same memory, have their handlers in
    /// common (CLONE_SIGHAND): the first slot of one of them.
    pub handlers: AtomicU32,
    /// See [`Identity`].
    pub identity: Mutex<Identity, rank::Identity>,
    /// Absolute path of the running program (`/proc/self/exe`).
    pub exe: Mutex<Vec<u8>, rank::Executable>,
    killed: AtomicBool,
    ending: AtomicBool,
    gone: AtomicBool,
    /// What is to be done when it is gone has been done.
    finished: AtomicBool,
    /// Somebody waits for that, see `waited`.
    awaited: AtomicBool,
    /// Linux has stopped the proxy.
    paused: AtomicBool,
    /// It has, or had, tracees.
    pub traces: AtomicBool,
    /// Its first thread has ended, and was traced.
    pub first_traced: AtomicBool,
    threads: Mutex<Vec<Arc<Thread>>, rank::Threads>,
    /// Threads that are none of these any more and still use their slots.
    leaving: AtomicU32,
    /// Slots and the workers behind them.
    pub slots: Mutex<Slots, rank::Slots>,
    /// A thread of it is replacing the program and ends the others.
    replacing: AtomicBool,
    /// A thread makes a core dump; see `coredump`.
    pub dumping: AtomicBool,
    /// Threads that are ready for it.
    pub posed: AtomicU32,
    /// Timers that count CPU time.
    pub cpu_timers: CpuTimers<Thread>,
    /// Numbers of timer_create.
    pub timers: Mutex<Vec<u32>, rank::Timers>,
    /// Its first thread waits for the proxy, see `share`.
    beginning: AtomicBool,
    pid_namespace: AtomicU64,
    vfork: Mutex<Option<Arc<Vfork>>, rank::VforkParent>,
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

impl Deref for Process {
    type Target = ProcessSpace;
    fn deref(&self) -> &ProcessSpace {
        &self.memory
    }
}

impl Process {
    /// A process in `memory`, without threads.
    pub fn new(
        memory: Arc<ProcessSpace>,
        first_slot: u32,
        parent: Weak<Process>,
    ) -> Result<Arc<Process>> {
        let bytes = size_of::<Process>()
            + size_of::<Actions>()
            + size_of::<Mirrored>()
            + size_of::<Children>()
            + heap::SMALL_PARTS;
        heap::room(bytes)?;
        let (_place, _charge) = (memory.account.process()?, memory.account.charge(bytes as u64)?);
        let usage = Mutex::new(
            parent.upgrade().map_or_else(Accounts::default, |p| p.usage.lock().of_child()),
        );
        let process = lists::arc_within(Process {
            memory,
            first_slot,
            parent,
            usage,
            signals: Mutex::new(signals::ProcessSignals::default()),
            owes: AtomicBool::new(false),
            filtering: AtomicBool::new(false),
            shares_table: AtomicBool::new(false),
            attributes_vary: AtomicBool::new(false),
            handlers: AtomicU32::new(first_slot),
            identity: Mutex::new(Identity::default()),
            exe: Mutex::new(Vec::new()),
            killed: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            traces: AtomicBool::new(false),
            first_traced: AtomicBool::new(false),
            threads: Mutex::new(heap::with_room(1)?),
            leaving: AtomicU32::new(0),
            slots: Mutex::new(Slots::first(first_slot)?),
            replacing: AtomicBool::new(false),
            dumping: AtomicBool::new(false),
            posed: AtomicU32::new(0),
            cpu_timers: CpuTimers::default(),
            timers: Mutex::new(Vec::new()),
            vfork: Mutex::new(None),
            successor: Mutex::new(None),
            beginning: AtomicBool::new(false),
            pid_namespace: AtomicU64::new(0),
            observed: observed::OfProcess::default(),
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

    /// What it shares with processes that share its memory.
    pub fn memory(&self) -> &Arc<ProcessSpace> {
        &self.memory
    }

    /// Number of the process id namespace that its ids belong to, as the module has it.
    pub fn pid_namespace(&self) -> u64 {
        self.pid_namespace.load(Ordering::Relaxed)
    }

    /// Said once, before it runs.
    pub fn set_pid_namespace(&self, number: u64) {
        self.pid_namespace.store(number, Ordering::Relaxed);
    }

    /// Begins with the thread `first`, once its proxy is there.
    pub fn begin_with(&self, first: &Arc<Thread>) {
        lists::push_within(&mut self.threads.lock(), first.clone());
        self.beginning.store(true, Ordering::Release);
    }

    /// Whether its first thread was still waiting to begin: the caller has it begin.
    pub fn take_beginning(&self) -> bool {
        self.beginning.swap(false, Ordering::AcqRel)
    }

    /// Drops threads that have never run.
    pub fn drop_threads(&self) {
        let threads = core::mem::take(&mut *self.threads.lock());
        drop(threads);
    }

    /// The parent of a vfork may go on: the child has its own program, or is gone.
    pub fn release_parent(&self) {
        let vfork = self.vfork.lock().take();
        if let Some(v) = vfork {
            v.release();
        }
    }

    /// Sets the parent that waits for the process (vfork), if there is one.
    pub fn set_vfork(&self, vfork: Option<Arc<Vfork>>) {
        *self.vfork.lock() = vfork;
    }

    /// Whether its parent waits for it.
    pub fn is_vforked(&self) -> bool {
        self.vfork.lock().is_some()
    }

    /// The process goes on as `new` in a space of its own after execve (`depart`): what Linux
    /// and others know of it is `new`'s from now on, and its threads here end.
    pub fn continue_as(&self, new: &Process, first: &Arc<Thread>) {
        *self.successor.lock() = Some(Arc::downgrade(first));
        let (user, system) = self.cycles();
        new.ended_cycles.0.store(user, Ordering::Relaxed);
        new.ended_cycles.1.store(system, Ordering::Relaxed);
        new.ended_faults.store(self.faults(), Ordering::Relaxed);
        new.cpu_timers.take_over(&self.cpu_timers);
        let usage = self.usage.lock().clone();
        *new.usage.lock() = usage;
        let exe = self.exe.lock().clone();
        *new.exe.lock() = exe;
        // No lock of one process is taken with that of another held.
        let signals = self.signals.lock().hand_over();
        new.signals.lock().take_over(signals);
    }

    /// The process is about to end, and touches its memory no more.
    pub fn set_ending(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Whether another process has its memory that is not about to end.
    pub fn shares_with_living(&self) -> bool {
        let other =
            |p: &Arc<Process>| !core::ptr::eq(&**p, self) && !p.ending.load(Ordering::Acquire);
        self.is_shared() && self.processes().any(|p| other(&p))
    }

    /// Whether it goes on as another one here.
    fn has_successor(&self) -> bool {
        self.successor.lock().is_some()
    }

    /// Enters a thread made by `creator`, unless that has to end ([`ENDING`]).
    pub fn add_thread(&self, thread: &Arc<Thread>, creator: &Thread) -> Result<()> {
        let mut threads = self.threads.lock();
        if creator.must_end() {
            return Err(ENDING);
        }
        heap::more_room(&mut threads, 1).map_err(|_| errno::EAGAIN)?;
        thread.seccomp.inherit(creator.seccomp.inherited());
        lists::push_within(&mut threads, thread.clone());
        Ok(())
    }

    /// Does something with the threads. The list is locked meanwhile.
    pub fn with_threads<R>(&self, f: impl FnOnce(&[Arc<Thread>]) -> R) -> R {
        f(&self.threads.lock())
    }

    /// Does something with each thread. The list is locked meanwhile.
    pub fn each_thread(&self, mut f: impl FnMut(&Arc<Thread>)) {
        self.threads.lock().iter().for_each(&mut f);
    }

    /// exit(2) of one thread. `true`: it is the last one, so the process ends.
    pub fn leave(&self, thread: &Thread) -> bool {
        let threads = self.threads.lock();
        thread.left.store(true, Ordering::Relaxed);
        threads.iter().all(|t| t.left.load(Ordering::Relaxed))
    }
    /// The first half of what execve does to the other threads of `me`: they are
    /// to end. `EAGAIN`: another thread was first, with that or with a core dump.
    pub fn doom_others(&self, me: &Thread) -> Result<()> {
        let threads = self.threads.lock();
        if me.must_end()
            || self.dumping.load(Ordering::Acquire)
            || self.replacing.swap(true, Ordering::AcqRel)
        {
            return Err(errno::EAGAIN);
        }
        threads
            .iter()
            .filter(|t| !core::ptr::eq(&***t, me))
            .for_each(|t| t.dying.store(true, Ordering::Release));
        Ok(())
    }

    /// The thread `me` has crashed: a core dump begins. False: another one crashed first.
    /// `None`: another one's execve came first, which `me` ends by and nothing else.
    pub fn begin_dump(&self, me: &Thread) -> Option<bool> {
        let _threads = self.threads.lock(); // as in `doom_others`
        (!me.must_end()).then(|| !self.dumping.swap(true, Ordering::AcqRel))
    }

    /// The others have ended: from now on it is as in any process of one thread.
    pub fn replaced(&self) {
        self.replacing.store(false, Ordering::Release);
    }

    /// A thread of it ends: it is none of its threads any more, and uses its slot until
    /// [`Process::has_left`].
    pub fn begin_leaving(&self, thread: &Thread) {
        let mut threads = self.threads.lock();
        threads.retain(|t| !core::ptr::eq(&**t, thread));
        self.leaving.fetch_add(1, Ordering::SeqCst);
    }

    /// A thread that ends is done with its slot.
    pub fn has_left(&self) {
        self.leaving.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a thread replaces the program.
    pub fn is_replacing(&self) -> bool {
        self.replacing.load(Ordering::Acquire)
    }

    /// The first thread of the process as which it goes on, if that is there.
    pub fn successor(&self) -> Option<Arc<Thread>> {
        self.successor.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Enters a thread: the first, or one that takes the place of another, which ends next. There is
    /// room: where the first thread has ended, there were two.
    pub fn succeed(&self, new: &Arc<Thread>) {
        lists::push_within(&mut self.threads.lock(), new.clone());
    }

    /// The threads that live, the newest one first, without one that begins meanwhile. Nothing is
    /// locked between two of them.
    pub fn threads(&self) -> impl Iterator<Item = Arc<Thread>> + '_ {
        memory::newest_first(&self.threads)
    }

    /// Every thread of it looks again at what it waits for, or comes by the kernel.
    pub fn kick_all(&self) {
        self.threads().for_each(|t| cpus::kick(&t));
    }

    /// How many threads live.
    pub fn thread_count(&self) -> usize {
        self.threads.lock().len()
    }

    /// Whether no thread lives, and none that ended uses its slot any more.
    pub fn is_deserted(&self) -> bool {
        let threads = self.threads.lock(); // a thread is counted when it goes from there
        threads.is_empty() && self.leaving.load(Ordering::SeqCst) == 0
    }

    /// The thread with this slot.
    pub fn thread(&self, slot: u32) -> Option<Arc<Thread>> {
        self.threads.lock().iter().find(|t| t.slot_index == slot).cloned()
    }

    /// Sets the signal mask of the first thread.
    pub fn set_start_mask(&self, mask: u64) {
        self.start_mask.store(mask, Ordering::Relaxed);
    }

    /// Signal mask of the first thread.
    pub fn start_mask(&self) -> u64 {
        self.start_mask.load(Ordering::Relaxed)
    }

    /// The proxy is gone, or never will be again.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// `REQUEST_SPACE_PAUSE`.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.kick_all();
    }

    /// Whether Linux has stopped it.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Waits while the process is stopped.
    pub fn wait_while_paused(&self, thread: &Thread) {
        struct Paused<'a>(&'a Process, &'a Thread);
        impl cpus::Wait for Paused<'_> {
            fn ready(&self) -> bool {
                !self.0.paused.load(Ordering::Acquire) || self.1.must_end() || self.1.ptrace.is_on()
            }
            fn announce(&self, _: bool) {}
        }
        // Who is traced stops and goes on as its tracer hears of it.
        if self.paused.load(Ordering::Acquire) && !thread.ptrace.is_on() {
            cpus::wait(&Paused(self, thread), 0);
        }
    }

    /// Its proxy is gone: its threads are to end.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.kick_all();
    }

    /// What is done once when the last thread of a process is gone whose proxy is.
    pub fn finish(self: &Arc<Self>) {
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        self.release_parent();
        if !self.has_successor() {
            process_gone(self);
        }
        self.finished.store(true, Ordering::SeqCst);
    }

    /// Whether it is gone for good: its memory is left, its use counted.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// Who waits for that is told.
    pub fn await_finish(&self) {
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// Whether somebody waits for that.
    pub fn has_waiter(&self) -> bool {
        self.awaited.load(Ordering::SeqCst)
    }

    /// Page faults of all threads, ended ones too.
    pub fn faults(&self) -> u64 {
        let of = |t: &Arc<Thread>| t.counts.faults.load(Ordering::Relaxed);
        self.ended_faults.load(Ordering::Relaxed) + self.threads.lock().iter().map(of).sum::<u64>()
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
        for t in self.threads.lock().iter() {
            let (u, s) = t.cycles();
            user += u;
            system += s;
        }
        (user, system)
    }
}

/// What is done at an end.
pub struct Ends {
    /// Ends the running thread: its process is gone, or only the thread ends.
    pub thread: fn(&Arc<Process>, &Thread) -> !,
    /// The running thread's process ends by what is never answered.
    pub by_last_call: fn(Last),
    /// The process is gone, once, unless it goes on as another one.
    pub process: fn(&Process),
    /// The space with this id is gone.
    pub space: fn(u32),
}

static ENDS: Once<&Ends> = Once::new();

/// Before the first thread begins.
pub fn init_ends(ends: &'static Ends) {
    ENDS.call_once(|| ends);
}

fn ends() -> &'static Ends {
    ENDS.get().expect("init_ends")
}

/// Ends the running thread `thread` of `p`.
pub fn end_thread(p: &Arc<Process>, thread: &Thread) -> ! {
    (ends().thread)(p, thread)
}

/// The running thread's process ends by a request that is never answered.
pub fn end_by_request(request: Control) {
    (ends().by_last_call)(Last::Request(request));
}

/// A process is gone: whoever looks at it is told.
fn process_gone(p: &Process) {
    (ends().process)(p);
}

/// A space is gone.
pub fn space_gone(space: u32) {
    (ends().space)(space);
}
