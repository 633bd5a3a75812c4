//! Processes that share memory without being threads: clone with CLONE_VM and without
//! CLONE_THREAD, so the child of a vfork, too.
//!
//! Their proxies share their memory on Linux, too (`Control::Share`), so one space serves all of
//! them, and one address space here. Each has slots of its own in it; the slot of its first
//! thread is its name between the two kernels.

use crate::base::heap;
use crate::gate::ptrace;
use crate::life::child::{self, Inherited, Request, flag};
use crate::link::direct;
use crate::parts::vfork;
use crate::parts::vfork::Vfork;
use crate::process::thread;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::process::{INIT, Process, futex};
use crate::sched::{balance, cpus, hold};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::errno::{self, Result};
use hanare_core::link::ENDING;
use hanare_hal::cpu;
use hanare_hal::traps::Regs;
use hanare_hal::usercopy;

/// A new process with the memory of the running one. Its process id.
pub fn process(r: &Request, regs: &mut Regs) -> Result<u64> {
    let me = thread::current();
    let p = &me.process;
    heap::room(Inherited::bytes())?;
    let index = p.take_slot().ok_or(errno::EAGAIN)?;
    let new = Process::new(p.memory().clone(), index, Arc::downgrade(p))
        .inspect_err(|_| p.return_slot(index))?;
    // An execve of another thread either ends this one first, or sees that there is a sharer.
    let entered =
        p.with_threads(|_| if me.must_end() { Err(ENDING) } else { p.enter(new.clone()) });
    entered.inspect_err(|_| p.return_slot(index))?;
    let vfork = (r.flags & flag::VFORK != 0).then(|| Vfork::new(thread::current_arc()));
    new.set_vfork(vfork.clone());
    let pid = bear(r, regs, &new).inspect_err(|_| give_up(&new))?;
    if let Some(vfork) = vfork {
        if !vfork.wait_for_start() {
            give_up_late(&new);
        }
        vfork.wait();
        ptrace::on_vfork_done(me, regs, pid as u32);
    }
    Ok(pid)
}

/// What it has from the running process, then its proxy, which has it begin.
fn bear(r: &Request, regs: &mut Regs, new: &Arc<Process>) -> Result<u64> {
    let me = thread::current();
    let p = &me.process;
    let slot = p.slot(new.first_slot).ok_or(errno::ENOMEM)?;
    slot.lwk_reset();
    slot.set_poll_us(direct::worker_poll_us());
    let first =
        Thread::new(new.clone(), new.first_slot, slot, child::first_step).ok_or(errno::ENOMEM)?;
    let mut inherited = Inherited::of_current(r, regs, true)?;
    // Written by the child: it may have cleared the word again when the parent goes on.
    inherited.birth.parent_tid = r.parent_tid_in_child();
    let names_itself = inherited.birth.parent_tid != 0;
    inherited.give(new, &first);
    if r.flags & flag::SIGHAND != 0 {
        new.handlers.store(p.handlers.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let traced = ptrace::before_child(me, Some(&first), child::child_event(r));
    new.begin_with(&first);
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
    let pid = workers::make_process(p, request);
    hold::at("share-answered");
    let pid = pid?;
    // Who waits for more than that need not be woken for it.
    if r.flags & flag::VFORK == 0 || traced.is_some() {
        cpus::wait(&Begun { parent: me, child: new, deadline: cpus::deadline(vfork::COMES_NS) }, 0);
    }
    if r.flags & flag::PARENT_SETTID != 0 && !names_itself {
        let _ = usercopy::write(r.parent_tid, &(pid as u32).to_le_bytes());
    }
    ptrace::on_child(me, regs, traced, pid as u32);
    Ok(pid)
}

/// The child is there for whoever knows its id (ptrace, kill), or has ended.
struct Begun<'a> {
    parent: &'a Thread,
    child: &'a Process,
    deadline: u64,
}

impl cpus::Wait for Begun<'_> {
    fn ready(&self) -> bool {
        let there = self.child.pid_namespace() != 0 || self.child.thread_count() == 0;
        there || self.parent.must_end() || cpu::rdtsc() > self.deadline
    }
    fn announce(&self, _: bool) {}
    fn deadline(&self) -> u64 {
        self.deadline
    }
}

/// `REQUEST_SPACE_START` of such a process: its proxy is there, its first thread runs.
pub fn begin(p: &Arc<Process>, pid_namespace: u64) -> Result<()> {
    let first = p.thread(p.first_slot).filter(|_| p.take_beginning()).ok_or(errno::EBUSY)?;
    p.set_pid_namespace(pid_namespace);
    // What it itself sees, which in a namespace of its own is not what its parent sees.
    p.identity.lock().pid = first.slot.tid();
    p.signals.lock().actions.is_init = first.slot.tid() == INIT;
    let wakes = !p.is_vforked() || first.ptrace.is_held();
    let cpu = balance::place(&first);
    cpus::enqueue(first, cpu);
    if wakes {
        wake_parent(p);
    }
    Ok(())
}

fn wake_parent(child: &Process) {
    if let Some(parent) = child.parent.upgrade() {
        parent.threads().for_each(|t| cpus::kick(&t));
    }
}

/// `REQUEST_PROCESS_END`, or the end of the space: its proxy is gone, or never came.
pub fn ended(p: &Arc<Process>) {
    p.kill();
    give_up(p);
}

/// The proxy of a process has not come in its time.
fn give_up_late(p: &Arc<Process>) {
    if p.pid_namespace() == 0 {
        give_up(p);
    }
}

/// Nothing is left to wait for of a process that has not begun; one that has, though its
/// creator was killed before it heard of that, goes on.
fn give_up(p: &Arc<Process>) {
    if p.take_beginning() {
        p.drop_threads(); // none has run
        wake_parent(p);
    }
    if p.is_deserted() {
        p.kill();
        leave_memory(p);
    }
}

/// The last thread of a process is gone whose proxy is gone or going.
pub fn leave_memory(p: &Arc<Process>) {
    p.memory().process_ended(p);
    if p.has_waiter() {
        p.memory().processes().for_each(|other| other.kick_all());
    }
}

/// The memory that a thread leaves behind is others' still: as Linux does where a process
/// that shares it ends, or replaces its program.
pub fn leave(thread: &Thread) {
    if thread.process.is_shared() && !thread.process.is_closed() {
        futex::release_robust(thread);
        child::clear_tid(thread);
    }
}
