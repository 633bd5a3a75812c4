//! Requests of the module to the LWK: page faults of proxies, life and death of
//! spaces, signals, stop.
//!
//! The module owns the pool: it takes a free entry, fills it, sets `state` to
//! `REQUEST_POSTED` (release), puts its index into the inbound ring of one LWK
//! CPU, and rings that CPU unless it polls. The LWK reads each field once,
//! answers in place and sets `REQUEST_DONE` (release); if `waiter` says that the
//! Linux side sleeps it sends `EVENT_REQUEST`. Waits on the Linux side are
//! killable; an abandoned entry is freed by the doorbell handler when it is done
//! (the module sets `waiter` to `WAIT_GONE`).

use crate::cpus::CpuSet;

/// Entry not in use.
pub const REQUEST_FREE: u32 = 0;
/// Posted, not answered yet.
pub const REQUEST_POSTED: u32 = 1;
/// Answered; `status` and the rest are valid.
pub const REQUEST_DONE: u32 = 2;

/// Answer at once (heartbeat).
pub const REQUEST_PING: u32 = 1;
/// A new space: `space`, which may run on `cpus`; args: [0] = 0, [1] = index of its home CPU (one
/// of `cpus`), the one that gets its requests. [2] = parent space of a fork or 0,
/// [3] = its token (`IOCTL_CHILD`), or, without a parent, what it is to a pool ([`crate::pooled`]).
/// The child of a fork begins to run at once. `pages` holds [`CHILD_WORDS`] words. First of every
/// space: process id, user id, effective one, group id, effective one, as the proxy would be told
/// them.
/// Then follows the number of its process id namespace (of every process). After `Control::Exec`
/// the token is that of a program. Then follow: 1 if it has more rights than its caller
/// (AT_SECURE), and 32 random bytes; 32 more for getrandom(2), or zeros if Linux would not give any
/// without a wait; the process that has left the other space ([`LEFT_WORD`]). Last, of every space:
/// its control groups ([`GROUPS_WORD`]), the number of its user ([`USER_WORD`]), and a random
/// number from which its own tokens are counted. A process that only has the space's descriptor
/// cannot guess them. Answer args: [0] = over which parts of its addresses (`layout::part`) the
/// device is to be mapped at once, a bit each; 0: none, since some of its memory is shared with
/// Linux. `pages`: the frames of the first page of slots and of the first scratch page, which the
/// proxy is going to touch; 0: ask later.
pub const REQUEST_SPACE_OPEN: u32 = 2;
/// Words that describe a child, or a program, to [`REQUEST_SPACE_OPEN`].
pub const CHILD_WORDS: usize = GROUPS_WORD + GROUPS_WORDS + 2;
/// First word of [`CHILD_WORDS`] of the control groups with a limit that the process is in. First
/// those of memory, the innermost first, two words each: a number that no other group ever has, and
/// how many pages of 4 KiB it may have (`memory.max`); zeros behind them. Then those of CPU time,
/// three words each: the number, and how many µs of CPU time it may have in how many µs
/// (`cpu.max`).
pub const GROUPS_WORD: usize = LEFT_WORD + 2;
/// First word of [`CHILD_WORDS`] of the random bytes for getrandom(2).
pub const RANDOM_WORD: usize = 11;
/// First of two words of [`CHILD_WORDS`] about the process that has left its space by an execve.
/// [0] = the first slot that it had there, or [`LEFT_BY_NONE`]; [1] = the number of the call that a
/// listener has let go on as its execve ([`crate::service::SERVICE_NOTIFY`]), or 0. The program of
/// another process, or of another call, is not started.
pub const LEFT_WORD: usize = RANDOM_WORD + 4;
/// Value of the first word at [`LEFT_WORD`] if the LWK knows no process that has left its space for
/// the program.
pub const LEFT_BY_NONE: u64 = u64::MAX;
/// Most groups of each kind; where there are more the innermost are left out.
pub const GROUPS_MAX: usize = 8;
/// Words of the groups of memory.
pub const MEMORY_GROUPS_WORDS: usize = 2 * GROUPS_MAX;
/// Words of all groups.
pub const GROUPS_WORDS: usize = MEMORY_GROUPS_WORDS + 3 * GROUPS_MAX;
const _: () = assert!(CHILD_WORDS <= PAGES_MAX);
/// Word of [`CHILD_WORDS`]: the user whose share of the instance the space uses. A user id of
/// Linux' first user namespace; in another namespace that of its maker, unless that was the
/// superuser.
pub const USER_WORD: usize = CHILD_WORDS - 2;
/// Bit of the word at [`USER_WORD`], above the user id: the process' memory is never to be writable
/// and executable, nor to become executable (`PR_SET_MDWE`, which Linux keeps in the memory map).
pub const DENIES_WRITE_EXEC: u64 = 1 << 32;
/// Run the program in the start block of `space` (see [`crate::start`]); args: [0] = 0,
/// or the first slot of a process that shares it (`IOCTL_SHARE`), which begins; [1] = its
/// process id namespace; [2] = its process id.
pub const REQUEST_SPACE_START: u32 = 3;
/// The proxy of `space` is gone (its memory map too): end its threads, free all
/// its memory, then answer. Answered only when everything is back. Answer args:
/// [0] = user ns, [1] = system ns it has used, [2] = peak resident bytes, [3] = space of the pooled
/// proxy that a native task had when it ended, which ends with it; 0: none.
/// `ESRCH`: nothing of it is there, nor is its use: an earlier answer had that, or there was no
/// such space.
/// args: [0] = [`CLOSE_AWAITED`] or [`CLOSE_TOLD`].
pub const REQUEST_SPACE_CLOSE: u32 = 4;
/// In `args[0]` of [`REQUEST_SPACE_CLOSE`]: the answer comes when everything is back. At most one
/// such request for each space.
pub const CLOSE_AWAITED: u64 = 0;
/// In `args[0]` of [`REQUEST_SPACE_CLOSE`]: the answer comes at once, so that its entry never waits
/// for threads, which may wait for the end of another space. `EINPROGRESS`: not everything is back
/// yet; answer args: [0] = threads that are left, [1] = Linux thread id of one of them. Any number
/// of such requests for each space. What the space has used is kept from the first one to the one
/// that is answered by 0, as [`CLOSE_AWAITED`] is, or by `ESRCH`.
pub const CLOSE_TOLD: u64 = 1;
/// A proxy touched a page: args: [0] = page address, [1] = `FAULT_*` bits, [2] = most pages wanted
/// (1..=PAGES_MAX) and, << 32, the id of the proxy's thread that touched the page, in its
/// namespace, or 0. If it is a worker, the NUMA policy of its thread counts. [3] = index of a
/// service that was run because of [`STATUS_SERVE_FIRST`], plus 1, else 0. Answer: args[0] =
/// address of the first page in `pages` (the asked one lies within), `count`.
pub const REQUEST_FAULT: u32 = 5;
/// Linux takes back pages of a shared file mapping (MMU notifier): args: [0] =
/// start, [1] = end address. Unmap there, flush, then answer.
pub const REQUEST_INVALIDATE: u32 = 6;
/// A signal reached the proxy: args: [0] = number, [1] = slot whose worker took
/// it; `pages` holds the 128-byte siginfo in its first 16 words. `EAGAIN`: see `IOCTL_SIGNAL`.
pub const REQUEST_SIGNAL: u32 = 7;
/// Park this CPU. Posted to every CPU of the instance, CPU 0 last.
pub const REQUEST_STOP: u32 = 8;
/// `hanare debug`: args: [0] = `DEBUG_*`.
pub const REQUEST_DEBUG: u32 = 9;
/// Resource use of a space so far: answer args: [0] = user ns, [1] = system ns,
/// [2] = resident bytes, [3] = peak resident bytes.
pub const REQUEST_USAGE: u32 = 10;
/// Linux has stopped (args[0] = 1) or continued (0) the process of a space whose first
/// slot is args[1]: its threads return to user mode only while it is not stopped.
pub const REQUEST_SPACE_PAUSE: u32 = 12;
/// The process with first slot args[0] has ended on Linux; others have the space still,
/// or had it (then `REQUEST_SPACE_CLOSE` comes too).
pub const REQUEST_PROCESS_END: u32 = 13;
/// Linux' clock has been set: threads that wait for a time of it look at it again. Not awaited.
pub const REQUEST_CLOCK_SET: u32 = 14;
/// A space's control groups are others now, or have other limits: `pages` holds them as in
/// [`GROUPS_WORD`]. Not awaited.
pub const REQUEST_SPACE_GROUPS: u32 = 15;

