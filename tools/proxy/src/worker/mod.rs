//! The worker: takes the delegated calls of one application thread from its slot
//! and makes them, and serves the control requests of the LWK that it finds there.
//!
//! Each thread of the application has a worker of its own; all they share is
//! [`crate::process`]. A worker finds itself through the thread pointer, so that
//! a signal handler knows whose call it interrupted.

use core::sync::atomic::Ordering;

use hanare_abi::control::Control;
use hanare_abi::ioctl::{IOCTL_EVENTFD, IOCTL_SERVE, Serve};
use hanare_abi::slot::{NR_MESSAGE, NR_PACKED};
use hanare_abi::utility::{Eventfd, NR_UTILITY};
use hanare_ikc::{Answer, Kind, SlotRef};
use linux_raw_sys::errno::ENOSYS;
use linux_raw_sys::general::{__NR_exit, __NR_exit_group};

use crate::base::message::EXIT_HANARE;
use crate::process::{self, Process, attach, pooled, signals};
use crate::requests::{dump, exec, fork, program, pseudo};
use crate::sys::arch::{call_in_slot, delegated_call, set_current_worker};
use crate::sys::filter::Part;
use crate::sys::signal::{self, Mask, Place};
use crate::sys::thread::Wanted;
use crate::sys::worker::{Role, Worker};
use crate::sys::{self, code};

mod message;
mod packed;
mod server;
mod slot;
mod threads;
mod utility;

use slot::{answer, publish, wait_for_request};
pub use utility::taken;

/// Serves the slot of `worker` for ever; `mask` is the thread's signal mask.
pub fn serve(worker: &'static Worker, mut mask: Mask) -> ! {
    let process = process::get();
    let mut take_over = |slot: SlotRef| {
        let wanted = signals::applied(slot.sigmask());
        if wanted != mask || worker.held.load(Ordering::Relaxed) {
            worker.held.store(false, Ordering::Relaxed); // only this thread sets it, in a handler or not
            signal::set_mask(wanted);
            mask = wanted;
        }
        worker.take_robust_list(slot.robust_list());
    };
    loop {
        let slot = process.space.window.slot(worker.slot()); // another one after some requests
        let mut rings = false;
        while wait_for_request(process, worker, slot, rings) == Kind::Call {
            take_over(slot);
            rings = publish(worker, slot, linux_call(process, worker, slot));
        }
        take_over(slot);
        if let Some(result) = serve_request(process, worker, slot) {
            answer(process, worker, slot, Answer::Done(result));
        }
    }
}

