//! Calls served here.

use crate::base::user::{self, UserAddr, put};
use crate::base::{heap, lists, time};
use crate::calls::{aio, madvise, mlock, mmap, mremap, seccomp, shm, sleep};
use crate::calls::{machine, mempolicy};
use crate::gate::{ptrace, raise, rseq};
use crate::life::child::Request;
use crate::life::clone;
use crate::life::exit;
use crate::life::program;
use crate::life::target::{self, Target};
use crate::life::{exec, share};
use crate::link::delegate;
use crate::parts::usage::Usage;
use crate::process::spaces;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::process::usage;
use crate::process::{Ids, NOT_MAPPED, Process, cputime, rights, robust, timens};
use crate::route;
use crate::sched::cpu_mask::CpuMask;
use crate::sched::cpus;
use crate::sched::tlb::{self, CpuSet};
use crate::signal::{dispositions, restart, sigframe, signals};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_abi::service::MAY_SCHEDULE;
use hanare_core::errno::{self, Result};
use hanare_core::limits::{MAX_ARG_STRLEN, PATH_MAX};
use hanare_core::link::{Call, Last};
use hanare_core::signal::{SIGTERM, SigSet};
use hanare_core::syscalls::{LocalCall, Row};
use hanare_core::time::{Clock, Timespec, Timeval};
use hanare_hal::traps::Regs;
use hanare_hal::{cpu, shared, usercopy};
use linux_raw_sys::general::{__NR_clock_gettime, __NR_exit_group};
use zerocopy::IntoBytes;

