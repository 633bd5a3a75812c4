//! Delegated calls, and the hooks of those that have consequences here.

use crate::base::log_limit;
use crate::calls::context::Context;
use crate::calls::rlimits::{self, Change};
use crate::calls::{clocktimers, itimer, madvise, mmap, pinned};
use crate::device;
use crate::gate::ptrace;
use crate::life::target::AT_FDCWD;
use crate::link::delegate;
use crate::mm::map::limits;
use crate::process::thread::Thread;
use crate::process::waited::{self, Place};
use crate::process::{cputimers, rights, spaces, timens};
use crate::process::{has_first_ended, workers};
use crate::route;
use crate::signal::{pending, signals, unhandled};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::service::MAY_SIGNAL;
use hanare_core::claims::Descriptors;
use hanare_core::directed::looks_like_threads;
use hanare_core::entropy::BYTES_MAX;
use hanare_core::errno::{self, Result};
use hanare_core::signal::{SI_QUEUE, SIGBUS, SigSet};
use hanare_core::syscalls::Hook;
use hanare_core::sysfs::{LOOKED_AT, may_be_hidden, process_link};
use hanare_hal::cpu;
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::{
    __NR_close, __NR_close_range, __NR_faccessat2, __NR_ioprio_set, __NR_lstat, __NR_newfstatat,
    __NR_openat, __NR_readlink, __NR_readlinkat, __NR_setpriority, __NR_statx, PRIO_PROCESS,
};

/// Serves a call whose row says `delegated`.
pub fn serve(call: &Context<'_>, hook: Hook) -> Result<u64> {
    let (me, args) = (call.thread, call.args);
    if call.process.pool.is_packed() {
        return call.forward(); // what the LWK does beside Linux is about a program's own proxy
    }
    match hook {
        Hook::None | Hook::OtherMemory | Hook::SigWait => call.forward(),
        Hook::IoUringSetup => {
            call.process.descriptors_change_unseen();
            pinned::call(call)
        }
        Hook::Pins if route::changes_flags(call.row.number.into(), args[1]) => {
            device::changing(me, Descriptors::ALL, || call.forward())
        }
        Hook::Pins => pinned::call(call),
        Hook::Kill => kill(call),
        Hook::Tkill => tkill(call),
        Hook::Tgkill => tgkill(call),
        Hook::QueueToThread => queue_to_thread(call),
        Hook::QueueToProcess => queue_to_process(call),
        Hook::Close => {
            not_control(call, args[0])?;
            device::changing(me, Descriptors::one(args[0] as u32), || call.forward())
        }
        Hook::Dup2 => {
            not_control(call, args[0]).and_then(|()| not_control(call, args[1]))?;
            device::changing(me, Descriptors::one(args[1] as u32), || call.forward())
        }
        Hook::CloseRange => close_range(call),
        Hook::Credentials => call.forward().inspect(|_| credentials_changed(me)),
        Hook::Unshare => unshare(call),
        Hook::Setns => setns(call),
        Hook::Attributes => attributes(call),
        Hook::Rights => call.forward().inspect(|_| workers::rights_changed(me)),
        Hook::Getitimer => {
            itimer::itimer(call.process, args[0], None, args[1]).unwrap_or_else(|| call.forward())
        }
        Hook::Setitimer => itimer::itimer(call.process, args[0], Some(args[1]), args[2])
            .unwrap_or_else(|| call.forward()),
        Hook::TimerCreate if !limits::room_for_mappings(0) => Err(errno::EAGAIN),
        Hook::TimerCreate => clocktimers::create(me, args[0], args[1], call.address(2)),
        Hook::TimerSettime => {
            clocktimers::set_time(call.process, &args).unwrap_or_else(|| call.forward())
        }
        Hook::TimerGettime => {
            clocktimers::get_time(call.process, &args).unwrap_or_else(|| call.forward())
        }
        Hook::TimerGetoverrun => {
            clocktimers::overrun(call.process, args[0]).map_or_else(|| call.forward(), Ok)
        }
        Hook::TimerDelete => {
            call.forward().inspect(|_| cputimers::timer_deleted(call.process, args[0]))
        }
        Hook::Getrlimit => limit(call, &Change::by_getrlimit(&args)),
        Hook::Setrlimit => limit(call, &Change::by_setrlimit(&args)),
        Hook::Prlimit => limit(call, &Change::by_prlimit(&args)),
        Hook::Truncate => call.forward().inspect(|_| madvise::discard_behind_ends(me)),
        Hook::Msync => mmap::msync(me, args[0], args[1], args[2]),
        Hook::Personality => call.forward().inspect(|_| personality(me, args[0] as u32)),
        Hook::Random => random(call).map_or_else(|| call.forward(), Ok),
        Hook::Sysinfo => call.forward().and_then(|_| super::machine::sysinfo(args[0])),
        Hook::Sigtimedwait => pending::waited(me, &args).unwrap_or_else(|| {
            call.forward().inspect(|_| clocktimers::waited(call.process, args[1]))
        }),
        Hook::EpollPwait => with_mask(call, 4, 0),
        Hook::Ppoll => with_mask(call, 3, 0),
        Hook::Pselect => with_mask(call, 5, 16),
        Hook::IoUringEnter => {
            const EXT_ARG: u64 = 8;
            // A ring that was inherited or received: Linux' threads may give descriptors another
            // meaning.
            call.process.descriptors_change_unseen();
            with_mask(call, 4, if args[3] & EXT_ARG != 0 { 24 } else { 0 })
        }
        Hook::Perf => not_counted(call).and_then(|()| call.forward()),
        Hook::Wait4 => wait(call, waited::Call::Wait4),
        Hook::Waitid => wait(call, waited::Call::Waitid),
        Hook::Path => not_hidden(call, AT_FDCWD, args[0]),
        Hook::PathAt => not_hidden(call, args[0], args[1]),
    }
}

