//! The few instructions that Rust cannot say: start, calls, the thread pointer.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use hanare_abi::PAGE_SIZE;
use hanare_abi::ioctl::{IOCTL_POSE, Pose};
use hanare_abi::slot::RESULT_NOT_STARTED;
use linux_raw_sys::general::{
    __NR_arch_prctl, __NR_clone, __NR_clone3, __NR_exit, __NR_ioctl, __NR_munmap,
    __NR_rt_sigreturn, __NR_set_tid_address, CLONE_NEWTIME, clone_args,
};

use super::thread::Wanted;
use crate::worker::Worker;

// The kernel starts the program here: argc, argv, envp, auxv lie at rsp.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {entry}",
    "ud2",
    entry = sym crate::entry,
);

// abortable_call(nr: rdi, args: rsi) -> rax
//
// A signal handler that interrupted an instruction in abortable_start ..=
// abortable_insn sends it to abortable_abort: the call has not been made (or
// Linux wants it made again: it then stands at the `syscall` instruction).
global_asm!(
    "abortable_call:",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "abortable_start:",
    "cmp dword ptr fs:[{interrupted}], 0",
    "jne abortable_abort",
    "abortable_insn:",
    "syscall",
    "abortable_done:",
    "ret",
    "abortable_abort:",
    "mov rax, {not_started}",
    "ret",
    "signal_return:",
    "mov eax, {rt_sigreturn}",
    "syscall",
    "ud2",
    interrupted = const offset_of!(Worker, interrupted),
    not_started = const RESULT_NOT_STARTED,
    rt_sigreturn = const __NR_rt_sigreturn,
);

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
    thread = sym crate::worker::thread,
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
    fn abortable_call(nr: u64, args: *const u64) -> i64;
    fn abortable_start();
    fn abortable_insn();
    fn abortable_done();
    fn abortable_abort();
    /// Where a signal handler returns to.
    pub fn signal_return();
}

/// Makes a system call for the application, unless a signal came first.
pub fn delegated_call(nr: u64, args: &[u64; 6]) -> i64 {
    // SAFETY: the routine reads six words and makes the call. What the call does
    // is the application's business. Its wild pointers may reach memory of ours, too
    // (docs/compatibility.md): it harms itself, neither kernel trusts a proxy.
    unsafe { abortable_call(nr, args.as_ptr()) }
}

/// Where an interrupted instruction stands with regard to a delegated call.
#[derive(PartialEq, Eq)]
pub enum Place {
    /// Not in the routine, or past the call.
    Elsewhere,
    /// Before the call.
    Before,
    /// At the `syscall` instruction: not made yet, or to be made again.
    AtCall,
}

/// Classifies the interrupted instruction pointer.
pub fn place(rip: u64) -> Place {
    if rip == abortable_insn as *const () as u64 {
        Place::AtCall
    } else if rip >= abortable_start as *const () as u64 && rip < abortable_insn as *const () as u64
    {
        Place::Before
    } else {
        Place::Elsewhere
    }
}

/// Where to send a call that is not to be started.
pub fn abort_address() -> u64 {
    abortable_abort as *const () as u64
}

/// Where a call that is to end with a given result goes on.
pub fn done_address() -> u64 {
    abortable_done as *const () as u64
}

/// One system call.
///
/// # Safety
/// As the call: pointers must be valid for what it reads and writes.
pub unsafe fn raw_call(nr: u32, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") u64::from(nr) => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes a thread that begins in [`crate::worker::thread`] with `worker`, on the
/// stack below `stack`. Gives its thread id or -errno.
///
/// # Safety
/// The stack is the new thread's alone, the worker stays as long as it, and
/// `flags` are those of a thread that sets its thread pointer and has
/// CLONE_CHILD_CLEARTID, or of a process that has its memory too. `pidfd` is an address of
/// the application's, for CLONE_PIDFD.
pub unsafe fn new_thread(
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
pub unsafe fn end_thread(start: u64, size: u64) -> ! {
    // SAFETY: as the caller vouches.
    unsafe { unmap_and_exit(start, size) }
}

/// Makes `worker` what [`current_worker`] gives on this thread.
pub fn set_current_worker(worker: &'static Worker) {
    const ARCH_SET_FS: u64 = 0x1002;
    let address = core::ptr::from_ref(worker);
    worker.this.store(address.cast_mut(), Ordering::Relaxed);
    // SAFETY: nothing else in this program uses fs.
    unsafe { raw_call(__NR_arch_prctl, [ARCH_SET_FS, address as u64, 0, 0, 0, 0]) };
}

/// This thread's worker.
pub fn current_worker() -> &'static Worker {
    const { assert!(offset_of!(Worker, this) == 0) };
    let worker: *const Worker;
    // SAFETY: every thread calls set_current_worker before it opens signals or
    // works, and the first word of a Worker is its own address.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) worker, options(nostack, readonly, preserves_flags));
        &*worker
    }
}

/// Takes on the FPU state, FS and GS base behind the [`Pose`] at `at` and poses.
/// Comes back only where that failed; the thread pointer is gone then.
pub fn pose(fd: u32, at: u64) {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_SET_FS: u64 = 0x1002;
    const BASES: u64 = size_of::<Pose>() as u64;
    const FPU: u64 = 512;
    const { assert!(BASES + 16 <= FPU) };
    // SAFETY: the LWK wrote the page at `at`: an image that `xsave` made, two words,
    // and what the ioctl reads. This thread computes with no FPU register, and does
    // not use its thread pointer any more.
    unsafe {
        let base = |n: u64| core::ptr::read_volatile((at + BASES + 8 * n) as *const u64);
        let (fs, gs) = (base(0), base(1));
        asm!("fxrstor64 [{}]", in(reg) at + FPU, options(nostack, readonly));
        raw_call(__NR_arch_prctl, [ARCH_SET_GS, gs, 0, 0, 0, 0]);
        raw_call(__NR_arch_prctl, [ARCH_SET_FS, fs, 0, 0, 0, 0]);
        raw_call(__NR_ioctl, [fd.into(), IOCTL_POSE.into(), at, 0, 0, 0]);
    }
}

/// The time stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 has it; Linux leaves it open to user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}
