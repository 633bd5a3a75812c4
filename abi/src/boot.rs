//! Boot parameters, which the module hands to the LWK, and the per-CPU shared areas.
//!
//! The first [`BootParams::shared_size`] bytes of the first memory chunk are
//! the *shared region*: `BootParams` at offset 0, everything else at offsets
//! that it names. Proxies never see this region (only the clock page is mapped
//! to applications, read-only).

use crate::frame::PhysFrame;
use crate::grant::{GRANTS_MAX, GrantUses};
use core::ops::Range;

/// Found at the very start of the image's first `PT_LOAD` segment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ImageHeader {
    /// [`crate::MAGIC`].
    pub magic: u64,
    /// [`crate::VERSION`] the image was built with.
    pub version: u32,
    /// Bytes of this structure.
    pub header_size: u32,
    /// Offset of the trampoline code from the start of the image.
    pub trampoline_offset: u32,
    /// Bytes of the trampoline, at most one page.
    pub trampoline_size: u32,
    /// Offset of [`TrampolineArgs`] inside the trampoline.
    pub args_offset: u32,
    /// Zero.
    pub reserved: u32,
}

/// Filled in by the module in the low page, after copying the trampoline there
/// and before each SIPI. The trampoline runs at any page below 1 MiB.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TrampolineArgs {
    /// Physical address of the boot page table, below 4 GiB. It maps the first
    /// 2 MiB 1:1, the image at its link address, and every chunk at
    /// [`crate::layout::DIRECT_BASE`], all with 2 MiB pages, writable and executable.
    pub cr3: u64,
    /// Virtual address to jump to in 64-bit mode with interrupts off, `rdi` =
    /// `params`, `rsi` = `cpu`; there is no stack yet.
    pub entry: u64,
    /// Virtual (direct-map) address of [`BootParams`].
    pub params: u64,
    /// Index of this CPU in the instance, 0 first.
    pub cpu: u64,
}

/// A run of physical memory owned by the LWK. Multiple of 2 MiB, aligned to it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryChunk {
    /// Physical address of the first byte.
    pub base: PhysFrame,
    /// Length in bytes.
    pub size: u64,
    /// NUMA node.
    pub node: u32,
    /// Zero.
    pub reserved: u32,
}

impl MemoryChunk {
    /// Physical addresses of its bytes.
    #[must_use]
    pub const fn addresses(&self) -> Range<u64> {
        self.base.address()..self.base.address() + self.size
    }
}

