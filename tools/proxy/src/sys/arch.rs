//! The few instructions that Rust cannot say: start, delegated calls, the thread pointer.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use hanare_abi::ioctl::{DumpThread, IOCTL_DUMP_THREAD};
use hanare_ikc::{Answer, Place, SlotRef};
use linux_raw_sys::general::{__NR_arch_prctl, __NR_ioctl, __NR_rt_sigreturn};

use super::call::raw_call;
use super::shared::Initial;
use super::worker::Worker;

// The kernel starts the program here: argc, argv, envp, auxv lie at rsp.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {entry}",
    "ud2",
    entry = sym start,
);

unsafe extern "Rust" {
    /// Entry point `start` of [`super::entries`].
    safe fn proxy_start(initial: Initial) -> !;
}

/// Called by `_start` with the initial stack pointer.
extern "C" fn start(stack: *const u64) -> ! {
    // SAFETY: `_start` passes what the kernel gave it.
    proxy_start(unsafe { Initial::new(stack) })
}

// abortable_call(nr: rdi, args: rsi) -> rax: result, rdx: 1 if the call has not been made
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
    "xor edx, edx",
    "ret",
    "abortable_abort:",
    "mov edx, 1",
    "ret",
    "signal_return:",
    "mov eax, {rt_sigreturn}",
    "syscall",
    "ud2",
    interrupted = const offset_of!(Worker, interrupted),
    rt_sigreturn = const __NR_rt_sigreturn,
);

/// The result of `abortable_call`, in two registers.
#[repr(C)]
struct Returned {
    result: i64,
    not_started: u64,
}

unsafe extern "C" {
    fn abortable_call(nr: u64, args: *const u64) -> Returned;
    fn abortable_start();
    fn abortable_insn();
    fn abortable_done();
    fn abortable_abort();
    /// Where a signal handler returns to.
    pub fn signal_return();
}

/// Makes a system call for the application, unless a signal came first.
pub fn delegated_call(nr: u32, args: &[u64; 6]) -> Answer {
    // SAFETY: the arguments are six words.
    unsafe { call(nr, args.as_ptr()) }
}

/// Makes a system call for the application with the arguments that lie in a slot, unless a signal
/// came first.
#[inline(always)]
pub fn call_in_slot(nr: u32, slot: SlotRef) -> Answer {
    // SAFETY: a slot has six words for them, and is mapped for good.
    unsafe { call(nr, slot.arguments()) }
}

/// # Safety
/// `args` are six words.
#[inline(always)]
unsafe fn call(nr: u32, args: *const u64) -> Answer {
    // SAFETY: the routine reads six words and makes the call. What the call does
    // is the application's business. Its wild pointers may reach memory of ours, too
    // (docs/compatibility.md): it harms itself, neither kernel trusts a proxy.
    let returned = unsafe { abortable_call(nr.into(), args) };
    if returned.not_started == 0 { Answer::Done(returned.result) } else { Answer::NotStarted }
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

/// Takes on the FPU state, FS and GS base behind the [`DumpThread`] at `at`, and by the ioctl the
/// other registers, to be dumped with them. Comes back only where that failed; the thread pointer
/// is gone then.
pub fn dump_thread(fd: u32, at: u64) {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_SET_FS: u64 = 0x1002;
    const BASES: u64 = size_of::<DumpThread>() as u64;
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
        raw_call(__NR_ioctl, [fd.into(), IOCTL_DUMP_THREAD.into(), at, 0, 0, 0]);
    }
}

/// The time stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 has it; Linux leaves it open to user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}
