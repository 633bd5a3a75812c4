//! What each CPU runs: its queue, switching, idling.
//!
//! A CPU's state is changed by that CPU with interrupts off; other CPUs put threads on
//! its queue or take them from there (`balance`), hence the lock, which is never held
//! across a switch. A thread that waits stays with its CPU, which asks its [`Wait`]
//! whether it may go on: at every event, or only when the thread itself was kicked, its
//! bell rang or its time has come, where that is all it waits for ([`Wait::is_told`]).
//! A core with one thread takes no timer interrupt.

#![allow(unsafe_code)] // the switch itself

use crate::machinecheck;
use crate::base::stacks;
use crate::gate::debugregs;
use crate::link::inbound;
use crate::process::{info, usertsc};
use crate::process::thread::Thread;
use crate::sched::{balance, doorbell, kick, tlb, turns};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_abi::boot::BELL_BITS;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::context::{self, Context};
use hanare_hal::{apic, boot, cpu, gdt, paging, percpu, shared};
use hanare_ikc::Bells;
use spin::{Mutex, MutexGuard, Once};

/// Round-robin slice where several threads share a CPU.
const SLICE_MS: u64 = 5;
/// Timers that count CPU time are looked at no more often than this.
const CPU_TIMER_NS: u64 = 1_000_000;

pub use crate::sched::kick::kick;
pub use crate::sched::post::{FLUSH, KICK, post, take_posted};
use crate::sched::post::{begin_looking, end_looking};
pub use crate::sched::wait::{Wait, poll_for, wait};

/// A deadline that never comes.
pub const NEVER: u64 = u64::MAX;

/// A thread that is told: the bit of its bell and its address.
type Sleeper = (u32, usize);

fn sleeper(thread: &Arc<Thread>) -> Sleeper {
    (thread.bell % BELL_BITS, Arc::as_ptr(thread) as usize)
}

/// One CPU.
pub struct Cpu {
    /// Threads that want to run.
    runnable: VecDeque<Arc<Thread>>,
    /// Threads that wait for something and are asked at every event.
    waiting: Vec<Arc<Thread>>,
    /// Those that are told.
    asleep: BTreeMap<Sleeper, Arc<Thread>>,
    /// When those are to be woken at the latest: TSC value.
    alarms: BTreeSet<(u64, Sleeper)>,
    /// The running one.
    current: Option<Arc<Thread>>,
    /// Ended threads whose stacks may be freed after the next switch.
    dead: Vec<Arc<Thread>>,
    /// A thread that goes to another CPU's queue after the next switch.
    leaving: Option<(Arc<Thread>, usize)>,
    idle: Context,
    /// TSC value at which the running thread makes room, or [`NEVER`].
    slice_end: u64,
    /// TSC value the timer is armed for, or [`NEVER`].
    timer: u64,
}

impl Cpu {
    /// `thread` waits from now on.
    fn begin_wait(&mut self, thread: Arc<Thread>) {
        if !thread.is_told.load(Ordering::Relaxed) {
            return self.waiting.push(thread);
        }
        let (at, deadline) = (sleeper(&thread), thread.deadline.load(Ordering::Relaxed));
        if deadline != NEVER {
            self.alarms.insert((deadline, at));
        }
        self.asleep.insert(at, thread);
    }

    /// One of those that are told waits no more.
    fn end_sleep(&mut self, thread: &Arc<Thread>) -> Option<Arc<Thread>> {
        let at = sleeper(thread);
        self.alarms.remove(&(thread.deadline.load(Ordering::Relaxed), at));
        self.asleep.remove(&at)
    }

    /// Those of the sleeping threads whose time has come.
    fn due(&self, now: u64) -> impl Iterator<Item = Arc<Thread>> {
        self.alarms.range(..=(now, (u32::MAX, usize::MAX))).filter_map(|(_, at)| self.asleep.get(at).cloned())
    }

