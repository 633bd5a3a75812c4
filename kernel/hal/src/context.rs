//! Kernel stacks, switching between them, and the first step into user mode.

use crate::traps::Regs;
use core::arch::naked_asm;

/// Where a thread that does not run left its kernel stack.
#[derive(Debug, Default)]
pub struct Context {
    rsp: u64,
}

impl Context {
    /// A context that begins in `start` on the stack ending at `top`, where the thread's user
    /// registers lie once it has some. `start` must not return.
    pub fn new(top: u64, start: extern "C" fn() -> !) -> Context {
        // Popped by `switch`: r15 r14 r13 r12 rbx rbp, then the return address.
        let frame = [0u64, 0, 0, 0, start as usize as u64, 0, first_step as *const () as u64, 0];
        let regs = top - size_of::<Regs>() as u64;
        let rsp = regs - 64;
        // SAFETY: `top` is the end of a stack that belongs to this context alone.
        unsafe {
            (regs as *mut Regs).write(Regs::default());
            (rsp as *mut [u64; 8]).write(frame);
        }
        Context { rsp }
    }
}

/// rbx = function.
#[unsafe(naked)]
extern "C" fn first_step() -> ! {
    naked_asm!("and rsp, -16", "call rbx", "ud2")
}

#[unsafe(naked)]
extern "C" fn switch_stacks(from: *mut u64, to: u64) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret"
    )
}

/// Saves the running context into `from` and goes on in `to`. Returns when
/// another context switches back.
///
/// # Safety
/// `from` must be the running context's own place, `to` a context that is not
/// running anywhere, both valid until switched away from. Interrupts are off.
pub unsafe fn switch(from: *mut Context, to: *const Context) {
    crate::speculation::fill_return_stack();
    // SAFETY: by the contract above.
    unsafe { switch_stacks(&raw mut (*from).rsp, (*to).rsp) };
}

/// Leaves to user mode with these registers, whose selectors are user mode's whatever they were.
/// The kernel stack is abandoned; the next trap starts at its top again.
pub fn enter_user(regs: &mut Regs) -> ! {
    crate::traps::sanitize(regs);
    regs.cs = crate::gdt::USER_CS.into();
    regs.ss = crate::gdt::USER_DS.into();
    // SAFETY: `regs` describes a user-mode context (just made sure of); the code pops it
    // and does an iretq.
    unsafe {
        core::arch::asm!("mov rsp, {}", "jmp {}", in(reg) core::ptr::from_ref(regs), sym crate::traps::return_to_user, options(noreturn))
    }
}

/// Return addresses of the running kernel function and its callers.
pub fn backtrace() -> impl Iterator<Item = u64> {
    let frame: u64;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags))
    };
    callers(frame)
}

/// Return addresses from the kernel's frame at `frame` (a value of rbp) on, by frame
/// pointers; ends at the first that is not on a kernel stack.
pub fn callers(mut frame: u64) -> impl Iterator<Item = u64> {
    core::iter::from_fn(move || {
        let aligned = frame != 0 && frame.is_multiple_of(8);
        // On a stack, or in the image, where the first CPU's lies; two words, perhaps on two pages.
        let mapped = aligned
            && crate::paging::is_stack(frame)
            && crate::paging::is_stack(frame.wrapping_add(8));
        if !mapped {
            return None;
        }
        // SAFETY: both words are mapped.
        let (next, rip) =
            unsafe { ((frame as *const u64).read(), ((frame + 8) as *const u64).read()) };
        frame = next;
        (rip != 0).then_some(rip)
    })
}
