//! The scheduler of each CPU: its queue, switching, idling.
//!
//! A CPU's state is changed by that CPU with interrupts off. Other CPUs put threads on its queue or
//! take them from there (`balance`), hence the lock, which is never held across a switch. A thread
//! that waits stays with its CPU, which asks its [`Wait`] whether it may go on. The CPU asks at
//! every event or, if the thread waits for nothing else, only when the thread was kicked, its bell
//! rang or its time has come ([`Wait::is_told`]). A core with one thread takes no timer interrupt.

#![allow(unsafe_code)] // the switch itself, and the thread it leads to

use crate::base::counts;
use crate::sched::cpu_state::{Cpu, cpu_state, sleeper, this};
use crate::sched::queue;
use crate::sched::takeover::{steal, take_over};
use crate::sched::task::{self, Running, Runs, Task};
use crate::sched::{attention, balance, doorbell, kick, machinecheck, requests, tlb, turns};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_hal::context::{self, Context};
use hanare_hal::{apic, cpu, gdt, percpu, shared};
use hanare_ikc::Bells;
use hanare_ikc::wake::CpuWake;

/// Round-robin slice where several threads share a CPU.
const SLICE_MS: u64 = 5;
/// Timers that count CPU time are looked at no more often than this.
const CPU_TIMER_NS: u64 = 1_000_000;

pub use crate::base::time::NEVER;
pub use crate::sched::alone::wait_alone;
use crate::sched::attention::{QUEUE, RESCHEDULE};
pub use crate::sched::attention::{request_attention, take_attention};
pub use crate::sched::cpu_state::{init, trim};
pub use crate::sched::kick::kick;
pub use crate::sched::takeover::is_bound_anew;
pub use crate::sched::task::Wait;
pub use crate::sched::wait::{poll_for, until, until_told, wait};

/// The scheduler's part of the running thread; only where one runs (system calls, faults).
#[inline]
pub fn current() -> &'static Task {
    try_current().expect("no thread runs here")
}

/// Like [`current`]; `None` if no thread runs.
#[inline]
pub fn try_current() -> Option<&'static Task> {
    let p = percpu::task();
    // SAFETY: set by `switch_to` to the task of the thread that `current` holds; the caller
    // runs on that thread's stack, so it outlives the reference's use.
    (p != 0).then(|| unsafe { &*(p as *const Task) })
}

/// The running thread, counted.
fn current_arc() -> Arc<dyn Runs> {
    this().current.as_deref().cloned().expect("a running thread")
}

/// Puts a thread on a CPU's queue.
pub fn enqueue(thread: Arc<dyn Runs>, cpu: usize) {
    thread.task().whereabouts.moves_to(cpu);
    {
        let mut c = cpu_state(cpu);
        c.join(cpu, thread);
        let running =
            c.current.as_ref().is_some_and(|t| t.task().since.load(Ordering::Relaxed) != 0);
        c.update_load(cpu, running);
    }
    balance::wake(cpu);
}

fn switch_to(next: Option<Arc<dyn Runs>>) {
    let index = percpu::index();
    let mut next = next.map(take_for_here);
    let mut c = this();
    let now = cpu::rdtsc();
    let mut previous = c.current.take();
    if let Some(p) = &mut previous {
        p.task().end_run(now);
        p.value().save();
    }
    c.slice_end = NEVER;
    let to: *const Context = match &mut next {
        Some(n) => {
            n.enter();
            n.value().restore();
            n.task().begin_run(now);
            gdt::set_kernel_stack(index, n.task().stack_top());
            n.value().context()
        }
        None => &raw const c.idle,
    };
    if let Some(p) = &previous {
        p.leave(next.as_deref().map(|n| &**n));
    }
    percpu::set_task(next.as_ref().map_or(0, |n| &raw const *n.task() as u64));
    shared::cpu(index).set_current_space(next.as_ref().map_or(0, |n| n.ids().1));
    c.update_load(index, next.is_some());
    c.current = next;
    let from = previous.as_mut().map_or(&raw mut c.idle, |p| p.value().context());
    // Kept, so that the address stays good and other CPUs leave the thread alone, until `reap` on
    // the new stack.
    c.previous = previous;
    drop(c);
    // SAFETY: `from` is the running context's own place, `to` one that does not
    // run: this CPU has taken the thread, and its idle context runs only here.
    unsafe { context::switch(from, to) };
    reap();
}