/// The boot parameter block. Offsets are bytes from the start of the shared
/// region, which is where this structure lies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BootParams {
    /// [`crate::MAGIC`].
    pub magic: u64,
    /// [`crate::VERSION`] of the module.
    pub version: u32,
    /// Bytes of this structure.
    pub params_size: u32,
    /// Physical address of the shared region, and its bytes (multiple of 2 MiB).
    pub shared_base: u64,
    /// Bytes of the shared region.
    pub shared_size: u64,
    /// Physical address where the image was loaded (2 MiB aligned).
    pub image_base: u64,
    /// Bytes from `image_base` that the image uses, incl. bss.
    pub image_size: u64,
    /// Number of [`MemoryChunk`]s at `chunks_offset`.
    pub chunk_count: u32,
    /// Array of [`MemoryChunk`], sorted by address, neighbours merged.
    pub chunks_offset: u32,
    /// Number of CPUs of the instance.
    pub cpu_count: u32,
    /// Array of [`CpuShared`], one per CPU, page aligned.
    pub cpus_offset: u32,
    /// Number of [`crate::request::Request`]s at `requests_offset`.
    pub request_count: u32,
    /// Array of [`crate::request::Request`].
    pub requests_offset: u32,
    /// Number of [`crate::service::Service`]s at `services_offset`.
    pub service_count: u32,
    /// Array of [`crate::service::Service`], `service_count / cpu_count` per CPU.
    pub services_offset: u32,
    /// [`crate::log::LogRing`], page aligned.
    pub log_offset: u32,
    /// Bytes of the log's text area (power of two).
    pub log_size: u32,
    /// [`crate::clock::ClockPage`], page aligned, alone on its page.
    pub clock_offset: u32,
    /// Number of bells at `bells_offset`.
    pub bell_count: u32,
    /// Array of [`Bell`].
    pub bells_offset: u32,
    /// Number of [`DoorbellShared`]s at `doorbells_offset`.
    pub doorbell_count: u32,
    /// Array of [`DoorbellShared`].
    pub doorbells_offset: u32,
    /// Array of [`crate::offer::Offer`], as many as `OFFERS`.
    pub offers_offset: u32,
    /// Calibrated TSC frequency in kHz, as Linux has it.
    pub tsc_khz: u32,
    /// Leaks that Linux found this machine's CPUs to have, `LEAK_*`; written by the module.
    pub leaks: u32,
    /// Set to 1 by the LWK when it panicked; see `panic_text` in the log.
    pub panicked: u32,
    /// Linux' `nr_cpu_ids` and `nr_node_ids`: numbers of its CPUs and nodes are below.
    pub linux_cpu_ids: u32,
    /// Linux' `nr_node_ids`: numbers of its nodes are below.
    pub linux_node_ids: u32,
    /// Bytes of Linux' `cpumask_t`, a multiple of 8: what `sched_getaffinity` gives.
    pub linux_cpumask_size: u32,
    /// Measures of the LWK against these leaks, `MEASURE_*`; written by the LWK before its first
    /// CPU is online.
    pub measures: u32,
    /// Linux' `MPOL_MAX`: modes of its NUMA policies are below.
    pub linux_policy_modes: u32,
    /// How delegated calls reach the side that executes them, where a program does not say
    /// otherwise, `DISPATCH_*`; written by the LWK before its first CPU is online.
    pub dispatch: u32,
    /// Most servers of a process' box [`BOX_OTHER`](crate::requestbox::BOX_OTHER). Written as
    /// `dispatch`.
    pub servers: u32,
    /// Bit `n`: calls of the kind with the number `n` have a box of their own. Written as
    /// `dispatch`.
    pub boxes: u32,
    /// Linux' tick, ns: what coarse clocks go by.
    pub tick_ns: u32,
    /// Number of the transport, [`TRANSPORT_LOCAL`]; written by the module.
    pub transport: u32,
    /// Flags of the transport, from [`TRANSPORT_LINUX_FRAMES`] on; written by the module.
    pub transport_flags: u32,
    /// Number of [`crate::grant::Grant`]s at `grants_offset`.
    pub grant_count: u32,
    /// Array of [`crate::grant::Grant`].
    pub grants_offset: u32,
    /// Number of pieces ([`crate::grant::DMA_PIECE`]) of all memory chunks.
    pub dma_pieces: u32,
    /// Address for DMA of each piece, in the order of the chunks, for one grant behind the other.
    pub dma_offset: u32,
    /// Processes whose first thread has ended, or is about to, while others may go on; written
    /// by the LWK.
    pub firsts_ended: u64,
    /// Page attribute table (IA32_PAT) of Linux' CPUs, for those of the LWK; 0: nobody knows.
    pub pat: u64,
    /// Zero-terminated instance name.
    pub name: [u8; 32],
    /// Zero-terminated boot options, e.g. `spin_us=50 log=debug`.
    pub cmdline: [u8; 256],
    /// Zero-terminated `uname -r`, `-v` etc. are asked of Linux, not kept here;
    /// this is the first line of Linux' boot banner, for the log only.
    pub banner: [u8; 128],
}

/// [`BootParams::transport`]: CPUs and memory that Linux had before.
pub const TRANSPORT_LOCAL: u32 = 0;

