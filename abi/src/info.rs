//! Questions of the module to the LWK about what it shows: processes, threads, mappings,
//! memory (`REQUEST_INFO`). For `/proc` as LWK programs see it, and `hanare ps`.
//!
//! `args[0]` = `INFO_*`. The answer is in `pages`: as many structures of the kind
//! as `count` words hold.

use crate::cpus::CpuSet;

/// One [`ProcessInfo`] of `space`; args: [1] = thread id that its thread part is
/// about, or 0: the first thread. -ESRCH: no such thread.
pub const INFO_PROCESS: u64 = 1;
/// [`VmaInfo`]s of `space` from address args[1] on; args: [2] = 1: with what is
/// resident. Answer: args[1] = address to go on from, 0: that was the last.
pub const INFO_VMAS: u64 = 2;
/// [`ThreadInfo`]s of `space`, the newest ones first; args: [1] = 0, or where to go on, [2] = the
/// id of the process, or of a thread of it, or 0: the first process. Answer: args[1] = where to go
/// on. A thread may be told of twice where another one has ended meanwhile; no living thread is
/// left out. An answer without threads ends the list.
pub const INFO_THREADS: u64 = 3;
/// Memory; args: [1] = node, or `NODE_ANY`. Answer args: [1] = total bytes,
/// [2] = free bytes, [3] = bytes in quarantine.
pub const INFO_MEMORY: u64 = 4;

/// A [`NumaInfo`] of `space` for the mapping at address args[1].
pub const INFO_NUMA: u64 = 5;

/// Entries of `/proc/PID/pagemap` for the pages of `space` from address args[1] on, to args[2] at
/// most. Answer: args[1] = the address to go on from; `pages`: runs of pages, one behind the other
/// ([`PAGEMAP_RUN_SHIFT`]).
pub const INFO_PAGEMAP: u64 = 6;
/// Not shown but done: `/proc/PID/clear_refs` of `space`, args[1] = the number written to it
/// (1..=5). Answer: args[1] = 1: Linux has pages of it which it has to forget now, so that a write
/// or access of its own is seen.
pub const INFO_CLEAR_REFS: u64 = 7;
/// After `INFO_CLEAR_REFS` with 4, when Linux has forgotten all pages of `space`: those that it
/// could write to, from address args[1] on. Answer: args[1] = where to go on, 0: that was all;
/// `pages`: for each its address, and its frame | pages of 4 KiB - 1.
pub const INFO_WRITTEN_BY_LINUX: u64 = 8;
/// The page of `space` at address args[1] is soft-dirty: a device may write to it still.
pub const INFO_SOFT_DIRTY: u64 = 9;

/// Call in which the thread with id args[1] of `space` waits. Answer: `pages`: number of the system
/// call, or -1, its six arguments, stack pointer, instruction pointer; nothing: it runs, or could.
/// -ESRCH: no such thread.
pub const INFO_CALL: u64 = 10;

/// A run of pages in an answer to [`INFO_PAGEMAP`]: the entry of the first one, and here the number
/// of the others. If they are present, each has the frame behind the last one's.
pub const PAGEMAP_RUN_SHIFT: u32 = 40;
/// Most pages of a run.
pub const PAGEMAP_RUN_MAX: u64 = 1 << (55 - PAGEMAP_RUN_SHIFT);
/// In an entry: soft-dirty; mapped by no other process; of a file or shared; paged out, or lost;
/// present. As Linux has them.
pub const PAGEMAP_SOFT_DIRTY: u64 = 1 << 55;
/// In an entry: exclusive: no other process has it mapped.
pub const PAGEMAP_EXCLUSIVE: u64 = 1 << 56;
/// In an entry: of a file, or shared.
pub const PAGEMAP_FILE: u64 = 1 << 61;
/// In an entry: paged out, or lost.
pub const PAGEMAP_SWAP: u64 = 1 << 62;
/// In an entry: present.
pub const PAGEMAP_PRESENT: u64 = 1 << 63;
/// In an entry, for the module: no page is there, and a table for 2 MiB of pages is.
pub const PAGEMAP_TABLE: u64 = 1 << 57;
/// In an entry, for the module: no mapping of pages is there; a part of a large page; Linux knows
/// what is there.
pub const PAGEMAP_UNMAPPED: u64 = 1 << 58;
/// In an entry, for the module: a part of a large page.
pub const PAGEMAP_LARGE: u64 = 1 << 59;
/// In an entry, for the module: Linux knows what is there.
pub const PAGEMAP_LINUX: u64 = 1 << 60;

/// `INFO_MEMORY`: all nodes.
pub const NODE_ANY: u64 = 0xffff_ffff;

