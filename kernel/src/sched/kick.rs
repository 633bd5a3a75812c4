//! Threads that are to be looked at, by the CPU on whose queue they are.

use crate::base::lock::{Mutex, rank};
use crate::sched::attention::request_reschedule;
use crate::sched::post::{KICK, post};
use crate::sched::queue;
use crate::sched::task::{Runs, Task};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::percpu;

#[repr(align(64))]
struct Kicked {
    any: AtomicBool,
    threads: Mutex<Vec<Arc<dyn Runs>>, rank::Kicked>,
}

static KICKED: [Kicked; CPUS_MAX] =
    [const { Kicked { any: AtomicBool::new(false), threads: Mutex::new(Vec::new()) } }; CPUS_MAX];

/// Something happened that `thread` may be waiting for, or has to see before it goes
/// on in user mode: its CPU looks.
pub fn kick(thread: &Task) {
    // What happened is visible before the flag, and the flag set before we look where the
    // thread is: if it moves meanwhile, it finds by itself what happened.
    let known = thread.kicked.swap(true, Ordering::SeqCst);
    let cpu = thread.cpu.load(Ordering::SeqCst);
    if !known && let Some(whole) = thread.whole() {
        let kicked = &KICKED[cpu];
        queue::add(&mut kicked.threads.lock(), whole);
        kicked.any.store(true, Ordering::SeqCst);
    }
    if cpu == percpu::index() {
        request_reschedule();
    } else {
        post(cpu, KICK);
    }
}

/// Whether there are threads for the calling CPU to look at.
pub fn any() -> bool {
    KICKED[percpu::index()].any.load(Ordering::SeqCst)
}

/// Takes the threads of the calling CPU that were kicked; it looks at them now.
pub fn take() -> Vec<Arc<dyn Runs>> {
    let index = percpu::index();
    let here = &KICKED[index];
    if !here.any.load(Ordering::Relaxed) || !here.any.swap(false, Ordering::SeqCst) {
        return Vec::new();
    }
    let mut kicked = core::mem::take(&mut *here.threads.lock());
    kicked.retain(|thread| {
        let thread = thread.task();
        thread.kicked.swap(false, Ordering::SeqCst);
        let moved = thread.cpu.load(Ordering::SeqCst) != index;
        if moved {
            kick(thread); // it may wait there for this kick
        }
        !moved
    });
    kicked
}
