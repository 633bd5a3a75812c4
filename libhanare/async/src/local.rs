//! Variables that the library keeps for each thread of the program, at a fixed distance from the
//! thread's pointer.

use std::arch::{asm, global_asm};

/// Variables of a thread. All zeroes at first.
#[repr(C)]
pub struct Local {
    /// The thread is in the library, or is one of the library's: its calls are its own.
    pub is_inside: bool,
    /// Signals of faults are blocked by the thread's mask.
    pub is_mask_counted: bool,
    /// Task of `hook::tell` after the call: one of its numbers.
    pub watched: u8,
    /// The thread's alternate stack, where that is the library's.
    pub stack: u64,
}

/// Bytes of [`Local`].
const LOCAL_BYTES: usize = 16;
const _: () = assert!(size_of::<Local>() <= LOCAL_BYTES);

global_asm!(
    ".section .tbss.hanare_async,\"awT\",@nobits",
    ".p2align 4",
    ".type hanare_async_local, @object",
    "hanare_async_local: .zero {local_bytes}",
    ".size hanare_async_local, {local_bytes}",
    ".text",
    local_bytes = const LOCAL_BYTES,
);

/// Distance of [`Local`] from the thread's pointer: below it, negative.
fn local_offset() -> i64 {
    let offset: i64;
    // SAFETY: It reads a word of the library, which the loader has filled.
    unsafe {
        asm!("mov {}, qword ptr [rip + hanare_async_local@GOTTPOFF]", out(reg) offset,
            options(nostack, pure, readonly, preserves_flags));
    }
    offset
}

/// Variables of the thread that has this thread pointer.
pub fn of(thread_pointer: u64) -> *mut Local {
    thread_pointer.wrapping_add_signed(local_offset()) as *mut Local
}

/// Variables of the calling thread.
pub fn current() -> *mut Local {
    let pointer: u64;
    // SAFETY: The first word at fs is the thread's pointer.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
    }
    of(pointer)
}
