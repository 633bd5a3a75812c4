/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Written by `cargo xtask abi` from the abi crate. Do not edit. */
#ifndef HANARE_ABI_H
#define HANARE_ABI_H

#include <linux/types.h>

/* ---- lib ---- */

/*
 * Every structure, constant and ioctl that crosses a boundary of Hanare.
 *
 * Linux (the module `hanare.ko`, the proxy process, the `hanare` command) and
 * the LWK share memory and messages; each of them is described here, once.
 * `cargo xtask abi` writes `module/hanare_abi.h` from this crate, with size
 * and offset assertions computed in Rust and checked by the C compiler.
 *
 * Rules: constants are `u32`/`u64`, padding is explicit, references are
 * indices, offsets from the shared region, or physical addresses that the
 * receiver validates; never a pointer of the other side. Words that both
 * sides write are documented with the side that writes them; the `ikc` crate
 * is the only place that accesses them as atomics.
 */
/* First word of every structure that is handed over: "HANARE" and two zeros. */
#define HANARE_MAGIC 0x4552414e4148ULL
/*
 * Version of everything in this crate: a hash over its sources, so that what was built from others
 * is never taken for the same. The module refuses an image of another version and names both; so
 * do the proxy and the command.
 */
#define HANARE_VERSION 0x56cb80ebU
/* Bytes of a base page. */
#define HANARE_PAGE_SIZE 4096ULL
/* Bytes of a large page, and the granule in which memory is reserved. */
#define HANARE_LARGE_PAGE_SIZE 0x200000ULL

/* ---- layout ---- */

/*
 * The virtual address ranges all sides agree on.
 *
 * ```text
 * 0x0000_0000_0001_0000  USER_MIN      the application: same addresses in the
 * 0x0000_7d00_0000_0000  USER_MAX      LWK's page table and in the proxy
 * 0x0000_7d00_2010_0000  CONTROL_BASE  scratch pages, slots, start block, request
 * 0x0000_7d00_4310_1000  CONTROL_END   box: proxy and LWK only
 * 0x0000_7d80_0000_0000  MESSAGES_BASE messages of calls whose arguments are copied:
 * 0x0000_7dfd_0000_0000  MESSAGES_END  mapped by the proxy at the first such call
 * 0x0000_7e00_0000_0000  PROXY_BASE    the proxy's own image, heap, mmap area
 * 0xffff_8000_0000_0000  DIRECT_BASE   LWK: its physical memory, at +paddr
 * 0xffff_c000_0000_0000  STACKS_BASE   LWK: its memory as kernel stacks: each 32 KiB
 * at +2 * paddr, behind 32 KiB of nothing
 * 0xffff_fe80_0000_0000  CPU_STACKS_BASE  LWK: stacks of its CPUs, and nothing between
 * 0xffff_ffff_8000_0000  KERNEL_BASE   LWK: its image
 * ```
 *
 * The proxy maps `part`s of `USER_MIN..USER_MAX` and the control window as VMAs of `/dev/hanare`
 * whose file offset is `space << SPACE_SHIFT | address`.
 *
 * **Where the window lies** makes the end of a proxy short: Linux looks at each entry of each page
 * table below a VMA. What every proxy uses, the first slots and their scratch pages, has one table
 * in common. Little of the window lies in the same GiB. Between the two VMAs is so much room (more
 * than 2 MiB) that Linux does not look at their tables as those of one range.
 */
/* Lowest address an application can map (Linux' default `mmap_min_addr`). */
#define HANARE_USER_MIN 0x10000ULL
/* End (exclusive) of the application's addresses. */
#define HANARE_USER_MAX 0x7d0000000000ULL
/*
 * Parts of the application's addresses, from the lowest up, that a proxy maps each by itself:
 * Linux looks at each 512 GiB of a mapping when its process ends, whether something is there or
 * not.
 */
#define HANARE_PARTS 5U
/* All parts, a bit each, the lowest part's first. */
#define HANARE_PARTS_ALL 31U
/*
 * Parts in which programs, their heaps and their stacks mostly are: the lowest TiB, the one around
 * two thirds of all, and the highest.
 */
#define HANARE_PARTS_USUAL 21U
/* Start of the control window: memory shared by the proxy and the LWK. */
#define HANARE_CONTROL_BASE 0x7d0020100000ULL
/* End (exclusive) of the control window. */
#define HANARE_CONTROL_END 0x7d0043101000ULL
/* Bytes of the control window. */
#define HANARE_CONTROL_SIZE 0x23001000ULL
/*
 * One scratch page per slot, for arguments of calls that the LWK makes on its
 * own account (a path, a `struct stat`), the first one last: see `scratch`.
 */
#define HANARE_SCRATCH_BASE 0x7d0020100000ULL
/* End (exclusive) of the scratch pages. */
#define HANARE_SCRATCH_END 0x7d0040100000ULL
/* Slots: slot `i` lies at `SLOT_BASE + i * sizeof(Slot)`. */
#define HANARE_SLOT_BASE 0x7d0040100000ULL
/* Bytes reserved for slots. */
#define HANARE_SLOT_SIZE 0x2000000ULL
/* The start block (see `crate::start`), written by the proxy before START. */
#define HANARE_START_BASE 0x7d0042100000ULL
/* Most bytes a start block can have: header, arguments and environment. */
#define HANARE_START_SIZE 0x1000000ULL
/* The request box (see `crate::requestbox`); only processes that have one touch its page. */
#define HANARE_BOX_BASE 0x7d0043100000ULL
/* Bytes reserved for the request box. */
#define HANARE_BOX_SIZE 4096ULL
/* Most threads one process can have. */
#define HANARE_SLOTS_MAX 0x20000U
/*
 * Start of the messages of calls whose arguments are copied (`crate::message`): memory of the
 * LWK that the proxy maps when it is first asked to (`MESSAGES_PART`). The message of slot `i`
 * lies at `message` `(i)`.
 */
#define HANARE_MESSAGES_BASE 0x7d8000000000ULL
/* End (exclusive) of the messages. */
#define HANARE_MESSAGES_END 0x7dfd00000000ULL
/* Slots that can have a message, the lowest ones. */
#define HANARE_MESSAGES_MAX 4000U
/* From one message to the next. Behind each lies at least as much that is never mapped. */
#define HANARE_MESSAGE_STRIDE 0x8000000ULL
/* Most bytes of a message: 64 MiB of data, and what belongs to it. */
#define HANARE_MESSAGE_MAX 0x4200000ULL
/* In place of the number of a `part`: the messages. */
#define HANARE_MESSAGES_PART 16U
/* Where the proxy's image is linked. */
#define HANARE_PROXY_BASE 0x7e0000000000ULL
/* Bit of the device's file offset where the space id starts. */
#define HANARE_SPACE_SHIFT 47U
/* Most spaces (processes) at once, over all instances; ids are 1..SPACES_MAX. */
#define HANARE_SPACES_MAX 0x10000U
/* LWK: start of the direct map of its memory. */
#define HANARE_DIRECT_BASE 0xffff800000000000ULL
/*
 * LWK: start of the map of its memory in which each block has a guard of unmapped addresses below.
 */
#define HANARE_STACKS_BASE 0xffffc00000000000ULL
/* LWK: start of the stacks of its CPUs. */
#define HANARE_CPU_STACKS_BASE 0xfffffe8000000000ULL
/* LWK: where its image is linked. */
#define HANARE_KERNEL_BASE 0xffffffff80000000ULL

/* ---- copied ---- */

/* Calls whose arguments are copied, counted (`docs/delegation.md`, *Copied arguments*). */
/* Why arguments are mapped that were to be copied: nothing describes them. */
#define HANARE_MAPPED_UNDESCRIBED 0U
/* Reason: the arguments are larger than a message can be. */
#define HANARE_MAPPED_TOO_LARGE 1U
/* There is no memory for the message, or no place. */
#define HANARE_MAPPED_NO_MEMORY 2U
/* Linux goes on with the memory after the call (`MSG_ZEROCOPY`). */
#define HANARE_MAPPED_KEPT 3U
/* A filter of system calls, which may look at where they lie, judges the call. */
#define HANARE_MAPPED_JUDGED 4U
/* Reason: more pieces than can be written back, or several that are there in part only. */
#define HANARE_MAPPED_PIECES 5U
/* The proxy has not taken the message. */
#define HANARE_MAPPED_NOT_TAKEN 6U
/* Another thread was changing the memory. */
#define HANARE_MAPPED_CHANGED 7U
/* Entries of `crate::boot::CpuShared::mapped_by`. */
#define HANARE_MAPPED_REASONS 8
/* Entries of `crate::boot::CpuShared::mapped_calls`; the last one also counts higher numbers. */
#define HANARE_MAPPED_CALLS 512

/*
 * Copied arguments of an instance, all CPUs together: `crate::boot::CpuShared` has the same of
 * each.
 */
struct hanare_copied_status {
	/* Out: 1: arguments of calls are copied where nothing else is said. */
	__u32 copies;
	/* Zero. */
	__u32 reserved;
	/* Out: calls whose arguments were copied. */
	__u64 calls;
	/* Out: bytes copied for them from programs. */
	__u64 bytes_in;
	/* Out: bytes copied to programs. */
	__u64 bytes_out;
	/* Out: calls whose arguments were mapped instead, by reason. */
	__u64 mapped_by[HANARE_MAPPED_REASONS];
	/*
	 * In: address of as many words of 64 bits as `MAPPED_CALLS`, or 0. They are those calls
	 * by number.
	 */
	__u64 mapped_calls;
};

/* ---- frame ---- */

/* Physical memory as both sides speak of it. */
/*
 * Bits of an extent word that hold the number of pages minus one. The bits up to
 * `EXTENT_CACHE_SHIFT` are the address of the first frame (4 KiB aligned).
 */
#define HANARE_EXTENT_PAGES_MASK 4095ULL
/* First of the three bits of an extent word that hold the cache policy, one of `CACHE_*`. */
#define HANARE_EXTENT_CACHE_SHIFT 52U
/* Cache policy of an extent: cached; ordinary memory. */
#define HANARE_CACHE_WRITE_BACK 0ULL
/* Not cached, with writes gathered: frame buffers. */
#define HANARE_CACHE_WRITE_COMBINING 1ULL
/* Not cached, unless a memory type range register says write-combining. */
#define HANARE_CACHE_UNCACHED_MINUS 2ULL
/* Not cached, in order: registers of devices. */
#define HANARE_CACHE_UNCACHED 3ULL
/* Cached for reading; writes go to memory at once. */
#define HANARE_CACHE_WRITE_THROUGH 4ULL
/*
 * Bit of an extent word: the frames are of a mapping that Linux keeps no `struct page` for
 * (`VM_PFNMAP`, `VM_IO`): memory of a device mostly. It says nothing of caching or trust.
 */
#define HANARE_EXTENT_DEVICE 0x80000000000000ULL
/* Bit of an extent word: a watch follows the frames, so `REQUEST_INVALIDATE` takes them back. */
#define HANARE_EXTENT_WATCHED 0x100000000000000ULL

/* ---- grant ---- */

/* Devices of Linux' of which drivers of the LWK have a part (`docs/drivers.md`). */
/* Most devices of an instance. */
#define HANARE_GRANTS_MAX 4
/* Most regions of registers of a device (BARs of a PCI function). */
#define HANARE_GRANT_REGIONS 6
/* Bytes of a driver's name, with a zero at the end. */
#define HANARE_GRANT_NAME_BYTES 16
/* Bytes of a region that the LWK maps at most, from its start on. */
#define HANARE_GRANT_REGION_MAX 0x1000000ULL
/* Memory that has one address for DMA behind the other, bytes. */
#define HANARE_DMA_PIECE 0x200000ULL
/* Linux' driver has the device. */
#define HANARE_GRANT_THERE 1U
/* Linux' driver has let go of it, or is about to. */
#define HANARE_GRANT_GONE 2U
/* Commands that a queue of a controller holds, and answers of it: a page of commands. */
#define HANARE_QUEUE_ENTRIES 64U

/* A device as `IOCTL_STATUS` shows it. */
struct hanare_grant_status {
	/* Zero-terminated name of the LWK's driver; empty: there is no device. */
	__u8 driver[HANARE_GRANT_NAME_BYTES];
	/* `GRANT_*`; 0: the LWK does not run. */
	__u32 state;
	/* Address of the function: PCI domain. */
	__u32 domain;
	/* PCI bus. */
	__u32 bus;
	/* Number on the bus: device << 3 | function. */
	__u32 function;
	/* Uses since boot. */
	__u64 uses;
};

/*
 * Pair of queues that the module has made on an NVMe controller for a CPU of the LWK's. Written by
 * the module.
 */
struct hanare_grant_queue {
	/*
	 * Counts the pairs: all commands of an earlier one are over, and the queues are empty. 0:
	 * there has been none.
	 */
	__u32 round;
	/*
	 * Number by which the controller knows the pair; 0: there is none now. Written before `round`.
	 */
	__u32 id;
};

/* Queues of a controller. */
struct hanare_grant_queues {
	/*
	 * Place in the shared region of a `GrantQueue` for each CPU; 0: the device has no queues.
	 */
	__u32 offset;
	/* Place there of two pages for each CPU: commands, and answers. */
	__u32 pages_offset;
	/* Bytes from one doorbell to the next in its registers. */
	__u32 doorbell_stride;
	/* Most bytes of a command; 0: as many as one can say. */
	__u32 transfer_max;
};

/* Registers of a device. */
struct hanare_grant_region {
	/* Physical address of the first byte, page aligned. */
	__u64 base;
	/* Length in bytes; 0: there are none. */
	__u64 size;
};

/* Uses of a device on a CPU (free running), written by that CPU. */
struct hanare_grant_uses {
	/* Uses that have begun there. */
	__u32 begun;
	/* Uses that have ended there. */
	__u32 ended;
};

/* A device. Written by the module. */
struct hanare_grant {
	/* `GRANT_*`: the only word that changes while the LWK runs. */
	__u32 state;
	/* 1: a block device. */
	__u32 is_block;
	/* Device number, as `st_rdev` has it. */
	__u64 device;
	/* Zero-terminated name of the LWK's driver. */
	__u8 driver[HANARE_GRANT_NAME_BYTES];
	/* Registers of the device. */
	struct hanare_grant_region regions[HANARE_GRANT_REGIONS];
	/* Queues that the module has made on it. */
	struct hanare_grant_queues queues;
};

/* ---- cpus ---- */

/*
 * Sets of CPUs: those of an instance by index, and those of Linux by number. The two types are not
 * mixed. In both, bit `n % 64` of word `n / 64` stands for CPU `n`.
 */
/* CPUs that a `CpuSet` can name. */
#define HANARE_CPU_SET_CPUS 1024
/* Words of a `CpuSet`. */
#define HANARE_CPU_SET_WORDS 16
/* CPUs that a `LinuxCpuSet` can name. */
#define HANARE_LINUX_CPU_SET_CPUS 4096
/* Words of a `LinuxCpuSet`. */
#define HANARE_LINUX_CPU_SET_WORDS 64

/* CPUs of an instance, by index. The full set also stands for CPUs that the instance gets later. */
struct hanare_cpu_set {
	/* The bits. */
	__u64 words[HANARE_CPU_SET_WORDS];
};

/* CPUs of Linux, by number. */
struct hanare_linux_cpu_set {
	/* The bits. */
	__u64 words[HANARE_LINUX_CPU_SET_WORDS];
};

/* ---- boot ---- */

/*
 * Boot parameters, which the module hands to the LWK, and the per-CPU shared areas.
 *
 * The first `BootParams::shared_size` bytes of the first memory chunk are
 * the *shared region*: `BootParams` at offset 0, everything else at offsets
 * that it names. Proxies never see this region (only the clock page is mapped
 * to applications, read-only).
 */
/* `BootParams::transport`: CPUs and memory that Linux had before. */
#define HANARE_TRANSPORT_LOCAL 0U
/*
 * Flags of a transport, the way between Linux and an instance's machine (`module/transport`).
 * Pages of Linux' are within the LWK's reach, by `crate::service::SERVICE_RESOLVE`.
 */
#define HANARE_TRANSPORT_LINUX_FRAMES 1U
/* Locked operations on a word are atomic, whichever side does them. */
#define HANARE_TRANSPORT_ATOMICS 2U
/* Both sides have one TSC. */
#define HANARE_TRANSPORT_ONE_TSC 4U
/* A program's code runs on either side: CPUs of Linux' and of the LWK's can do the same. */
#define HANARE_TRANSPORT_SAME_ISA 8U
/* Reading what the LWK has offered (`crate::offer`) costs Linux less than asking. */
#define HANARE_TRANSPORT_OFFERS 16U
/* Linux reaches all memory of the instance; without, only the shared region. */
#define HANARE_TRANSPORT_REACH_ALL 32U
/* Each thread's own worker executes its calls. */
#define HANARE_DISPATCH_DIRECT 0U
/* Servers do, which look into the process' request box (`crate::requestbox`). */
#define HANARE_DISPATCH_BOX 1U
/* Each thread's own worker as long as a process has no more threads than servers, else servers. */
#define HANARE_DISPATCH_AUTO 2U
/* Leaks of the CPU, as Linux names them (its `X86_BUG_*`; Documentation/admin-guide/hw-vuln). */
#define HANARE_LEAK_MELTDOWN 1U
/* Bounds checks passed speculatively. */
#define HANARE_LEAK_SPECTRE_V1 2U
/* Branch predictors trained by others. */
#define HANARE_LEAK_SPECTRE_V2 4U
/* `swapgs` passed over speculatively (CVE-2019-1125). */
#define HANARE_LEAK_SWAPGS 8U
/* Buffers of the CPU that `verw` clears: MDS, TAA, MMIO stale data, RFDS, TSA. */
#define HANARE_LEAK_MDS 16U
/* Buffers leak by TAA (TSX asynchronous abort); `verw` clears them. */
#define HANARE_LEAK_TAA 32U
/* Buffers leak as MMIO stale data; `verw` clears them. */
#define HANARE_LEAK_MMIO 64U
/* Registers leak by RFDS (register file data sampling); `verw` clears them. */
#define HANARE_LEAK_RFDS 128U
/* Data leak by TSA (transient scheduler attacks); `verw` clears the buffers. */
#define HANARE_LEAK_TSA 256U
/*
 * Branch history of user mode chooses among the predictions of the kernel's indirect branches
 * (BHI).
 */
#define HANARE_LEAK_BHI 512U
/* User mode has page tables of its own. */
#define HANARE_MEASURE_ISOLATION 1U
/* `verw` before user mode. */
#define HANARE_MEASURE_CLEAR_BUFFERS 2U
/* Barriers behind `swapgs`. */
#define HANARE_MEASURE_FENCE_SWAPGS 4U
/* The CPU says that `verw` clears its buffers. */
#define HANARE_MEASURE_HAS_MICROCODE 8U
/* Enhanced IBRS: the kernel's branches are not predicted by what user mode did. */
#define HANARE_MEASURE_IBRS 16U
/* Like `MEASURE_IBRS`, automatic (AMD). */
#define HANARE_MEASURE_AUTO_IBRS 32U
/* Predictions are forgotten where the CPU goes over to another address space. */
#define HANARE_MEASURE_IBPB 64U
/* Predictions are not shared with the sibling thread. */
#define HANARE_MEASURE_STIBP 128U
/* The predictor of returns is filled at each switch of threads. */
#define HANARE_MEASURE_FILL_RSB 256U
/*
 * Like `MEASURE_IBRS`, where the CPU has only the first form: turned on at each entry, off at
 * each exit.
 */
#define HANARE_MEASURE_ENTRY_IBRS 512U
/* The CPU keeps branch history of user mode from the kernel's predictions (BHI_DIS_S). */
#define HANARE_MEASURE_BHI_DIS 1024U
/* Branch history is overwritten at each system call. */
#define HANARE_MEASURE_CLEAR_HISTORY 2048U
/* The CPU has not been started. */
#define HANARE_CPU_OFF 0U
/* The module sent the SIPI. */
#define HANARE_CPU_STARTING 1U
/* The CPU has left the trampoline page (which may be restored) and is in the LWK. */
#define HANARE_CPU_ENTERED 2U
/* The CPU serves requests. */
#define HANARE_CPU_ONLINE 3U
/* The CPU has stopped for good: interrupts off, APIC soft-disabled, halted. */
#define HANARE_CPU_PARKED 4U
/* Entries of each of a CPU's two rings: `CpuShared::entries`. */
#define HANARE_RING_ENTRIES 256
/*
 * Bit of an inbound entry that says that it is new: set where entry `n` (free running) is written
 * with `n / RING_ENTRIES` even, clear where it is odd.
 */
#define HANARE_RING_LAP32 0x80000000U
/* Lap bit of an outbound entry. */
#define HANARE_RING_LAP64 0x8000000000000000ULL
/*
 * An instance has a bell for each so many bytes of its memory: half of what a thread has as its
 * kernel stack. Each slot has a bell of its own.
 */
#define HANARE_BELL_BYTES 0x4000ULL
/* Most bells of an instance. */
#define HANARE_BELLS_MAX 0x40000U
/*
 * A bell's word, from this bit on: the space whose workers may ring it, and say which of them
 * serves the slot; 0 or `BELL_FREE`: none may.
 */
#define HANARE_BELL_SPACE_SHIFT 32U
/* Bit of that part which no space's id has: the bell is no slot's. */
#define HANARE_BELL_FREE 0x80000000U
/* A bell's worker, from this bit on: the space that has said it. */
#define HANARE_BELL_WORKER_SPACE_SHIFT 48U
/*
 * A bell's worker, from this bit on, below the space: the process, by the slot of its first
 * thread. Below: the thread's id, as the worker itself sees it; 0: none.
 */
#define HANARE_BELL_WORKER_PROCESS_SHIFT 24U
/*
 * A bell's word, from this bit on, below the space: the CPU that it rings (index in the instance).
 */
#define HANARE_BELL_CPU_SHIFT 16U
/*
 * A bell's word, lowest bits: how often it may still be rung. The LWK counts up when the thread
 * goes to sleep, up to this; the module counts down. So many may still come at a time: a late one
 * from the worker and from each server, for calls that are over, and the one for the call that the
 * thread is in.
 */
#define HANARE_BELL_RINGS_MAX 10ULL
/*
 * Bits of a CPU's mailbox that say which of its threads to look at: bit `b % BELL_BITS` for
 * bell `b`. Threads may share one.
 */
#define HANARE_BELL_BITS 1024U
/* Words of `CpuShared::bells`. */
#define HANARE_BELL_WORDS 16
/*
 * The lowest vector with an entry of its own in `CpuShared::interrupts_by`: that of Linux'
 * doorbell, below those of the LWK and of Linux' own inter-processor interrupts.
 */
#define HANARE_VECTOR_FIRST 224U
/* Entries of `CpuShared::interrupts_by`. */
#define HANARE_VECTORS 32
/* Entries of `CpuShared::exceptions_by`. */
#define HANARE_EXCEPTIONS 32
/* The vector of the LWK's timer. */
#define HANARE_TIMER_VECTOR 248U
/* The vector on which CPUs of the LWK ring each other. */
#define HANARE_PEER_VECTOR 249U
/* Most doorbells of an instance. */
#define HANARE_DOORBELLS_MAX 64U
/* Words of `DoorbellShared::rang`. */
#define HANARE_RANG_CPUS 256
/* Bit where the kind of an outbound event starts; the payload is below. */
#define HANARE_EVENT_SHIFT 56U
/* Wake the worker of a slot: payload = space << 24 | slot. */
#define HANARE_EVENT_SLOT 1ULL
/* A request is done and its waiter said that it sleeps: payload = index. */
#define HANARE_EVENT_REQUEST 2ULL
/* The module's service thread must run a service: payload = index. */
#define HANARE_EVENT_SERVICE 3ULL
/* The LWK panicked; `BootParams::panicked` is set and the log ends with why. */
#define HANARE_EVENT_PANIC 4ULL
/* There is something for an observer: payload = its session. */
#define HANARE_EVENT_OBSERVE 5ULL
/* Memory was found bad: payload = page frame number, the instance's or Linux'. */
#define HANARE_EVENT_BAD_MEMORY 6ULL
/* Signal the eventfd of a slot, if it has one (`IOCTL_EVENTFD`): payload = space << 24 | slot. */
#define HANARE_EVENT_EVENTFD 7ULL

/* Found at the very start of the image's first `PT_LOAD` segment. */
struct hanare_image_header {
	/* `crate::MAGIC`. */
	__u64 magic;
	/* `crate::VERSION` the image was built with. */
	__u32 version;
	/* Bytes of this structure. */
	__u32 header_size;
	/* Offset of the trampoline code from the start of the image. */
	__u32 trampoline_offset;
	/* Bytes of the trampoline, at most one page. */
	__u32 trampoline_size;
	/* Offset of `TrampolineArgs` inside the trampoline. */
	__u32 args_offset;
	/* Zero. */
	__u32 reserved;
};

/*
 * Filled in by the module in the low page, after copying the trampoline there
 * and before each SIPI. The trampoline runs at any page below 1 MiB.
 */
struct hanare_trampoline_args {
	/*
	 * Physical address of the boot page table, below 4 GiB. It maps the first
	 * 2 MiB 1:1, the image at its link address, and every chunk at
	 * `crate::layout::DIRECT_BASE`, all with 2 MiB pages, writable and executable.
	 */
	__u64 cr3;
	/*
	 * Virtual address to jump to in 64-bit mode with interrupts off, `rdi` =
	 * `params`, `rsi` = `cpu`; there is no stack yet.
	 */
	__u64 entry;
	/* Virtual (direct-map) address of `BootParams`. */
	__u64 params;
	/* Index of this CPU in the instance, 0 first. */
	__u64 cpu;
};

/* A run of physical memory owned by the LWK. Multiple of 2 MiB, aligned to it. */
struct hanare_memory_chunk {
	/* Physical address of the first byte. */
	__u64 base;
	/* Length in bytes. */
	__u64 size;
	/* NUMA node. */
	__u32 node;
	/* Zero. */
	__u32 reserved;
};

