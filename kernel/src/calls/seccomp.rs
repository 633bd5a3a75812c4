//! seccomp: which system calls a thread may make. Filters are asked here; Linux has them, too,
//! behind what a worker does for the LWK (`hanare_core::seccomp::worker`), so that no worker
//! makes a call that its program may not make, whatever the program has had Linux write there.
//!
//! About some calls a listener decides (`calls/notified.rs`).
//!
//! Linux has a filter before it counts here. All workers of a process have it, those without
//! a thread included, where all its threads have; else those without a thread are sent away.

use crate::base::heap;
use crate::base::lists;
use crate::base::user::{self, UserAddr};
use crate::calls::context::handlers;
use crate::calls::rlimits;
use crate::gate::{coredump, ptrace, raise};
use crate::life::exit;
use crate::link::{delegate, services};
use crate::mm::map::limits;
use crate::parts::seccomp::{FILTER, Filter, Inherited, NONE, STRICT};
use crate::process::Process;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::control::{Control, FILTER_PART};
use hanare_abi::service::{SERVICE_CONTINUED, SERVICE_LISTENER};
use hanare_core::errno::{self, Result};
use hanare_core::link::{ENDING, Last};
use hanare_core::ptrace::option;
use hanare_core::seccomp::{
    ARCH, Data, FILTER_COST, Instruction, MAX_INSTRUCTIONS, MAX_TOTAL, Program, action, worker,
};
use hanare_core::signal::{self, QueuedSignal, SigInfo};
use hanare_hal::traps::Regs;
use linux_raw_sys::general::{
    __NR_close, __NR_exit, __NR_prctl, __NR_read, __NR_rt_sigreturn, __NR_write,
};
use zerocopy::{FromZeros, IntoBytes};

handlers! { call:
    __NR_seccomp => seccomp(call.thread, call.args[0], call.args[1], call.address(2)),
}

/// Operations of seccomp(2).
mod operation {
    pub const STRICT: u32 = 0;
    pub const FILTER: u32 = 1;
    pub const ACTION_AVAILABLE: u32 = 2;
    pub const NOTIFICATION_SIZES: u32 = 3;
}

/// Flags of the operation that sets a filter.
mod flag {
    pub const TSYNC: u64 = 1;
    pub const LOG: u64 = 2;
    pub const SPEC_ALLOW: u64 = 4;
    pub const NEW_LISTENER: u64 = 8;
    pub const TSYNC_ESRCH: u64 = 16;
    pub const WAIT_KILLABLE_RECV: u64 = 32;
    pub const ALL: u64 = TSYNC | LOG | SPEC_ALLOW | NEW_LISTENER | TSYNC_ESRCH | WAIT_KILLABLE_RECV;
}

/// `struct seccomp_notif_sizes`: bytes of a notification, of the answer to it, and of what both
/// know of a call.
const NOTIFICATION_SIZES: [u16; 3] = [80, 24, 64];

const PR_GET_NO_NEW_PRIVS: u64 = 39;
const CAP_SYS_ADMIN: u32 = 21;
const SYS_SECCOMP: i32 = 1;
const ERRNO_MAX: u32 = 4095;
/// Bytes that a filter takes beside its instructions, about: it itself, and its place in lists.
const FILTER_OBJECTS: usize = 256;

/// The verdict of the thread's seccomp mode and filters on a call.
#[derive(PartialEq, Eq)]
pub enum Judged {
    /// The call is made.
    Allowed,
    /// The call is made that the registers have by now: the thread's tracer has been asked.
    Permitted,
    /// The call is not made; its result is in the registers.
    Answered,
    /// The listener with this id decides.
    Notified(u64),
    /// The call is not made, and the registers are a signal handler's, or the process ends.
    Replaced,
}

/// Judges a call of the running thread `thread`.
pub fn judge(thread: &Thread, regs: &mut Regs) -> Judged {
    match thread.seccomp.mode() {
        _ if thread.ptrace.wants(option::SUSPEND_SECCOMP) => Judged::Allowed,
        STRICT
            if matches!(
                regs.orig_rax as u32,
                __NR_read | __NR_write | __NR_rt_sigreturn | __NR_exit
            ) =>
        {
            Judged::Allowed
        }
        STRICT => exit::by_call(thread, killed_by(signal::SIGKILL)),
        FILTER => filtered(thread, regs, false),
        _ => Judged::Allowed,
    }
}

