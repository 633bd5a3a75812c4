//! Threads that wait for their turn on one CPU and are taken over by another one
//! ([`hanare_ikc::Balance`]).

use crate::sched::balance;
use crate::sched::cpu_mask::CpuMask;
use crate::sched::cpu_state::{cpu_state, this};
use crate::sched::task::{Runs, Task};
use alloc::sync::Arc;
use core::sync::atomic::{Ordering, fence};
use hanare_hal::percpu;

/// The CPUs that `thread` may run on have changed: CPUs that may take it over from its queue learn
/// of it.
pub fn is_bound_anew(thread: &Task) {
    // Another CPU may move it to another queue after the look at its CPU. That CPU sees the mask,
    // and tells of it there.
    fence(Ordering::SeqCst);
    let cpu = thread.whereabouts.cpu();
    let _c = cpu_state(cpu);
    balance::takers(cpu).add(thread.may_run_on().words());
}

/// A thread that waits for its turn on another CPU: the calling one has nothing to do.
pub(super) fn steal() -> Option<Arc<dyn Runs>> {
    let me = percpu::index();
    balance::sources(me).find_map(|cpu| take_from(cpu, me))
}

/// Takes a thread that `to` may run from the queue of CPU `from`. The lock is waited for: its
/// holder may have looked for an idle CPU before this one was. (The model is
/// `ikc/src/models/balance.rs`.)
fn take_from(from: usize, to: usize) -> Option<Arc<dyn Runs>> {
    let mut c = cpu_state(from);
    let fits = |t: &Arc<dyn Runs>| !t.task().is_on_cpu() && t.task().may_run_on().contains(to);
    let Some(i) = c.runnable.iter().position(fits) else {
        let none = CpuMask::none();
        let may = c.runnable.iter().fold(none, |all, t| all.union(&t.task().may_run_on()));
        balance::takers(from).set(may.words());
        return None;
    };
    let thread = c.runnable.remove(i)?;
    c.update_load(from, true);
    thread.task().whereabouts.moves_to(to);
    Some(thread)
}

/// Takes a thread over that waits for its turn elsewhere.
pub(super) fn take_over() -> bool {
    let Some(thread) = steal() else { return false };
    this().join(percpu::index(), thread);
    true
}
