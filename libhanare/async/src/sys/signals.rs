//! Signals: masks, actions, and stacks for handlers of faults.

use std::arch::naked_asm;

use super::call::{Errno, call, checked};
use super::local::{self, Local};
use super::pages::{map, unmap};
use crate::calls::Arguments;
pub use crate::faults::Mask;

/// Blocks signals, or sets the mask; what it was.
pub fn set_mask(how: i32, mask: Mask) -> Mask {
    let mut old: Mask = 0;
    let args = [how as u64, (&raw const mask) as u64, (&raw mut old) as u64, 8, 0, 0];
    // SAFETY: Two words of the stack.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, args) };
    old
}

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    /// SIG_DFL, SIG_IGN, or a function.
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    /// Signals that the action blocks.
    pub mask: Mask,
}

/// A handler of faults. It is given the kernel's description of the signal.
pub type OnFault = extern "C" fn(i32, &mut libc::siginfo_t, *mut libc::c_void);

impl Action {
    /// Calls a function on the thread's alternate stack. It may be called again meanwhile.
    pub fn on_fault(function: OnFault) -> Self {
        const RESTORER: u64 = 0x0400_0000;
        Self {
            handler: function as *const () as u64,
            flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | RESTORER,
            restorer: give_back as *const () as u64,
            mask: 0,
        }
    }
}

#[unsafe(naked)]
extern "C" fn give_back() {
    naked_asm!("mov rax, {nr}", "syscall", nr = const libc::SYS_rt_sigreturn)
}

/// Asks for the action of a signal, and sets another. That is one that the program has set, or one
/// by [`Action::on_fault`].
pub fn action(signal: i32, new: Option<&Action>) -> Result<Action, Errno> {
    let mut old = Action::default();
    let new = new.map_or(0, |new| std::ptr::from_ref(new) as u64);
    // SAFETY: Both are structures of the kernel's, or null.
    unsafe {
        checked(libc::SYS_rt_sigaction, [signal as u64, new, (&raw mut old) as u64, 8, 0, 0])
    }?;
    Ok(old)
}

/// Sends the calling thread a signal with the same description.
pub fn raise_again(signal: i32, info: &mut libc::siginfo_t) {
    let info = std::ptr::from_mut(info) as u64;
    // SAFETY: Two calls without pointers, and one with the kernel's own description.
    unsafe {
        let process = call(libc::SYS_getpid, [0; 6]) as u64;
        let thread = call(libc::SYS_gettid, [0; 6]) as u64;
        call(libc::SYS_rt_tgsigqueueinfo, [process, thread, signal as u64, info, 0, 0]);
    }
}

const STACK_BYTES: u64 = 64 << 10;

fn no_stack() -> libc::stack_t {
    libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 }
}

/// Gives the thread a stack for handlers of faults: where its own has run out, too, they are
/// called.
pub fn give_stack() {
    let Ok(stack) = map(STACK_BYTES) else { return };
    let new = libc::stack_t { ss_sp: stack as *mut _, ss_flags: 0, ss_size: STACK_BYTES as usize };
    // SAFETY: The stack is the thread's until take_stack.
    let result = unsafe { call(libc::SYS_sigaltstack, [(&raw const new) as u64, 0, 0, 0, 0, 0]) };
    local::current().stack.set(if result == 0 { stack } else { 0 });
}

/// Takes the stack back: the thread ends.
pub fn take_stack() {
    let stack = local::current().stack.take();
    if stack == 0 {
        return;
    }
    let none = no_stack();
    // SAFETY: Threads end on their own stack.
    unsafe {
        if call(libc::SYS_sigaltstack, [(&raw const none) as u64, 0, 0, 0, 0, 0]) == 0 {
            unmap(stack, STACK_BYTES);
        }
    }
}

/// `sigaltstack` of the program.
pub fn set_stack(args: &Arguments) -> i64 {
    let local: &Local = local::current();
    let had_ours = local.stack.get() != 0;
    // SAFETY: The call is the program's.
    let result = unsafe { call(libc::SYS_sigaltstack, *args) };
    if result != 0 {
        return result;
    }
    if had_ours && args[1] != 0 {
        // SAFETY: The kernel has just written there.
        unsafe { (args[1] as *mut libc::stack_t).write_unaligned(no_stack()) };
    }
    if args[0] != 0 {
        // SAFETY: The kernel has just read it.
        let new = unsafe { (args[0] as *const libc::stack_t).read_unaligned() };
        if had_ours {
            // SAFETY: It is not in use: a stack in use cannot be changed. No more than its address
            // is forgotten.
            unsafe { unmap(local.stack.take(), STACK_BYTES) };
        }
        if new.ss_flags & libc::SS_DISABLE != 0 {
            give_stack();
        }
    }
    0
}
