//! Whether the CPUs exist that workers of a queue are to run on.

use super::{Error, error};
use crate::sys::{self, Area};

/// Each of them is a CPU of the workers' side. A thread of its own tries: the caller stays where it
/// may run.
///
/// # Errors
/// EINVAL: one is not. ENOMEM, EAGAIN: there can be no thread.
pub fn check(cpus: &[i32], is_remote: bool) -> Result<(), Error> {
    let area = Area::none();
    if is_remote && !area.make() {
        return error(libc::ENOMEM);
    }
    match sys::beside(|| cpus.iter().all(|&cpu| is_there(cpu, &area))) {
        Err(number) => error(-number),
        Ok(true) => Ok(()),
        Ok(false) => error(libc::EINVAL),
    }
}

/// Tries one CPU. The area is there where workers go to Linux.
fn is_there(cpu: i32, area: &Area) -> bool {
    // -1 would be any.
    if cpu < 0 {
        return false;
    }
    if !area.is_there() {
        return sys::stay_on(cpu);
    }
    area.on_linux(cpu, |_| match sys::is_on_linux() {
        None => sys::stay_on(cpu), // there is no LWK
        // Where a thread cannot leave now, as under a tracer, no call can tell.
        Some(is_on_linux) => !is_on_linux || sys::current_cpu() == cpu,
    })
}