/// Takes a thread that is to run here. It may have come from a CPU that has not quite left it.
fn take_for_here(mut thread: Arc<dyn Runs>) -> Running {
    loop {
        match task::take(thread) {
            Ok(running) => {
                running.task().whereabouts.moves_to(percpu::index());
                return running;
            }
            Err(same) => thread = same,
        }
        tlb::serve();
        cpu::pause();
    }
}

/// Finishes a switch, on the new stack: the old thread may run elsewhere, and goes there if it has
/// to; threads that ended are freed. A new thread begins with this, too.
pub fn reap() {
    let (previous, dead, leaving) = {
        let mut c = this();
        (c.previous.take(), core::mem::take(&mut c.dead), c.leaving.take())
    };
    drop(previous); // other CPUs may run it
    drop(dead);
    if let Some((thread, cpu)) = leaving {
        enqueue(thread, cpu);
    }
}

/// Moves threads of this CPU that have what they waited for to the front of the queue; returns
/// whether there were any.
pub fn wake_ready() -> bool {
    let mut ready = wake_told();
    let mut waiting = core::mem::take(&mut this().waiting);
    if waiting.is_empty() && ready.is_empty() {
        return false;
    }
    let mut i = 0;
    while i < waiting.len() {
        if waiting[i].task().is_ready() {
            queue::add(&mut ready, waiting.swap_remove(i));
        } else {
            i += 1;
        }
    }
    let mut c = this();
    c.waiting = waiting;
    let any = !ready.is_empty();
    for t in ready.into_iter().rev() {
        Cpu::tell_of(percpu::index(), &t);
        queue::add_first(&mut c.runnable, t);
    }
    any
}

/// Takes the sleeping threads that may go on: kicked ones, those whose bell rang, and those whose
/// time has come.
fn wake_told() -> Vec<Arc<dyn Runs>> {
    let mut asked: Vec<Arc<dyn Runs>> = Vec::new();
    for thread in kick::take() {
        if this().asleep.contains_key(&sleeper(&thread)) {
            queue::add(&mut asked, thread);
        }
    }
    bells().take(|bell| queue::add_all(&mut asked, this().with_bell(bell)));
    {
        let c = this();
        if !c.alarms.is_empty() {
            queue::add_all(&mut asked, c.due(cpu::rdtsc()));
        }
    }
    // Without the lock: the conditions may take locks under which other CPUs put threads on our
    // queue.
    asked.retain(|t| t.task().is_ready());
    if asked.is_empty() {
        return asked;
    }
    let mut c = this();
    asked.retain(|t| c.end_sleep(t).is_some());
    asked
}

/// The next thread of this CPU's queue. Those that may not run here any more are
/// sent where they may.
fn pick() -> Option<Arc<dyn Runs>> {
    let index = percpu::index();
    loop {
        let next = this().runnable.pop_front()?;
        if next.task().affinity.lock().contains(index) {
            return Some(next);
        }
        let cpu = balance::place(next.task());
        enqueue(next, cpu);
    }
}

/// Lets the next thread of the queue run; comes back when it is our turn again.
pub fn yield_now() {
    wake_ready();
    let Some(next) = pick() else { return };
    let mut c = this();
    if let Some(me) = c.current.as_deref().cloned() {
        c.join(percpu::index(), me);
    }
    drop(c);
    switch_to(Some(next));
}

/// The running thread's turn is over when it gets to user mode: for one that waits without being
/// told, and is run for each of its looks before others.
pub fn end_turn() {
    this().slice_end = 0;
    attention::mine().ask(RESCHEDULE);
}

/// The running thread may not stay on this CPU: goes where it may.
fn migrate() {
    let me = current_arc();
    let cpu = balance::place(me.task());
    // Not before it is off this CPU: where two threads change places, each CPU would wait
    // for the other one to let its thread go.
    this().leaving = Some((me, cpu));
    switch_to(pick());
}

/// Ends the running thread's life on this CPU.
pub fn exit_current() -> ! {
    let mut c = this();
    let me = c.current.as_deref().cloned().expect("a running thread");
    queue::add(&mut c.dead, me);
    drop(c);
    wake_ready();
    switch_to(pick());
    unreachable!("a dead thread was switched to");
}

