//! Processes that share memory without being threads: clone with CLONE_VM and without
//! CLONE_THREAD, so the child of a vfork, too.
//!
//! Their proxies share their memory on Linux, too (`Control::Share`), so one space serves all of
//! them, and one address space here. Each has slots of its own in it; the slot of its first
//! thread is its name between the two kernels.

use crate::base::heap;
use crate::gate::ptrace;
use crate::life::child::{self, Inherited, Request, flag};
use crate::life::comes::{await_child, is_watched};
use crate::life::newborn;
use crate::link::direct;
use crate::process::states;
use crate::process::thread::{ParentWaits, Thread};
use crate::process::workers;
use crate::process::{INIT, Process, robust};
use crate::sched::{balance, cpus, hold};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::errno::{self, Result};
use hanare_core::life;
use hanare_hal::traps::Regs;
use hanare_hal::usercopy::{self, UserAddr};

/// A new process with the memory of the running one. Its process id.
pub fn process(me: &Thread, r: &Request, regs: &mut Regs) -> Result<u64> {
    let p = &me.process;
    heap::room(Inherited::bytes())?;
    let index = p.memory().take_slot().ok_or(errno::EAGAIN)?;
    let parent = Arc::downgrade(p);
    let new = Process::new(p.space.clone(), index, parent, life::Process::EXPECTED)
        .and_then(|new| p.space.enter(&new).map(|()| new))
        .inspect_err(|_| p.memory().return_slot(index))?;
    new.pool.open_later(&p.pool);
    new.pool.take_handlers(&p.pool);
    let vforks = r.flags & flag::VFORK != 0;
    if vforks {
        ptrace::on_vfork(me);
    }
    let made = bear(me, r, regs, &new);
    if made.is_err() {
        new.give_up();
    }
    let mut released = false;
    if vforks {
        // A parent whose memory a child shares may not be told that its proxy died before it began.
        if let Ok(pid) = made {
            let has_begun = || !new.is_expected() || me.process.is_dumping();
            let wait = |late| _ = states::wait_for_release(me, late);
            await_child(me, pid, has_begun, wait, || false);
            if new.is_expected() && !me.must_end() && !me.process.is_dumping() {
                give_up(&new);
            }
        }
        released = states::wait_for_release(me, cpus::NEVER);
    }
    p.resume(me);
    let pid = made?;
    if released {
        ptrace::on_vfork_done(me, regs, pid as u32);
    }
    Ok(pid)
}

/// Gives up, unless it has begun, a process that Linux has made and has no more. Its slot goes to
/// no other process from now on. Linux may tell late that it has it begin, or has seen its end, and
/// names the process by its slot.
fn give_up(new: &Arc<Process>) {
    drop(new.slots.lock().all());
    new.give_up();
}

/// Prepares the new process `new` with what it has from the running one, then has Linux make its
/// proxy, which has it begin.
fn bear(me: &Thread, r: &Request, regs: &mut Regs, new: &Arc<Process>) -> Result<u64> {
    let p = &me.process;
    let vforks = r.flags & flag::VFORK != 0;
    if vforks {
        new.set_parent_waits(ParentWaits::new(me.arc()));
    }
    // An execve of another thread ends this one first, and then sees whether there is a sharer.
    p.create(me, vforks)?;
    let slot = p.memory().slot(new.first_slot).ok_or(errno::ENOMEM)?;
    slot.lwk_reset();
    slot.set_poll_us(direct::worker_poll_us());
    // Linux gives it an id later: `begin` stores that.
    let first = Thread::new(new.clone(), new.first_slot, slot, 0, child::first_step)
        .ok_or(errno::ENOMEM)?;
    let mut inherited = Inherited::of(me, r, regs, true)?;
    // Written by the child: it may have cleared the word again when the parent goes on.
    inherited.birth.parent_tid = r.parent_tid_in_child();
    let names_itself = inherited.birth.parent_tid != 0;
    inherited.give(new, &first);
    slot.set_sigmask(first.signals.lock().applied.0);
    if r.flags & flag::SIGHAND != 0 {
        new.handlers.store(p.handlers.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let traced = ptrace::before_child(me, Some(&first), child::child_event(r));
    new.prepare(&first)?;
    let birth = newborn::begin(&first);
    drop(first);
    hold::at("share-ready");
    let linux = r.flags & (flag::LINUX | flag::FILES | flag::SIGHAND) | r.exit_signal;
    let request = Control::Share {
        slot: new.first_slot,
        flags: linux,
        pidfd: r.pidfd,
        first_slot: p.first_slot,
        set_tid: r.set_tid,
        ids_and_cgroup: (r.set_tid_size as u32, r.cgroup as u32),
    };
    let pid = workers::make_process(me, request);
    hold::at("share-answered");
    let pid = pid?;
    // A parent that waits for more than that need not be woken for it.
    if !vforks || traced.is_some() {
        // The child is there for any process that knows its id (ptrace, kill), or has ended.
        let has_come = || !new.is_expected() || me.must_end();
        let entrust =
            || traced.is_none() && is_watched(me, pid, new.first_slot, 0) && new.entrust();
        let goes_on = await_child(me, pid, has_come, |late| cpus::until(has_come, late), entrust);
        if !goes_on && new.is_expected() && !me.must_end() {
            give_up(new);
        } else if goes_on && let Some(first) = new.thread(new.first_slot) {
            newborn::end(&first, birth); // Linux may have stopped it for long
        }
    }
    if r.flags & flag::PARENT_SETTID != 0 && !names_itself {
        let _ = usercopy::write(UserAddr::of(r.parent_tid), &(pid as u32).to_le_bytes());
    }
    ptrace::on_child(me, regs, traced, pid as u32);
    Ok(pid)
}

/// `REQUEST_SPACE_START` of such a process: its proxy is there, its first thread runs.
/// `pid` is the id that the process itself sees, which in a namespace of its own is not what its
/// parent sees.
pub fn begin(p: &Arc<Process>, pid_namespace: u64, pid: u32) -> Result<()> {
    let first = p.thread(p.first_slot).ok_or(errno::EBUSY)?;
    p.claim()?;
    p.set_pid_namespace(pid_namespace);
    p.pid.store(pid, Ordering::Relaxed);
    first.tid.store(pid, Ordering::Relaxed);
    p.signals.lock().actions.is_init = pid == INIT;
    let wakes = !p.is_vforked() || first.is_held();
    p.begin(&first)?;
    newborn::has_begun(&first);
    let cpu = balance::place(first.task());
    cpus::enqueue(first, cpu);
    if wakes {
        p.wake_parent();
    }
    Ok(())
}

/// The memory that a thread leaves behind is others' still: as Linux does where a process
/// that shares it ends, or replaces its program.
pub fn leave(thread: &Thread) {
    if thread.process.memory().is_shared() && !thread.process.memory().is_closed() {
        robust::release(thread);
        child::clear_tid(thread);
    }
}
