//! Threads of the proxy. Each but the first has one block of memory, above
//! everything of the application: a guard page, its stack, its worker. A child of a
//! fork does not inherit it, except that of the thread that forks. Blocks of threads
//! that ended are used again ([`KEPT`]).

use core::sync::atomic::{AtomicU64, Ordering};

use hanare_abi::PAGE_SIZE;
use hanare_abi::layout::CONTROL_END;
use linux_raw_sys::errno::ENOMEM;
use linux_raw_sys::general::*;

use super::arch::{end_thread, new_thread};
use super::{Errno, Result, check, plain, signal};
use crate::worker::{Role, Worker};

/// Bytes of a block.
const BLOCK_SIZE: u64 = 68 << 10;
/// Of them, at the end: the worker.
const WORKER_SIZE: u64 = 256;
const _: () = assert!(size_of::<Worker>() as u64 <= WORKER_SIZE);

/// Blocks of threads that ended, or are just ending: `Worker::alive` says so, which
/// Linux clears when the thread is gone. 0: no block.
static KEPT: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// In the child of a fork: other threads' blocks are not there.
pub fn begin_child() {
    KEPT.iter().for_each(|kept| kept.store(0, Ordering::Relaxed));
}

/// The memory of a thread, or none for the process' first one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Block(u64);

impl Block {
    /// The first thread runs on what Linux gave the process.
    pub const NONE: Self = Self(0);

    /// One whose thread is gone, or a new one.
    fn get() -> Result<Self> {
        let take = |kept: &AtomicU64| {
            let block = kept.swap(0, Ordering::Acquire);
            if block == 0 || Self(block).is_free() {
                return (block != 0).then_some(Self(block));
            }
            // Somebody else may have put one there meanwhile.
            Self(block).keep_or(|| ());
            None
        };
        KEPT.iter().find_map(take).map_or_else(Self::new, Ok)
    }

    /// Whether the thread of a kept block is gone.
    fn is_free(self) -> bool {
        let worker = self.worker() as *const Worker;
        // SAFETY: a kept block has a worker; who took it from `KEPT` alone unmaps it.
        unsafe { &*worker }.alive.load(Ordering::Acquire) == 0
    }

    /// Leaves the block, which may still be in use, for a later thread; `full`: there
    /// are enough.
    fn keep_or(self, full: impl FnOnce()) {
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
    fn unmap(self) {
        let _ = plain(__NR_munmap, [self.0, BLOCK_SIZE, 0, 0, 0, 0]);
    }

    /// Whether children of forks get a copy.
    pub fn inherit(self, inherit: bool) {
        let advice = if inherit { MADV_DOFORK } else { MADV_DONTFORK };
        if self.0 != 0 {
            let _ = plain(__NR_madvise, [self.0, BLOCK_SIZE, advice.into(), 0, 0, 0]);
        }
    }

    fn worker(self) -> u64 {
        self.0 + BLOCK_SIZE - WORKER_SIZE
    }
}

/// Flags of everything made here: Linux says in `Worker::alive` when it is gone.
const ALWAYS: u32 = CLONE_VM | CLONE_CHILD_CLEARTID | CLONE_SETTLS;

/// Makes a worker for `slot` with a thread of its own, all signals blocked, and
/// gives its thread id. `own`: CLONE_FS and CLONE_FILES where it does not share.
pub fn spawn(slot: u32, role: Role, own: u64) -> Result<u32> {
    const FLAGS: u32 =
        ALWAYS | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    let flags = u64::from(FLAGS) & !(own & u64::from(CLONE_FS | CLONE_FILES));
    make(slot, role, flags, 0, Wanted::default()).map(|(tid, _)| tid)
}

/// The arguments of clone3(2) that clone(2) does not have.
#[derive(Clone, Copy, Default)]
pub struct Wanted {
    /// Address of the process ids that the new one is to have, and their number.
    pub ids: (u64, u64),
    /// CLONE_INTO_CGROUP.
    pub cgroup: u64,
}

/// Makes a process that shares all memory with this one, with a worker for `slot`, all
/// signals blocked, and gives its process id. `flags` and `pidfd` as of clone(2).
pub fn share(slot: u32, flags: u64, pidfd: u64, wanted: Wanted) -> Result<u32> {
    let (pid, block) = make(slot, Role::Sharer, u64::from(ALWAYS) | flags, pidfd, wanted)?;
    // Nobody else could say at its end that the block is free.
    block.keep_or(|| ());
    Ok(pid)
}

fn make(slot: u32, role: Role, flags: u64, pidfd: u64, wanted: Wanted) -> Result<(u32, Block)> {
    let block = Block::get()?;
    let at = block.worker() as *mut Worker;
    // SAFETY: inside the block, which no thread uses, aligned. The worker is not used
    // after the end of its thread, before which the block is not given up.
    let worker: &'static Worker = unsafe {
        at.write(Worker::new(slot, role, block));
        &*at
    };
    let mask = signal::set_mask(!0);
    // SAFETY: the rest of the block is the new thread's stack.
    let result = check(unsafe { new_thread(flags, block.worker(), worker, pidfd, wanted) });
    signal::set_mask(mask);
    if result.is_err() {
        block.unmap();
    }
    result.map(|tid| (tid as u32, block))
}

/// Has Linux walk the list at `head`, the application's, when this thread ends.
pub fn set_robust_list(head: u64) {
    const SIZE: u64 = 24;
    let _ = plain(__NR_set_robust_list, [head, SIZE, 0, 0, 0, 0]);
}

/// Ends this thread, whose memory is `block`.
pub fn end(block: Block) -> ! {
    signal::set_mask(!0);
    let mut size = 0;
    block.keep_or(|| size = BLOCK_SIZE);
    // SAFETY: the block is this thread's own, or kept until the thread is gone.
    unsafe { end_thread(block.0, size) }
}
