//! What each CPU runs: its queue, switching, waiting, idling.
//!
//! A CPU's state is touched only by that CPU with interrupts off; the lock is
//! there for the other CPUs that will put threads on the queue, and is never
//! held across a switch. A core with one thread takes no timer interrupt.

#![allow(unsafe_code)] // the switch itself

use crate::process::Process;
use crate::thread::Thread;
use crate::{doorbell, inbound};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::context::{self, Context};
use hanare_hal::{apic, boot, cpu, gdt, paging, percpu, shared};
use spin::{Mutex, MutexGuard, Once};

/// Round-robin slice where several threads share a CPU.
const SLICE_MS: u64 = 5;
/// Stack of a CPU that idles.
const IDLE_STACK_BYTES: usize = 64 << 10;

/// A deadline that never comes.
pub const NEVER: u64 = u64::MAX;

/// One CPU.
pub struct Cpu {
    /// Threads that want to run or look whether they may go on.
    queue: VecDeque<Arc<Thread>>,
    /// The running one.
    current: Option<Arc<Thread>>,
    /// Ended threads whose stacks may be freed after the next switch.
    dead: Vec<Arc<Thread>>,
    /// Processes whose home this CPU is.
    pub processes: BTreeMap<u32, Arc<Process>>,
    idle: Context,
    /// Threads of the queue that have not looked since the last event that may
    /// have made them ready: the CPU halts only when all have.
    unchecked: usize,
    running_since: u64,
    /// TSC value the timer is armed for, or [`NEVER`].
    timer: u64,
}

static CPUS: [Once<Mutex<Cpu>>; CPUS_MAX] = [const { Once::new() }; CPUS_MAX];
static RESCHEDULE: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];
/// Something is to be done before the next return to user mode. Requests of Linux
/// need no flag: their IPI comes as soon as interrupts are open again.
static ATTENTION: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(true) }; CPUS_MAX];
/// Whether this CPU told Linux that it polls.
static POLLING: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];
/// The running thread's address, for the fast path of a system call.
static CURRENT: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];

/// Creates every CPU's state and stack (first CPU, once).
pub fn init() {
    let count = shared::params().cpu_count as usize;
    for (i, slot) in CPUS.iter().enumerate().take(count) {
        slot.call_once(|| {
            Mutex::new(Cpu {
                queue: VecDeque::new(),
                current: None,
                dead: Vec::new(),
                processes: BTreeMap::new(),
                idle: Context::default(),
                unchecked: 0,
                running_since: 0,
                timer: NEVER,
            })
        });
        if i > 0 {
            boot::set_stack(i, crate::frames::alloc_stack(IDLE_STACK_BYTES) + IDLE_STACK_BYTES as u64);
        }
    }
}

/// The calling CPU.
pub fn this() -> MutexGuard<'static, Cpu> {
    CPUS[percpu::index()].get().expect("cpus::init").lock()
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

/// Puts a thread on this CPU's queue.
pub fn enqueue(thread: Arc<Thread>) {
    request_attention();
    this().queue.push_back(thread);
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
    let mut c = this();
    let now = cpu::rdtsc();
    let previous = c.current.take();
    if let Some(p) = &previous {
        p.add_cycles(now - c.running_since, 0);
        p.save_user_state();
        p.check_stack();
    }
    c.running_since = now;
    let to: *const Context = match &next {
        Some(n) => {
            n.process.activate();
            n.restore_user_state();
            gdt::set_kernel_stack(percpu::index(), n.stack_top());
            n.context()
        }
        None => {
            paging::use_kernel();
            &raw const c.idle
        }
    };
    CURRENT[percpu::index()].store(next.as_ref().map_or(0, |n| Arc::as_ptr(n) as u64), Ordering::Relaxed);
    shared::cpu(percpu::index()).set_current_space(next.as_ref().map_or(0, |n| n.process.space));
    c.current = next;
    let from: *mut Context = previous.as_ref().map_or(&raw mut c.idle, |p| p.context());
    // The previous thread is on the queue or in `dead`: the address stays good.
    drop(previous);
    drop(c);
    // SAFETY: `from` is the running context's own place, `to` one that does not
    // run: it was off every CPU when it was taken from this CPU's queue.
    unsafe { context::switch(from, to) };
    reap();
}

