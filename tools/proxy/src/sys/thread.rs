//! How threads of the proxy begin and end. Their memory: [`super::worker`].

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use hanare_abi::PAGE_SIZE;
use linux_raw_sys::general::*;

use super::call::{Result, check};
use super::signal;
use super::worker::{BLOCK_SIZE, Block, Role, Worker};

// clone_thread(flags: rdi, stack: rsi, worker: rdx, alive: rcx, pidfd: r8) -> rax
//
// The new thread has nothing on its stack but what its worker puts there.
global_asm!(
    "clone_thread:",
    "mov r9, rdx",
    "mov rdx, r8",
    "mov r8, r9",
    "mov r10, rcx",
    "mov eax, {clone}",
    "syscall",
    "test rax, rax",
    "jz cloned_thread",
    "ret",
    "clone3_thread:",
    "mov eax, {clone3}",
    "syscall",
    "test rax, rax",
    "jz cloned_thread",
    "ret",
    "cloned_thread:",
    "xor ebp, ebp",
    "mov rdi, fs:[{this}]",
    "call {thread}",
    "ud2",
    clone = const __NR_clone,
    clone3 = const __NR_clone3,
    this = const offset_of!(Worker, this),
    thread = sym begin,
);

// unmap_and_exit(start: rdi, size: rsi): without a stack in between. Linux forgets the word
// that it clears at the end: it would be in what another thread has mapped there by then.
global_asm!(
    "unmap_and_exit:",
    "test rsi, rsi",
    "jz exit_only",
    "mov r8, rdi",
    "xor edi, edi",
    "mov eax, {set_tid_address}",
    "syscall",
    "mov rdi, r8",
    "mov eax, {munmap}",
    "syscall",
    "exit_only:",
    "xor edi, edi",
    "mov eax, {exit}",
    "syscall",
    "ud2",
    set_tid_address = const __NR_set_tid_address,
    munmap = const __NR_munmap,
    exit = const __NR_exit,
);

unsafe extern "C" {
    fn clone_thread(
        flags: u64,
        stack: u64,
        worker: *const Worker,
        alive: *const AtomicU32,
        pidfd: u64,
    ) -> i64;
    fn clone3_thread(args: *const clone_args, size: u64) -> i64;
    fn unmap_and_exit(start: u64, size: u64) -> !;
}

unsafe extern "Rust" {
    /// Entry point `thread` of [`super::entries`].
    safe fn proxy_thread(worker: &'static Worker) -> !;
}

/// Called by the assembly on a new thread.
extern "C" fn begin(worker: &'static Worker) -> ! {
    proxy_thread(worker)
}

/// Flags of everything made here: Linux says in `Worker::alive` when it is gone.
const ALWAYS: u32 = CLONE_VM | CLONE_CHILD_CLEARTID | CLONE_SETTLS;

/// Flags of a thread of the same process.
const THREAD: u32 = ALWAYS | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

/// Makes a worker for `slot` with a thread of its own, all signals blocked, and
/// gives its thread id. `own`: CLONE_FS and CLONE_FILES where it does not share.
pub fn spawn(slot: u32, own: u64) -> Result<u32> {
    let flags = u64::from(THREAD) & !(own & u64::from(CLONE_FS | CLONE_FILES));
    make(slot, Role::Thread, flags, 0, Wanted::default()).map(|(tid, _)| tid)
}

/// Makes server `number` of the request box, whose own slot is `slot`, and gives its thread id.
pub fn spawn_server(slot: u32, number: u32) -> Result<u32> {
    make(slot, Role::Server(number), THREAD.into(), 0, Wanted::default()).map(|(tid, _)| tid)
}

/// Makes a worker in place of one that ends and has all signals blocked already.
pub fn spawn_successor(slot: u32) -> Result<()> {
    make_blocked(slot, Role::Successor, THREAD.into(), 0, Wanted::default()).map(drop)
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
    // No other code could say at its end that the block is free.
    block.keep_or(|| ());
    Ok(pid)
}

fn make(slot: u32, role: Role, flags: u64, pidfd: u64, wanted: Wanted) -> Result<(u32, Block)> {
    let mask = signal::set_mask(!0);
    let made = make_blocked(slot, role, flags, pidfd, wanted);
    signal::set_mask(mask);
    made
}

/// All signals are blocked, as the new thread has them.
fn make_blocked(
    slot: u32,
    role: Role,
    flags: u64,
    pidfd: u64,
    wanted: Wanted,
) -> Result<(u32, Block)> {
    let block = Block::get()?;
    let at = block.worker() as *mut Worker;
    // SAFETY: inside the block, which no thread uses, aligned. The worker is not used
    // after the end of its thread, before which the block is not given up.
    let worker: &'static Worker = unsafe {
        at.write(Worker::new(slot, role, block));
        &*at
    };
    // SAFETY: the rest of the block is the new thread's stack.
    let result = check(unsafe { new_thread(flags, block.worker(), worker, pidfd, wanted) });
    if result.is_err() {
        block.unmap();
    }
    result.map(|tid| (tid as u32, block))
}

/// Ends this thread, whose memory is `block`, and which has all signals blocked.
pub fn end(block: Block) -> ! {
    let mut size = 0;
    block.keep_or(|| size = BLOCK_SIZE);
    // SAFETY: the block is this thread's own, or kept until the thread is gone.
    unsafe { end_thread(block.0, size) }
}

/// Makes a thread that begins in [`begin`] with `worker`, on the stack below `stack`.
/// Gives its thread id or -errno.
///
/// # Safety
/// The stack is the new thread's alone, the worker stays as long as it, and
/// `flags` are those of a thread that sets its thread pointer and has
/// CLONE_CHILD_CLEARTID, or of a process that has its memory too. `pidfd` is an address of
/// the application's, for CLONE_PIDFD.
unsafe fn new_thread(
    flags: u64,
    stack: u64,
    worker: &'static Worker,
    pidfd: u64,
    wanted: Wanted,
) -> i64 {
    const EXIT_SIGNAL: u64 = 0x7f;
    const EVERYWHERE: u64 = 0xffff_ffff;
    let address = core::ptr::from_ref(worker);
    worker.this.store(address.cast_mut(), Ordering::Relaxed);
    // Where it will do the older call is made, which filters of system calls know.
    let newer = flags & (!EVERYWHERE | u64::from(CLONE_NEWTIME)) != 0;
    if newer || wanted.ids.1 != 0 {
        let args = clone_args {
            flags: flags & !EXIT_SIGNAL,
            pidfd,
            child_tid: &raw const worker.alive as u64,
            parent_tid: 0,
            exit_signal: flags & EXIT_SIGNAL,
            stack: stack - PAGE_SIZE,
            stack_size: PAGE_SIZE,
            tls: address as u64,
            set_tid: wanted.ids.0,
            set_tid_size: wanted.ids.1,
            cgroup: wanted.cgroup,
        };
        // SAFETY: as the caller vouches; this thread's registers are kept as in any call.
        return unsafe { clone3_thread(&raw const args, size_of::<clone_args>() as u64) };
    }
    // SAFETY: as the caller vouches; this thread's registers are kept as in any call.
    unsafe { clone_thread(flags, stack, address, &raw const worker.alive, pidfd) }
}

/// Unmaps the memory that this thread runs on, and ends it. All its signals must
/// be blocked. A size of 0: nothing is unmapped.
///
/// # Safety
/// Nothing but this thread uses the range.
unsafe fn end_thread(start: u64, size: u64) -> ! {
    // SAFETY: as the caller vouches.
    unsafe { unmap_and_exit(start, size) }
}
