//! A thread of an application: its slot, and what each layer keeps for it.

#![allow(unsafe_code)] // the running thread is found by an address

use crate::base::accounts::Charge;
use crate::base::counts::{Counted, Kind};
use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::base::log;
use crate::base::stacks::{self, Stack};
use crate::link::caller::Port;
use crate::mm::Caller;
use crate::mm::fault::offer;
use crate::mm::window::policy::ThreadPolicy;

use crate::parts::{debugregs, observed, registers, rseq, seccomp, signals, tracee, utility};
use crate::process::{Ids, Process, usertsc};
use crate::sched::cpus;
use crate::sched::task::Task;
use alloc::sync::{Arc, Weak};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use hanare_core::errno::Result;
use hanare_core::ledger::Subject;
use hanare_core::life::{self, ThreadState};
use hanare_core::mempolicy::Policy;
use hanare_core::rseq::Area;
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::Regs;
use hanare_hal::{cpu, fpu, percpu};
use hanare_ikc::SlotRef;

/// A thread: its [`Port`], with the [`Task`] in that, and what the layers above keep for it.
pub struct Thread {
    /// The thread's part for the link, with the scheduler's in it.
    pub port: Port,
    myself: Weak<Thread>,
    /// The process that the thread belongs to.
    pub process: Arc<Process>,
    /// The thread's id, see [`Thread::tid`]. Stored before the thread runs.
    pub tid: AtomicU32,
    /// User memory is accessed in place: an access to a page that is not mapped fails. Set while
    /// the thread holds the lock of the futex queues.
    pub in_place: AtomicBool,
    /// Woken by a futex call, see `futex`.
    pub futex_woken: AtomicBool,
    /// The lock that the thread waits for has an owner of another program by now. The LWK is not
    /// told of that owner's end.
    pub looks_for_owner: AtomicBool,
    /// Whether the thread waits for a time of a clock that can be set, or is about to: see
    /// `until::on_set`.
    pub follows_clock: Mutex<bool, rank::FollowsClock>,
    /// Life-cycle state, as [`life::ThreadState`](ThreadState). Written under the lock of its
    /// process' threads.
    state: AtomicU8,
    /// The worker of the thread has descriptors, directories or filters of its own, which no
    /// other worker can take over: its execve is Linux'.
    pub is_apart: AtomicBool,
    /// Attributes that the thread's worker has, see `slots`.
    pub attributes: AtomicU64,
    /// Users and groups in whose name the thread calls; its worker has the same.
    pub ids: Mutex<Ids, rank::ThreadIds>,
    /// Name: the program's, or the one set by PR_SET_NAME.
    pub name: Mutex<Option<[u8; 16]>, rank::ThreadName>,
    /// The time stamp counter may not be read (`PR_SET_TSC`).
    pub no_tsc: AtomicBool,
    /// Pages that the thread's calls have handed to Linux.
    pub handed: offer::HandedPages,
    /// NUMA policy (`set_mempolicy`).
    pub policy: ThreadPolicy,
    /// Number of the birth of this thread, or of the one that it is making. 0: none goes on.
    pub birth_number: AtomicU64,
    /// Where a new thread starts: registers, FPU state, FS and GS base.
    pub birth: Mutex<Option<Birth>, rank::Birth>,
    /// Registration with rseq(2).
    pub rseq: rseq::OfThread,
    /// Whether the thread's user-mode code is to execute on Linux.
    pub utility: utility::OfThread,
    /// Head of the robust futex list; see [`Thread::set_robust_list`].
    pub robust_list: AtomicU64,
    /// The thread leaves its program. It has given its locks with priority inheritance to their
    /// waiters, or is about to.
    pub has_left_locks: AtomicBool,
    /// The thread ended with a robust mutex that has priority inheritance, for which others wait on
    /// Linux: until its worker ends.
    pub has_waiters_on_linux: AtomicBool,
    /// Filters of the calls that the thread may make.
    pub seccomp: seccomp::Seccomp,
    /// Calls that it had made on Linux when that was last asked for limits.
    pub limits_looked: AtomicU64,
    /// Signal mask, pending signals, alternate stack. Locked before those of its process.
    pub signals: signals::OfThread,
    /// Address to clear and wake at exit (set_tid_address).
    pub clear_tid: AtomicU64,
    /// Reasons for which the thread is stopped, and the registers that it has left.
    pub parking: registers::OfThread,
    /// Tracers and debuggers.
    pub observe: observed::OfThread,
    /// Debug registers.
    pub debug: debugregs::OfThread,
    /// State as a tracee of ptrace(2).
    pub ptrace: tracee::OfThread<Thread>,
    _charge: Charge,
    _counted: Counted,
}