/// A call that looks at a file by its path: `ENOENT` for a file that Linux has found and the LWK's
/// machine has not. The module says so, too, to a thread that opens it.
fn not_hidden(call: &Context<'_>, dir: u64, path: u64) -> Result<u64> {
    if has_first_ended() {
        leads_somewhere(call, dir, path)?;
    }
    let result = call.forward()?;
    if matches!(call.row.number.into(), __NR_readlink | __NR_readlinkat) {
        return Ok(result); // it says what the link is, whether that leads to something or not
    }
    if !usercopy::read_string(UserAddr::of(path), &mut [0; LOOKED_AT])
        .is_ok_and(|text| text.is_some_and(may_be_hidden))
    {
        return Ok(result);
    }
    is_there(call.thread, dir, path, 0).map(|()| result)
}

/// `ENOENT`: the path goes by a link of a first thread that has ended. Its worker has what the link
/// leads to.
#[cold]
fn leads_somewhere(call: &Context<'_>, dir: u64, path: u64) -> Result<()> {
    const O_NOFOLLOW: u64 = 0o400_000;
    let mut bytes = [0; LOOKED_AT];
    let Ok(Some(text)) = usercopy::read_string(UserAddr::of(path), &mut bytes) else {
        return Ok(()); // Linux complains
    };
    let Some(link) = process_link(text) else { return Ok(()) };
    let (end, length) = (link.end, text.len());
    if link.outlives && end == length && looks_at_link(call.row.number.into(), &call.args) {
        return Ok(());
    }
    bytes[end] = 0;
    let at = call.thread.write_scratch(&bytes[..=end])?;
    is_there(call.thread, dir, at, O_NOFOLLOW)
}

/// Whether a call that looks at a file by its path looks at a link itself, in place of what that
/// leads to.
fn looks_at_link(number: u32, args: &[u64; 6]) -> bool {
    const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
    let flags = match number {
        __NR_lstat => return true,
        __NR_statx => args[2],
        __NR_newfstatat | __NR_faccessat2 => args[3],
        _ => 0,
    };
    flags & AT_SYMLINK_NOFOLLOW != 0
}

/// `ENOENT`: so says the module of the file at that path, or Linux.
fn is_there(me: &Thread, dir: u64, path: u64, flags: u64) -> Result<()> {
    const O_CLOEXEC: u64 = 0o2_000_000;
    const O_PATH: u64 = 0o10_000_000;
    match delegate::linux(me, __NR_openat, [dir, path, O_PATH | O_CLOEXEC | flags, 0, 0, 0]) {
        Ok(fd) => delegate::linux(me, __NR_close, [fd, 0, 0, 0, 0, 0]).map(drop),
        Err(errno::ENOENT) => Err(errno::ENOENT),
        Err(_) => Ok(()),
    }
}

