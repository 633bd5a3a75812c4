//! The worker: takes the delegated calls of one application thread from its slot
//! and makes them.
//!
//! Each thread of the application has a worker of its own; all they share is
//! [`crate::process`]. A worker finds itself through the thread pointer, so that
//! a signal handler knows whose call it interrupted.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hanare_abi::ioctl::{
    IOCTL_RING, IOCTL_SERVE, IOCTL_SHARE, IOCTL_WAIT, Ring, Serve, Share, Wait,
};
use hanare_abi::layout::SLOTS_MAX;
use hanare_abi::slot::*;
use hanare_ikc::SlotRef;
use linux_raw_sys::errno::{EINTR, EINVAL, EIO, ENOSYS};
use linux_raw_sys::general::{__NR_exit, __NR_exit_group};

use crate::message::EXIT_HANARE;
use crate::process::{self, Process};
use crate::sys::arch::{delegated_call, set_current_worker, tsc};
use crate::sys::filter::Filter;
use crate::sys::signal::{self, Mask};
use crate::sys::thread::{self, Block};
use crate::sys::{self, Errno};
use crate::{attach, dump, exec, fork, program, pseudo, signals};

/// How a worker begins.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// The process' first one.
    First,
    /// For a thread that was made.
    Thread,
    /// It takes the place of a worker that ended, and says so first (`OP_THREAD_RENEW`).
    Successor,
    /// The first one of a process that shares its creator's memory (`OP_SHARE`).
    Sharer,
}

/// One worker. The first two fields are known to the assembly in `sys::arch`.
#[repr(C)]
pub struct Worker {
    /// Its own address; set by `set_current_worker`.
    pub this: AtomicPtr<Worker>,
    /// A signal came since the last answer; see [`signals`].
    pub interrupted: AtomicU32,
    /// The system call being made.
    pub call: AtomicU32,
    /// Not 0 until its thread is gone; Linux clears it then.
    pub alive: AtomicU32,
    /// A signal that it took is blocked, whatever the thread's mask says.
    pub held: AtomicBool,
    /// The program that begins on it has more rights than the one before.
    pub gained: AtomicBool,
    slot: AtomicU32,
    role: Role,
    /// What Linux has as this thread's list of robust futexes.
    robust_list: AtomicU64,
    /// A filter of system calls on its way.
    filter: Filter,
    /// The memory of its thread.
    pub block: Block,
}

impl Worker {
    /// A worker for slot `slot`, to be put where it stays.
    pub const fn new(slot: u32, role: Role, block: Block) -> Self {
        let this = AtomicPtr::new(core::ptr::null_mut());
        let (interrupted, call) = (AtomicU32::new(0), AtomicU32::new(0));
        let slot = AtomicU32::new(slot);
        let alive = AtomicU32::new(1);
        let (held, gained) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            this,
            interrupted,
            call,
            alive,
            held,
            gained,
            slot,
            role,
            robust_list: AtomicU64::new(0),
            filter: Filter::new(),
            block,
        }
    }

    /// Index of its slot.
    pub fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    /// Has Linux know the application's list of robust futexes, which Linux walks where
    /// this thread ends without the LWK's doing: the words hold its id.
    fn take_robust_list(&self, head: u64) {
        if self.robust_list.load(Ordering::Relaxed) != head {
            sys::thread::set_robust_list(head);
            self.robust_list.store(head, Ordering::Relaxed);
        }
    }

    /// After a fork, in the child: it serves slot 0 from now on. Linux has no list of
    /// robust futexes of it.
    pub fn begin_child(&self) {
        self.slot.store(0, Ordering::Relaxed);
        self.robust_list.store(0, Ordering::Relaxed);
        self.interrupted.store(0, Ordering::Relaxed);
    }
}

/// A delegated call: number (or `OP_*`) and arguments.
type Request = (u32, [u64; 6]);

/// Serves the slot of `worker` for ever; `mask` is the thread's signal mask.
pub fn serve(worker: &'static Worker, mut mask: Mask) -> ! {
    let process = process::get();
    loop {
        let slot = process.space.window.slot(worker.slot());
        let request = wait_for_request(process, worker, slot);
        let wanted = signals::applied(slot.sigmask());
        if wanted != mask || worker.held.load(Ordering::Relaxed) {
            worker.held.store(false, Ordering::Relaxed); // only a handler in this thread sets it
            signal::set_mask(wanted);
            mask = wanted;
        }
        worker.take_robust_list(slot.robust_list());
        if let Some(result) = execute(process, worker, &request) {
            answer(process, worker, slot, result);
        }
    }
}

