//! Workers and the memory of their threads. Each thread but the first has one block of memory,
//! above everything of the application: a guard page, its stack, its worker. A child of a
//! fork does not inherit it, except that of the thread that forks. Blocks of threads
//! that ended are used again ([`KEPT`]).

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hanare_abi::PAGE_SIZE;
use hanare_abi::layout::CONTROL_END;
use hanare_ikc::{Interrupted, Patience};
use linux_raw_sys::errno::ENOMEM;
use linux_raw_sys::general::*;

use super::call::{Errno, Result, plain};
use super::filter::Filter;

/// How a worker begins.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, u32)]
pub enum Role {
    /// The first worker of the process.
    First,
    /// The worker of a thread that was made.
    Thread,
    /// A worker that takes the place of one that ended, and says so first (`Control::ThreadRenew`).
    Successor,
    /// The first one of a process that shares its creator's memory (`Control::Share`).
    Sharer,
    /// A server of the request box, with its number.
    Server(u32),
}

/// State of a worker for executing its thread's code.
#[repr(C)]
pub struct Utility {
    /// Whether the worker has a filter.
    pub(super) is_ready: AtomicBool,
    /// GS base that Linux has of the worker; the proxy does not use it.
    pub(super) gs: AtomicU64,
    /// Stack pointer of the worker, while it executes the code.
    pub(super) stack: AtomicU64,
    /// The program's FS base when a handler began.
    pub(super) fs: AtomicU64,
    /// A handler makes a call for the code, with its mask: handlers that interrupt that find the
    /// worker as ever.
    pub(super) in_call: AtomicBool,
    /// A ring that was for the thread may have ended another sleep of the worker's, before it
    /// entered the code.
    pub may_have_been_rung: AtomicBool,
}

impl Utility {
    /// State of a worker that has executed no code of its thread.
    pub const fn new() -> Self {
        let (gs, stack, fs) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (is_ready, in_call) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_ready, gs, stack, fs, in_call, may_have_been_rung: AtomicBool::new(false) }
    }

    /// Whether the worker has executed code of its thread before.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }
}

/// One worker. The first two fields are known to assembly.
#[repr(C)]
pub struct Worker {
    /// Address of the worker itself; set by `set_current_worker`.
    pub this: AtomicPtr<Worker>,
    /// Whether a signal came since the last answer.
    pub interrupted: Interrupted,
    /// The system call being made.
    pub call: AtomicU32,
    /// Not 0 until its thread is gone; Linux clears it then.
    pub alive: AtomicU32,
    /// A signal that it took is blocked, whatever the thread's mask says.
    pub held: AtomicBool,
    /// The program that begins on it has more rights than the one before.
    pub gained: AtomicBool,
    slot: AtomicU32,
    /// Role in which the worker begins.
    pub role: Role,
    /// List of robust futexes that Linux has of this thread.
    robust_list: AtomicU64,
    /// How long the worker polls for the next request.
    pub patience: Patience,
    /// A filter of system calls on its way.
    pub filter: Filter,
    /// How the worker executes its thread's own code.
    pub utility: Utility,
    /// The CPU on which the worker executes it, or all bits for any.
    pub cpu: AtomicU64,
    /// Address of the worker's [`Lists`], or 0.
    lists: AtomicU64,
    /// The memory of the worker's thread.
    pub block: Block,
}

impl Worker {
    /// A worker for slot `slot`, to be put where it stays.
    pub const fn new(slot: u32, role: Role, block: Block) -> Self {
        let this = AtomicPtr::new(core::ptr::null_mut());
        let (interrupted, call) = (Interrupted::new(), AtomicU32::new(0));
        let slot = AtomicU32::new(slot);
        let alive = AtomicU32::new(1);
        let (held, gained) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            this,
            interrupted,
            call,
            alive,
            held,
            gained,
            slot,
            role,
            robust_list: AtomicU64::new(0),
            patience: Patience::new(),
            filter: Filter::new(),
            utility: Utility::new(),
            cpu: AtomicU64::new(u64::MAX),
            lists: AtomicU64::new(0),
            block,
        }
    }

    /// Index of the worker's slot.
    pub fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    /// Makes a server act for the thread of another slot from now on.
    pub fn set_slot(&self, slot: u32) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Has Linux know the application's list of robust futexes, which Linux walks where
    /// this thread ends without the LWK's doing: the words hold its id.
    pub fn take_robust_list(&self, head: u64) {
        const LIST_SIZE: u64 = 24;
        if self.robust_list.load(Ordering::Relaxed) != head {
            let _ = plain(__NR_set_robust_list, [head, LIST_SIZE, 0, 0, 0, 0]);
            self.robust_list.store(head, Ordering::Relaxed);
        }
    }

    /// After a fork, in the child: it serves slot 0 from now on. Linux has no list of
    /// robust futexes of it.
    pub fn begin_child(&self) {
        self.slot.store(0, Ordering::Relaxed);
        self.robust_list.store(0, Ordering::Relaxed);
        self.lists.store(0, Ordering::Relaxed);
        self.interrupted.clear();
    }

    /// Does something with its memory for lists that hold addresses, whose address is given, too;
    /// no other thread sees it. There is none before the worker [asked for it](Self::make_lists).
    pub fn with_lists<R>(&self, f: impl FnOnce(u64, &mut [u8]) -> R) -> R {
        match self.lists.load(Ordering::Relaxed) {
            0 => f(0, &mut []),
            // SAFETY: mapped for this worker alone, which does one thing at a time; system calls
            // write to it while nothing borrows it.
            at => f(at, unsafe {
                core::slice::from_raw_parts_mut(at as *mut u8, LISTS_SIZE as usize)
            }),
        }
    }

    /// Makes memory for lists. False: it has some already, or there is none.
    pub fn make_lists(&self) -> bool {
        if self.lists.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let (protection, flags) =
            (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
        let args = [0, LISTS_SIZE, protection.into(), flags.into(), u64::MAX, 0];
        let Ok(at) = plain(__NR_mmap, args) else { return false };
        if at < CONTROL_END {
            let _ = plain(__NR_munmap, [at, LISTS_SIZE, 0, 0, 0, 0]);
            return false;
        }
        // A child has one worker, which makes its own.
        let _ = plain(__NR_madvise, [at, LISTS_SIZE, MADV_DONTFORK.into(), 0, 0, 0]);
        self.lists.store(at, Ordering::Relaxed);
        true
    }

    /// Gives the memory of the lists back, at the worker's end.
    pub fn forget_lists(&self) {
        match self.lists.swap(0, Ordering::Relaxed) {
            0 => {}
            at => drop(plain(__NR_munmap, [at, LISTS_SIZE, 0, 0, 0, 0])),
        }
    }
}

