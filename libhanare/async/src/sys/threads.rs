//! Threads: one of the library's, and sleep and waking of any.
//!
//! The C library has a say in its threads. setuid(2) has each of them make the call, and holds a
//! lock meanwhile that pthread_join(3) takes as well: a caller that ends a thread there would wait
//! for ever. The process ends with the last one, and a process with one thread spares locks. The
//! library's thread is none of those: the kernel alone has it. It executes code of the library
//! only, which uses nothing that belongs to threads of the C library.

use std::arch::{asm, naked_asm};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::call::{call, checked};
use super::local::{self, Local};
use super::pages::{PAGE_BYTES, map, protect, unmap};
use super::signals::set_mask;

const STACK_BYTES: u64 = 256 << 10;
/// Thread-local variables lie below the thread's pointer: all that is loaded with the program may
/// have so many.
const VARIABLES_BYTES: u64 = 64 << 10;
/// A page that no thread may touch, the stack, variables, and what is above the thread's pointer.
const MEMORY_BYTES: u64 = PAGE_BYTES + STACK_BYTES + VARIABLES_BYTES + PAGE_BYTES;

/// A thread, which is started and ended by the thread that has exclusive use of this.
pub struct Thread {
    id: AtomicI32,
    memory: AtomicU64,
}

impl Thread {
    /// None has been started.
    pub const fn new() -> Self {
        Self { id: AtomicI32::new(0), memory: AtomicU64::new(0) }
    }

    /// Starts it, with all signals blocked. It ends when `run` returns. `false`: it could not be
    /// started.
    pub fn start(&self, run: extern "C" fn()) -> bool {
        let Ok(memory) = map(MEMORY_BYTES) else { return false };
        let pointer = memory + MEMORY_BYTES - PAGE_BYTES;
        let result = prepare(memory, pointer).and_then(|()| {
            const FLAGS: i32 = libc::CLONE_VM
                | libc::CLONE_FS
                | libc::CLONE_FILES
                | libc::CLONE_SIGHAND
                | libc::CLONE_THREAD
                | libc::CLONE_SYSVSEM
                | libc::CLONE_SETTLS;
            let mask = set_mask(libc::SIG_BLOCK, !0);
            // SAFETY: Stack and variables are the new thread's alone, until `await_end` has seen
            // its end.
            let result = unsafe { clone(FLAGS as u64, pointer - VARIABLES_BYTES, pointer, run) };
            set_mask(libc::SIG_SETMASK, mask);
            (result > 0).then_some(result as i32)
        });
        match result {
            Some(id) => {
                self.id.store(id, Ordering::Relaxed);
                self.memory.store(memory, Ordering::Relaxed);
            }
            // SAFETY: No thread has begun there.
            None => unsafe { unmap(memory, MEMORY_BYTES) },
        }
        result.is_some()
    }

    /// Waits until the kernel has no such thread any more. It has been told to end.
    pub fn await_end(&self) {
        let id = self.id.load(Ordering::Relaxed);
        while has_thread(id) {
            sleep(10_000);
        }
        let memory = self.memory.swap(0, Ordering::Relaxed);
        if memory != 0 {
            // SAFETY: The thread that used it is gone.
            unsafe { unmap(memory, MEMORY_BYTES) };
        }
    }
}

/// Lays out what is at the thread's pointer. `None`: there is no room for its variables.
fn prepare(memory: u64, pointer: u64) -> Option<()> {
    let local = local::of(pointer);
    if (local as u64) < pointer - VARIABLES_BYTES {
        return None;
    }
    // SAFETY: The first page of new memory, which no code uses.
    unsafe { protect(memory, PAGE_BYTES, libc::PROT_NONE) }.ok()?;
    let guard: u64;
    // SAFETY: It reads the value by which functions of the C library see that their stack was
    // overwritten; every thread has it there.
    unsafe {
        asm!("mov {}, qword ptr fs:[0x28]", out(reg) guard, options(nostack, pure, readonly))
    };
    let words = pointer as *mut u64;
    // SAFETY: The memory is new, there is a page from the pointer on, and `local` lies below in the
    // part for variables.
    unsafe {
        words.write(pointer);
        words.add(2).write(pointer);
        words.add(5).write(guard);
        local.write(Local::inside());
    }
    Some(())
}

/// Has a new thread call a function, and end.
///
/// # Safety
/// Below `stack` and around `pointer` is memory that no other thread uses while the thread lives.
#[unsafe(naked)]
unsafe extern "C" fn clone(flags: u64, stack: u64, pointer: u64, run: extern "C" fn()) -> i64 {
    naked_asm!(
        "mov r9, rcx",
        "mov r8, rdx",
        "xor edx, edx",
        "xor r10d, r10d",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jnz 2f",
        "xor ebp, ebp",
        "call r9",
        "mov eax, {exit}",
        "xor edi, edi",
        "syscall",
        "ud2",
        "2:",
        "ret",
        clone = const libc::SYS_clone,
        exit = const libc::SYS_exit,
    )
}

