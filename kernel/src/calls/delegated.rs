//! Delegated calls, and the hooks of those that have consequences here.

use crate::base::log_limit;
use crate::calls::{clocktimers, itimer, mmap, rlimits};
use crate::gate::ptrace;
use crate::link::delegate;
use crate::mm::limits;
use crate::parts::signals::Interrupted;
use crate::process::thread;
use crate::process::workers;
use crate::process::{cputimers, rights, timens, waited};
use crate::signal::{pending, signals, unhandled};
use core::sync::atomic::Ordering;
use hanare_abi::service::MAY_LIMIT;
use hanare_abi::slot::RESULT_NOT_STARTED;
use hanare_core::errno::{self, Errno, Result};
use hanare_core::signal::{SI_QUEUE, SIGBUS, SigSet};
use hanare_core::syscalls::{Hook, Restart, Row};
use hanare_core::sysfs::{LOOKED_AT, may_be_hidden};
use hanare_hal::usercopy;
use linux_raw_sys::general::{
    __NR_access, __NR_close, __NR_close_range, __NR_io_pgetevents, __NR_io_uring_enter, __NR_kill,
    __NR_lstat, __NR_openat, __NR_ppoll, __NR_prlimit64, __NR_pselect6, __NR_rt_sigtimedwait,
    __NR_rt_tgsigqueueinfo, __NR_setitimer, __NR_setns, __NR_setrlimit, __NR_stat, __NR_tgkill,
    __NR_timer_create, __NR_timer_delete, __NR_tkill, __NR_unshare,
};

/// A row that says `delegated`.
#[inline]
pub fn serve(row: &Row, hook: Hook, args: [u64; 6]) -> Result<u64> {
    if hook == Hook::None { forward(row, args) } else { hooked(row, hook, args) }
}

#[inline(never)] // the many registers and words it needs are not for the others
fn hooked(row: &Row, hook: Hook, args: [u64; 6]) -> Result<u64> {
    match hook {
        Hook::Signal => {
            if to_self(row, &args) {
                return Ok(0);
            }
            to_ended(row, &args)?;
            if row.number == __NR_rt_tgsigqueueinfo {
                return queue_to_thread(row, args);
            }
        }
        Hook::Close => not_control(args[0])?,
        Hook::Dup2 => {
            not_control(args[0])?;
            not_control(args[1])?;
        }
        Hook::CloseRange => return close_range(row, args),
        Hook::CpuTimer => {
            let set = (row.number == __NR_setitimer).then_some(args[1]);
            if let Some(result) =
                itimer::itimer(args[0], set, if set.is_some() { args[2] } else { args[1] })
            {
                return result;
            }
        }
        Hook::Timer if row.number == __NR_timer_create => {
            if !limits::room_for_mappings(0) {
                return Err(errno::EAGAIN);
            }
            return clocktimers::create(args[0], args[1], args[2]);
        }
        Hook::Timer => {
            if let Some(result) = clocktimers::serve(row.number, &args) {
                return result;
            }
        }
        Hook::Msync => return mmap::msync(thread::current(), args[0], args[1], args[2]),
        Hook::SigWait if row.number == __NR_rt_sigtimedwait => {
            if let Some(result) = pending::waited(&args) {
                return result;
            }
        }
        Hook::Perf => not_counted(&args)?,
        Hook::TempMask => return with_mask(row, args),
        Hook::Rlimit => {
            if let Some(result) = rlimits::address_space(row.number, &args) {
                return result;
            }
        }
        // Only a process of one thread may do some of this.
        Hook::Credentials if matches!(row.number, __NR_unshare | __NR_setns) => {
            let me = thread::current();
            if me.process.thread_count() == 1 {
                workers::dismiss(&me.process);
            }
            me.is_apart.store(true, Ordering::Relaxed); // of which execve has to know
        }
        Hook::Wait if thread::current().process.traces.load(Ordering::Relaxed) => {
            return ptrace::wait(row, args, forward);
        }
        _ => {}
    }
    let result = forward(row, args)?;
    match hook {
        Hook::Credentials => {
            workers::rights_changed(thread::current());
            rights::refresh_ids();
            time_namespace(row, &args);
        }
        Hook::Attributes => workers::attributes_changed(thread::current()),
        Hook::Rights => workers::rights_changed(thread::current()),
        Hook::Personality => personality(args[0] as u32),
        Hook::Rlimit => take_limits(row, &args),
        Hook::Timer if row.number == __NR_timer_delete => cputimers::timer_deleted(args[0]),
        Hook::Sysinfo => return super::machine::sysinfo(args[0]),
        Hook::Wait => waited::waited(&thread::current().process, row, &args, result)?,
        Hook::Path => not_hidden(row, &args)?,
        _ => {}
    }
    Ok(result)
}

