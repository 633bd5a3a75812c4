//! Waiting: for a while with the CPU kept, then with others running or the CPU halted.

use crate::base::counts;
use crate::base::lock::assert_none_held;
use crate::sched::cpus::{
    NEVER, current, give_away, halt, others_runnable, serve_all, set_polling, update_load,
    wake_ready,
};
use crate::sched::task::{Task, Wait};
use crate::sched::{requests, tlb};
use core::sync::atomic::Ordering;
use hanare_hal::{cpu, percpu, shared};

/// The short way to an answer that comes soon: polls for `cycles` without
/// giving the CPU away, serving requests. False: it did not come.
pub fn poll_for(what: &dyn Wait, cycles: u64) -> bool {
    assert_none_held();
    let start = cpu::rdtsc();
    loop {
        requests::drain();
        tlb::serve();
        if (0..LOOKS_PER_PAUSE).any(|_| what.ready()) {
            return true;
        }
        if cpu::rdtsc().wrapping_sub(start) > cycles {
            return false;
        }
        cpu::pause();
    }
}

/// Waits, for at most `spin_cycles` with the CPU kept, then with others running
/// or the CPU halted. Requests of Linux are served meanwhile.
pub fn wait(what: &mut dyn Wait, spin_cycles: u64) {
    /// Looks at one's own answer for each look at the other threads'.
    const LOOKS: u32 = 8;
    assert_none_held();
    let me = current();
    let start = cpu::rdtsc();
    let mut spin = Spin::new(start, spin_cycles);
    me.end_run(start);
    me.counts.waits.store(true, Ordering::Relaxed);
    set_polling();
    let mut announced = None;
    let mut slept = 0;
    let others = me.others_cycles.load(Ordering::Relaxed);
    loop {
        serve_all();
        if what.ready() {
            break;
        }
        if me.runs().is_awaited() {
            me.runs().leaves_registers();
        }
        if spin.looks.is_multiple_of(LOOKS) {
            wake_ready(); // what this thread did before may have made others ready
        }
        if !others_runnable() && spin.goes_on(what) {
            continue;
        }
        // Each time on another CPU: a tracer may have had us go on and wait elsewhere.
        let cpu = Some(percpu::index());
        if announced != cpu {
            what.announce(true);
            announced = cpu;
            continue; // look once more before we sleep
        }
        let before = cpu::rdtsc();
        block(me, what);
        me.end_run(before);
        slept += cpu::rdtsc() - before;
    }
    if announced.is_some() {
        what.announce(false);
    }
    me.counts.waits.store(false, Ordering::Relaxed);
    if slept != 0 {
        counts::count(&me.counts.voluntary);
    }
    let now = cpu::rdtsc();
    let others = me.others_cycles.load(Ordering::Relaxed) - others;
    me.system_cycles.fetch_add((now - start).saturating_sub(slept + others), Ordering::Relaxed);
    me.begin_run(now);
}

/// Waits until `ready` holds, whose other side kicks the thread, or the TSC value `deadline` has
/// come.
pub fn until(ready: impl Fn() -> bool + Send, deadline: u64) {
    wait_for(Until { ready, deadline, is_told: false });
}

/// As [`until`], for what the thread is always told of by a kick: `ready` is not asked before one
/// comes.
pub fn until_told(ready: impl Fn() -> bool + Send, deadline: u64) {
    wait_for(Until { ready, deadline, is_told: true });
}

struct Until<F> {
    ready: F,
    deadline: u64,
    is_told: bool,
}

impl<F: Fn() -> bool + Send> Wait for Until<F> {
    fn ready(&self) -> bool {
        (self.ready)() || cpu::rdtsc() >= self.deadline
    }
    fn announce(&self, _: bool) {}
    fn is_told(&self) -> bool {
        self.is_told
    }
    fn deadline(&self) -> u64 {
        self.deadline
    }
}

fn wait_for(mut what: Until<impl Fn() -> bool + Send>) {
    if !what.ready() {
        wait(&mut what, 0);
    }
}

/// On the way to user mode: waits if the control group of the running thread has no CPU time left,
/// until it has some, or until the thread is wanted. It comes by again before user mode.
#[inline]
pub fn for_quota() {
    if let Err(until) = current().time_left() {
        throttle(until);
    }
}

#[cold]
#[inline(never)]
fn throttle(until: u64) {
    let me = current();
    if !me.runs().is_wanted() {
        until_told(|| me.runs().is_wanted() || me.has_time(), until); // a new limit kicks, too
    }
}

/// Gives the CPU away until `what` is ready, or halts it.
fn block(me: &Task, what: &mut dyn Wait) {
    me.deadline.store(what.deadline(), Ordering::Relaxed);
    me.is_told.store(what.is_told(), Ordering::Relaxed);
    update_load(false);
    loop {
        wake_ready();
        // That may have taken a kick of ours, which is seen only once.
        if what.ready() || me.runs().is_awaited() {
            break;
        }
        if me.wait_for(what, give_away) {
            break;
        }
        let ready = || what.ready() || me.runs().is_awaited();
        if ready() {
            break;
        }
        halt(&ready);
        serve_all();
        if ready() {
            break;
        }
    }
    me.deadline.store(NEVER, Ordering::Relaxed);
    update_load(true);
    set_polling();
}

/// How long a wait polls: `cycles` from when the other side is seen awake. A side
/// that was just rung needs its wake-up time first; without that allowance both
/// sides would for ever sleep just before the other one is there.
pub(super) struct Spin {
    from: u64,
    near: bool,
    cycles: u64,
    looks: u32,
}

/// Looks between two pauses. A pause is kind to the other hardware thread of a
/// core, and costs much more than a look where an emulator runs us.
const LOOKS_PER_PAUSE: u32 = 32;

/// The longest time of a wake-up on the other side, ms.
const WAKE_UP_MS: u64 = 1;

impl Spin {
    /// A wait that begins at `from`.
    pub(super) fn new(from: u64, cycles: u64) -> Spin {
        Spin { from, near: false, cycles, looks: 0 }
    }

    /// Whether to look once more.
    pub(super) fn goes_on(&mut self, what: &dyn Wait) -> bool {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS_PER_PAUSE) {
            cpu::pause();
        }
        let now = cpu::rdtsc();
        if !self.near && what.near() {
            (self.near, self.from) = (true, now);
        }
        let limit = if self.near {
            self.cycles
        } else {
            self.cycles.min(1) * u64::from(shared::params().tsc_khz) * WAKE_UP_MS
        };
        now.wrapping_sub(self.from) < limit
    }
}
