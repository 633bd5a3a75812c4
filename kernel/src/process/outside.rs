//! Threads that execute on Linux, and have to come back since they are watched from now on.

use crate::link::services;
use crate::process::Process;
use core::sync::atomic::{Ordering, fence};
use hanare_abi::service::SERVICE_INTERRUPT;
use hanare_core::fair::Owner;

/// Has all those of a process come back. They leave no more as long as they are watched, which has
/// been made known before.
pub fn call_back(p: &Process) {
    if !p.has_utility_threads.load(Ordering::Relaxed) {
        return;
    }
    fence(Ordering::SeqCst);
    for thread in p.threads().filter(|thread| thread.utility.is_out()) {
        // Where no entry is free it comes back with its next call.
        services::post(
            SERVICE_INTERRUPT,
            Owner::kernel(p.memory().id),
            &[thread.tid().into()],
            &[],
        );
    }
}