    /// The sleeping threads with a bell of this bit.
    fn with_bell(&self, bell: u32) -> impl Iterator<Item = Arc<Thread>> {
        self.asleep.range((bell, 0)..=(bell, usize::MAX)).map(|(_, thread)| thread.clone())
    }

    fn update_load(&self, index: usize, running: bool) {
        balance::set_load(index, self.runnable.len() + usize::from(running));
    }
}

static CPUS: [Once<Mutex<Cpu>>; CPUS_MAX] = [const { Once::new() }; CPUS_MAX];
static RESCHEDULE: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];
/// Something is to be done before the next return to user mode. Requests of Linux and
/// of other CPUs need no flag: their IPI comes as soon as interrupts are open again.
static ATTENTION: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(true) }; CPUS_MAX];
/// Whether this CPU told Linux that it polls.
static POLLING: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];
/// The running thread's address, for the fast path of a system call.
static CURRENT: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];
/// The thread this CPU ran before the last switch, until that is complete.
static PREVIOUS: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];

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

fn cpu_state(index: usize) -> MutexGuard<'static, Cpu> {
    CPUS[index].get().expect("cpus::init").lock()
}

/// Memory of a CPU's lists, if nothing runs there.
pub fn trim() {
    for cpu in CPUS.iter().filter_map(Once::get) {
        let mut c = cpu.lock();
        if c.runnable.is_empty() && c.waiting.is_empty() && c.dead.is_empty() {
            (c.runnable, c.waiting, c.dead) = (VecDeque::new(), Vec::new(), Vec::new());
        }
    }
}

/// The calling CPU.
fn this() -> MutexGuard<'static, Cpu> {
    cpu_state(percpu::index())
}

/// The running thread; only where one runs (system calls, faults).
pub fn current() -> &'static Thread {
    let p = CURRENT[percpu::index()].load(Ordering::Relaxed);
    assert!(p != 0, "no thread runs here");
    // SAFETY: set by `switch_to` to the thread that `current` holds; the caller
    // runs on that thread's stack, so it outlives the reference's use.
    unsafe { &*(p as *const Thread) }
}

/// The running thread, if any.
pub fn try_current() -> Option<&'static Thread> {
    (CURRENT[percpu::index()].load(Ordering::Relaxed) != 0).then(current)
}

/// The running thread, counted.
pub fn current_arc() -> Arc<Thread> {
    this().current.clone().expect("a running thread")
}

/// Puts a thread on a CPU's queue.
pub fn enqueue(thread: Arc<Thread>, cpu: usize) {
    thread.cpu.store(cpu, Ordering::Relaxed);
    {
        let mut c = cpu_state(cpu);
        c.runnable.push_back(thread);
        let running = c.current.as_ref().is_some_and(|t| t.since.load(Ordering::Relaxed) != 0);
        c.update_load(cpu, running);
    }
    if cpu == percpu::index() {
        request_attention();
    } else {
        post(cpu, KICK);
    }
}

/// Takes a thread that `to` may run from the queue of CPU `from`.
pub fn take_from(from: usize, to: usize) -> Option<Arc<Thread>> {
    let mut c = CPUS[from].get()?.try_lock()?;
    let fits = |t: &Arc<Thread>| !t.on_cpu.load(Ordering::Acquire) && t.affinity.try_lock().is_some_and(|m| m.contains(to));
    let i = c.runnable.iter().position(fits)?;
    let thread = c.runnable.remove(i)?;
    c.update_load(from, true);
    thread.cpu.store(to, Ordering::Relaxed);
    Some(thread)
}

/// Asks for a look at the queue before the next return to user mode.
pub fn request_reschedule() {
    RESCHEDULE[percpu::index()].store(true, Ordering::Relaxed);
    request_attention();
}

/// The next return to user mode goes the long way: requests, signals, queue.
pub fn request_attention() {
    ATTENTION[percpu::index()].store(true, Ordering::Relaxed);
}

/// Whether the long way is needed now.
pub fn take_attention() -> bool {
    let flag = &ATTENTION[percpu::index()];
    // No locked exchange: only this CPU writes it, with interrupts off.
    flag.load(Ordering::Relaxed) && {
        flag.store(false, Ordering::Relaxed);
        true
    }
}