/// Start state of a cloned thread or process, or of a program that replaced another one (execve).
pub struct Birth {
    /// Registers of the caller, with the child's result and stack.
    pub regs: Regs,
    /// The caller's FPU state.
    pub fpu: FpuState,
    /// FS base: the caller's, or CLONE_SETTLS.
    pub fs_base: u64,
    /// The caller's GS base.
    pub gs_base: u64,
    /// Where the child writes its own thread id (CLONE_CHILD_SETTID), or 0.
    pub set_tid: u64,
    /// Where else it does (CLONE_PARENT_SETTID, where the parent's memory is its own), or 0.
    pub parent_tid: u64,
    /// CLONE_CHILD_CLEARTID, or 0.
    pub clear_tid: u64,
    /// Registration with rseq(2) that the child of a fork has from its parent.
    pub rseq: Option<Area>,
    /// CLONE_CLEAR_SIGHAND.
    pub clear_handlers: bool,
    /// The caller's NUMA policy.
    pub policy: Policy,
    /// The caller may not read the time stamp counter.
    pub no_tsc: bool,
    /// A program that replaced another one begins (execve).
    pub is_program: bool,
    /// The name that the process' first worker has to be given, since another thread's program goes
    /// on there (execve).
    pub name: Option<[u8; 16]>,
}

impl Birth {
    /// A birth from the running thread `me`.
    pub fn of(me: &Thread, regs: &Regs) -> Birth {
        let mut fpu = FpuState::new();
        fpu.save();
        let bases = (cpu::fs_base(), cpu::user_gs_base());
        Birth::new(me, Regs { rax: 0, ..*regs }, fpu, bases, false)
    }

    /// Start state of a program that begins with `regs`, in place of that of the running thread
    /// `me`.
    pub fn of_program(me: &Thread, regs: &Regs) -> Birth {
        Birth::new(me, *regs, FpuState::new(), (0, 0), true)
    }

    fn new(
        me: &Thread,
        regs: Regs,
        fpu: FpuState,
        (fs_base, gs_base): (u64, u64),
        is_program: bool,
    ) -> Birth {
        Birth {
            regs,
            fpu,
            fs_base,
            gs_base,
            set_tid: 0,
            parent_tid: 0,
            clear_tid: 0,
            rseq: None,
            clear_handlers: false,
            policy: me.policy.get(),
            no_tsc: me.no_tsc.load(Ordering::Relaxed),
            is_program,
            name: None,
        }
    }

    /// Loads what is not in the trap frame.
    pub fn load(&self) {
        self.fpu.restore();
        cpu::set_fs_base(self.fs_base);
        cpu::set_user_gs_base(self.gs_base);
    }
}

