//! A thread of an application, with its kernel stack, its slot, and what the
//! processor keeps for it while another one runs.

#![allow(unsafe_code)] // interior state that only the owning CPU touches

use crate::base::heap;
use crate::base::accounts::Charge;
use crate::base::stacks::{self, Stack};
use crate::calls::seccomp;
use crate::gate::{debugregs, observe, ptrace, rseq};
use crate::process::{Ids, Process, info};
use crate::sched::cpus;
use crate::sched::balance::CpuMask;
use crate::sched::quota;
use crate::signal::signals;
use alloc::vec::Vec;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use hanare_core::bandwidth::Allowance;
use hanare_core::mempolicy::Policy;
use hanare_core::rseq::Area;
use hanare_hal::context::Context;
use hanare_hal::fpu::FpuState;
use hanare_hal::traps::Regs;
use hanare_hal::{cpu, fpu};
use hanare_ikc::SlotRef;
use spin::Mutex;

/// User registers that are not in the trap frame.
struct Extended {
    context: Context,
    fpu: FpuState,
    fs_base: u64,
    gs_base: u64,
}

/// A thread.
pub struct Thread {
    /// Its process.
    pub process: Arc<Process>,
    /// Slot index in the process; 0 is the first thread's.
    pub slot_index: u32,
    /// The slot shared with its worker.
    pub slot: SlotRef<'static>,
    /// CPU on whose queue it is, or that runs it.
    pub cpu: AtomicUsize,
    /// A CPU runs on its stack.
    pub on_cpu: AtomicBool,
    /// CPUs it may run on.
    pub affinity: Mutex<CpuMask>,
    /// TSC value since which it runs, 0 while it does not.
    pub since: AtomicU64,
    /// It was kicked, and the CPU has not looked yet.
    pub kicked: AtomicBool,
    /// What it waits for is told it, see [`cpus::Wait::is_told`].
    pub is_told: AtomicBool,
    /// Bell of its slot.
    pub bell: u32,
    /// TSC value at which it wants to look again, while it waits.
    pub deadline: AtomicU64,
    /// TSC cycles the last delegated call took if it was not short, else 0.
    pub last_call: AtomicU64,
    /// Its accesses to user memory fail where a page is not there (under a lock).
    pub in_place: AtomicBool,
    /// Woken by a futex call, see `futex`.
    pub futex_woken: AtomicBool,
    /// It has to end (exec of another thread).
    pub dying: AtomicBool,
    /// It has called exit(2).
    pub left: AtomicBool,
    /// File references that it drops, while they are to go together (`services::put_together`).
    pub puts: Mutex<Option<Vec<u64>>>,
    /// The worker of the thread has descriptors, directories or filters of its own, which no
    /// other worker can take over: its execve is Linux'.
    pub is_apart: AtomicBool,
    /// Which attributes its worker has, see `slots`.
    pub attributes: AtomicU64,
    /// On whose behalf it calls; its worker has the same.
    pub ids: Mutex<Ids>,
    /// Its name: of its program, or as PR_SET_NAME has it.
    pub name: Mutex<Option<[u8; 16]>>,
    /// It may not read the time stamp counter (`PR_SET_TSC`).
    pub no_tsc: AtomicBool,
    /// NUMA policy (`set_mempolicy`).
    pub policy: Mutex<Policy>,
    /// Where a new thread starts: registers, FPU state, FS and GS base.
    pub birth: Mutex<Option<Birth>>,
    /// See rseq(2).
    pub rseq: rseq::OfThread,
    /// Head of the robust futex list.
    pub robust_list: AtomicU64,
    /// Which calls it may make.
    pub seccomp: seccomp::Seccomp,
    /// Signal mask, pending signals, alternate stack. Locked before those of its process.
    pub signals: Mutex<signals::ThreadSignals>,
    /// CPU time that its control group has granted it.
    allowance: Allowance,
    /// TSC cycles spent running (without those since `since`).
    user_cycles: AtomicU64,
    /// TSC cycles spent waiting for Linux with the CPU kept.
    pub system_cycles: AtomicU64,
    /// See [`info::Counts`].
    pub counts: info::Counts,
    /// Address to clear and wake at exit (set_tid_address).
    pub clear_tid: AtomicU64,
    /// Tracers and debuggers.
    pub observe: observe::OfThread,
    /// Debug registers.
    pub debug: debugregs::OfThread,
    /// See ptrace(2).
    pub ptrace: ptrace::OfThread,
    stack: Stack,
    _charge: Charge,
    extended: UnsafeCell<Extended>,
    /// What it waits for; see [`Thread::set_wait`].
    wait: UnsafeCell<Option<NonNull<dyn cpus::Wait>>>,
}

// SAFETY: `extended` and `wait` are touched only by the CPU on whose queue the thread
// is, with interrupts off; everything else is atomic or locked.
unsafe impl Sync for Thread {}
// SAFETY: as above; nothing in it is bound to a CPU.
unsafe impl Send for Thread {}