/*
 * The boot parameter block. Offsets are bytes from the start of the shared
 * region, which is where this structure lies.
 */
struct hanare_boot_params {
	/* `crate::MAGIC`. */
	__u64 magic;
	/* `crate::VERSION` of the module. */
	__u32 version;
	/* Bytes of this structure. */
	__u32 params_size;
	/* Physical address of the shared region, and its bytes (multiple of 2 MiB). */
	__u64 shared_base;
	/* Bytes of the shared region. */
	__u64 shared_size;
	/* Physical address where the image was loaded (2 MiB aligned). */
	__u64 image_base;
	/* Bytes from `image_base` that the image uses, incl. bss. */
	__u64 image_size;
	/* Number of `MemoryChunk`s at `chunks_offset`. */
	__u32 chunk_count;
	/* Array of `MemoryChunk`, sorted by address, neighbours merged. */
	__u32 chunks_offset;
	/* Number of CPUs of the instance. */
	__u32 cpu_count;
	/* Array of `CpuShared`, one per CPU, page aligned. */
	__u32 cpus_offset;
	/* Number of `crate::request::Request`s at `requests_offset`. */
	__u32 request_count;
	/* Array of `crate::request::Request`. */
	__u32 requests_offset;
	/* Number of `crate::service::Service`s at `services_offset`. */
	__u32 service_count;
	/* Array of `crate::service::Service`, `service_count / cpu_count` per CPU. */
	__u32 services_offset;
	/* `crate::log::LogRing`, page aligned. */
	__u32 log_offset;
	/* Bytes of the log's text area (power of two). */
	__u32 log_size;
	/* `crate::clock::ClockPage`, page aligned, alone on its page. */
	__u32 clock_offset;
	/* Number of bells at `bells_offset`. */
	__u32 bell_count;
	/* Array of `Bell`. */
	__u32 bells_offset;
	/* Number of `DoorbellShared`s at `doorbells_offset`. */
	__u32 doorbell_count;
	/* Array of `DoorbellShared`. */
	__u32 doorbells_offset;
	/* Array of `crate::offer::Offer`, as many as `OFFERS`. */
	__u32 offers_offset;
	/* Calibrated TSC frequency in kHz, as Linux has it. */
	__u32 tsc_khz;
	/* Leaks that Linux found this machine's CPUs to have, `LEAK_*`; written by the module. */
	__u32 leaks;
	/* Set to 1 by the LWK when it panicked; see `panic_text` in the log. */
	__u32 panicked;
	/* Linux' `nr_cpu_ids` and `nr_node_ids`: numbers of its CPUs and nodes are below. */
	__u32 linux_cpu_ids;
	/* Linux' `nr_node_ids`: numbers of its nodes are below. */
	__u32 linux_node_ids;
	/* Bytes of Linux' `cpumask_t`, a multiple of 8: what `sched_getaffinity` gives. */
	__u32 linux_cpumask_size;
	/*
	 * Measures of the LWK against these leaks, `MEASURE_*`; written by the LWK before its first
	 * CPU is online.
	 */
	__u32 measures;
	/* Linux' `MPOL_MAX`: modes of its NUMA policies are below. */
	__u32 linux_policy_modes;
	/*
	 * How delegated calls reach the side that executes them, where a program does not say
	 * otherwise, `DISPATCH_*`; written by the LWK before its first CPU is online.
	 */
	__u32 dispatch;
	/*
	 * Most servers of a process' box `BOX_OTHER`(crate::requestbox::BOX_OTHER). Written as
	 * `dispatch`.
	 */
	__u32 servers;
	/*
	 * Bit `n`: calls of the kind with the number `n` have a box of their own. Written as
	 * `dispatch`.
	 */
	__u32 boxes;
	/* Linux' tick, ns: what coarse clocks go by. */
	__u32 tick_ns;
	/* Number of the transport, `TRANSPORT_LOCAL`; written by the module. */
	__u32 transport;
	/* Flags of the transport, from `TRANSPORT_LINUX_FRAMES` on; written by the module. */
	__u32 transport_flags;
	/* Number of `crate::grant::Grant`s at `grants_offset`. */
	__u32 grant_count;
	/* Array of `crate::grant::Grant`. */
	__u32 grants_offset;
	/* Number of pieces (`crate::grant::DMA_PIECE`) of all memory chunks. */
	__u32 dma_pieces;
	/*
	 * Address for DMA of each piece, in the order of the chunks, for one grant behind the other.
	 */
	__u32 dma_offset;
	/*
	 * Processes whose first thread has ended, or is about to, while others may go on; written
	 * by the LWK.
	 */
	__u64 firsts_ended;
	/* Page attribute table (IA32_PAT) of Linux' CPUs, for those of the LWK; 0: nobody knows. */
	__u64 pat;
	/* Zero-terminated instance name. */
	__u8 name[32];
	/* Zero-terminated boot options, e.g. `spin_us=50 log=debug`. */
	__u8 cmdline[256];
	/*
	 * Zero-terminated `uname -r`, `-v` etc. are asked of Linux, not kept here;
	 * this is the first line of Linux' boot banner, for the log only.
	 */
	__u8 banner[128];
};

/* The bell of a slot, which no proxy can write. */
struct hanare_bell {
	/* Space, CPU and rings that are left: `BELL_SPACE_SHIFT` and what follows. */
	__u64 word;
	/*
	 * Space, process and thread of the slot's worker: `BELL_WORKER_SPACE_SHIFT` and what
	 * follows. Written by the module (`crate::ioctl::IOCTL_WORKER`), which may be late: the
	 * bell may be another space's by then. The LWK writes 0 before it asks for another worker.
	 */
	__u64 worker;
};

/*
 * A doorbell: an interrupt of Linux' for an instance, at one CPU of Linux' until the interrupt is
 * moved, and how often each CPU of the LWK rang it. Any CPU may ring any of them. A line that is
 * read for each ring, and one that changes with it.
 */
struct hanare_doorbell_shared {
	/*
	 * Written by the module: where to ring: APIC id << 32 | vector; zero: not now. The LWK
	 * reads it anew for every ring.
	 */
	__u64 target;
	/* Zero, up to 64 bytes. */
	__u64 reserved0[7];
	/*
	 * Word `i`, written by CPU `i` of the instance only: how often it has rung this doorbell
	 * (free running). It counts up when it has put an event into its outbound ring, and before
	 * it rings. The module, which remembers what it saw, looks before it reads that ring.
	 */
	__u32 rang[HANARE_RANG_CPUS];
	/* Zero, up to 1152 bytes. */
	__u64 reserved1[8];
} __attribute__((aligned(128)));

/*
 * An entry of each of a CPU's two rings. They share a cache line, so that a message and the one
 * that answers it, in the same place of the other ring, move one line there and back.
 */
struct hanare_ring_entries {
	/* An `EVENT_*` word for Linux, with `RING_LAP64`. Written by the LWK. */
	__u64 outbound;
	/*
	 * Index of a `crate::request::Request` for this CPU, with `RING_LAP32`. Written by the
	 * module.
	 */
	__u32 inbound;
	/* Zero. */
	__u32 reserved;
};

/* One LWK CPU's mailbox. 8192 bytes. */
struct hanare_cpu_shared {
	/* Written by the module: physical APIC id, and Linux' number of the CPU. */
	__u32 apic_id;
	/* Linux' number of the CPU. */
	__u32 linux_cpu;
	/* NUMA node of the CPU. */
	__u32 node;
	/* `CPU_*`; written by the module up to `CPU_STARTING`, then by the LWK. */
	__u32 state;
	/* Written by the module: the doorbell that this CPU rings unless a nearer one was named. */
	__u32 doorbell;
	/* Written by the module: the vector on which Linux rings this CPU. */
	__u32 ipi_vector;
	/* Zero, up to 64 bytes. */
	__u64 reserved1[5];
	/*
	 * `WAIT_*`; written by the LWK: whether it needs an IPI to notice a new request (halted, or
	 * in user mode). The module stores an inbound entry, issues a full fence, then reads this.
	 */
	__u32 lwk_wait;
	/* Space id running or 0; written by the LWK, for `hanare ls`. */
	__u32 current_space;
	/* Counts every pass through the idle loop and every request served. */
	__u64 heartbeat;
	/* Interrupts this CPU took since boot (all vectors), written by the LWK. */
	__u64 interrupts;
	/* Exceptions since boot (page faults included). */
	__u64 exceptions;
	/* Page faults since boot. */
	__u64 page_faults;
	/* System calls served locally / delegated since boot. */
	__u64 local_calls;
	/* Calls that Linux served. */
	__u64 delegated_calls;
	/*
	 * 1: a thread waits for its turn there, for whose sake the timer interrupts the running
	 * thread. Written by the LWK.
	 */
	__u32 crowded;
	/* Zero, up to 128 bytes. */
	__u32 reserved2;
	/*
	 * Next entry that is written (free running). The module has its own, which the LWK cannot
	 * forge; this one is for tests of the ring.
	 */
	__u32 inbound_tail;
	/* `inbound_head`, as it was read last; for tests of the ring, too. */
	__u32 inbound_seen;
	/* Zero, up to 192 bytes. */
	__u32 reserved3[14];
	/*
	 * Next entry the LWK reads (free running). Written by the LWK. The module reads this line
	 * only when a ring looks full, or a reader asks how busy the CPU is.
	 */
	__u32 inbound_head;
	/* Next entry the LWK writes (free running). Written by the LWK. */
	__u32 outbound_tail;
	/* `outbound_head`, as the LWK has read it last. Written by the LWK. */
	__u32 outbound_seen;
	/* Zero. */
	__u32 reserved4;
	/*
	 * TSC cycles this CPU halted without anything to run, up to the last time.
	 * Written by the LWK.
	 */
	__u64 idle_cycles;
	/* TSC value since when it has halted, or 0. Written by the LWK. */
	__u64 idle_since;
	/* Calls that servers have executed. Written by the LWK. */
	__u64 boxed_calls;
	/*
	 * Calls that were taken out of a request box again, for their own workers. Written by the
	 * LWK.
	 */
	__u64 unboxed_calls;
	/* Servers that were started. Written by the LWK. */
	__u64 servers_made;
	/* Zero, up to 256 bytes. */
	__u64 reserved5;
	/* Next entry the module reads (free running). Written by the module. */
	__u32 outbound_head;
	/* Zero, up to 384 bytes. */
	__u32 reserved6[31];
	/* Both rings. */
	struct hanare_ring_entries entries[HANARE_RING_ENTRIES];
	/*
	 * Bit `i`: a bit of `bells[i]` was set. Set by the module after that one, taken by
	 * the LWK before those.
	 */
	__u64 bells_rung;
	/* Zero, up to 4544 bytes. */
	__u64 reserved7[7];
	/*
	 * Bit `b % 64` of word `b / 64`: a bell `n` with `n % BELL_BITS == b` was rung
	 * (`IOCTL_RING`). Set by the module, taken by the LWK.
	 */
	__u64 bells[HANARE_BELL_WORDS];
	/*
	 * Interrupts since boot by vector: entry `i` has those of vector `VECTOR_FIRST + i`, the
	 * first one those of lower vectors, too. Written by the LWK.
	 */
	__u32 interrupts_by[HANARE_VECTORS];
	/* Exceptions since boot by vector. Written by the LWK. */
	__u32 exceptions_by[HANARE_EXCEPTIONS];
	/*
	 * 1: arguments of calls are copied where nothing else is said. Written by the LWK, as what
	 * follows.
	 */
	__u32 copies;
	/* Zero. */
	__u32 reserved9;
	/* Calls whose arguments were copied. */
	__u64 copied_calls;
	/* Bytes that were copied for them from programs and to programs. */
	__u64 copied_in;
	/* Bytes of messages that came back. */
	__u64 copied_out;
	/* Calls whose arguments were to be copied and were mapped, by reason (`MAPPED_*`). */
	__u32 mapped_by[HANARE_MAPPED_REASONS];
	/* Such calls by the number of the call. */
	__u32 mapped_calls[HANARE_MAPPED_CALLS];
	/*
	 * Calls of native tasks that pooled proxies have executed. Written by the LWK, as what
	 * follows.
	 */
	__u64 packed_calls;
	/* Pooled proxies that have come. */
	__u64 members_made;
	/* Uses of each granted device. */
	struct hanare_grant_uses uses[HANARE_GRANTS_MAX];
	/* Zero, up to 8192 bytes. */
	__u64 reserved8[138];
} __attribute__((aligned(4096)));

/* ---- log ---- */

/* The kernel log ring: text lines, readable while the LWK runs or after it died. */
/* Offset of the text area from the header. */
#define HANARE_LOG_TEXT_OFFSET 64U

/* Header; the text area of `BootParams::log_size` bytes follows at +64. */
struct hanare_log_ring {
	/*
	 * Bytes written since boot (free running); byte `i` is at `i % log_size`.
	 * Written by the LWK (release) after the bytes.
	 */
	__u64 head;
	/* Zero, up to 64 bytes. */
	__u64 reserved[7];
} __attribute__((aligned(64)));

/* ---- clock ---- */

/*
 * The clock page: Linux' time, written by the module about once a second, read
 * by the LWK and by the vDSO in applications without a trap.
 *
 * A reader takes `sequence` (even), the fields, `sequence` again; then
 * `ns = base_ns + ((rdtsc - tsc) * mult) >> shift`. The module chooses `mult` so
 * that no clock ever runs backwards between two updates.
 */
/* How far the coarse clocks are behind at most, ns: Linux does not tick while it is idle. */
#define HANARE_COARSE_LAG_NS 0x989680ULL

/* Read-only for everyone but the module. One page, alone. */
struct hanare_clock_page {
	/* Odd while the module writes. */
	__u32 sequence;
	/* Shift of the multiplication, see the module documentation. */
	__u32 shift;
	/* TSC value at the sample. */
	__u64 tsc;
	/* Factor, see the module documentation. */
	__u64 mult;
	/* CLOCK_MONOTONIC at `tsc`, ns. */
	__u64 monotonic_ns;
	/* CLOCK_REALTIME at `tsc`, ns. */
	__u64 realtime_ns;
	/* CLOCK_BOOTTIME at `tsc`, ns. */
	__u64 boottime_ns;
	/* CLOCK_MONOTONIC_RAW at `tsc`, ns. */
	__u64 raw_ns;
	/* CLOCK_TAI at `tsc`, ns. */
	__u64 tai_ns;
	/* Minutes west of Greenwich and DST flag, for gettimeofday's second argument. */
	__s32 minutes_west;
	/* `tz_dsttime`. */
	__s32 dst;
	/*
	 * CLOCK_REALTIME_COARSE as of Linux' last tick, ns: what files are stamped with.
	 * This and the next are written at each tick, outside the sequence.
	 */
	__u64 realtime_coarse_ns;
	/* CLOCK_MONOTONIC_COARSE, the same. */
	__u64 monotonic_coarse_ns;
} __attribute__((aligned(64)));

/* ---- request ---- */

/*
 * Requests of the module to the LWK: page faults of proxies, life and death of
 * spaces, signals, stop.
 *
 * The module owns the pool: it takes a free entry, fills it, sets `state` to
 * `REQUEST_POSTED` (release), puts its index into the inbound ring of one LWK
 * CPU, and rings that CPU unless it polls. The LWK reads each field once,
 * answers in place and sets `REQUEST_DONE` (release); if `waiter` says that the
 * Linux side sleeps it sends `EVENT_REQUEST`. Waits on the Linux side are
 * killable; an abandoned entry is freed by the doorbell handler when it is done
 * (the module sets `waiter` to `WAIT_GONE`).
 */
/* Entry not in use. */
#define HANARE_REQUEST_FREE 0U
/* Posted, not answered yet. */
#define HANARE_REQUEST_POSTED 1U
/* Answered; `status` and the rest are valid. */
#define HANARE_REQUEST_DONE 2U
/* Answer at once (heartbeat). */
#define HANARE_REQUEST_PING 1U
/*
 * A new space: `space`, which may run on `cpus`; args: [0] = 0, [1] = index of its home CPU (one
 * of `cpus`), the one that gets its requests. [2] = parent space of a fork or 0,
 * [3] = its token (`IOCTL_CHILD`), or, without a parent, what it is to a pool (`crate::pooled`).
 * The child of a fork begins to run at once. `pages` holds `CHILD_WORDS` words. First of every
 * space: process id, user id, effective one, group id, effective one, as the proxy would be told
 * them.
 * Then follows the number of its process id namespace (of every process). After `Control::Exec`
 * the token is that of a program. Then follow: 1 if it has more rights than its caller
 * (AT_SECURE), and 32 random bytes; 32 more for getrandom(2), or zeros if Linux would not give any
 * without a wait; the process that has left the other space (`LEFT_WORD`). Last, of every space:
 * its control groups (`GROUPS_WORD`), the number of its user (`USER_WORD`), and a random
 * number from which its own tokens are counted. A process that only has the space's descriptor
 * cannot guess them. Answer args: [0] = over which parts of its addresses (`layout::part`) the
 * device is to be mapped at once, a bit each; 0: none, since some of its memory is shared with
 * Linux. `pages`: the frames of the first page of slots and of the first scratch page, which the
 * proxy is going to touch; 0: ask later.
 */
#define HANARE_REQUEST_SPACE_OPEN 2U
/* Words that describe a child, or a program, to `REQUEST_SPACE_OPEN`. */
#define HANARE_CHILD_WORDS 59
/*
 * First word of `CHILD_WORDS` of the control groups with a limit that the process is in. First
 * those of memory, the innermost first, two words each: a number that no other group ever has, and
 * how many pages of 4 KiB it may have (`memory.max`); zeros behind them. Then those of CPU time,
 * three words each: the number, and how many µs of CPU time it may have in how many µs
 * (`cpu.max`).
 */
#define HANARE_GROUPS_WORD 17
/* First word of `CHILD_WORDS` of the random bytes for getrandom(2). */
#define HANARE_RANDOM_WORD 11
/*
 * First of two words of `CHILD_WORDS` about the process that has left its space by an execve.
 * [0] = the first slot that it had there, or `LEFT_BY_NONE`; [1] = the number of the call that a
 * listener has let go on as its execve (`crate::service::SERVICE_NOTIFY`), or 0. The program of
 * another process, or of another call, is not started.
 */
#define HANARE_LEFT_WORD 15
/*
 * Value of the first word at `LEFT_WORD` if the LWK knows no process that has left its space for
 * the program.
 */
#define HANARE_LEFT_BY_NONE 0xffffffffffffffffULL
/* Most groups of each kind; where there are more the innermost are left out. */
#define HANARE_GROUPS_MAX 8
/* Words of the groups of memory. */
#define HANARE_MEMORY_GROUPS_WORDS 16
/* Words of all groups. */
#define HANARE_GROUPS_WORDS 40
/*
 * Word of `CHILD_WORDS`: the user whose share of the instance the space uses. A user id of
 * Linux' first user namespace; in another namespace that of its maker, unless that was the
 * superuser.
 */
#define HANARE_USER_WORD 57
/*
 * Bit of the word at `USER_WORD`, above the user id: the process' memory is never to be writable
 * and executable, nor to become executable (`PR_SET_MDWE`, which Linux keeps in the memory map).
 */
#define HANARE_DENIES_WRITE_EXEC 0x100000000ULL
/*
 * Run the program in the start block of `space` (see `crate::start`); args: [0] = 0,
 * or the first slot of a process that shares it (`IOCTL_SHARE`), which begins; [1] = its
 * process id namespace; [2] = its process id.
 */
#define HANARE_REQUEST_SPACE_START 3U
/*
 * The proxy of `space` is gone (its memory map too): end its threads, free all
 * its memory, then answer. Answered only when everything is back. Answer args:
 * [0] = user ns, [1] = system ns it has used, [2] = peak resident bytes, [3] = space of the pooled
 * proxy that a native task had when it ended, which ends with it; 0: none.
 * `ESRCH`: nothing of it is there, nor is its use: an earlier answer had that, or there was no
 * such space.
 * args: [0] = `CLOSE_AWAITED` or `CLOSE_TOLD`.
 */
#define HANARE_REQUEST_SPACE_CLOSE 4U
/*
 * In `args[0]` of `REQUEST_SPACE_CLOSE`: the answer comes when everything is back. At most one
 * such request for each space.
 */
#define HANARE_CLOSE_AWAITED 0ULL
/*
 * In `args[0]` of `REQUEST_SPACE_CLOSE`: the answer comes at once, so that its entry never waits
 * for threads, which may wait for the end of another space. `EINPROGRESS`: not everything is back
 * yet; answer args: [0] = threads that are left, [1] = Linux thread id of one of them. Any number
 * of such requests for each space. What the space has used is kept from the first one to the one
 * that is answered by 0, as `CLOSE_AWAITED` is, or by `ESRCH`.
 */
#define HANARE_CLOSE_TOLD 1ULL
/*
 * A proxy touched a page: args: [0] = page address, [1] = `FAULT_*` bits, [2] = most pages wanted
 * (1..=PAGES_MAX) and, << 32, the id of the proxy's thread that touched the page, in its
 * namespace, or 0. If it is a worker, the NUMA policy of its thread counts. [3] = index of a
 * service that was run because of `STATUS_SERVE_FIRST`, plus 1, else 0. Answer: args[0] =
 * address of the first page in `pages` (the asked one lies within), `count`.
 */
#define HANARE_REQUEST_FAULT 5U
/*
 * Linux takes back pages of a shared file mapping (MMU notifier): args: [0] =
 * start, [1] = end address. Unmap there, flush, then answer.
 */
#define HANARE_REQUEST_INVALIDATE 6U
/*
 * A signal reached the proxy: args: [0] = number, [1] = slot whose worker took
 * it; `pages` holds the 128-byte siginfo in its first 16 words. `EAGAIN`: see `IOCTL_SIGNAL`.
 */
#define HANARE_REQUEST_SIGNAL 7U
/* Park this CPU. Posted to every CPU of the instance, CPU 0 last. */
#define HANARE_REQUEST_STOP 8U
/* `hanare debug`: args: [0] = `DEBUG_*`. */
#define HANARE_REQUEST_DEBUG 9U
/*
 * Resource use of a space so far: answer args: [0] = user ns, [1] = system ns,
 * [2] = resident bytes, [3] = peak resident bytes.
 */
#define HANARE_REQUEST_USAGE 10U
/*
 * Linux has stopped (args[0] = 1) or continued (0) the process of a space whose first
 * slot is args[1]: its threads return to user mode only while it is not stopped.
 */
#define HANARE_REQUEST_SPACE_PAUSE 12U
/*
 * The process with first slot args[0] has ended on Linux; others have the space still,
 * or had it (then `REQUEST_SPACE_CLOSE` comes too).
 */
#define HANARE_REQUEST_PROCESS_END 13U
/* Linux' clock has been set: threads that wait for a time of it look at it again. Not awaited. */
#define HANARE_REQUEST_CLOCK_SET 14U
/*
 * A space's control groups are others now, or have other limits: `pages` holds them as in
 * `GROUPS_WORD`. Not awaited.
 */
#define HANARE_REQUEST_SPACE_GROUPS 15U
/*
 * Limits of a space's process were changed: `pages` holds them as in
 * `crate::service::LIMITS_WORDS`, args: [0] = a number, as `crate::service::SERVICE_LIMITS`
 * answers it. Not awaited.
 */
#define HANARE_REQUEST_SPACE_LIMITS 16U
/*
 * A child that `space` has made, of which `crate::service::SERVICE_CHILD` has told, has ended on
 * Linux, or cannot come any more: args: [0] = its token. The space may be gone.
 */
#define HANARE_REQUEST_CHILD_END 17U
/*
 * Question of an observer (`IOCTL_OBSERVE`): args: [0] = `OBSERVE_*`, [1] = the session,
 * [2], [3] = arguments; `pages` holds what goes with it, both ways, `count` words of
 * an answer. `space` is that of the observed process, which may be gone.
 */
#define HANARE_REQUEST_OBSERVE 11U
/* Something to be shown: args: [0] = `INFO_*`; see `crate::info`. */
#define HANARE_REQUEST_INFO 32U
/* The access was a write. */
#define HANARE_FAULT_WRITE 1ULL
/* The page is mapped read-only and wants to become writable (`page_mkwrite`). */
#define HANARE_FAULT_MKWRITE 2ULL
/*
 * With `FAULT_WRITE`: a page that may not be written is given for reading, of which the module
 * makes a copy.
 */
#define HANARE_FAULT_OR_COPY 4ULL
/* Panic deliberately. */
#define HANARE_DEBUG_PANIC 1ULL
/*
 * Stop answering on this CPU, interrupts off (tests of the module's bounds);
 * args: [1] = for how long, ms; 0: for ever.
 */
#define HANARE_DEBUG_HANG 2ULL
/*
 * Log free memory; answer args: [0] = free bytes, [1] = total bytes, [2] = quarantined bytes,
 * [3] = processes; `pages`: `KEPT_WORDS` words of what the kernel keeps for itself.
 */
#define HANARE_DEBUG_MEMORY 3ULL
/*
 * Bytes of its heap; of the blocks in use there bytes and number; bytes of blocks that are frames
 * of their own, and of those in the reserve. Then how many there are: spaces, threads, children
 * (fork) and programs (execve) whose proxy is to come, traces, debuggers.
 */
#define HANARE_KEPT_WORDS 11
/* Use up the stack on which this is served: of the idle CPU, or of the thread that runs there. */
#define HANARE_DEBUG_OVERFLOW 4ULL
/*
 * Have allocations of the LWK fail: args: [1] = the first one, counted from 1 from now on (0:
 * none, only count; `u64::MAX`: end that), [2] = after how many each further one does (0: none
 * does). Answer args: [0] = allocations counted before.
 */
