//! Waiting for Linux while nobody but the running thread is to be served on its CPU: the short way of a call whose worker
//! sleeps. The CPU's lock is not taken: whom it has beside that thread is known from [`attention::company`].

use crate::base::counts;
use crate::base::lock::assert_none_held;
use crate::sched::attention::{self, SLEEPS, WANTS_CPU};
use crate::sched::cpus::{self, bells, look_for_company, this_wake, update_load};
use crate::sched::task::{Runs, Wait};
use crate::sched::wait::Spin;
use crate::sched::{balance, doorbell};
use core::sync::atomic::Ordering;
use hanare_hal::{cpu, shared};

/// Waits from `start` on as [`wait`](cpus::wait) does, while nobody but `me`, which runs, is to be served here: first
/// polls for `spin_cycles`, then halts. The CPU stays what it is in user mode, interrupted by whoever has something for it; so
/// the thread has nothing to look at before it goes on there, and is there soon. When `what` was ready; `None`: somebody else
/// is to be served, or the CPU was looking by itself; [`wait`](cpus::wait) does the rest.
#[inline(always)] // of each call that is woken for
pub fn wait_alone(
    me: &(impl Runs + ?Sized),
    what: &impl Wait,
    start: u64,
    spin_cycles: u64,
) -> Option<u64> {
    assert_none_held();
    let task = me.task();
    // Who has to ask for CPU time does so on the long way.
    if task.has_group() || !is_undisturbed() || !rests_alone() {
        return None;
    }
    task.end_turn(start);
    task.counts.waits.store(true, Ordering::Relaxed);
    let now = match spin_cycles {
        0 => sleep_alone(me, what, start),
        _ => poll_alone(me, what, start, spin_cycles),
    };
    task.counts.waits.store(false, Ordering::Relaxed);
    if let Some(now) = now {
        task.begin_run(now);
    }
    // Other CPUs have counted who came here, and not the running thread.
    if has(WANTS_CPU) {
        update_load(true);
    }
    now
}

/// Polls as long as the other side is awake and nobody has something for the CPU, then halts. When `what` was ready.
#[cold]
fn poll_alone(me: &(impl Runs + ?Sized), what: &impl Wait, start: u64, cycles: u64) -> Option<u64> {
    let mut spin = Spin::new(start, cycles);
    let mut is_ready = false;
    while !is_ready && is_undisturbed() && spin.goes_on(what) {
        is_ready = what.ready();
    }
    let now = cpu::rdtsc();
    me.task().system_cycles.fetch_add(now - start, Ordering::Relaxed);
    if is_ready { Some(now) } else { sleep_alone(me, what, now) }
}

/// Halts from `start` on until `what` is ready, which was when, or somebody else is to be served. The interrupt that ended it
/// may have been for both: what is not looked at here keeps the thread from user mode.
#[inline(always)]
fn sleep_alone(me: &(impl Runs + ?Sized), what: &impl Wait, start: u64) -> Option<u64> {
    let others = || !is_undisturbed() || bells_for_others();
    balance::set_idle(true);
    what.announce(true);
    shared::here().begin_idle(start);
    let (mut is_ready, mut has_halted) = (what.ready(), false);
    // Who awaits the thread, or offers one, says so from now on.
    if !is_ready && !me.is_awaited() && !balance::is_any_busy() {
        while !is_ready && !others() {
            let without_memory = me.lets_memory_go();
            cpu::wait_for_interrupt();
            has_halted = true;
            if without_memory {
                me.takes_memory();
            }
            is_ready = what.ready();
        }
    }
    let now = cpu::rdtsc();
    shared::here().end_idle(start, now);
    balance::set_idle(false);
    what.announce(false);
    if !doorbell::inbound().is_empty() || bells_for_others() {
        cpus::request_attention();
    }
    // Where somebody else comes first `wait` counts it.
    if is_ready && has_halted {
        counts::count(&me.task().counts.voluntary);
    }
    is_ready.then_some(now)
}

/// Whether the calling CPU is as in user mode, interrupted by whoever has something for it, and nobody has. (For requests
/// that it has deferred it has to go the long way to user mode.)
#[inline(always)]
fn is_undisturbed() -> bool {
    this_wake().is_quiet()
}

/// Whether no other thread wants to run here or waits for what nobody tells. It stays so as long as the CPU is
/// undisturbed: who puts a thread on its queue posts that.
#[inline(always)]
fn rests_alone() -> bool {
    !has(WANTS_CPU) || look_for_company() & WANTS_CPU == 0
}

/// Whether the CPU may have company of a kind.
#[inline(always)]
fn has(kind: u32) -> bool {
    attention::mine().company().kinds() & kind != 0
}

/// Whether bells rang that may be those of threads which sleep here. Where none does they are the running thread's,
/// which looks for itself; who puts a thread to sleep here takes them.
#[inline(always)]
fn bells_for_others() -> bool {
    has(SLEEPS) && bells().any() && {
        let others = look_for_company() & SLEEPS != 0;
        if !others {
            bells().take(|_| {});
        }
        others
    }
}
