//! Ids of the caller.

use crate::calls::context::{Context, handlers};
use crate::process::thread;
use crate::process::{Ids, NOT_MAPPED};
use crate::route;
use hanare_core::errno::Result;
use hanare_hal::shared;
use hanare_hal::traps::Regs;

handlers! { call:
    __NR_getpid => Ok(call.process.pid().into()),
    __NR_gettid => Ok(call.thread.tid().into()),
    __NR_getuid => own_id(call, |ids| &mut ids.uid),
    __NR_geteuid => own_id(call, |ids| &mut ids.euid),
    __NR_getgid => own_id(call, |ids| &mut ids.gid),
    __NR_getegid => own_id(call, |ids| &mut ids.egid),
}

/// getpid(2), where the call is neither watched nor judged.
pub extern "C" fn getpid(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: &mut Regs) -> u64 {
    shared::here().count_local_call();
    thread::current().process.pid().into()
}

/// One of the running thread's ids that Linux has told. An id that is not mapped in the user
/// namespace may become so whenever the map is written, so Linux is asked again.
fn own_id(call: &Context<'_>, which: fn(&mut Ids) -> &mut u32) -> Result<u64> {
    let ids = &call.thread.ids;
    let known = *which(&mut ids.lock());
    if known != NOT_MAPPED {
        return Ok(known.into());
    }
    let now = route::call(call.thread, call.row, [0; 6])?;
    *which(&mut ids.lock()) = now as u32;
    Ok(now)
}
