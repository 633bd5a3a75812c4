//! Ringing Linux: an event into this CPU's outbound ring, its bit into a doorbell, then one IPI.

use hanare_abi::boot::EVENT_SHIFT;
use hanare_hal::{apic, cpu, percpu, shared};
use hanare_ikc::{DoorbellRef, Inbound};

/// How long Linux may take to drain a full ring, or to name a doorbell vector
/// while its interrupt moves, before an event is given up.
const PATIENCE_MS: u64 = 2_000;

/// This CPU's view of what Linux sends.
pub fn inbound() -> Inbound<'static> {
    shared::here().inbound()
}

/// Sends `kind` (one of `abi::boot::EVENT_*`) with its payload. `near`: the doorbell next to the
/// receiver, plus 1, as the receiver says; 0: not known.
pub fn ring(near: u32, kind: u64, payload: u64) {
    ring_raw(near, kind << EVENT_SHIFT | payload);
}

/// Sends `event`, which has its kind already, as [`ring`] does.
pub fn ring_raw(near: u32, event: u64) {
    let doorbell = shared::doorbell(near);
    if shared::here().outbound().push(event).is_err() && !push_later(&doorbell, event) {
        return; // Linux is gone; no task is left to be told
    }
    ring_at(&doorbell);
}

/// Rings the doorbell or, where no CPU of Linux hears it, the calling CPU's own: the doorbell is
/// moving, or a proxy has named one that is not in use.
#[inline(always)] // of each call that is woken for
fn ring_at(doorbell: &DoorbellRef<'_>) {
    let word = match doorbell.ring(percpu::index()) {
        0 => own(),
        word => word,
    };
    send(word);
}

#[cold]
fn own() -> u64 {
    shared::doorbell(0).ring(percpu::index())
}

/// Waits until Linux has drained the full ring, and adds the event. False: Linux does not drain it.
#[cold]
fn push_later(doorbell: &DoorbellRef<'_>, event: u64) -> bool {
    let until = cpu::rdtsc() + u64::from(shared::params().tsc_khz) * PATIENCE_MS;
    while shared::here().outbound().push(event).is_err() {
        if cpu::rdtsc() > until {
            return false;
        }
        ring_at(doorbell);
        crate::sched::tlb::serve();
        cpu::pause();
    }
    true
}

/// Interrupts the CPU of Linux that `word` names. Zero: the doorbell is moving, and the code that
/// moves it looks at the ring.
fn send(word: u64) {
    if word != 0 {
        apic::send((word >> 32) as u32, word as u8);
    }
}