/// What a thread or process that was cloned starts with.
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
    /// What the child of a fork has registered with rseq(2), as its parent.
    pub rseq: Option<Area>,
    /// CLONE_CLEAR_SIGHAND.
    pub clear_handlers: bool,
    /// The caller's NUMA policy.
    pub policy: Policy,
    /// The caller may not read the time stamp counter.
    pub no_tsc: bool,
    /// A program that replaced another one begins (execve).
    pub is_program: bool,
    /// The name that a worker which had another thread has to be given.
    pub name: Option<[u8; 16]>,
}

impl Birth {
    /// From the running thread.
    pub fn of_current(regs: &Regs) -> Birth {
        let mut fpu = FpuState::new();
        fpu.save();
        let bases = (cpu::fs_base(), cpu::user_gs_base());
        Birth::new(Regs { rax: 0, ..*regs }, fpu, bases, false)
    }

    /// Of a program that begins with `regs`, in place of that of the running thread.
    pub fn of_program(regs: &Regs) -> Birth {
        Birth::new(*regs, FpuState::new(), (0, 0), true)
    }

    fn new(regs: Regs, fpu: FpuState, (fs_base, gs_base): (u64, u64), is_program: bool) -> Birth {
        let me = cpus::current();
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
            policy: *me.policy.lock(),
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
    /// A thread that begins in `start(thread as usize)`.
    pub fn new(process: Arc<Process>, slot_index: u32, slot: SlotRef<'static>, start: extern "C" fn(usize) -> !) -> Option<Arc<Thread>> {
        let bytes = size_of::<Thread>() + fpu::size() + crate::process::clone::SMALL_PARTS;
        heap::room(bytes).ok()?;
        let _charge = process.account.charge(bytes as u64 + stacks::BYTES).ok()?;
        let bell = process.bell(slot_index)?;
        let stack = Stack::new()?;
        let top = stack.top();
        let sigmask = process.start_mask();
        Some(Arc::new_cyclic(|weak| Thread {
            process,
            slot_index,
            slot,
            cpu: AtomicUsize::new(0),
            on_cpu: AtomicBool::new(false),
            affinity: Mutex::new(CpuMask::all()),
            since: AtomicU64::new(0),
            kicked: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            bell,
            deadline: AtomicU64::new(crate::sched::cpus::NEVER),
            last_call: AtomicU64::new(0),
            in_place: AtomicBool::new(false),
            futex_woken: AtomicBool::new(false),
            dying: AtomicBool::new(false),
            left: AtomicBool::new(false),
            puts: Mutex::new(None),
            is_apart: AtomicBool::new(false),
            attributes: AtomicU64::new(0),
            ids: Mutex::new(Ids::default()),
            name: Mutex::new(None),
            no_tsc: AtomicBool::new(false),
            policy: Mutex::new(Policy::default()),
            birth: Mutex::new(None),
            rseq: rseq::OfThread::default(),
            robust_list: AtomicU64::new(0),
            seccomp: seccomp::Seccomp::default(),
            signals: Mutex::new(signals::ThreadSignals::new(sigmask)),
            allowance: Allowance::default(),
            user_cycles: AtomicU64::new(0),
            system_cycles: AtomicU64::new(0),
            counts: info::Counts::default(),
            clear_tid: AtomicU64::new(0),
            observe: observe::OfThread::default(),
            debug: debugregs::OfThread::default(),
            ptrace: ptrace::OfThread::default(),
            stack,
            _charge,
            wait: UnsafeCell::new(None),
            extended: UnsafeCell::new(Extended {
                // The queue holds the thread while it starts, so the pointer stays good.
                context: Context::new(top, start, weak.as_ptr() as usize),
                fpu: FpuState::new(),
                fs_base: 0,
                gs_base: 0,
            }),
        }))
    }

    /// The thread whose address a start function was given.
    pub fn from_argument(argument: usize) -> &'static Thread {
        // SAFETY: `new` passed the address of an `Arc<Thread>` that the CPU's
        // `current` holds until the thread ends; a thread's own code sees it as static.
        unsafe { &*(argument as *const Thread) }
    }

    /// Whether a signal waits that the thread does not block, or it has to leave what it
    /// waits for because another one makes a core dump.
    pub fn has_signal(&self) -> bool {
        if self.process.dumping.load(Ordering::Acquire) || self.ptrace.gives_up() {
            return true;
        }
        let own = self.signals.lock();
        own.is_deliverable() || self.process.signals.lock().pending.is_deliverable(own.mask_now())
    }

    /// Whether somebody waits for its registers, which it can leave where it waits.
    pub fn is_awaited(&self) -> bool {
        observe::debug::is_awaited(self) || self.ptrace.is_awaited()
    }

    /// Whether it has to leave whatever it waits for.
    pub fn must_end(&self) -> bool {
        self.process.is_killed() || self.dying.load(Ordering::Relaxed)
    }

