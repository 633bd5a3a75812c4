//! The scheduler's part of a thread: where it runs, what it waits for, its kernel stack, and its
//! processor state while another thread runs. The rest is the business of the layers above, which
//! say it by [`Runs`].

use crate::base::accounts::Account;
use crate::base::counts::Counts;
use crate::base::lock::{Mutex, rank};
use crate::base::stacks::Stack;
use crate::base::time::NEVER;
use crate::sched::cpu_mask::CpuMask;
use crate::sched::quota;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_core::bandwidth::Allowance;
use hanare_hal::condition::Condition;
use hanare_hal::context::Context;
use hanare_hal::cpu;
use hanare_hal::fpu::FpuState;
use hanare_hal::oncpu::{self, OnCpu};
use hanare_hal::traps::{self, Regs};
use hanare_ikc::wake::Whereabouts;

/// A condition that a thread waits for. The thread's CPU asks for it, whichever thread runs there:
/// the running thread may be another one.
pub trait Wait: Send {
    /// The condition holds, or there is no point in waiting on.
    fn ready(&self) -> bool;
    /// `true`: we are about to sleep, ring us on this CPU. `false`: we are awake.
    fn announce(&self, asleep: bool);
    /// Whether the other side is awake, so that its answer is near.
    fn near(&self) -> bool {
        true
    }
    /// Whether the side that makes it ready kicks the thread ([`crate::sched::kick::kick`]) or
    /// rings its bell. Then the CPU need ask only after that, and at the deadline.
    fn is_told(&self) -> bool {
        false
    }
    /// TSC value at which it is to look again, at the latest.
    fn deadline(&self) -> u64 {
        NEVER
    }
}

/// An object with a [`Task`], and what the scheduler asks of it. There is one such type, the thread
/// of a process, which stands three layers above: the scheduler calls up through this trait only.
pub trait Runs: Send + Sync {
    /// The scheduler's part of the thread.
    fn task(&self) -> &Task;
    /// The calling CPU goes on with it: with its memory, and what else the processor has of it.
    fn enter(&self);
    /// The calling CPU has stopped running it, and goes on with `next`, which has entered.
    fn leave(&self, next: Option<&dyn Runs>);
    /// The CPU halts while the thread waits: other CPUs need not interrupt this one for the
    /// thread's memory. False: the CPU keeps the memory's table, since no other CPU uses it.
    fn lets_memory_go(&self) -> bool;
    /// The halt is over: the calling CPU loads the table of the thread's memory again.
    fn takes_memory(&self);
    /// Nanoseconds of CPU time until one of its timers is due.
    fn cpu_timer_ns(&self) -> Option<u64>;
    /// Whether a tracer or debugger waits for its registers, which it can leave where it waits.
    fn is_awaited(&self) -> bool;
    /// Leaves the thread's registers to the tracer or debugger, where the thread waits.
    fn leaves_registers(&self);
    /// Whether the thread has to leave whatever it waits for.
    fn must_end(&self) -> bool;
    /// Whether a signal waits that the thread does not block.
    fn has_signal(&self) -> bool;
    /// Whether the thread has something to do on its way to user mode, though it may not go there.
    fn is_wanted(&self) -> bool {
        self.must_end() || self.is_awaited() || self.has_signal()
    }
    /// Linux' id of its thread, and the id of its space, for the log and for Linux.
    fn ids(&self) -> (u32, u32);
}

/// User registers that are not in the trap frame, and the place of the kernel's.
pub struct Extended {
    context: Context,
    fpu: FpuState,
    fs_base: u64,
    gs_base: u64,
}

impl Extended {
    /// The place for the kernel context.
    pub fn context(&mut self) -> *mut Context {
        &raw mut self.context
    }

    /// Keeps the processor's user state.
    pub fn save(&mut self) {
        self.fpu.save();
        self.fs_base = cpu::fs_base();
        self.gs_base = cpu::user_gs_base();
    }

    /// Loads the user state that was kept.
    pub fn restore(&self) {
        self.fpu.restore();
        cpu::set_fs_base(self.fs_base);
        cpu::set_user_gs_base(self.gs_base);
    }
}