/// Limits of a space's process were changed: `pages` holds them as in
/// [`crate::service::LIMITS_WORDS`], args: [0] = a number, as [`crate::service::SERVICE_LIMITS`]
/// answers it. Not awaited.
pub const REQUEST_SPACE_LIMITS: u32 = 16;
/// A child that `space` has made, of which [`crate::service::SERVICE_CHILD`] has told, has ended on
/// Linux, or cannot come any more: args: [0] = its token. The space may be gone.
pub const REQUEST_CHILD_END: u32 = 17;

/// Question of an observer (`IOCTL_OBSERVE`): args: [0] = `OBSERVE_*`, [1] = the session,
/// [2], [3] = arguments; `pages` holds what goes with it, both ways, `count` words of
/// an answer. `space` is that of the observed process, which may be gone.
pub const REQUEST_OBSERVE: u32 = 11;

/// Something to be shown: args: [0] = `INFO_*`; see [`crate::info`].
pub const REQUEST_INFO: u32 = 32;

/// The access was a write.
pub const FAULT_WRITE: u64 = 1;
/// The page is mapped read-only and wants to become writable (`page_mkwrite`).
pub const FAULT_MKWRITE: u64 = 2;
/// With [`FAULT_WRITE`]: a page that may not be written is given for reading, of which the module
/// makes a copy.
pub const FAULT_OR_COPY: u64 = 4;