    /// Top of the kernel stack.
    pub fn stack_top(&self) -> u64 {
        self.stack.top()
    }

    /// Whether `addr` lies below the end of the kernel stack.
    pub fn has_overflown(&self, addr: u64) -> bool {
        self.stack.guards(addr)
    }

    /// Its place for the kernel context.
    pub fn context(&self) -> *mut Context {
        // SAFETY: only forms an address.
        unsafe { &raw mut (*self.extended.get()).context }
    }

    /// Keeps the processor's user state.
    pub fn save_user_state(&self) {
        // SAFETY: called by the CPU that runs the thread, see `Sync`.
        let e = unsafe { &mut *self.extended.get() };
        e.fpu.save();
        e.fs_base = cpu::fs_base();
        e.gs_base = cpu::user_gs_base();
    }

    /// Puts it back.
    pub fn restore_user_state(&self) {
        // SAFETY: as above.
        let e = unsafe { &*self.extended.get() };
        e.fpu.restore();
        cpu::set_fs_base(e.fs_base);
        cpu::set_user_gs_base(e.gs_base);
    }

    /// Takes over what execve leaves as it was from `old`, in whose place the thread goes on.
    pub fn take_over(self: &Arc<Self>, old: &Thread) {
        *self.signals.lock() = old.signals.lock().hand_over();
        *self.affinity.lock() = *old.affinity.lock();
        *self.name.lock() = *old.name.lock();
        *self.policy.lock() = *old.policy.lock();
        self.no_tsc.store(old.no_tsc.load(Ordering::Relaxed), Ordering::Relaxed);
        self.seccomp.inherit(old.seccomp.inherited());
        ptrace::continue_as(old, self);
    }

    /// The state a new program starts with (exec).
    pub fn reset_user_state(&self) {
        self.clear_tid.store(0, Ordering::Relaxed);
        self.robust_list.store(0, Ordering::Relaxed);
        self.rseq.set(None);
        self.debug.reset();
        FpuState::new().restore();
        cpu::set_fs_base(0);
        cpu::set_user_gs_base(0);
    }

    /// It runs from now on.
    pub fn begin_run(&self, now: u64) {
        self.since.store(now, Ordering::Relaxed);
    }

    /// It does not run any more. Others of its control group may have what it has not used.
    #[inline]
    pub fn end_run(&self, now: u64) {
        let since = self.since.swap(0, Ordering::Relaxed);
        if since != 0 {
            self.user_cycles.fetch_add(now.saturating_sub(since), Ordering::Relaxed);
        }
        if self.allowance.has_group() {
            self.give_time_back();
        }
    }

    /// TSC cycles so far: user, system. Those of a running thread up to now.
    pub fn cycles(&self) -> (u64, u64) {
        let since = self.since.load(Ordering::Relaxed);
        let running = if since == 0 { 0 } else { cpu::rdtsc().saturating_sub(since) };
        (self.user_cycles.load(Ordering::Relaxed) + running, self.system_cycles.load(Ordering::Relaxed))
    }

    /// For how many cycles it may go on in user mode; `u64::MAX`: for ever.
    ///
    /// # Errors
    /// Its control group has no CPU time before this TSC value.
    #[inline]
    pub fn time_left(&self) -> Result<u64, u64> {
        if !quota::concerns(&self.allowance, &self.process.account) {
            return Ok(u64::MAX);
        }
        self.renew_time()
    }

    #[cold]
    #[inline(never)]
    fn renew_time(&self) -> Result<u64, u64> {
        quota::renew(&self.allowance, &self.process.account, self.cycles_used())
    }

    #[cold]
    #[inline(never)]
    fn give_time_back(&self) {
        quota::settle(&self.allowance, self.cycles_used());
    }

    fn cycles_used(&self) -> u64 {
        let (user, system) = self.cycles();
        user + system
    }

    /// Whether it has something to do on its way to user mode, though it may not go there.
    pub fn is_wanted(&self) -> bool {
        self.must_end() || self.is_awaited() || self.has_signal()
    }

    /// Says what it waits for, until `None`.
    ///
    /// # Safety
    /// Called by the CPU that runs the thread; `what` must stay good until then.
    pub unsafe fn set_wait(&self, what: Option<&dyn cpus::Wait>) {
        // SAFETY: only the lifetime changes; the caller vouches for it.
        let what = what.map(|w| unsafe { core::mem::transmute::<&dyn cpus::Wait, NonNull<dyn cpus::Wait>>(w) });
        // SAFETY: see `Sync`.
        unsafe { *self.wait.get() = what };
    }

    /// Whether what it waits for has come. Asked by the CPU on whose queue it is.
    pub fn is_ready(&self) -> bool {
        // SAFETY: see `Sync`; the pointer is good while it is set.
        unsafe { (*self.wait.get()).is_none_or(|w| w.as_ref().ready()) || self.is_awaited() }
    }
}
