//! The attention words of the CPUs: reasons to look, found by the CPU itself or by an interrupt
//! ([`hanare_ikc::wake`]).

use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{apic, percpu, shared};
use hanare_ikc::wake::BEFORE_USER;
pub use hanare_ikc::wake::{
    Attention, Company, FLUSH, QUEUE, RESCHEDULE, SLEEPS, THREADS, WANTS_CPU,
};

static ATTENTION: [Attention; CPUS_MAX] = [const { Attention::new() }; CPUS_MAX];

/// The attention word of the calling CPU.
#[inline(always)]
pub fn mine() -> &'static Attention {
    &ATTENTION[percpu::index()]
}

/// The company of CPU `index`: flags about its threads beside the running one.
#[inline(always)]
pub fn company(index: usize) -> &'static Company {
    ATTENTION[index].company()
}

/// Tells CPU `index` to look; interrupts it if it would not by itself.
pub fn post(index: usize, reasons: u32) {
    if ATTENTION[index].post(reasons) && index != percpu::index() {
        apic::send(shared::cpu(index).apic_id(), apic::PEER_VECTOR);
    }
}

/// Makes the CPU look at requests, signals and its run queue before it returns to user mode.
pub fn request_attention() {
    mine().ask(BEFORE_USER);
}

/// Whether the long way is needed now.
#[inline(always)]
pub fn take_attention() -> bool {
    mine().take_any()
}