impl Thread {
    /// A thread with the id `tid` that begins in `start`.
    pub fn new(
        process: Arc<Process>,
        slot_index: u32,
        slot: SlotRef<'static>,
        tid: u32,
        start: extern "C" fn() -> !,
    ) -> Option<Arc<Thread>> {
        let bytes = size_of::<Thread>() + fpu::size() + heap::SMALL_PARTS;
        heap::room(bytes).ok()?;
        let _charge = process.memory().account.charge(bytes as u64 + stacks::BYTES).ok()?;
        let bell = process.memory().bell(slot_index)?;
        let user = process.memory().account.user().signals.clone();
        let stack = Stack::new(process.memory().account.owner(Subject::Stacks))?;
        let (sigmask, account) = (process.start_mask(), process.memory().account.clone());
        Some(lists::cyclic_within(|weak: &Weak<Thread>| Thread {
            port: Port::new(
                Task::new(weak.clone(), account, bell, stack, start),
                process.memory().id,
                slot_index,
                slot,
            ),
            myself: weak.clone(),
            process,
            tid: AtomicU32::new(tid),
            in_place: AtomicBool::new(false),
            futex_woken: AtomicBool::new(false),
            looks_for_owner: AtomicBool::new(false),
            follows_clock: Mutex::new(false),
            state: AtomicU8::new(ThreadState::New as u8),
            is_apart: AtomicBool::new(false),
            birth_number: AtomicU64::new(0),
            attributes: AtomicU64::new(0),
            ids: Mutex::new(Ids::default()),
            name: Mutex::new(None),
            no_tsc: AtomicBool::new(false),
            handed: offer::HandedPages::default(),
            policy: ThreadPolicy::default(),
            birth: Mutex::new(None),
            rseq: rseq::OfThread::default(),
            utility: utility::OfThread::default(),
            robust_list: AtomicU64::new(0),
            has_left_locks: AtomicBool::new(false),
            has_waiters_on_linux: AtomicBool::new(false),
            seccomp: seccomp::Seccomp::default(),
            limits_looked: AtomicU64::new(0),
            signals: signals::OfThread::new(sigmask, user),
            clear_tid: AtomicU64::new(0),
            parking: registers::OfThread::default(),
            observe: observed::OfThread::default(),
            debug: debugregs::OfThread::default(),
            ptrace: tracee::OfThread::default(),
            _charge,
            _counted: Counted::new(Kind::Thread),
        }))
    }

    /// The thread's id on Linux, as the thread itself sees it. The module has said it, not the
    /// proxy: an id is that of a task in the proxy's own process.
    #[inline]
    pub fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Another reference to the thread, which runs.
    pub fn arc(&self) -> Arc<Thread> {
        self.myself.upgrade().expect("the running thread is counted")
    }

    /// The thread's part for the scheduler.
    #[inline]
    pub fn task(&self) -> &Task {
        &self.port.task
    }

    /// The thread that a task is a part of.
    pub fn of(task: &Task) -> &Thread {
        let address = core::ptr::from_ref(task).addr() - offset_of!(Thread, port.task);
        // SAFETY: every task is the part `port.task` of a thread: only `new` makes one. So the
        // thread is there as long as the reference to the task.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// Whether a signal waits that the thread does not block, or it has to leave what it
    /// waits for because another one makes a core dump.
    pub fn has_signal(&self) -> bool {
        if self.process.is_dumping() || self.parking.now().gives_up() {
            return true;
        }
        let own = self.signals.lock();
        own.is_deliverable() || self.process.signals.lock().pending.is_deliverable(own.mask)
    }

    /// The thread's view for memory operations: space, slot, NUMA policy.
    pub fn caller(&self) -> Caller<'_> {
        Caller {
            memory: self.process.memory(),
            slot: self.port.slot_index,
            policy: &self.policy,
            thread: self,
        }
    }

    /// Copies into the scratch page of its slot; the address for its worker.
    pub fn write_scratch(&self, bytes: &[u8]) -> Result<u64> {
        self.process.memory().write_scratch(self.port.slot_index, bytes)
    }

    /// Whether a tracer or a debugger holds the thread.
    pub fn is_held(&self) -> bool {
        self.parking.now().is_held(self.process.observed.holds())
    }

    /// Whether a tracer or a debugger waits for its registers, which it can leave where it waits.
    pub fn is_awaited(&self) -> bool {
        self.parking.now().is_awaited(self.process.observed.holds())
    }

    /// Whether the thread has to leave whatever it waits for.
    #[inline]
    pub fn must_end(&self) -> bool {
        let calm = self.state.load(Ordering::Acquire) == ThreadState::Runs as u8
            && self.process.life().is_calm();
        !calm && life::must_end(self.process.life(), self.state())
    }