/// Bytes for lists of a call: as many messages as Linux takes at once, with some pieces of data
/// each.
const LISTS_SIZE: u64 = 1 << 20;

/// Bytes of a block.
pub(super) const BLOCK_SIZE: u64 = 68 << 10;
/// Bytes of the worker, at the end of its block.
const WORKER_SIZE: u64 = 256;
const _: () = assert!(size_of::<Worker>() as u64 <= WORKER_SIZE);

/// Blocks of threads that ended, or are just ending: `Worker::alive` says so, which
/// Linux clears when the thread is gone. 0: no block.
static KEPT: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// In the child of a fork: other threads' blocks are not there.
pub fn begin_child() {
    KEPT.iter().for_each(|kept| kept.store(0, Ordering::Relaxed));
}

/// The memory of a thread, or none for the process' first one: its address.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Block(pub(super) u64);

impl Block {
    /// The first thread runs on what Linux gave the process.
    pub const NONE: Self = Self(0);

    /// A kept block whose thread is gone, or a new block.
    pub(super) fn get() -> Result<Self> {
        let take = |kept: &AtomicU64| {
            let block = kept.swap(0, Ordering::Acquire);
            if block == 0 || Self(block).is_free() {
                return (block != 0).then_some(Self(block));
            }
            // Another thread may have put one there meanwhile.
            Self(block).keep_or(|| ());
            None
        };
        KEPT.iter().find_map(take).map_or_else(Self::new, Ok)
    }

    /// Whether the thread of a kept block is gone.
    fn is_free(self) -> bool {
        let worker = self.worker() as *const Worker;
        // SAFETY: a kept block has a worker; only the thread that took it from `KEPT` unmaps it.
        unsafe { &*worker }.alive.load(Ordering::Acquire) == 0
    }

    /// Leaves the block, which may still be in use, for a later thread; `full`: there
    /// are enough.
    pub(super) fn keep_or(self, full: impl FnOnce()) {
        let put = |kept: &AtomicU64| {
            kept.compare_exchange(0, self.0, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if self.0 != 0 && !KEPT.iter().any(put) {
            full();
        }
    }

    fn new() -> Result<Self> {
        let (protection, flags) =
            (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK);
        let start =
            plain(__NR_mmap, [0, BLOCK_SIZE, protection.into(), flags.into(), u64::MAX, 0])?;
        let block = Self(start);
        let made = if start >= CONTROL_END { block.guard() } else { Err(Errno(ENOMEM)) };
        if let Err(error) = made {
            block.unmap();
            return Err(error);
        }
        block.inherit(false);
        Ok(block)
    }

    fn guard(self) -> Result<()> {
        plain(__NR_mprotect, [self.0, PAGE_SIZE, PROT_NONE.into(), 0, 0, 0]).map(drop)
    }

    /// Gives up a block that no thread uses.
    pub(super) fn unmap(self) {
        let _ = plain(__NR_munmap, [self.0, BLOCK_SIZE, 0, 0, 0, 0]);
    }

    /// Whether children of forks get a copy.
    pub fn inherit(self, inherit: bool) {
        let advice = if inherit { MADV_DOFORK } else { MADV_DONTFORK };
        if self.0 != 0 {
            let _ = plain(__NR_madvise, [self.0, BLOCK_SIZE, advice.into(), 0, 0, 0]);
        }
    }

    /// Address of the worker in this block; below it lies the stack.
    pub(super) fn worker(self) -> u64 {
        self.0 + BLOCK_SIZE - WORKER_SIZE
    }
}