/// The loop of a CPU without threads.
pub fn idle() -> ! {
    set_polling();
    loop {
        shared::here().beat();
        serve_all();
        wake_ready();
        if let Some(next) = pick().or_else(steal) {
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
    let Some(next) = pick().or_else(steal) else { return false };
    let mut c = this();
    let me = c.current.as_deref().cloned().expect("the running thread");
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
#[inline]
pub fn update_load(running: bool) {
    this().update_load(percpu::index(), running);
}

/// Serves requests of Linux and the posts of other CPUs.
pub fn serve_all() {
    requests::drain();
    serve_others();
}

fn serve_others() {
    tlb::serve();
    let _ = attention::mine().take(QUEUE); // the caller looks at everything now
}

/// Halts until an interrupt, unless something is to be done already.
pub fn halt(ready: &dyn Fn() -> bool) {
    arm_timer(false);
    balance::set_idle(true);
    let quiet = this_wake().prepare_halt()
        && !ready()
        && {
            let c = this();
            c.runnable.is_empty() && !c.waiting.iter().any(|t| t.task().is_ready())
        }
        && attention::mine().is_quiet()
        && !bells().any()
        && !take_over();
    if quiet {
        let without_memory = try_current().filter(|t| t.runs().lets_memory_go());
        let since = cpu::rdtsc();
        shared::here().begin_idle(since);
        cpu::wait_for_interrupt();
        shared::here().end_idle(since, cpu::rdtsc());
        if let Some(t) = without_memory {
            t.runs().takes_memory();
        }
    }
    balance::set_idle(false);
    set_polling();
}

/// Everything by which the calling CPU is woken.
#[inline(always)]
pub(super) fn this_wake() -> CpuWake<'static> {
    CpuWake { attention: attention::mine(), inbound: doorbell::inbound() }
}

/// No side need ring this CPU: it polls, until `before_user` says otherwise.
pub fn set_polling() {
    this_wake().begin_polling();
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
        let asked = attention::mine().take(RESCHEDULE);
        if woke || asked && cpu::rdtsc() >= this().slice_end {
            counts::count(&current().counts.involuntary);
            yield_now();
            continue;
        }
        let wake = this_wake();
        let (polls, rests) = (wake.inbound.is_polling(), turns::rests());
        if wake.prepare_user(rests) {
            if polls && !rests {
                turns::end_rest();
            }
            break;
        }
        wake.attention.begin_looking();
    }
    arm_timer(true);
}

/// Arms the timer for the next deadline of a waiting thread, and, before user mode, for the end of
/// the slice if another thread could run. A CPU whose only thread computes takes no timer
/// interrupt.
fn arm_timer(user: bool) {
    let now = cpu::rdtsc();
    machinecheck::look_if_due(now);
    let mut c = this();
    let deadlines = c
        .waiting
        .iter()
        .chain(c.current.as_deref())
        .map(|t| t.task().deadline.load(Ordering::Relaxed));
    let mut next = deadlines.min().unwrap_or(NEVER);
    if let Some((alarm, _)) = c.alarms.first() {
        next = next.min(*alarm);
    }
    let time_left = if user {
        c.current.as_ref().map_or(Ok(NEVER), |t| t.task().time_left())
    } else {
        Ok(NEVER)
    };
    if user && !c.runnable.is_empty() {
        // Other CPUs come for a thread only where the load is above one. It may have been set while
        // no thread ran.
        c.update_load(percpu::index(), true);
        balance::offer(percpu::index());
        if c.slice_end == NEVER {
            c.slice_end = now + u64::from(shared::params().tsc_khz) * SLICE_MS;
        }
        // With its grant of CPU time a thread's turn ends. Else one of a group whose quota is
        // smaller than a slice would have all of it in each period, and the others of its CPU none.
        c.slice_end = c.slice_end.min(now.saturating_add(time_left.unwrap_or(NEVER)));
        next = next.min(c.slice_end);
    } else {
        c.slice_end = NEVER;
    }
    if user && let Some(thread) = &c.current {
        next = next.min(turns::rest_end());
        if let Some(ns) = thread.cpu_timer_ns() {
            next = next.min(deadline(ns.max(CPU_TIMER_NS)));
        }
        match time_left {
            Ok(left) => next = next.min(now.saturating_add(left)),
            Err(_) => request_attention(), // it goes by `wait::for_quota`
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
        set_polling(); // for requests that came without a ring
    }
    attention::mine().ask(RESCHEDULE);
}

/// The bells of the calling CPU: threads for which Linux rang.
pub(super) fn bells() -> Bells<'static> {
    shared::here().bells()
}
