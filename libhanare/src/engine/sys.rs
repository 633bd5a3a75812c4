//! Linux: the calls that the library itself makes, and memory.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Makes a system call: what it returns, errors as negative numbers.
///
/// # Safety
/// As that call's.
#[inline(always)]
pub unsafe fn call(nr: u64, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller's; the instruction changes rcx, r11 and rax, and memory as the call says.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") nr as i64 => result,
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

/// Ticks of the processor's clock.
#[must_use]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: rdtsc changes nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of CLOCK_MONOTONIC.
#[must_use]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps.
pub fn sleep_ns(ns: u64) {
    std::thread::sleep(std::time::Duration::from_nanos(ns));
}

/// Fresh memory, of zeros, page-aligned; `None`: there is no more.
#[must_use]
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, where there was none.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// Gives memory back.
///
/// # Safety
/// It came from [`map`], and nobody uses it any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// An eventfd, or a negative error.
#[must_use]
pub fn eventfd() -> c_int {
    // SAFETY: no memory is concerned.
    unsafe { call(libc::SYS_eventfd2 as u64, [0, libc::EFD_CLOEXEC as u64, 0, 0, 0, 0]) as c_int }
}

/// Adds one to an eventfd. The call is one that workers make on Linux.
pub fn ring(fd: c_int) {
    let one = 1_u64;
    // SAFETY: it reads eight bytes.
    unsafe { call(libc::SYS_write as u64, [fd as u64, &raw const one as u64, 8, 0, 0, 0]) };
}

/// Waits until an eventfd was added to, and makes it zero. `false`: the descriptor is none any more.
pub fn await_ring(fd: c_int) -> bool {
    let mut count = 0_u64;
    loop {
        // SAFETY: it writes eight bytes.
        let got =
            unsafe { call(libc::SYS_read as u64, [fd as u64, &raw mut count as u64, 8, 0, 0, 0]) };
        match got {
            8 => return true,
            error if error == -i64::from(libc::EINTR) => {}
            _ => return false,
        }
    }
}

/// Waits until a descriptor is readable, so many nanoseconds at most (rounded up to milliseconds), or until a signal comes.
#[must_use]
pub fn is_readable(fd: c_int, timeout_ns: u64) -> bool {
    let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = timeout_ns.div_ceil(1_000_000).min(c_int::MAX as u64);
    // SAFETY: it reads and writes one structure.
    let got = unsafe { call(libc::SYS_poll as u64, [&raw mut one as u64, 1, ms, 0, 0, 0]) };
    got == 1
}

/// Closes a descriptor of the library's.
pub fn close(fd: c_int) {
    if fd >= 0 {
        // SAFETY: no memory is concerned; the descriptor is the library's.
        unsafe { call(libc::SYS_close as u64, [fd as u64, 0, 0, 0, 0, 0]) };
    }
}

/// Id of the calling thread.
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: it returns a number.
    unsafe { libc::gettid() }
}

/// Sends a signal to a thread of the program.
pub fn interrupt(thread: i32, signal: c_int) {
    // SAFETY: the thread is one of the library's, whose handler is above.
    unsafe {
        let process = libc::getpid() as u64;
        call(libc::SYS_tgkill as u64, [process, thread as u64, signal as u64, 0, 0, 0]);
    }
}

/// Asks the LWK to execute this thread's program on Linux.
const PR_HANARE_RUN_ON: u64 = 0x484e_524f;
const RUN_ON_ASK: u64 = 2;
const RUN_ON_EVENTFD: u64 = 3;
const RUN_ON_RING: u64 = 4;
/// Memory that the LWK wants for that.
pub const AREA_BYTES: usize = 64 << 10;

/// This thread runs on Linux from now on, on a CPU or (-1) on any. `false`: there is no LWK.
///
/// # Safety
/// The area, of [`AREA_BYTES`], is used by nobody until [`return_home`].
#[must_use]
pub unsafe fn run_on_linux(area: NonNull<u8>, cpu: i32) -> bool {
    let args =
        [PR_HANARE_RUN_ON, 1, area.as_ptr() as u64, AREA_BYTES as u64, i64::from(cpu) as u64, 0];
    // SAFETY: the caller's.
    unsafe { call(libc::SYS_prctl as u64, args) == 0 }
}

