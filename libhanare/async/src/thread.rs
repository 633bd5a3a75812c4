//! A thread of the library, which the C library does not know.
//!
//! The C library has a say in its threads. setuid(2) has each of them make the call, and holds a lock meanwhile that pthread_join(3) takes as
//! well: a caller that ends a thread there would wait for ever. The process ends with the last one,
//! and a process with one thread spares locks. This thread is none of those: the kernel alone has
//! it. It executes code of the library only, which uses nothing that belongs to threads of the C
//! library.

use std::arch::{asm, naked_asm};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::local::{self, Local};
use crate::sys::{self, PAGE_BYTES};

const STACK_BYTES: u64 = 256 << 10;
/// Thread-local variables lie below the thread's pointer: all that is loaded with the program may have so many.
const VARIABLES_BYTES: u64 = 64 << 10;
/// A page that nobody may touch, the stack, variables, and what is above the thread's pointer.
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

    /// Starts it, with all signals blocked. It ends when `run` returns. `false`: it could not be started.
    pub fn start(&self, run: extern "C" fn()) -> bool {
        let Ok(memory) = sys::map(MEMORY_BYTES) else { return false };
        let pointer = memory + MEMORY_BYTES - PAGE_BYTES;
        let result = prepare(memory, pointer).and_then(|()| {
            const FLAGS: i32 = libc::CLONE_VM
                | libc::CLONE_FS
                | libc::CLONE_FILES
                | libc::CLONE_SIGHAND
                | libc::CLONE_THREAD
                | libc::CLONE_SYSVSEM
                | libc::CLONE_SETTLS;
            let mask = sys::set_mask(libc::SIG_BLOCK, !0);
            // SAFETY: Stack and variables are the new thread's alone, until `await_end` has seen its end.
            let result = unsafe { clone(FLAGS as u64, pointer - VARIABLES_BYTES, pointer, run) };
            sys::set_mask(libc::SIG_SETMASK, mask);
            (result > 0).then_some(result as i32)
        });
        match result {
            Some(id) => {
                self.id.store(id, Ordering::Relaxed);
                self.memory.store(memory, Ordering::Relaxed);
            }
            None => sys::unmap(memory, MEMORY_BYTES),
        }
        result.is_some()
    }

    /// Waits until the kernel has no such thread any more. It has been told to end.
    pub fn await_end(&self) {
        let id = self.id.load(Ordering::Relaxed);
        while sys::has_thread(id) {
            sys::sleep(10_000);
        }
        sys::unmap(self.memory.load(Ordering::Relaxed), MEMORY_BYTES);
    }
}

/// Lays out what is at the thread's pointer. `None`: there is no room for its variables.
fn prepare(memory: u64, pointer: u64) -> Option<()> {
    let local = local::of(pointer);
    if (local as u64) < pointer - VARIABLES_BYTES {
        return None;
    }
    sys::protect(memory, PAGE_BYTES, libc::PROT_NONE).ok()?;
    let guard: u64;
    // SAFETY: It reads the value by which functions of the C library see that their stack was overwritten; every thread has it there.
    unsafe {
        asm!("mov {}, qword ptr fs:[0x28]", out(reg) guard, options(nostack, pure, readonly))
    };
    let words = pointer as *mut u64;
    // SAFETY: The memory is new, there is a page from the pointer on, and `local` lies below in the part for variables.
    unsafe {
        words.write(pointer);
        words.add(2).write(pointer);
        words.add(5).write(guard);
        local.write(Local { is_inside: true, is_mask_counted: false, watched: 0, stack: 0 });
    }
    Some(())
}

/// Has a new thread call a function, and end.
///
/// # Safety
/// Below `stack` and around `pointer` is memory that nobody else uses as long as the thread lives.
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
