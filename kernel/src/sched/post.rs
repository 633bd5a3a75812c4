//! What other CPUs want of a CPU: a word each, and an interrupt where it would not look.

use core::sync::atomic::{AtomicU32, Ordering};
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{apic, percpu, shared};

/// [`KICK`], [`FLUSH`]; and [`LOOKING`].
static POSTED: [Posted; CPUS_MAX] = [const { Posted(AtomicU32::new(0)) }; CPUS_MAX];

#[repr(align(64))]
struct Posted(AtomicU32);

/// A thread came to the queue, or somebody who waits may go on.
pub const KICK: u32 = 1;
/// The TLB mailbox has something, see [`crate::sched::tlb`].
pub const FLUSH: u32 = 2;
/// The CPU looks at this word by itself before it halts or leaves the kernel.
const LOOKING: u32 = 4;

/// Tells CPU `index` to look; interrupts it if it would not by itself.
pub fn post(index: usize, what: u32) {
    let before = POSTED[index].0.fetch_or(what, Ordering::SeqCst);
    if before & (LOOKING | what) == 0 && index != percpu::index() {
        apic::send(shared::cpu(index).apic_id(), apic::PEER_VECTOR);
    }
}

/// Takes what was posted to the calling CPU.
pub fn take_posted(what: u32) -> bool {
    let word = &POSTED[percpu::index()].0;
    word.load(Ordering::Relaxed) & what != 0 && word.fetch_and(!what, Ordering::SeqCst) & what != 0
}

/// The calling CPU looks by itself from now on.
pub fn begin_looking() {
    POSTED[percpu::index()].0.fetch_or(LOOKING, Ordering::SeqCst);
}

/// It does not any more; false if something was posted that is to be seen to first.
pub fn end_looking() -> bool {
    POSTED[percpu::index()].0.fetch_and(!LOOKING, Ordering::SeqCst) & (KICK | FLUSH) == 0
}
