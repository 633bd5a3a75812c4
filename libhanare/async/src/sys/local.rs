//! Variables that the library keeps for each thread of the program, at a fixed distance from the
//! thread's pointer.

use std::arch::{asm, global_asm};
use std::cell::Cell;

/// Variables of a thread. All zeroes at first.
#[repr(C)]
pub struct Local {
    /// The thread is in the library, or is one of the library's: its calls are its own.
    pub is_inside: Cell<bool>,
    /// Signals of faults are blocked by the thread's mask.
    pub is_mask_counted: Cell<bool>,
    /// Task of `hook::tell` after the call: one of its numbers.
    pub watched: Cell<u8>,
    /// The thread's alternate stack, where that is the library's.
    pub(super) stack: Cell<u64>,
}

impl Local {
    /// Variables of a thread of the library's.
    pub(super) fn inside() -> Self {
        Self {
            is_inside: Cell::new(true),
            is_mask_counted: Cell::new(false),
            watched: Cell::new(0),
            stack: Cell::new(0),
        }
    }
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
pub(super) fn of(thread_pointer: u64) -> *mut Local {
    thread_pointer.wrapping_add_signed(local_offset()) as *mut Local
}

/// Lays out the variables of a thread of the program that the calling one is about to create, with
/// this thread pointer. They are zeroes but for these.
pub fn prepare(thread_pointer: u64, is_mask_counted: bool, watched: u8) {
    let variables = Local {
        is_inside: Cell::new(false),
        is_mask_counted: Cell::new(is_mask_counted),
        watched: Cell::new(watched),
        stack: Cell::new(0),
    };
    // SAFETY: The C library has laid out what is at the pointer, and the thread has not begun.
    unsafe { of(thread_pointer).write(variables) };
}

/// Variables of the calling thread: in the child of a vfork(2), of its parent, which waits
/// meanwhile. They are there as long as the thread, which a reference does not leave.
pub fn current() -> &'static Local {
    let pointer: u64;
    // SAFETY: The first word at fs is the thread's pointer.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
    }
    // SAFETY: Every thread has them, zeroed by the C library or laid out before its beginning; what
    // changes is in cells.
    unsafe { &*of(pointer) }
}