/// Flags of a transport, the way between Linux and an instance's machine (`module/transport`).
/// Pages of Linux' are within the LWK's reach, by [`crate::service::SERVICE_RESOLVE`].
pub const TRANSPORT_LINUX_FRAMES: u32 = 1 << 0;
/// Locked operations on a word are atomic, whichever side does them.
pub const TRANSPORT_ATOMICS: u32 = 1 << 1;
/// Both sides have one TSC.
pub const TRANSPORT_ONE_TSC: u32 = 1 << 2;
/// A program's code runs on either side: CPUs of Linux' and of the LWK's can do the same.
pub const TRANSPORT_SAME_ISA: u32 = 1 << 3;
/// Reading what the LWK has offered ([`crate::offer`]) costs Linux less than asking.
pub const TRANSPORT_OFFERS: u32 = 1 << 4;
/// Linux reaches all memory of the instance; without, only the shared region.
pub const TRANSPORT_REACH_ALL: u32 = 1 << 5;

/// Each thread's own worker executes its calls.
pub const DISPATCH_DIRECT: u32 = 0;
/// Servers do, which look into the process' request box ([`crate::requestbox`]).
pub const DISPATCH_BOX: u32 = 1;
/// Each thread's own worker as long as a process has no more threads than servers, else servers.
pub const DISPATCH_AUTO: u32 = 2;

/// Leaks of the CPU, as Linux names them (its `X86_BUG_*`; Documentation/admin-guide/hw-vuln).
pub const LEAK_MELTDOWN: u32 = 1 << 0;
/// Bounds checks passed speculatively.
pub const LEAK_SPECTRE_V1: u32 = 1 << 1;
/// Branch predictors trained by others.
pub const LEAK_SPECTRE_V2: u32 = 1 << 2;
/// `swapgs` passed over speculatively (CVE-2019-1125).
pub const LEAK_SWAPGS: u32 = 1 << 3;
/// Buffers of the CPU that `verw` clears: MDS, TAA, MMIO stale data, RFDS, TSA.
pub const LEAK_MDS: u32 = 1 << 4;
/// Buffers leak by TAA (TSX asynchronous abort); `verw` clears them.
pub const LEAK_TAA: u32 = 1 << 5;
/// Buffers leak as MMIO stale data; `verw` clears them.
pub const LEAK_MMIO: u32 = 1 << 6;
/// Registers leak by RFDS (register file data sampling); `verw` clears them.
pub const LEAK_RFDS: u32 = 1 << 7;
/// Data leak by TSA (transient scheduler attacks); `verw` clears the buffers.
pub const LEAK_TSA: u32 = 1 << 8;
/// Branch history of user mode chooses among the predictions of the kernel's indirect branches
/// (BHI).
pub const LEAK_BHI: u32 = 1 << 9;

/// User mode has page tables of its own.
pub const MEASURE_ISOLATION: u32 = 1 << 0;
/// `verw` before user mode.
pub const MEASURE_CLEAR_BUFFERS: u32 = 1 << 1;
/// Barriers behind `swapgs`.
pub const MEASURE_FENCE_SWAPGS: u32 = 1 << 2;
/// The CPU says that `verw` clears its buffers.
pub const MEASURE_HAS_MICROCODE: u32 = 1 << 3;
/// Enhanced IBRS: the kernel's branches are not predicted by what user mode did.
pub const MEASURE_IBRS: u32 = 1 << 4;
/// Like [`MEASURE_IBRS`], automatic (AMD).
pub const MEASURE_AUTO_IBRS: u32 = 1 << 5;
/// Predictions are forgotten where the CPU goes over to another address space.
pub const MEASURE_IBPB: u32 = 1 << 6;
/// Predictions are not shared with the sibling thread.
pub const MEASURE_STIBP: u32 = 1 << 7;
/// The predictor of returns is filled at each switch of threads.
pub const MEASURE_FILL_RSB: u32 = 1 << 8;
/// Like [`MEASURE_IBRS`], where the CPU has only the first form: turned on at each entry, off at
/// each exit.
pub const MEASURE_ENTRY_IBRS: u32 = 1 << 9;
/// The CPU keeps branch history of user mode from the kernel's predictions (BHI_DIS_S).
pub const MEASURE_BHI_DIS: u32 = 1 << 10;
/// Branch history is overwritten at each system call.
pub const MEASURE_CLEAR_HISTORY: u32 = 1 << 11;

