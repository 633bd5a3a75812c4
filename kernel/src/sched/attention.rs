//! What a CPU has to look at before it returns to user mode.

use core::sync::atomic::{AtomicBool, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::percpu;

static RESCHEDULE: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];
/// Something is to be done before the next return to user mode. Requests of Linux and
/// of other CPUs need no flag: their IPI comes as soon as interrupts are open again.
static ATTENTION: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(true) }; CPUS_MAX];

/// Asks for a look at the queue before the next return to user mode.
pub fn request_reschedule() {
    RESCHEDULE[percpu::index()].store(true, Ordering::Relaxed);
    request_attention();
}

/// The next return to user mode goes the long way: requests, signals, queue.
pub fn request_attention() {
    ATTENTION[percpu::index()].store(true, Ordering::Relaxed);
}

/// Whether the long way is needed now.
pub fn take_attention() -> bool {
    let flag = &ATTENTION[percpu::index()];
    // No locked exchange: only this CPU writes it, with interrupts off.
    flag.load(Ordering::Relaxed) && {
        flag.store(false, Ordering::Relaxed);
        true
    }
}

/// Whether a look at the queue was asked for; it is taken now.
pub fn take_reschedule() -> bool {
    RESCHEDULE[percpu::index()].swap(false, Ordering::Relaxed)
}