    /// Sets the head of its robust futex list. The one before.
    pub fn set_robust_list(&self, head: u64) -> u64 {
        let before = self.robust_list.swap(head, Ordering::Relaxed);
        self.signals.lock(); // its worker is told
        before
    }

    /// Binds the words that the calling CPU looks at before each system call of the thread. They
    /// say whether the process is watched, and whether filters judge the call. Where each call is
    /// said in the log, all are watched. So are those of a utility thread, which goes on elsewhere.
    pub fn calls_here(&self) {
        static SAID: AtomicU32 = AtomicU32::new(1);
        let are_all = log::debug_enabled() || self.utility.is_wanted();
        let watched = if are_all { &SAID } else { &self.process.observed.flags };
        // SAFETY: they lie in the thread and its process, which are there as long as it may be in
        // user mode here.
        unsafe { percpu::set_looked_at(watched, &self.seccomp.mode) };
    }

    /// The thread's life-cycle state.
    #[inline]
    pub fn state(&self) -> ThreadState {
        ThreadState::of(self.state.load(Ordering::Acquire))
    }

    /// Stores the life-cycle state. Only `process::states` calls this, after a step of the model.
    pub(super) fn set_state(&self, state: ThreadState) {
        self.state.store(state as u8, Ordering::SeqCst);
    }

    /// Whether the thread has called exit(2), while other threads go on.
    pub fn exits(&self) -> bool {
        self.state() == ThreadState::Exits
    }

    /// A thread that `other` has made, or that goes on in its place in the same process, has its
    /// name, its ids, its CPUs and its worker's attributes.
    pub fn be_like(&self, other: &Thread) {
        // The two threads' locks one after the other.
        let name = *other.name.lock();
        *self.name.lock() = name;
        let ids = *other.ids.lock();
        *self.ids.lock() = ids;
        let affinity = *other.task().affinity.lock();
        self.task().bind(affinity);
        self.attributes.store(other.attributes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Takes over what execve leaves as it was from `old`, in whose place the thread goes on.
    pub fn take_over(self: &Arc<Self>, old: &Thread) {
        // The two threads' locks one after the other.
        let signals = old.signals.lock().hand_over();
        *self.signals.lock() = signals;
        let affinity = *old.task().affinity.lock();
        self.task().bind(affinity);
        let name = *old.name.lock();
        *self.name.lock() = name;
        self.policy.set(old.policy.get(), self.process.memory());
        self.no_tsc.store(old.no_tsc.load(Ordering::Relaxed), Ordering::Relaxed);
        self.seccomp.inherit(old.seccomp.inherited());
    }

    /// The running thread forbids itself the time stamp counter, or not any more.
    pub fn forbid_tsc(&self, forbidden: bool) {
        self.no_tsc.store(forbidden, Ordering::Relaxed);
        usertsc::switch(forbidden);
    }

    /// The state a new program starts with (exec).
    pub fn reset_user_state(&self) {
        self.clear_tid.store(0, Ordering::Relaxed);
        self.set_robust_list(0);
        self.has_left_locks.store(false, Ordering::Relaxed);
        self.rseq.set(None);
        self.utility.clear();
        self.utility.set_bell(utility::Bell::None);
        fpu::reset();
        cpu::set_fs_base(0);
        cpu::set_user_gs_base(0);
    }
}

/// The running thread; only where one runs (system calls, faults). For entries and first steps,
/// which no caller hands a thread.
#[inline]
pub fn current() -> &'static Thread {
    Thread::of(cpus::current())
}

/// The running thread, if any.
pub fn try_current() -> Option<&'static Thread> {
    cpus::try_current().map(Thread::of)
}

/// The parent of a vfork. It may go on when this is dropped: its child has left its memory, or
/// there will be no child. So it is told once, and never in a later vfork.
pub struct ParentWaits(Arc<Thread>);

impl ParentWaits {
    /// A vfork's parent, whose wait begins.
    pub fn new(parent: Arc<Thread>) -> ParentWaits {
        ParentWaits(parent)
    }
}

impl Drop for ParentWaits {
    fn drop(&mut self) {
        self.0.process.release(&self.0);
    }
}