/// The CPU has not been started.
pub const CPU_OFF: u32 = 0;
/// The module sent the SIPI.
pub const CPU_STARTING: u32 = 1;
/// The CPU has left the trampoline page (which may be restored) and is in the LWK.
pub const CPU_ENTERED: u32 = 2;
/// The CPU serves requests.
pub const CPU_ONLINE: u32 = 3;
/// The CPU has stopped for good: interrupts off, APIC soft-disabled, halted.
pub const CPU_PARKED: u32 = 4;

/// Entries of each of a CPU's two rings: [`CpuShared::entries`].
pub const RING_ENTRIES: usize = 256;
/// Bit of an inbound entry that says that it is new: set where entry `n` (free running) is written
/// with `n / RING_ENTRIES` even, clear where it is odd.
pub const RING_LAP32: u32 = 1 << 31;
/// Lap bit of an outbound entry.
pub const RING_LAP64: u64 = 1 << 63;
/// An instance has a bell for each so many bytes of its memory: half of what a thread has as its
/// kernel stack. Each slot has a bell of its own.
pub const BELL_BYTES: u64 = 16 << 10;
/// Most bells of an instance.
pub const BELLS_MAX: u32 = 262_144;
/// The bell of a slot, which no proxy can write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bell {
    /// Space, CPU and rings that are left: [`BELL_SPACE_SHIFT`] and what follows.
    pub word: u64,
    /// Space, process and thread of the slot's worker: [`BELL_WORKER_SPACE_SHIFT`] and what
    /// follows. Written by the module ([`crate::ioctl::IOCTL_WORKER`]), which may be late: the
    /// bell may be another space's by then. The LWK writes 0 before it asks for another worker.
    pub worker: u64,
}

/// A bell's word, from this bit on: the space whose workers may ring it, and say which of them
/// serves the slot; 0 or [`BELL_FREE`]: none may.
pub const BELL_SPACE_SHIFT: u32 = 32;
/// Bit of that part which no space's id has: the bell is no slot's.
pub const BELL_FREE: u32 = 1 << 31;
/// A bell's worker, from this bit on: the space that has said it.
pub const BELL_WORKER_SPACE_SHIFT: u32 = 48;
/// A bell's worker, from this bit on, below the space: the process, by the slot of its first
/// thread. Below: the thread's id, as the worker itself sees it; 0: none.
pub const BELL_WORKER_PROCESS_SHIFT: u32 = 24;
/// A bell's word, from this bit on, below the space: the CPU that it rings (index in the instance).
pub const BELL_CPU_SHIFT: u32 = 16;
/// A bell's word, lowest bits: how often it may still be rung. The LWK counts up when the thread
/// goes to sleep, up to this; the module counts down. So many may still come at a time: a late one
/// from the worker and from each server, for calls that are over, and the one for the call that the
/// thread is in.
pub const BELL_RINGS_MAX: u64 = 2 + crate::requestbox::SERVERS_MAX as u64;
/// Bits of a CPU's mailbox that say which of its threads to look at: bit `b % BELL_BITS` for
/// bell `b`. Threads may share one.
pub const BELL_BITS: u32 = 1024;
/// Words of [`CpuShared::bells`].
pub const BELL_WORDS: usize = BELL_BITS as usize / 64;

/// The lowest vector with an entry of its own in [`CpuShared::interrupts_by`]: that of Linux'
/// doorbell, below those of the LWK and of Linux' own inter-processor interrupts.
pub const VECTOR_FIRST: u32 = 0xe0;
/// Entries of [`CpuShared::interrupts_by`].
pub const VECTORS: usize = 32;
/// Entries of [`CpuShared::exceptions_by`].
pub const EXCEPTIONS: usize = 32;
/// The vector of the LWK's timer.
pub const TIMER_VECTOR: u32 = 0xf8;
/// The vector on which CPUs of the LWK ring each other.
pub const PEER_VECTOR: u32 = 0xf9;

