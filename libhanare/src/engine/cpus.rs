//! Whether the CPUs exist that workers of a queue are to run on.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use super::{Error, error, sys};

/// Task of the thread that tries the CPUs, and its answer.
struct Trial<'a> {
    cpus: &'a [i32],
    /// Memory of a thread that goes to Linux; `None`: the CPUs are those of this kernel.
    area: Option<NonNull<u8>>,
    are_there: bool,
}

/// Each of them is a CPU of the workers' side. A thread of its own tries: the caller stays where it may run.
///
/// # Errors
/// EINVAL: one is not. ENOMEM, EAGAIN: there can be no thread.
pub fn check(cpus: &[i32], is_remote: bool) -> Result<(), Error> {
    let area =
        is_remote.then(|| sys::map(sys::AREA_BYTES).ok_or(Error(libc::ENOMEM))).transpose()?;
    let mut trial = Trial { cpus, area, are_there: false };
    // SAFETY: the trial lives until the thread has ended.
    let thread = unsafe { sys::start_thread(main, (&raw mut trial).cast()) };
    if let Ok(thread) = thread {
        sys::join(thread);
    }
    if let Some(area) = area {
        // SAFETY: the thread that used it has ended.
        unsafe { sys::unmap(area, sys::AREA_BYTES) };
    }
    match thread {
        Err(number) => error(-number),
        Ok(_) if trial.are_there => Ok(()),
        Ok(_) => error(libc::EINVAL),
    }
}

extern "C" fn main(trial: *mut c_void) -> *mut c_void {
    // SAFETY: the caller that has started the thread waits for it.
    let trial = unsafe { &mut *trial.cast::<Trial<'_>>() };
    trial.are_there = trial.cpus.iter().all(|&cpu| is_there(cpu, trial.area));
    null_mut()
}

fn is_there(cpu: i32, area: Option<NonNull<u8>>) -> bool {
    // -1 would be any.
    if cpu < 0 {
        return false;
    }
    let Some(area) = area else { return sys::stay_on(cpu) };
    // SAFETY: the area is this thread's until its end.
    let has_left = unsafe { sys::run_on_linux(area, cpu) };
    let is_there = match sys::is_on_linux() {
        None => sys::stay_on(cpu), // there is no LWK
        // Where a thread cannot leave now, as under a tracer, nobody can tell.
        Some(is_on_linux) => !is_on_linux || sys::current_cpu() == cpu,
    };
    if has_left {
        sys::return_home();
    }
    is_there
}