#define HANARE_DEBUG_FAIL_ALLOC 5ULL
/*
 * The ledger of frames: the owner of each frame of the instance. args: [1] = 0, or which user's
 * frames are asked for, too: the first one whose id is [1] - 1 or more. Answer args: [0] = the
 * user's id plus 1, 0: there is none; [1], [2] = kernel memory and memory that the user is charged
 * for, bytes; [3] = the user's processes. `pages`: `LEDGER_WORDS` words.
 */
#define HANARE_DEBUG_LEDGER 6ULL
/*
 * Number of the ledger's subjects: the purposes of frames that `Subject` in
 * `kernel/core/src/ledger.rs` lists, in this order.
 */
#define HANARE_LEDGER_SUBJECTS 15
/* Word of the ledger: all frames. */
#define HANARE_LEDGER_TOTAL 0
/* Word of the ledger: frames that are never handed out. */
#define HANARE_LEDGER_RESERVED 1
/* Word of the ledger: of these, those of the shared region and of the image. */
#define HANARE_LEDGER_IMAGE 2
/* Word of the ledger: free frames, those in stock of CPUs left out. */
#define HANARE_LEDGER_FREE 3
/* Word of the ledger: free frames, as the allocator counts them. */
#define HANARE_LEDGER_FREE_COUNTED 4
/* Word of the ledger: frames in quarantine, as their list counts them. */
#define HANARE_LEDGER_QUARANTINE_COUNTED 5
/* Word of the ledger: frames of the heap, as the heap counts them. */
#define HANARE_LEDGER_HEAP_COUNTED 6
/* Word of the ledger: frames of rings, as the list of rings counts them. */
#define HANARE_LEDGER_RINGS_COUNTED 7
/* Word of the ledger: frames of programs that are kept for the next, as their lists count them. */
#define HANARE_LEDGER_CONTENTS_COUNTED 8
/* Words of the ledger from here on: the kernel's own frames, by subject. */
#define HANARE_LEDGER_KERNEL 9
/* Words of the ledger from here on: frames of all users. */
#define HANARE_LEDGER_USERS 24
/* Words of the ledger from here on: frames of the user that is asked for. */
#define HANARE_LEDGER_USER 39
/* Words of the ledger. */
#define HANARE_LEDGER_WORDS 54
/*
 * `status` > 0: run the service whose index is in `args[3]` in the caller's
 * context, then post the fault again with `args[3]` = index + 1.
 */
#define HANARE_STATUS_SERVE_FIRST 1
/* Most pages one answer carries. */
#define HANARE_PAGES_MAX 64
/*
 * In `pages`: the page may be written by Linux. Bits 12.. are the frame address;
 * an entry of 0 is a hole (leave it alone). In Rust such an entry is a `GivenPage`
 * (`abi/src/frame.rs`).
 */
#define HANARE_PAGE_WRITABLE 1ULL
/* In `pages`: another frame was here before: remove the old mapping first. */
#define HANARE_PAGE_REPLACED 2ULL
/*
 * In `pages`: the program may execute what is on the page. So may its proxy once it has asked for
 * that (`IOCTL_EXECUTE`).
 */
#define HANARE_PAGE_EXECUTABLE 4ULL

/* One request. 768 bytes. */
struct hanare_request {
	/* `REQUEST_FREE/POSTED/DONE`. */
	__u32 state;
	/* `REQUEST_*` kind. */
	__u32 kind;
	/* Space id or 0. */
	__u32 space;
	/* 0, a negative errno, or `STATUS_SERVE_FIRST`. Written by the LWK. */
	__s32 status;
	/* Entries used in `pages`. */
	__u32 count;
	/* Zero. */
	__u32 reserved0;
	/* Meaning depends on `kind`. */
	__u64 args[4];
	/* Zero, up to 64 bytes. */
	__u64 reserved1;
	/*
	 * `WAIT_*` (`crate::wake`), written by the module: `EVENT_REQUEST` after `REQUEST_DONE`
	 * unless it is awake.
	 */
	__u32 waiter;
	/*
	 * The doorbell next to where the waiter sleeps, plus 1; 0: not known. Written by the
	 * module.
	 */
	__u32 doorbell;
	/* Zero, up to 128 bytes. */
	__u64 reserved3[7];
	/* Frames, or siginfo. */
	__u64 pages[HANARE_PAGES_MAX];
	/* CPUs of the instance, of `REQUEST_SPACE_OPEN`; the full set: none were chosen. */
	struct hanare_cpu_set cpus;
} __attribute__((aligned(64)));

/* ---- service ---- */

/*
 * Services: what the LWK asks of the module on its own account, in whatever
 * Linux context is at hand.
 *
 * An entry is written by the LWK and lies in the shared region, where no proxy
 * can forge it. It is run by one of three executors:
 * - the worker of the thread that needs it: control request `crate::control::Control::Serve`
 * with the index; the worker hands it to the module (`IOCTL_SERVE`), which
 * checks that the entry belongs to the worker's space;
 * - a task whose page fault needs it first (`STATUS_SERVE_FIRST`), of the entry's space, too;
 * - the module's service thread (`EVENT_SERVICE`), only kinds that need no
 * process: `SERVICE_HELD`, `SERVICE_ZAP`, `SERVICE_FILE_PUT`, `SERVICE_KILL`,
 * `SERVICE_INTERRUPT`.
 *
 * `state` and `space` are one word to the module, which claims an entry by one exchange: so no
 * thread runs an entry that has become another one since it heard of it. From there until it is
 * done the entry, and the frames it names, are Linux'; before, the LWK may withdraw it.
 */
/* Entry not in use. */
#define HANARE_SERVICE_FREE 0U
/* Filled in by the LWK, to be run by a worker. */
#define HANARE_SERVICE_READY 1U
/* Being run (module). */
#define HANARE_SERVICE_RUNNING 2U
/* Done, `status` valid (module). */
#define HANARE_SERVICE_DONE 3U
/* As `SERVICE_READY`, for a page fault. */
#define HANARE_SERVICE_READY_FAULT 4U
/* As `SERVICE_READY`, for the service thread. */
#define HANARE_SERVICE_READY_THREAD 5U
/*
 * Take a reference to the file behind descriptor args[0] of the caller, for a
 * mapping: status = file id (> 0). Answer args: [1] = inode number, [2] = size in bytes,
 * [3] = `FILE_*` bits, [4] = dev_t as `st_dev` has it.
 * `held` is the version of its content: another one if it was changed in between; 0 if it
 * may change without that.
 * -EBADF; -ENODEV if it cannot be mapped; -EACCES if not open for reading.
 */
#define HANARE_SERVICE_FILE_GET 1U
/*
 * As FILE_GET, for a program to be run: args[0] = directory descriptor, [1] = address
 * (control window) of its path, [2] = flags, as of execveat(2). It needs no descriptor,
 * and the file cannot be written (`ETXTBSY`) until the reference is dropped. It need not be
 * readable to its user (`FILE_UNREADABLE`). `extents`:
 * one of two pages, which get the file's first bytes, up to a page, and its name. Answer
 * args: [0] = bytes of the first | bytes of the name << 32; the others as of FILE_GET.
 * Also execveat's errors: -ENOENT, -EACCES, -ELOOP, -ETXTBSY and others.
 */
#define HANARE_SERVICE_PROGRAM_GET 10U
/* Drop references: `extents` are file ids. */
#define HANARE_SERVICE_FILE_PUT 2U
/*
 * Read file args[0] from byte offset args[1] into the frames of `extents`
 * (args[2] = bytes wanted): status = bytes read or a negative errno. The first args[3] bytes
 * (a multiple of 4096) are waited for; behind them it ends where a page is not in Linux' page
 * cache, or where that cannot be known. Else a short count is the end of the file; the frames
 * behind it are left as they are.
 */
#define HANARE_SERVICE_FILL 3U
/*
 * Remove Linux' mappings of args[0]..args[1] (addresses) from the space and, for each frame of
 * `extents`, say whether Linux still holds it: `held` bit i = extent i has at least one such
 * frame. If args[2] is not 0, answers to faults of any space of the instance that are on their way
 * into a page table are made void before the frames are looked at. An answer that was given when a
 * frame was still mapped may name the frame, and so give it to Linux later. Where that cannot be
 * done now, Linux holds all of them.
 */
#define HANARE_SERVICE_ZAP 4U
/* As ZAP without a range (args[0] and args[1]): only look at the frames of `extents`. */
#define HANARE_SERVICE_HELD 5U
/*
 * Find the frames behind args[0] (address) .. + args[1] pages of the caller's
 * own (Linux) mapping, for writing if args[2]: answer `extents`, `count`;
 * status = pages found from the first on, or -EFAULT (SIGBUS), -EAGAIN. Each extent says whether
 * its frames are a device's (`EXTENT_DEVICE`) and that a watch follows them (`EXTENT_WATCHED`).
 * They are not pinned: an INVALIDATE request takes them back.
 */
#define HANARE_SERVICE_RESOLVE 6U
/*
 * Watch args[0]..args[1] of the caller's memory map and send
 * `REQUEST_INVALIDATE` for what Linux changes there. status = watch id (> 0).
 */
#define HANARE_SERVICE_WATCH 7U
/* End watch args[0]. */
#define HANARE_SERVICE_UNWATCH 8U
/*
 * Kill the proxy of the entry's space (SIGKILL): there is no memory left and the LWK has
 * chosen that one; args: [0] = bytes in use of [1], [2] = whose they are (`OUT_*`). Its standard
 * error output is told.
 */
#define HANARE_SERVICE_KILL 9U
/* Limit of `SERVICE_KILL` that is reached: all memory of the instance. */
#define HANARE_OUT_INSTANCE 0ULL
/* Share of the process' user in the instance. */
#define HANARE_OUT_USER 1ULL
/* Share of the process' control group. */
#define HANARE_OUT_GROUP 2ULL
/* Memory of NUMA nodes that a policy insists on. */
#define HANARE_OUT_NODES 3ULL
/*
 * Whether the worker may do something to a thread of another process, where the LWK does it: args:
 * [0] = its id, as the worker knows it, [1] = its space, [2] = `MAY_*`. A worker's own answer to
 * the call in question proves nothing: the user of a program may have replaced the proxy. status =
 * 0, -EPERM, or -ESRCH: it is not there.
 */
#define HANARE_SERVICE_MAY 11U
/*
 * The name of file args[0], without a zero byte, into `extents`, one of one page: status =
 * its length.
 */
#define HANARE_SERVICE_FILE_NAME 12U
/* `MAY_*`: the worker traces it. */
#define HANARE_MAY_TRACE 1ULL
/*
 * `MAY_*`: reach its memory by descriptor args [3], for writing if args [4], which has to be
 * of its `/proc/PID/mem`.
 */
#define HANARE_MAY_REACH 2ULL
/* `MAY_*`: change its limits. */
#define HANARE_MAY_LIMIT 3ULL
/* `MAY_*`: say where it runs. */
#define HANARE_MAY_SCHEDULE 4ULL
/* `MAY_*`: about the worker itself, whatever args [0] and [1] are: it is traced. */
#define HANARE_MAY_BE_TRACED 5ULL
/*
 * `MAY_*`: the worker traces it, and Linux has let it suspend its filters
 * (`PTRACE_O_SUSPEND_SECCOMP`).
 */
#define HANARE_MAY_SUSPEND 6ULL
/* `MAY_*`: send it signals, as kill(2) has it. */
#define HANARE_MAY_SIGNAL 7ULL
/* `MAY_*`: a thread of the worker's process traces it: any of these hears of its stops. */
#define HANARE_MAY_HEAR 8ULL
/* `FILE_*`: the file is open for writing too (shared writable mappings allowed). */
#define HANARE_FILE_WRITABLE 1ULL
/* `FILE_*`: a regular file, not of hugetlbfs (private mappings may be read into LWK memory). */
#define HANARE_FILE_REGULAR 2ULL
/* `FILE_*`: the file system forbids execution (noexec). */
#define HANARE_FILE_NOEXEC 4ULL
/* `FILE_*`: the file is open for reading. */
#define HANARE_FILE_READABLE 32ULL
/* `FILE_*`: a program that its user may run and not read. */
#define HANARE_FILE_UNREADABLE 8ULL
/* `FILE_*`: Linux' binfmt_misc has entries that may take the program, see `SERVICE_BINFMT`. */
#define HANARE_FILE_BINFMT 16ULL
/*
 * Which pages of file args[0] Linux has in its page cache, from byte offset args[1] on, args[2]
 * of them: answer `extents`, bit i % 64 of word i / 64 for page i. All of them, where the
 * worker may not know (mincore(2)).
 */
#define HANARE_SERVICE_CACHED 13U
/*
 * Interrupt the worker with the id args[0], of the entry's space, as `Control::Interrupt` does: an
 * observer of its thread, whose code it executes, has to see the thread on the LWK.
 */
#define HANARE_SERVICE_INTERRUPT 14U
/*
 * The limits of a process: args[0] = id of one of its threads, as the worker knows it, [1] = its
 * space. Answer `extents`: `LIMITS_WORDS` words, soft and hard of each resource as prlimit(2)
 * numbers them; args: [0] = a number that later answers and requests
 * (`crate::request::REQUEST_SPACE_LIMITS`) have a greater one than. The soft limit of its
 * address space is `LIMIT_LIFTED` for Linux from then on. -ESRCH: there is no such thread.
 */
#define HANARE_SERVICE_LIMITS 15U
/* Resources that have limits. */
#define HANARE_LIMITS 16
/* Words of all limits (`SERVICE_LIMITS`). */
#define HANARE_LIMITS_WORDS 32
/*
 * Soft limit of a proxy's address space: the LWK applies its program's, while the proxy maps all
 * of the program's addresses. It is no multiple of anything that a program would choose, so what
 * is set by others is known for that; and it may be above the hard limit.
 */
#define HANARE_LIMIT_LIFTED 0xfffffffff5a6b000ULL
/*
 * Soft limit of the stack that proxy and command set for themselves, before an image of the proxy
 * is loaded, where the program's is higher: likewise known for their own. Above it Linux may lay
 * the proxy's own memory out among the application's addresses.
 */
#define HANARE_STACK_LIMIT_OF_PROXY 0x3fa5000ULL
/*
 * The texts of the files of Linux' binfmt_misc, where the worker has that mounted, from number
 * args[2] on, to the worker's address args[0], of args[1] bytes. Each has a zero behind it. They
 * come in the order in which Linux looks at the entries, as many as fit; the last one is the file
 * `status`. Answer args: [0] = bytes, [1] = the number to go on with, or 0: these were all; if
 * what has that number is removed meanwhile, it goes on with the first one. -ENOENT: it is not
 * mounted.
 */
#define HANARE_SERVICE_BINFMT 17U
/*
 * Descriptors in an execve(2): closes those that close on exec, and then opens file args[0] for
 * the program (AT_EXECFD). status = the descriptor.
 */
#define HANARE_SERVICE_EXEC_FILE 18U
/* How long file args[0] is now: status = bytes. */
#define HANARE_SERVICE_FILE_SIZE 16U
/*
 * Take a reference to the file behind descriptor args[0] of the caller, for a driver of the LWK's.
 * args[1] = the device that it has to be, as `st_rdev` has it; [2] = 1 if a block device. [3] = 0,
 * or 1 more than the number of a grant with queues: then it has to be one of that device's
 * namespaces, or a part of one, and open with O_DIRECT. The answer is as of FILE_GET, and args:
 * [0] = flags of open(2) that the file has; `extents`, of a namespace: `CLAIM_WORDS` words.
 * -EBADF. -ENODEV: it is another file, or one that is read and written in order only.
 */
#define HANARE_SERVICE_CLAIM 24U
/*
 * Number of words of an answer about a namespace. A word of Linux' is two of them: its physical
 * address, and a mask of the bits that count. It may change at any time.
 */
#define HANARE_CLAIM_WORDS 17
/* `CLAIM_*`: number of the namespace. */
#define HANARE_CLAIM_NAMESPACE 0
/* `CLAIM_*`: logarithm of the bytes of a block. */
#define HANARE_CLAIM_BLOCK_SHIFT 1
/* `CLAIM_*`: first byte of the part. */
#define HANARE_CLAIM_FIRST 2
/* `CLAIM_*`: pages of the part in Linux' page cache, a word of Linux'. */
#define HANARE_CLAIM_CACHED 3
/* `CLAIM_*`: length of the part in sectors of 512 bytes, a word of Linux'. */
#define HANARE_CLAIM_SECTORS 5
/* `CLAIM_*`: likewise of the whole disk. */
#define HANARE_CLAIM_DISK_SECTORS 7
/* `CLAIM_*`: somebody has the part for himself unless it is 0, a word of Linux'. */
#define HANARE_CLAIM_HOLDER 9
/* `CLAIM_*`: it may not be written to unless this is 0, a word of Linux'. */
#define HANARE_CLAIM_READ_ONLY 11
/* `CLAIM_*`: likewise of the whole disk. */
#define HANARE_CLAIM_DISK_READ_ONLY 13
/* `CLAIM_*`: changes when Linux could not write what it had in its page cache, a word of Linux'. */
#define HANARE_CLAIM_ERROR 15
/*
 * Has the controller of grant args[0] give up the queues of the CPU with index args[1], and make
 * new ones, unless it has done so since round args[2]. Later their words in the shared region say
 * so (`crate::grant::GrantQueue`); until then the LWK does not use the queues, and may ask
 * again. -ENODEV: the device is gone.
 */
#define HANARE_SERVICE_QUEUE 25U
/*
 * Descriptor args[0] of the caller, a listener of Linux' (`SECCOMP_FILTER_FLAG_NEW_LISTENER`), is
 * replaced by one that also tells of calls which the LWK serves: status = the descriptor; answer
 * args: [0] = id of the listener (> 0), which no other one gets. -EBADF; -EINVAL: it is none.
 */
#define HANARE_SERVICE_LISTENER 19U
/*
 * The worker is about to make a call. In place of it listener args[0] is told what `extents` say:
 * `CALL_WORDS` words, the call's number, the address behind its instruction, and its arguments.
 * Arguments: [1]: `NOTIFY_*`; [2] = the first slot of the calling process; [3] = the id of the
 * thread that calls, as the worker knows it: no other thread makes the call. The status is a
 * number (> 0), by which the call is known. -ENOSYS: there is no such listener any more; -ESRCH:
 * the process has no such thread.
 */
#define HANARE_SERVICE_NOTIFY 20U
/* Words of a call in `SERVICE_NOTIFY`. */
#define HANARE_CALL_WORDS 8
/* The worker makes `NR_NOTIFY` with the number as its argument. */
#define HANARE_NOTIFY_ALONE 0ULL
/* The worker makes an execve of its own. */
#define HANARE_NOTIFY_EXECVE 1ULL
/*
 * Whether listener args[0] has let the call go on that is known by args[1]: status = 1, or 0. It
 * is forgotten. args[1] = 0: whether there is such a listener still.
 */
#define HANARE_SERVICE_CONTINUED 21U
/*
 * The worker has made a child that does not come, and whose maker goes on. Argument 0 is the
 * child's process id, as the worker knows it. Argument 1 is the first slot that it is to have in
 * the worker's space, or 0: it is to have a space of its own, for which it asks by the token in
 * argument 2. The child's end is told from now on (`crate::request::REQUEST_CHILD_END`,
 * `crate::request::REQUEST_PROCESS_END`), and what it has of the worker's space stays until
 * then, or until it has come. -EAGAIN: Linux has not stopped it, so it is about to come; -EEXIST:
 * it has come; -ESRCH: there is no such process.
 */
#define HANARE_SERVICE_CHILD 22U
/*
 * Linux pins pages for devices of args[0]..args[1] of the caller's memory from now on: private
 * memory that the program may write. Of such a range Linux is given pages for writing only, or
 * copies. args[2]: 1 + the descriptor that has to be a device's, or 0; [3] = `PINNABLE_*`.
 * -EOPNOTSUPP: this Linux has not refused to pin pages there. -ENOTTY: the descriptor is no
 * device's. Else what mmap(2) says.
 */
#define HANARE_SERVICE_PINNABLE 23U
/* Whether this Linux refuses to pin pages otherwise or not. */
#define HANARE_PINNABLE_ALWAYS 0ULL
/* Only if it does. */
#define HANARE_PINNABLE_IF_REFUSED 1ULL
/* Most extents in one service. */
#define HANARE_EXTENTS_MAX 64

/* One service. 704 bytes. */
struct hanare_service {
	/* `SERVICE_FREE/READY.../RUNNING/DONE`. */
	__u32 state;
	/* Space it belongs to, or 0 for none. */
	__u32 space;
	/* Kind. */
	__u32 kind;
	/* Extents used. */
	__u32 count;
	/* Result. */
	__s64 status;
	/* Arguments and answer, see the kind. */
	__u64 args[5];
	/* ZAP, HELD, FILE_GET: see there. */
	__u64 held;
	/* Zero, up to 128 bytes. */
	__u64 reserved0[7];
	/* LWK CPU that waits for it (index), to be rung when it is done. */
	__u32 cpu;
	/* `WAIT_*` (`crate::wake`): whether that CPU sleeps, written by the LWK. */
	__u32 lwk_wait;
	/* Zero, up to 192 bytes. */
	__u64 reserved1[7];
	/* Runs of frames, each an `Extent` (`abi/src/frame.rs`), or what else the kind says. */
	__u64 extents[HANARE_EXTENTS_MAX];
} __attribute__((aligned(64)));

/* ---- slot ---- */

/*
 * The slot: what the LWK asks of one worker, one thing at a time: a delegated call of its thread,
 * or a control request of the LWK's own (`crate::control`).
 *
 * A call costs one cache line (the first). Of the next two each side writes one, and only when it
 * sleeps or changes policy; the other side reads it. The slot is mapped into the proxy: the LWK
 * validates everything it reads from it.
 */
/* Nothing is asked. The LWK may write a call or a request. */
#define HANARE_SLOT_IDLE 0U
/* System call written by the LWK (release), to be executed by the worker for its thread. */
#define HANARE_SLOT_REQUESTED 1U
/* Control request written by the LWK (release), see `CONTROL_*`. */
#define HANARE_SLOT_CONTROL 2U
/* Answer written by the worker (release). The LWK sets `SLOT_IDLE` again. */
#define HANARE_SLOT_DONE 4U
/*
 * Answer, too: a signal has kept the call from being started. The LWK delivers the signal and
 * then makes the call again (what Linux calls ERESTARTNOINTR). Control requests are never
 * answered so.
 */
#define HANARE_SLOT_NOT_STARTED 8U
/*
 * System call written by the LWK (release), which waits in the request box
 * (`crate::requestbox`): the side that takes its bit out of the box answers it. The slot's
 * worker is not asked for it.
 */
#define HANARE_SLOT_BOXED 16U
/* States in which the worker is asked for something. */
#define HANARE_SLOT_ASKED 3U
/* States in which it has answered. */
#define HANARE_SLOT_ANSWERED 12U
/*
 * In place of the number of a system call: the call is a message (`crate::message`). `args[0]`
 * is its address, which is that of the slot (`crate::layout::message`), `args[1]` the bytes of
 * its buffer, behind which nothing is mapped. The result is 0 where the call was executed, whose
 * result is in the message, or -errno where it cannot be executed from the message.
 */
#define HANARE_NR_MESSAGE 0x4d5347U
/*
 * In place of the number of a system call, in the slot of a pooled proxy (`crate::pooled`): the
 * call is a packed message. `args[0]` is the number of its first page, or `MESSAGE_PAGE_NONE`,
 * `args[1]` whose call it is, as its pages say, `args[2]` flags (`PACKED_*`). The result is 0
 * where the call was executed, whose result is in the message, or -errno.
 */
#define HANARE_NR_PACKED 0x50434bU
/*
 * In place of the number of a system call that the LWK serves itself, or that a worker may make
 * whatever its filter says: a listener of the filter is to decide about it. Linux has no such
 * call, so a filter without a listener lets it pass (`ENOSYS`); one with a listener notifies that,
 * which is told the call for which this one stands (`crate::service::SERVICE_NOTIFY`), named by
 * `args[0]`.
 */
#define HANARE_NR_NOTIFY 0x4e5459U

/* 256 bytes: a cache line for the call, one for the LWK's words, one for the worker's. */
struct hanare_slot {
	/* `SLOT_*`. */
	__u32 state;
	/* Number of the Linux system call, or of the control request (`CONTROL_*`). */
	__u32 nr;
	/* Arguments of the system call, or the fields of the control request, in their order. */
	__u64 args[6];
	/* Result of the system call or the request (-errno for errors); `SLOT_DONE` only. */
	__s64 result;
	/* `WAIT_*` (`crate::wake`): the LWK thread, written by the LWK. */
	__u32 lwk_wait;
	/*
	 * Bell to ring for this thread, always the same one. Written by the LWK, before there is a
	 * worker.
	 */
	__u32 bell;
	/*
	 * How long the worker polls before it sleeps, in microseconds; 0: not at
	 * all. Written by the LWK.
	 */
	__u32 poll_us;
	/* Zero. */
	__u32 reserved0;
	/*
	 * Signal mask (bit n-1 = signal n) the worker must have during the next
	 * call; the worker compares it with its own. Written by the LWK.
	 */
	__u64 sigmask;
	/*
	 * Head of the application thread's list of robust futexes (set_robust_list(2)), or
	 * 0; the worker has Linux know it before the next call, so that Linux walks the
	 * list when the worker ends with its process. Written by the LWK.
	 */
	__u64 robust_list;
	/* Zero, up to 128 bytes. */
	__u64 reserved1[4];
	/* `WAIT_*`: the worker, written by the worker. */
	__u32 worker_wait;
	/*
	 * Linux thread id of the worker, written by the worker; 0: none serves the slot any more.
	 * To the LWK it says only whether there is a worker: ids come from the module
	 * (`crate::boot::Bell::worker`).
	 */
	__u32 tid;
	/*
	 * The doorbell next to where the worker sleeps, plus 1; 0: not known. Written by the
	 * worker, as `IOCTL_WAIT` has said; the LWK does not rely on it.
	 */
	__u32 doorbell;
	/*
	 * 1: a signal has come for the thread, of which the LWK knows. Its call in the request box
	 * is not started, or interrupted. Written by the worker; the server that finds it writes 0.
	 */
	__u32 interrupted;
	/*
	 * 1: the server that executed the last call of the request box was interrupted in it by a
	 * signal of which the LWK knows. Written by the server before its answer.
	 */
	__u32 ended_by_signal;
	/*
	 * Linux thread id of the server that executes the thread's call in the request box, or has
	 * executed the last one; 0: none has. Written by the server.
	 */
	__u32 server;
	/* Zero, up to 256 bytes. */
	__u64 reserved3[13];
} __attribute__((aligned(256)));

