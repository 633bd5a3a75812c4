//! The time stamp counter in user mode, which a thread may forbid itself (`PR_SET_TSC`).

use crate::process::thread::Thread;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{cpu, percpu};

/// CPUs on which it is forbidden now.
static FORBIDDEN: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];

/// The CPU goes on with `next`.
pub fn switch(next: &Thread) {
    let (forbidden, wanted) = (&FORBIDDEN[percpu::index()], next.no_tsc.load(Ordering::Relaxed));
    if forbidden.load(Ordering::Relaxed) != wanted {
        forbidden.store(wanted, Ordering::Relaxed);
        cpu::allow_user_tsc(!wanted);
    }
}

/// The running thread forbids it to itself, or not any more.
pub fn forbid(thread: &Thread, forbidden: bool) {
    thread.no_tsc.store(forbidden, Ordering::Relaxed);
    switch(thread);
}
