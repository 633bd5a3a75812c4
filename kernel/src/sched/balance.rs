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

/// Threads of each CPU that run or want to. A CPU where one waits alone for Linux counts it: who wants to know looks into the
/// set of idle CPUs, too.
static LOAD: [Line<AtomicU32>; CPUS_MAX] = [const { Line(AtomicU32::new(0)) }; CPUS_MAX];
/// CPUs of which others want to know: who looks for one does not read a line of each CPU.
struct Sets {
    /// Those where a thread waits for its turn.
    busy: CpuSet,
    /// Those that halt, or are about to and look for work once more.
    idle: CpuSet,
}

/// On one line: who goes idle looks who is busy.
static SETS: Line<Sets> = Line(Sets { busy: CpuSet::new(), idle: CpuSet::new() });
/// Where the search for a place begins, so that equal CPUs take turns.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// Tells the others how much the calling CPU has to do.
pub fn set_load(cpu: usize, threads: usize) {
    let before = LOAD[cpu].swap(threads as u32, Ordering::SeqCst);
    match (before > 1, threads > 1) {
        (false, true) => SETS.busy.insert(cpu),
        (true, false) => SETS.busy.remove(cpu),
        _ => return,
    }
    shared::cpu(cpu).set_crowded(threads > 1);
}

fn load(cpu: usize) -> u32 {
    LOAD[cpu].load(Ordering::Relaxed).saturating_sub(SETS.idle.contains(cpu).into())
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
        .min_by_key(|&c| (load(c), shared::cpu(c).node() != node))
        .unwrap_or(here)
}

/// The CPU for the first thread of a process: the calling one if nothing runs there, so that nobody is interrupted.
pub fn place_first(thread: &Task) -> usize {
    let here = percpu::index();
    let is_free = LOAD[here].load(Ordering::Relaxed) == 0 && thread.affinity.lock().contains(here);
    if is_free { here } else { place(thread) }
}

/// CPUs but the calling one where a thread waits for its turn.
pub fn busy() -> impl Iterator<Item = usize> {
    SETS.busy.others(percpu::index())
}

/// Whether on some CPU a thread waits for its turn.
#[inline(always)]
pub fn is_any_busy() -> bool {
    !SETS.busy.is_empty()
}

/// The calling CPU halts, or does not any more.
#[inline(always)]
pub fn set_idle(idle: bool) {
    let me = percpu::index();
    if idle {
        SETS.idle.insert(me);
    } else {
        SETS.idle.remove(me);
    }
}

/// A thread comes to the queue of a CPU, which sleeps a moment longer perhaps: whoever looks for a place takes it for idle
/// no more. Its load says so already.
pub fn is_joined(cpu: usize) {
    if SETS.idle.contains(cpu) {
        SETS.idle.remove(cpu);
    }
}

/// `thread` has to wait for its turn here: an idle CPU may come and take it.
pub fn offer(thread: &Task) {
    let mask = *thread.affinity.lock();
    if let Some(cpu) = SETS.idle.after_change().first(|c| mask.contains(c)) {
        SETS.idle.remove(cpu); // one of them is enough
        post(cpu, QUEUE);
    }
}
