//! The threads of each CPU: its queues, behind a lock, since other CPUs put threads there and take
//! them from there.

use crate::base::line::Line;
use crate::base::lock::{Mutex, MutexGuard, rank};
use crate::base::stacks;
use crate::sched::queue::{self, Sleeper};
use crate::sched::task::{Running, Runs};
use crate::sched::{attention, balance};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::boot::BELL_BITS;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::context::Context;
use hanare_hal::{boot, percpu, shared};
use spin::Once;

use crate::base::time::NEVER;
use crate::sched::attention::{SLEEPS, WANTS_CPU};

/// Key of a thread that sleeps until it is told.
pub(super) fn sleeper(thread: &Arc<dyn Runs>) -> Sleeper {
    (thread.task().bell % BELL_BITS, Arc::as_ptr(thread).addr())
}

/// One CPU.
pub struct Cpu {
    /// Threads that want to run.
    pub(super) runnable: VecDeque<Arc<dyn Runs>>,
    /// Threads that wait for something and are asked at every event.
    pub(super) waiting: Vec<Arc<dyn Runs>>,
    /// Threads that sleep until they are told ([`is_told`](super::task::Wait::is_told)).
    pub(super) asleep: BTreeMap<Sleeper, Arc<dyn Runs>>,
    /// When those are to be woken at the latest: TSC value.
    pub(super) alarms: BTreeSet<(u64, Sleeper)>,
    /// The running task.
    pub(super) current: Option<Running>,
    /// The one that ran before the last switch, until that is complete.
    pub(super) previous: Option<Running>,
    /// Ended threads whose stacks may be freed after the next switch.
    pub(super) dead: Vec<Arc<dyn Runs>>,
    /// A thread that goes to another CPU's queue after the next switch.
    pub(super) leaving: Option<(Arc<dyn Runs>, usize)>,
    pub(super) idle: Context,
    /// TSC value at which the running thread makes room, or [`NEVER`].
    pub(super) slice_end: u64,
    /// TSC value the timer is armed for, or [`NEVER`].
    pub(super) timer: u64,
}

impl Cpu {
    /// `thread` waits from now on.
    pub(super) fn begin_wait(&mut self, thread: Arc<dyn Runs>) {
        if !thread.task().is_told.load(Ordering::Relaxed) {
            attention::mine().company().joined_by(WANTS_CPU);
            return queue::add(&mut self.waiting, thread);
        }
        attention::mine().company().joined_by(SLEEPS);
        let (at, deadline) = (sleeper(&thread), thread.task().deadline.load(Ordering::Relaxed));
        if deadline != NEVER {
            queue::add_alarm(&mut self.alarms, (deadline, at));
        }
        queue::add_sleeper(&mut self.asleep, at, thread);
    }

    /// Removes a thread that waits until it is told, since it waits no more.
    pub(super) fn end_sleep(&mut self, thread: &Arc<dyn Runs>) -> Option<Arc<dyn Runs>> {
        let at = sleeper(thread);
        self.alarms.remove(&(thread.task().deadline.load(Ordering::Relaxed), at));
        self.asleep.remove(&at)
    }

    /// Sleeping threads whose deadline is `now` or earlier.
    pub(super) fn due(&self, now: u64) -> impl Iterator<Item = Arc<dyn Runs>> {
        self.alarms
            .range(..=(now, (u32::MAX, usize::MAX)))
            .filter_map(|(_, at)| self.asleep.get(at).cloned())
    }

    /// The sleeping threads with a bell of this bit.
    pub(super) fn with_bell(&self, bell: u32) -> impl Iterator<Item = Arc<dyn Runs>> {
        self.asleep.range((bell, 0)..=(bell, usize::MAX)).map(|(_, thread)| thread.clone())
    }

    /// `thread` wants to run, on this CPU, `index`.
    pub(super) fn join(&mut self, index: usize, thread: Arc<dyn Runs>) {
        Self::tell_of(index, &thread);
        queue::add_last(&mut self.runnable, thread);
    }

    /// `thread` comes to the run queue of CPU `index`, whose lock is held: other CPUs learn of it
    /// by a look at flags.
    pub(super) fn tell_of(index: usize, thread: &Arc<dyn Runs>) {
        attention::company(index).joined_by(WANTS_CPU);
        balance::takers(index).add(thread.task().may_run_on().words());
    }

    pub(super) fn update_load(&self, index: usize, running: bool) {
        balance::set_load(index, self.runnable.len() + usize::from(running));
    }
}

static CPUS: [Line<Once<Mutex<Cpu, rank::CpuQueue>>>; CPUS_MAX] =
    [const { Line(Once::new()) }; CPUS_MAX];

/// Creates every CPU's state and stack (first CPU, once).
pub fn init() {
    let count = shared::params().cpu_count as usize;
    for (i, slot) in CPUS.iter().enumerate().take(count) {
        slot.call_once(|| {
            Mutex::new(Cpu {
                runnable: VecDeque::new(),
                waiting: Vec::new(),
                asleep: BTreeMap::new(),
                alarms: BTreeSet::new(),
                current: None,
                previous: None,
                dead: Vec::new(),
                leaving: None,
                idle: Context::default(),
                slice_end: NEVER,
                timer: NEVER,
            })
        });
        if i > 0 {
            boot::set_stack(i, stacks::of_cpu(i).idle);
        }
    }
}

pub(super) fn cpu_state(index: usize) -> MutexGuard<'static, Cpu, rank::CpuQueue> {
    CPUS[index].get().expect("cpus::init").lock()
}

/// Memory of a CPU's lists, if nothing runs there.
pub fn trim() {
    for cpu in CPUS.iter().filter_map(|cpu| cpu.get()) {
        let mut c = cpu.lock();
        if c.runnable.is_empty() && c.waiting.is_empty() && c.dead.is_empty() {
            (c.runnable, c.waiting, c.dead) = (VecDeque::new(), Vec::new(), Vec::new());
        }
        if c.asleep.is_empty() {
            (c.asleep, c.alarms) = (BTreeMap::new(), BTreeSet::new());
        }
    }
}

/// The calling CPU.
pub(super) fn this() -> MutexGuard<'static, Cpu, rank::CpuQueue> {
    cpu_state(percpu::index())
}

/// Sets the company of the calling CPU ([`attention::company`]) by a look at its queues, and
/// returns it.
#[cold]
pub(super) fn look_for_company() -> u32 {
    let c = this();
    let wants = !c.runnable.is_empty() || !c.waiting.is_empty();
    let kinds = if wants { WANTS_CPU } else { 0 } | if c.asleep.is_empty() { 0 } else { SLEEPS };
    attention::mine().company().set(kinds);
    kinds
}