/// A thread that the CPU runs, and on whose stack the CPU is.
pub type Running = oncpu::Running<dyn Runs, Extended>;

/// Takes a thread to run it.
///
/// # Errors
/// Another CPU has not quite left its stack.
pub fn take(thread: Arc<dyn Runs>) -> Result<Running, Arc<dyn Runs>> {
    Running::take(thread, |t| &t.task().extended)
}

/// The scheduler's part of a thread. The order is that of cache lines: each call that is woken for
/// has the first two.
#[repr(C, align(64))]
pub struct Task {
    /// TSC value since which it runs, 0 while it does not.
    pub since: AtomicU64,
    /// TSC cycles spent running (without those since `since`).
    user_cycles: AtomicU64,
    /// TSC cycles spent waiting for Linux with the CPU kept.
    pub system_cycles: AtomicU64,
    /// Counters of the thread, for statistics.
    pub counts: Counts,
    /// CPU time that the thread's control group has granted.
    allowance: Allowance,
    /// Bell of the thread's slot.
    pub bell: u32,
    /// CPU on whose queue it is, or that runs it; whether it was kicked and the CPU has not looked
    /// yet.
    pub whereabouts: Whereabouts,
    /// TSC value at which it wants to look again, while it waits.
    pub deadline: AtomicU64,
    /// TSC cycles that went to others' requests while it waited with the CPU kept.
    pub others_cycles: AtomicU64,
    /// The side that the thread waits for tells it, see [`Wait::is_told`].
    pub is_told: AtomicBool,
    /// The thread may not run on all CPUs.
    is_bound: AtomicBool,
    /// The thread that the task is a part of.
    whole: Weak<dyn Runs>,
    /// CPUs that the thread may run on, see [`bind`](Self::bind).
    pub affinity: Mutex<CpuMask, rank::Affinity>,
    /// The account whose control group is charged for the thread's CPU time.
    account: Arc<Account>,
    stack: Stack,
    extended: OnCpu<Extended>,
    /// The condition that the thread waits for while others run.
    wait: Condition,
}

impl Task {
    /// The task of a thread `whole`, which begins in `start`.
    pub fn new(
        whole: Weak<dyn Runs>,
        account: Arc<Account>,
        bell: u32,
        stack: Stack,
        start: extern "C" fn() -> !,
    ) -> Task {
        let context = Context::new(stack.top(), start);
        Task {
            whole,
            whereabouts: Whereabouts::new(),
            affinity: Mutex::new(CpuMask::all()),
            since: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            is_bound: AtomicBool::new(false),
            bell,
            deadline: AtomicU64::new(NEVER),
            account,
            allowance: Allowance::default(),
            user_cycles: AtomicU64::new(0),
            system_cycles: AtomicU64::new(0),
            others_cycles: AtomicU64::new(0),
            counts: Counts::default(),
            stack,
            extended: OnCpu::new(Extended {
                context,
                fpu: FpuState::new(),
                fs_base: 0,
                gs_base: 0,
            }),
            wait: Condition::new(),
        }
    }

    /// The thread that it is a part of. None while that is dropped.
    pub fn whole(&self) -> Option<Arc<dyn Runs>> {
        self.whole.upgrade()
    }

    /// Like [`whole`](Self::whole), without a reference count.
    #[allow(unsafe_code)]
    pub fn runs(&self) -> &dyn Runs {
        // SAFETY: the task lies in the thread, so that is there as long as the reference to the
        // task.
        unsafe { &*self.whole.as_ptr() }
    }

    /// Top of the kernel stack.
    pub fn stack_top(&self) -> u64 {
        self.stack.top()
    }

    /// The registers with which it last came from user mode, if it waits in the kernel; anything,
    /// if it does not.
    #[allow(unsafe_code)]
    pub fn registers_on_stack(&self) -> Option<Regs> {
        // SAFETY: the task has its stack as long as it is there.
        unsafe { traps::registers_on_stack(self.stack_top()) }
    }