/// Linux has found a file by its path: `ENOENT` if the LWK's machine has it not, which the
/// module says to who opens it.
fn not_hidden(row: &Row, args: &[u64; 6]) -> Result<()> {
    const AT_FDCWD: u64 = -100i64 as u64;
    const O_CLOEXEC: u64 = 0o2_000_000;
    const O_PATH: u64 = 0o10_000_000;
    let of_cwd = matches!(row.number, __NR_stat | __NR_lstat | __NR_access);
    let (dir, path) = if of_cwd { (AT_FDCWD, args[0]) } else { (args[0], args[1]) };
    if !usercopy::read_string(path, &mut [0; LOOKED_AT])
        .is_ok_and(|text| text.is_some_and(may_be_hidden))
    {
        return Ok(());
    }
    match delegate::linux(__NR_openat, [dir, path, O_PATH | O_CLOEXEC, 0, 0, 0]) {
        Ok(fd) => delegate::linux(__NR_close, [fd, 0, 0, 0, 0, 0]).map(drop),
        Err(errno::ENOENT) => Err(errno::ENOENT),
        Err(_) => Ok(()),
    }
}

/// Has Linux execute the call; an interruption is noted for delivery.
pub fn forward(row: &Row, args: [u64; 6]) -> Result<u64> {
    let result = delegate::call_of(thread::current(), row.number, args);
    let interrupted = match result {
        RESULT_NOT_STARTED => Some(Interrupted::NotStarted),
        r if r == errno::EINTR.as_return() && row.restart != Restart::Never => {
            Some(Interrupted::Started(row.restart))
        }
        _ => None,
    };
    if let Some(what) = interrupted {
        thread::current().signals.lock().set_interrupted(what);
        return Err(errno::EINTR);
    }
    match Errno::from_return(result) {
        None => Ok(result as u64),
        Some(e) => failed(row, &args, e),
    }
}

/// What Linux could not do and the LWK can.
#[cold]
fn failed(row: &Row, args: &[u64; 6], error: Errno) -> Result<u64> {
    if error == errno::EIO { ptrace::memory_file(row.number, args) } else { Err(error) }
}

/// A signal that the caller sends itself and that is queued here.
fn to_self(row: &Row, a: &[u64; 6]) -> bool {
    const SI_USER: i32 = 0;
    const SI_TKILL: i32 = -6;
    let thread = thread::current();
    let tid = |v: u64| v as u32 == thread.slot.tid();
    let pid = |v: u64| v as u32 == thread.process.identity.lock().pid;
    match row.number {
        __NR_kill => {
            signals::send_to_self(a[1], SI_USER, pid(a[0]) && thread.process.thread_count() == 1)
        }
        __NR_tkill => signals::send_to_self(a[1], SI_TKILL, tid(a[0])),
        __NR_tgkill => signals::send_to_self(a[2], SI_TKILL, pid(a[0]) && tid(a[1])),
        _ => false,
    }
}

/// `ESRCH`: a signal for a thread of this process that has ended. Linux may not know
/// yet: the worker ends on its own time.
fn to_ended(row: &Row, a: &[u64; 6]) -> Result<()> {
    let p = &thread::current().process;
    let tid = match row.number {
        __NR_kill | __NR_tkill => a[0],
        __NR_tgkill | __NR_rt_tgsigqueueinfo if a[0] as u32 == p.identity.lock().pid => a[1],
        _ => return Ok(()),
    };
    if workers::had_thread(p, tid as u32) { Err(errno::ESRCH) } else { Ok(()) }
}

/// Refuses perf_event_open(2) on a thread of the LWK: Linux would count its worker, not the program.
/// `ENOENT` is what Linux says of events that it does not have: perf names them and goes on
/// with others.
fn not_counted(args: &[u64; 6]) -> Result<()> {
    const PID_CGROUP: u64 = 4;
    const EVERY_TASK: u32 = !0;
    let tid = args[1] as u32;
    if args[4] & PID_CGROUP != 0 || tid == EVERY_TASK || rlimits::target(tid.into()).is_none() {
        return Ok(());
    }
    if log_limit::may_say() {
        crate::info!(
            "{}: perf_event_open: programs on the LWK are not counted, see docs/compatibility.md",
            unhandled::name_of(thread::current())
        );
    }
    Err(errno::ENOENT)
}

fn not_control(fd: u64) -> Result<()> {
    let control = thread::current().process.identity.lock().control_fd;
    if fd as u32 == control { Err(errno::EBADF) } else { Ok(()) }
}

fn close_range(row: &Row, args: [u64; 6]) -> Result<u64> {
    let control = u64::from(thread::current().process.identity.lock().control_fd);
    let (first, last) = (args[0] & 0xffff_ffff, args[1] & 0xffff_ffff);
    if !(first..=last).contains(&control) {
        return forward(row, args);
    }
    let part = |a: u64, b: u64| delegate::linux(__NR_close_range, [a, b, args[2], 0, 0, 0]);
    if control > first {
        part(first, control - 1)?;
    }
    if control < last { part(control + 1, last) } else { Ok(0) }
}