/// `is_permitted`: a filter has left the call to the thread's tracer already, which may have made
/// another one of it.
fn filtered(thread: &Thread, regs: &mut Regs, is_permitted: bool) -> Judged {
    let number = regs.orig_rax as u32;
    let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    let (answer, listener) =
        thread.seccomp.answer(&Data { number, arch: ARCH, instruction: regs.rip, args });
    let value = answer & !action::MASK;
    match answer & action::MASK {
        action::ALLOW | action::LOG if !is_permitted => Judged::Allowed,
        action::ALLOW | action::LOG | action::TRACE if is_permitted => Judged::Permitted,
        action::TRACE if thread.ptrace.wants(option::TRACESECCOMP) => {
            if !ptrace::permits(thread, regs, value) {
                return Judged::Answered; // by what the tracer has set
            }
            filtered(thread, regs, true)
        }
        action::ERRNO => {
            regs.rax = u64::from(value.min(ERRNO_MAX)).wrapping_neg();
            Judged::Answered
        }
        action::USER_NOTIF if listener != 0 => Judged::Notified(listener),
        action::TRACE | action::USER_NOTIF => {
            regs.rax = errno::ENOSYS.as_return() as u64;
            Judged::Answered
        }
        action::TRAP => {
            regs.rax = regs.orig_rax;
            raise::force_call(thread, sigsys(regs, value), regs);
            Judged::Replaced
        }
        action::KILL_THREAD if thread.process.thread_count() > 1 => {
            exit::by_call(thread, killed_by(signal::SIGSYS))
        }
        _ => {
            regs.rax = regs.orig_rax;
            coredump::die(thread, &sigsys(regs, value), regs);
            Judged::Replaced
        }
    }
}

fn sigsys(regs: &Regs, value: u32) -> QueuedSignal {
    let mut info = SigInfo::fault(signal::SIGSYS, SYS_SECCOMP, regs.rip);
    info.errno = value as i32;
    info.fields[1] = regs.orig_rax & 0xffff_ffff | u64::from(ARCH) << 32;
    QueuedSignal { signal: signal::SIGSYS, info }
}

/// seccomp(2).
pub fn seccomp(thread: &Thread, what: u64, flags: u64, args: UserAddr) -> Result<u64> {
    match what as u32 {
        operation::STRICT if flags as u32 == 0 && args.is_null() => set_strict(thread),
        operation::FILTER => set_filter(thread, flags & 0xffff_ffff, args),
        operation::ACTION_AVAILABLE if flags as u32 == 0 => {
            use action::{ALLOW, ERRNO, KILL_PROCESS, KILL_THREAD, LOG, TRACE, TRAP, USER_NOTIF};
            match user::get::<u32>(args)? {
                KILL_PROCESS | KILL_THREAD | TRAP | ERRNO | USER_NOTIF | TRACE | LOG | ALLOW => {
                    Ok(0)
                }
                _ => Err(errno::EOPNOTSUPP),
            }
        }
        operation::NOTIFICATION_SIZES if flags as u32 == 0 => {
            user::put(args, NOTIFICATION_SIZES.as_bytes())
        }
        _ => Err(errno::EINVAL),
    }
}

/// PR_SET_SECCOMP.
pub fn prctl(thread: &Thread, mode: u64, filter: UserAddr) -> Result<u64> {
    match mode {
        1 => set_strict(thread),
        2 => set_filter(thread, 0, filter),
        _ => Err(errno::EINVAL),
    }
}

fn set_strict(thread: &Thread) -> Result<u64> {
    if thread.seccomp.mode() == FILTER {
        return Err(errno::EINVAL);
    }
    if thread.seccomp.mode() == NONE {
        let _turn = Turn::take(thread)?;
        workers::await_exits(thread);
        tell_linux(thread, &worker::STRICT, 0, true).map(drop)?;
    }
    thread.seccomp.mode.store(STRICT, Ordering::Release);
    Ok(0)
}

