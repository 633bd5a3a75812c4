//! clone, clone3, fork, vfork: new threads and new processes.

use crate::base::heap;
use crate::base::user;
use crate::gate::{observe, ptrace};
use crate::life::child::{Request, birth, first_step, flag};
use crate::life::fork;
use crate::life::share;
use crate::mm::limits;
use crate::process::thread::{self, Birth, Thread};
use crate::process::workers;
use crate::sched::{balance, cpus, hold};
use core::sync::atomic::Ordering;
use hanare_abi::layout::USER_MAX;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::event;
use hanare_hal::traps::Regs;
use hanare_hal::usercopy::{self, UserAddr};

/// clone(2): what was the exit signal is part of the flags, and a descriptor of the
/// child goes where its thread id would.
pub fn clone2(a: &[u64; 6], regs: &mut Regs) -> Result<u64> {
    let flags = a[0] & 0xffff_ff00;
    if flags & flag::PIDFD != 0 && flags & flag::PARENT_SETTID != 0 {
        return Err(errno::EINVAL);
    }
    let pidfd = if flags & flag::PIDFD != 0 { a[2] } else { 0 };
    // Of a signal that there is not, nobody hears.
    let exit_signal = Some(a[0] & 0xff).filter(|&signal| signal <= 64).unwrap_or(0);
    clone(
        &Request {
            flags,
            exit_signal,
            stack: a[1],
            parent_tid: a[2],
            child_tid: a[3],
            tls: a[4],
            pidfd,
            ..Request::default()
        },
        regs,
    )
}

/// clone3(2).
pub fn clone3(args: u64, size: u64, regs: &mut Regs) -> Result<u64> {
    const FIRST: u64 = 64;
    const LATEST: usize = 88;
    if size < FIRST {
        return Err(errno::EINVAL);
    }
    if size > 4096 {
        return Err(errno::E2BIG);
    }
    let mut bytes = heap::zeroed((size as usize).max(LATEST))?;
    user::read(UserAddr::of(args), &mut bytes[..size as usize])?;
    if bytes[LATEST..].iter().any(|&b| b != 0) {
        return Err(errno::E2BIG);
    }
    let mut words = [0u64; LATEST / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    let [
        flags,
        pidfd,
        child_tid,
        parent_tid,
        exit_signal,
        stack,
        stack_size,
        tls,
        set_tid,
        set_tid_size,
        cgroup,
    ] = words;
    let bad_ids = set_tid_size > 32 || (set_tid == 0) != (set_tid_size == 0);
    let bad_group =
        flags & flag::INTO_CGROUP != 0 && (cgroup > i32::MAX as u64 || size < LATEST as u64);
    // The low byte was the exit signal; of it only CLONE_NEWTIME is a flag here.
    let unknown = flags & !(0xffff_ff00 | flag::NEWTIME | flag::CLEAR_SIGHAND | flag::INTO_CGROUP)
        != 0
        || flags & flag::DETACHED != 0;
    let both = flag::SIGHAND | flag::CLEAR_SIGHAND;
    let both_told = flags & (flag::PIDFD | flag::PARENT_SETTID)
        == flag::PIDFD | flag::PARENT_SETTID
        && pidfd == parent_tid;
    let no_signal = flags & (flag::THREAD | flag::PARENT) != 0 && exit_signal != 0;
    if bad_ids
        || bad_group
        || unknown
        || both_told
        || no_signal
        || flags & both == both
        || exit_signal > 64
        || (stack == 0) != (stack_size == 0)
    {
        return Err(errno::EINVAL);
    }
    let top = stack.checked_add(stack_size).filter(|&top| top <= USER_MAX).ok_or(errno::EINVAL)?;
    clone(
        &Request {
            flags,
            exit_signal,
            stack: top,
            parent_tid,
            child_tid,
            tls,
            pidfd,
            set_tid,
            set_tid_size,
            cgroup,
        },
        regs,
    )
}

/// A new thread or a new process.
pub fn clone(r: &Request, regs: &mut Regs) -> Result<u64> {
    // As copy_process of Linux checks them.
    let has = |bits| r.flags & bits == bits;
    let semaphores = has(flag::NEWIPC | flag::SYSVSEM);
    let file_system = has(flag::FS) && r.flags & (flag::NEWNS | flag::NEWUSER) != 0;
    let threaded = has(flag::THREAD)
        && (!has(flag::SIGHAND) || r.flags & (flag::NEWUSER | flag::NEWPID | flag::PIDFD) != 0);
    let shares = has(flag::SIGHAND | flag::VFORK) && !has(flag::THREAD);
    if semaphores
        || file_system
        || threaded
        || shares
        || has(flag::SIGHAND) && !has(flag::VM)
        || has(flag::PIDFD | flag::DETACHED)
    {
        return Err(errno::EINVAL);
    }
    if !limits::room_for_tasks() {
        return Err(if r.flags & flag::THREAD != 0 { errno::EAGAIN } else { errno::ENOMEM });
    }
    if r.flags & flag::SETTLS != 0 && r.tls >= (1 << 47) - 4096 {
        return Err(errno::EPERM);
    }
    if r.flags & flag::THREAD != 0 {
        if r.flags & flag::NAMESPACES != 0 {
            return Err(errno::EINVAL);
        }
        return thread(r, regs);
    }
    if has(flag::FILES) {
        thread::current().process.shares_table.store(true, Ordering::Relaxed);
    }
    if has(flag::VM) { share::process(r, regs) } else { fork::process(r, regs) }
}

fn thread(r: &Request, regs: &mut Regs) -> Result<u64> {
    let me = thread::current();
    let p = &me.process;
    let own = !r.flags & (flag::FS | flag::FILES);
    let taken = workers::take(p, own)?;
    hold::at("thread-has-worker");
    let tid = taken.slot.tid();
    let give_up = |e| {
        workers::return_taken(p, &taken, me);
        e
    };
    let new = Thread::new(p.clone(), taken.index, taken.slot, first_step)
        .ok_or_else(|| give_up(errno::ENOMEM))?;
    let signals = me.signals.lock().inherit(false, true);
    *new.signals.lock() = signals;
    *new.birth.lock() = Some(Birth { name: taken.name, ..birth(r, regs) });
    new.be_like(me);
    if own != 0 {
        workers::attributes_changed(&new); // descriptors or a working directory of its own
    }
    new.is_apart.store(own != 0 || me.is_apart.load(Ordering::Relaxed), Ordering::Relaxed);
    if r.flags & flag::PARENT_SETTID != 0 {
        let _ = usercopy::write(UserAddr::of(r.parent_tid), &tid.to_le_bytes());
    }
    let traced = ptrace::before_child(me, Some(&new), event::CLONE);
    p.add_thread(&new, me).map_err(give_up)?;
    observe::watch::on_thread(&new);
    let cpu = balance::place(&new);
    cpus::enqueue(new, cpu);
    ptrace::on_child(me, regs, traced, tid);
    Ok(u64::from(tid))
}