/// Serves a call; `None` if `regs` were replaced (exec, sigreturn, exit).
pub fn serve(call: LocalCall, row: &Row, regs: &mut Regs) -> Option<Result<u64>> {
    let a = regs.arguments();
    let at = |i: usize| UserAddr::of(a[i]);
    let thread = thread::current();
    let p = &thread.process;
    Some(match call {
        LocalCall::Mmap => mmap::mmap(thread, &a),
        LocalCall::Munmap => mmap::munmap(thread, a[0], a[1]),
        LocalCall::Mprotect => mmap::mprotect(thread, a[0], a[1], a[2]),
        LocalCall::PkeyMprotect if a[3] as i32 == -1 => mmap::mprotect(thread, a[0], a[1], a[2]),
        LocalCall::PkeyMprotect => Err(errno::EINVAL),
        LocalCall::Brk => Ok(mmap::brk(thread, a[0])),
        LocalCall::IoSetup => aio::io_setup(thread, a[0], at(1)),
        LocalCall::IoDestroy => aio::io_destroy(thread, a[0]),
        LocalCall::Shmat => shm::shmat(thread, a[0], a[1], a[2]),
        LocalCall::Shmdt => shm::shmdt(thread, a[0]),
        LocalCall::Mremap => mremap::mremap(thread, &a),
        LocalCall::RemapFilePages => mremap::file_pages(thread, &a),
        LocalCall::Madvise => madvise::madvise(thread, a[0], a[1], a[2]),
        LocalCall::Mincore => mlock::mincore(thread, a[0], a[1], a[2]),
        LocalCall::Mlock => mlock::mlock(thread, a[0], a[1], 0),
        LocalCall::Mlock2 => mlock::mlock(thread, a[0], a[1], a[2]),
        LocalCall::Munlock => mlock::munlock(thread, a[0], a[1]),
        LocalCall::Mlockall => mlock::mlockall(thread, a[0]),
        LocalCall::Munlockall => mlock::munlockall(thread),
        LocalCall::GetMempolicy => mempolicy::get(at(0), at(1), a[2], a[3], a[4]),
        LocalCall::SetMempolicy => mempolicy::set(a[0], a[1], a[2]),
        LocalCall::SetMempolicyHomeNode => mempolicy::set_home(a[0], a[1], a[2], a[3]),
        LocalCall::Mbind => mempolicy::mbind(&a),
        LocalCall::MovePages => mempolicy::move_pages(&a),
        LocalCall::MigratePages => mempolicy::migrate_pages(&a),
        LocalCall::RtSigaction => dispositions::action(a[0], at(1), at(2), a[3]),
        LocalCall::RtSigprocmask => signals::procmask(a[0], at(1), at(2), a[3]),
        LocalCall::RtSigpending => crate::signal::pending::pending(at(0), a[1]),
        LocalCall::Sigaltstack => sigframe::altstack(at(0), at(1), regs.rsp),
        LocalCall::RtSigsuspend => sigsuspend(row, &a),
        LocalCall::RtSigreturn => {
            raise::sigreturn(regs);
            return None;
        }
        LocalCall::Getpid => Ok(p.pid().into()),
        LocalCall::Gettid => Ok(u64::from(thread.slot.tid())),
        LocalCall::Getuid => own_id(row, |ids| &mut ids.uid),
        LocalCall::Geteuid => own_id(row, |ids| &mut ids.euid),
        LocalCall::Getgid => own_id(row, |ids| &mut ids.gid),
        LocalCall::Getegid => own_id(row, |ids| &mut ids.egid),
        LocalCall::ClockGettime => clock_gettime(a[0] as i32, a[1], p),
        LocalCall::ClockGetres => clock_getres(row, &a),
        LocalCall::Nanosleep => sleep::nanosleep(a[0], a[1]),
        LocalCall::ClockNanosleep => sleep::clock_nanosleep(row, &a),
        LocalCall::Gettimeofday => gettimeofday(at(0), at(1)),
        LocalCall::Time => time_call(at(0)),
        LocalCall::Getrusage => getrusage(&a, p),
        LocalCall::Times => times(row, &a, p),
        LocalCall::SchedYield => {
            cpus::yield_now();
            Ok(0)
        }
        LocalCall::SchedGetaffinity => sched_getaffinity(row, &a, p),
        LocalCall::SchedSetaffinity => sched_setaffinity(&a, p),
        LocalCall::Getcpu => getcpu(at(0), at(1)),
        LocalCall::ArchPrctl => arch_prctl(a[0], a[1]),
        LocalCall::SetTidAddress => {
            thread.clear_tid.store(a[0], Ordering::Relaxed);
            Ok(u64::from(thread.slot.tid()))
        }
        LocalCall::SetRobustList => set_robust_list(a[0], a[1]),
        LocalCall::Futex => crate::calls::futex::futex(row, a),
        LocalCall::FutexWaitv => crate::calls::waitv::futex_waitv(row, &a),
        LocalCall::Membarrier => membarrier(a[0], a[1], p),
        LocalCall::Seccomp => seccomp::seccomp(a[0], a[1], at(2)),
        LocalCall::Ioperm => machine::ioperm(a[0], a[1], a[2]),
        LocalCall::Iopl => machine::iopl(a[0]),
        LocalCall::Prctl => super::prctl::prctl(row, a),
        LocalCall::Execve => return execve(None, a[0], a[1], a[2], regs),
        LocalCall::Execveat => return execve(Some((a[0], a[4])), a[1], a[2], a[3], regs),
        LocalCall::Clone => clone::clone2(&a, regs),
        LocalCall::Clone3 => clone::clone3(a[0], a[1], regs),
        LocalCall::Fork => clone::clone(&Request { exit_signal: 17, ..Request::default() }, regs),
        LocalCall::Vfork => {
            clone::clone(&Request { flags: 0x4100, exit_signal: 17, ..Request::default() }, regs)
        }
        LocalCall::Exit => exit(a[0]),
        LocalCall::ExitGroup => {
            ptrace::on_exit(thread, (a[0] as u32 & 0xff) << 8);
            share::leave(thread);
            robust::forget_empty(thread);
            exit::by_last_call(exit_group(a[0]));
            return None;
        }
        LocalCall::Ptrace => ptrace::call(&a),
        LocalCall::GetRobustList => get_robust_list(row, &a),
        LocalCall::Rseq => rseq::register(a[0], a[1], a[2], a[3]),
        LocalCall::RestartSyscall => restart::restart_syscall(),
    })
}

