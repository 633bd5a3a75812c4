//! The code of a utility thread (`hanare_abi::utility`): how a worker gets into it and out again,
//! and the filter by which it leaves it for calls that are not Linux' alone.
//!
//! In that code thread pointer and GS base are the program's. Its handlers run on an alternate
//! stack, in the area, which no worker has otherwise: by that a handler knows what it has
//! interrupted, and finds the worker in the area.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, Ordering};

use hanare_abi::layout::{CONTROL_BASE, USER_MAX};
use hanare_abi::utility::{AREA_FRAME, AREA_FS_BASE, AREA_GS_BASE, AREA_STACK, AREA_WORKER};
use hanare_core::syscalls::{NATIVE, NATIVE_WORDS};
use linux_raw_sys::general::*;
use linux_raw_sys::prctl::PR_SET_NO_NEW_PRIVS;
use linux_raw_sys::ptrace::{SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP, SECCOMP_SET_MODE_FILTER};

use super::call::{Result, check, plain, raw_call};
use super::signal::{self, Frame, Mask, bit};
use super::worker::{Utility, Worker};

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_GS: u64 = 0x1004;

/// Signals that the CPU or the filter raises: never blocked in the thread's code, and not ignored,
/// since Linux ends a process that blocks or ignores what is raised.
pub const SYNCHRONOUS: Mask =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS);

// utility_enter(frame: rdi, fs: rsi, stack: rdx) -> rax: as utility_leave says
//
// The frame is one of a handler that returns. Signals are blocked until it has.
// utility_leave(stack: rdi, left: rsi): returns from utility_enter, out of a handler.
global_asm!(
    "utility_enter:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdx], rsp",
    "mov rbx, rdi",
    "mov edi, {set_fs}",
    "mov eax, {arch_prctl}",
    "syscall",
    "mov rsp, rbx",
    "mov eax, {rt_sigreturn}",
    "syscall",
    "ud2",
    "utility_leave:",
    "mov rsp, rdi",
    "mov rax, rsi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    set_fs = const ARCH_SET_FS,
    arch_prctl = const __NR_arch_prctl,
    rt_sigreturn = const __NR_rt_sigreturn,
);

unsafe extern "C" {
    fn utility_enter(frame: u64, fs: u64, stack: *const AtomicU64) -> u64;
    fn utility_leave(stack: u64, left: u64) -> !;
}

/// Code of a utility thread that is to be executed.
pub struct Code {
    /// Address of the area.
    pub area: u64,
    /// FS base of the program's thread.
    pub fs: u64,
    /// GS base of the program's thread.
    pub gs: u64,
    /// A descriptor that the thread may not close.
    pub control_fd: u32,
}

/// Gives the worker a filter, once, and the program's GS base.
fn make_ready(own: &Utility, code: &Code) -> Result<()> {
    if !own.is_ready() {
        set_filter(code.control_fd)?;
        own.is_ready.store(true, Ordering::Relaxed);
    }
    if own.gs.load(Ordering::Relaxed) != code.gs {
        plain(__NR_arch_prctl, [ARCH_SET_GS, code.gs, 0, 0, 0, 0])?;
        own.gs.store(code.gs, Ordering::Relaxed);
    }
    Ok(())
}

/// Executes the code of the worker's thread until it leaves it: the address of its context, and why
/// (`LEFT_*`). `None`: a signal came first.
pub fn execute(worker: &'static Worker, code: &Code) -> Result<Option<u64>> {
    make_ready(&worker.utility, code)?;
    let before = signal::set_mask(!0);
    if worker.interrupted.is_marked() {
        signal::set_mask(before);
        return Ok(None);
    }
    let frame = code.area + AREA_FRAME;
    signal::put_mask(frame, before & !SYNCHRONOUS);
    // SAFETY: the area is the thread's, for this.
    unsafe {
        ((code.area + AREA_WORKER) as *mut u64).write_volatile(core::ptr::from_ref(worker) as u64);
    }
    // SAFETY: the frame is one that the LWK has just written. What the code does is the program's
    // business; it comes back by `utility_leave`, with this stack as it is now.
    let left = unsafe { utility_enter(frame, code.fs, &raw const worker.utility.stack) };
    let disabled =
        stack_t { ss_sp: core::ptr::null_mut(), ss_flags: SS_DISABLE as i32, ss_size: 0 };
    // SAFETY: Linux only reads the structure.
    let _ = unsafe { raw_call(__NR_sigaltstack, [&raw const disabled as u64, 0, 0, 0, 0, 0]) };
    let after = signal::get_mask(left & !hanare_abi::utility::LEFT_MASK);
    signal::set_mask(after & !SYNCHRONOUS | before & SYNCHRONOUS);
    Ok(Some(left))
}

/// Makes a call out of such a handler, in place of the code that `frame` shows.
pub fn call<T>(worker: &Worker, frame: &Frame, call: impl FnOnce() -> T) -> T {
    worker.utility.in_call.store(true, Ordering::Relaxed);
    signal::set_mask(frame.mask());
    let result = call();
    signal::set_mask(!0);
    worker.utility.in_call.store(false, Ordering::Relaxed);
    result
}

