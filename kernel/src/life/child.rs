//! A new thread or process: what it gets of its creator, and where it begins.

use crate::base::heap;
use crate::gate::{observe, ptrace};
use crate::link::delegate;
use crate::parts::seccomp;
use crate::parts::signals::{ProcessSignals, ThreadSignals, WorkerMask};
use crate::process::thread::{self, Birth, Thread};
use crate::process::{Identity, Ids, Process, futex};
use crate::sched::cpu_mask::CpuMask;
use crate::sched::{cpus, hold, user_mode};
use crate::signal::dispositions;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
pub use hanare_core::clone::{Request, flag};
use hanare_core::ptrace::event;
use hanare_core::signal::{Actions, Mirrored};
use hanare_hal::fpu;
use hanare_hal::traps::{self, Regs};
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_prctl;

/// Start state of the child that the running thread `me` makes, with stack, TLS and ids as `r`
/// asks.
pub fn birth(me: &Thread, r: &Request, regs: &Regs) -> Birth {
    let mut b = Birth::of(me, regs);
    if r.stack != 0 {
        b.regs.rsp = r.stack;
    }
    if r.flags & flag::SETTLS != 0 {
        b.fs_base = r.tls;
    }
    if r.flags & flag::CHILD_SETTID != 0 {
        b.set_tid = r.child_tid;
    }
    if r.flags & flag::CHILD_CLEARTID != 0 {
        b.clear_tid = r.child_tid;
    }
    b.clear_handlers = r.flags & flag::CLEAR_SIGHAND != 0;
    b
}

/// Where a cloned thread, or the first thread of a forked process, begins.
pub extern "C" fn first_step() -> ! {
    cpus::reap();
    let thread = thread::current();
    let b = thread.birth.lock().take().expect("a cloned thread");
    // Before the first wait, where a tracer may look at the thread.
    b.load();
    let mut regs = b.regs;
    regs.orig_rax = traps::NO_CALL;
    traps::save_registers(&regs);
    hold::at("thread-begins");
    for at in [b.set_tid, b.parent_tid].into_iter().filter(|&at| at != 0) {
        let _ = usercopy::write(UserAddr::of(at), &thread.tid().to_le_bytes());
    }
    thread.clear_tid.store(b.clear_tid, Ordering::Relaxed);
    thread.rseq.set(b.rseq);
    thread.policy.set(b.policy, thread.process.memory());
    thread.forbid_tsc(b.no_tsc);
    if b.clear_handlers {
        dispositions::clear_handlers(thread);
    }
    if let Some(name) = b.name {
        name_worker(thread, &name);
    }
    let keeps_back = thread.signals.lock().keeps_back();
    if keeps_back {
        let _ = delegate::ask(thread, Control::TakeMask);
    }
    if b.is_program {
        ptrace::on_exec(thread, &mut regs);
        ptrace::leave(thread, &mut regs);
    }
    drop(b.fpu);
    user_mode::enter(&mut regs)
}

/// CLONE_CHILD_CLEARTID of the running thread, which ends.
pub fn clear_tid(thread: &Thread) {
    let word = UserAddr::of(thread.clear_tid.swap(0, Ordering::Relaxed));
    if !word.is_null() && usercopy::write(word, &[0; 4]).is_ok() {
        futex::wake_anywhere(thread, word);
    }
}

/// PR_SET_NAME of a worker that served another thread before.
fn name_worker(thread: &Thread, name: &[u8; 16]) {
    const SET_NAME: u64 = 15;
    if let Ok(at) = thread.write_scratch(name) {
        let _ = delegate::linux(thread, __NR_prctl, [SET_NAME, at, 0, 0, 0, 0]);
    }
}

/// State that a child has from its parent, apart from memory.
pub struct Inherited {
    /// Tracers and debuggers.
    observed: observe::Inherited,
    /// The program that the process runs.
    exe: Vec<u8>,
    affinity: CpuMask,
    /// Name of the thread.
    name: Option<[u8; 16]>,
    /// Filters of system calls.
    seccomp: seccomp::Inherited,
    /// Dispositions.
    signals: ProcessSignals,
    /// Signals of the child's thread, which inherits the mask.
    thread_signals: ThreadSignals,
    /// Limit of CPU time, seconds.
    cpu_limit: (u64, u64),
    /// Id and limits.
    pub identity: Identity,
    shares_table: bool,
    /// The thread that makes the child.
    creator: u32,
    /// Users and groups.
    pub ids: Ids,
    /// Way in which the child's first thread begins.
    pub birth: Birth,
}

impl Inherited {
    /// Bytes that [`of`](Self::of) takes without being refused, to be asked for
    /// before.
    pub fn bytes() -> usize {
        size_of::<Actions>() + size_of::<Mirrored>() + fpu::size() + heap::SMALL_PARTS
    }

    /// From the running thread `me`. `shares`: the child has its memory, not a copy.
    pub fn of(
        me: &Thread,
        r: &Request,
        regs: &Regs,
        shares: bool,
    ) -> hanare_core::Result<Inherited> {
        let p = &me.process;
        let mut identity = *p.identity.lock();
        identity.time.children |= r.flags & flag::NEWTIME != 0;
        // Each lock by itself.
        let signals = p.signals.lock().inherit();
        let worker = if shares { WorkerMask::Told } else { WorkerMask::Copied };
        let thread_signals =
            me.signals.lock().inherit(r.flags & (flag::VM | flag::VFORK) != flag::VM, worker);
        let exe = heap::copied(&p.exe.lock())?;
        let affinity = *me.task().affinity.lock();
        let name = *me.name.lock();
        let ids = *me.ids.lock();
        Ok(Inherited {
            observed: if shares {
                observe::Inherited::of_sharer(p)?
            } else {
                observe::Inherited::of(p)?
            },
            exe,
            affinity,
            name,
            seccomp: me.seccomp.inherited(),
            signals,
            thread_signals,
            cpu_limit: p.cpu_timers.limit(),
            identity,
            shares_table: r.flags & flag::FILES != 0,
            creator: me.tid(),
            ids,
            birth: Birth {
                rseq: me.rseq.area().filter(|_| r.flags & flag::VM == 0),
                ..birth(me, r, regs)
            },
        })
    }

    /// To the child and its first thread, which has not run.
    pub fn give(self, p: &Process, first: &Thread) {
        *p.exe.lock() = self.exe;
        *p.identity.lock() = self.identity;
        p.creator.store(self.creator, Ordering::Relaxed);
        p.shares_table.store(self.shares_table, Ordering::Relaxed);
        if self.shares_table {
            p.descriptors_change_unseen();
        }
        p.pool.set_owes(!self.signals.mirrored.owed().is_empty());
        *p.signals.lock() = self.signals;
        p.cpu_timers.set_limit(self.cpu_limit.0, self.cpu_limit.1);
        first.task().bind(self.affinity);
        *first.ids.lock() = self.ids;
        *first.name.lock() = self.name;
        first.seccomp.inherit(self.seccomp);
        *first.signals.lock() = self.thread_signals;
        *first.birth.lock() = Some(self.birth);
        self.observed.give(p);
    }
}

/// The event by which a tracer is told of the child (`PTRACE_EVENT_*`).
pub fn child_event(r: &Request) -> u32 {
    match r.exit_signal {
        _ if r.flags & flag::VFORK != 0 => event::VFORK,
        17 => event::FORK,
        _ => event::CLONE,
    }
}