/// Panic deliberately.
pub const DEBUG_PANIC: u64 = 1;
/// Stop answering on this CPU, interrupts off (tests of the module's bounds);
/// args: [1] = for how long, ms; 0: for ever.
pub const DEBUG_HANG: u64 = 2;
/// Log free memory; answer args: [0] = free bytes, [1] = total bytes, [2] = quarantined bytes,
/// [3] = processes; `pages`: [`KEPT_WORDS`] words of what the kernel keeps for itself.
pub const DEBUG_MEMORY: u64 = 3;
/// Bytes of its heap; of the blocks in use there bytes and number; bytes of blocks that are frames
/// of their own, and of those in the reserve. Then how many there are: spaces, threads, children
/// (fork) and programs (execve) whose proxy is to come, traces, debuggers.
pub const KEPT_WORDS: usize = 11;
/// Use up the stack on which this is served: of the idle CPU, or of the thread that runs there.
pub const DEBUG_OVERFLOW: u64 = 4;

/// Have allocations of the LWK fail: args: [1] = the first one, counted from 1 from now on (0:
/// none, only count; `u64::MAX`: end that), [2] = after how many each further one does (0: none
/// does). Answer args: [0] = allocations counted before.
pub const DEBUG_FAIL_ALLOC: u64 = 5;