/// getpid(2), where the call is neither watched nor judged.
pub extern "C" fn getpid(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: &mut Regs) -> u64 {
    shared::here().count_local_call();
    thread::current().process.pid().into()
}

/// One of the running thread's ids that Linux has told. An id that is not mapped in the user
/// namespace may become so whenever the map is written, so Linux is asked again.
fn own_id(row: &Row, which: fn(&mut Ids) -> &mut u32) -> Result<u64> {
    let ids = &thread::current().ids;
    let known = *which(&mut ids.lock());
    if known != NOT_MAPPED {
        return Ok(known.into());
    }
    let now = route::call(row, [0; 6])?;
    *which(&mut ids.lock()) = now as u32;
    Ok(now)
}

fn clock_gettime(id: i32, to: u64, p: &Process) -> Result<u64> {
    if let Some(ns) = cputime::clock_of(id) {
        return put(UserAddr::of(to), Timespec::from_ns(ns).as_bytes());
    }
    let Some(clock) = Clock::from_id(id) else {
        return delegate::linux(__NR_clock_gettime, [id as u32 as u64, to, 0, 0, 0, 0]);
    };
    let ns = match timens::now(p, clock) {
        Some(ns) => ns,
        None if clock == Clock::ThreadCpu => {
            let (user, system) = cputime::thread_ns(thread::current());
            user + system
        }
        None => cputime::process_ns(p),
    };
    put(UserAddr::of(to), Timespec::from_ns(ns).as_bytes())
}

fn clock_getres(row: &Row, a: &[u64; 6]) -> Result<u64> {
    let ns = match Clock::from_id(a[0] as i32) {
        Some(Clock::RealtimeCoarse | Clock::MonotonicCoarse) => shared::params().tick_ns,
        Some(_) => 1,
        None => return route::call(row, *a),
    };
    if a[1] == 0 { Ok(0) } else { put(UserAddr::of(a[1]), Timespec::from_ns(ns.into()).as_bytes()) }
}

fn gettimeofday(to: UserAddr, zone: UserAddr) -> Result<u64> {
    if !to.is_null() {
        put(to, Timeval::from_ns(time::now(Clock::Realtime).unwrap_or(0)).as_bytes())?;
    }
    if !zone.is_null() {
        let page = shared::clock().read();
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&page.minutes_west.to_le_bytes());
        bytes[4..].copy_from_slice(&page.dst.to_le_bytes());
        put(zone, &bytes)?;
    }
    Ok(0)
}

fn time_call(to: UserAddr) -> Result<u64> {
    let seconds = time::now(Clock::RealtimeCoarse).unwrap_or(0) / 1_000_000_000;
    if !to.is_null() {
        put(to, &seconds.to_le_bytes())?;
    }
    Ok(seconds)
}

/// `struct rusage`: times, peak memory and page faults are ours, the rest is zero.
fn getrusage(a: &[u64; 6], p: &Process) -> Result<u64> {
    const CHILDREN: i32 = -1;
    const SELF: i32 = 0;
    const THREAD: i32 = 1;
    let used = match a[0] as i32 {
        SELF => usage::of(p),
        THREAD => {
            let (user_ns, system_ns) = cputime::thread_ns(thread::current());
            Usage {
                user_ns,
                system_ns,
                faults: thread::current().counts.faults.load(Ordering::Relaxed),
                ..usage::of(p)
            }
        }
        CHILDREN => p.usage.lock().waited(),
        _ => return Err(errno::EINVAL),
    };
    let mut all = [0u64; 18];
    all[..9].copy_from_slice(&used.words());
    put(UserAddr::of(a[1]), all.as_bytes())
}

