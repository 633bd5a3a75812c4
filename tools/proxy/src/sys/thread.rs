//! Threads of the proxy. Each but the first has one block of memory, above
//! everything of the application: a guard page, its stack, its worker. The block
//! goes with the thread, and a child of a fork does not inherit it, except that
//! of the thread that forks.

use hanare_abi::PAGE_SIZE;
use hanare_abi::layout::CONTROL_END;
use linux_raw_sys::errno::ENOMEM;
use linux_raw_sys::general::*;

use super::arch::{end_thread, new_thread};
use super::{Errno, Result, check, plain, signal};
use crate::worker::Worker;

/// Bytes of a block.
const BLOCK_SIZE: u64 = 68 << 10;
/// Of them, at the end: the worker.
const WORKER_SIZE: u64 = 256;
const _: () = assert!(size_of::<Worker>() as u64 <= WORKER_SIZE);

/// The memory of a thread, or none for the process' first one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Block(u64);

impl Block {
    /// The first thread runs on what Linux gave the process.
    pub const NONE: Self = Self(0);

    fn new() -> Result<Self> {
        let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK);
        let start = plain(__NR_mmap, [0, BLOCK_SIZE, protection.into(), flags.into(), u64::MAX, 0])?;
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

/// Makes a worker for `slot` with a thread of its own, all signals blocked, and
/// gives its thread id.
pub fn spawn(slot: u32) -> Result<u32> {
    const FLAGS: u32 = CLONE_VM
        | CLONE_FS
        | CLONE_FILES
        | CLONE_SIGHAND
        | CLONE_THREAD
        | CLONE_SYSVSEM
        | CLONE_SETTLS;
    let block = Block::new()?;
    let at = block.worker() as *mut Worker;
    // SAFETY: inside the new block, aligned. The worker is not used after the end
    // of its thread, which unmaps it.
    let worker: &'static Worker = unsafe {
        at.write(Worker::new(slot, block));
        &*at
    };
    let mask = signal::set_mask(!0);
    // SAFETY: the rest of the block is the new thread's stack.
    let result = check(unsafe { new_thread(FLAGS.into(), block.worker(), worker) });
    signal::set_mask(mask);
    if result.is_err() {
        block.unmap();
    }
    result.map(|tid| tid as u32)
}

/// Ends this thread, whose memory is `block`.
pub fn end(block: Block) -> ! {
    signal::set_mask(!0);
    let size = if block.0 == 0 { 0 } else { BLOCK_SIZE };
    // SAFETY: the block is this thread's own.
    unsafe { end_thread(block.0, size) }
}