/* ---- wake ---- */

/*
 * Sleep: the values of every word by which a side of the boundary says that it sleeps
 * (`docs/wakeup.md`).
 *
 * The word is written by its side alone. That side stores `WAIT_ASLEEP`, issues a full fence,
 * looks once more for what it waits for, then sleeps. The other side stores what is new, issues a
 * full fence, then reads the word, and rings unless it is `WAIT_AWAKE`.
 */
/* A side that polls, works or looks before it sleeps: no doorbell is needed. */
#define HANARE_WAIT_AWAKE 0U
/* A side that sleeps or is about to: ring it. */
#define HANARE_WAIT_ASLEEP 1U
/*
 * A side that has been killed and takes nothing: ring all the same, so that the request is cleared
 * up (requests only).
 */
#define HANARE_WAIT_GONE 2U

/* ---- control ---- */

/*
 * Control requests: what the LWK asks of a proxy on its own account, not for a call of the
 * program's.
 *
 * A request lies in a worker's slot (`SLOT_CONTROL`): `nr` is its number, `args` are its fields in
 * their order, a word each, and zeros behind them. It goes to a worker that is in no call: that of
 * the thread which asks, or one without a thread. Which requests are about the worker itself, and
 * which about its process, is said in `docs/link.md`.
 */
/* `Control::Serve`. */
#define HANARE_CONTROL_SERVE 0U
/* `Control::ExitSignal`. */
#define HANARE_CONTROL_EXIT_SIGNAL 1U
/* `Control::StartFailed`. */
#define HANARE_CONTROL_START_FAILED 2U
/* `Control::SignalAction`. */
#define HANARE_CONTROL_SIGNAL_ACTION 3U
/* `Control::Execed`. */
#define HANARE_CONTROL_EXECED 4U
/* `Control::Remap`. */
#define HANARE_CONTROL_REMAP 5U
/* `Control::TakeMask`. */
#define HANARE_CONTROL_TAKE_MASK 6U
/* `Control::StopSignal`. */
#define HANARE_CONTROL_STOP_SIGNAL 7U
/* `Control::RequeueSignal`. */
#define HANARE_CONTROL_REQUEUE_SIGNAL 8U
/* `Control::Thread`. */
#define HANARE_CONTROL_THREAD 9U
/* `Control::ThreadExit`. */
#define HANARE_CONTROL_THREAD_EXIT 10U
/* `Control::ThreadRenew`. */
#define HANARE_CONTROL_THREAD_RENEW 11U
/* `Control::Rights`. */
#define HANARE_CONTROL_RIGHTS 12U
/* `Control::Succeed`. */
#define HANARE_CONTROL_SUCCEED 13U
/* `Control::Fork`. */
#define HANARE_CONTROL_FORK 14U
/* `Control::Share`. */
#define HANARE_CONTROL_SHARE 15U
/* `Control::Exec`. */
#define HANARE_CONTROL_EXEC 16U
/* `Control::Filter`. */
#define HANARE_CONTROL_FILTER 17U
/* `Control::Interrupt`. */
#define HANARE_CONTROL_INTERRUPT 18U
/* `Control::Dump`. */
#define HANARE_CONTROL_DUMP 19U
/* `Control::DumpRange`. */
#define HANARE_CONTROL_DUMP_RANGE 20U
/* `Control::DumpThread`. */
#define HANARE_CONTROL_DUMP_THREAD 21U
/* `Control::Trap`. */
#define HANARE_CONTROL_TRAP 22U
/* `Control::MapPart`. */
#define HANARE_CONTROL_MAP_PART 23U
/* `Control::Server`. */
#define HANARE_CONTROL_SERVER 24U
/* `Control::Member`. */
#define HANARE_CONTROL_MEMBER 25U
/* `Control::Eventfd`. */
#define HANARE_CONTROL_EVENTFD 26U
/*
 * `Control::Execed`: start_code, end_code, start_data, end_data, start_brk, brk, start_stack,
 * arg_start, arg_end, env_start, env_end, address and bytes of auxv.
 */
#define HANARE_EXECED_WORDS 13
/* `Control::Rights`: for the addresses of a program and its AT_RANDOM. */
#define HANARE_RANDOM_BYTES 32
/* `Control::Rights`: the program's rights are others than before. */
#define HANARE_RIGHTS_CHANGED (1LL)
/* `Control::Rights`: the program has more rights than its caller (AT_SECURE). */
#define HANARE_RIGHTS_SECURE (2LL)
/* `Control::Filter`: bytes of a part, at most. */
#define HANARE_FILTER_PART 4096
/* `Control::StartFailed`: opening or reading the file itself failed. */
#define HANARE_START_FAILED_FILE 0ULL
/* The interpreter (`#!` or ELF) was not found or is bad. */
#define HANARE_START_FAILED_INTERPRETER 1ULL
/* Not a program this machine can run. */
#define HANARE_START_FAILED_FORMAT 2ULL
/* No memory. */
#define HANARE_START_FAILED_MEMORY 3ULL
/* `Mirror::Default` as a word. */
#define HANARE_MIRROR_DEFAULT 0ULL
/* `Mirror::Ignore` as a word. */
#define HANARE_MIRROR_IGNORE 1ULL
/* `Mirror::Forward` as a word. */
#define HANARE_MIRROR_FORWARD 2ULL

/* ---- start ---- */

/*
 * The start block: what a new program is started with, written by the proxy at
 * `crate::layout::START_BASE` before `IOCTL_START`.
 *
 * The header is followed, at `strings_offset`, by zero-terminated strings: the
 * path of the program, then `argc` arguments, then `envc` environment strings.
 * The LWK checks every count and length against `total_size`. The ids of process and user are not
 * in the block: the module says them when the space opens (`REQUEST_SPACE_OPEN`).
 */
/* No address space randomisation (personality ADDR_NO_RANDOMIZE). */
#define HANARE_START_NO_RANDOM 1ULL
/* Exit of the program is reported with the LWK's counters on stderr. */
#define HANARE_START_STATS 2ULL
/* Arguments of the program's calls are copied, whatever is usual in the instance. */
#define HANARE_START_COPIED 4ULL
/* Arguments of the program's calls are mapped, whatever is usual in the instance. */
#define HANARE_START_MAPPED 8ULL
/* The program's calls go by the request box where they may, whatever the instance says. */
#define HANARE_START_BOX 16ULL
/* The program's calls go to each thread's own worker, whatever the instance says. */
#define HANARE_START_DIRECT 32ULL
/*
 * The program's calls go by the request box while it has more threads than servers, whatever the
 * instance says.
 */
#define HANARE_START_AUTO 64ULL
/* A native task keeps a pooled proxy from the beginning. */
#define HANARE_START_KEEPS 128ULL

/* Header of the start block. */
struct hanare_start_block {
	/* `crate::MAGIC`. */
	__u64 magic;
	/* `crate::VERSION` of the proxy. */
	__u32 version;
	/* Offset of the first string from the start of the block. */
	__u32 strings_offset;
	/* Bytes of the whole block. */
	__u64 total_size;
	/* Number of arguments, of environment strings. */
	__u32 argc;
	/* Number of strings of the environment. */
	__u32 envc;
	/* 1 if the proxy was started with AT_SECURE. */
	__u32 secure;
	/*
	 * The descriptor of `/dev/hanare` in the proxy; the LWK keeps the
	 * application from closing it.
	 */
	__u32 control_fd;
	/* Blocked signals and ignored signals inherited (bit n-1 = signal n). */
	__u64 sigmask;
	/* Signals that are ignored. */
	__u64 sigignore;
	/* RLIMIT_STACK soft and hard of the caller (before the launcher changed it). */
	__u64 stack_soft;
	/* Hard RLIMIT_STACK. */
	__u64 stack_hard;
	/* RLIMIT_AS, RLIMIT_DATA soft. */
	__u64 as_soft;
	/* Soft RLIMIT_DATA. */
	__u64 data_soft;
	/* Random bytes for AT_RANDOM and address space layout. */
	__u8 random[32];
	/* Linux' AT_HWCAP, AT_HWCAP2, AT_CLKTCK, AT_MINSIGSTKSZ of the proxy. */
	__u64 hwcap;
	/* AT_HWCAP2. */
	__u64 hwcap2;
	/* AT_CLKTCK. */
	__u64 clktck;
	/* `START_*` flags. */
	__u64 flags;
	/* RLIMIT_CPU soft and hard, seconds. */
	__u64 cpu_soft;
	/* Hard RLIMIT_CPU. */
	__u64 cpu_hard;
};

/* ---- info ---- */

/*
 * Questions of the module to the LWK about what it shows: processes, threads, mappings,
 * memory (`REQUEST_INFO`). For `/proc` as LWK programs see it, and `hanare ps`.
 *
 * `args[0]` = `INFO_*`. The answer is in `pages`: as many structures of the kind
 * as `count` words hold.
 */
/*
 * One `ProcessInfo` of `space`; args: [1] = thread id that its thread part is
 * about, or 0: the first thread. -ESRCH: no such thread.
 */
#define HANARE_INFO_PROCESS 1ULL
/*
 * `VmaInfo`s of `space` from address args[1] on; args: [2] = 1: with what is
 * resident. Answer: args[1] = address to go on from, 0: that was the last.
 */
#define HANARE_INFO_VMAS 2ULL
/*
 * `ThreadInfo`s of `space`, the newest ones first; args: [1] = 0, or where to go on, [2] = the
 * id of the process, or of a thread of it, or 0: the first process. Answer: args[1] = where to go
 * on. A thread may be told of twice where another one has ended meanwhile; no living thread is
 * left out. An answer without threads ends the list.
 */
#define HANARE_INFO_THREADS 3ULL
/*
 * Memory; args: [1] = node, or `NODE_ANY`. Answer args: [1] = total bytes,
 * [2] = free bytes, [3] = bytes in quarantine.
 */
#define HANARE_INFO_MEMORY 4ULL
/* A `NumaInfo` of `space` for the mapping at address args[1]. */
#define HANARE_INFO_NUMA 5ULL
/*
 * Entries of `/proc/PID/pagemap` for the pages of `space` from address args[1] on, to args[2] at
 * most. Answer: args[1] = the address to go on from; `pages`: runs of pages, one behind the other
 * (`PAGEMAP_RUN_SHIFT`).
 */
#define HANARE_INFO_PAGEMAP 6ULL
/*
 * Not shown but done: `/proc/PID/clear_refs` of `space`, args[1] = the number written to it
 * (1..=5). Answer: args[1] = 1: Linux has pages of it which it has to forget now, so that a write
 * or access of its own is seen.
 */
#define HANARE_INFO_CLEAR_REFS 7ULL
/*
 * After `INFO_CLEAR_REFS` with 4, when Linux has forgotten all pages of `space`: those that it
 * could write to, from address args[1] on. Answer: args[1] = where to go on, 0: that was all;
 * `pages`: for each its address, and its frame | pages of 4 KiB - 1.
 */
#define HANARE_INFO_WRITTEN_BY_LINUX 8ULL
/* The page of `space` at address args[1] is soft-dirty: a device may write to it still. */
#define HANARE_INFO_SOFT_DIRTY 9ULL
/*
 * Call in which the thread with id args[1] of `space` waits. Answer: `pages`: number of the system
 * call, or -1, its six arguments, stack pointer, instruction pointer; nothing: it runs, or could.
 * -ESRCH: no such thread.
 */
#define HANARE_INFO_CALL 10ULL
/*
 * A run of pages in an answer to `INFO_PAGEMAP`: the entry of the first one, and here the number
 * of the others. If they are present, each has the frame behind the last one's.
 */
#define HANARE_PAGEMAP_RUN_SHIFT 40U
/* Most pages of a run. */
#define HANARE_PAGEMAP_RUN_MAX 0x8000ULL
/*
 * In an entry: soft-dirty; mapped by no other process; of a file or shared; paged out, or lost;
 * present. As Linux has them.
 */
#define HANARE_PAGEMAP_SOFT_DIRTY 0x80000000000000ULL
/* In an entry: exclusive: no other process has it mapped. */
#define HANARE_PAGEMAP_EXCLUSIVE 0x100000000000000ULL
/* In an entry: of a file, or shared. */
#define HANARE_PAGEMAP_FILE 0x2000000000000000ULL
/* In an entry: paged out, or lost. */
#define HANARE_PAGEMAP_SWAP 0x4000000000000000ULL
/* In an entry: present. */
#define HANARE_PAGEMAP_PRESENT 0x8000000000000000ULL
/* In an entry, for the module: no page is there, and a table for 2 MiB of pages is. */
#define HANARE_PAGEMAP_TABLE 0x200000000000000ULL
/*
 * In an entry, for the module: no mapping of pages is there; a part of a large page; Linux knows
 * what is there.
 */
#define HANARE_PAGEMAP_UNMAPPED 0x400000000000000ULL
/* In an entry, for the module: a part of a large page. */
#define HANARE_PAGEMAP_LARGE 0x800000000000000ULL
/* In an entry, for the module: Linux knows what is there. */
#define HANARE_PAGEMAP_LINUX 0x1000000000000000ULL
/* `INFO_MEMORY`: all nodes. */
#define HANARE_NODE_ANY 0xffffffffULL
/* The thread waits for an answer, or for something of the LWK's. */
#define HANARE_LINK_WAITS 256U
/* The thread has said that it sleeps until it is rung. */
#define HANARE_LINK_SLEEPS 512U
/* The thread's worker has said that it sleeps until it is rung. */
#define HANARE_LINK_WORKER_SLEEPS 1024U
/* The thread waits. */
#define HANARE_THREAD_WAITS 0U
/* The thread runs, or could; its worker sleeps. */
#define HANARE_THREAD_RUNS 1U
/* The thread waits until the child that it made has begun. */
#define HANARE_THREAD_CREATES 2U
/* The thread waits until its child has left its memory (vfork). */
#define HANARE_THREAD_VFORKS 3U
/* The thread replaces the program and waits until the other threads have ended. */
#define HANARE_THREAD_REPLACES 4U
/* The thread waits until Linux has made its execve. */
#define HANARE_THREAD_DEPARTS 5U
/*
 * The thread is the first one of a new program and waits until the threads of the old one have
 * ended.
 */
#define HANARE_THREAD_ARRIVES 6U
/* The thread makes a core dump and waits until the other threads are parked. */
#define HANARE_THREAD_DUMPS 7U
/* The thread is parked for a core dump. */
#define HANARE_THREAD_PARKED 8U
/* The thread has called exit(2), or has ended; other threads go on. */
#define HANARE_THREAD_EXITED 9U
/* The thread waits until Linux has ended its process. */
#define HANARE_THREAD_LAST 10U
/* Words of a set of NUMA nodes, bit n of word n / 64. */
#define HANARE_NODE_WORDS 16
/* Nodes of which a `NumaInfo` tells. */
#define HANARE_NUMA_NODES 40
/* In `NumaInfo::pages`: the node, above the number of pages. */
#define HANARE_NUMA_NODE_SHIFT 48U
/* May be read, written, executed. */
#define HANARE_VMA_READ 1ULL
/* May be written. */
#define HANARE_VMA_WRITE 2ULL
/* May be executed. */
#define HANARE_VMA_EXEC 4ULL
/* Shared. */
#define HANARE_VMA_SHARED 8ULL
/* The first thread's stack. */
#define HANARE_VMA_STACK 16ULL
/* The heap of `brk`. */
#define HANARE_VMA_HEAP 32ULL
/* The vDSO. */
#define HANARE_VMA_VDSO 64ULL
/* The vDSO's data. */
#define HANARE_VMA_VVAR 128ULL
/* A mapping of Linux' own in the proxy. */
#define HANARE_VMA_LINUX 256ULL
/* Locked in memory. */
#define HANARE_VMA_LOCKED 512ULL
/* Grows downwards. */
#define HANARE_VMA_GROWS_DOWN 1024ULL
/* Left out of core dumps; not inherited; wiped in a child; large pages wanted, not wanted. */
#define HANARE_VMA_DONT_DUMP 2048ULL
/* `MADV_DONTFORK`. */
#define HANARE_VMA_DONT_FORK 4096ULL
/* `MADV_WIPEONFORK`. */
#define HANARE_VMA_WIPE_ON_FORK 8192ULL
/* `MADV_HUGEPAGE`. */
#define HANARE_VMA_HUGE 0x4000ULL
/* `MADV_NOHUGEPAGE`. */
#define HANARE_VMA_NO_HUGE 0x8000ULL
/* `MADV_SEQUENTIAL`, `MADV_RANDOM`, `MLOCK_ONFAULT`, `MAP_NORESERVE`, `MAP_HUGETLB`. */
#define HANARE_VMA_SEQUENTIAL 0x10000ULL
/* `MADV_RANDOM`. */
#define HANARE_VMA_RANDOM 0x20000ULL
/* `MLOCK_ONFAULT`. */
#define HANARE_VMA_LOCK_ON_FAULT 0x40000ULL
/* `MAP_NORESERVE`. */
#define HANARE_VMA_NO_RESERVE 0x80000ULL
/* `MAP_HUGETLB`. */
#define HANARE_VMA_HUGETLB 0x100000ULL
/* Memory is promised to it. */
#define HANARE_VMA_ACCOUNTED 0x200000ULL
/* Soft-dirty bits were cleared since it was made. */
#define HANARE_VMA_SOFT_CLEAN 0x400000ULL
/* Under construction. */
#define HANARE_INSTANCE_CREATED 0U
/* Starting. */
#define HANARE_INSTANCE_BOOTING 1U
/* Serving. */
#define HANARE_INSTANCE_RUNNING 2U
/* The LWK panicked; log readable, shutdown possible. */
#define HANARE_INSTANCE_PANICKED 3U
/* Going down. */
#define HANARE_INSTANCE_STOPPING 4U
/* State of an instance that did not answer a ping in time. */
#define HANARE_INSTANCE_HUNG 5U

/* A thread. */
struct hanare_thread_info {
	/* Linux thread id of its worker, in the proxy's namespace. */
	__u32 tid;
	/* `THREAD_*`. */
	__u32 state;
	/* Index in the instance of the CPU it runs on or ran on last. */
	__u32 cpu;
	/* seccomp: mode as PR_GET_SECCOMP has it | number of filters << 2. */
	__u32 seccomp;
	/* Time in user mode and in the LWK, and waiting for Linux with the CPU kept, ns. */
	__u64 user_ns;
	/* Time in the LWK, and waiting for Linux with the CPU kept, ns. */
	__u64 system_ns;
	/* Calls that Linux served. */
	__u64 delegated_calls;
	/* Times it gave the CPU away to wait, and times it lost it to another thread. */
	__u64 voluntary_switches;
	/* Times another thread got the CPU although it could go on. */
	__u64 involuntary_switches;
	/* Page faults it had. */
	__u64 faults;
	/*
	 * Number of the system call, or of the control request, that its slot holds or held last.
	 */
	__u32 call;
	/* State of the thread's slot (`SLOT_*`) | `LINK_*`: its link with its worker. */
	__u32 link;
	/*
	 * Linux thread id of the server of the request box that executes the thread's call, in the
	 * proxy's namespace; 0: none does.
	 */
	__u32 server;
	/* Zero. */
	__u32 reserved;
};

/* A process, and one of its threads. */
struct hanare_process_info {
	/* The thread. */
	struct hanare_thread_info thread;
	/* User and system time of all threads, ended ones too, ns. */
	__u64 user_ns;
	/* Time in the LWK, and waiting for Linux with the CPU kept, ns. */
	__u64 system_ns;
	/* Calls that Linux served, all threads. */
	__u64 delegated_calls;
	/* Living threads. */
	__u64 threads;
	/* Bytes mapped now and at most. */
	__u64 mapped;
	/* Most bytes that were mapped. */
	__u64 mapped_peak;
	/* Bytes resident now and at most. */
	__u64 resident;
	/* Most bytes that were resident. */
	__u64 resident_peak;
	/* Resident bytes of files and of mappings shared with Linux. */
	__u64 resident_file;
	/* Resident bytes of shared memory without a file. */
	__u64 resident_shared;
	/* Bytes of private writable mappings without the stack. */
	__u64 data;
	/* Bytes of the stack. */
	__u64 stack;
	/* Bytes of executable mappings of the program and of others. */
	__u64 code;
	/* Bytes of libraries. */
	__u64 library;
	/* Bytes of page tables. */
	__u64 tables;
	/* Bytes locked. */
	__u64 locked;
	/* Signals (bit n-1 = signal n) pending for the process and the thread. */
	__u64 shared_pending;
	/* Signals pending for the thread. */
	__u64 pending;
	/* Signals the thread blocks. */
	__u64 blocked;
	/* Signals ignored and caught. */
	__u64 ignored;
	/* Signals that have a handler. */
	__u64 caught;
	/* CPUs of the instance on which the thread may run; the full set: none were chosen. */
	struct hanare_cpu_set allowed;
	/* Page faults of all threads, ended ones too, and of children it has waited for. */
	__u64 faults;
	/* Page faults of its ended children. */
	__u64 children_faults;
	/* RLIMIT_AS, bytes; hard 0: as Linux says. */
	__u64 space_soft;
	/* Hard RLIMIT_AS, bytes; 0: as Linux says. */
	__u64 space_hard;
};

/* A mapping. */
struct hanare_vma_info {
	/* First byte. */
	__u64 start;
	/* End (exclusive). */
	__u64 end;
	/* `VMA_*`. */
	__u64 flags;
	/* Offset in the file. */
	__u64 offset;
	/* File id in the module, or 0. */
	__u64 file;
	/* Resident pages of 4 KiB: all, written (if private: the process' own), in large pages. */
	__u32 resident;
	/* Resident pages that were written. */
	__u32 written;
	/* Resident pages that are part of large ones. */
	__u32 large;
	/* Resident pages that others have mapped, too. */
	__u32 shared;
	/* Pages of `shared` that were written. */
	__u32 shared_written;
	/* Resident KiB, each page divided by the number of those that have it. */
	__u32 proportional_kib;
	/* Resident pages that were accessed since `clear_refs` said otherwise. */
	__u32 referenced;
	/* Zero. */
	__u32 reserved;
};

/* A part of a mapping, from the address that was asked for on, that has one NUMA policy. */
struct hanare_numa_info {
	/* End (exclusive). */
	__u64 end;
	/* The policy, or that of the first thread: `MPOL_*` with its flags, and nodes. */
	__u64 mode;
	/* Nodes of the policy, a bit each. */
	__u64 nodes[HANARE_NODE_WORDS];
	/* Resident pages of 4 KiB that were written (if private: the process' own). */
	__u64 written;
	/*
	 * Resident pages of 4 KiB of the instance's memory by node: `NUMA_NODE_SHIFT`. 0: no
	 * more.
	 */
	__u64 pages[HANARE_NUMA_NODES];
};

/* ---- requestbox ---- */

/*
 * The request box of a process: which of its slots hold a call that any of its *servers* may
 * execute. The call itself stays in the slot, in the state
 * `SLOT_BOXED`(crate::slot::SLOT_BOXED).
 *
 * A process may have several, for calls of different kinds, each with servers of its own.
 *
 * The box lies in the control window at `BOX_BASE`(crate::layout::BOX_BASE), so a proxy may
 * write anything there: the LWK reads there which server to ring, which it checks, and whether a
 * call that it takes back was still there. A wrong answer to either harms the proxy's own process
 * only.
 */
/*
 * Slots that have a place in the box: the lowest ones. Calls of other threads go to their own
 * workers.
 */
#define HANARE_BOX_SLOTS 512U
/* Words of `RequestBox::waiting`. */
#define HANARE_BOX_WORDS 8
/*
 * Boxes of a process, one behind the other in the page. Which calls go by which says
 * `core/src/link/kinds.rs`.
 */
#define HANARE_BOXES 3
/* The box for all calls whose kind has none of its own. */
#define HANARE_BOX_OTHER 0U
/* Number of the box for calls about files. */
#define HANARE_BOX_FILES 1U
/* Number of the box for calls about sockets. */
#define HANARE_BOX_NET 2U
/* Most servers of a box. */
#define HANARE_SERVERS_MAX 8U
/* `SERVERS_MAX`, for arrays. */
#define HANARE_BOX_SERVERS 8
/*
 * Most servers of a process: server `n` is the one with the number `n % SERVERS_MAX` of box
 * `n / SERVERS_MAX`.
 */
#define HANARE_ALL_SERVERS 24

/* A cache line for each kind of word. */
struct hanare_request_box {
	/*
	 * Bit `n`: server `n` sleeps, or is about to. The server sets the bit. The side that clears
	 * it rings the server, or is the server.
	 */
	__u64 idle;
	/*
	 * For each server the slot for whose call it was rung, plus 1: it looks there first.
	 * Written by the LWK before it rings.
	 */
	__u32 first[HANARE_BOX_SERVERS];
	/* Zero, up to 64 bytes. */
	__u64 reserved0[3];
	/*
	 * For each server the doorbell next to where it sleeps, as in
	 * `Slot::doorbell`(crate::slot::Slot::doorbell). Written by the server.
	 */
	__u32 doorbells[HANARE_BOX_SERVERS];
	/* Zero, up to 128 bytes. */
	__u64 reserved1[4];
	/*
	 * Bit `n % 64` of word `n / 64`: the call in slot `n` waits. Set by the LWK. The side that
	 * clears it owns the call: a server executes it, the slot's worker or the LWK takes it
	 * back.
	 */
	__u64 waiting[HANARE_BOX_WORDS];
} __attribute__((aligned(64)));