/// Looks at the slot between two pauses.
const LOOKS_PER_PAUSE: u32 = 32;
/// What a wake-up of the LWK's side may take.
const WAKE_UP_US: u32 = 1000;

/// Polls for a while, then sleeps, until there is a request.
fn wait_for_request(process: &Process, worker: &Worker, slot: SlotRef) -> Request {
    loop {
        if let Some(request) = poll(process, slot) {
            return request;
        }
        if slot.worker_prepare_sleep() {
            sleep(process, worker);
            slot.worker_awake();
        }
    }
}

/// Looks for a request for as long as the LWK wants; at least once.
fn poll(process: &Process, slot: SlotRef) -> Option<Request> {
    /// Looks without a pause or a look at the time: the next call of a busy thread
    /// comes about as soon.
    const EAGER: u32 = 64;
    if slot.poll_us() == 0 {
        return slot.worker_poll();
    }
    if let Some(request) = (0..EAGER).find_map(|_| slot.worker_poll()) {
        return Some(request);
    }
    // The window counts from when the LWK's thread is seen awake: one that was just
    // rung needs its wake-up time first, else both sides would for ever sleep just
    // before the other one is there.
    let mut near = slot.lwk_is_awake();
    let (mut start, ticks) = (tsc(), process.clock.ticks(slot.poll_us()));
    let wake_up = process.clock.ticks(WAKE_UP_US);
    loop {
        let now = tsc();
        if !near && slot.lwk_is_awake() {
            (near, start) = (true, now);
        }
        if now.wrapping_sub(start) >= if near { ticks } else { wake_up } {
            return None;
        }
        spin_loop();
        // A pause is costly where an emulator runs us: several looks for each.
        if let Some(request) = (0..LOOKS_PER_PAUSE).find_map(|_| slot.worker_poll()) {
            return Some(request);
        }
    }
}

fn sleep(process: &Process, worker: &Worker) {
    process.sleeps.fetch_add(1, Ordering::Relaxed);
    let mut wait = Wait { slot: worker.slot(), reserved: 0 };
    match sys::ioctl(process.space.fd, IOCTL_WAIT, &mut wait) {
        Ok(()) | Err(Errno(EINTR)) => {}
        Err(_) => process::lwk_died(),
    }
}

/// Publishes the result and rings the LWK if it sleeps.
fn answer(process: &Process, worker: &Worker, slot: SlotRef, result: i64) {
    // The one place where the flag is cleared; see `signals` for why here. Only this thread
    // and its handlers look at it: the release of the answer keeps it in front.
    worker.interrupted.store(0, Ordering::Relaxed);
    if slot.worker_complete(result) {
        let mut ring = Ring { bell: slot.bell(), reserved: 0 };
        if sys::ioctl(process.space.fd, IOCTL_RING, &mut ring) == Err(Errno(EIO)) {
            process::lwk_died();
        }
    }
}

/// What a system call would return.
pub fn code(result: sys::Result<()>) -> i64 {
    result.map_or_else(|error| -i64::from(error.0), |()| 0)
}

/// `None`: this is the child of a fork; the request was its parent's.
fn execute(process: &Process, worker: &Worker, request: &Request) -> Option<i64> {
    let (nr, args) = request;
    Some(match *nr {
        0..OP_BASE => linux_call(process, worker, *nr, args),
        OP_SERVE => {
            let mut serve = Serve { index: args[0] as u32, reserved: 0 };
            code(sys::ioctl(process.space.fd, IOCTL_SERVE, &mut serve))
        }
        OP_EXIT_SIGNAL => {
            process.report();
            signals::end_by(signals::valid(args[0]).unwrap_or(linux_raw_sys::general::SIGKILL))
        }
        OP_START_FAILED => program::start_failed(args[0], args[1]),
        OP_SIGNAL_ACTION => code(signals::mirror(args[0], args[1], args[2])),
        OP_EXECED => {
            program::execed(process, args[0]);
            // Late: it closes files, whose other ends tell that the program has begun.
            pseudo::execed(process, args[1], args[2]);
            program::show(worker, args[3] != 0);
            0
        }
        OP_SUCCEED => program::succeed(process, args[0] as u32),
        OP_RIGHTS => program::rights(process, worker, args[0]),
        OP_REMAP => code(attach::map_again(&process.space, args[0], args[1])),
        OP_NOP => 0,
        OP_STOP_SIGNAL => code(signals::stop_by(args[0])),
        OP_REQUEUE_SIGNAL => {
            let info = process.space.window.scratch(worker.slot());
            code(
                signals::valid(args[0])
                    .and_then(|signal| signal::requeue(signal, info, args[1] != 0)),
            )
        }
        OP_TRAP => code(signals::trap(args[0], process.space.window.scratch(worker.slot()))),
        OP_THREAD => number(start_worker(process, args[0], args[1])),
        OP_THREAD_RENEW => renew_worker(process, worker, args[0]),
        OP_THREAD_EXIT => end_worker(process, worker),
        OP_FILTER => worker
            .filter
            .take(args)
            .map_or_else(|error| -i64::from(error.0), |result| result as i64),
        OP_DUMP => i64::from(dump::begin(process)),
        OP_DUMP_RANGE => code(dump::range(process, args[0], args[1], args[2])),
        OP_POSE => dump::pose(process, args[0], args[1]),
        OP_INTERRUPT => code(signals::interrupt(args[0] as u32)),
        OP_SHARE => number(share(process, args)),
        OP_EXEC => exec::exec(process, args),
        OP_FORK => number(fork::fork(process, worker, args)?),
        _ => -i64::from(ENOSYS),
    })
}

