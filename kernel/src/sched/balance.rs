//! On which CPU a thread runs: placed where least is to do, taken over by CPUs that
//! have nothing, kept within its mask.

use crate::process::thread::Thread;
use crate::sched::cpus;
use crate::sched::tlb::CpuSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{percpu, shared};

/// Threads of each CPU that run or want to.
static LOAD: [AtomicU32; CPUS_MAX] = [const { AtomicU32::new(0) }; CPUS_MAX];
/// CPUs that halt, or are about to and look for work once more.
static IDLE: CpuSet = CpuSet::new();
/// Where the search for a place begins, so that equal CPUs take turns.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// CPUs of the instance, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMask([u64; CPUS_MAX / 64]);

impl CpuMask {
    /// All.
    pub const fn all() -> CpuMask {
        CpuMask([u64::MAX; CPUS_MAX / 64])
    }

    /// Of the first CPUs, as bits of a word; it may name some that there are not.
    pub const fn of_word(bits: u64) -> CpuMask {
        let mut mask = CpuMask([0; CPUS_MAX / 64]);
        mask.0[0] = bits;
        mask
    }

    /// The first CPUs, as bits of a word, as they were given.
    pub const fn first_word(&self) -> u64 {
        self.0[0]
    }

    /// Whether a CPU is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64] & 1 << (cpu % 64) != 0
    }

    /// From Linux' CPU numbers, bit n of byte n / 8; `None`: no CPU of the instance.
    pub fn from_linux(bytes: &[u8]) -> Option<CpuMask> {
        let mut mask = CpuMask([0; CPUS_MAX / 64]);
        for cpu in 0..count() {
            let n = shared::cpu(cpu).linux_cpu() as usize;
            if bytes.get(n / 8).is_some_and(|b| b & 1 << (n % 8) != 0) {
                mask.0[cpu / 64] |= 1 << (cpu % 64);
            }
        }
        (mask != CpuMask([0; CPUS_MAX / 64])).then_some(mask)
    }

    /// In Linux' numbers, as large as Linux' own.
    pub fn to_linux(self) -> Vec<u8> {
        let mut bytes = vec![0u8; shared::params().linux_cpumask_size as usize];
        for cpu in (0..count()).filter(|&c| self.contains(c)) {
            let n = shared::cpu(cpu).linux_cpu() as usize;
            if let Some(byte) = bytes.get_mut(n / 8) {
                *byte |= 1 << (n % 8);
            }
        }
        bytes
    }
}

/// CPUs of the instance.
pub fn count() -> usize {
    shared::params().cpu_count as usize
}

/// Tells the others how much the calling CPU has to do.
pub fn set_load(cpu: usize, threads: usize) {
    LOAD[cpu].store(threads as u32, Ordering::SeqCst);
}

/// The CPU for a thread that begins or may not stay where it is.
pub fn place(thread: &Thread) -> usize {
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

/// The calling CPU has nothing to do: a thread that waits for its turn elsewhere.
pub fn steal() -> Option<Arc<Thread>> {
    let me = percpu::index();
    (1..count())
        .map(|i| (me + i) % count())
        .filter(|&c| LOAD[c].load(Ordering::SeqCst) > 1)
        .find_map(|c| cpus::take_from(c, me))
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
pub fn offer(thread: &Thread) {
    fence(Ordering::SeqCst); // our load, then the look at who is idle
    let mask = *thread.affinity.lock();
    if let Some(cpu) = IDLE.first(|c| mask.contains(c)) {
        IDLE.remove(cpu); // one of them is enough
        cpus::post(cpu, cpus::KICK);
    }
}