/* How delegated calls of an instance reach the side that executes them, all CPUs together. */
struct hanare_dispatch_status {
	/* Out: `DISPATCH_*` of `crate::boot`. */
	__u32 way;
	/* Out: most servers of a process' box `BOX_OTHER`. */
	__u32 servers;
	/* Out: bit `n`: calls of the kind with the number `n` have a box of their own. */
	__u32 boxes;
	/* Zero. */
	__u32 reserved;
	/* Out: calls that servers have executed. */
	__u64 boxed_calls;
	/* Out: calls that were taken out of a box again, for their threads' own workers. */
	__u64 unboxed_calls;
	/* Out: servers that were started. */
	__u64 servers_made;
	/* Out: calls of native tasks that pooled proxies have executed. */
	__u64 packed_calls;
	/* Out: pooled proxies that have come. */
	__u64 members_made;
};

/* ---- text ---- */

/* Texts in structures, each ended by a zero. */
/* Bytes of an instance name with its zero: letters, digits, `-`, `_`, `.`. */
#define HANARE_NAME_SIZE 32
/* Bytes of a message with its zero. */
#define HANARE_MESSAGE_SIZE 200

/* ---- manage ---- */

/*
 * Management of instances, and looks at them: arguments of the ioctls of a descriptor without a
 * space (`crate::ioctl`).
 */
/* Memory that stays with Linux when some is reserved. */
#define HANARE_MEMORY_KEPT_BYTES 0x4000000ULL

/* `IOCTL_INFO`: the module's version, and the number of instances. Any user may ask. */
struct hanare_info {
	/* Out: `crate::MAGIC`. */
	__u64 magic;
	/* Out: `crate::VERSION` of the module. */
	__u32 version;
	/* Out: number of instances. */
	__u32 instances;
};

/*
 * `IOCTL_CREATE`: begin an instance; the descriptor becomes its builder.
 * EEXIST: name in use. EINVAL: bad name.
 */