/// A thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Linux thread id of its worker, in the proxy's namespace.
    pub tid: u32,
    /// `THREAD_*`.
    pub state: u32,
    /// Index in the instance of the CPU it runs on or ran on last.
    pub cpu: u32,
    /// seccomp: mode as PR_GET_SECCOMP has it | number of filters << 2.
    pub seccomp: u32,
    /// Time in user mode and in the LWK, and waiting for Linux with the CPU kept, ns.
    pub user_ns: u64,
    /// Time in the LWK, and waiting for Linux with the CPU kept, ns.
    pub system_ns: u64,
    /// Calls that Linux served.
    pub delegated_calls: u64,
    /// Times it gave the CPU away to wait, and times it lost it to another thread.
    pub voluntary_switches: u64,
    /// Times another thread got the CPU although it could go on.
    pub involuntary_switches: u64,
    /// Page faults it had.
    pub faults: u64,
    /// Number of the system call, or of the control request, that its slot holds or held last.
    pub call: u32,
    /// State of the thread's slot (`SLOT_*`) | `LINK_*`: its link with its worker.
    pub link: u32,
    /// Linux thread id of the server of the request box that executes the thread's call, in the
    /// proxy's namespace; 0: none does.
    pub server: u32,
    /// Zero.
    pub reserved: u32,
}

/// The thread waits for an answer, or for something of the LWK's.
pub const LINK_WAITS: u32 = 1 << 8;
/// The thread has said that it sleeps until it is rung.
pub const LINK_SLEEPS: u32 = 1 << 9;
/// The thread's worker has said that it sleeps until it is rung.
pub const LINK_WORKER_SLEEPS: u32 = 1 << 10;

/// The thread waits.
pub const THREAD_WAITS: u32 = 0;
/// The thread runs, or could; its worker sleeps.
pub const THREAD_RUNS: u32 = 1;
/// The thread waits until the child that it made has begun.
pub const THREAD_CREATES: u32 = 2;
/// The thread waits until its child has left its memory (vfork).
pub const THREAD_VFORKS: u32 = 3;
/// The thread replaces the program and waits until the other threads have ended.
pub const THREAD_REPLACES: u32 = 4;
/// The thread waits until Linux has made its execve.
pub const THREAD_DEPARTS: u32 = 5;
/// The thread is the first one of a new program and waits until the threads of the old one have
/// ended.
pub const THREAD_ARRIVES: u32 = 6;
/// The thread makes a core dump and waits until the other threads are parked.
pub const THREAD_DUMPS: u32 = 7;
/// The thread is parked for a core dump.
pub const THREAD_PARKED: u32 = 8;
/// The thread has called exit(2), or has ended; other threads go on.
pub const THREAD_EXITED: u32 = 9;
/// The thread waits until Linux has ended its process.
pub const THREAD_LAST: u32 = 10;

/// A process, and one of its threads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The thread.
    pub thread: ThreadInfo,
    /// User and system time of all threads, ended ones too, ns.
    pub user_ns: u64,
    /// Time in the LWK, and waiting for Linux with the CPU kept, ns.
    pub system_ns: u64,
    /// Calls that Linux served, all threads.
    pub delegated_calls: u64,
    /// Living threads.
    pub threads: u64,
    /// Bytes mapped now and at most.
    pub mapped: u64,
    /// Most bytes that were mapped.
    pub mapped_peak: u64,
    /// Bytes resident now and at most.
    pub resident: u64,
    /// Most bytes that were resident.
    pub resident_peak: u64,
    /// Resident bytes of files and of mappings shared with Linux.
    pub resident_file: u64,
    /// Resident bytes of shared memory without a file.
    pub resident_shared: u64,
    /// Bytes of private writable mappings without the stack.
    pub data: u64,
    /// Bytes of the stack.
    pub stack: u64,
    /// Bytes of executable mappings of the program and of others.
    pub code: u64,
    /// Bytes of libraries.
    pub library: u64,
    /// Bytes of page tables.
    pub tables: u64,
    /// Bytes locked.
    pub locked: u64,
    /// Signals (bit n-1 = signal n) pending for the process and the thread.
    pub shared_pending: u64,
    /// Signals pending for the thread.
    pub pending: u64,
    /// Signals the thread blocks.
    pub blocked: u64,
    /// Signals ignored and caught.
    pub ignored: u64,
    /// Signals that have a handler.
    pub caught: u64,
    /// CPUs of the instance on which the thread may run; the full set: none were chosen.
    pub allowed: CpuSet,
    /// Page faults of all threads, ended ones too, and of children it has waited for.
    pub faults: u64,
    /// Page faults of its ended children.
    pub children_faults: u64,
    /// RLIMIT_AS, bytes; hard 0: as Linux says.
    pub space_soft: u64,
    /// Hard RLIMIT_AS, bytes; 0: as Linux says.
    pub space_hard: u64,
}