fn number(result: sys::Result<u32>) -> i64 {
    result.map_or_else(|error| -i64::from(error.0), i64::from)
}

/// `OP_THREAD`: gives the thread id, which is in the slot as well.
fn start_worker(process: &Process, slot: u64, own: u64) -> sys::Result<u32> {
    let slot = slot_number(slot)?;
    let tid = thread::spawn(slot, Role::Thread, own)?;
    process.space.window.slot(slot).set_tid(tid);
    Ok(tid)
}

/// `OP_SHARE`: gives the process id.
fn share(process: &Process, args: &[u64; 6]) -> sys::Result<u32> {
    let [slot, flags, pidfd, own, ids, more] = *args;
    let wanted = thread::Wanted { ids: (ids, more & 0xffff_ffff), cgroup: more >> 32 };
    declare(process, slot_number(own)?, false)?;
    thread::share(slot_number(slot)?, flags, pidfd, wanted)
}

/// A slot that the LWK names.
fn slot_number(slot: u64) -> sys::Result<u32> {
    u32::try_from(slot).ok().filter(|slot| *slot < SLOTS_MAX).ok_or(Errno(EINVAL))
}

/// Has the module watch for this process' end; `begin`: the LWK is to run its program.
fn declare(process: &Process, slot: u32, begin: bool) -> sys::Result<()> {
    sys::ioctl(process.space.fd, IOCTL_SHARE, &mut Share { slot, begin: begin.into() })
}

/// `OP_THREAD_EXIT`: the thread id 0 says that the slot is not looked at any more.
fn end_worker(process: &Process, worker: &Worker) -> ! {
    signal::set_mask(!0);
    process.space.window.slot(worker.slot()).set_tid(0);
    thread::end(worker.block)
}

/// `OP_THREAD_RENEW`: the successors answer, where there is one.
fn renew_worker(process: &Process, worker: &Worker, other: u64) -> ! {
    signal::set_mask(!0);
    let other = u32::try_from(other).ok().filter(|slot| (1..SLOTS_MAX).contains(slot));
    for index in core::iter::once(worker.slot()).chain(other) {
        if let Err(error) = thread::spawn(index, Role::Successor, 0) {
            let slot = process.space.window.slot(index);
            slot.set_tid(0);
            answer(process, worker, slot, -i64::from(error.0));
        }
    }
    thread::end(worker.block)
}

/// Where the thread of a worker begins.
pub extern "C" fn thread(worker: &'static Worker) -> ! {
    let process = process::get();
    let slot = process.space.window.slot(worker.slot());
    match worker.role {
        Role::First | Role::Thread => {}
        Role::Successor => {
            slot.set_tid(sys::thread_id());
            answer(process, worker, slot, 0);
        }
        Role::Sharer => {
            slot.set_tid(sys::thread_id());
            if declare(process, worker.slot(), true).is_err() {
                sys::exit(EXIT_HANARE); // who made it has been killed, or the LWK died
            }
        }
    }
    serve(worker, !0)
}

fn linux_call(process: &Process, worker: &Worker, nr: u32, args: &[u64; 6]) -> i64 {
    process.calls.fetch_add(1, Ordering::Relaxed);
    if nr == __NR_exit_group || nr == __NR_exit {
        process.report();
    }
    worker.call.store(nr, Ordering::Relaxed);
    pseudo::after(process, nr, args, delegated_call(nr.into(), args))
}

/// Makes the calling thread the worker of `worker.slot`, once and for good.
pub fn become_worker(worker: &'static Worker) {
    set_current_worker(worker);
    process::get().space.window.slot(worker.slot()).set_tid(sys::thread_id());
}