/// Serves a control request and returns its result. `None`: this is the child of a fork; the
/// request was its parent's.
#[inline(never)] // calls do not pay for it
fn serve_request(process: &Process, worker: &Worker, slot: SlotRef) -> Option<i64> {
    let asked = slot.worker_takes(Kind::Request);
    let Some(request) = asked.request() else { return Some(-i64::from(ENOSYS)) };
    Some(match request {
        Control::Serve { service } => {
            let mut serve = Serve { index: service, reserved: 0 };
            code(sys::ioctl(process.space.fd, IOCTL_SERVE, &mut serve))
        }
        Control::ExitSignal { signal } => {
            process.report();
            signals::end_by(signals::valid(signal).unwrap_or(linux_raw_sys::general::SIGKILL))
        }
        Control::StartFailed { errno, cause } => program::start_failed(errno, cause),
        Control::SignalAction { signal, mirror, flags, ignored } => {
            signals::ignore(ignored);
            code(signals::mirror(signal, mirror, flags))
        }
        Control::Execed { name, file, memory_map, strings, is_hidden } => {
            program::execed(process, name);
            // Late: it closes files, whose other ends tell that the program has begun.
            pseudo::execed(process, file, memory_map, strings);
            program::show(worker, is_hidden);
            0
        }
        Control::Succeed { tid } => program::succeed(process, tid),
        Control::Rights { random, keeps } => program::rights(process, worker, random, keeps),
        Control::Remap { start, end } => code(attach::map_again(&process.space, start, end)),
        Control::MapPart { number } => code(attach::map_part(&process.space, number)),
        Control::TakeMask => 0,
        Control::StopSignal { signal } => code(signals::stop_by(signal)),
        Control::RequeueSignal { signal, for_process, is_back } => {
            let info = process.space.window.scratch(worker.slot());
            let place = Place { process: for_process, first: is_back };
            code(signals::give_to_linux(signal, info, place))
        }
        Control::Trap { signal } => {
            let info = process.space.window.scratch(worker.slot());
            code(signals::trap(worker, signal, info, || signals::applied(slot.sigmask())))
        }
        Control::Thread { slot, own } => number(threads::start_worker(process, slot, own)),
        Control::Server { slot, number: own, has_cpus } => {
            number(server::start(process, slot, own, has_cpus))
        }
        Control::Eventfd { descriptor } => {
            let mut eventfd = Eventfd { slot: worker.slot(), descriptor };
            code(sys::ioctl(process.space.fd, IOCTL_EVENTFD, &mut eventfd))
        }
        Control::Member => number(pooled::start(&process.space)),
        Control::ThreadRenew { other } => threads::renew_worker(process, worker, other),
        Control::ThreadExit => threads::end_worker(process, worker),
        Control::Filter { at, bytes, before, whole, flags, confine } => {
            let part = Part { at, bytes, before, whole };
            match worker.filter.take(&part, flags, confine) {
                Ok(result) => result as i64,
                Err(error) => -i64::from(error.0),
            }
        }
        Control::Dump => i64::from(dump::begin(process)),
        Control::DumpRange { start, end, kind } => code(dump::range(process, start, end, kind)),
        Control::DumpThread { at, signal } => dump::thread(process, at, signal),
        Control::Interrupt { tid } => code(signals::interrupt(tid)),
        Control::Share { slot, flags, pidfd, first_slot, set_tid, ids_and_cgroup } => {
            let (ids, cgroup) = ids_and_cgroup;
            let wanted = Wanted { ids: (set_tid, ids.into()), cgroup: cgroup.into() };
            number(threads::share(process, first_slot, slot, flags, pidfd, wanted))
        }
        Control::Exec { token, directory, path, flags, files, arguments } => {
            let (flags, open) = (flags.0.into(), flags.1);
            let how = sys::Execution { directory, path, arguments, flags };
            exec::exec(process, token, [files.0, files.1, open], &how)
        }
        Control::Fork { token, flags, pidfd, set_tid, set_tid_size, cgroup } => {
            let wanted = fork::Wanted { flags, pidfd, set_tid, set_tid_size, cgroup };
            number(fork::fork(process, worker, token, &wanted)?)
        }
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
        Role::Server(number) => {
            let means = server::Means { call: linux_call, request: serve_request };
            server::begin(process, worker, number, &means)
        }
        Role::Successor => {
            let registered = threads::register(process, worker.slot(), sys::thread_id());
            answer(process, worker, slot, Answer::Done(code(registered)));
        }
        Role::Sharer => {
            slot.set_tid(sys::thread_id());
            if threads::declare(process, worker.slot(), true).is_err() {
                sys::exit(EXIT_HANARE); // the creator has been killed, or the LWK died
            }
            // What its creator has: so its program need not ask for it, which opens the mask
            // mostly.
            let mask = signals::applied(slot.sigmask());
            signal::set_mask(mask);
            serve(worker, mask)
        }
    }
    serve(worker, !0)
}

/// Calls of which more is to be made than the `syscall` instruction makes; so is what is no call of
/// Linux' (`NR_MESSAGE`, `NR_PACKED`).
static SPECIAL: [bool; 512] = {
    let mut special = [false; 512];
    special[__NR_exit as usize] = true;
    special[__NR_exit_group as usize] = true;
    let mut at = 0;
    while at < pseudo::CALLS.len() {
        special[pseudo::CALLS[at] as usize] = true;
        at += 1;
    }
    special
};

#[inline(always)]
fn linux_call(process: &Process, worker: &'static Worker, slot: SlotRef) -> Answer {
    let nr = slot.number();
    worker.call.store(nr, Ordering::Relaxed);
    if SPECIAL.get(nr as usize) != Some(&false) || process.is_reporting() {
        return special_call(process, worker, nr, slot);
    }
    call_in_slot(nr, slot)
}

#[inline(never)] // others do not pay for it
fn special_call(process: &Process, worker: &'static Worker, nr: u32, slot: SlotRef) -> Answer {
    process.calls.fetch_add(1, Ordering::Relaxed);
    if nr == __NR_exit_group || nr == __NR_exit {
        process.report();
    }
    let args = slot.worker_takes(Kind::Call).args;
    if nr == NR_MESSAGE {
        return message::call(process, worker, &args);
    }
    if nr == NR_PACKED {
        return packed::call(process, worker, &args);
    }
    if nr == NR_UTILITY {
        return utility::execute(process, worker, &args);
    }
    pseudo::after(process, nr, &args, delegated_call(nr, &args))
}

/// Makes the calling thread the worker of `worker.slot`, once and for good.
pub fn become_worker(worker: &'static Worker) {
    set_current_worker(worker);
    process::get().space.window.slot(worker.slot()).set_tid(sys::thread_id());
}