/// A mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmaInfo {
    /// First byte.
    pub start: u64,
    /// End (exclusive).
    pub end: u64,
    /// `VMA_*`.
    pub flags: u64,
    /// Offset in the file.
    pub offset: u64,
    /// File id in the module, or 0.
    pub file: u64,
    /// Resident pages of 4 KiB: all, written (if private: the process' own), in large pages.
    pub resident: u32,
    /// Resident pages that were written.
    pub written: u32,
    /// Resident pages that are part of large ones.
    pub large: u32,
    /// Resident pages that others have mapped, too.
    pub shared: u32,
    /// Pages of `shared` that were written.
    pub shared_written: u32,
    /// Resident KiB, each page divided by the number of those that have it.
    pub proportional_kib: u32,
    /// Resident pages that were accessed since `clear_refs` said otherwise.
    pub referenced: u32,
    /// Zero.
    pub reserved: u32,
}

/// Words of a set of NUMA nodes, bit n of word n / 64.
pub const NODE_WORDS: usize = 16;
/// Nodes of which a [`NumaInfo`] tells.
pub const NUMA_NODES: usize = 40;
/// In `NumaInfo::pages`: the node, above the number of pages.
pub const NUMA_NODE_SHIFT: u32 = 48;

/// A part of a mapping, from the address that was asked for on, that has one NUMA policy.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumaInfo {
    /// End (exclusive).
    pub end: u64,
    /// The policy, or that of the first thread: `MPOL_*` with its flags, and nodes.
    pub mode: u64,
    /// Nodes of the policy, a bit each.
    pub nodes: [u64; NODE_WORDS],
    /// Resident pages of 4 KiB that were written (if private: the process' own).
    pub written: u64,
    /// Resident pages of 4 KiB of the instance's memory by node: [`NUMA_NODE_SHIFT`]. 0: no
    /// more.
    pub pages: [u64; NUMA_NODES],
}

/// May be read, written, executed.
pub const VMA_READ: u64 = 1;
/// May be written.
pub const VMA_WRITE: u64 = 2;
/// May be executed.
pub const VMA_EXEC: u64 = 4;
/// Shared.
pub const VMA_SHARED: u64 = 8;
/// The first thread's stack.
pub const VMA_STACK: u64 = 16;
/// The heap of `brk`.
pub const VMA_HEAP: u64 = 32;
/// The vDSO.
pub const VMA_VDSO: u64 = 64;
/// The vDSO's data.
pub const VMA_VVAR: u64 = 128;
/// A mapping of Linux' own in the proxy.
pub const VMA_LINUX: u64 = 256;
/// Locked in memory.
pub const VMA_LOCKED: u64 = 512;
/// Grows downwards.
pub const VMA_GROWS_DOWN: u64 = 1024;
/// Left out of core dumps; not inherited; wiped in a child; large pages wanted, not wanted.
pub const VMA_DONT_DUMP: u64 = 2048;
/// `MADV_DONTFORK`.
pub const VMA_DONT_FORK: u64 = 4096;
/// `MADV_WIPEONFORK`.
pub const VMA_WIPE_ON_FORK: u64 = 8192;
/// `MADV_HUGEPAGE`.
pub const VMA_HUGE: u64 = 16384;
/// `MADV_NOHUGEPAGE`.
pub const VMA_NO_HUGE: u64 = 32768;
/// `MADV_SEQUENTIAL`, `MADV_RANDOM`, `MLOCK_ONFAULT`, `MAP_NORESERVE`, `MAP_HUGETLB`.
pub const VMA_SEQUENTIAL: u64 = 65536;
/// `MADV_RANDOM`.
pub const VMA_RANDOM: u64 = 131_072;
/// `MLOCK_ONFAULT`.
pub const VMA_LOCK_ON_FAULT: u64 = 262_144;
/// `MAP_NORESERVE`.
pub const VMA_NO_RESERVE: u64 = 524_288;
/// `MAP_HUGETLB`.
pub const VMA_HUGETLB: u64 = 1_048_576;
/// Memory is promised to it.
pub const VMA_ACCOUNTED: u64 = 2_097_152;

/// Soft-dirty bits were cleared since it was made.
pub const VMA_SOFT_CLEAN: u64 = 4_194_304;

/// Under construction.
pub const INSTANCE_CREATED: u32 = 0;
/// Starting.
pub const INSTANCE_BOOTING: u32 = 1;
/// Serving.
pub const INSTANCE_RUNNING: u32 = 2;
/// The LWK panicked; log readable, shutdown possible.
pub const INSTANCE_PANICKED: u32 = 3;
/// Going down.
pub const INSTANCE_STOPPING: u32 = 4;
/// State of an instance that did not answer a ping in time.
pub const INSTANCE_HUNG: u32 = 5;
