//! Where stubs go: from the registers of a system call to Rust, and back.
//!
//! A system call keeps all registers but `rax`, `rcx` and `r11`, those of floating point too. Calls
//! that need no look change none. The others are looked at by Rust code; `xsavec` or `xsave` keeps
//! what that might change.

use std::arch::{asm, global_asm, x86_64};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::calls::{AWAIT, CALLS, CLASSES, OUTSTANDING};

/// A function that is given the registers of a call: before it, or after one that is watched.
pub type Function = extern "C" fn(&mut Frame);

/// These functions, before the first stub.
static ASK: AtomicPtr<()> = AtomicPtr::new(null_mut());
static TELL: AtomicPtr<()> = AtomicPtr::new(null_mut());
static STATE_MASK: AtomicU32 = AtomicU32::new(0);

/// The CPU has `xsavec`, which writes less.
static IS_COMPACT: AtomicBool = AtomicBool::new(false);

/// Registers of a call.
#[repr(C)]
pub struct Frame {
    /// Number of the call before it, result after it.
    pub rax: u64,
    /// Arguments of the call.
    pub args: [u64; 6],
    /// Address where the stub goes on.
    pub resume: u64,
}

/// Bytes for the register state: more than the parts in the mask need.
const STATE_BYTES: usize = 4096;

/// The parts of the register state that are kept: not those for protection keys, whose change is
/// refused, nor for matrices.
const STATE_PARTS: u64 = !(1 << 9 | 1 << 17 | 1 << 18);

global_asm!(
    ".text",
    ".macro hanare_async_keep function",
    "mov r11, rsp",
    "lea rsp, [rsp - 128]", // the red zone
    "and rsp, -64",
    "push r11",
    "push rbx",
    "push rcx",
    "push r9",
    "push r8",
    "push r10",
    "push rdx",
    "push rsi",
    "push rdi",
    "push rax",
    "mov rbx, rsp",
    "sub rsp, {state_bytes}",
    "and rsp, -64",
    "xor eax, eax",
    ".irp at, 512, 520, 528, 536, 544, 552, 560, 568",
    "mov [rsp + \\at], rax",
    ".endr",
    "mov eax, [rip + {state_mask}]",
    "xor edx, edx",
    "cmp byte ptr [rip + {is_compact}], 0",
    "je 7f",
    "xsavec64 [rsp]",
    "jmp 8f",
    "7:",
    "xsave64 [rsp]",
    "8:",
    "mov rdi, rbx",
    "call [rip + \\function]",
    "mov eax, [rip + {state_mask}]",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "mov rsp, rbx",
    "pop rax",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r8",
    "pop r9",
    "pop rcx",
    "pop rbx",
    "pop rsp",
    "jmp rcx",
    ".endm",
    ".globl hanare_async_ask",
    ".hidden hanare_async_ask",
    ".type hanare_async_ask, @function",
    "hanare_async_ask:",
    "cmp rax, {calls}",
    "jae 2f",
    "lea r11, [rip + {classes}]",
    "movzx r11d, byte ptr [r11 + rax]",
    "cmp r11d, {await_}",
    "jb 3f",
    "ja 2f",
    "cmp qword ptr [rip + {outstanding}], 0",
    "jne 2f",
    "3:",
    "jmp rcx",
    "2:",
    "hanare_async_keep {ask}",
    ".globl hanare_async_tell",
    ".hidden hanare_async_tell",
    ".type hanare_async_tell, @function",
    "hanare_async_tell:",
    "hanare_async_keep {tell}",
    state_bytes = const STATE_BYTES,
    calls = const CALLS,
    await_ = const AWAIT,
    state_mask = sym STATE_MASK,
    is_compact = sym IS_COMPACT,
    classes = sym CLASSES,
    outstanding = sym OUTSTANDING,
    ask = sym ASK,
    tell = sym TELL,
);

unsafe extern "C" {
    #[link_name = "hanare_async_ask"]
    pub safe fn ask();
    #[link_name = "hanare_async_tell"]
    pub safe fn tell();
}

/// Has stubs come to these functions. `false`: the CPU cannot keep its registers for us. It is
/// asked once, before the first stub.
pub fn prepare(ask: Function, tell: Function) -> bool {
    ASK.store(ask as *mut (), Ordering::Relaxed);
    TELL.store(tell as *mut (), Ordering::Relaxed);
    let leaf = x86_64::__cpuid_count(1, 0);
    const OSXSAVE: u32 = 1 << 27;
    if leaf.ecx & OSXSAVE == 0 {
        return false;
    }
    const XSAVEC: u32 = 1 << 1;
    let is_compact = x86_64::__cpuid_count(0xd, 1).eax & XSAVEC != 0;
    // SAFETY: The kernel uses xsave, so that this register exists.
    let enabled = unsafe {
        let (low, high): (u32, u32);
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nostack));
        u64::from(high) << 32 | u64::from(low)
    };
    let parts = (enabled & STATE_PARTS) as u32;
    let mut end: u32 = 576;
    for part in (2..32).filter(|part| parts & 1 << part != 0) {
        let leaf = x86_64::__cpuid_count(0xd, part);
        // In the compact format each begins at a multiple of 64 at most; in the other, where the
        // CPU says.
        let start = if is_compact { end.next_multiple_of(64) } else { leaf.ebx };
        end = end.max(start + leaf.eax);
    }
    STATE_MASK.store(parts, Ordering::Relaxed);
    IS_COMPACT.store(is_compact, Ordering::Relaxed);
    end as usize <= STATE_BYTES
}

const _: () = assert!(offset_of!(Frame, resume) == 56);