/// This thread runs on the LWK again.
pub fn return_home() {
    // SAFETY: it goes back to where it came from, which has the same memory.
    unsafe { call(libc::SYS_prctl as u64, [PR_HANARE_RUN_ON, 0, 0, 0, 0, 0]) };
}

/// Whether this thread runs on Linux beside an LWK; `None`: there is no LWK.
#[must_use]
pub fn is_on_linux() -> Option<bool> {
    // SAFETY: no memory is concerned.
    match unsafe { call(libc::SYS_prctl as u64, [PR_HANARE_RUN_ON, RUN_ON_ASK, 0, 0, 0, 0]) } {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The CPU on which this thread runs, as the kernel numbers it that executes it. The C library may have kept another one's.
#[must_use]
pub fn current_cpu() -> i32 {
    let mut cpu = u32::MAX;
    // SAFETY: it writes one number.
    unsafe { call(libc::SYS_getcpu as u64, [&raw mut cpu as u64, 0, 0, 0, 0, 0]) };
    cpu as i32
}

/// The calling thread sleeps in [`await_ring`] of this eventfd from now on: threads on the LWK may [`ring_thread`] it. `false`: there is
/// no LWK, or it cannot.
#[must_use]
pub fn be_rung_by(fd: c_int) -> bool {
    // SAFETY: no memory is concerned.
    unsafe {
        call(libc::SYS_prctl as u64, [PR_HANARE_RUN_ON, RUN_ON_EVENTFD, fd as u64, 0, 0, 0]) == 0
    }
}

/// Adds one to the eventfd of a thread, soon: the LWK sends an interrupt, and the calling thread waits for nobody. `false`: it does not.
#[must_use]
pub fn ring_thread(thread: i32) -> bool {
    // SAFETY: no memory is concerned.
    unsafe {
        call(libc::SYS_prctl as u64, [PR_HANARE_RUN_ON, RUN_ON_RING, thread as u64, 0, 0, 0]) == 0
    }
}

/// The thread stays on one CPU of the kernel that it runs on. `false`: there is none such, and it runs anywhere.
pub fn stay_on(cpu: i32) -> bool {
    if !(0..libc::CPU_SETSIZE).contains(&cpu) {
        return false;
    }
    // SAFETY: the set is a value.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
    }
}

/// Signals that a worker does not block: those of its own faults, and those that a call raises for its caller.
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

// A call that can be interrupted at any moment: where the word `asked` is set it is not made, and where the signal comes between
// the look at that word and the call, its handler goes on at the end. So no interruption is lost.
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

/// Makes a system call as [`call`], unless `asked` is not zero: then it is EINTR, also if that changes at any moment before, and
/// the signal comes.
///
/// # Safety
/// As that call's.
#[inline(always)]
pub unsafe fn call_unless(asked: &AtomicU32, nr: u64, args: &[u64; 6]) -> i64 {
    // SAFETY: the caller's.
    unsafe { hanare_interruptible_call(asked.as_ptr(), nr, args) }
}

/// The signal that interrupts workers came. Calls that wait end with EINTR; one that is about to be made is not.
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

/// Starts a thread in which all signals are blocked. An error is a negative number.
///
/// # Safety
/// `main` may be called with `argument` in another thread.
pub unsafe fn start_thread(
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> Result<libc::pthread_t, i32> {
    // SAFETY: sets and the thread's name are written before they are used; the rest is the caller's.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = 0;
        let error = libc::pthread_create(&raw mut thread, std::ptr::null(), main, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if error == 0 { Ok(thread) } else { Err(-error) }
    }
}

/// Waits for a thread's end.
pub fn join(thread: libc::pthread_t) {
    // SAFETY: the library has started it, and joins it once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
}
