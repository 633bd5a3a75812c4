//! On which CPU a thread runs: placed where least is to do, taken over by CPUs that
//! have nothing, kept within its mask.

use crate::base::line::Line;
use crate::sched::attention::{QUEUE, post};
use crate::sched::cpu_mask::count;
use crate::sched::task::Task;
use crate::sched::tlb::CpuSet;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{percpu, shared};

/// Threads of each CPU that run or want to.
static LOAD: [Line<AtomicU32>; CPUS_MAX] = [const { Line(AtomicU32::new(0)) }; CPUS_MAX];
/// CPUs that halt, or are about to and look for work once more.
static IDLE: Line<CpuSet> = Line(CpuSet::new());
/// Where the search for a place begins, so that equal CPUs take turns.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// Tells the others how much the calling CPU has to do.
pub fn set_load(cpu: usize, threads: usize) {
    LOAD[cpu].store(threads as u32, Ordering::SeqCst);
}

/// The CPU for a thread that begins or may not stay where it is.
pub fn place(thread: &Task) -> usize {
    let mask = *thread.affinity.lock();
    let here = percpu::index();
    let node = shared::cpu(here).node();
    let first = TURN.fetch_add(1, Ordering::Relaxed);
    (0..count())
        .map(|i| (first + i) % count())
        .filter(|&c| mask.contains(c))
        .min_by_key(|&c| (LOAD[c].load(Ordering::Relaxed), shared::cpu(c).node() != node))
        .unwrap_or(here)
}

/// CPUs but the calling one where a thread waits for its turn.
pub fn busy() -> impl Iterator<Item = usize> {
    let me = percpu::index();
    (1..count()).map(move |i| (me + i) % count()).filter(|&c| LOAD[c].load(Ordering::SeqCst) > 1)
}

/// The calling CPU halts, or does not any more.
pub fn set_idle(idle: bool) {
    let me = percpu::index();
    if idle {
        IDLE.insert(me);
    } else {
        IDLE.remove(me);
    }
}

/// `thread` has to wait for its turn here: an idle CPU may come and take it.
pub fn offer(thread: &Task) {
    let mask = *thread.affinity.lock();
    if let Some(cpu) = IDLE.after_change().first(|c| mask.contains(c)) {
        IDLE.remove(cpu); // one of them is enough
        post(cpu, QUEUE);
    }
}