/// Threads of the process, where /proc is mounted.
pub fn threads() -> Option<u64> {
    // SAFETY: All zeroes is one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let path = c"/proc/self/task";
    let at = (&raw mut stat) as u64;
    // SAFETY: A path, and a structure that it fills.
    unsafe { checked(libc::SYS_stat, [path.as_ptr() as u64, at, 0, 0, 0, 0]) }.ok()?;
    stat.st_nlink.checked_sub(2)
}

/// Sleeps while the word has that value, or a little longer.
pub fn sleep_on(word: &AtomicU32, value: u32) {
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let args = [ptr::from_ref(word) as u64, wait as u64, u64::from(value), 0, 0, 0];
    // SAFETY: The word lives as long as the reference.
    let _ = unsafe { call(libc::SYS_futex, args) };
}

/// Wakes all threads that sleep on a word.
pub fn wake_on(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let args = [ptr::from_ref(word) as u64, wake as u64, i32::MAX as u64, 0, 0, 0];
    // SAFETY: The word lives as long as the reference.
    let _ = unsafe { call(libc::SYS_futex, args) };
}

/// `PR_HANARE_RUN_ON`: where a thread executes beside an LWK, and how it is woken there
/// (docs/utility-threads.md).
fn run_on(arguments: [u64; 4]) -> i64 {
    const PR_HANARE_RUN_ON: u64 = 0x484e_524f;
    let [what, first, second, third] = arguments;
    // SAFETY: The caller's, which gives memory away for it, or none is concerned.
    unsafe { call(libc::SYS_prctl, [PR_HANARE_RUN_ON, what, first, second, third, 0]) }
}

/// Memory that the LWK wants for a thread that executes on Linux.
pub struct Area(u64);

const AREA_BYTES: u64 = 64 << 10;

impl Area {
    /// `None`: there is no memory.
    pub fn map() -> Option<Self> {
        map(AREA_BYTES).ok().map(Self)
    }
}

/// The calling thread executes on Linux from now on, for ever. False: there is no LWK, or it
/// cannot.
pub fn run_on_linux(Area(area): Area) -> bool {
    // The LWK has the area as long as the thread lives.
    let is_there = run_on([1, area, AREA_BYTES, u64::MAX]) == 0;
    if !is_there {
        // SAFETY: No other code knows of it.
        unsafe { unmap(area, AREA_BYTES) };
    }
    is_there
}

/// The calling thread is woken by [`ring`] from now on, in [`sleep_until_rung`]. False: there is no
/// LWK.
pub fn be_rung() -> bool {
    run_on([3, u64::from(u32::MAX - 1), 0, 0]) == 0
}

/// Wakes a thread that is rung. The LWK bounds how often it is asked to.
pub fn ring(thread: i32) {
    while run_on([4, thread as u64, 0, 0]) == i64::from(-libc::EAGAIN) {
        give_way();
    }
}

/// Sleeps until a thread rings, or not so long. False: it cannot; mostly since the calling thread
/// executes on the LWK now.
pub fn sleep_until_rung() -> bool {
    let result = run_on([5, 0, 0, 0]);
    result == 0 || result == i64::from(-libc::EINTR)
}

/// CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [libc::CLOCK_MONOTONIC as u64, (&raw mut time) as u64, 0, 0, 0, 0];
    // SAFETY: It fills the structure.
    let _ = unsafe { call(libc::SYS_clock_gettime, args) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: It returns a number.
    unsafe { call(libc::SYS_gettid, [0; 6]) as i32 }
}

/// Whether the process has a thread of this id. One that has ended, and is counted still, is there.
pub fn has_thread(thread: i32) -> bool {
    // SAFETY: Neither has pointers; no signal is sent.
    unsafe {
        let process = call(libc::SYS_getpid, [0; 6]) as u64;
        call(libc::SYS_tgkill, [process, thread as u64, 0, 0, 0, 0]) != i64::from(-libc::ESRCH)
    }
}

/// Sleeps.
pub fn sleep(time_ns: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time_ns };
    // SAFETY: It reads the time.
    let _ = unsafe { call(libc::SYS_nanosleep, [(&raw const time) as u64, 0, 0, 0, 0, 0]) };
}

/// Lets others run.
pub fn give_way() {
    // SAFETY: It has no arguments.
    let _ = unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}