/// The string at `address`, which Linux has just read, cut to fit.
pub fn path(address: u64, buffer: &mut [u8]) -> &[u8] {
    let mut length = 0;
    while let Some(place) = buffer.get_mut(length) {
        // SAFETY: memory of the program, which Linux has read up to its last byte, zero; a byte may
        // have any value.
        *place = unsafe { ((address + length as u64) as *const u8).read_volatile() };
        if *place == 0 {
            break;
        }
        length += 1;
    }
    &buffer[..length]
}

/// Leaves the thread's code, out of a handler in which `frame` has its registers; `left` is why
/// (`LEFT_*`).
pub fn leave(worker: &Worker, frame: &Frame, left: u64) -> ! {
    let area = frame.stack_start() - AREA_STACK;
    let (stack, fs) =
        (worker.utility.stack.load(Ordering::Relaxed), worker.utility.fs.load(Ordering::Relaxed));
    // SAFETY: the area is the thread's, for this; no other code uses its first words, and Linux
    // writes one. The stack is the worker's own as `utility_enter` left it.
    unsafe {
        let gs = area + AREA_GS_BASE;
        raw_call(__NR_arch_prctl, [ARCH_GET_GS, gs, 0, 0, 0, 0]);
        worker.utility.gs.store((gs as *const u64).read_volatile(), Ordering::Relaxed);
        ((area + AREA_FS_BASE) as *mut u64).write_volatile(fs);
        utility_leave(stack, frame.address() | left)
    }
}

/// Whether an address is one of the program's.
pub fn is_code(rip: u64) -> bool {
    rip < USER_MAX
}

/// One instruction of a filter: `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    yes: u8,
    no: u8,
    k: u32,
}

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IS: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const FROM: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const ABOVE: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ADDRESS_HIGH: u32 = 12;
const ARGUMENT: u32 = 16;
const X86_64: u32 = 0xc000_003e;

const fn of(code: u16, k: u32, yes: u8, no: u8) -> Instruction {
    Instruction { code, yes, no, k }
}

/// Most ranges of calls that Linux executes as they are; what is beyond goes to the LWK, which is
/// right and dearer.
const RANGES: usize = 96;

struct Program {
    instructions: [Instruction; 3 * RANGES + 16],
    length: usize,
}

impl Program {
    fn push(&mut self, instruction: Instruction) {
        self.instructions[self.length] = instruction;
        self.length += 1;
    }
}

/// Calls with these numbers, the first one and the last.
fn ranges() -> impl Iterator<Item = (u32, u32)> {
    let is_native = |n: u32| {
        n != __NR_close && NATIVE.get(n as usize / 64).is_some_and(|word| word >> (n % 64) & 1 != 0)
    };
    let end = 64 * NATIVE_WORDS as u32;
    (0..end).filter(move |&n| is_native(n) && (n == 0 || !is_native(n - 1))).map(move |first| {
        (first, (first..end).take_while(|&n| is_native(n)).last().unwrap_or(first))
    })
}

/// Sets the filter of the calling thread: what the proxy calls is let through, and of what the
/// program calls only that which Linux executes as it is. Those come first and depend on nothing
/// else, so that Linux does not even run the filter for them.
fn set_filter(control_fd: u32) -> Result<()> {
    let mut program =
        Program { instructions: [of(RETURN, SECCOMP_RET_TRAP, 0, 0); 3 * RANGES + 16], length: 0 };
    let allowed = of(RETURN, SECCOMP_RET_ALLOW, 0, 0);
    program.push(of(LOAD, ARCHITECTURE, 0, 0));
    program.push(of(IS, X86_64, 1, 0));
    program.push(of(RETURN, SECCOMP_RET_TRAP, 0, 0));
    program.push(of(LOAD, NUMBER, 0, 0));
    for (first, last) in ranges().take(RANGES) {
        program.push(of(FROM, first, 0, 2));
        program.push(of(ABOVE, last, 1, 0));
        program.push(allowed);
    }
    program.push(of(IS, __NR_close, 0, 3));
    program.push(of(LOAD, ARGUMENT, 0, 0));
    program.push(of(IS, control_fd, 1, 0));
    program.push(allowed);
    program.push(of(LOAD, ADDRESS_HIGH, 0, 0));
    program.push(of(FROM, (CONTROL_BASE >> 32) as u32, 0, 1));
    program.push(allowed);
    program.push(of(RETURN, SECCOMP_RET_TRAP, 0, 0));
    plain(__NR_prctl, [PR_SET_NO_NEW_PRIVS.into(), 1, 0, 0, 0, 0])?;
    let words = [program.length as u64, program.instructions.as_ptr() as u64];
    let mode = SECCOMP_SET_MODE_FILTER.into();
    // SAFETY: Linux only reads: `struct sock_fprog`, and the instructions that it names.
    check(unsafe { raw_call(__NR_seccomp, [mode, 0, words.as_ptr() as u64, 0, 0, 0]) }).map(drop)
}