    /// Whether `addr` lies below the end of the kernel stack.
    pub fn has_overflown(&self, addr: u64) -> bool {
        self.stack.guards(addr)
    }

    /// Whether a CPU runs on the thread's stack.
    pub fn is_on_cpu(&self) -> bool {
        self.extended.is_taken()
    }

    /// Restricts the thread to these CPUs from now on. If it is on a queue already,
    /// [`cpus::is_bound_anew`](super::cpus::is_bound_anew) has to follow.
    pub fn bind(&self, mask: CpuMask) {
        let mut affinity = self.affinity.lock();
        *affinity = mask;
        self.is_bound.store(mask.leaves_out(), Ordering::Relaxed);
    }

    /// CPUs it may run on, for the queue that it comes to; without its lock where it may run
    /// anywhere.
    #[inline]
    pub fn may_run_on(&self) -> CpuMask {
        if self.is_bound.load(Ordering::Relaxed) {
            return *self.affinity.lock();
        }
        CpuMask::all()
    }

    /// The thread runs from `now` on.
    pub fn begin_run(&self, now: u64) {
        self.since.store(now, Ordering::Relaxed);
    }

    /// The thread does not run any more: adds the cycles of its turn to its CPU time.
    #[inline]
    pub fn end_turn(&self, now: u64) {
        // Only the CPU that runs it changes them.
        let since = self.since.load(Ordering::Relaxed);
        if since != 0 {
            self.since.store(0, Ordering::Relaxed);
            let ran = now.saturating_sub(since);
            let before = self.user_cycles.load(Ordering::Relaxed);
            self.user_cycles.store(before + ran, Ordering::Relaxed);
        }
    }

    /// As [`end_turn`](Self::end_turn); others of its control group may have what it has not used.
    #[inline]
    pub fn end_run(&self, now: u64) {
        self.end_turn(now);
        if self.allowance.has_group() {
            self.give_time_back();
        }
    }

    /// Cycles of its CPU just went to what is not its business: requests of Linux.
    pub fn not_its(&self, cycles: u64) {
        let since = self.since.load(Ordering::Relaxed);
        if since != 0 {
            self.since.store(since + cycles, Ordering::Relaxed);
        } else {
            let sum = self.others_cycles.load(Ordering::Relaxed) + cycles;
            self.others_cycles.store(sum, Ordering::Relaxed);
        }
    }

    /// TSC cycles so far: user, system. Those of a running thread up to now.
    pub fn cycles(&self) -> (u64, u64) {
        let since = self.since.load(Ordering::Relaxed);
        let running = if since == 0 { 0 } else { cpu::rdtsc().saturating_sub(since) };
        (
            self.user_cycles.load(Ordering::Relaxed) + running,
            self.system_cycles.load(Ordering::Relaxed),
        )
    }

    /// For how many cycles it may go on in user mode; `u64::MAX`: for ever.
    ///
    /// # Errors
    /// Its control group has no CPU time before this TSC value.
    #[inline]
    pub fn time_left(&self) -> Result<u64, u64> {
        if !quota::concerns(&self.allowance, &self.account) {
            return Ok(u64::MAX);
        }
        self.renew_time()
    }

    /// Whether a control group has granted the thread's CPU time.
    pub fn has_group(&self) -> bool {
        self.allowance.has_group()
    }

    /// Whether the thread's control group has CPU time now.
    pub fn has_time(&self) -> bool {
        quota::has_time(&self.account)
    }

    #[cold]
    #[inline(never)]
    fn renew_time(&self) -> Result<u64, u64> {
        quota::renew(&self.allowance, &self.account, self.cycles_used())
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

    /// Does something, such as to let another thread run. Meanwhile the thread that runs on this
    /// CPU can ask whether the condition of this one holds.
    pub fn wait_for<R>(&self, what: &mut dyn Wait, f: impl FnOnce() -> R) -> R {
        self.wait.during(&mut move || what.ready(), f)
    }

    /// Whether the condition that it waits for holds. The CPU on whose queue it is asks that.
    pub fn is_ready(&self) -> bool {
        self.wait.holds().unwrap_or(true) || self.runs().is_awaited()
    }
}
