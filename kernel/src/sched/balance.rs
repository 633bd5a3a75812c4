//! On which CPU a thread runs: placed where least is to do, taken over by CPUs that
//! have nothing, kept within its mask.

use crate::base::line::Line;
use crate::sched::attention::{QUEUE, post};
use crate::sched::cpu_mask::{MASK_WORDS, count};
use crate::sched::task::Task;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{percpu, shared};
use hanare_ikc::{Balance, Takers};

/// Threads of each CPU that run or want to. A CPU where one thread waits alone for Linux counts
/// that thread. So a search for a free CPU looks into the set of idle CPUs, too.
static LOAD: [Line<AtomicU32>; CPUS_MAX] = [const { Line(AtomicU32::new(0)) }; CPUS_MAX];
/// On one line: a CPU that goes idle looks which CPUs are busy.
static SETS: Line<Balance<MASK_WORDS>> = Line(Balance::new());
/// CPUs that may take a thread over from each CPU.
static TAKERS: [Line<Takers<MASK_WORDS>>; CPUS_MAX] = [const { Line(Takers::new()) }; CPUS_MAX];
/// Where the search for a place begins, so that equal CPUs take turns.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// Tells the others how much the calling CPU has to do.
pub fn set_load(cpu: usize, threads: usize) {
    let before = LOAD[cpu].swap(threads as u32, Ordering::SeqCst);
    if (before > 1) != (threads > 1) {
        SETS.set_busy(cpu, threads > 1);
        shared::cpu(cpu).set_crowded(threads > 1);
    }
}

fn load(cpu: usize) -> u32 {
    LOAD[cpu].load(Ordering::Relaxed).saturating_sub(SETS.is_idle(cpu).into())
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

/// The CPU for the first thread of a process: the calling one if nothing runs there, so that no
/// other CPU is interrupted.
pub fn place_first(thread: &Task) -> usize {
    let here = percpu::index();
    let is_free = LOAD[here].load(Ordering::Relaxed) == 0 && thread.affinity.lock().contains(here);
    if is_free { here } else { place(thread) }
}

/// The CPUs that may take threads over from a CPU. They are changed with the lock of its queue.
pub fn takers(cpu: usize) -> &'static Takers<MASK_WORDS> {
    &TAKERS[cpu]
}

/// CPUs where a thread waits for its turn that CPU `me` may run.
pub fn sources(me: usize) -> impl Iterator<Item = usize> {
    SETS.sources(me, takers)
}

/// Whether there is such a CPU for the calling one.
#[inline(always)]
pub fn has_source() -> bool {
    SETS.has_source(percpu::index, takers)
}

/// The calling CPU halts, or does not any more.
#[inline(always)]
pub fn set_idle(idle: bool) {
    let me = percpu::index();
    if idle {
        SETS.begin_idle(me);
    } else {
        SETS.end_idle(me);
    }
}

/// A thread comes to the queue of a CPU, which sleeps a moment longer perhaps. A search for a free
/// CPU does not take this one for idle any more. Its load says so already.
pub fn wake(cpu: usize) {
    SETS.wake(cpu, || post(cpu, QUEUE));
}

/// A thread has to wait for its turn on CPU `me`: an idle CPU may come and take it.
pub fn offer(me: usize) {
    SETS.offer(me, takers(me), |cpu| post(cpu, QUEUE));
}