/// Most doorbells of an instance.
pub const DOORBELLS_MAX: u32 = 64;
/// Words of [`DoorbellShared::rang`].
pub const RANG_CPUS: usize = 256;

/// A doorbell: an interrupt of Linux' for an instance, at one CPU of Linux' until the interrupt is
/// moved, and how often each CPU of the LWK rang it. Any CPU may ring any of them. A line that is
/// read for each ring, and one that changes with it.
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug)]
pub struct DoorbellShared {
    /// Written by the module: where to ring: APIC id << 32 | vector; zero: not now. The LWK
    /// reads it anew for every ring.
    pub target: u64,
    /// Zero, up to 64 bytes.
    pub reserved0: [u64; 7],
    /// Word `i`, written by CPU `i` of the instance only: how often it has rung this doorbell
    /// (free running). It counts up when it has put an event into its outbound ring, and before
    /// it rings. The module, which remembers what it saw, looks before it reads that ring.
    pub rang: [u32; RANG_CPUS],
    /// Zero, up to 1152 bytes.
    pub reserved1: [u64; 8],
}

/// An entry of each of a CPU's two rings. They share a cache line, so that a message and the one
/// that answers it, in the same place of the other ring, move one line there and back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RingEntries {
    /// An `EVENT_*` word for Linux, with [`RING_LAP64`]. Written by the LWK.
    pub outbound: u64,
    /// Index of a [`crate::request::Request`] for this CPU, with [`RING_LAP32`]. Written by the
    /// module.
    pub inbound: u32,
    /// Zero.
    pub reserved: u32,
}