fn switch_to(next: Option<Arc<Thread>>) {
    let index = percpu::index();
    if let Some(n) = &next {
        // It may have come from a CPU that has not quite left it.
        while n.on_cpu.swap(true, Ordering::Acquire) {
            tlb::serve();
            cpu::pause();
        }
        n.cpu.store(index, Ordering::Relaxed);
    }
    let mut c = this();
    let now = cpu::rdtsc();
    let previous = c.current.take();
    if let Some(p) = &previous {
        p.end_run(now);
        p.save_user_state();
    }
    c.slice_end = NEVER;
    let to: *const Context = match &next {
        Some(n) => {
            n.process.mm.activate();
            n.restore_user_state();
            usertsc::switch(n);
            n.begin_run(now);
            n.rseq.switched();
            gdt::set_kernel_stack(index, n.stack_top());
            n.context()
        }
        None => {
            paging::use_kernel();
            &raw const c.idle
        }
    };
    debugregs::switch(next.as_deref());
    if let Some(p) = &previous
        && next.as_ref().is_none_or(|n| !Arc::ptr_eq(n.process.memory(), p.process.memory()))
    {
        p.process.mm.left();
    }
    CURRENT[index].store(next.as_ref().map_or(0, |n| Arc::as_ptr(n) as u64), Ordering::Relaxed);
    PREVIOUS[index].store(previous.as_ref().map_or(0, |p| Arc::as_ptr(p) as u64), Ordering::Relaxed);
    shared::cpu(index).set_current_space(next.as_ref().map_or(0, |n| n.process.space));
    c.update_load(index, next.is_some());
    c.current = next;
    let from: *mut Context = previous.as_ref().map_or(&raw mut c.idle, |p| p.context());
    // The previous thread is on a queue, among the waiting or in `dead`: the address
    // stays good; other CPUs leave it alone while `on_cpu` is set.
    drop(previous);
    drop(c);
    // SAFETY: `from` is the running context's own place, `to` one that does not
    // run: `on_cpu` was clear, and this CPU's idle context runs only here.
    unsafe { context::switch(from, to) };
    reap();
}

/// What follows a switch, on the new stack: the old thread may run elsewhere, and goes
/// there if it has to; threads that ended are freed. Also the first thing a new thread does.
pub fn reap() {
    let p = PREVIOUS[percpu::index()].swap(0, Ordering::Relaxed);
    if p != 0 {
        // SAFETY: held by a queue, by `waiting` or by `dead` of this CPU, see
        // `switch_to`; who takes it from there waits for this store.
        unsafe { &*(p as *const Thread) }.on_cpu.store(false, Ordering::Release);
    }
    let (dead, leaving) = {
        let mut c = this();
        (core::mem::take(&mut c.dead), c.leaving.take())
    };
    drop(dead);
    if let Some((thread, cpu)) = leaving {
        enqueue(thread, cpu);
    }
}

/// Moves threads of this CPU whose waiting is over to the front of the queue; whether
/// there were any.
pub fn wake_ready() -> bool {
    let mut ready = wake_told();
    let mut waiting = core::mem::take(&mut this().waiting);
    if waiting.is_empty() && ready.is_empty() {
        return false;
    }
    let mut i = 0;
    while i < waiting.len() {
        if waiting[i].is_ready() {
            ready.push(waiting.swap_remove(i));
        } else {
            i += 1;
        }
    }
    let mut c = this();
    c.waiting = waiting;
    let any = !ready.is_empty();
    for t in ready.into_iter().rev() {
        c.runnable.push_front(t);
    }
    any
}

