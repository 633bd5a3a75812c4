//! The worker: takes the delegated calls of one application thread from its slot
//! and makes them.
//!
//! Each thread of the application has a worker of its own; all they share is
//! [`crate::process`]. A worker finds itself through the thread pointer, so that
//! a signal handler knows whose call it interrupted.

use core::sync::atomic::Ordering;

use hanare_abi::ioctl::{IOCTL_SERVE, Serve};
use hanare_abi::slot::*;
use linux_raw_sys::errno::ENOSYS;
use linux_raw_sys::general::{__NR_exit, __NR_exit_group};

use crate::base::message::EXIT_HANARE;
use crate::process::{self, Process, attach, signals};
use crate::requests::{dump, exec, fork, program, pseudo};
use crate::sys::arch::{delegated_call, set_current_worker};
use crate::sys::signal::{self, Mask};
use crate::sys::worker::{Role, Worker};
use crate::sys::{self, code};

mod slot;
mod threads;

use slot::{Request, answer, wait_for_request};

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
            code(signals::give_to_linux(args[0], info, args[1] != 0))
        }
        OP_TRAP => code(signals::trap(args[0], process.space.window.scratch(worker.slot()))),
        OP_THREAD => number(threads::start_worker(process, args[0], args[1])),
        OP_THREAD_RENEW => threads::renew_worker(process, worker, args[0]),
        OP_THREAD_EXIT => threads::end_worker(process, worker),
        OP_FILTER => worker
            .filter
            .take(args)
            .map_or_else(|error| -i64::from(error.0), |result| result as i64),
        OP_DUMP => i64::from(dump::begin(process)),
        OP_DUMP_RANGE => code(dump::range(process, args[0], args[1], args[2])),
        OP_POSE => dump::pose(process, args[0], args[1]),
        OP_INTERRUPT => code(signals::interrupt(args[0] as u32)),
        OP_SHARE => number(threads::share(process, args)),
        OP_EXEC => exec::exec(process, args),
        OP_FORK => number(fork::fork(process, worker, args)?),
        _ => -i64::from(ENOSYS),
    })
}

fn number(result: sys::Result<u32>) -> i64 {
    result.map_or_else(|error| -i64::from(error.0), i64::from)
}

/// Where the thread of a worker begins.
pub fn begin(worker: &'static Worker) -> ! {
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
            if threads::declare(process, worker.slot(), true).is_err() {
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
