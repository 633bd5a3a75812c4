//! One LWK CPU's mailbox: requests in, events out, and its counters.

use hanare_abi::boot::{BELL_WORDS, EXCEPTIONS, RING_ENTRIES, VECTORS};
#[cfg(not(loom))]
use hanare_abi::boot::{
    CpuShared, EVENT_PANIC, EVENT_REQUEST, EVENT_SERVICE, EVENT_SHIFT, EVENT_SLOT, RingEntries,
    VECTOR_FIRST,
};
use hanare_abi::copied::{MAPPED_CALLS, MAPPED_REASONS};
use hanare_abi::grant::GRANTS_MAX;

use crate::grant::UseWords;
use crate::ring::{EntryPair, Full, Ring, ToLinux, ToLwk};
use crate::same_layout;
use crate::set::bits;
use crate::sleeper::Sleeper;
use crate::sync::{AtomicU32, AtomicU64, Ordering, REAL, in_c, publish};

/// [`CpuShared`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(4096)))]
#[derive(Debug)]
#[allow(dead_code, reason = "words of the module, and padding")]
pub struct CpuWords {
    apic_id: AtomicU32,
    linux_cpu: AtomicU32,
    node: AtomicU32,
    state: AtomicU32,
    doorbell: AtomicU32,
    ipi_vector: AtomicU32,
    reserved1: [AtomicU64; 5],
    lwk_wait: AtomicU32,
    current_space: AtomicU32,
    heartbeat: AtomicU64,
    interrupts: AtomicU64,
    exceptions: AtomicU64,
    page_faults: AtomicU64,
    local_calls: AtomicU64,
    delegated_calls: AtomicU64,
    crowded: AtomicU32,
    reserved2: AtomicU32,
    inbound_tail: AtomicU32,
    inbound_seen: AtomicU32,
    reserved3: [AtomicU32; 14],
    inbound_head: AtomicU32,
    outbound_tail: AtomicU32,
    outbound_seen: AtomicU32,
    reserved4: AtomicU32,
    idle_cycles: AtomicU64,
    idle_since: AtomicU64,
    boxed_calls: AtomicU64,
    unboxed_calls: AtomicU64,
    servers_made: AtomicU64,
    reserved5: AtomicU64,
    outbound_head: AtomicU32,
    reserved6: [AtomicU32; 31],
    entries: [EntryPair; RING_ENTRIES],
    bells_rung: AtomicU64,
    reserved7: [AtomicU64; 7],
    bells: [AtomicU64; BELL_WORDS],
    interrupts_by: [AtomicU32; VECTORS],
    exceptions_by: [AtomicU32; EXCEPTIONS],
    copies: AtomicU32,
    reserved9: AtomicU32,
    copied_calls: AtomicU64,
    copied_in: AtomicU64,
    copied_out: AtomicU64,
    mapped_by: [AtomicU32; MAPPED_REASONS],
    mapped_calls: [AtomicU32; MAPPED_CALLS],
    packed_calls: AtomicU64,
    members_made: AtomicU64,
    uses: [UseWords; GRANTS_MAX],
    reserved8: [AtomicU64; 138],
}

same_layout!(EntryPair, RingEntries: outbound, inbound);

same_layout!(CpuWords, CpuShared:
    apic_id, linux_cpu, node, state, doorbell, ipi_vector, lwk_wait, current_space, heartbeat,
    interrupts, exceptions, page_faults, local_calls, delegated_calls, inbound_tail,
    inbound_seen, inbound_head, outbound_tail, outbound_seen, outbound_head, entries, idle_cycles, idle_since,
    bells_rung, bells, interrupts_by, exceptions_by, crowded, boxed_calls, unboxed_calls, servers_made,
    copies, copied_calls, copied_in, copied_out, mapped_by, mapped_calls,
    packed_calls, members_made);

/// Requests for this CPU: the module posts, the LWK takes.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a, const MUTANT: u8 = REAL> {
    ring: Ring<'a, ToLwk, MUTANT>,
    sleeper: Sleeper<'a, MUTANT>,
}

impl<'a, const MUTANT: u8> Inbound<'a, MUTANT> {
    /// The ring, and the word in which the CPU says that it needs an IPI.
    #[must_use]
    pub const fn new(ring: Ring<'a, ToLwk, MUTANT>, wait: &'a AtomicU32) -> Self {
        Self { ring, sleeper: Sleeper::new(wait) }
    }

    /// LWK: takes the index of the oldest request. The caller validates it.
    #[must_use]
    pub fn pop(&self) -> Option<u32> {
        self.ring.pop()
    }

    /// LWK: whether no request is in the ring.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// LWK: this CPU polls from now on, no IPI is needed.
    pub fn set_polling(&self) {
        self.sleeper.wakes();
    }

