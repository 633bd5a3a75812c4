//! Signals of workers, and calls that a signal interrupts at any moment.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU32;

use super::call;

/// Sends a signal to a thread of the program.
pub fn interrupt(thread: i32, signal: c_int) {
    // SAFETY: the thread is one of the library's, whose handler is above.
    unsafe {
        let process = libc::getpid() as u64;
        call(libc::SYS_tgkill as u64, [process, thread as u64, signal as u64, 0, 0, 0]);
    }
}

/// Signals that a worker does not block: those of its own faults, and those that a call raises for
/// its caller.
const UNBLOCKED: [c_int; 10] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGPIPE,
    libc::SIGXFSZ,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Blocks all signals of this thread but those, and `interruption`.
pub fn block_signals(interruption: c_int) {
    // SAFETY: the set is a value, which is written before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for signal in UNBLOCKED.into_iter().chain([interruption]) {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Lets a signal that has come be handled now.
pub fn settle() {
    // SAFETY: it returns a number. A signal that has come is handled at its end at the latest.
    unsafe { call(libc::SYS_getppid as u64, [0; 6]) };
}

// A call that can be interrupted at any moment: where the word `asked` is set it is not made, and
// where the signal comes between the look at that word and the call, its handler goes on at the
// end. So no interruption is lost.
core::arch::global_asm!(
    ".pushsection .text.hanare_interruptible_call,\"ax\",@progbits",
    ".hidden hanare_interruptible_call",
    ".hidden hanare_interruptible_look",
    ".hidden hanare_interruptible_made",
    ".hidden hanare_interruptible_end",
    ".globl hanare_interruptible_call",
    ".globl hanare_interruptible_look",
    ".globl hanare_interruptible_made",
    ".globl hanare_interruptible_end",
    ".type hanare_interruptible_call,@function",
    "hanare_interruptible_call:", // (asked, nr, args)
    "    .cfi_startproc",
    "    mov rax, rsi",
    "    mov r11, rdi",
    "    mov rdi, [rdx]",
    "    mov rsi, [rdx + 8]",
    "    mov r10, [rdx + 24]",
    "    mov r8, [rdx + 32]",
    "    mov r9, [rdx + 40]",
    "    mov rdx, [rdx + 16]",
    "hanare_interruptible_look:",
    "    cmp dword ptr [r11], 0",
    "    jne hanare_interruptible_end",
    "    syscall",
    "hanare_interruptible_made:",
    "    ret",
    "hanare_interruptible_end:",
    "    mov rax, -{eintr}",
    "    ret",
    "    .cfi_endproc",
    ".size hanare_interruptible_call, . - hanare_interruptible_call",
    ".popsection",
    eintr = const libc::EINTR,
);

unsafe extern "C" {
    fn hanare_interruptible_call(asked: *const u32, nr: u64, args: &[u64; 6]) -> i64;
    static hanare_interruptible_look: u8;
    static hanare_interruptible_made: u8;
    static hanare_interruptible_end: u8;
}

/// Makes a system call as [`call`], unless `asked` is not zero: then it is EINTR, also if that
/// changes at any moment before, and the signal comes.
///
/// # Safety
/// As that call's.
#[inline(always)]
pub unsafe fn call_unless(asked: &AtomicU32, nr: u64, args: &[u64; 6]) -> i64 {
    // SAFETY: the caller's.
    unsafe { hanare_interruptible_call(asked.as_ptr(), nr, args) }
}

/// The signal that interrupts workers came. Calls that wait end with EINTR; one that is about to be
/// made is not.
extern "C" fn interrupted(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of what was interrupted.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    let address = |place: &'static u8| (&raw const *place).addr() as i64;
    // SAFETY: they are places in the code above, of which nothing is read.
    let (look, made, end) = unsafe {
        let look = address(&hanare_interruptible_look);
        (look, address(&hanare_interruptible_made), address(&hanare_interruptible_end))
    };
    if (look..made).contains(at) {
        *at = end;
    }
}

/// Installs the handler of the signal that interrupts workers.
pub fn install_handler(signal: c_int) -> bool {
    // SAFETY: the structure is written before it is used; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}