struct hanare_create {
	/* In: name. */
	__u8 name[HANARE_NAME_SIZE];
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_ADD_MEMORY`: reserve memory for the instance under construction. May be
 * called many times (the command does so piece by piece, to show progress).
 * ENOMEM: nothing of this call was kept. EINVAL: no such node.
 */
struct hanare_add_memory {
	/* In: bytes, multiple of 2 MiB. */
	__u64 bytes;
	/* In: NUMA node, or -1: the nodes of its CPUs, any if none is given yet. */
	__s32 node;
	/* Zero. */
	__u32 reserved;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_ADD_CPU`: take a CPU from Linux (offline it). EINVAL: unknown, boot
 * CPU, or last of Linux; EBUSY: owned by another instance or offline.
 * With `check` set it only checks, so that nothing is taken before all is known good.
 */
struct hanare_add_cpu {
	/* In: Linux' CPU number. */
	__u32 cpu;
	/* In: 1: only check. */
	__u32 check;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_ADD_DEVICE`: give a driver of the LWK its part of a device, a PCI function that a driver
 * of Linux' has. EINVAL: the descriptor is no device, or none of that function. ENODEV: there is
 * no such function, or no driver of Linux' has it. EBUSY: it was given before. ENOSPC: too many.
 * EOPNOTSUPP: the controller has no queues for the LWK.
 */
struct hanare_add_device {
	/* In: zero-terminated name of the LWK's driver. */
	__u8 driver[HANARE_GRANT_NAME_BYTES];
	/* In: descriptor of the device's file, by which programs have it. */
	__u32 descriptor;
	/* In: address of the function: PCI domain. */
	__u32 domain;
	/* In: its bus. */
	__u32 bus;
	/* In: its number there: device << 3 | function. */
	__u32 function;
	/*
	 * In: how many pairs of queues Linux' driver makes at most if it is an NVMe controller, of
	 * which the LWK is to have some; 0: it is none.
	 */
	__u32 queues_of_linux;
	/* Zero. */
	__u32 reserved;
	/*
	 * In: address of 72 bytes of the caller's for a command to the controller (`struct
	 * nvme_passthru_cmd`), which are written to; unused where it is none.
	 */
	__u64 command;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_BOOT`: load the image and start every CPU. The instance then lives on
 * without the descriptor. ENOEXEC: not an LWK image, or of another version.
 * ETIMEDOUT: a CPU did not answer (named); the instance stays under construction.
 */
struct hanare_boot {
	/* In: the ELF image in the caller's memory. */
	__u64 image;
	/* In: its bytes. */
	__u64 image_size;
	/* In: time each CPU may take to answer, ms (0: 20 000); six times that to come online. */
	__u32 timeout_ms;
	/* Zero. */
	__u32 reserved;
	/*
	 * Out: ns spent loading the image, in the first CPU's start until it is
	 * online, in the others'.
	 */
	__u64 load_ns;
	/* Time until the first CPU was online, ns. */
	__u64 first_cpu_ns;
	/* Time until the other CPUs were online, ns. */
	__u64 other_cpus_ns;
	/* In: boot options. */
	__u8 cmdline[256];
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_SHUTDOWN`: stop an instance; CPUs and memory go back to Linux.
 * EBUSY: programs are running on it (their number is named) and `force` is not set.
 */
struct hanare_shutdown {
	/* In: name. */
	__u8 name[HANARE_NAME_SIZE];
	/* In: 1: kill the programs running there. */
	__u32 force;
	/* In: time each CPU may take to park before INIT alone stops it, ms (0: 5000). */
	__u32 timeout_ms;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/* Per-CPU part of `Status`. */
struct hanare_cpu_status {
	/* Linux' number of the CPU. */
	__u32 linux_cpu;
	/* `CPU_*` of `crate::boot`. */
	__u32 state;
	/* Space running, or 0. */
	__u32 space;
	/* NUMA node. */
	__u32 node;
	/* Heartbeat of the CPU, as in `crate::boot::CpuShared`. */
	__u64 heartbeat;
	/* Interrupts taken. */
	__u64 interrupts;
	/* Exceptions taken. */
	__u64 exceptions;
	/* Page faults. */
	__u64 page_faults;
	/* Calls served locally. */
	__u64 local_calls;
	/* Calls delegated. */
	__u64 delegated_calls;
	/* Time without a thread to run since boot, ns. */
	__u64 idle_ns;
	/* Interrupts by vector, see `crate::boot::CpuShared::interrupts_by`. */
	__u32 interrupts_by[HANARE_VECTORS];
	/* Exceptions by vector. */
	__u32 exceptions_by[HANARE_EXCEPTIONS];
};

/*
 * `IOCTL_STATUS`: one instance, by index (0..) or by name.
 * ENOENT: no such instance (end of the list).
 */
struct hanare_status {
	/* In: name, or empty to use `index`. Out: name. */
	__u8 name[HANARE_NAME_SIZE];
	/* In: see `name`. */
	__u32 index;
	/* Out: `INSTANCE_*` of `crate::info`. */
	__u32 state;
	/* Out: live spaces. */
	__u32 spaces;
	/* In: entries `cpus` has room for. Out: CPUs of the instance. */
	__u32 cpu_count;
	/* Out: bytes of memory reserved, and how many chunks. */
	__u64 memory_bytes;
	/* Chunks of memory. */
	__u32 chunks;
	/* In: 1: ping every CPU first (up to 1 s each). */
	__u32 ping;
	/* Out: ns since boot. */
	__u64 uptime_ns;
	/* Out: slowest ping answer in ns (0: not asked). */
	__u64 ping_ns;
	/* Out: bytes written to the log so far. */
	__u64 log_head;
	/* In: address of an array of `CpuStatus`, or 0. */
	__u64 cpus;
	/* Out: bytes per NUMA node (first 8 nodes). */
	__u64 node_bytes[8];
	/* How arguments of calls reach Linux. */
	struct hanare_copied_status copied;
	/* How delegated calls reach the side that executes them. */
	struct hanare_dispatch_status dispatch;
	/* Devices of which its drivers have a part. */
	struct hanare_grant_status devices[HANARE_GRANTS_MAX];
};

/* `IOCTL_LOG`: read the kernel log. */
struct hanare_log {
	/* In: name. */
	__u8 name[HANARE_NAME_SIZE];
	/*
	 * In: position (bytes since boot). Out: position after what was read; text
	 * that was overwritten is skipped.
	 */
	__u64 position;
	/* In: buffer address. */
	__u64 buffer;
	/* In: bytes of the buffer. Out: bytes read. */
	__u64 size;
};

/* `IOCTL_DEBUG`: a `DEBUG_*` request to instance CPU `cpu`. Needs CAP_SYS_ADMIN. */
struct hanare_debug {
	/* In: name. */
	__u8 name[HANARE_NAME_SIZE];
	/* In: CPU index in the instance. */
	__u32 cpu;
	/* In: `DEBUG_*`. */
	__u32 op;
	/* In: args from [1] on of the request. Out: the answer's args. */
	__u64 args[4];
	/* Out: what `DEBUG_MEMORY` and `DEBUG_LEDGER` answer in `pages`. */
	__u64 words[HANARE_LEDGER_WORDS];
};

/* ---- ioctl ---- */

/*
 * The ioctls of `/dev/hanare`.
 *
 * An open descriptor has one role, given by its first call: *manager* (boot, status; no role
 * needed), *builder* (`IOCTL_CREATE`: an instance under construction, released again if the
 * descriptor is closed before `IOCTL_BOOT` succeeds), or *space* (`IOCTL_ATTACH`: a proxy
 * process). Calls that change the partition need CAP_SYS_ADMIN. Every structure with a `message`
 * gets a sentence there when the call fails: what was wrong and what to do.
 */
/* Type byte of the ioctl numbers. */
#define HANARE_IOCTL_TYPE 72U
/*
 * Registers in `DumpThread`: r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi,
 * rdi, rip, rflags, rsp.
 */
#define HANARE_DUMP_THREAD_REGS 18
/* `Opened::shows`: the file shows the LWK's machine. */
#define HANARE_OPENED_OURS 1U
/* `Opened::shows`: a device that is none to an LWK program. */
#define HANARE_OPENED_NOTHING 2U
/* Most threads one `IOCTL_THREADS` tells of. */
#define HANARE_THREADS_AT_ONCE 8
/* In `EndStatus::cpu`: none. */
#define HANARE_END_CPU_NONE 0xffffffffU
/* Ioctl with `Info`. */
#define HANARE_IOCTL_INFO 0xc0104800U
/* Ioctl with `Create`. */
#define HANARE_IOCTL_CREATE 0xc0e84801U
/* Ioctl with `AddMemory`. */
#define HANARE_IOCTL_ADD_MEMORY 0xc0d84802U
/* Ioctl with `AddCpu`. */
#define HANARE_IOCTL_ADD_CPU 0xc0d04803U
/* Ioctl with `AddDevice`. */
#define HANARE_IOCTL_ADD_DEVICE 0xc0f8482eU
/* Ioctl with `Boot`. */
#define HANARE_IOCTL_BOOT 0xc1f84804U
/* Ioctl with `Shutdown`. */
#define HANARE_IOCTL_SHUTDOWN 0xc0f04805U
/* Ioctl with `Status`. */
#define HANARE_IOCTL_STATUS 0xc1e04806U
/* Ioctl with `Log`. */
#define HANARE_IOCTL_LOG 0xc0384807U
/* Ioctl with `Debug`. */
#define HANARE_IOCTL_DEBUG 0xc1f84808U
/* Ioctl with `Attach`. */
#define HANARE_IOCTL_ATTACH 0xc3004810U
/* Ioctl with `PoolMake`. */
#define HANARE_IOCTL_POOL 0xc0f04809U
/* No argument: start the program of the start block (`REQUEST_SPACE_START`). */
#define HANARE_IOCTL_START 0x4811U
/*
 * The worker of a slot sleeps until the LWK rings it. The argument is a number, so that nothing is
 * copied: the slot's index, and `WAIT_RING_SHIFT` bits up the bell that is rung first
 * (`IOCTL_RING`), plus 1; 0: none. Returns the doorbell of the CPU where the worker goes on, plus
 * 1, or 0; see `crate::slot::Slot::doorbell`. EINVAL: there is no such slot or bell; EINTR: a
 * signal, after the bell; EIO: the LWK died or goes down.
 */
#define HANARE_IOCTL_WAIT 0x4812U
/*
 * Rings the bell that is the argument, by its index in the instance. Nothing happens if it is not
 * one of the space's, or has been rung as often as its thread went to sleep. EINVAL: there is no
 * such bell; EIO: as above.
 */
#define HANARE_IOCTL_RING 0x4813U
/*
 * A thread of the calling process serves a slot. The argument is the slot's bell, and
 * `WORKER_SHIFT` bits up the thread's id, as the caller sees it. The module tells the LWK the
 * ids where no proxy can write (`crate::boot::Bell::worker`). EINVAL: there is no such bell;
 * EPERM: it is another space's, or the LWK does not know the caller as a process of the space;
 * ESRCH: the process has no such thread.
 */
#define HANARE_IOCTL_WORKER 0x482dU
/* Place of the thread's id in the argument of `IOCTL_WORKER`. */
#define HANARE_WORKER_SHIFT 32U
/* Place of the slot to ring in the argument of `IOCTL_WAIT`. */
#define HANARE_WAIT_RING_SHIFT 32U
/* Ioctl with `Serve`. */
#define HANARE_IOCTL_SERVE 0xc0084814U
/* Ioctl with `Signal`. */
#define HANARE_IOCTL_SIGNAL 0xc0884815U
/* Ioctl with `Usage`. */
#define HANARE_IOCTL_USAGE 0xc0204816U
/* No argument: what the caller maps from now on goes into its core dump. */
#define HANARE_IOCTL_DUMP 0x4833U
/* Ioctl with `DumpThread`. */
#define HANARE_IOCTL_DUMP_THREAD 0xc1184834U
/* Ioctl with `Child`. */
#define HANARE_IOCTL_CHILD 0xc0384817U
/* Ioctl with `Observe`. */
#define HANARE_IOCTL_OBSERVE 0xc0d04818U
/* Ioctl with `Observation`. */
#define HANARE_IOCTL_OBSERVATION 0xc2184819U
/* Ioctl with `TraceRead`. */
#define HANARE_IOCTL_TRACE_READ 0xc018481aU
/* Ioctl with `Opened`. */
#define HANARE_IOCTL_OPENED 0xc0104830U
/* Ioctl with `Listed`. */
#define HANARE_IOCTL_LISTED 0xc0184831U
/* Ioctl with `Execed`. */
#define HANARE_IOCTL_EXECED 0xc0284832U
/* Ioctl with `Rights`. */
#define HANARE_IOCTL_RIGHTS 0xc0104836U
/* Ioctl with `Succeed`. */
#define HANARE_IOCTL_SUCCEED 0xc0084837U
/* Ioctl with `Share`. */
#define HANARE_IOCTL_SHARE 0xc0084835U
/* Ioctl with `Last`. */
#define HANARE_IOCTL_LAST 0xc008483cU
/* Ioctl with `Send`. */
#define HANARE_IOCTL_SEND 0xc090483dU
/* Ioctl with `Copy`. */
#define HANARE_IOCTL_COPY 0xc018483eU
/* Ioctl with `Forward`. */
#define HANARE_IOCTL_FORWARD 0xc020483fU
/*
 * No argument: the caller may execute what its program may (`crate::utility`). EPERM: the space
 * is another process'.
 */
#define HANARE_IOCTL_EXECUTE 0x482aU
/*
 * Whether the caller, a pooled proxy, may make calls of the native task whose space is the
 * argument: either may have confined itself since it joined the pool. EPERM: the one may what the
 * other may not; ESRCH: the task has ended; EINVAL: the caller is no pooled proxy.
 */
#define HANARE_IOCTL_SERVES 0x482cU
/* Ioctl with `Eventfd`(crate::utility::Eventfd). */
#define HANARE_IOCTL_EVENTFD 0xc008482bU
/* Ioctl with `ProcessStatus`. */
#define HANARE_IOCTL_PROCESS 0xc1c04828U
/* Ioctl with `Threads`. */
#define HANARE_IOCTL_THREADS 0xc2b04829U
/* Ioctl with `EndStatus`. */
#define HANARE_IOCTL_END 0xc040482dU

/*
 * `IOCTL_ATTACH`: the descriptor becomes a space of a running instance.
 * ENOENT: no such instance; ENODEV: it is not running, or does not answer. When it dies,
 * every attached process gets SIGBUS (BUS_ADRERR, si_addr = `CONTROL_BASE`).
 */
struct hanare_attach {
	/* In: name; empty: the only instance, or the one called `default`. Out: its name. */
	__u8 name[HANARE_NAME_SIZE];
	/*
	 * In: CPUs of Linux on which it may run (must belong to the instance); empty: the whole
	 * instance.
	 */
	struct hanare_linux_cpu_set cpus;
	/* Out: space id; the device's file offset is `space << 47 | address`. */
	__u32 space;
	/* Out: number of CPUs it may run on. */
	__u32 cpu_count;
	/* In: number of the descriptor, which no program is shown. */
	__u32 fd;
	/* In: zero. Out: 1 if Linux counts events of the caller (`perf stat`). */
	__u32 counted;
	/* In: `ATTACH_*` of `crate::pooled`. */
	__u32 kind;
	/* In: descriptor of the pool, of all but `ATTACH_PROGRAM`; else 0. */
	__u32 pool_fd;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_SERVE`: run service `index` in the caller's context. EPERM: it is not of this space;
 * EINVAL: not ready.
 */
struct hanare_serve {
	/* In: service index. */
	__u32 index;
	/* Zero. */
	__u32 reserved;
};

/*
 * `IOCTL_SIGNAL`: tell the LWK of a signal that the worker of `slot` took. Returns when the LWK
 * has queued it. The worker blocks some from then on until it takes its next request
 * (`stays_blocked` in `abi/src/signal.rs`). `EAGAIN`: it was sent to the process, and the thread
 * blocks it, of which Linux has not been told yet, or has ended. The worker blocks it likewise,
 * and sends it to the process once more, so that Linux finds another thread that takes it.
 */
struct hanare_signal {
	/* In: signal number. */
	__u32 signal;
	/* In: slot. */
	__u32 slot;
	/* In: siginfo_t as the handler got it. */
	__u64 info[16];
};

/*
 * `IOCTL_LAST`: the caller ends by this signal's default action next, which its tracer has
 * seen: Linux does not stop it once more.
 */
struct hanare_last {
	/* In: signal number. */
	__u32 signal;
	/* Zero. */
	__u32 reserved;
};

/* `IOCTL_USAGE`: resource use of the caller's space; see `REQUEST_USAGE`. */
struct hanare_usage {
	/* Out: user and system time, ns. */
	__u64 user_ns;
	/* System time, ns. */
	__u64 system_ns;
	/* Out: resident bytes, peak. */
	__u64 resident_bytes;
	/* Most bytes that were resident. */
	__u64 peak_bytes;
};

/*
 * `IOCTL_CHILD`: by the child of a fork, or the proxy that `Control::Exec` has loaded again: the
 * inherited descriptor becomes that of a space of its own, child of `parent`. Where the descriptor
 * table is the parent's (CLONE_FILES), the descriptor stays as it is: it serves all processes that
 * have the table, each for the space that is its memory. EPERM: the descriptor does not serve
 * `parent`. ESRCH: that has ended, or knows no such token.
 */
struct hanare_child {
	/* In: token of `Control::Fork` or `Control::Exec`. */
	__u64 token;
	/* In: 1: of `Control::Exec`; 0: of `Control::Fork`. */
	__u32 program;
	/* In: 1: the program has more rights than its caller (AT_SECURE). */
	__u32 secure;
	/* In: file ids that move from the parent to the new space; 0: none. */
	__u64 files[3];
	/* In: id of the parent's space. */
	__u32 parent;
	/* In: 1: the caller has its parent's descriptor table; `Control::Fork` only. */
	__u32 shares_table;
	/* Out: space id. */
	__u32 space;
	/*
	 * Out: where the application's addresses are to be mapped, a bit for each part; 0:
	 * `Control::Remap` will say.
	 */
	__u32 parts;
};

/*
 * `IOCTL_DUMP_THREAD`: for a core dump the calling thread takes on these registers and
 * either dies of `signal`, whose action is the default, or, with 0, stays in the
 * call until another thread of the process does.
 */
struct hanare_dump_thread {
	/* In: signal number or 0. */
	__u32 signal;
	/* In: with a signal, how many other threads were told to stay, which is waited for. */
	__u32 others;
	/* In: registers. */
	__u64 regs[HANARE_DUMP_THREAD_REGS];
	/* In: siginfo_t. */
	__u64 info[16];
};

/*
 * `IOCTL_SEND`: sends a signal to a thread of the calling process, or to the process. A filter
 * of system calls could not tell a worker's own process from others of its user.
 * ESRCH: no such thread of it. EAGAIN: too many are pending.
 */
struct hanare_send {
	/* In: signal number. */
	__u32 signal;
	/*
	 * In: thread id, or 0: the process. It is pending there for any thread that does not block
	 * it.
	 */
	__u32 tid;
	/* In: 1: it was pending there before, and is older than what is pending now. */
	__u32 is_back;
	/* Zero. */
	__u32 reserved;
	/* In: siginfo_t. */
	__u64 info[16];
};

/* `IOCTL_COPY`: copies memory of the calling process, whether or not it may be touched. EFAULT. */
struct hanare_copy {
	/* In: address that the bytes come from. */
	__u64 from;
	/* In: address that the bytes go to. */
	__u64 to;
	/* In: how many bytes. */
	__u64 bytes;
};

/*
 * `IOCTL_FORWARD`: a handler for many signals of the caller's, as by sigaction(2). EINVAL:
 * SIGKILL, SIGSTOP.
 */
struct hanare_forward {
	/* In: the signals, a bit each, the first signal's lowest. */
	__u64 signals;
	/* In: those of them that get the handler though the process ignores them. */
	__u64 ignored_too;
	/* In: address of the handler. */
	__u64 handler;
	/* In: address that the handler returns to. */
	__u64 restorer;
};

/*
 * `IOCTL_OPENED`: descriptor `fd` was opened by the application. If it is a file of procfs or
 * sysfs that shows the machine or an LWK process, the answer is 1 in `shows`. With `replace` set,
 * `fd` is closed then, and `fd` of the answer is a descriptor that shows the LWK's machine
 * instead. Or `fd` is only closed: the LWK's machine has no such file (`ENOENT`), or the file is
 * about a thread that has ended, and the error is Linux'.
 */
struct hanare_opened {
	/* In: the descriptor. Out: the one instead. */
	__s32 fd;
	/* In: 1: give a descriptor instead that shows the LWK's machine. */
	__u32 replace;
	/* In: 1: the new descriptor is close-on-exec. */
	__u32 close_on_exec;
	/* Out: 0, or `OPENED_*`. */
	__u32 shows;
};

/*
 * `IOCTL_LISTED`: `getdents` of descriptor `fd` gave `bytes` at `buffer`: takes
 * out the names that an LWK program is not to see. Out: bytes left.
 */
struct hanare_listed {
	/* In: the directory. */
	__s32 fd;
	/* In: 1: entries of `getdents`, 0: of `getdents64`. */
	__u32 old;
	/* In: address of the entries. */
	__u64 buffer;
	/* In: bytes there. Out: bytes left. */
	__u64 bytes;
};

/* `IOCTL_SHARE`: the calling process is one of several that have the space (CLONE_VM). */
struct hanare_share {
	/* In: slot of its first thread. */
	__u32 slot;
	/* In: 1: it is new and begins; 0: its end is to be told, nothing else. */
	__u32 begin;
};

/*
 * `IOCTL_EXECED`: the caller's program is now file `file` of its space:
 * `/proc/PID/exe` says so, and descriptors that are close-on-exec are closed, but for
 * that of the space. -EACCES: not a file that the caller may execute.
 */
struct hanare_execed {
	/* In: file id of `SERVICE_PROGRAM_GET`, or 0: leave it as it is. */
	__u64 file;
	/*
	 * In: addresses of arguments and environment in the application's memory, for
	 * `/proc/PID/cmdline` and `environ` as LWK programs see them.
	 */
	__u64 arg_start;
	/* End of the arguments. */
	__u64 arg_end;
	/* Start of the environment. */
	__u64 env_start;
	/* End of the environment. */
	__u64 env_end;
};

/*
 * `IOCTL_RIGHTS`: a new program begins on the caller: its rights become what execve(2) makes them,
 * as far as none is more than before. EAGAIN: one would be, which only an execve(2) of Linux
 * gives; nothing has changed.
 */
struct hanare_rights {
	/* Out: 1: they are others than before. */
	__u32 changed;
	/* Out: 1: the program has more rights than its caller (AT_SECURE). */
	__u32 secure;
	/*
	 * Out: 1: it has more than the program before it: Linux has made the process one that only
	 * the superuser may look into.
	 */
	__u32 gained;
	/* In: 1: what would be more stays as it is, in the place of EAGAIN. */
	__u32 keeps;
};

/*
 * `IOCTL_SUCCEED`: the calling first thread of a process takes over what Linux keeps for
 * another one, which called execve(2) and waits for a request: credentials and the like.
 */
struct hanare_succeed {
	/* In: thread id, as the caller sees it. */
	__u32 tid;
	/* Zero. */
	__u32 reserved;
};

/*
 * `IOCTL_PROCESS`: the process with the lowest space id above `after`.
 * ENOENT: no more, or no such instance.
 */
struct hanare_process_status {
	/* In: instance. */
	__u8 name[HANARE_NAME_SIZE];
	/* In: space id to go on from, 0 at first. Out: space id of this one. */
	__u32 after;
	/* Out: process id, in the caller's namespace; 0: not seen from there. */
	__u32 pid;
	/* Out. */
	struct hanare_process_info info;
};

/* `IOCTL_THREADS`: threads of a space. */
struct hanare_threads {
	/* In: instance. */
	__u8 name[HANARE_NAME_SIZE];
	/* In: space id. */
	__u32 space;
	/* In and out: where to go on, 0 at first, as in `crate::info::INFO_THREADS`. */
	__u32 from;
	/* Out: entries of `threads`; 0: no more. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* Out: threads. */
	struct hanare_thread_info threads[HANARE_THREADS_AT_ONCE];
};

/*
 * `IOCTL_END`: a space that has ended on Linux, of which the LWK has not said yet that nothing is
 * left. The caller's own, or any for `CAP_SYS_PTRACE`.
 */
struct hanare_end_status {
	/* In: instance. */
	__u8 name[HANARE_NAME_SIZE];
	/* In and out: its id; the one that is asked for has the next higher one. `ENOENT`: none. */
	__u32 after;
	/* Out: process id, in the caller's namespace; 0: not seen from there. */
	__u32 pid;
	/*
	 * Out: Linux' number of the CPU that has been asked and has not answered; or
	 * `END_CPU_NONE`.
	 */
	__u32 cpu;
	/* Out: 1: the task that ends waits for it; 0: it does not any more. */
	__u32 waits;
	/* Out: threads that the LWK had of it when it answered last. */
	__u32 threads;
	/* Out: Linux thread id of one of them, in the proxy's namespace; 0: not known. */
	__u32 tid;
	/* Out: how long ago it has ended, ms. */
	__u64 since_ms;
};

/* ---- observe ---- */

/*
 * Watching processes from outside: `hanare trace` and `hanare gdb`.
 *
 * An observer is a descriptor with a *session* on the LWK. Its requests are `OBSERVE_*`, each
 * answered at once; news are told by `EVENT_OBSERVE`. What the session keeps on the LWK is charged
 * to the user who made the descriptor. A trace ends with the descriptor, or once its last process
 * has ended and all records are read (`TraceRing::over`); of a debugger whose process has ended
 * only its status is left.
 */
/*
 * Trace: args: [0] = `TRACE_*` flags, [1] = most bytes kept of a string. data: [0] = the user who
 * is charged for the ring, a user id of Linux' first user namespace; written by the module.
 * Answer: args: [0] = physical address of a `TraceRing`, [1] = bytes of its text. `EAGAIN`: the
 * user has as many rings as the limit allows. `ENOMEM`: the user's limit of kernel memory, or
 * there is no memory.
 */
#define HANARE_OBSERVE_TRACE 1U
/*
 * Ends the session: breakpoints are removed, threads go on. `EAGAIN`: one cannot be removed for
 * the moment; args: [0] = it is ended even then.
 */
#define HANARE_OBSERVE_CLOSE 2U
/*
 * Answer: args: [0] = processes that the session watches, [1] = `OBSERVED_*` |
 * signal << 8 | thread id << 32; data: [0] = exit status as of wait(2), if it ended,
 * [1] = address (of a breakpoint or watchpoint).
 */
#define HANARE_OBSERVE_STATUS 3U
/*
 * Debug: takes hold of the process; it is not stopped yet. EBUSY: another debugger has it. data:
 * [0] = the user who is charged for breakpoints, as of `OBSERVE_TRACE`.
 */
#define HANARE_OBSERVE_DEBUG 4U
/* Stops all threads; `OBSERVE_STATUS` says when it is so. */
#define HANARE_OBSERVE_STOP 5U
/* Thread ids from number args[0] on. Answer: data. */
#define HANARE_OBSERVE_THREADS 6U
/*
 * Registers of thread args[0]: data as Linux' `user_regs_struct`; args: [0] = 1 if it
 * is in the kernel: then they cannot be set.
 */
#define HANARE_OBSERVE_GET_REGISTERS 7U
/* Sets registers of thread args[0] to data, as Linux' `user_regs_struct`. */
#define HANARE_OBSERVE_SET_REGISTERS 8U
/* x87 and SSE registers of thread args[0]: 512 bytes of FXSAVE. */
#define HANARE_OBSERVE_GET_FPU 9U
/* Sets x87 and SSE registers of thread args[0] to data, as FXSAVE has them. */
#define HANARE_OBSERVE_SET_FPU 10U
/*
 * Writes args[1] (1..=512) bytes at address args[0], whatever its protection, for this
 * process only. EFAULT: nothing is mapped there, or it is shared with others.
 * EAGAIN: no thread is stopped where it could do it.
 */
#define HANARE_OBSERVE_WRITE 11U
/*
 * Breakpoint at address args[0]: args[1] = 1: set, 0: cleared. `ENOMEM`: the user's limit of
 * kernel memory. `ENOSPC`: the debugger has as many as it may.
 */
#define HANARE_OBSERVE_BREAK 12U
/* Next step of thread args[0]: args[1] = `ACTION_*` | signal to be delivered << 8. */
#define HANARE_OBSERVE_ACTION 13U
/* Goes on: threads by their `OBSERVE_ACTION`, the others by `ACTION_*` args[0]. */
#define HANARE_OBSERVE_RESUME 14U
/* Text args[0] (`TEXT_*`) from byte args[1] on. Answer: data, args[0] = bytes (0: end). */
#define HANARE_OBSERVE_TEXT 15U
/*
 * Watchpoint number args[0] (0..4) at args[1]: data: [0] = bytes (1, 2, 4, 8; 0: none),
 * [1] = 1: writes, 3: writes and reads.
 */
#define HANARE_OBSERVE_WATCH 16U
/* The highest `OBSERVE_*` operation. */
#define HANARE_OBSERVE_LAST 16U
/* Children and all threads are traced, too. */
#define HANARE_TRACE_FOLLOW 1ULL
/* The thread runs. */
#define HANARE_OBSERVED_RUNS 0ULL
/* A stop has begun; some threads are not there yet. */
#define HANARE_OBSERVED_STOPPING 1ULL
/* Stopped because it was asked. */
#define HANARE_OBSERVED_STOPPED 2ULL
/* Stopped before a signal is delivered. */
#define HANARE_OBSERVED_SIGNAL 3ULL
/* Stopped at a breakpoint of the debugger. */
#define HANARE_OBSERVED_BREAK 4ULL
/* Stopped after a step. */
#define HANARE_OBSERVED_STEP 5ULL
/* Stopped at a watchpoint. */
#define HANARE_OBSERVED_WATCH 6ULL
/* The thread has ended. */
#define HANARE_OBSERVED_ENDED 7ULL
/* Remains stopped. */
#define HANARE_ACTION_STAY 0ULL
/* Runs. */
#define HANARE_ACTION_CONTINUE 1ULL
/* Executes one instruction. */
#define HANARE_ACTION_STEP 2ULL
/* Path of the program. */
#define HANARE_TEXT_PROGRAM 0ULL
/* The process' auxiliary vector. */
#define HANARE_TEXT_AUXV 1ULL
/* Where the text of a ring begins. */
#define HANARE_TRACE_TEXT_OFFSET 4096ULL
/* A call began; captured: what it reads. */
#define HANARE_RECORD_ENTER 1U
/* A call ended; captured: what it has written. */
#define HANARE_RECORD_EXIT 2U
/* A signal is delivered: `number`; args: the first words of its siginfo. */
#define HANARE_RECORD_SIGNAL 3U
/* The process ends by signal `number`. */
#define HANARE_RECORD_KILLED 4U
/* The process is gone. */
#define HANARE_RECORD_GONE 5U
/* The LWK served the call. */
#define HANARE_SERVED_LOCAL 1U
/* Linux served the call. */
#define HANARE_SERVED_DELEGATED 2U
/* Neither kernel served the call: it was refused. */
#define HANARE_SERVED_REFUSED 3U
/* The LWK served the call, and asked Linux for something. */
#define HANARE_SERVED_HELPED 4U

/* Head of the ring of a trace, alone on a page; the text begins on the next one. */
struct hanare_trace_ring {
	/* Bytes written since the beginning. Written by the LWK. */
	__u64 head;
	/* Records that found no room. Written by the LWK. */
	__u64 lost;
	/*
	 * 1: no process is traced any more, and nothing more will be written, unless it becomes 0
	 * again. Written by the LWK.
	 */
	__u64 over;
	/* Zero. */
	__u64 reserved[5];
	/* Bytes read since the beginning. Written by the module. */
	__u64 tail;
};

/*
 * One record, followed by its captures, each a `Capture` and its bytes, filled up
 * to a multiple of 8.
 */
struct hanare_record {
	/* Bytes with the captures. */
	__u32 size;
	/* `RECORD_*`. */
	__u32 kind;
	/* Process and thread. */
	__u32 pid;
	/* Thread id. */
	__u32 tid;
	/* Number of the call, or of a signal. */
	__u32 number;
	/* `SERVED_*` of a call that ended. */
	__u32 served;
	/* Linux' clock, ns since 1970. */
	__u64 time_ns;
	/* How long the call took. */
	__u64 duration_ns;
	/* Result of the call. */
	__s64 result;
	/* Arguments of the call. */
	__u64 args[6];
};

/* Memory that an argument of a call points to. */
struct hanare_capture {
	/* Which argument. */
	__u32 argument;
	/* Bytes that follow. */
	__u32 bytes;
};

/*
 * `IOCTL_OBSERVE`: the descriptor becomes an observer (tracer, debugger) of an LWK process.
 * Permission: the caller may open the process' `/proc/PID/mem` for writing, which is Linux' rule
 * for ptrace. EBADF: not such a descriptor; ESRCH: not an LWK process. An observer can be polled:
 * readable when the LWK has news, hung up when the process is gone.
 */
struct hanare_observe {
	/* In: descriptor of `/proc/PID/mem` of the proxy, open for reading and writing. */
	__s32 memory;
	/* Zero. */
	__u32 reserved;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/*
 * `IOCTL_OBSERVATION`: one `OBSERVE_*` request of an observer. ESRCH: process or
 * thread is gone; EIO: the LWK is.
 */
struct hanare_observation {
	/* In: `OBSERVE_*`. */
	__u32 op;
	/* Out: words of the answer in `data`. */
	__u32 count;
	/* In and out: arguments. */
	__u64 args[2];
	/* In and out: what goes with it. */
	__u64 data[64];
};

/*
 * `IOCTL_TRACE_READ`: takes records (`Record`) out of the ring that
 * `OBSERVE_TRACE` made. Never waits.
 */
struct hanare_trace_read {
	/* In: buffer address. */
	__u64 buffer;
	/* In: bytes of the buffer. Out: bytes read. */
	__u64 size;
	/* Out: records that found no room so far. */
	__u64 lost;
};

/* ---- offer ---- */

/*
 * Offers: pages that a delegated call is about to touch for the first time, said by the LWK before
 * the proxy faults.
 *
 * An offer is the answer to a fault (`crate::request::REQUEST_FAULT`) that was not asked yet. It
 * holds until a thread takes the lock of the address space. The module alone reads it: it lies in
 * the shared region, which no proxy maps.
 */
/* Number of `Offer`s; that of a space is the one with its id modulo this. */
#define HANARE_OFFERS 64U
/* Pages in an offer at most. */
#define HANARE_OFFER_PAGES 28

/* One offer: four cache lines, of which a small one needs the first. */
struct hanare_offer {
	/* Odd while the LWK writes. */
	__u32 sequence;
	/* Space to which the pages belong; 0: there is no offer. */
	__u32 space;
	/* Address of the first page. */
	__u64 start;
	/* Number of pages. */
	__u32 count;
	/* Zero. */
	__u32 reserved0;
	/*
	 * The pages, one behind the other, as in the answer to a fault; 0: none is offered there.
	 */
	__u64 pages[HANARE_OFFER_PAGES];
	/* Zero. */
	__u64 reserved1;
} __attribute__((aligned(256)));

/* ---- signal ---- */

/* Signals of a process that its workers take and tell the LWK of (`ioctl::IOCTL_SIGNAL`). */

/* ---- message ---- */

/*
 * A call as a message: its arguments with all that they refer to, for a side that executes it
 * without seeing the caller's memory. `kernel/core/src/marshal.rs` writes and reads it.
 *
 * A message is one run of bytes: its head, then what the arguments point to. It lies in one buffer
 * (*copied*), or is cut up and put into pages that name one another (*packed*). Where a pointer
 * stands, in an argument or in a structure, there is an offset from the start of the message
 * instead: zero is the null pointer, `MESSAGE_OUTSIDE` and `MESSAGE_UNMAPPED` stand for those
 * that the caller cannot use. Neither side trusts the other in anything of it.
 */
/* First word of a message: "HNCL". */
#define HANARE_MESSAGE_MAGIC 0x4c434e48U
/* First word of a page of a packed message: "HNPG". */
#define HANARE_MESSAGE_PAGE_MAGIC 0x47504e48U
/* In place of a pointer that is none of a program's. Linux gets it as it is. */
#define HANARE_MESSAGE_OUTSIDE 0xfffffffffffff000ULL
/*
 * In place of a pointer to what the caller has not mapped, or not so that it can be used. Linux
 * gets an address of programs where nothing is mapped: an error comes where it is used, which may
 * be later than with one that is none of a program's.
 */
#define HANARE_MESSAGE_UNMAPPED 0xffffffffffffe000ULL
/* Bytes of a page of a packed message, with its head. */
#define HANARE_MESSAGE_PAGE_SIZE 4096U
/* Bytes of the head of such a page. */
#define HANARE_MESSAGE_PAGE_HEAD_SIZE 32U
/* In place of the number of a page: there is none. */
#define HANARE_MESSAGE_PAGE_NONE 0xffffffffU

/* Start of a message. */
struct hanare_message_head {
	/* `MESSAGE_MAGIC`. */
	__u32 magic;
	/* Linux' number of the call. */
	__u32 number;
	/* Bytes of the message, its head among them. */
	__u32 size;
	/*
	 * Offset of what is there in part only, which ends with the message and, where it is
	 * executed, with the memory; zero: there is no such thing.
	 */
	__u32 fault;
	/* The arguments; those that are pointers are offsets. */
	__u64 args[6];
	/* Result of the call (-errno for errors), written by the side that executed it. */
	__s64 result;
};

/* Start of a page of a packed message. */
struct hanare_message_page {
	/* `MESSAGE_PAGE_MAGIC`. */
	__u32 magic;
	/* Number of the next page in the pool, or `MESSAGE_PAGE_NONE`. */
	__u32 next;
	/* How many pages come before it. */
	__u32 index;
	/* Pages of the message. */
	__u32 count;
	/* Number of the call; the same in all pages of a message. */
	__u64 call;
	/* Zero. */
	__u64 reserved;
};

/* ---- pooled ---- */

/*
 * Pooled proxies: Linux processes made beforehand, which execute the packed calls of *native
 * tasks*, programs of the LWK whose memory no process of Linux has (`docs/delegation.md`, *Packed
 * arguments and pooled proxies*).
 *
 * A pool belongs to the processes that hold its descriptor
 * (`IOCTL_POOL`(crate::ioctl::IOCTL_POOL)). A pooled proxy is a space in which no program runs.
 * A pooled proxy's control window has one slot; where others have messages it has a `Member`
 * page, and behind that the pages of packed calls (`crate::message`).
 */
/* Where a pooled proxy finds its `Member` page. */
#define HANARE_MEMBER_BASE 0x7d8000000000ULL
/* Where the pages of its calls begin: page `n` lies `n * MESSAGE_PAGE_SIZE` behind. */
#define HANARE_PACKED_BASE 0x7d8000001000ULL
/* Most pages of a packed call: a MiB, less their heads. */
#define HANARE_PACKED_PAGES 256U
/* Most pooled proxies of a pool. */
#define HANARE_POOL_MAX 1024U
/*
 * The program of a proxy runs in the space. In `Attach::kind`(crate::ioctl::Attach::kind), as
 * what follows.
 */
#define HANARE_ATTACH_PROGRAM 0U
/* A native task runs in the space: the process maps nothing of its memory. */
#define HANARE_ATTACH_NATIVE 1U
/* No program runs in the space: the process is a pooled proxy. */
#define HANARE_ATTACH_MEMBER 2U
/*
 * Bits of the number of proxies that a pool may have, in `args[3]` of
 * `REQUEST_SPACE_OPEN`(crate::request::REQUEST_SPACE_OPEN), where [2] is 0: the kind in the
 * lowest 8 bits, this number behind them, the number of the pool from bit 32 on.
 */
#define HANARE_POOLED_LIMIT_SHIFT 8U
/* Lowest bit of the number of the pool in that word. */
#define HANARE_POOLED_POOL_SHIFT 32U
/* The pooled proxy serves no task. */
#define HANARE_MEMBER_FREE 0U
/* A task has it, alone. Nothing of its call has been executed. */
#define HANARE_MEMBER_CLAIMED 1U
/* A call that it was sent is being executed, or has been. */
#define HANARE_MEMBER_BEGUN 2U
/* The pooled proxy had nothing to do for a while, and ends. */
#define HANARE_MEMBER_LEAVES 3U
/*
 * Flag of a packed call: the proxy has been the caller's for calls before, and is free of their
 * traces when it answers. Without a page it is the only thing to do.
 */
#define HANARE_PACKED_CLEAN 1ULL

/*
 * Page of a pooled proxy that says what it is doing. The proxy may write anything there: it harms
 * the users of its pool only.
 */
struct hanare_member {
	/*
	 * `MEMBER_*`. From `FREE` the LWK takes it to `CLAIMED`, the proxy to `LEAVES`, by one
	 * exchange; from `CLAIMED` the proxy takes it to `BEGUN`, the LWK back, and to `FREE`.
	 */
	__u32 state;
	/* Zero. */
	__u32 reserved;
};

/*
 * `IOCTL_POOL`: the descriptor becomes a pool of an instance: a process that has it may attach
 * native tasks and pooled proxies to it, as long as it has the rights of the process that made the
 * pool. When it is closed the proxies end.
 */
struct hanare_pool_make {
	/*
	 * In: name of the instance; empty: the only instance, or the one called `default`. Out: its
	 * name.
	 */
	__u8 name[HANARE_NAME_SIZE];
	/* In: most proxies, up to `POOL_MAX`. */
	__u32 limit;
	/* In: how long a proxy may have nothing to do before it ends, ms; 0: for ever. */
	__u32 idle_ms;
	/* Out: why not. */
	__u8 message[HANARE_MESSAGE_SIZE];
};

/* ---- utility ---- */

/*
 * Utility threads: threads of a program whose user-mode code executes on a Linux CPU, in the proxy
 * (`docs/utility-threads.md`).
 *
 * A thread asks for it by `prctl` (`PR_HANARE_RUN_ON`) and gives memory of its own away for it,
 * the *area*. Instead of entering user mode, the LWK puts the thread's registers there, as the
 * frame of a signal handler, and posts `NR_UTILITY` to the thread's slot. The worker returns
 * from that frame, by rt_sigreturn(2). It leaves the thread's code by a signal, whose handler has
 * the rest of the area as its stack: so Linux puts the registers there, too, and the answer says
 * where. Neither side copies them, and both take such frames from programs anyway.
 */
/*
 * prctl(2): where the calling thread's user-mode code executes, and how such a thread is woken
 * from the LWK. The second argument is one of `RUN_ON_*`. Linux does not know it: EINVAL.
 */
#define HANARE_PR_HANARE_RUN_ON 0x484e524fU
/* On the LWK, as every thread when it begins. */
#define HANARE_RUN_ON_LWK 0ULL
/*
 * On Linux. The third argument is the address of the area, a multiple of the page size, the fourth
 * its bytes, the fifth a CPU of Linux', or -1 for any. EINVAL: the area is not like that.
 * EOPNOTSUPP: this thread cannot.
 */
#define HANARE_RUN_ON_LINUX 1ULL
/* The result is 1 if the calling thread executes on Linux now, else 0. */
#define HANARE_RUN_ON_ASK 2ULL
/*
 * The calling thread is rung by an eventfd from now on, until it executes another program or ends:
 * `RUN_ON_RING` adds one to it. The third argument is the descriptor, -1 (32 bits): by none, or
 * -2 (`RUNG_ASLEEP`): in `RUN_ON_SLEEP`. EBADF, EINVAL: it is no eventfd. EOPNOTSUPP: this
 * thread cannot.
 */
#define HANARE_RUN_ON_EVENTFD 3ULL
/*
 * Rings a thread of the calling process, whose id is the third argument, without a delegated call:
 * Linux adds one to its eventfd soon, and may do so once for rings that come together. ESRCH:
 * there is no such thread; ENXIO: it is not rung; EAGAIN: the CPU has rung too often just now.
 * Then the program writes to the eventfd itself, or tries again.
 */
#define HANARE_RUN_ON_RING 4ULL
/*
 * The calling thread sleeps until it is rung; a ring that came before counts. It needs no
 * descriptor. It may return without a ring. EINTR: a signal came. EAGAIN: the thread executes on
 * the LWK.
 */
#define HANARE_RUN_ON_SLEEP 5ULL
/* Descriptor of `RUN_ON_EVENTFD`: none. */
#define HANARE_NO_EVENTFD 0xffffffffU
/* Descriptor of `RUN_ON_EVENTFD`: none, it sleeps in `RUN_ON_SLEEP`. */
#define HANARE_RUNG_ASLEEP 0xfffffffeU
/* Least bytes of an area. */
#define HANARE_AREA_MIN 0x8000ULL
/* Most bytes of an area. */
#define HANARE_AREA_MAX 0x100000ULL
/*
 * Offset in the area of the frame that the LWK writes: what `rsp` points to when its handler
 * returns, behind the return address.
 */
#define HANARE_AREA_FRAME 64ULL
/* Offset in the area of the FPU state of that frame. */
#define HANARE_AREA_FPU 1024ULL
/* Offset in the area of the handlers' stack, which goes to the area's end. */
#define HANARE_AREA_STACK 12288ULL
/*
 * In place of the number of a system call: the worker executes the thread's code. `args[0]` is the
 * address of the area, `args[1]` its bytes, `args[2]` the thread's FS base, `args[3]` a CPU of
 * Linux' or all bits for any, `args[4]` the descriptor that the thread may not close, `args[5]`
 * the thread's GS base. The result is the address of the `ucontext` with the thread's registers
 * and one of `LEFT_*`, or -errno: nothing was executed, and never will be.
 */
#define HANARE_NR_UTILITY 0x55544cU
/* The thread left its code for a signal, which the LWK has been told of, or to end. */
#define HANARE_LEFT_SIGNAL 0ULL
/*
 * The thread left its code for a system call that the LWK has to serve: registers are as after the
 * `syscall` instruction, `rax` is the number.
 */
#define HANARE_LEFT_CALL 1ULL
/* An instruction raised an exception: the LWK is to execute it. */
#define HANARE_LEFT_FAULT 2ULL
/*
 * An instruction that is over raised an exception (a step, `int3`, `int 4`), which the LWK is to
 * raise, too. Plus its vector: 1, 3 or 4.
 */
#define HANARE_LEFT_TRAP 2ULL
/* Bits of `LEFT_*`; a `ucontext` lies at a multiple of 8 bytes. */
#define HANARE_LEFT_MASK 7ULL
/*
 * si_code of the SIGBUS by which a worker is interrupted (`Control::Interrupt`,
 * `SERVICE_INTERRUPT`).
 */
#define HANARE_INTERRUPT_CODE -74
/*
 * Offset in the area of the thread's FS base, which the worker writes when the thread leaves its
 * code.
 */
#define HANARE_AREA_FS_BASE 0ULL
/* Offset in the area of the thread's GS base, likewise. */
#define HANARE_AREA_GS_BASE 8ULL
/* Offset in the area of the address of the worker, by which a handler finds it. */
#define HANARE_AREA_WORKER 16ULL

/*
 * `IOCTL_EVENTFD`: the eventfd to which one is added at each `EVENT_EVENTFD` of a slot, in place
 * of the one before. EBADF, EINVAL: it is none, or the slot is not one of the first 1024.
 */
struct hanare_eventfd {
	/* In: the slot. */
	__u32 slot;
	/* In: descriptor, or `NO_EVENTFD`. */
	__u32 descriptor;
};

/* ---- what Rust computed ---- */

_Static_assert(__builtin_offsetof(struct hanare_copied_status, copies) == 0, "CopiedStatus.copies");
_Static_assert(__builtin_offsetof(struct hanare_copied_status, reserved) == 4, "CopiedStatus.reserved");
_Static_assert(__builtin_offsetof(struct hanare_copied_status, calls) == 8, "CopiedStatus.calls");
_Static_assert(__builtin_offsetof(struct hanare_copied_status, bytes_in) == 16, "CopiedStatus.bytes_in");
_Static_assert(__builtin_offsetof(struct hanare_copied_status, bytes_out) == 24, "CopiedStatus.bytes_out");
_Static_assert(__builtin_offsetof(struct hanare_copied_status, mapped_by) == 32, "CopiedStatus.mapped_by");
_Static_assert(__builtin_offsetof(struct hanare_copied_status, mapped_calls) == 96, "CopiedStatus.mapped_calls");
_Static_assert(sizeof(struct hanare_copied_status) == 104, "CopiedStatus");
_Static_assert(__builtin_offsetof(struct hanare_grant_status, driver) == 0, "GrantStatus.driver");
_Static_assert(__builtin_offsetof(struct hanare_grant_status, state) == 16, "GrantStatus.state");
_Static_assert(__builtin_offsetof(struct hanare_grant_status, domain) == 20, "GrantStatus.domain");
_Static_assert(__builtin_offsetof(struct hanare_grant_status, bus) == 24, "GrantStatus.bus");
_Static_assert(__builtin_offsetof(struct hanare_grant_status, function) == 28, "GrantStatus.function");
_Static_assert(__builtin_offsetof(struct hanare_grant_status, uses) == 32, "GrantStatus.uses");
_Static_assert(sizeof(struct hanare_grant_status) == 40, "GrantStatus");
_Static_assert(__builtin_offsetof(struct hanare_grant_queue, round) == 0, "GrantQueue.round");
_Static_assert(__builtin_offsetof(struct hanare_grant_queue, id) == 4, "GrantQueue.id");
_Static_assert(sizeof(struct hanare_grant_queue) == 8, "GrantQueue");
_Static_assert(__builtin_offsetof(struct hanare_grant_queues, offset) == 0, "GrantQueues.offset");
_Static_assert(__builtin_offsetof(struct hanare_grant_queues, pages_offset) == 4, "GrantQueues.pages_offset");
_Static_assert(__builtin_offsetof(struct hanare_grant_queues, doorbell_stride) == 8, "GrantQueues.doorbell_stride");
_Static_assert(__builtin_offsetof(struct hanare_grant_queues, transfer_max) == 12, "GrantQueues.transfer_max");
_Static_assert(sizeof(struct hanare_grant_queues) == 16, "GrantQueues");
_Static_assert(__builtin_offsetof(struct hanare_grant_region, base) == 0, "GrantRegion.base");
_Static_assert(__builtin_offsetof(struct hanare_grant_region, size) == 8, "GrantRegion.size");
_Static_assert(sizeof(struct hanare_grant_region) == 16, "GrantRegion");
_Static_assert(__builtin_offsetof(struct hanare_grant_uses, begun) == 0, "GrantUses.begun");
_Static_assert(__builtin_offsetof(struct hanare_grant_uses, ended) == 4, "GrantUses.ended");
_Static_assert(sizeof(struct hanare_grant_uses) == 8, "GrantUses");
_Static_assert(__builtin_offsetof(struct hanare_grant, state) == 0, "Grant.state");
_Static_assert(__builtin_offsetof(struct hanare_grant, is_block) == 4, "Grant.is_block");
_Static_assert(__builtin_offsetof(struct hanare_grant, device) == 8, "Grant.device");
_Static_assert(__builtin_offsetof(struct hanare_grant, driver) == 16, "Grant.driver");
_Static_assert(__builtin_offsetof(struct hanare_grant, regions) == 32, "Grant.regions");
_Static_assert(__builtin_offsetof(struct hanare_grant, queues) == 128, "Grant.queues");
_Static_assert(sizeof(struct hanare_grant) == 144, "Grant");
_Static_assert(__builtin_offsetof(struct hanare_cpu_set, words) == 0, "CpuSet.words");
_Static_assert(sizeof(struct hanare_cpu_set) == 128, "CpuSet");
_Static_assert(__builtin_offsetof(struct hanare_linux_cpu_set, words) == 0, "LinuxCpuSet.words");
_Static_assert(sizeof(struct hanare_linux_cpu_set) == 512, "LinuxCpuSet");
_Static_assert(__builtin_offsetof(struct hanare_image_header, magic) == 0, "ImageHeader.magic");
_Static_assert(__builtin_offsetof(struct hanare_image_header, version) == 8, "ImageHeader.version");
_Static_assert(__builtin_offsetof(struct hanare_image_header, header_size) == 12, "ImageHeader.header_size");
_Static_assert(__builtin_offsetof(struct hanare_image_header, trampoline_offset) == 16, "ImageHeader.trampoline_offset");
_Static_assert(__builtin_offsetof(struct hanare_image_header, trampoline_size) == 20, "ImageHeader.trampoline_size");
_Static_assert(__builtin_offsetof(struct hanare_image_header, args_offset) == 24, "ImageHeader.args_offset");
_Static_assert(__builtin_offsetof(struct hanare_image_header, reserved) == 28, "ImageHeader.reserved");
_Static_assert(sizeof(struct hanare_image_header) == 32, "ImageHeader");
_Static_assert(__builtin_offsetof(struct hanare_trampoline_args, cr3) == 0, "TrampolineArgs.cr3");
_Static_assert(__builtin_offsetof(struct hanare_trampoline_args, entry) == 8, "TrampolineArgs.entry");
_Static_assert(__builtin_offsetof(struct hanare_trampoline_args, params) == 16, "TrampolineArgs.params");
_Static_assert(__builtin_offsetof(struct hanare_trampoline_args, cpu) == 24, "TrampolineArgs.cpu");
_Static_assert(sizeof(struct hanare_trampoline_args) == 32, "TrampolineArgs");
_Static_assert(__builtin_offsetof(struct hanare_memory_chunk, base) == 0, "MemoryChunk.base");
_Static_assert(__builtin_offsetof(struct hanare_memory_chunk, size) == 8, "MemoryChunk.size");
_Static_assert(__builtin_offsetof(struct hanare_memory_chunk, node) == 16, "MemoryChunk.node");
_Static_assert(__builtin_offsetof(struct hanare_memory_chunk, reserved) == 20, "MemoryChunk.reserved");
_Static_assert(sizeof(struct hanare_memory_chunk) == 24, "MemoryChunk");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, magic) == 0, "BootParams.magic");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, version) == 8, "BootParams.version");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, params_size) == 12, "BootParams.params_size");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, shared_base) == 16, "BootParams.shared_base");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, shared_size) == 24, "BootParams.shared_size");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, image_base) == 32, "BootParams.image_base");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, image_size) == 40, "BootParams.image_size");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, chunk_count) == 48, "BootParams.chunk_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, chunks_offset) == 52, "BootParams.chunks_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, cpu_count) == 56, "BootParams.cpu_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, cpus_offset) == 60, "BootParams.cpus_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, request_count) == 64, "BootParams.request_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, requests_offset) == 68, "BootParams.requests_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, service_count) == 72, "BootParams.service_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, services_offset) == 76, "BootParams.services_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, log_offset) == 80, "BootParams.log_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, log_size) == 84, "BootParams.log_size");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, clock_offset) == 88, "BootParams.clock_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, bell_count) == 92, "BootParams.bell_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, bells_offset) == 96, "BootParams.bells_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, doorbell_count) == 100, "BootParams.doorbell_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, doorbells_offset) == 104, "BootParams.doorbells_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, offers_offset) == 108, "BootParams.offers_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, tsc_khz) == 112, "BootParams.tsc_khz");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, leaks) == 116, "BootParams.leaks");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, panicked) == 120, "BootParams.panicked");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, linux_cpu_ids) == 124, "BootParams.linux_cpu_ids");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, linux_node_ids) == 128, "BootParams.linux_node_ids");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, linux_cpumask_size) == 132, "BootParams.linux_cpumask_size");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, measures) == 136, "BootParams.measures");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, linux_policy_modes) == 140, "BootParams.linux_policy_modes");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, dispatch) == 144, "BootParams.dispatch");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, servers) == 148, "BootParams.servers");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, boxes) == 152, "BootParams.boxes");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, tick_ns) == 156, "BootParams.tick_ns");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, transport) == 160, "BootParams.transport");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, transport_flags) == 164, "BootParams.transport_flags");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, grant_count) == 168, "BootParams.grant_count");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, grants_offset) == 172, "BootParams.grants_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, dma_pieces) == 176, "BootParams.dma_pieces");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, dma_offset) == 180, "BootParams.dma_offset");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, firsts_ended) == 184, "BootParams.firsts_ended");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, pat) == 192, "BootParams.pat");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, name) == 200, "BootParams.name");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, cmdline) == 232, "BootParams.cmdline");
_Static_assert(__builtin_offsetof(struct hanare_boot_params, banner) == 488, "BootParams.banner");
_Static_assert(sizeof(struct hanare_boot_params) == 616, "BootParams");
_Static_assert(__builtin_offsetof(struct hanare_bell, word) == 0, "Bell.word");
_Static_assert(__builtin_offsetof(struct hanare_bell, worker) == 8, "Bell.worker");
_Static_assert(sizeof(struct hanare_bell) == 16, "Bell");
_Static_assert(__builtin_offsetof(struct hanare_doorbell_shared, target) == 0, "DoorbellShared.target");
_Static_assert(__builtin_offsetof(struct hanare_doorbell_shared, reserved0) == 8, "DoorbellShared.reserved0");
_Static_assert(__builtin_offsetof(struct hanare_doorbell_shared, rang) == 64, "DoorbellShared.rang");
_Static_assert(__builtin_offsetof(struct hanare_doorbell_shared, reserved1) == 1088, "DoorbellShared.reserved1");
_Static_assert(sizeof(struct hanare_doorbell_shared) == 1152, "DoorbellShared");
_Static_assert(__builtin_offsetof(struct hanare_ring_entries, outbound) == 0, "RingEntries.outbound");
_Static_assert(__builtin_offsetof(struct hanare_ring_entries, inbound) == 8, "RingEntries.inbound");
_Static_assert(__builtin_offsetof(struct hanare_ring_entries, reserved) == 12, "RingEntries.reserved");
_Static_assert(sizeof(struct hanare_ring_entries) == 16, "RingEntries");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, apic_id) == 0, "CpuShared.apic_id");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, linux_cpu) == 4, "CpuShared.linux_cpu");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, node) == 8, "CpuShared.node");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, state) == 12, "CpuShared.state");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, doorbell) == 16, "CpuShared.doorbell");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, ipi_vector) == 20, "CpuShared.ipi_vector");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved1) == 24, "CpuShared.reserved1");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, lwk_wait) == 64, "CpuShared.lwk_wait");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, current_space) == 68, "CpuShared.current_space");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, heartbeat) == 72, "CpuShared.heartbeat");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, interrupts) == 80, "CpuShared.interrupts");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, exceptions) == 88, "CpuShared.exceptions");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, page_faults) == 96, "CpuShared.page_faults");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, local_calls) == 104, "CpuShared.local_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, delegated_calls) == 112, "CpuShared.delegated_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, crowded) == 120, "CpuShared.crowded");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved2) == 124, "CpuShared.reserved2");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, inbound_tail) == 128, "CpuShared.inbound_tail");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, inbound_seen) == 132, "CpuShared.inbound_seen");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved3) == 136, "CpuShared.reserved3");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, inbound_head) == 192, "CpuShared.inbound_head");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, outbound_tail) == 196, "CpuShared.outbound_tail");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, outbound_seen) == 200, "CpuShared.outbound_seen");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved4) == 204, "CpuShared.reserved4");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, idle_cycles) == 208, "CpuShared.idle_cycles");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, idle_since) == 216, "CpuShared.idle_since");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, boxed_calls) == 224, "CpuShared.boxed_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, unboxed_calls) == 232, "CpuShared.unboxed_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, servers_made) == 240, "CpuShared.servers_made");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved5) == 248, "CpuShared.reserved5");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, outbound_head) == 256, "CpuShared.outbound_head");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved6) == 260, "CpuShared.reserved6");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, entries) == 384, "CpuShared.entries");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, bells_rung) == 4480, "CpuShared.bells_rung");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved7) == 4488, "CpuShared.reserved7");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, bells) == 4544, "CpuShared.bells");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, interrupts_by) == 4672, "CpuShared.interrupts_by");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, exceptions_by) == 4800, "CpuShared.exceptions_by");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, copies) == 4928, "CpuShared.copies");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved9) == 4932, "CpuShared.reserved9");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, copied_calls) == 4936, "CpuShared.copied_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, copied_in) == 4944, "CpuShared.copied_in");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, copied_out) == 4952, "CpuShared.copied_out");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, mapped_by) == 4960, "CpuShared.mapped_by");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, mapped_calls) == 4992, "CpuShared.mapped_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, packed_calls) == 7040, "CpuShared.packed_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, members_made) == 7048, "CpuShared.members_made");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, uses) == 7056, "CpuShared.uses");
_Static_assert(__builtin_offsetof(struct hanare_cpu_shared, reserved8) == 7088, "CpuShared.reserved8");
_Static_assert(sizeof(struct hanare_cpu_shared) == 8192, "CpuShared");
_Static_assert(__builtin_offsetof(struct hanare_log_ring, head) == 0, "LogRing.head");
_Static_assert(__builtin_offsetof(struct hanare_log_ring, reserved) == 8, "LogRing.reserved");
_Static_assert(sizeof(struct hanare_log_ring) == 64, "LogRing");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, sequence) == 0, "ClockPage.sequence");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, shift) == 4, "ClockPage.shift");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, tsc) == 8, "ClockPage.tsc");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, mult) == 16, "ClockPage.mult");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, monotonic_ns) == 24, "ClockPage.monotonic_ns");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, realtime_ns) == 32, "ClockPage.realtime_ns");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, boottime_ns) == 40, "ClockPage.boottime_ns");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, raw_ns) == 48, "ClockPage.raw_ns");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, tai_ns) == 56, "ClockPage.tai_ns");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, minutes_west) == 64, "ClockPage.minutes_west");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, dst) == 68, "ClockPage.dst");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, realtime_coarse_ns) == 72, "ClockPage.realtime_coarse_ns");
_Static_assert(__builtin_offsetof(struct hanare_clock_page, monotonic_coarse_ns) == 80, "ClockPage.monotonic_coarse_ns");
_Static_assert(sizeof(struct hanare_clock_page) == 128, "ClockPage");
_Static_assert(__builtin_offsetof(struct hanare_request, state) == 0, "Request.state");
_Static_assert(__builtin_offsetof(struct hanare_request, kind) == 4, "Request.kind");
_Static_assert(__builtin_offsetof(struct hanare_request, space) == 8, "Request.space");
_Static_assert(__builtin_offsetof(struct hanare_request, status) == 12, "Request.status");
_Static_assert(__builtin_offsetof(struct hanare_request, count) == 16, "Request.count");
_Static_assert(__builtin_offsetof(struct hanare_request, reserved0) == 20, "Request.reserved0");
_Static_assert(__builtin_offsetof(struct hanare_request, args) == 24, "Request.args");
_Static_assert(__builtin_offsetof(struct hanare_request, reserved1) == 56, "Request.reserved1");
_Static_assert(__builtin_offsetof(struct hanare_request, waiter) == 64, "Request.waiter");
_Static_assert(__builtin_offsetof(struct hanare_request, doorbell) == 68, "Request.doorbell");
_Static_assert(__builtin_offsetof(struct hanare_request, reserved3) == 72, "Request.reserved3");
_Static_assert(__builtin_offsetof(struct hanare_request, pages) == 128, "Request.pages");
_Static_assert(__builtin_offsetof(struct hanare_request, cpus) == 640, "Request.cpus");
_Static_assert(sizeof(struct hanare_request) == 768, "Request");
_Static_assert(__builtin_offsetof(struct hanare_service, state) == 0, "Service.state");
_Static_assert(__builtin_offsetof(struct hanare_service, space) == 4, "Service.space");
_Static_assert(__builtin_offsetof(struct hanare_service, kind) == 8, "Service.kind");
_Static_assert(__builtin_offsetof(struct hanare_service, count) == 12, "Service.count");
_Static_assert(__builtin_offsetof(struct hanare_service, status) == 16, "Service.status");
_Static_assert(__builtin_offsetof(struct hanare_service, args) == 24, "Service.args");
_Static_assert(__builtin_offsetof(struct hanare_service, held) == 64, "Service.held");
_Static_assert(__builtin_offsetof(struct hanare_service, reserved0) == 72, "Service.reserved0");
_Static_assert(__builtin_offsetof(struct hanare_service, cpu) == 128, "Service.cpu");
_Static_assert(__builtin_offsetof(struct hanare_service, lwk_wait) == 132, "Service.lwk_wait");
_Static_assert(__builtin_offsetof(struct hanare_service, reserved1) == 136, "Service.reserved1");
_Static_assert(__builtin_offsetof(struct hanare_service, extents) == 192, "Service.extents");
_Static_assert(sizeof(struct hanare_service) == 704, "Service");
_Static_assert(__builtin_offsetof(struct hanare_slot, state) == 0, "Slot.state");
_Static_assert(__builtin_offsetof(struct hanare_slot, nr) == 4, "Slot.nr");
_Static_assert(__builtin_offsetof(struct hanare_slot, args) == 8, "Slot.args");
_Static_assert(__builtin_offsetof(struct hanare_slot, result) == 56, "Slot.result");
_Static_assert(__builtin_offsetof(struct hanare_slot, lwk_wait) == 64, "Slot.lwk_wait");
_Static_assert(__builtin_offsetof(struct hanare_slot, bell) == 68, "Slot.bell");
_Static_assert(__builtin_offsetof(struct hanare_slot, poll_us) == 72, "Slot.poll_us");
_Static_assert(__builtin_offsetof(struct hanare_slot, reserved0) == 76, "Slot.reserved0");
_Static_assert(__builtin_offsetof(struct hanare_slot, sigmask) == 80, "Slot.sigmask");
_Static_assert(__builtin_offsetof(struct hanare_slot, robust_list) == 88, "Slot.robust_list");
_Static_assert(__builtin_offsetof(struct hanare_slot, reserved1) == 96, "Slot.reserved1");
_Static_assert(__builtin_offsetof(struct hanare_slot, worker_wait) == 128, "Slot.worker_wait");
_Static_assert(__builtin_offsetof(struct hanare_slot, tid) == 132, "Slot.tid");
_Static_assert(__builtin_offsetof(struct hanare_slot, doorbell) == 136, "Slot.doorbell");
_Static_assert(__builtin_offsetof(struct hanare_slot, interrupted) == 140, "Slot.interrupted");
_Static_assert(__builtin_offsetof(struct hanare_slot, ended_by_signal) == 144, "Slot.ended_by_signal");
_Static_assert(__builtin_offsetof(struct hanare_slot, server) == 148, "Slot.server");
_Static_assert(__builtin_offsetof(struct hanare_slot, reserved3) == 152, "Slot.reserved3");
_Static_assert(sizeof(struct hanare_slot) == 256, "Slot");
_Static_assert(__builtin_offsetof(struct hanare_start_block, magic) == 0, "StartBlock.magic");
_Static_assert(__builtin_offsetof(struct hanare_start_block, version) == 8, "StartBlock.version");
_Static_assert(__builtin_offsetof(struct hanare_start_block, strings_offset) == 12, "StartBlock.strings_offset");
_Static_assert(__builtin_offsetof(struct hanare_start_block, total_size) == 16, "StartBlock.total_size");
_Static_assert(__builtin_offsetof(struct hanare_start_block, argc) == 24, "StartBlock.argc");
_Static_assert(__builtin_offsetof(struct hanare_start_block, envc) == 28, "StartBlock.envc");
_Static_assert(__builtin_offsetof(struct hanare_start_block, secure) == 32, "StartBlock.secure");
_Static_assert(__builtin_offsetof(struct hanare_start_block, control_fd) == 36, "StartBlock.control_fd");
_Static_assert(__builtin_offsetof(struct hanare_start_block, sigmask) == 40, "StartBlock.sigmask");
_Static_assert(__builtin_offsetof(struct hanare_start_block, sigignore) == 48, "StartBlock.sigignore");
_Static_assert(__builtin_offsetof(struct hanare_start_block, stack_soft) == 56, "StartBlock.stack_soft");
_Static_assert(__builtin_offsetof(struct hanare_start_block, stack_hard) == 64, "StartBlock.stack_hard");
_Static_assert(__builtin_offsetof(struct hanare_start_block, as_soft) == 72, "StartBlock.as_soft");
_Static_assert(__builtin_offsetof(struct hanare_start_block, data_soft) == 80, "StartBlock.data_soft");
_Static_assert(__builtin_offsetof(struct hanare_start_block, random) == 88, "StartBlock.random");
_Static_assert(__builtin_offsetof(struct hanare_start_block, hwcap) == 120, "StartBlock.hwcap");
_Static_assert(__builtin_offsetof(struct hanare_start_block, hwcap2) == 128, "StartBlock.hwcap2");
_Static_assert(__builtin_offsetof(struct hanare_start_block, clktck) == 136, "StartBlock.clktck");
_Static_assert(__builtin_offsetof(struct hanare_start_block, flags) == 144, "StartBlock.flags");
_Static_assert(__builtin_offsetof(struct hanare_start_block, cpu_soft) == 152, "StartBlock.cpu_soft");
_Static_assert(__builtin_offsetof(struct hanare_start_block, cpu_hard) == 160, "StartBlock.cpu_hard");
_Static_assert(sizeof(struct hanare_start_block) == 168, "StartBlock");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, tid) == 0, "ThreadInfo.tid");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, state) == 4, "ThreadInfo.state");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, cpu) == 8, "ThreadInfo.cpu");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, seccomp) == 12, "ThreadInfo.seccomp");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, user_ns) == 16, "ThreadInfo.user_ns");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, system_ns) == 24, "ThreadInfo.system_ns");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, delegated_calls) == 32, "ThreadInfo.delegated_calls");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, voluntary_switches) == 40, "ThreadInfo.voluntary_switches");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, involuntary_switches) == 48, "ThreadInfo.involuntary_switches");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, faults) == 56, "ThreadInfo.faults");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, call) == 64, "ThreadInfo.call");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, link) == 68, "ThreadInfo.link");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, server) == 72, "ThreadInfo.server");
_Static_assert(__builtin_offsetof(struct hanare_thread_info, reserved) == 76, "ThreadInfo.reserved");
_Static_assert(sizeof(struct hanare_thread_info) == 80, "ThreadInfo");
_Static_assert(__builtin_offsetof(struct hanare_process_info, thread) == 0, "ProcessInfo.thread");
_Static_assert(__builtin_offsetof(struct hanare_process_info, user_ns) == 80, "ProcessInfo.user_ns");
_Static_assert(__builtin_offsetof(struct hanare_process_info, system_ns) == 88, "ProcessInfo.system_ns");
_Static_assert(__builtin_offsetof(struct hanare_process_info, delegated_calls) == 96, "ProcessInfo.delegated_calls");
_Static_assert(__builtin_offsetof(struct hanare_process_info, threads) == 104, "ProcessInfo.threads");
_Static_assert(__builtin_offsetof(struct hanare_process_info, mapped) == 112, "ProcessInfo.mapped");
_Static_assert(__builtin_offsetof(struct hanare_process_info, mapped_peak) == 120, "ProcessInfo.mapped_peak");
_Static_assert(__builtin_offsetof(struct hanare_process_info, resident) == 128, "ProcessInfo.resident");
_Static_assert(__builtin_offsetof(struct hanare_process_info, resident_peak) == 136, "ProcessInfo.resident_peak");
_Static_assert(__builtin_offsetof(struct hanare_process_info, resident_file) == 144, "ProcessInfo.resident_file");
_Static_assert(__builtin_offsetof(struct hanare_process_info, resident_shared) == 152, "ProcessInfo.resident_shared");
_Static_assert(__builtin_offsetof(struct hanare_process_info, data) == 160, "ProcessInfo.data");
_Static_assert(__builtin_offsetof(struct hanare_process_info, stack) == 168, "ProcessInfo.stack");
_Static_assert(__builtin_offsetof(struct hanare_process_info, code) == 176, "ProcessInfo.code");
_Static_assert(__builtin_offsetof(struct hanare_process_info, library) == 184, "ProcessInfo.library");
_Static_assert(__builtin_offsetof(struct hanare_process_info, tables) == 192, "ProcessInfo.tables");
_Static_assert(__builtin_offsetof(struct hanare_process_info, locked) == 200, "ProcessInfo.locked");
_Static_assert(__builtin_offsetof(struct hanare_process_info, shared_pending) == 208, "ProcessInfo.shared_pending");
_Static_assert(__builtin_offsetof(struct hanare_process_info, pending) == 216, "ProcessInfo.pending");
_Static_assert(__builtin_offsetof(struct hanare_process_info, blocked) == 224, "ProcessInfo.blocked");
_Static_assert(__builtin_offsetof(struct hanare_process_info, ignored) == 232, "ProcessInfo.ignored");
_Static_assert(__builtin_offsetof(struct hanare_process_info, caught) == 240, "ProcessInfo.caught");
_Static_assert(__builtin_offsetof(struct hanare_process_info, allowed) == 248, "ProcessInfo.allowed");
_Static_assert(__builtin_offsetof(struct hanare_process_info, faults) == 376, "ProcessInfo.faults");
_Static_assert(__builtin_offsetof(struct hanare_process_info, children_faults) == 384, "ProcessInfo.children_faults");
_Static_assert(__builtin_offsetof(struct hanare_process_info, space_soft) == 392, "ProcessInfo.space_soft");
_Static_assert(__builtin_offsetof(struct hanare_process_info, space_hard) == 400, "ProcessInfo.space_hard");
_Static_assert(sizeof(struct hanare_process_info) == 408, "ProcessInfo");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, start) == 0, "VmaInfo.start");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, end) == 8, "VmaInfo.end");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, flags) == 16, "VmaInfo.flags");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, offset) == 24, "VmaInfo.offset");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, file) == 32, "VmaInfo.file");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, resident) == 40, "VmaInfo.resident");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, written) == 44, "VmaInfo.written");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, large) == 48, "VmaInfo.large");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, shared) == 52, "VmaInfo.shared");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, shared_written) == 56, "VmaInfo.shared_written");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, proportional_kib) == 60, "VmaInfo.proportional_kib");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, referenced) == 64, "VmaInfo.referenced");
_Static_assert(__builtin_offsetof(struct hanare_vma_info, reserved) == 68, "VmaInfo.reserved");
_Static_assert(sizeof(struct hanare_vma_info) == 72, "VmaInfo");
_Static_assert(__builtin_offsetof(struct hanare_numa_info, end) == 0, "NumaInfo.end");
_Static_assert(__builtin_offsetof(struct hanare_numa_info, mode) == 8, "NumaInfo.mode");
_Static_assert(__builtin_offsetof(struct hanare_numa_info, nodes) == 16, "NumaInfo.nodes");
_Static_assert(__builtin_offsetof(struct hanare_numa_info, written) == 144, "NumaInfo.written");
_Static_assert(__builtin_offsetof(struct hanare_numa_info, pages) == 152, "NumaInfo.pages");
_Static_assert(sizeof(struct hanare_numa_info) == 472, "NumaInfo");
_Static_assert(__builtin_offsetof(struct hanare_request_box, idle) == 0, "RequestBox.idle");
_Static_assert(__builtin_offsetof(struct hanare_request_box, first) == 8, "RequestBox.first");
_Static_assert(__builtin_offsetof(struct hanare_request_box, reserved0) == 40, "RequestBox.reserved0");
_Static_assert(__builtin_offsetof(struct hanare_request_box, doorbells) == 64, "RequestBox.doorbells");
_Static_assert(__builtin_offsetof(struct hanare_request_box, reserved1) == 96, "RequestBox.reserved1");
_Static_assert(__builtin_offsetof(struct hanare_request_box, waiting) == 128, "RequestBox.waiting");
_Static_assert(sizeof(struct hanare_request_box) == 192, "RequestBox");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, way) == 0, "DispatchStatus.way");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, servers) == 4, "DispatchStatus.servers");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, boxes) == 8, "DispatchStatus.boxes");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, reserved) == 12, "DispatchStatus.reserved");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, boxed_calls) == 16, "DispatchStatus.boxed_calls");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, unboxed_calls) == 24, "DispatchStatus.unboxed_calls");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, servers_made) == 32, "DispatchStatus.servers_made");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, packed_calls) == 40, "DispatchStatus.packed_calls");
_Static_assert(__builtin_offsetof(struct hanare_dispatch_status, members_made) == 48, "DispatchStatus.members_made");
_Static_assert(sizeof(struct hanare_dispatch_status) == 56, "DispatchStatus");
_Static_assert(__builtin_offsetof(struct hanare_info, magic) == 0, "Info.magic");
_Static_assert(__builtin_offsetof(struct hanare_info, version) == 8, "Info.version");
_Static_assert(__builtin_offsetof(struct hanare_info, instances) == 12, "Info.instances");
_Static_assert(sizeof(struct hanare_info) == 16, "Info");
_Static_assert(__builtin_offsetof(struct hanare_create, name) == 0, "Create.name");
_Static_assert(__builtin_offsetof(struct hanare_create, message) == 32, "Create.message");
_Static_assert(sizeof(struct hanare_create) == 232, "Create");
_Static_assert(__builtin_offsetof(struct hanare_add_memory, bytes) == 0, "AddMemory.bytes");
_Static_assert(__builtin_offsetof(struct hanare_add_memory, node) == 8, "AddMemory.node");
_Static_assert(__builtin_offsetof(struct hanare_add_memory, reserved) == 12, "AddMemory.reserved");
_Static_assert(__builtin_offsetof(struct hanare_add_memory, message) == 16, "AddMemory.message");
_Static_assert(sizeof(struct hanare_add_memory) == 216, "AddMemory");
_Static_assert(__builtin_offsetof(struct hanare_add_cpu, cpu) == 0, "AddCpu.cpu");
_Static_assert(__builtin_offsetof(struct hanare_add_cpu, check) == 4, "AddCpu.check");
_Static_assert(__builtin_offsetof(struct hanare_add_cpu, message) == 8, "AddCpu.message");
_Static_assert(sizeof(struct hanare_add_cpu) == 208, "AddCpu");
_Static_assert(__builtin_offsetof(struct hanare_add_device, driver) == 0, "AddDevice.driver");
_Static_assert(__builtin_offsetof(struct hanare_add_device, descriptor) == 16, "AddDevice.descriptor");
_Static_assert(__builtin_offsetof(struct hanare_add_device, domain) == 20, "AddDevice.domain");
_Static_assert(__builtin_offsetof(struct hanare_add_device, bus) == 24, "AddDevice.bus");
_Static_assert(__builtin_offsetof(struct hanare_add_device, function) == 28, "AddDevice.function");
_Static_assert(__builtin_offsetof(struct hanare_add_device, queues_of_linux) == 32, "AddDevice.queues_of_linux");
_Static_assert(__builtin_offsetof(struct hanare_add_device, reserved) == 36, "AddDevice.reserved");
_Static_assert(__builtin_offsetof(struct hanare_add_device, command) == 40, "AddDevice.command");
_Static_assert(__builtin_offsetof(struct hanare_add_device, message) == 48, "AddDevice.message");
_Static_assert(sizeof(struct hanare_add_device) == 248, "AddDevice");
_Static_assert(__builtin_offsetof(struct hanare_boot, image) == 0, "Boot.image");
_Static_assert(__builtin_offsetof(struct hanare_boot, image_size) == 8, "Boot.image_size");
_Static_assert(__builtin_offsetof(struct hanare_boot, timeout_ms) == 16, "Boot.timeout_ms");
_Static_assert(__builtin_offsetof(struct hanare_boot, reserved) == 20, "Boot.reserved");
_Static_assert(__builtin_offsetof(struct hanare_boot, load_ns) == 24, "Boot.load_ns");
_Static_assert(__builtin_offsetof(struct hanare_boot, first_cpu_ns) == 32, "Boot.first_cpu_ns");
_Static_assert(__builtin_offsetof(struct hanare_boot, other_cpus_ns) == 40, "Boot.other_cpus_ns");
_Static_assert(__builtin_offsetof(struct hanare_boot, cmdline) == 48, "Boot.cmdline");
_Static_assert(__builtin_offsetof(struct hanare_boot, message) == 304, "Boot.message");
_Static_assert(sizeof(struct hanare_boot) == 504, "Boot");
_Static_assert(__builtin_offsetof(struct hanare_shutdown, name) == 0, "Shutdown.name");
_Static_assert(__builtin_offsetof(struct hanare_shutdown, force) == 32, "Shutdown.force");
_Static_assert(__builtin_offsetof(struct hanare_shutdown, timeout_ms) == 36, "Shutdown.timeout_ms");
_Static_assert(__builtin_offsetof(struct hanare_shutdown, message) == 40, "Shutdown.message");
_Static_assert(sizeof(struct hanare_shutdown) == 240, "Shutdown");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, linux_cpu) == 0, "CpuStatus.linux_cpu");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, state) == 4, "CpuStatus.state");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, space) == 8, "CpuStatus.space");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, node) == 12, "CpuStatus.node");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, heartbeat) == 16, "CpuStatus.heartbeat");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, interrupts) == 24, "CpuStatus.interrupts");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, exceptions) == 32, "CpuStatus.exceptions");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, page_faults) == 40, "CpuStatus.page_faults");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, local_calls) == 48, "CpuStatus.local_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, delegated_calls) == 56, "CpuStatus.delegated_calls");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, idle_ns) == 64, "CpuStatus.idle_ns");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, interrupts_by) == 72, "CpuStatus.interrupts_by");
_Static_assert(__builtin_offsetof(struct hanare_cpu_status, exceptions_by) == 200, "CpuStatus.exceptions_by");
_Static_assert(sizeof(struct hanare_cpu_status) == 328, "CpuStatus");
_Static_assert(__builtin_offsetof(struct hanare_status, name) == 0, "Status.name");
_Static_assert(__builtin_offsetof(struct hanare_status, index) == 32, "Status.index");
_Static_assert(__builtin_offsetof(struct hanare_status, state) == 36, "Status.state");
_Static_assert(__builtin_offsetof(struct hanare_status, spaces) == 40, "Status.spaces");
_Static_assert(__builtin_offsetof(struct hanare_status, cpu_count) == 44, "Status.cpu_count");
_Static_assert(__builtin_offsetof(struct hanare_status, memory_bytes) == 48, "Status.memory_bytes");
_Static_assert(__builtin_offsetof(struct hanare_status, chunks) == 56, "Status.chunks");
_Static_assert(__builtin_offsetof(struct hanare_status, ping) == 60, "Status.ping");
_Static_assert(__builtin_offsetof(struct hanare_status, uptime_ns) == 64, "Status.uptime_ns");
_Static_assert(__builtin_offsetof(struct hanare_status, ping_ns) == 72, "Status.ping_ns");
_Static_assert(__builtin_offsetof(struct hanare_status, log_head) == 80, "Status.log_head");
_Static_assert(__builtin_offsetof(struct hanare_status, cpus) == 88, "Status.cpus");
_Static_assert(__builtin_offsetof(struct hanare_status, node_bytes) == 96, "Status.node_bytes");
_Static_assert(__builtin_offsetof(struct hanare_status, copied) == 160, "Status.copied");
_Static_assert(__builtin_offsetof(struct hanare_status, dispatch) == 264, "Status.dispatch");
_Static_assert(__builtin_offsetof(struct hanare_status, devices) == 320, "Status.devices");
_Static_assert(sizeof(struct hanare_status) == 480, "Status");
_Static_assert(__builtin_offsetof(struct hanare_log, name) == 0, "Log.name");
_Static_assert(__builtin_offsetof(struct hanare_log, position) == 32, "Log.position");
_Static_assert(__builtin_offsetof(struct hanare_log, buffer) == 40, "Log.buffer");
_Static_assert(__builtin_offsetof(struct hanare_log, size) == 48, "Log.size");
_Static_assert(sizeof(struct hanare_log) == 56, "Log");
_Static_assert(__builtin_offsetof(struct hanare_debug, name) == 0, "Debug.name");
_Static_assert(__builtin_offsetof(struct hanare_debug, cpu) == 32, "Debug.cpu");
_Static_assert(__builtin_offsetof(struct hanare_debug, op) == 36, "Debug.op");
_Static_assert(__builtin_offsetof(struct hanare_debug, args) == 40, "Debug.args");
_Static_assert(__builtin_offsetof(struct hanare_debug, words) == 72, "Debug.words");
_Static_assert(sizeof(struct hanare_debug) == 504, "Debug");
_Static_assert(__builtin_offsetof(struct hanare_attach, name) == 0, "Attach.name");
_Static_assert(__builtin_offsetof(struct hanare_attach, cpus) == 32, "Attach.cpus");
_Static_assert(__builtin_offsetof(struct hanare_attach, space) == 544, "Attach.space");
_Static_assert(__builtin_offsetof(struct hanare_attach, cpu_count) == 548, "Attach.cpu_count");
_Static_assert(__builtin_offsetof(struct hanare_attach, fd) == 552, "Attach.fd");
_Static_assert(__builtin_offsetof(struct hanare_attach, counted) == 556, "Attach.counted");
_Static_assert(__builtin_offsetof(struct hanare_attach, kind) == 560, "Attach.kind");
_Static_assert(__builtin_offsetof(struct hanare_attach, pool_fd) == 564, "Attach.pool_fd");
_Static_assert(__builtin_offsetof(struct hanare_attach, message) == 568, "Attach.message");
_Static_assert(sizeof(struct hanare_attach) == 768, "Attach");
_Static_assert(__builtin_offsetof(struct hanare_serve, index) == 0, "Serve.index");
_Static_assert(__builtin_offsetof(struct hanare_serve, reserved) == 4, "Serve.reserved");
_Static_assert(sizeof(struct hanare_serve) == 8, "Serve");
_Static_assert(__builtin_offsetof(struct hanare_signal, signal) == 0, "Signal.signal");
_Static_assert(__builtin_offsetof(struct hanare_signal, slot) == 4, "Signal.slot");
_Static_assert(__builtin_offsetof(struct hanare_signal, info) == 8, "Signal.info");
_Static_assert(sizeof(struct hanare_signal) == 136, "Signal");
_Static_assert(__builtin_offsetof(struct hanare_last, signal) == 0, "Last.signal");
_Static_assert(__builtin_offsetof(struct hanare_last, reserved) == 4, "Last.reserved");
_Static_assert(sizeof(struct hanare_last) == 8, "Last");
_Static_assert(__builtin_offsetof(struct hanare_usage, user_ns) == 0, "Usage.user_ns");
_Static_assert(__builtin_offsetof(struct hanare_usage, system_ns) == 8, "Usage.system_ns");
_Static_assert(__builtin_offsetof(struct hanare_usage, resident_bytes) == 16, "Usage.resident_bytes");
_Static_assert(__builtin_offsetof(struct hanare_usage, peak_bytes) == 24, "Usage.peak_bytes");
_Static_assert(sizeof(struct hanare_usage) == 32, "Usage");
_Static_assert(__builtin_offsetof(struct hanare_child, token) == 0, "Child.token");
_Static_assert(__builtin_offsetof(struct hanare_child, program) == 8, "Child.program");
_Static_assert(__builtin_offsetof(struct hanare_child, secure) == 12, "Child.secure");
_Static_assert(__builtin_offsetof(struct hanare_child, files) == 16, "Child.files");
_Static_assert(__builtin_offsetof(struct hanare_child, parent) == 40, "Child.parent");
_Static_assert(__builtin_offsetof(struct hanare_child, shares_table) == 44, "Child.shares_table");
_Static_assert(__builtin_offsetof(struct hanare_child, space) == 48, "Child.space");
_Static_assert(__builtin_offsetof(struct hanare_child, parts) == 52, "Child.parts");
_Static_assert(sizeof(struct hanare_child) == 56, "Child");
_Static_assert(__builtin_offsetof(struct hanare_dump_thread, signal) == 0, "DumpThread.signal");
_Static_assert(__builtin_offsetof(struct hanare_dump_thread, others) == 4, "DumpThread.others");
_Static_assert(__builtin_offsetof(struct hanare_dump_thread, regs) == 8, "DumpThread.regs");
_Static_assert(__builtin_offsetof(struct hanare_dump_thread, info) == 152, "DumpThread.info");
_Static_assert(sizeof(struct hanare_dump_thread) == 280, "DumpThread");
_Static_assert(__builtin_offsetof(struct hanare_send, signal) == 0, "Send.signal");
_Static_assert(__builtin_offsetof(struct hanare_send, tid) == 4, "Send.tid");
_Static_assert(__builtin_offsetof(struct hanare_send, is_back) == 8, "Send.is_back");
_Static_assert(__builtin_offsetof(struct hanare_send, reserved) == 12, "Send.reserved");
_Static_assert(__builtin_offsetof(struct hanare_send, info) == 16, "Send.info");
_Static_assert(sizeof(struct hanare_send) == 144, "Send");
_Static_assert(__builtin_offsetof(struct hanare_copy, from) == 0, "Copy.from");
_Static_assert(__builtin_offsetof(struct hanare_copy, to) == 8, "Copy.to");
_Static_assert(__builtin_offsetof(struct hanare_copy, bytes) == 16, "Copy.bytes");
_Static_assert(sizeof(struct hanare_copy) == 24, "Copy");
_Static_assert(__builtin_offsetof(struct hanare_forward, signals) == 0, "Forward.signals");
_Static_assert(__builtin_offsetof(struct hanare_forward, ignored_too) == 8, "Forward.ignored_too");
_Static_assert(__builtin_offsetof(struct hanare_forward, handler) == 16, "Forward.handler");
_Static_assert(__builtin_offsetof(struct hanare_forward, restorer) == 24, "Forward.restorer");
_Static_assert(sizeof(struct hanare_forward) == 32, "Forward");
_Static_assert(__builtin_offsetof(struct hanare_opened, fd) == 0, "Opened.fd");
_Static_assert(__builtin_offsetof(struct hanare_opened, replace) == 4, "Opened.replace");
_Static_assert(__builtin_offsetof(struct hanare_opened, close_on_exec) == 8, "Opened.close_on_exec");
_Static_assert(__builtin_offsetof(struct hanare_opened, shows) == 12, "Opened.shows");
_Static_assert(sizeof(struct hanare_opened) == 16, "Opened");
_Static_assert(__builtin_offsetof(struct hanare_listed, fd) == 0, "Listed.fd");
_Static_assert(__builtin_offsetof(struct hanare_listed, old) == 4, "Listed.old");
_Static_assert(__builtin_offsetof(struct hanare_listed, buffer) == 8, "Listed.buffer");
_Static_assert(__builtin_offsetof(struct hanare_listed, bytes) == 16, "Listed.bytes");
_Static_assert(sizeof(struct hanare_listed) == 24, "Listed");
_Static_assert(__builtin_offsetof(struct hanare_share, slot) == 0, "Share.slot");
_Static_assert(__builtin_offsetof(struct hanare_share, begin) == 4, "Share.begin");
_Static_assert(sizeof(struct hanare_share) == 8, "Share");
_Static_assert(__builtin_offsetof(struct hanare_execed, file) == 0, "Execed.file");
_Static_assert(__builtin_offsetof(struct hanare_execed, arg_start) == 8, "Execed.arg_start");
_Static_assert(__builtin_offsetof(struct hanare_execed, arg_end) == 16, "Execed.arg_end");
_Static_assert(__builtin_offsetof(struct hanare_execed, env_start) == 24, "Execed.env_start");
_Static_assert(__builtin_offsetof(struct hanare_execed, env_end) == 32, "Execed.env_end");
_Static_assert(sizeof(struct hanare_execed) == 40, "Execed");
_Static_assert(__builtin_offsetof(struct hanare_rights, changed) == 0, "Rights.changed");
_Static_assert(__builtin_offsetof(struct hanare_rights, secure) == 4, "Rights.secure");
_Static_assert(__builtin_offsetof(struct hanare_rights, gained) == 8, "Rights.gained");
_Static_assert(__builtin_offsetof(struct hanare_rights, keeps) == 12, "Rights.keeps");
_Static_assert(sizeof(struct hanare_rights) == 16, "Rights");
_Static_assert(__builtin_offsetof(struct hanare_succeed, tid) == 0, "Succeed.tid");
_Static_assert(__builtin_offsetof(struct hanare_succeed, reserved) == 4, "Succeed.reserved");
_Static_assert(sizeof(struct hanare_succeed) == 8, "Succeed");
_Static_assert(__builtin_offsetof(struct hanare_process_status, name) == 0, "ProcessStatus.name");
_Static_assert(__builtin_offsetof(struct hanare_process_status, after) == 32, "ProcessStatus.after");
_Static_assert(__builtin_offsetof(struct hanare_process_status, pid) == 36, "ProcessStatus.pid");
_Static_assert(__builtin_offsetof(struct hanare_process_status, info) == 40, "ProcessStatus.info");
_Static_assert(sizeof(struct hanare_process_status) == 448, "ProcessStatus");
_Static_assert(__builtin_offsetof(struct hanare_threads, name) == 0, "Threads.name");
_Static_assert(__builtin_offsetof(struct hanare_threads, space) == 32, "Threads.space");
_Static_assert(__builtin_offsetof(struct hanare_threads, from) == 36, "Threads.from");
_Static_assert(__builtin_offsetof(struct hanare_threads, count) == 40, "Threads.count");
_Static_assert(__builtin_offsetof(struct hanare_threads, reserved) == 44, "Threads.reserved");
_Static_assert(__builtin_offsetof(struct hanare_threads, threads) == 48, "Threads.threads");
_Static_assert(sizeof(struct hanare_threads) == 688, "Threads");
_Static_assert(__builtin_offsetof(struct hanare_end_status, name) == 0, "EndStatus.name");
_Static_assert(__builtin_offsetof(struct hanare_end_status, after) == 32, "EndStatus.after");
_Static_assert(__builtin_offsetof(struct hanare_end_status, pid) == 36, "EndStatus.pid");
_Static_assert(__builtin_offsetof(struct hanare_end_status, cpu) == 40, "EndStatus.cpu");
_Static_assert(__builtin_offsetof(struct hanare_end_status, waits) == 44, "EndStatus.waits");
_Static_assert(__builtin_offsetof(struct hanare_end_status, threads) == 48, "EndStatus.threads");
_Static_assert(__builtin_offsetof(struct hanare_end_status, tid) == 52, "EndStatus.tid");
_Static_assert(__builtin_offsetof(struct hanare_end_status, since_ms) == 56, "EndStatus.since_ms");
_Static_assert(sizeof(struct hanare_end_status) == 64, "EndStatus");
_Static_assert(__builtin_offsetof(struct hanare_trace_ring, head) == 0, "TraceRing.head");
_Static_assert(__builtin_offsetof(struct hanare_trace_ring, lost) == 8, "TraceRing.lost");
_Static_assert(__builtin_offsetof(struct hanare_trace_ring, over) == 16, "TraceRing.over");
_Static_assert(__builtin_offsetof(struct hanare_trace_ring, reserved) == 24, "TraceRing.reserved");
_Static_assert(__builtin_offsetof(struct hanare_trace_ring, tail) == 64, "TraceRing.tail");
_Static_assert(sizeof(struct hanare_trace_ring) == 72, "TraceRing");
_Static_assert(__builtin_offsetof(struct hanare_record, size) == 0, "Record.size");
_Static_assert(__builtin_offsetof(struct hanare_record, kind) == 4, "Record.kind");
_Static_assert(__builtin_offsetof(struct hanare_record, pid) == 8, "Record.pid");
_Static_assert(__builtin_offsetof(struct hanare_record, tid) == 12, "Record.tid");
_Static_assert(__builtin_offsetof(struct hanare_record, number) == 16, "Record.number");
_Static_assert(__builtin_offsetof(struct hanare_record, served) == 20, "Record.served");
_Static_assert(__builtin_offsetof(struct hanare_record, time_ns) == 24, "Record.time_ns");
_Static_assert(__builtin_offsetof(struct hanare_record, duration_ns) == 32, "Record.duration_ns");
_Static_assert(__builtin_offsetof(struct hanare_record, result) == 40, "Record.result");
_Static_assert(__builtin_offsetof(struct hanare_record, args) == 48, "Record.args");
_Static_assert(sizeof(struct hanare_record) == 96, "Record");
_Static_assert(__builtin_offsetof(struct hanare_capture, argument) == 0, "Capture.argument");
_Static_assert(__builtin_offsetof(struct hanare_capture, bytes) == 4, "Capture.bytes");
_Static_assert(sizeof(struct hanare_capture) == 8, "Capture");
_Static_assert(__builtin_offsetof(struct hanare_observe, memory) == 0, "Observe.memory");
_Static_assert(__builtin_offsetof(struct hanare_observe, reserved) == 4, "Observe.reserved");
_Static_assert(__builtin_offsetof(struct hanare_observe, message) == 8, "Observe.message");
_Static_assert(sizeof(struct hanare_observe) == 208, "Observe");
_Static_assert(__builtin_offsetof(struct hanare_observation, op) == 0, "Observation.op");
_Static_assert(__builtin_offsetof(struct hanare_observation, count) == 4, "Observation.count");
_Static_assert(__builtin_offsetof(struct hanare_observation, args) == 8, "Observation.args");
_Static_assert(__builtin_offsetof(struct hanare_observation, data) == 24, "Observation.data");
_Static_assert(sizeof(struct hanare_observation) == 536, "Observation");
_Static_assert(__builtin_offsetof(struct hanare_trace_read, buffer) == 0, "TraceRead.buffer");
_Static_assert(__builtin_offsetof(struct hanare_trace_read, size) == 8, "TraceRead.size");
_Static_assert(__builtin_offsetof(struct hanare_trace_read, lost) == 16, "TraceRead.lost");
_Static_assert(sizeof(struct hanare_trace_read) == 24, "TraceRead");
_Static_assert(__builtin_offsetof(struct hanare_offer, sequence) == 0, "Offer.sequence");
_Static_assert(__builtin_offsetof(struct hanare_offer, space) == 4, "Offer.space");
_Static_assert(__builtin_offsetof(struct hanare_offer, start) == 8, "Offer.start");
_Static_assert(__builtin_offsetof(struct hanare_offer, count) == 16, "Offer.count");
_Static_assert(__builtin_offsetof(struct hanare_offer, reserved0) == 20, "Offer.reserved0");
_Static_assert(__builtin_offsetof(struct hanare_offer, pages) == 24, "Offer.pages");
_Static_assert(__builtin_offsetof(struct hanare_offer, reserved1) == 248, "Offer.reserved1");
_Static_assert(sizeof(struct hanare_offer) == 256, "Offer");
_Static_assert(__builtin_offsetof(struct hanare_message_head, magic) == 0, "MessageHead.magic");
_Static_assert(__builtin_offsetof(struct hanare_message_head, number) == 4, "MessageHead.number");
_Static_assert(__builtin_offsetof(struct hanare_message_head, size) == 8, "MessageHead.size");
_Static_assert(__builtin_offsetof(struct hanare_message_head, fault) == 12, "MessageHead.fault");
_Static_assert(__builtin_offsetof(struct hanare_message_head, args) == 16, "MessageHead.args");
_Static_assert(__builtin_offsetof(struct hanare_message_head, result) == 64, "MessageHead.result");
_Static_assert(sizeof(struct hanare_message_head) == 72, "MessageHead");
_Static_assert(__builtin_offsetof(struct hanare_message_page, magic) == 0, "MessagePage.magic");
_Static_assert(__builtin_offsetof(struct hanare_message_page, next) == 4, "MessagePage.next");
_Static_assert(__builtin_offsetof(struct hanare_message_page, index) == 8, "MessagePage.index");
_Static_assert(__builtin_offsetof(struct hanare_message_page, count) == 12, "MessagePage.count");
_Static_assert(__builtin_offsetof(struct hanare_message_page, call) == 16, "MessagePage.call");
_Static_assert(__builtin_offsetof(struct hanare_message_page, reserved) == 24, "MessagePage.reserved");
_Static_assert(sizeof(struct hanare_message_page) == 32, "MessagePage");
_Static_assert(__builtin_offsetof(struct hanare_member, state) == 0, "Member.state");
_Static_assert(__builtin_offsetof(struct hanare_member, reserved) == 4, "Member.reserved");
_Static_assert(sizeof(struct hanare_member) == 8, "Member");
_Static_assert(__builtin_offsetof(struct hanare_pool_make, name) == 0, "PoolMake.name");
_Static_assert(__builtin_offsetof(struct hanare_pool_make, limit) == 32, "PoolMake.limit");
_Static_assert(__builtin_offsetof(struct hanare_pool_make, idle_ms) == 36, "PoolMake.idle_ms");
_Static_assert(__builtin_offsetof(struct hanare_pool_make, message) == 40, "PoolMake.message");
_Static_assert(sizeof(struct hanare_pool_make) == 240, "PoolMake");
_Static_assert(__builtin_offsetof(struct hanare_eventfd, slot) == 0, "Eventfd.slot");
_Static_assert(__builtin_offsetof(struct hanare_eventfd, descriptor) == 4, "Eventfd.descriptor");
_Static_assert(sizeof(struct hanare_eventfd) == 8, "Eventfd");

#endif