/// Takes the sleeping threads that may go on: kicked ones, those whose bell rang, and
/// those whose time has come.
fn wake_told() -> Vec<Arc<Thread>> {
    let mut asked: Vec<Arc<Thread>> = Vec::new();
    for thread in kick::take() {
        if this().asleep.contains_key(&sleeper(&thread)) {
            asked.push(thread);
        }
    }
    bells().take(|bell| asked.extend(this().with_bell(bell)));
    {
        let c = this();
        if !c.alarms.is_empty() {
            asked.extend(c.due(cpu::rdtsc()));
        }
    }
    // Without the lock: they look at what others hold who put threads on our queue.
    asked.retain(|t| t.is_ready());
    if asked.is_empty() {
        return asked;
    }
    let mut c = this();
    asked.iter().filter_map(|t| c.end_sleep(t)).collect()
}

/// The next thread of this CPU's queue. Those that may not run here any more are
/// sent where they may.
fn pick() -> Option<Arc<Thread>> {
    let index = percpu::index();
    loop {
        let next = this().runnable.pop_front()?;
        if next.affinity.lock().contains(index) {
            return Some(next);
        }
        let cpu = balance::place(&next);
        enqueue(next, cpu);
    }
}

/// Lets the next thread of the queue run; comes back when it is our turn again.
pub fn yield_now() {
    wake_ready();
    let Some(next) = pick() else { return };
    let mut c = this();
    if let Some(me) = c.current.clone() {
        c.runnable.push_back(me);
    }
    drop(c);
    switch_to(Some(next));
}

/// The running thread may not stay on this CPU: goes where it may.
fn migrate() {
    let me = current_arc();
    let cpu = balance::place(&me);
    // Not before it is off this CPU: where two threads change places, each CPU would wait
    // for the other one to let its thread go.
    this().leaving = Some((me, cpu));
    switch_to(pick());
}

/// Ends the running thread's life on this CPU.
pub fn exit_current() -> ! {
    let mut c = this();
    let me = c.current.clone().expect("a running thread");
    c.dead.push(me);
    drop(c);
    wake_ready();
    switch_to(pick());
    unreachable!("a dead thread was switched to");
}

/// The loop of a CPU without threads.
pub fn idle() -> ! {
    set_polling();
    loop {
        shared::cpu(percpu::index()).beat();
        serve_all();
        wake_ready();
        if let Some(next) = pick().or_else(balance::steal) {
            switch_to(Some(next));
            set_polling();
            continue;
        }
        halt(&|| false);
    }
}

/// Lets another thread run until what the current one waits for is ready; false if
/// there is no other.
pub fn give_away() -> bool {
    let Some(next) = pick().or_else(balance::steal) else { return false };
    let mut c = this();
    let me = c.current.clone().expect("the running thread");
    c.begin_wait(me);
    drop(c);
    switch_to(Some(next));
    true
}

/// Whether a thread of this CPU's queue could run.
pub fn others_runnable() -> bool {
    !this().runnable.is_empty()
}

/// Counts the running thread as one that has something to do, or not.
pub fn update_load(running: bool) {
    this().update_load(percpu::index(), running);
}

/// What Linux and other CPUs have asked for.
pub fn serve_all() {
    inbound::drain();
    serve_others();
}

fn serve_others() {
    tlb::serve();
    take_posted(KICK); // the caller looks at everything now
}

/// Takes a thread over that waits for its turn elsewhere.
fn take_over() -> bool {
    let Some(thread) = balance::steal() else { return false };
    this().runnable.push_back(thread);
    true
}

/// Halts until an interrupt, unless something is to be done already.
pub fn halt(ready: &dyn Fn() -> bool) {
    arm_timer(false);
    balance::set_idle(true);
    let quiet = end_looking() && doorbell::inbound().prepare_halt() && !ready() && {
        let c = this();
        c.runnable.is_empty() && !c.waiting.iter().any(|t| t.is_ready())
    } && !kick::any()
        && !bells().any()
        && !take_over();
    if quiet {
        // Other CPUs need not interrupt this one for a table that it does not use.
        let leave = try_current().filter(|t| t.process.mm.active().others(percpu::index()).next().is_some());
        if let Some(t) = leave {
            paging::use_kernel();
            t.process.mm.left();
        }
        shared::cpu(percpu::index()).begin_idle(cpu::rdtsc());
        cpu::wait_for_interrupt();
        shared::cpu(percpu::index()).end_idle(cpu::rdtsc());
        if let Some(t) = leave {
            t.process.mm.activate();
        }
    }
    balance::set_idle(false);
    set_polling();
}

