//! clone, clone3, fork, vfork: new threads and new processes.

use crate::base::usermemory::Running;
use crate::gate::{observe, ptrace};
use crate::life::child::{Request, birth, first_step, flag};
use crate::life::fork;
use crate::life::newborn::Bearing;
use crate::life::share;
use crate::mm::map::limits;
use crate::parts::signals::WorkerMask;
use crate::process;
use crate::process::thread::Thread;
use crate::process::workers;
use crate::sched::{balance, cpus, hold};
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::event;
use hanare_hal::traps::Regs;
use hanare_hal::usercopy::{self, UserAddr};

/// clone(2).
pub fn clone2(me: &Thread, a: &[u64; 6], regs: &mut Regs) -> Result<u64> {
    clone(me, &Request::of_clone(a)?, regs)
}

/// clone3(2).
pub fn clone3(me: &Thread, args: u64, size: u64, regs: &mut Regs) -> Result<u64> {
    clone(me, &Request::of_clone3(&Running, args, size)?, regs)
}

/// A new thread or a new process.
pub fn clone(me: &Thread, r: &Request, regs: &mut Regs) -> Result<u64> {
    r.check()?;
    // The child inherits them; and its proxy maps memory, past what was set for the program only.
    process::limits::look(me);
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
        if r.flags & flag::FILES == 0 {
            me.process.claims.are_over(); // it is to have descriptors of its own
        }
        return thread(me, r, regs);
    }
    if r.flags & flag::FILES != 0 {
        let p = &me.process;
        p.shares_table.store(true, Ordering::Relaxed);
        p.descriptors_change_unseen(); // the other one closes some, and says so to Linux only
    }
    if r.flags & flag::VM != 0 { share::process(me, r, regs) } else { fork::process(me, r, regs) }
}

fn thread(me: &Thread, r: &Request, regs: &mut Regs) -> Result<u64> {
    let p = &me.process;
    let own = !r.flags & (flag::FS | flag::FILES);
    let bearing = Bearing::by(me);
    let taken = workers::take(me, own)?;
    hold::at("thread-has-worker");
    let tid = taken.tid;
    let give_up = |e| {
        workers::return_taken(p, &taken, me);
        e
    };
    let new = Thread::new(p.clone(), taken.index, taken.slot, tid, first_step)
        .ok_or_else(|| give_up(errno::ENOMEM))?;
    let signals = me.signals.lock().inherit(false, WorkerMask::All);
    *new.signals.lock() = signals;
    *new.birth.lock() = Some(birth(me, r, regs));
    new.be_like(me);
    if own != 0 {
        workers::attributes_differ(&new); // descriptors or a working directory of its own
    }
    new.is_apart.store(own != 0 || me.is_apart.load(Ordering::Relaxed), Ordering::Relaxed);
    if r.flags & flag::PARENT_SETTID != 0 {
        let _ = usercopy::write(UserAddr::of(r.parent_tid), &tid.to_le_bytes());
    }
    let traced = ptrace::before_child(me, Some(&new), event::CLONE);
    p.add_thread(&new, me).map_err(give_up)?;
    drop(bearing);
    observe::watch::on_thread(&new);
    let cpu = balance::place(new.task());
    cpus::enqueue(new, cpu);
    ptrace::on_child(me, regs, traced, tid);
    Ok(u64::from(tid))
}
