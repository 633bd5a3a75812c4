//! How the first thread of a process begins. It begins with a program of `hanare run`, as the child
//! of a fork, or with a program that has left other memory.

use crate::gate::{observe, ptrace};
use crate::life::fork;
use crate::link::{direct, pool};
use crate::mm::window::space::Opener;
use crate::parts::observed::COPIES;
use crate::process::thread::Thread;
use crate::process::{INIT, Identity, Ids, Process, identity};
use crate::sched::{balance, cpus};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::request::{LEFT_WORD, RANDOM_WORD};
use hanare_abi::start::START_KEEPS;
use hanare_core::errno::{self, Result};
use hanare_core::link::pool::Way;
use hanare_core::rlimits::Found;
use hanare_hal::{cpu, shared};

/// How long random bytes that come with a program may be given to it, ms.
const RANDOM_MS: u64 = 1000;

/// Creates the first thread and queues it. `start` is its first function.
pub fn program(p: &Arc<Process>, start: extern "C" fn() -> !) -> Result<()> {
    p.space.start()?;
    let block = p.memory().start_block()?;
    p.set_start_mask(block.sigmask);
    if p.native.get().is_none()
        && let Some(copies) = hanare_core::start::copies(&block)
    {
        p.memory().set_copies(copies);
        p.observed.set(COPIES, copies);
    }
    p.signals.lock().inherit_ignored(block.sigignore);
    p.signals.lock().actions.is_init = p.memory().opener.pid == INIT;
    *p.identity.lock() = Identity {
        secure: block.secure != 0,
        control_fd: block.control_fd,
        stack_soft: block.stack_soft,
        data_soft: block.data_soft,
        as_soft: block.as_soft,
        as_hard: None,
        limits: Found::at_begin((block.cpu_soft, block.cpu_hard)),
        hwcap: block.hwcap,
        hwcap2: block.hwcap2,
        clktck: block.clktck,
        random: block.random,
        no_random: block.flags & hanare_abi::start::START_NO_RANDOM != 0,
        read_implies_exec: false, // execve ends it
        time: identity::Offsets::default(),
        membarrier: 0,
    };
    p.cpu_timers.set_limit(block.cpu_soft, block.cpu_hard);
    match p.native.get() {
        Some(task) => task.keeps.store(block.flags & START_KEEPS != 0, Ordering::Relaxed),
        None => p.pool.begin(Way::of_program(block.flags, pool::options().way)),
    }
    let thread = first_thread(p, start)?;
    run_first(p, thread)
}

/// Has the child of a fork go on where its parent was.
pub fn child(p: &Arc<Process>, mut e: Box<fork::Embryo>) -> Result<()> {
    p.space.start()?;
    if let Some(waits) = e.waits.take() {
        p.set_parent_waits(waits);
    }
    p.pool.begin(e.parent.process.pool.inherited());
    p.pool.take_handlers(&e.parent.process.pool);
    let thread = first_thread(p, fork::first_step_of_child)?;
    e.inherited.ids = *thread.ids.lock();
    e.inherited.give(p, &thread);
    p.signals.lock().actions.is_init = p.pid() == INIT;
    if e.traced {
        ptrace::hold_child(&e.parent, &thread);
    }
    run_first(p, thread)
}

/// Has a program that left other memory begin, with what it had there; `words` as of
/// `REQUEST_SPACE_OPEN`. It begins in `start`.
pub fn program_of(
    p: &Arc<Process>,
    old: &Thread,
    words: &[u64],
    start: extern "C" fn() -> !,
) -> Result<()> {
    p.space.start()?;
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    let random = zerocopy::transmute!([word(7), word(8), word(9), word(10)]);
    p.pool.begin(old.process.pool.inherited());
    let thread = first_thread(p, start)?;
    let before = *old.process.identity.lock();
    let secure = word(6) != 0;
    let until = cpu::rdtsc() + u64::from(shared::params().tsc_khz) * RANDOM_MS;
    p.entropy.fill(words.get(RANDOM_WORD..LEFT_WORD).unwrap_or_default(), until);
    *p.identity.lock() =
        Identity { secure, random, membarrier: 0, read_implies_exec: false, ..before };
    old.process.continue_as(p, &thread);
    observe::continue_as(old, p);
    p.signals.lock().actions.is_init = p.pid() == INIT;
    thread.take_over(old);
    ptrace::continue_as(old, &thread);
    // Once the old process has moved on nothing fails any more.
    p.prepare(&thread)?;
    old.process.move_on(p)?;
    run(p, thread)
}

/// The first thread of a process that has opened its space, with the ids that the module says.
fn first_thread(p: &Arc<Process>, start: extern "C" fn() -> !) -> Result<Arc<Thread>> {
    let Opener { pid, ids: [uid, euid, gid, egid] } = p.memory().opener;
    let slot = p.memory().slot(0).ok_or(errno::ENOMEM)?;
    slot.set_poll_us(direct::worker_poll_us());
    let thread = Thread::new(p.clone(), 0, slot, pid, start).ok_or(errno::ENOMEM)?;
    p.pid.store(pid, Ordering::Relaxed);
    *thread.ids.lock() = Ids { uid, euid, gid, egid };
    thread.task().bind(p.memory().allowed);
    Ok(thread)
}

/// The thread begins, unless the process is gone already.
fn run_first(p: &Process, thread: Arc<Thread>) -> Result<()> {
    p.prepare(&thread)?;
    run(p, thread)
}

fn run(p: &Process, thread: Arc<Thread>) -> Result<()> {
    p.begin(&thread)?;
    let cpu = balance::place_first(thread.task());
    cpus::enqueue(thread, cpu);
    Ok(())
}