/// `struct tms` in ticks of 10 ms.
fn times(row: &Row, a: &[u64; 6], p: &Process) -> Result<u64> {
    const TICK_NS: u64 = 10_000_000;
    let result = route::call(row, *a)?;
    if a[0] != 0 {
        let (user, system) = p.times_ns();
        let children = p.usage.lock().waited();
        let all = [user, system, children.user_ns, children.system_ns].map(|ns| ns / TICK_NS);
        put(UserAddr::of(a[0]), all.as_bytes())?;
    }
    Ok(result)
}

/// The LWK's thread with the id of a sched_* call; 0: the caller.
fn thread_of(p: &Process, id: u32) -> Option<Arc<Thread>> {
    if id == 0 {
        return Some(thread::current_arc());
    }
    p.threads().find(|t| t.slot.tid() == id).or_else(|| spaces::find_thread(p, id))
}

fn sched_getaffinity(row: &Row, a: &[u64; 6], p: &Process) -> Result<u64> {
    let Some(thread) = thread_of(p, a[0] as u32) else {
        return route::call(row, *a);
    };
    let len = a[1] as u32;
    if len.wrapping_mul(8) < shared::params().linux_cpu_ids || !len.is_multiple_of(8) {
        return Err(errno::EINVAL);
    }
    let mut mask = thread.affinity.lock().to_linux()?;
    mask.truncate(len as usize);
    put(UserAddr::of(a[2]), &mask)?;
    Ok(mask.len() as u64)
}

/// Accepted if it leaves a CPU of this instance.
fn sched_setaffinity(a: &[u64; 6], p: &Process) -> Result<u64> {
    /// More than any machine has CPUs for.
    const BYTES_MAX: usize = 1024;
    let thread = thread_of(p, a[0] as u32).ok_or(errno::ESRCH)?;
    if !core::ptr::eq(p, &*thread.process) {
        rights::may(MAY_SCHEDULE, thread.slot.tid(), &thread.process)?;
    }
    let mut wanted = heap::zeroed((a[1] as usize).min(BYTES_MAX))?;
    user::read(UserAddr::of(a[2]), &mut wanted)?;
    thread.bind(CpuMask::from_linux(&wanted).ok_or(errno::EINVAL)?);
    cpus::is_bound_anew(&thread);
    cpus::kick(&thread); // it moves before it goes on in user mode
    Ok(0)
}

fn getcpu(cpu_to: UserAddr, node_to: UserAddr) -> Result<u64> {
    let me = shared::here();
    if !cpu_to.is_null() {
        put(cpu_to, &me.linux_cpu().to_le_bytes())?;
    }
    if !node_to.is_null() {
        put(node_to, &me.node().to_le_bytes())?;
    }
    Ok(0)
}

fn arch_prctl(code: u64, value: u64) -> Result<u64> {
    const SET_GS: u64 = 0x1001;
    const SET_FS: u64 = 0x1002;
    const GET_FS: u64 = 0x1003;
    const GET_GS: u64 = 0x1004;
    const GET_CPUID: u64 = 0x1011;
    const SET_CPUID: u64 = 0x1012;
    match code {
        SET_FS | SET_GS if value >= 1 << 47 => Err(errno::EPERM),
        SET_FS => {
            cpu::set_fs_base(value);
            Ok(0)
        }
        SET_GS => {
            cpu::set_user_gs_base(value);
            Ok(0)
        }
        GET_FS => put(UserAddr::of(value), &cpu::fs_base().to_le_bytes()),
        GET_GS => put(UserAddr::of(value), &cpu::user_gs_base().to_le_bytes()),
        // As on a CPU that cannot fault on CPUID.
        GET_CPUID => Ok(1),
        SET_CPUID => Err(errno::ENODEV),
        _ => Err(errno::EINVAL),
    }
}

/// exit(2): one thread of several ends, or the process.
fn exit(status: u64) -> ! {
    ptrace::on_exit(thread::current(), (status as u32 & 0xff) << 8);
    exit::by_call(exit_group(status))
}

