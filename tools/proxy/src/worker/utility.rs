//! The code of a utility thread: its worker executes it, and makes calls for it that only the proxy
//! has a part in.

use core::sync::atomic::Ordering;

use hanare_abi::ioctl::{IOCTL_EXECUTE, IOCTL_WAIT};
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_abi::utility::{
    AREA_MAX, AREA_MIN, LEFT_SIGNAL, NR_UTILITY, PR_HANARE_RUN_ON, RUN_ON_SLEEP,
};
use hanare_core::syscalls::{self, Hook, SHOWN, Service};
use hanare_core::sysfs::{LOOKED_AT, may_be_hidden};
use hanare_ikc::Answer;
use linux_raw_sys::errno::{EINTR, EINVAL, EOPNOTSUPP};
use linux_raw_sys::general::{__NR_ioctl, __NR_prctl};

use crate::process::{self, Process, signals};
use crate::requests::pseudo;
use crate::sys::arch::{current_worker, delegated_call};
use crate::sys::signal::{Frame, Info};
use crate::sys::utility::{self, Code};
use crate::sys::worker::{Role, Worker};
use crate::sys::{self, Errno};

/// Executes the thread's code until it leaves it; `args` as of `NR_UTILITY`.
pub fn execute(process: &Process, worker: &'static Worker, args: &[u64; 6]) -> Answer {
    match try_execute(process, worker, args) {
        Ok(Some(left)) => Answer::Done(left as i64),
        Ok(None) => Answer::NotStarted,
        Err(Errno(error)) => Answer::Done(-i64::from(error)),
    }
}

fn try_execute(
    process: &Process,
    worker: &'static Worker,
    args: &[u64; 6],
) -> sys::Result<Option<u64>> {
    let [area, bytes, fs, cpu, control_fd, gs] = *args;
    let is_area =
        (AREA_MIN..=AREA_MAX).contains(&bytes) && (USER_MIN..USER_MAX - AREA_MAX).contains(&area);
    if !is_area {
        return Err(Errno(EINVAL));
    }
    // The stack of the first one may be anywhere, and a process that shares its memory ends by
    // execve mostly. In the child of a fork the first one has a worker that may have been another
    // thread's.
    if !matches!(worker.role, Role::Thread | Role::Successor) || worker.slot() == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    if !worker.utility.is_ready() {
        sys::ioctl_plain(process.space.fd, IOCTL_EXECUTE)?;
        signals::forward_raised()?;
    }
    if worker.cpu.swap(cpu, Ordering::Relaxed) != cpu {
        sys::run_on_cpu(u32::try_from(cpu).ok());
    }
    worker.utility.may_have_been_rung.store(true, Ordering::Relaxed);
    utility::execute(worker, &Code { area, fs, gs, control_fd: control_fd as u32 })
}

/// The handler of all signals: all are blocked.
pub fn taken(signal: u32, info: &Info, frame: &mut Frame) {
    let is_call = frame.is_of_program() && signals::is_call(signal, info);
    if !(is_call && makes_here(frame)) {
        signals::taken(signal, info, frame);
    }
}

/// Part of the proxy in a call for which the thread's code was left.
enum Own {
    /// Linux' answer may have to show the LWK's machine ([`pseudo::after`]).
    Shown,
    /// The file may be one that the LWK's machine has not: with this argument its path.
    Path(usize),
    /// `RUN_ON_SLEEP`.
    Sleep,
}

fn own(nr: u32, args: &[u64; 6]) -> Option<Own> {
    if nr == __NR_prctl {
        let is_sleep = args[0] as u32 == PR_HANARE_RUN_ON && args[1] == RUN_ON_SLEEP;
        return is_sleep.then_some(Own::Sleep);
    }
    if SHOWN.contains(&nr) {
        return Some(Own::Shown);
    }
    match syscalls::row(nr.into())?.service {
        Service::Delegated(Hook::Path) => Some(Own::Path(0)),
        Service::Delegated(Hook::PathAt) => Some(Own::Path(1)),
        _ => None,
    }
}

/// Sleeps until the LWK rings the worker, as between two calls. Meanwhile nothing is asked of its
/// slot. The first time since the thread came here the worker may have slept before, for its next
/// request, and taken the ring: so the thread looks once more.
fn sleep(process: &Process, worker: &Worker) -> Answer {
    if worker.utility.may_have_been_rung.swap(false, Ordering::Relaxed) {
        return Answer::Done(0);
    }
    let args = [process.space.fd as u64, IOCTL_WAIT.into(), worker.slot().into(), 0, 0, 0];
    let slot = process.space.window.slot(worker.slot());
    match delegated_call(__NR_ioctl, &args) {
        Answer::Done(doorbell @ 0..) => slot.set_doorbell(doorbell as u32),
        Answer::Done(error) if error == -i64::from(EINTR) => return Answer::Done(error),
        Answer::Done(_) => process::lwk_died(),
        Answer::NotStarted => return Answer::NotStarted,
    }
    Answer::Done(0)
}

/// Makes the call for which the thread's code was left, if Linux and the proxy can. False: it is
/// the LWK's to serve.
fn makes_here(frame: &mut Frame) -> bool {
    const INSTRUCTION: u64 = 2; // bytes of `syscall`
    let (nr, args) = (frame.rax() as u32, frame.arguments());
    let Some(own) = own(nr, &args) else { return false };
    let (worker, process) = (current_worker(), process::get());
    worker.call.store(nr, Ordering::Relaxed);
    let answer = utility::call(worker, frame, || match own {
        Own::Shown => pseudo::after(process, nr, &args, delegated_call(nr, &args)),
        Own::Path(_) => delegated_call(nr, &args),
        Own::Sleep => sleep(process, worker),
    });
    worker.call.store(NR_UTILITY, Ordering::Relaxed);
    let Answer::Done(result) = answer else {
        frame.step_back(INSTRUCTION); // a signal comes first, then the call again
        utility::leave(worker, frame, LEFT_SIGNAL)
    };
    if let Own::Path(which) = own {
        let mut text = [0; LOOKED_AT];
        let path = args[which];
        if result >= 0 && path != 0 && may_be_hidden(utility::path(path, &mut text)) {
            return false;
        }
    }
    frame.set_rax(result as u64);
    if worker.interrupted.is_marked() {
        utility::leave(worker, frame, LEFT_SIGNAL);
    }
    true
}
