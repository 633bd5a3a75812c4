//! Waiting for Linux while only the running thread is to be served on its CPU: the short way of a
//! call whose worker sleeps ([`hanare_ikc::Alone`]). The lock of the CPU's queues is not taken:
//! [`attention::company`] says which threads the CPU has beside that one.

use crate::base::counts;
use crate::base::lock::assert_none_held;
use crate::sched::attention::{self, WANTS_CPU};
use crate::sched::balance;
use crate::sched::cpu_state::look_for_company;
use crate::sched::cpus::{bells, this_wake, update_load};
use crate::sched::task::{Runs, Wait};
use crate::sched::wait::Spin;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use hanare_hal::{cpu, shared};
use hanare_ikc::wake::CpuWake;
use hanare_ikc::{Alone, Bells, Waits};

/// Waits from `start` on as [`wait`](cpus::wait) does, while only `me`, which runs, is to be served
/// here: first polls for `spin_cycles`, then halts. The CPU stays in the state of user mode:
/// another CPU that has something for it interrupts it. So the thread has nothing to look at before
/// it goes on in user mode, and is there soon. Returns when `what` was ready. `None`: another
/// thread or Linux is to be served, or the CPU was looking by itself; [`wait`](cpus::wait) does the
/// rest.
#[inline(always)] // of each call that is woken for
pub fn wait_alone(
    me: &(impl Runs + ?Sized),
    what: &impl Wait,
    start: u64,
    spin_cycles: u64,
) -> Option<u64> {
    assert_none_held();
    let task = me.task();
    // A thread that has to ask for CPU time does so on the long way.
    if task.has_group() || !Here.may_begin() {
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
    // Other CPUs have counted the threads that came here, and not the running one.
    if attention::mine().company().kinds() & WANTS_CPU != 0 {
        update_load(true);
    }
    now
}

/// Polls as long as the other side is awake and nothing is posted to the CPU, then halts. Returns
/// when `what` was ready.
#[cold]
fn poll_alone(me: &(impl Runs + ?Sized), what: &impl Wait, start: u64, cycles: u64) -> Option<u64> {
    let mut spin = Spin::new(start, cycles);
    let mut is_ready = false;
    while !is_ready && this_wake().is_quiet() && spin.goes_on(what) {
        is_ready = what.ready();
    }
    let now = cpu::rdtsc();
    me.task().system_cycles.fetch_add(now - start, Ordering::Relaxed);
    if is_ready { Some(now) } else { sleep_alone(me, what, now) }
}

/// Halts from `start` on until `what` is ready, and returns when that was, or until another thread
/// or Linux is to be served. The interrupt that ended the halt may have been for both: what is not
/// looked at here keeps the thread from user mode.
#[inline(always)]
fn sleep_alone(me: &(impl Runs + ?Sized), what: &impl Wait, start: u64) -> Option<u64> {
    balance::set_idle(true);
    what.announce(true);
    shared::here().begin_idle(start);
    let thread = Thread { me, what, since: Cell::new(start) };
    let (is_ready, has_halted) = Here.sleep(&thread);
    let now = cpu::rdtsc();
    shared::here().end_idle(thread.since.get(), now);
    balance::set_idle(false);
    what.announce(false);
    Here.end();
    // Where another thread comes first, `wait` counts it.
    if is_ready && has_halted {
        counts::count(&me.task().counts.voluntary);
    }
    is_ready.then_some(now)
}

/// The running thread, and what it waits for.
struct Thread<'a, R: ?Sized, W> {
    me: &'a R,
    what: &'a W,
    /// Since when the CPU halts, a TSC value.
    since: Cell<u64>,
}

impl<R: Runs + ?Sized, W: Wait> Waits for Thread<'_, R, W> {
    #[inline(always)]
    fn may_halt(&self) -> bool {
        // A tracer that awaits the thread, or a CPU that offers one, says so from now on.
        !self.me.is_awaited() && !balance::has_source()
    }
    #[inline(always)]
    fn is_ready(&self) -> bool {
        self.what.ready()
    }
    #[inline(always)]
    fn halt(&self) {
        let without_memory = self.me.lets_memory_go();
        cpu::wait_for_interrupt();
        if without_memory {
            self.me.takes_memory();
        }
    }
    #[inline(always)]
    fn halts_on(&self) {
        let now = cpu::rdtsc();
        shared::here().end_idle(self.since.replace(now), now);
        shared::here().begin_idle(now);
    }
}

/// The calling CPU.
struct Here;

impl Alone for Here {
    #[inline(always)]
    fn wake(&self) -> CpuWake<'_> {
        this_wake()
    }
    #[inline(always)]
    fn bells(&self) -> Bells<'_> {
        bells()
    }
    #[inline(always)]
    fn look_for_company(&self) -> u32 {
        look_for_company()
    }
}