/// The ledger of frames: the owner of each frame of the instance. args: [1] = 0, or which user's
/// frames are asked for, too: the first one whose id is [1] - 1 or more. Answer args: [0] = the
/// user's id plus 1, 0: there is none; [1], [2] = kernel memory and memory that the user is charged
/// for, bytes; [3] = the user's processes. `pages`: [`LEDGER_WORDS`] words.
pub const DEBUG_LEDGER: u64 = 6;
/// Number of the ledger's subjects: the purposes of frames that `Subject` in
/// `kernel/core/src/ledger.rs` lists, in this order.
pub const LEDGER_SUBJECTS: usize = 15;
/// Word of the ledger: all frames.
pub const LEDGER_TOTAL: usize = 0;
/// Word of the ledger: frames that are never handed out.
pub const LEDGER_RESERVED: usize = 1;
/// Word of the ledger: of these, those of the shared region and of the image.
pub const LEDGER_IMAGE: usize = 2;
/// Word of the ledger: free frames, those in stock of CPUs left out.
pub const LEDGER_FREE: usize = 3;
/// Word of the ledger: free frames, as the allocator counts them.
pub const LEDGER_FREE_COUNTED: usize = 4;
/// Word of the ledger: frames in quarantine, as their list counts them.
pub const LEDGER_QUARANTINE_COUNTED: usize = 5;
/// Word of the ledger: frames of the heap, as the heap counts them.
pub const LEDGER_HEAP_COUNTED: usize = 6;
/// Word of the ledger: frames of rings, as the list of rings counts them.
pub const LEDGER_RINGS_COUNTED: usize = 7;
/// Word of the ledger: frames of programs that are kept for the next, as their lists count them.
pub const LEDGER_CONTENTS_COUNTED: usize = 8;
/// Words of the ledger from here on: the kernel's own frames, by subject.
pub const LEDGER_KERNEL: usize = 9;
/// Words of the ledger from here on: frames of all users.
pub const LEDGER_USERS: usize = LEDGER_KERNEL + LEDGER_SUBJECTS;
/// Words of the ledger from here on: frames of the user that is asked for.
pub const LEDGER_USER: usize = LEDGER_USERS + LEDGER_SUBJECTS;
/// Words of the ledger.
pub const LEDGER_WORDS: usize = LEDGER_USER + LEDGER_SUBJECTS;
const _: () = assert!(LEDGER_WORDS <= PAGES_MAX && KEPT_WORDS <= LEDGER_WORDS);

/// `status` > 0: run the service whose index is in `args[3]` in the caller's
/// context, then post the fault again with `args[3]` = index + 1.
pub const STATUS_SERVE_FIRST: i32 = 1;

/// Most pages one answer carries.
pub const PAGES_MAX: usize = 64;
/// In `pages`: the page may be written by Linux. Bits 12.. are the frame address;
/// an entry of 0 is a hole (leave it alone). In Rust such an entry is a `GivenPage`
/// (`abi/src/frame.rs`).
pub const PAGE_WRITABLE: u64 = 1;
/// In `pages`: another frame was here before: remove the old mapping first.
pub const PAGE_REPLACED: u64 = 2;
/// In `pages`: the program may execute what is on the page. So may its proxy once it has asked for
/// that (`IOCTL_EXECUTE`).
pub const PAGE_EXECUTABLE: u64 = 4;

/// One request. 768 bytes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// `REQUEST_FREE/POSTED/DONE`.
    pub state: u32,
    /// `REQUEST_*` kind.
    pub kind: u32,
    /// Space id or 0.
    pub space: u32,
    /// 0, a negative errno, or `STATUS_SERVE_FIRST`. Written by the LWK.
    pub status: i32,
    /// Entries used in `pages`.
    pub count: u32,
    /// Zero.
    pub reserved0: u32,
    /// Meaning depends on `kind`.
    pub args: [u64; 4],
    /// Zero, up to 64 bytes.
    pub reserved1: u64,
    /// `WAIT_*` ([`crate::wake`]), written by the module: `EVENT_REQUEST` after `REQUEST_DONE`
    /// unless it is awake.
    pub waiter: u32,
    /// The doorbell next to where the waiter sleeps, plus 1; 0: not known. Written by the
    /// module.
    pub doorbell: u32,
    /// Zero, up to 128 bytes.
    pub reserved3: [u64; 7],
    /// Frames, or siginfo.
    pub pages: [u64; PAGES_MAX],
    /// CPUs of the instance, of [`REQUEST_SPACE_OPEN`]; the full set: none were chosen.
    pub cpus: CpuSet,
}
