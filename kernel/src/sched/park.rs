//! Whether the LWK has panicked, and the end of a CPU's work for it.

use core::sync::atomic::{AtomicBool, Ordering};
use hanare_abi::boot::{CPU_ONLINE, CPU_PARKED};
use hanare_hal::{apic, cpu, shared};

static PANICKED: AtomicBool = AtomicBool::new(false);

/// Whether some CPU has panicked.
pub fn has_panicked() -> bool {
    PANICKED.load(Ordering::Relaxed)
}

/// The calling CPU panics. True: another one has before.
pub fn begin_panic() -> bool {
    PANICKED.swap(true, Ordering::SeqCst)
}

/// Stops this CPU for good.
pub fn park() -> ! {
    let me = shared::here();
    // One that has not come online yet keeps its state: "parked" is beyond "online", and the module
    // would go on and start the next CPU.
    if me.state() == CPU_ONLINE {
        me.set_state(CPU_PARKED);
    }
    if apic::is_ready() {
        apic::disable();
    }
    cpu::park()
}