/// exit_group(2), by which the proxy ends with its process.
fn exit_group(status: u64) -> Last {
    Last::Call(Call::new(__NR_exit_group, [status, 0, 0, 0, 0, 0]))
}

/// set_robust_list(2). Linux knows the list too (`Slot::robust_list`), from the next call on. It
/// serves for ends that are not the LWK's doing and for waiters that are not on the LWK.
fn set_robust_list(head: u64, size: u64) -> Result<u64> {
    if size != 24 {
        return Err(errno::EINVAL);
    }
    let thread = thread::current();
    thread.set_robust_list(head);
    // A thread that blocks all signals is one that glibc has just begun: it will open its mask in a
    // moment, which is a call. And without memory that other processes have no thread waits there;
    // to have some is a call, or a request.
    let p = &thread.process;
    let has_waiters = || p.is_shared() || p.mm.lock().shares_with_linux();
    if !thread.signals.lock().mask.contains(SIGTERM) && has_waiters() {
        let _ = delegate::ask(Control::TakeMask);
    }
    Ok(0)
}

/// get_robust_list(2): of a thread of this process; Linux knows no other's.
fn get_robust_list(row: &Row, a: &[u64; 6]) -> Result<u64> {
    let me = thread::current();
    let mut head = None;
    me.process.each_thread(|t| {
        if a[0] == 0 && core::ptr::eq(&**t, me) || a[0] != 0 && t.slot.tid() == a[0] as u32 {
            head = Some(t.robust_list.load(Ordering::Relaxed));
        }
    });
    match head {
        Some(head) => {
            put(UserAddr::of(a[2]), &24u64.to_le_bytes())?;
            put(UserAddr::of(a[1]), &head.to_le_bytes())
        }
        None => route::call(row, *a),
    }
}

/// membarrier(2): every CPU that runs a thread of the process, or of another one that may
/// have to do with it, passes through the kernel.
fn membarrier(command: u64, flags: u64, p: &Process) -> Result<u64> {
    const QUERY: u64 = 0;
    /// GLOBAL, GLOBAL_EXPEDITED, PRIVATE_EXPEDITED, PRIVATE_EXPEDITED_SYNC_CORE, and RSEQ.
    const BARRIERS: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 5 | RSEQ;
    const REGISTER: u64 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;
    /// Only for processes that have registered, by the next higher bit.
    const EXPEDITED: u64 = 1 << 3 | 1 << 5 | RSEQ;
    const GLOBAL: u64 = 1;
    /// Barriers for memory that processes share: GLOBAL and GLOBAL_EXPEDITED.
    const OF_ALL: u64 = GLOBAL | 1 << 1;
    /// Restartable sequences begin anew, besides.
    const RSEQ: u64 = 1 << 7;
    /// Only on one CPU; all will do.
    const FLAG_CPU: u64 = 1;
    let (command, flags) = (u64::from(command as u32), u64::from(flags as u32));
    if flags != 0 && (command, flags) != (RSEQ, FLAG_CPU) {
        return Err(errno::EINVAL);
    }
    match command {
        QUERY => Ok(BARRIERS | REGISTER),
        c if !c.is_power_of_two() => Err(errno::EINVAL),
        c if c & EXPEDITED != 0 && p.identity.lock().membarrier & c << 1 == 0 => Err(errno::EPERM),
        c if c & BARRIERS != 0 => {
            if c == RSEQ {
                p.each_thread(|t| t.rseq.disturb());
                p.kick_all(); // each looks before it goes on
            }
            if c & OF_ALL != 0 {
                tlb::shoot(&concerned(p, c == GLOBAL), 0, 0);
            } else {
                tlb::shoot(p.mm.active(), 0, 0);
            }
            Ok(0)
        }
        c if c & REGISTER != 0 => {
            p.identity.lock().membarrier |= c;
            Ok(0)
        }
        _ => Err(errno::EINVAL),
    }
}

