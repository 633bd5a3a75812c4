//! Dispositions and signal masks, and the entry of the handler.

use hanare_abi::ioctl::{Forward, IOCTL_FORWARD, IOCTL_SEND, Send};
use linux_raw_sys::general::*;

use super::arch::signal_return;
use super::call::{Result, check, raw_call};
use super::handler::{enter_handler, leave_handler};

/// The kernel's sigset_t: bit n-1 is signal n.
pub type Mask = u64;

/// Bit of `signal` in a mask.
pub const fn bit(signal: u32) -> Mask {
    1 << (signal - 1)
}

/// Last signal number.
pub const LAST: u32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: Mask,
}

/// SA_NOCLDSTOP and SA_NOCLDWAIT: what Linux does with children, besides.
pub const CHILD_FLAGS: u64 = (SA_NOCLDSTOP | SA_NOCLDWAIT) as u64;

/// Disposition of a signal in the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The default.
    Default,
    /// Nothing.
    Ignore,
    /// Our handler; `restart`: interrupted calls are made again.
    Forward {
        /// SA_RESTART.
        restart: bool,
    },
}

/// siginfo_t: 128 bytes.
#[repr(C)]
pub struct Info {
    /// si_signo and si_errno, si_code, then by kind.
    pub words: [u64; 16],
}

impl Info {
    /// Information of a signal which the process sends itself.
    fn new(signal: u32, code: i32) -> Self {
        let sender = u64::from(super::pid()) | u64::from(super::user_ids().0) << 32;
        let mut words = [0; 16];
        words[..3].copy_from_slice(&[signal.into(), u64::from(code as u32), sender]);
        Self { words }
    }

    /// si_code: > 0 if the kernel sent it on its own account.
    pub fn code(&self) -> i32 {
        self.words[1] as u32 as i32
    }

    /// si_addr of a fault.
    pub fn address(&self) -> u64 {
        self.words[2]
    }
}

/// The registers that a handler may look at and change.
pub struct Frame<'a> {
    context: &'a mut UContext,
    /// The interrupted code is that of a utility thread.
    of_program: bool,
}

/// ucontext_t up to the general registers.
#[repr(C)]
struct UContext {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    registers: [u64; 18],
    segments: u64,
    error: u64,
    trap: u64,
    old_mask: u64,
    cr2: u64,
    /// Pointer to the FPU's state, reserved.
    rest: [u64; 9],
    mask: Mask,
}

const RAX: usize = 13;
const RIP: usize = 16;

impl Frame<'_> {
    /// Instruction pointer.
    pub fn rip(&self) -> u64 {
        self.context.registers[RIP]
    }
    /// Accumulator: the number of a call that is to be made again.
    pub fn rax(&self) -> u64 {
        self.context.registers[RAX]
    }
    /// Whether an instruction at this very place raised the signal, which may as well have
    /// been sent: a program sends itself the siginfo of its own faults again.
    pub fn raised(&self, info: &Info) -> bool {
        const PROTECTION: u64 = 13;
        const PAGE_FAULT: u64 = 14;
        const BY_KERNEL: i32 = SI_KERNEL as i32;
        let (trap, address) = (self.context.trap, info.address());
        match info.code() {
            BY_KERNEL => trap == PROTECTION, // tells no address
            1.. => address == self.rip() || trap == PAGE_FAULT && address == self.context.cr2,
            _ => false,
        }
    }
    /// Whether the interrupted code is that of a utility thread.
    pub fn is_of_program(&self) -> bool {
        self.of_program
    }
    /// Arguments of a system call.
    pub fn arguments(&self) -> [u64; 6] {
        const PLACES: [usize; 6] = [8, 9, 12, 2, 0, 1]; // rdi, rsi, rdx, r10, r8, r9
        PLACES.map(|place| self.context.registers[place])
    }
    /// Signals that the interrupted code blocks.
    pub fn mask(&self) -> Mask {
        self.context.mask
    }
    /// Goes on with `rax`.
    pub fn set_rax(&mut self, rax: u64) {
        self.context.registers[RAX] = rax;
    }
    /// Where the alternate stack begins.
    pub fn stack_start(&self) -> u64 {
        self.context.stack[0]
    }
    /// Address of the context.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(&*self.context) as u64
    }
    /// Vector of the exception that was raised last.
    pub fn trap(&self) -> u64 {
        self.context.trap
    }
    /// Has the interrupted code go on `bytes` earlier.
    pub fn step_back(&mut self, bytes: u64) {
        self.context.registers[RIP] -= bytes;
    }
    /// Has the interrupted code go on with `signal` blocked.
    pub fn block(&mut self, signal: u32) {
        self.context.mask |= bit(signal);
    }
    /// Goes on at `rip` with `rax`.
    pub fn go_to(&mut self, rip: u64, rax: u64) {
        self.context.registers[RIP] = rip;
        self.context.registers[RAX] = rax;
    }
}

unsafe extern "Rust" {
    /// Entry point `signal` of [`super::entries`].
    safe fn proxy_signal(signal: u32, info: &Info, frame: &mut Frame);
}

extern "C" fn handler(signal: i32, info: *const Info, context: *mut UContext) {
    // SAFETY: the kernel's siginfo and ucontext of this very frame.
    let (info, context) = unsafe { (&*info, &mut *context) };
    // Nothing else has an alternate stack.
    let worker = if context.stack[0] != 0 { enter_handler(context.stack[0]) } else { None };
    let mut frame = Frame { context, of_program: worker.is_some() };
    proxy_signal(signal as u32, info, &mut frame);
    if let Some(worker) = worker {
        leave_handler(worker);
    }
}

