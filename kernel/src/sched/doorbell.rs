//! Ringing Linux: an event into this CPU's outbound ring, then one IPI.

use hanare_abi::boot::EVENT_SHIFT;
use hanare_hal::{apic, cpu, shared};
use hanare_ikc::Inbound;

/// How long Linux may take to drain a full ring, or to name a doorbell vector
/// while its interrupt moves, before an event is given up.
const PATIENCE_MS: u64 = 2_000;

/// This CPU's view of what Linux sends.
pub fn inbound() -> Inbound<'static> {
    shared::here().inbound()
}

/// Sends `kind` (one of `abi::boot::EVENT_*`) with its payload.
pub fn ring(kind: u64, payload: u64) {
    ring_raw(kind << EVENT_SHIFT | payload);
}

/// As [`ring`], ready-made.
pub fn ring_raw(event: u64) {
    let outbound = shared::here().outbound();
    let patience = u64::from(shared::params().tsc_khz) * PATIENCE_MS;
    let start = cpu::rdtsc();
    let word = loop {
        match outbound.push(event) {
            Ok(word) => break word,
            // Full: Linux has to look at what is there first.
            Err(_) => send(outbound.doorbell()),
        }
        if cpu::rdtsc().wrapping_sub(start) > patience {
            return; // Linux is gone; nobody is left to be told
        }
        crate::sched::tlb::serve();
        cpu::pause();
    };
    send(word);
}

/// Zero: nowhere now; the next event has the ring drained, or a waiter of Linux', who looks now and then.
fn send(word: u64) {
    if word != 0 {
        apic::send((word >> 32) as u32, word as u8);
    }
}
