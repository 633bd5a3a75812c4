//! The time stamp counter in user mode, which a thread may forbid itself (`PR_SET_TSC`).

use core::sync::atomic::{AtomicBool, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{cpu, percpu};

/// CPUs on which reading the TSC is forbidden now.
static FORBIDDEN: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];

/// The CPU goes on with a thread that has forbidden it, or not.
pub fn switch(wanted: bool) {
    let forbidden = &FORBIDDEN[percpu::index()];
    if forbidden.load(Ordering::Relaxed) != wanted {
        forbidden.store(wanted, Ordering::Relaxed);
        cpu::allow_user_tsc(!wanted);
    }
}