    /// LWK: whether this CPU has said that it polls.
    #[must_use]
    pub fn is_polling(&self) -> bool {
        self.sleeper.is_awake()
    }

    /// LWK, before it halts or returns to user mode: an IPI is needed from now on.
    /// `true`: go ahead, an IPI will come for what is posted later. `false`: a
    /// request is there already; the CPU is polling again.
    #[must_use]
    pub fn prepare_halt(&self) -> bool {
        self.sleeper.prepare_sleep(|| !self.ring.is_empty())
    }

    /// Module (in C: `hanare_inbound_push`, `hanare_must_ring`): posts a request. Answers whether
    /// the CPU has to be sent an IPI.
    ///
    /// # Errors
    /// [`Full`]: nothing was posted.
    pub fn post(&self, index: u32) -> Result<bool, Full> {
        self.ring.module_push(index)?;
        Ok(self.sleeper.must_be_rung_by_module())
    }
}

/// Events for Linux: the LWK posts, the module's interrupt handler takes.
#[derive(Clone, Copy, Debug)]
pub struct Outbound<'a, const MUTANT: u8 = REAL> {
    ring: Ring<'a, ToLinux, MUTANT>,
}

impl<'a, const MUTANT: u8> Outbound<'a, MUTANT> {
    /// The events of this ring.
    #[must_use]
    pub const fn new(ring: Ring<'a, ToLinux, MUTANT>) -> Self {
        Self { ring }
    }

    /// LWK: posts an event (`EVENT_* << EVENT_SHIFT | payload`). The caller
    /// [rings](crate::DoorbellRef::ring) a doorbell after that. Interrupts are off, so that no
    /// other event of this CPU comes in between.
    ///
    /// # Errors
    /// [`Full`]: nothing was posted; ring and try again.
    pub fn push(&self, event: u64) -> Result<(), Full> {
        self.ring.push(event)
    }

    /// Module (in C: `hanare_outbound_look`, `hanare_outbound_release`): takes an event.
    #[must_use]
    pub fn pop(&self) -> Option<u64> {
        self.ring.module_pop()
    }
}

/// Bits of a CPU for the bells of its threads: the module sets one and sends an IPI, the LWK looks
/// which ones are set. Each stays set until it was taken.
#[derive(Clone, Copy, Debug)]
pub struct Bells<'a, const MUTANT: u8 = REAL> {
    rung: &'a AtomicU64,
    words: &'a [AtomicU64],
}

impl<'a, const MUTANT: u8> Bells<'a, MUTANT> {
    /// The bells of `words`, and the word that says which of those to look at.
    #[must_use]
    pub const fn new(rung: &'a AtomicU64, words: &'a [AtomicU64]) -> Self {
        Self { rung, words }
    }

    /// LWK: whether there may be a bell to take.
    #[must_use]
    pub fn any(&self) -> bool {
        self.rung.load(Ordering::Relaxed) != 0
    }

    /// LWK: takes those that rang; what was written before they were rung is visible.
    pub fn take(&self, mut each: impl FnMut(u32)) {
        if !self.any() {
            return;
        }
        for word in bits(self.rung.swap(0, Ordering::Acquire)) {
            if let Some(bells) = self.words.get(word as usize) {
                bits(bells.swap(0, Ordering::Acquire)).for_each(|bit| each(word * 64 + bit));
            }
        }
    }

    /// Module (in C: `hanare_bell_set`): sets the bit of one; an IPI follows.
    pub fn ring(&self, bell: u32) {
        in_c!(MUTANT, module => module.bell_set(&self.words[bell as usize / 64], self.rung, bell));
        self.words[bell as usize / 64].fetch_or(1 << (bell % 64), publish::<MUTANT>());
        self.rung.fetch_or(1 << (bell / 64), publish::<MUTANT>());
    }
}

/// The mailbox of one LWK CPU, from that CPU.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub struct CpuRef<'a> {
    words: &'a CpuWords,
}