/// One LWK CPU's mailbox. 8192 bytes.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct CpuShared {
    /// Written by the module: physical APIC id, and Linux' number of the CPU.
    pub apic_id: u32,
    /// Linux' number of the CPU.
    pub linux_cpu: u32,
    /// NUMA node of the CPU.
    pub node: u32,
    /// `CPU_*`; written by the module up to `CPU_STARTING`, then by the LWK.
    pub state: u32,
    /// Written by the module: the doorbell that this CPU rings unless a nearer one was named.
    pub doorbell: u32,
    /// Written by the module: the vector on which Linux rings this CPU.
    pub ipi_vector: u32,
    /// Zero, up to 64 bytes.
    pub reserved1: [u64; 5],

    /// `WAIT_*`; written by the LWK: whether it needs an IPI to notice a new request (halted, or
    /// in user mode). The module stores an inbound entry, issues a full fence, then reads this.
    pub lwk_wait: u32,
    /// Space id running or 0; written by the LWK, for `hanare ls`.
    pub current_space: u32,
    /// Counts every pass through the idle loop and every request served.
    pub heartbeat: u64,
    /// Interrupts this CPU took since boot (all vectors), written by the LWK.
    pub interrupts: u64,
    /// Exceptions since boot (page faults included).
    pub exceptions: u64,
    /// Page faults since boot.
    pub page_faults: u64,
    /// System calls served locally / delegated since boot.
    pub local_calls: u64,
    /// Calls that Linux served.
    pub delegated_calls: u64,
    /// 1: a thread waits for its turn there, for whose sake the timer interrupts the running
    /// thread. Written by the LWK.
    pub crowded: u32,
    /// Zero, up to 128 bytes.
    pub reserved2: u32,

    /// Next entry that is written (free running). The module has its own, which the LWK cannot
    /// forge; this one is for tests of the ring.
    pub inbound_tail: u32,
    /// `inbound_head`, as it was read last; for tests of the ring, too.
    pub inbound_seen: u32,
    /// Zero, up to 192 bytes.
    pub reserved3: [u32; 14],
    /// Next entry the LWK reads (free running). Written by the LWK. The module reads this line
    /// only when a ring looks full, or a reader asks how busy the CPU is.
    pub inbound_head: u32,
    /// Next entry the LWK writes (free running). Written by the LWK.
    pub outbound_tail: u32,
    /// `outbound_head`, as the LWK has read it last. Written by the LWK.
    pub outbound_seen: u32,
    /// Zero.
    pub reserved4: u32,
    /// TSC cycles this CPU halted without anything to run, up to the last time.
    /// Written by the LWK.
    pub idle_cycles: u64,
    /// TSC value since when it has halted, or 0. Written by the LWK.
    pub idle_since: u64,
    /// Calls that servers have executed. Written by the LWK.
    pub boxed_calls: u64,
    /// Calls that were taken out of a request box again, for their own workers. Written by the
    /// LWK.
    pub unboxed_calls: u64,
    /// Servers that were started. Written by the LWK.
    pub servers_made: u64,
    /// Zero, up to 256 bytes.
    pub reserved5: u64,
    /// Next entry the module reads (free running). Written by the module.
    pub outbound_head: u32,
    /// Zero, up to 384 bytes.
    pub reserved6: [u32; 31],
    /// Both rings.
    pub entries: [RingEntries; RING_ENTRIES],
    /// Bit `i`: a bit of `bells[i]` was set. Set by the module after that one, taken by
    /// the LWK before those.
    pub bells_rung: u64,
    /// Zero, up to 4544 bytes.
    pub reserved7: [u64; 7],
    /// Bit `b % 64` of word `b / 64`: a bell `n` with `n % BELL_BITS == b` was rung
    /// (`IOCTL_RING`). Set by the module, taken by the LWK.
    pub bells: [u64; BELL_WORDS],
    /// Interrupts since boot by vector: entry `i` has those of vector `VECTOR_FIRST + i`, the
    /// first one those of lower vectors, too. Written by the LWK.
    pub interrupts_by: [u32; VECTORS],
    /// Exceptions since boot by vector. Written by the LWK.
    pub exceptions_by: [u32; EXCEPTIONS],
    /// 1: arguments of calls are copied where nothing else is said. Written by the LWK, as what
    /// follows.
    pub copies: u32,
    /// Zero.
    pub reserved9: u32,
    /// Calls whose arguments were copied.
    pub copied_calls: u64,
    /// Bytes that were copied for them from programs and to programs.
    pub copied_in: u64,
    /// Bytes of messages that came back.
    pub copied_out: u64,
    /// Calls whose arguments were to be copied and were mapped, by reason (`MAPPED_*`).
    pub mapped_by: [u32; crate::copied::MAPPED_REASONS],
    /// Such calls by the number of the call.
    pub mapped_calls: [u32; crate::copied::MAPPED_CALLS],
    /// Calls of native tasks that pooled proxies have executed. Written by the LWK, as what
    /// follows.
    pub packed_calls: u64,
    /// Pooled proxies that have come.
    pub members_made: u64,
    /// Uses of each granted device.
    pub uses: [GrantUses; GRANTS_MAX],
    /// Zero, up to 8192 bytes.
    pub reserved8: [u64; 138],
}

const _: () = assert!(size_of::<CpuShared>() == 8192 && size_of::<DoorbellShared>() == 1152);

/// Bit where the kind of an outbound event starts; the payload is below.
pub const EVENT_SHIFT: u32 = 56;
/// Wake the worker of a slot: payload = space << 24 | slot.
pub const EVENT_SLOT: u64 = 1;
/// A request is done and its waiter said that it sleeps: payload = index.
pub const EVENT_REQUEST: u64 = 2;
/// The module's service thread must run a service: payload = index.
pub const EVENT_SERVICE: u64 = 3;
/// The LWK panicked; `BootParams::panicked` is set and the log ends with why.
pub const EVENT_PANIC: u64 = 4;
/// There is something for an observer: payload = its session.
pub const EVENT_OBSERVE: u64 = 5;
/// Memory was found bad: payload = page frame number, the instance's or Linux'.
pub const EVENT_BAD_MEMORY: u64 = 6;
/// Signal the eventfd of a slot, if it has one (`IOCTL_EVENTFD`): payload = space << 24 | slot.
pub const EVENT_EVENTFD: u64 = 7;