/// `si_code` of kill(2).
const SI_USER: i32 = 0;
/// `si_code` of tkill(2) and tgkill(2).
const SI_TKILL: i32 = -6;

fn is_own_pid(call: &Context<'_>, pid: u64) -> bool {
    pid as u32 == call.process.pid()
}

/// kill(2): what a process of one thread sends itself is queued here.
fn kill(call: &Context<'_>) -> Result<u64> {
    let a = call.args;
    let alone = is_own_pid(call, a[0]) && call.process.thread_count() == 1;
    if signals::send_to_self(call.thread, a[1], SI_USER, alone) {
        return Ok(0);
    }
    not_ended(call, a[0])?;
    call.forward()
}

/// tkill(2): what a thread sends itself is queued here.
fn tkill(call: &Context<'_>) -> Result<u64> {
    let a = call.args;
    let own = a[0] as u32 == call.thread.tid();
    if signals::send_to_self(call.thread, a[1], SI_TKILL, own) {
        return Ok(0);
    }
    not_ended(call, a[0])?;
    call.forward()
}

/// tgkill(2): what a thread sends itself is queued here.
fn tgkill(call: &Context<'_>) -> Result<u64> {
    let a = call.args;
    let in_process = is_own_pid(call, a[0]);
    let own = in_process && a[1] as u32 == call.thread.tid();
    if signals::send_to_self(call.thread, a[2], SI_TKILL, own) {
        return Ok(0);
    }
    if in_process {
        not_ended(call, a[1])?;
    }
    call.forward()
}

/// `ESRCH`: a thread of this process that has ended. Linux may not know yet: the worker ends on
/// its own time.
fn not_ended(call: &Context<'_>, tid: u64) -> Result<()> {
    if workers::had_thread(call.thread, call.process, tid as u32) {
        return Err(errno::ESRCH);
    }
    Ok(())
}

/// Refuses perf_event_open(2) on a thread of the LWK: Linux would count its worker, not the
/// program. `ENOENT` is what Linux says of events that it does not have: perf names them and goes
/// on with others.
fn not_counted(call: &Context<'_>) -> Result<()> {
    const PID_CGROUP: u64 = 4;
    const EVERY_TASK: u32 = !0;
    let tid = call.args[1] as u32;
    let is_other = || rlimits::target(call.process, tid.into()).is_none();
    if call.args[4] & PID_CGROUP != 0 || tid == EVERY_TASK || is_other() {
        return Ok(());
    }
    if log_limit::may_say() {
        crate::info!(
            "{}: perf_event_open: programs on the LWK are not counted, see docs/compatibility.md",
            unhandled::name_of(call.thread)
        );
    }
    Err(errno::ENOENT)
}

fn not_control(call: &Context<'_>, fd: u64) -> Result<()> {
    let control = call.process.identity.lock().control_fd;
    if fd as u32 == control { Err(errno::EBADF) } else { Ok(()) }
}

/// close_range(2). With CLOSE_RANGE_UNSHARE the thread has a descriptor table of its own from then
/// on.
fn close_range(call: &Context<'_>) -> Result<u64> {
    const UNSHARE: u32 = 2;
    if call.args[2] as u32 & UNSHARE == 0 {
        let which = Descriptors::between(call.args[0] as u32, call.args[1] as u32);
        return device::changing(call.thread, which, || close_around_control(call));
    }
    set_apart(call.thread);
    let result = close_around_control(call);
    // Also where it failed: of two calls the first one may have left the table.
    workers::rights_changed(call.thread);
    result
}

fn close_around_control(call: &Context<'_>) -> Result<u64> {
    let args = call.args;
    let control = u64::from(call.process.identity.lock().control_fd);
    let (first, last) = (args[0] & 0xffff_ffff, args[1] & 0xffff_ffff);
    if !(first..=last).contains(&control) {
        return call.forward();
    }
    let part =
        |a: u64, b: u64| delegate::linux(call.thread, __NR_close_range, [a, b, args[2], 0, 0, 0]);
    if control > first {
        part(first, control - 1)?;
    }
    if control < last { part(control + 1, last) } else { Ok(0) }
}