fn set_filter(thread: &Thread, flags: u64, from: UserAddr) -> Result<u64> {
    let listens = flags & flag::NEW_LISTENER != 0;
    let synchronised = flags & flag::TSYNC != 0;
    // Of a thread that does not follow there is no room beside the listener's descriptor.
    if flags & !flag::ALL != 0
        || listens && synchronised && flags & flag::TSYNC_ESRCH == 0
        || !listens && flags & flag::WAIT_KILLABLE_RECV != 0
    {
        return Err(errno::EINVAL);
    }
    let p = &thread.process;
    // Filters cost kernel memory, as threads and processes do: they leave the kernel its share.
    if !limits::room_for_tasks() {
        return Err(errno::ENOMEM);
    }
    let program = read_program(thread, from)?;
    let bytes = program.len() * size_of::<Instruction>() + FILTER_OBJECTS;
    let _charge = p.memory().account.charge(bytes as u64)?;
    let waits = flags & flag::WAIT_KILLABLE_RECV != 0;
    let filter = heap::arc(Filter { program, listener: AtomicU64::new(0), waits, _charge })?;
    if thread.seccomp.mode() == STRICT {
        return Err(errno::EINVAL);
    }
    let _turn = Turn::take(thread)?;
    workers::await_exits(thread); // whose filters bind no thread any more
    if let Some(refused) = p.with_threads(|threads| refusal(thread, threads, &filter, flags)) {
        return refused;
    }
    if listens && has_listener(thread) {
        return Err(errno::EBUSY);
    }
    if listens {
        p.claims.are_over(); // SECCOMP_IOCTL_NOTIF_ADDFD puts other files there
    }
    let told = tell_linux(thread, filter.instructions(), flags, false)?;
    let descriptor = if listens { listen(thread, told, &filter)? } else { 0 };
    // No thread is entered meanwhile, and none takes another one's filters.
    let attached = p.with_threads(|threads| attach(thread, threads, filter, flags));
    if listens && attached.is_err() {
        let _ = delegate::linux(thread, __NR_close, [descriptor, 0, 0, 0, 0, 0]);
    }
    attached.map(|()| descriptor)
}

/// Whether one of the thread's filters has a listener: Linux refuses another one, by the word of a
/// proxy.
fn has_listener(thread: &Thread) -> bool {
    let filters = thread.seccomp.filters.lock().clone();
    let mut ids =
        filters.iter().flat_map(|all| all.iter()).map(|f| f.listener.load(Ordering::Relaxed));
    ids.any(|id| {
        let listens = || services::by_worker(thread, SERVICE_CONTINUED, &[id, 0], &[]);
        id != 0 && listens().map_or(true, |answer| answer.status != 0)
    })
}

/// Gives a filter a listener that tells of what the LWK serves, too, in place of Linux' own, whose
/// descriptor is given. The listener's descriptor.
fn listen(me: &Thread, descriptor: u64, filter: &Filter) -> Result<u64> {
    match services::by_worker(me, SERVICE_LISTENER, &[descriptor], &[]) {
        Ok(answer) => {
            filter.listener.store(answer.args[0], Ordering::Relaxed);
            Ok(answer.status)
        }
        Err(e) => {
            let _ = delegate::linux(me, __NR_close, [descriptor, 0, 0, 0, 0, 0]);
            Err(e.into())
        }
    }
}

/// The end of a process by such a signal.
fn killed_by(signal: u32) -> Last {
    Last::Request(Control::ExitSignal { signal })
}

/// One thread of a process sets a filter at a time: here and on Linux they come in the same order.
struct Turn<'a>(&'a Process);

impl Turn<'_> {
    fn take(thread: &Thread) -> Result<Turn<'_>> {
        let p = &*thread.process;
        // The one whose turn it is waits for Linux, which may wait for this CPU: no spinning.
        while p.filtering.swap(true, Ordering::Acquire) {
            let is_free = || !p.filtering.load(Ordering::Relaxed);
            cpus::until(|| is_free() || thread.must_end(), cpus::NEVER);
            if thread.must_end() {
                return Err(ENDING);
            }
        }
        Ok(Turn(p))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.filtering.store(false, Ordering::Release);
        if self.0.thread_count() > 1 {
            self.0.kick_all();
        }
    }
}

/// Has Linux judge what the workers do by a filter. These are the workers that serve the running
/// thread and, with TSYNC or where it is the only one, all of the process. `confine`: with
/// no_new_privs. The descriptor of a listener, or 0.
fn tell_linux(thread: &Thread, program: &[Instruction], flags: u64, confine: bool) -> Result<u64> {
    let p = &thread.process;
    let control_fd = p.identity.lock().control_fd;
    let listens = flags & flag::NEW_LISTENER != 0;
    let filter = heap::fallible(|| worker::for_worker(program, control_fd, listens))?;
    let flags = flags & !flag::TSYNC_ESRCH;
    let all = flags & flag::TSYNC != 0;
    if all || p.thread_count() == 1 {
        if let Some(told) = send_to_all(thread, &filter, flags, confine)? {
            return Ok(told);
        }
        // A worker without a thread has filters of its own, which its thread had.
        workers::dismiss(thread);
        if let Some(told) = send_to_all(thread, &filter, flags, confine)? {
            return Ok(told);
        }
        if all {
            return Err(errno::ESRCH);
        }
    }
    let told = send(thread, &filter, flags, confine)?;
    thread.is_apart.store(true, Ordering::Relaxed);
    workers::rights_changed(thread);
    Ok(told)
}