/// Nobody need ring this CPU: it polls, until `before_user` says otherwise.
pub fn set_polling() {
    request_attention();
    begin_looking();
    POLLING[percpu::index()].store(true, Ordering::Relaxed);
    doorbell::inbound().set_polling();
}

/// TSC value `ns` from now.
pub fn deadline(ns: u64) -> u64 {
    cpu::rdtsc().saturating_add(crate::base::time::ns_to_cycles(ns))
}

/// The last thing before user mode: serve Linux and the other CPUs, share the CPU,
/// arm the timer. The caller delivers signals after this.
pub fn before_user() {
    loop {
        turns::serve();
        serve_others();
        let woke = wake_ready();
        let index = percpu::index(); // after each switch it may be another
        if !current().affinity.lock().contains(index) {
            migrate();
            continue;
        }
        if RESCHEDULE[index].swap(false, Ordering::Relaxed) && (woke || cpu::rdtsc() >= this().slice_end) || woke {
            info::count(&current().counts.involuntary);
            yield_now();
            continue;
        }
        let quiet = end_looking();
        let rests = turns::rests();
        if rests {
            // Nobody rings for requests before the timer does.
            doorbell::inbound().set_polling();
        }
        if !POLLING[index].load(Ordering::Relaxed) {
            if quiet {
                break;
            }
            continue;
        }
        if quiet && (rests || doorbell::inbound().prepare_halt()) {
            POLLING[index].store(false, Ordering::Relaxed);
            if !rests {
                turns::end_rest();
            }
            break;
        }
        begin_looking();
    }
    arm_timer(true);
}

/// Arms the timer for the next deadline of a waiting thread, and, before user
/// mode, for the end of the slice if another thread could run. A CPU whose only
/// thread computes takes no timer interrupt.
fn arm_timer(user: bool) {
    let now = cpu::rdtsc();
    machinecheck::look_if_due(now);
    let mut c = this();
    let deadlines = c.waiting.iter().chain(c.current.iter()).map(|t| t.deadline.load(Ordering::Relaxed));
    let mut next = deadlines.min().unwrap_or(NEVER);
    if let Some((alarm, _)) = c.alarms.first() {
        next = next.min(*alarm);
    }
    if user && let Some(first) = c.runnable.front() {
        balance::offer(first);
        if c.slice_end == NEVER {
            c.slice_end = now + u64::from(shared::params().tsc_khz) * SLICE_MS;
        }
        next = next.min(c.slice_end);
    } else {
        c.slice_end = NEVER;
    }
    if user && let Some(thread) = &c.current {
        next = next.min(turns::rest_end());
        if let Some(ns) = thread.process.cpu_timers.wanted(thread) {
            next = next.min(deadline(ns.max(CPU_TIMER_NS)));
        }
        match thread.time_left() {
            Ok(left) => next = next.min(now.saturating_add(left)),
            Err(_) => request_attention(), // it goes by `wait_for_quota`
        }
    }
    if next == c.timer {
        return;
    }
    if next == NEVER {
        apic::stop_timer();
    } else {
        apic::arm_timer(next.saturating_sub(now).max(1));
    }
    c.timer = next;
}

/// A deadline has come or the slice is over.
pub fn on_timer() {
    this().timer = NEVER;
    if turns::end_rest() {
        set_polling(); // for requests that nobody has rung for
    }
    request_reschedule();
}

/// Whom Linux rang for on the calling CPU.
fn bells() -> Bells<'static> {
    shared::cpu(percpu::index()).bells()
}

/// A ring: somebody who waits may go on.
pub fn on_ring() {
    if !this().waiting.is_empty() || kick::any() || bells().any() {
        request_reschedule();
    }
}