fn sigaction(
    signal: u32,
    new: Option<&KernelAction>,
    old: Option<&mut KernelAction>,
) -> Result<()> {
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as u64);
    let old = old.map_or(0, |old| core::ptr::from_mut(old) as u64);
    // SAFETY: structures as the kernel has them; the handler is ours.
    check(unsafe { raw_call(__NR_rt_sigaction, [signal.into(), new, old, 8, 0, 0]) }).map(drop)
}

/// Disposition of `signal` now.
pub fn action(signal: u32) -> Result<Action> {
    let mut old = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    sigaction(signal, None, Some(&mut old))?;
    Ok(old.action())
}

/// Forwards `signals`, those that are ignored only if they are in `ignored_too`. `fd` is the
/// device.
pub fn forward_all(fd: u32, signals: Mask, ignored_too: Mask) -> Result<()> {
    let KernelAction { handler, restorer, .. } =
        KernelAction::of(Action::Forward { restart: false }, 0);
    let (handler, restorer) = (handler as u64, restorer as u64);
    super::ioctl(fd, IOCTL_FORWARD, &mut Forward { signals, ignored_too, handler, restorer })
}

/// Sets what Linux does with `signal`.
pub fn set_action(signal: u32, action: Action) -> Result<()> {
    set_action_and(signal, action, 0)
}

/// Sets a disposition with some of [`CHILD_FLAGS`].
pub fn set_action_and(signal: u32, action: Action, more: u64) -> Result<()> {
    sigaction(signal, Some(&KernelAction::of(action, more)), None)
}

impl KernelAction {
    fn of(action: Action, more: u64) -> Self {
        let (handler, flags) = match action {
            Action::Default => (0, 0),
            Action::Ignore => (1, 0),
            Action::Forward { restart } => {
                (handler as *const () as usize, SA_SIGINFO | if restart { SA_RESTART } else { 0 })
            }
        };
        Self {
            handler,
            flags: u64::from(flags | SA_RESTORER | SA_ONSTACK) | more & CHILD_FLAGS,
            restorer: signal_return as *const () as usize,
            mask: !0,
        }
    }

    fn action(&self) -> Action {
        match self.handler {
            0 => Action::Default,
            1 => Action::Ignore,
            _ => Action::Forward { restart: self.flags & u64::from(SA_RESTART) != 0 },
        }
    }
}

/// Has the context at `at` be gone on with under this mask.
pub fn put_mask(at: u64, mask: Mask) {
    // SAFETY: the LWK has put a context there, for the calling thread alone.
    unsafe { (*(at as *mut UContext)).mask = mask };
}

/// The mask in the context at `at`, which Linux has put there.
pub fn get_mask(at: u64) -> Mask {
    // SAFETY: it is that of the handler which this thread has just left.
    unsafe { (*(at as *const UContext)).mask }
}

/// Sets this thread's mask and gives the old one.
pub fn set_mask(mask: Mask) -> Mask {
    let mut old = 0;
    let args = [SIG_SETMASK.into(), &raw const mask as u64, &raw mut old as u64, 8, 0, 0];
    // SAFETY: two masks of 8 bytes.
    let _ = unsafe { raw_call(__NR_rt_sigprocmask, args) };
    old
}

/// Takes the signals of `set` that are pending and blocked.
pub fn discard_pending(set: Mask) {
    let now = timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [&raw const set as u64, 0, &raw const now as u64, 8, 0, 0];
    // SAFETY: a mask of 8 bytes and a time, which Linux only reads.
    while check(unsafe { raw_call(__NR_rt_sigtimedwait, args) }).is_ok() {}
}

/// Sends `signal` to this thread. `fd`, here and below, is the device.
pub fn raise(fd: u32, signal: u32) {
    let _ = send(fd, signal, super::thread_id(), &Info::new(signal, SI_TKILL), false);
}

/// Sends `signal` with `code` to the thread `tid` of this process.
pub fn queue(fd: u32, tid: u32, signal: u32, code: i32) -> Result<()> {
    send(fd, signal, tid, &Info::new(signal, code), false)
}

/// Place where a signal is to be pending.
#[derive(Clone, Copy)]
pub struct Place {
    /// The signal is pending for the process, not for this thread.
    pub process: bool,
    /// The signal comes before those pending there, because it was taken from there.
    pub first: bool,
}

/// Makes `signal` pending with the siginfo in `words`.
pub fn requeue(fd: u32, signal: u32, words: [u64; 16], place: Place) -> Result<()> {
    let tid = if place.process { 0 } else { super::thread_id() };
    send(fd, signal, tid, &Info { words }, place.first)
}

/// Has a signal for the process, which this thread has taken and blocks now, be pending there
/// again.
pub fn give_back(fd: u32, signal: u32, info: &Info) {
    if send(fd, signal, 0, info, true).is_err() {
        // Too many are pending already: without what it tells Linux always takes it.
        let _ = send(fd, signal, 0, &Info::new(signal, SI_USER as i32), true);
    }
}

/// To the thread `tid` of this process, or with 0 to the process; `is_back`: it was pending there
/// before.
fn send(fd: u32, signal: u32, tid: u32, info: &Info, is_back: bool) -> Result<()> {
    let mut arg = Send { signal, tid, is_back: is_back.into(), reserved: 0, info: info.words };
    super::ioctl(fd, IOCTL_SEND, &mut arg)
}