/// rt_tgsigqueueinfo: to a thread of this process, which is told that the signal is its own.
fn queue_to_thread(row: &Row, args: [u64; 6]) -> Result<u64> {
    let (tid, signal) = (args[1] as u32, args[2] as u32);
    let code = args[3].checked_add(8).and_then(|at| usercopy::read_u64(at).ok());
    let target = thread::current()
        .process
        .threads()
        .find(|t| t.slot.tid() == tid && code.is_some_and(|code| code as i32 == SI_QUEUE));
    let Some(target) = target else { return forward(row, args) };
    target.signals.lock().directed.sent(signal);
    forward(row, args).inspect_err(|_| {
        target.signals.lock().directed.take(signal);
    })
}

/// ppoll and its like: the mask argument becomes the thread's until delivery. Linux applies
/// it itself, and only in the call: what is ready comes before a signal that was blocked.
fn with_mask(row: &Row, mut args: [u64; 6]) -> Result<u64> {
    // The argument, and how long the structure is that begins with a pointer to the mask.
    let (place, size) = match row.number {
        __NR_ppoll => (3, 0),
        __NR_pselect6 | __NR_io_pgetevents => (5, 16),
        __NR_io_uring_enter if args[3] & 8 != 0 => (4, 24), // IORING_ENTER_EXT_ARG
        _ => (4, 0),
    };
    let pointer = match args[place] {
        behind if size != 0 && behind != 0 => usercopy::read_u64(behind).unwrap_or(0),
        pointer => pointer,
    };
    // One that cannot be read is Linux' to complain about.
    if pointer != 0
        && let Ok(mask) = usercopy::read_u64(pointer)
    {
        thread::current().signals.lock().begin_temporary(SigSet(mask));
        signals::retarget(&thread::current().process);
        if let Ok(other) = interruptible(SigSet(mask), args[place], size) {
            args[place] = other;
        }
    }
    let result = forward(row, args);
    thread::current().signals.lock().end_temporary();
    result
}

/// A worker is interrupted by SIGBUS: where its mask for a call lies without that one, or
/// the copy of the `size` bytes at `argument` that points there. `Err`: it stays as it is.
pub fn interruptible(mask: SigSet, argument: u64, size: usize) -> Result<u64> {
    let thread = thread::current();
    if !mask.contains(SIGBUS) {
        return Ok(argument);
    }
    let p = &thread.process;
    let mask = mask.without(SIGBUS).0.to_ne_bytes();
    let scratch = p.write_scratch(thread.slot_index, &mask)?;
    if size == 0 {
        return Ok(scratch);
    }
    let mut copy = [0; 32];
    copy[..8].copy_from_slice(&mask);
    usercopy::read(argument, &mut copy[8..8 + size]).map_err(|_| errno::EFAULT)?;
    copy[8..16].copy_from_slice(&scratch.to_ne_bytes());
    p.write_scratch(thread.slot_index, &copy)?;
    Ok(scratch + 8)
}

/// unshare(CLONE_NEWTIME) is for the children to come and, in newer Linux, the next program;
/// setns at once.
fn time_namespace(row: &Row, args: &[u64; 6]) {
    const NEWTIME: u64 = 0x80;
    let thread = thread::current();
    match row.number {
        __NR_unshare if args[0] & NEWTIME != 0 => {
            thread.process.identity.lock().time.children = true
        }
        __NR_setns => _ = timens::refresh(thread),
        _ => {}
    }
}

/// What execve and the memory calls will look at.
fn personality(wanted: u32) {
    const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;
    let thread = thread::current();
    workers::attributes_changed(thread);
    if wanted != rights::ONLY_ASKS {
        let mut id = thread.process.identity.lock();
        id.no_random = wanted & ADDR_NO_RANDOMIZE != 0;
        id.read_implies_exec = wanted & rights::READ_IMPLIES_EXEC != 0;
    }
}

/// Limits that the LWK itself enforces, after Linux has accepted them.
fn take_limits(row: &Row, args: &[u64; 6]) {
    let (pid, resource, pointer) = match row.number {
        __NR_setrlimit => (0, args[0], args[1]),
        __NR_prlimit64 => (args[0], args[1], args[2]),
        _ => return,
    };
    let Ok(soft) = usercopy::read_u64(pointer) else { return };
    let Some(p) = rlimits::target(pid) else { return };
    let own = core::ptr::eq(&*p, &*thread::current().process);
    if !own && rights::may(MAY_LIMIT, pid as u32, &p).is_err() {
        return;
    }
    if resource == 0
        && let Ok(hard) = usercopy::read_u64(pointer + 8)
    {
        p.cpu_timers.set_limit(soft, hard);
        cputimers::look_again(&p);
    }
    let mut id = p.identity.lock();
    match resource {
        2 => id.data_soft = soft,
        3 => id.stack_soft = soft,
        _ => {}
    }
}