/// Frees threads that ended on this CPU. Also the first thing a new thread does.
pub fn reap() {
    let dead = core::mem::take(&mut this().dead);
    drop(dead);
}

/// Lets the next thread of the queue run; comes back when it is our turn again.
pub fn yield_now() {
    let mut c = this();
    let Some(next) = c.queue.pop_front() else { return };
    if let Some(me) = c.current.clone() {
        c.queue.push_back(me);
    }
    drop(c);
    switch_to(Some(next));
}

/// Ends the running thread's life on this CPU.
pub fn exit_current() -> ! {
    let mut c = this();
    let me = c.current.clone().expect("a running thread");
    c.dead.push(me);
    let next = c.queue.pop_front();
    drop(c);
    switch_to(next);
    unreachable!("a dead thread was switched to");
}

/// The loop of a CPU without threads.
pub fn idle() -> ! {
    loop {
        shared::cpu(percpu::index()).beat();
        inbound::drain();
        let next = this().queue.pop_front();
        if let Some(next) = next {
            switch_to(Some(next));
            continue;
        }
        sleep(&|| false);
    }
}

/// Halts until an interrupt, unless `ready` or a request is waiting already.
fn sleep(ready: &dyn Fn() -> bool) {
    arm_timer(false);
    if !doorbell::inbound().prepare_halt() || ready() {
        return;
    }
    cpu::wait_for_interrupt();
}

/// Linux need not ring this CPU: it polls, until `before_user` says otherwise.
fn set_polling() {
    request_attention();
    POLLING[percpu::index()].store(true, Ordering::Relaxed);
    doorbell::inbound().set_polling();
}

/// Makes CPU `index` look at its queue and requests.
pub fn wake(index: usize) {
    if index != percpu::index() {
        apic::send(shared::cpu(index).apic_id(), apic::PEER_VECTOR);
    }
}

/// TSC value `ns` from now.
pub fn deadline(ns: u64) -> u64 {
    cpu::rdtsc().saturating_add(hanare_core::time::ns_to_ticks(ns, shared::params().tsc_khz))
}

/// What a thread waits for.
pub trait Wait {
    /// It has come, or there is no point in waiting on.
    fn ready(&self) -> bool;
    /// `true`: we are about to sleep, ring us. `false`: we are awake.
    fn announce(&self, asleep: bool);
    /// Whether the other side is awake, so that its answer is near.
    fn near(&self) -> bool {
        true
    }
    /// TSC value at which it is to look again, at the latest.
    fn deadline(&self) -> u64 {
        NEVER
    }
}

/// The short way to an answer that comes at once: polls for `cycles` without
/// giving the CPU away, serving requests. False: it did not come.
pub fn poll_for(what: &dyn Wait, cycles: u64) -> bool {
    /// Looks without a pause or a look at the time: an answer takes about as long.
    const EAGER: u32 = 64;
    let inbound = doorbell::inbound();
    inbound.set_polling();
    let mut looks = 0;
    let mut start = 0;
    let came = loop {
        if what.ready() {
            break true;
        }
        if !inbound.is_empty() {
            inbound::drain();
        }
        looks += 1;
        if looks == EAGER {
            start = cpu::rdtsc();
        } else if looks > EAGER {
            if cpu::rdtsc().wrapping_sub(start) > cycles {
                break false;
            }
            if looks % LOOKS_PER_PAUSE == 0 {
                cpu::pause();
            }
        }
    };
    while !inbound.prepare_halt() {
        inbound::drain();
    }
    came
}