/// The CPUs whose memory a barrier for all processes orders. These are the caller's and those of
/// processes that have registered for it. With GLOBAL they are also those of the user's other
/// processes that share memory with others. Other users' CPUs are not interrupted at any rate that
/// a caller likes. Nor are those of a process that computes in memory of its own.
fn concerned(p: &Process, is_global: bool) -> CpuSet {
    const REGISTER_GLOBAL_EXPEDITED: u64 = 1 << 2;
    let cpus = CpuSet::new();
    cpus.add(p.mm.active());
    for space in spaces::all() {
        let is_his = || Arc::ptr_eq(space.account.user(), p.account.user());
        if is_global && is_his() && space.mm.shares_memory()
            || space
                .processes()
                .any(|p| p.identity.lock().membarrier & REGISTER_GLOBAL_EXPEDITED != 0)
        {
            cpus.add(space.mm.active());
        }
    }
    cpus
}

fn sigsuspend(row: &Row, a: &[u64; 6]) -> Result<u64> {
    if a[1] != 8 {
        return Err(errno::EINVAL);
    }
    let mask = user::get::<u64>(UserAddr::of(a[0]))?;
    thread::current().signals.lock().begin_temporary(SigSet(mask));
    signals::retarget(&thread::current().process);
    let mut args = *a;
    if let Ok(pointer) = super::delegated::interruptible(SigSet(mask), args[0], 0) {
        args[0] = pointer;
    }
    let result = route::call(row, args);
    thread::current().signals.lock().end_temporary();
    result
}

/// execve, or execveat with `at`: directory and flags.
fn execve(
    at: Option<(u64, u64)>,
    path: u64,
    argv: u64,
    envp: u64,
    regs: &mut Regs,
) -> Option<Result<u64>> {
    let result = (|| {
        let mut buffer = heap::zeroed(PATH_MAX)?;
        let path = string(path, &mut buffer, errno::ENAMETOOLONG)?;
        if path.is_empty() && at.is_none_or(|(_, flags)| flags & target::AT_EMPTY_PATH == 0) {
            return Err(errno::ENOENT);
        }
        let (argv, envp) = (strings(argv)?, strings(envp)?);
        let target = match at {
            None => Target::path(path)?,
            Some((dir, flags)) => Target::at(dir, path, flags)?,
        };
        exec::execve(&target, argv, envp, regs)
    })();
    if let Err(e) = result {
        return Some(Err(e));
    }
    exec::take_first_slot(regs);
    ptrace::on_exec(thread::current(), regs);
    None
}

fn string(addr: u64, buffer: &mut [u8], too_long: errno::Errno) -> Result<Vec<u8>> {
    match usercopy::read_string(UserAddr::of(addr), buffer) {
        Ok(Some(s)) => heap::copied(s),
        Ok(None) => Err(too_long),
        Err(_) => Err(errno::EFAULT),
    }
}

/// Room for most strings.
const SHORT_STRLEN: usize = 4096;

/// A zero-terminated array of strings; a null array is an empty one.
fn strings(mut addr: u64) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut bytes = 0;
    // Most are short.
    let mut buffer = heap::zeroed(SHORT_STRLEN)?;
    while addr != 0 {
        let pointer = user::get::<u64>(UserAddr::of(addr))?;
        if pointer == 0 {
            break;
        }
        let string = match string(pointer, &mut buffer, errno::E2BIG) {
            Err(errno::E2BIG) if buffer.len() < MAX_ARG_STRLEN => {
                buffer = heap::zeroed(MAX_ARG_STRLEN)?;
                string(pointer, &mut buffer, errno::E2BIG)
            }
            read => read,
        }?;
        bytes += string.len() as u64 + 1;
        program::check_strings(bytes, all.len() as u64 + 1)?;
        lists::push(&mut all, string)?;
        addr += 8;
    }
    Ok(all)
}
