//! Faults that end the program: what it wrote before is written before it ends.
//!
//! A process that another one kills might have been killed earlier: what was outstanding may be lost. A process that
//! ends by its own fault has made all its writes first. So the library stands before the dispositions of these signals,
//! and what the program asks and sets is kept here.

use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::faults::{FAULTS, SIGNALS};
use crate::local::{self, Local};
use crate::poster::{self, Locked};
use crate::state::{self, Reason};
use crate::sys::{self, Errno, Mask};

const RESTORER: u64 = 0x0400_0000;
const STACK_BYTES: u64 = 64 << 10;

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Action {
    /// SIG_DFL, SIG_IGN, or a function.
    pub handler: u64,
    flags: u64,
    restorer: u64,
    /// Signals that it blocks.
    pub mask: Mask,
}

struct Kept(UnsafeCell<[Action; SIGNALS.len()]>);

// SAFETY: Used by the holder of the lock, and by handlers of faults, after which nothing is kept.
unsafe impl Sync for Kept {}

/// Actions that the program has set for signals of faults.
static KEPT: Kept =
    Kept(UnsafeCell::new([Action { handler: 0, flags: 0, restorer: 0, mask: 0 }; SIGNALS.len()]));
static STANDS: AtomicBool = AtomicBool::new(false);

fn place_of(signal: i32) -> Option<usize> {
    SIGNALS.iter().position(|known| *known == signal)
}

fn action(signal: i32, new: Option<&Action>) -> Result<Action, Errno> {
    let mut old = Action::default();
    let new = new.map_or(0, |new| std::ptr::from_ref(new) as u64);
    // SAFETY: Both are structures of the kernel's, or null.
    unsafe {
        sys::checked(libc::SYS_rt_sigaction, [signal as u64, new, (&raw mut old) as u64, 8, 0, 0])
    }?;
    Ok(old)
}

/// Begins to stand before the dispositions. `false`: they are such that nothing can be posted.
pub fn begin() -> bool {
    let all: Option<Vec<_>> = SIGNALS
        .iter()
        .map(|signal| action(*signal, None).ok().filter(|old| old.handler == 0))
        .collect();
    if all.is_none() {
        return false;
    }
    let ours = Action {
        handler: on_fault as *const () as u64,
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u64 | RESTORER,
        restorer: give_back as *const () as u64,
        mask: 0,
    };
    STANDS.store(true, Ordering::SeqCst);
    SIGNALS.iter().all(|signal| action(*signal, Some(&ours)).is_ok())
}

/// Whether the program has a signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    action(signal, None).is_ok_and(|action| action.handler == libc::SIG_IGN as u64)
}

#[unsafe(naked)]
extern "C" fn give_back() {
    naked_asm!("mov rax, {nr}", "syscall", nr = const libc::SYS_rt_sigreturn)
}

/// Stands there no more: what the program has set is in force.
pub fn end() {
    if STANDS.swap(false, Ordering::SeqCst) {
        for (place, signal) in SIGNALS.iter().enumerate() {
            // SAFETY: Nobody changes what is kept after STANDS is false.
            let kept = unsafe { (*KEPT.0.get())[place] };
            let _ = action(*signal, Some(&kept));
        }
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // A process that raised it from outside has no part in what is outstanding, but waiting for it
    // is right then, too.
    poster::await_all();
    state::turn_off(Reason::Fault);
    end();
    // SAFETY: The kernel's description of the signal.
    let code = unsafe { (*info).si_code };
    let comes_again = code > 0 && signal != libc::SIGTRAP;
    if comes_again {
        return;
    }
    // SAFETY: Two calls without pointers, and one with the kernel's own description.
    unsafe {
        let process = sys::call(libc::SYS_getpid, [0; 6]) as u64;
        let thread = sys::call(libc::SYS_gettid, [0; 6]) as u64;
        sys::call(libc::SYS_rt_tgsigqueueinfo, [process, thread, signal as u64, info as u64, 0, 0]);
    }
}

/// `rt_sigaction` of the program; `None`: the kernel makes it.
pub fn set_action(_: &Locked, signal: i32, new: Option<Action>) -> Option<Action> {
    if !STANDS.load(Ordering::SeqCst) {
        return None;
    }
    let place = place_of(signal)?;
    // SAFETY: The lock is held.
    let kept = unsafe { &mut (*KEPT.0.get())[place] };
    let old = *kept;
    if let Some(new) = new {
        *kept = new;
    }
    Some(old)
}

/// The mask that a thread is about to set, or has: whether it holds back signals of faults is counted.
pub fn note_mask(local: *mut Local, mask: Mask) {
    let is_deaf = mask & FAULTS != 0;
    // SAFETY: The thread's own, or that of one that has not begun.
    let was_deaf = unsafe { mem::replace(&mut (*local).is_mask_counted, is_deaf) };
    match (was_deaf, is_deaf) {
        (false, true) => {
            state::DEAF.fetch_add(1, Ordering::SeqCst);
            poster::await_all();
        }
        (true, false) => {
            state::DEAF.fetch_sub(1, Ordering::SeqCst);
        }
        _ => {}
    }
}

/// Gives the thread a stack for handlers of faults: where its own has run out, too, they are called.
pub fn give_stack() {
    let local = local::current();
    let Ok(stack) = sys::map(STACK_BYTES) else { return };
    let new = libc::stack_t { ss_sp: stack as *mut _, ss_flags: 0, ss_size: STACK_BYTES as usize };
    // SAFETY: The stack is the thread's until take_stack.
    let result =
        unsafe { sys::call(libc::SYS_sigaltstack, [(&raw const new) as u64, 0, 0, 0, 0, 0]) };
    // SAFETY: The thread's own.
    unsafe { (*local).stack = if result == 0 { stack } else { 0 } };
}

/// Takes it back: the thread ends.
pub fn take_stack() {
    let local = local::current();
    // SAFETY: The thread's own.
    let stack = unsafe { mem::take(&mut (*local).stack) };
    if stack == 0 {
        return;
    }
    let none =
        libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: Threads end on their own stack.
    unsafe {
        if sys::call(libc::SYS_sigaltstack, [(&raw const none) as u64, 0, 0, 0, 0, 0]) == 0 {
            sys::call(libc::SYS_munmap, [stack, STACK_BYTES, 0, 0, 0, 0]);
        }
    }
}

/// `sigaltstack` of the program.
pub fn set_stack(args: &[u64; 6]) -> i64 {
    let local = local::current();
    // SAFETY: The thread's own; the call is the program's.
    let (had_ours, result) =
        unsafe { ((*local).stack != 0, sys::call(libc::SYS_sigaltstack, *args)) };
    if result != 0 {
        return result;
    }
    if had_ours && args[1] != 0 {
        let none =
            libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: The kernel has just written there.
        unsafe { (args[1] as *mut libc::stack_t).write_unaligned(none) };
    }
    if args[0] != 0 {
        // SAFETY: The kernel has just read it.
        let new = unsafe { (args[0] as *const libc::stack_t).read_unaligned() };
        if had_ours {
            // SAFETY: It is not in use: a stack in use cannot be changed. No more than its address is forgotten.
            unsafe {
                let stack = mem::take(&mut (*local).stack);
                sys::call(libc::SYS_munmap, [stack, STACK_BYTES, 0, 0, 0, 0]);
            }
        }
        if new.ss_flags & libc::SS_DISABLE != 0 {
            give_stack();
        }
    }
    0
}