/// Waits, for at most `spin_cycles` with the CPU kept, then with others running
/// or the CPU halted. Requests of Linux are served meanwhile.
pub fn wait(what: &dyn Wait, spin_cycles: u64) {
    let me = current();
    let start = cpu::rdtsc();
    let mut spin = Spin { from: start, near: false, cycles: spin_cycles, looks: 0 };
    account(|c, now| me.add_cycles(now - c.running_since, 0));
    set_polling();
    let mut announced = false;
    let mut slept = 0;
    recheck(); // what this thread did before may have made others ready
    loop {
        inbound::drain();
        if what.ready() {
            break;
        }
        let others = others_runnable();
        if !others && spin.goes_on(what) {
            continue;
        }
        if !announced {
            what.announce(true);
            announced = true;
            continue; // look once more before we sleep
        }
        let before = cpu::rdtsc();
        me.deadline.store(what.deadline(), Ordering::Relaxed);
        me.waiting.store(true, Ordering::Relaxed);
        if !others && !take_unchecked() {
            sleep(&|| what.ready());
            recheck();
        }
        yield_now();
        me.waiting.store(false, Ordering::Relaxed);
        me.deadline.store(NEVER, Ordering::Relaxed);
        set_polling();
        slept += cpu::rdtsc() - before;
    }
    if announced {
        what.announce(false);
    }
    account(|_, now| me.add_cycles(0, (now - start).saturating_sub(slept)));
}

/// How long a wait polls: `cycles` from when the other side is seen awake. A side
/// that was just rung needs its wake-up time first; without that allowance both
/// sides would for ever sleep just before the other one is there.
struct Spin {
    from: u64,
    near: bool,
    cycles: u64,
    looks: u32,
}

/// Looks between two pauses. A pause is kind to the other hardware thread of a
/// core, and costs much more than a look where an emulator runs us.
const LOOKS_PER_PAUSE: u32 = 32;

/// What a wake-up on the other side may take, ms.
const WAKE_UP_MS: u64 = 1;

impl Spin {
    fn goes_on(&mut self, what: &dyn Wait) -> bool {
        self.looks += 1;
        if self.looks % LOOKS_PER_PAUSE == 0 {
            cpu::pause();
        }
        let now = cpu::rdtsc();
        if !self.near && what.near() {
            (self.near, self.from) = (true, now);
        }
        let limit = if self.near { self.cycles } else { self.cycles.min(1) * u64::from(shared::params().tsc_khz) * WAKE_UP_MS };
        now.wrapping_sub(self.from) < limit
    }
}

fn account(f: impl FnOnce(&Cpu, u64)) {
    let mut c = this();
    let now = cpu::rdtsc();
    f(&c, now);
    c.running_since = now;
}

/// Brings the running thread's times up to date (getrusage, times).
pub fn account_current() {
    let me = current();
    account(|c, now| me.add_cycles(now - c.running_since, 0));
}

/// Every thread of the queue is to look once more before the CPU halts.
pub fn recheck() {
    let mut c = this();
    c.unchecked = c.queue.len();
}

fn take_unchecked() -> bool {
    let mut c = this();
    let some = c.unchecked > 0;
    c.unchecked = c.unchecked.saturating_sub(1);
    some
}

fn others_runnable() -> bool {
    this().queue.iter().any(|t| !t.waiting.load(Ordering::Relaxed))
}

/// The last thing before user mode: serve Linux, share the CPU, arm the timer.
/// The caller delivers signals after this.
pub fn before_user() {
    let index = percpu::index();
    loop {
        inbound::drain();
        if RESCHEDULE[index].swap(false, Ordering::Relaxed) {
            yield_now();
        }
        if !POLLING[index].load(Ordering::Relaxed) {
            break;
        }
        if doorbell::inbound().prepare_halt() {
            POLLING[index].store(false, Ordering::Relaxed);
            break;
        }
    }
    arm_timer(true);
}

/// Arms the timer for the next deadline of a waiting thread, and, before user
/// mode, for the end of the slice if another thread could run. A CPU whose only
/// thread computes takes no timer interrupt.
fn arm_timer(user: bool) {
    let mut c = this();
    let waiting = |t: &Thread| t.waiting.load(Ordering::Relaxed);
    let mut next = c.queue.iter().chain(c.current.iter()).map(|t| t.deadline.load(Ordering::Relaxed)).min().unwrap_or(NEVER);
    let now = cpu::rdtsc();
    if user && c.queue.iter().any(|t| !waiting(t)) {
        let slice = u64::from(shared::params().tsc_khz) * SLICE_MS;
        // A slice that runs already goes on.
        let end = if c.timer > now && c.timer <= now + slice { c.timer } else { now + slice };
        next = next.min(end);
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
    request_reschedule();
}

/// A ring: somebody on the queue may go on.
pub fn on_ring() {
    if !this().queue.is_empty() {
        request_reschedule();
    }
}