/// rt_tgsigqueueinfo: to a thread, which is told that the signal is its own.
fn queue_to_thread(call: &Context<'_>) -> Result<u64> {
    if is_own_pid(call, call.args[0]) {
        not_ended(call, call.args[1])?;
    }
    let signal = call.args[2] as u32;
    let target = code_of(call.args[3]).filter(|&code| code == SI_QUEUE);
    let Some(target) = target.and_then(|_| queued_to(call.thread, call.args[1])) else {
        return call.forward();
    };
    target.signals.lock().directed.sent(signal);
    call.forward().inspect_err(|_| {
        target.signals.lock().directed.take(signal);
    })
}

/// rt_sigqueueinfo: to a process, which is told so where the signal looks like one for a thread.
fn queue_to_process(call: &Context<'_>) -> Result<u64> {
    let signal = call.args[1] as u32;
    let target = code_of(call.args[2]).filter(|&code| looks_like_threads(code));
    let Some(target) = target.and_then(|_| queued_to(call.thread, call.args[0])) else {
        return call.forward();
    };
    let p = &target.process;
    p.signals.lock().directed.sent(signal);
    call.forward().inspect_err(|_| {
        p.signals.lock().directed.take(signal);
    })
}

/// The `si_code` of a `siginfo_t` of the program's, if that can be read.
fn code_of(info: u64) -> Option<i32> {
    usercopy::read_u64(UserAddr::behind(info, 8)).ok().map(|word| word as i32)
}

/// The thread `tid`, if the running one, `me`, may send it signals.
fn queued_to(me: &Thread, tid: u64) -> Option<Arc<Thread>> {
    let own = &me.process;
    let target = spaces::find_thread(own, tid as u32)?;
    let may = Arc::ptr_eq(&target.process, own)
        || rights::may(me, MAY_SIGNAL, tid as u32, &target.process).is_ok();
    may.then_some(target)
}

/// ppoll and its like: the mask argument becomes the thread's until delivery. Linux applies it
/// itself, and only in the call: what is ready comes before a signal that was blocked. `place` is
/// the argument, `size` the length of the structure that begins with a pointer to the mask; 0: the
/// argument points to the mask.
fn with_mask(call: &Context<'_>, place: usize, size: usize) -> Result<u64> {
    let (me, mut args) = (call.thread, call.args);
    let pointer = match args[place] {
        behind if size != 0 && behind != 0 => usercopy::read_u64(UserAddr::of(behind)).unwrap_or(0),
        pointer => pointer,
    };
    // One that cannot be read is Linux' to complain about.
    if pointer != 0
        && let Ok(mask) = usercopy::read_u64(UserAddr::of(pointer))
    {
        me.signals.lock().begin_temporary(SigSet(mask));
        signals::retarget(call.process);
        if let Ok(other) = interruptible(me, SigSet(mask), args[place], size) {
            args[place] = other;
        }
    }
    let result = route::call(me, call.row, args);
    me.signals.lock().end_temporary();
    result
}

/// A worker is interrupted by SIGBUS: where its mask for a call lies without that one, or
/// the copy of the `size` bytes at `argument` that points there. `Err`: it stays as it is.
pub fn interruptible(me: &Thread, mask: SigSet, argument: u64, size: usize) -> Result<u64> {
    if !mask.contains(SIGBUS) {
        return Ok(argument);
    }
    let mask = mask.without(SIGBUS).0.to_ne_bytes();
    let scratch = me.write_scratch(&mask)?;
    if size == 0 {
        return Ok(scratch);
    }
    let mut copy = [0; 32];
    copy[..8].copy_from_slice(&mask);
    usercopy::read(UserAddr::of(argument), &mut copy[8..8 + size]).map_err(|_| errno::EFAULT)?;
    copy[8..16].copy_from_slice(&scratch.to_ne_bytes());
    me.write_scratch(&copy)?;
    Ok(scratch + 8)
}