/// Sends a filter for all workers of the process. `None`: one of them has other filters.
fn send_to_all(
    thread: &Thread,
    filter: &[Instruction],
    flags: u64,
    confine: bool,
) -> Result<Option<u64>> {
    let listens = flags & flag::NEW_LISTENER != 0;
    let flags = flags | flag::TSYNC | if listens { flag::TSYNC_ESRCH } else { 0 };
    match send(thread, filter, flags, confine) {
        Ok(descriptor) if listens => Ok(Some(descriptor)),
        Ok(0) => Ok(Some(0)),
        Ok(_) => Ok(None),
        Err(errno::ESRCH) if listens => Ok(None),
        Err(e) => Err(e),
    }
}

/// Sends a filter to Linux, part by part; gives what seccomp(2) does.
fn send(thread: &Thread, filter: &[Instruction], flags: u64, confine: bool) -> Result<u64> {
    let bytes = filter.as_bytes();
    let mut result = Ok(0);
    for (i, part) in bytes.chunks(FILTER_PART).enumerate() {
        let at = thread.write_scratch(part)?;
        let (before, whole) = ((i * FILTER_PART) as u64, bytes.len() as u64);
        let bytes = part.len() as u64;
        result = delegate::result_of(
            thread,
            Control::Filter { at, bytes, before, whole, flags, confine },
        );
        result?;
    }
    result
}

/// Reads a filter. Filters act for programs run by exec, too. So only a process that cannot gain
/// rights by exec, or has them already, may set one.
fn read_program(me: &Thread, from: UserAddr) -> Result<Program> {
    let [count, at]: [u64; 2] = user::get(from)?; // struct sock_fprog: a count of 16 bits
    let count = usize::from(count as u16);
    if count == 0 || count > MAX_INSTRUCTIONS {
        return Err(errno::EINVAL);
    }
    let confined = delegate::linux(me, __NR_prctl, [PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0]) == Ok(1);
    if !confined && !rlimits::capable(me, CAP_SYS_ADMIN)? {
        return Err(errno::EACCES);
    }
    let mut instructions = lists::filled(count, Instruction::new_zeroed())?;
    user::read(UserAddr::of(at), instructions.as_mut_bytes())?;
    heap::fallible(|| Program::new(instructions))
}

/// Why there can be no more filters, if so.
fn refusal(
    me: &Thread,
    threads: &[Arc<Thread>],
    program: &Program,
    flags: u64,
) -> Option<Result<u64>> {
    let before = me.seccomp.filters.lock().clone();
    let before = before.as_ref().map_or(&[][..], |f| f);
    let total: usize = program.len() + before.iter().map(|f| f.len() + FILTER_COST).sum::<usize>();
    if total > MAX_TOTAL {
        return Some(Err(errno::ENOMEM));
    }
    let all = flags & flag::TSYNC != 0;
    let other = threads.iter().find(|t| all && !follows(t, before))?;
    Some(if flags & flag::TSYNC_ESRCH != 0 {
        Err(errno::ESRCH)
    } else {
        Ok(u64::from(other.tid()))
    })
}

fn attach(me: &Thread, threads: &[Arc<Thread>], filter: Arc<Filter>, flags: u64) -> Result<()> {
    let before = me.seccomp.filters.lock().clone();
    let before = before.as_ref().map_or(&[][..], |f| f);
    let filters = lists::collected(before.iter().cloned().chain([filter]))?;
    let new = Inherited(FILTER, Some(heap::arc(filters)?));
    if flags & flag::TSYNC != 0 {
        threads.iter().for_each(|t| t.seccomp.inherit(new.clone()));
    } else {
        me.seccomp.inherit(new);
    }
    Ok(())
}

/// Whether a thread has no filters but those of the caller, or the first of them.
fn follows(t: &Thread, callers: &[Arc<Filter>]) -> bool {
    match t.seccomp.mode() {
        NONE => true,
        FILTER => {
            let filters = t.seccomp.filters.lock();
            let own = filters.as_ref().map_or(&[][..], |f| f);
            own.len() <= callers.len() && own.iter().zip(callers).all(|(a, b)| Arc::ptr_eq(a, b))
        }
        _ => false,
    }
}