/// A counter that only this CPU writes.
#[cfg(not(loom))]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Adds to a counter that only this CPU writes.
#[cfg(not(loom))]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Counts in an entry of a list that only this CPU writes; without the entry nothing is counted.
#[cfg(not(loom))]
fn bump_entry(counters: &[AtomicU32], index: usize) {
    if let Some(counter) = counters.get(index) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

#[cfg(not(loom))]
impl<'a> CpuRef<'a> {
    /// The mailbox at `cpu`.
    ///
    /// # Safety
    /// `cpu` points to a page-aligned [`CpuShared`] that stays mapped, readable and
    /// writable for `'a`, and that is accessed only through this crate (or by the
    /// module).
    #[must_use]
    pub const unsafe fn from_raw(cpu: *mut CpuShared) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; the caller vouches for the memory.
        let words = unsafe { &*cpu.cast::<CpuWords>() };
        Self { words }
    }

    /// Requests for this CPU.
    #[must_use]
    pub const fn inbound(&self) -> Inbound<'a> {
        let words = self.words;
        let (head, tail) = (&words.inbound_head, &words.inbound_tail);
        let ring = Ring::new(head, tail, &words.inbound_seen, &words.entries);
        Inbound::new(ring, &words.lwk_wait)
    }

    /// Events for Linux.
    #[must_use]
    pub const fn outbound(&self) -> Outbound<'a> {
        let words = self.words;
        let (head, tail) = (&words.outbound_head, &words.outbound_tail);
        let ring = Ring::new(head, tail, &words.outbound_seen, &words.entries);
        Outbound::new(ring)
    }

    /// Uses of a granted device.
    ///
    /// # Panics
    /// If there is no device with that number.
    #[must_use]
    pub const fn uses(&self, grant: u32) -> &'a UseWords {
        &self.words.uses[grant as usize]
    }

    /// Bells that Linux has rung.
    #[must_use]
    pub const fn bells(&self) -> Bells<'a> {
        Bells::new(&self.words.bells_rung, &self.words.bells)
    }

    /// State of the CPU (`CPU_*`).
    #[must_use]
    pub fn state(&self) -> u32 {
        self.words.state.load(Ordering::Acquire)
    }

    /// Sets `CPU_*`; what was written before is visible to a reader that sees it.
    pub fn set_state(&self, state: u32) {
        self.words.state.store(state, Ordering::Release);
    }

    /// Physical APIC id.
    #[must_use]
    pub fn apic_id(&self) -> u32 {
        self.words.apic_id.load(Ordering::Relaxed)
    }

    /// Linux' number of this CPU.
    #[must_use]
    pub fn linux_cpu(&self) -> u32 {
        self.words.linux_cpu.load(Ordering::Relaxed)
    }

    /// The doorbell to ring where no side has named a nearer one.
    #[must_use]
    #[inline(always)]
    pub fn doorbell(&self) -> u32 {
        self.words.doorbell.load(Ordering::Relaxed)
    }

    /// NUMA node.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.words.node.load(Ordering::Relaxed)
    }

    /// Vector on which Linux rings this CPU.
    #[must_use]
    pub fn ipi_vector(&self) -> u32 {
        self.words.ipi_vector.load(Ordering::Relaxed)
    }

    /// Stores the id of the space that runs here, for Linux to read; 0: none.
    pub fn set_current_space(&self, space: u32) {
        self.words.current_space.store(space, Ordering::Relaxed);
    }

    /// Stores whether a thread waits for its turn on this CPU, for Linux to read.
    pub fn set_crowded(&self, crowded: bool) {
        self.words.crowded.store(crowded.into(), Ordering::Relaxed);
    }

    /// Counts a pass of the idle loop or a request served.
    pub fn beat(&self) {
        bump(&self.words.heartbeat);
    }

    /// Counts an interrupt.
    pub fn count_interrupt(&self, vector: u8) {
        bump(&self.words.interrupts);
        bump_entry(
            &self.words.interrupts_by,
            usize::from(vector.saturating_sub(VECTOR_FIRST as u8)),
        );
    }

    /// Counts an exception.
    pub fn count_exception(&self, vector: u8) {
        bump(&self.words.exceptions);
        bump_entry(&self.words.exceptions_by, usize::from(vector));
    }

    /// Says whether arguments of calls are copied where nothing else is said.
    pub fn set_copies(&self, copies: bool) {
        self.words.copies.store(copies.into(), Ordering::Relaxed);
    }

    /// Counts a call whose arguments were copied: so many bytes from the program and to it.
    pub fn count_copied(&self, from: u64, to: u64) {
        bump(&self.words.copied_calls);
        add(&self.words.copied_in, from);
        add(&self.words.copied_out, to);
    }

    /// Counts a call whose arguments were to be copied and are mapped, for this reason
    /// (`MAPPED_*`).
    pub fn count_mapped(&self, number: u32, reason: u32) {
        bump_entry(&self.words.mapped_by, reason as usize);
        bump_entry(&self.words.mapped_calls, number as usize);
    }

    /// Counts a page fault.
    pub fn count_page_fault(&self) {
        bump(&self.words.page_faults);
    }

    /// Counts a call served here.
    pub fn count_local_call(&self) {
        bump(&self.words.local_calls);
    }

    /// Counts a call delegated.
    pub fn count_delegated_call(&self) {
        bump(&self.words.delegated_calls);
    }

    /// Counts a call that a server has executed.
    pub fn count_boxed_call(&self) {
        bump(&self.words.boxed_calls);
    }

    /// Counts a call that was taken out of a request box again.
    pub fn count_unboxed_call(&self) {
        bump(&self.words.unboxed_calls);
    }

    /// Counts a server that was started.
    pub fn count_server(&self) {
        bump(&self.words.servers_made);
    }

    /// Counts a call that a pooled proxy has executed.
    pub fn count_packed_call(&self) {
        bump(&self.words.packed_calls);
    }

    /// Counts a pooled proxy that has come.
    pub fn count_member(&self) {
        bump(&self.words.members_made);
    }

    /// Stores that this CPU halts since `now`, a TSC value.
    pub fn begin_idle(&self, now: u64) {
        self.words.idle_since.store(now.max(1), Ordering::Relaxed);
    }

    /// Stores that this CPU, which halted since `since`, does not any more, and adds that time.
    pub fn end_idle(&self, since: u64, now: u64) {
        let words = self.words;
        let halted = now.saturating_sub(since);
        words.idle_since.store(0, Ordering::Relaxed);
        words
            .idle_cycles
            .store(words.idle_cycles.load(Ordering::Relaxed) + halted, Ordering::Relaxed);
    }

    /// Counters: interrupts, exceptions, page faults, local calls, delegated calls.
    #[must_use]
    pub fn counters(&self) -> [u64; 5] {
        let words = self.words;
        [
            &words.interrupts,
            &words.exceptions,
            &words.page_faults,
            &words.local_calls,
            &words.delegated_calls,
        ]
        .map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Event words.
#[cfg(not(loom))]
impl Outbound<'_> {
    /// Wake the worker of a slot.
    #[must_use]
    pub const fn slot_event(space: u32, slot: u32) -> u64 {
        EVENT_SLOT << EVENT_SHIFT | (space as u64) << 24 | (slot as u64 & 0xff_ffff)
    }

    /// A request is done and its waiter sleeps.
    #[must_use]
    pub const fn request_event(index: u32) -> u64 {
        EVENT_REQUEST << EVENT_SHIFT | index as u64
    }

    /// The module's service thread must run a service.
    #[must_use]
    pub const fn service_event(index: u32) -> u64 {
        EVENT_SERVICE << EVENT_SHIFT | index as u64
    }

    /// The LWK panicked.
    #[must_use]
    pub const fn panic_event() -> u64 {
        EVENT_PANIC << EVENT_SHIFT
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use hanare_abi::boot::{RING_LAP32, RING_LAP64};
    use std::boxed::Box;
    use std::mem::MaybeUninit;

    #[test]
    fn each_ring_is_posted_taken_and_rung_for() {
        let zeroed = Box::new(MaybeUninit::<CpuShared>::zeroed());
        // SAFETY: a mailbox of zeros is a mailbox.
        let mut memory: Box<CpuShared> = unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) };
        memory.doorbell = 5;
        // SAFETY: the memory outlives it, and nothing else touches it meanwhile.
        let cpu = unsafe { CpuRef::from_raw(&raw mut *memory) };
        let (inbound, outbound) = (cpu.inbound(), cpu.outbound());
        inbound.set_polling();
        assert_eq!(inbound.post(3), Ok(false));
        assert!(!inbound.prepare_halt());
        assert_eq!(inbound.pop(), Some(3));
        assert!(inbound.prepare_halt());
        assert_eq!(inbound.post(4), Ok(true));
        for index in 0..RING_ENTRIES as u32 - 1 {
            assert_eq!(inbound.post(index), Ok(true));
        }
        assert_eq!(inbound.post(0), Err(Full));
        let event = Outbound::slot_event(2, 9);
        assert_eq!((outbound.push(event), cpu.doorbell()), (Ok(()), 5));
        assert_eq!(outbound.pop(), Some(1 << 56 | 2 << 24 | 9));
        assert!(!cpu.bells().any());
        for bell in [1023, 64, 0, 64] {
            cpu.bells().ring(bell);
        }
        let mut rang = std::vec::Vec::new();
        cpu.bells().take(|bell| rang.push(bell));
        assert_eq!((rang.as_slice(), cpu.bells().any()), (&[0, 64, 1023][..], false));
        assert_eq!((memory.bells_rung, memory.bells), (0, [0; BELL_WORDS]));
        cpu.set_state(3);
        for vector in [0x20, 0xe0, 0xfc] {
            cpu.count_interrupt(vector);
        }
        cpu.count_exception(14);
        cpu.count_delegated_call();
        assert_eq!(cpu.counters(), [3, 1, 0, 0, 1]);
        assert_eq!((memory.interrupts_by[0], memory.interrupts_by[0x1c]), (2, 1));
        assert_eq!(memory.exceptions_by[14], 1);
        assert_eq!((memory.state, memory.outbound_tail), (3, 1));
        assert_eq!(memory.entries[1].inbound, 4 | RING_LAP32);
        assert_eq!(memory.entries[0].outbound, event | RING_LAP64);
    }
}