/// A call that gives another priority or policy to a thread of the process: the one that it names
/// by its id, or the running one.
fn attributes(call: &Context<'_>) -> Result<u64> {
    const IOPRIO_WHO_PROCESS: u32 = 1;
    let args = call.args;
    let id = match call.row.number as u32 {
        __NR_setpriority if args[0] as u32 == PRIO_PROCESS => args[1],
        __NR_ioprio_set if args[0] as u32 == IOPRIO_WHO_PROCESS => args[1],
        __NR_setpriority | __NR_ioprio_set => 0,
        _ => args[0],
    } as u32;
    let named = call.process.threads().find(|t| id != 0 && t.tid() == id);
    if let Some(named) = &named {
        // Before the call, after which it may have ended, and left its worker to others.
        workers::attributes_differ(named);
    }
    let of = named.as_deref().unwrap_or(call.thread);
    let result = call.forward();
    if named.is_some() || result.is_ok() {
        workers::attributes_changed_of(call.thread, of);
    }
    result
}

/// The running thread has other users, groups or namespaces.
fn credentials_changed(me: &Thread) {
    workers::rights_changed(me);
    rights::refresh_ids(me);
}

/// unshare(2). CLONE_NEWTIME is for the children to come and, in newer Linux, the next program.
fn unshare(call: &Context<'_>) -> Result<u64> {
    const NEWTIME: u64 = 0x80;
    set_apart(call.thread);
    let result = call.forward()?;
    credentials_changed(call.thread);
    if call.args[0] & NEWTIME != 0 {
        call.process.identity.lock().time.children = true;
    }
    Ok(result)
}

/// setns(2). A time namespace is entered at once.
fn setns(call: &Context<'_>) -> Result<u64> {
    set_apart(call.thread);
    let result = call.forward()?;
    credentials_changed(call.thread);
    let _ = timens::refresh(call.thread);
    Ok(result)
}

/// The running thread may get other namespaces than its process, of which execve has to know. Only
/// a process of one thread may enter some of them.
fn set_apart(me: &Thread) {
    me.process.claims.are_over(); // it may have descriptors of its own
    workers::await_exits(me);
    if me.process.thread_count() == 1 {
        workers::dismiss(me);
    }
    me.is_apart.store(true, Ordering::Relaxed);
}

/// Has Linux execute a wait that tells of a child at `place`.
fn wait_at(call: &Context<'_>, args: [u64; 6], place: &Place<'_>) -> Result<u64> {
    // The scratch page is none of the program's memory.
    let by = if place.is_scratch() { route::by_worker } else { route::call };
    by(call.thread, call.row, args)
}

/// wait4(2), waitid(2).
fn wait(call: &Context<'_>, which: waited::Call) -> Result<u64> {
    let (me, args) = (call.thread, call.args);
    if me.process.traces.load(Ordering::Relaxed) {
        return ptrace::wait(me, which, args, |args, place| wait_at(call, args, place));
    }
    let (made, place) = Place::of(me, which, args)?;
    let result = wait_at(call, made, &place)?;
    waited::waited(me, which, &args, &place, result)?;
    Ok(result)
}

/// getrandom(2) of a few bytes, as every program asks for when it begins. `None`: Linux is asked.
fn random(call: &Context<'_>) -> Option<u64> {
    const NONBLOCK: u32 = 1;
    let [buffer, bytes, flags, ..] = call.args;
    if flags as u32 & !NONBLOCK != 0 || !(1..=BYTES_MAX as u64).contains(&bytes) {
        return None;
    }
    let random = call.process.entropy.take(bytes as usize, cpu::rdtsc())?;
    usercopy::write(UserAddr::of(buffer), &random[..bytes as usize]).ok().map(|()| bytes)
}

/// Keeps the flags of personality(2) that execve and the memory calls look at. Linux keeps the
/// flags for each thread, so the thread's attributes change.
fn personality(me: &Thread, wanted: u32) {
    const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;
    workers::attributes_changed(me);
    if wanted != rights::ONLY_ASKS {
        let mut id = me.process.identity.lock();
        id.no_random = wanted & ADDR_NO_RANDOMIZE != 0;
        id.read_implies_exec = wanted & rights::READ_IMPLIES_EXEC != 0;
    }
}

/// getrlimit(2), setrlimit(2), prlimit(2).
fn limit(call: &Context<'_>, change: &Change) -> Result<u64> {
    let before = rlimits::before(call.thread, change);
    let result = call.forward()?;
    rlimits::made(call.thread, change, before)?;
    Ok(result)
}
