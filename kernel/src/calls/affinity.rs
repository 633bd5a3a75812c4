//! CPUs of threads.

use crate::base::heap;
use crate::base::user::{self, UserAddr, put};
use crate::calls::context::{Context, handlers};
use crate::process::thread::Thread;
use crate::process::{rights, spaces};
use crate::sched::cpu_mask::CpuMask;
use crate::sched::cpus;
use alloc::sync::Arc;
use hanare_abi::service::MAY_SCHEDULE;
use hanare_core::errno::{self, Result};
use hanare_hal::shared;

handlers! { call:
    __NR_sched_yield => {
        cpus::yield_now();
        Ok(0)
    },
    __NR_sched_getaffinity => sched_getaffinity(call),
    __NR_sched_setaffinity => sched_setaffinity(call),
    __NR_getcpu => getcpu(call.address(0), call.address(1)),
}

/// The LWK's thread with the id of a sched_* call; 0: the caller.
fn thread_of(call: &Context<'_>, id: u32) -> Option<Arc<Thread>> {
    if id == 0 {
        return Some(call.thread.arc());
    }
    let p = call.process;
    p.threads().find(|t| t.tid() == id).or_else(|| spaces::find_thread(p, id))
}

fn sched_getaffinity(call: &Context<'_>) -> Result<u64> {
    let a = &call.args;
    let Some(thread) = thread_of(call, a[0] as u32) else {
        return call.forward();
    };
    let len = a[1] as u32;
    if len.wrapping_mul(8) < shared::params().linux_cpu_ids || !len.is_multiple_of(8) {
        return Err(errno::EINVAL);
    }
    let mut mask = thread.task().affinity.lock().to_linux()?;
    mask.truncate(len as usize);
    put(UserAddr::of(a[2]), &mask)?;
    Ok(mask.len() as u64)
}

/// sched_setaffinity(2), which is accepted if the mask leaves a CPU of this instance.
fn sched_setaffinity(call: &Context<'_>) -> Result<u64> {
    /// More than any machine has CPUs for.
    const BYTES_MAX: usize = 1024;
    let a = &call.args;
    let mut wanted = heap::zeroed((a[1] as u32 as usize).min(BYTES_MAX))?;
    user::read(UserAddr::of(a[2]), &mut wanted)?;
    let Some(thread) = thread_of(call, a[0] as u32) else {
        return call.forward(); // it is Linux', or there is none
    };
    if !Arc::ptr_eq(call.process, &thread.process) {
        rights::may(call.thread, MAY_SCHEDULE, thread.tid(), &thread.process)?;
    }
    thread.task().bind(CpuMask::from_linux(&wanted).ok_or(errno::EINVAL)?);
    cpus::is_bound_anew(thread.task());
    cpus::kick(thread.task()); // it moves before it goes on in user mode
    Ok(0)
}

fn getcpu(cpu_to: UserAddr, node_to: UserAddr) -> Result<u64> {
    let me = shared::here();
    if !cpu_to.is_null() {
        put(cpu_to, &me.linux_cpu().to_le_bytes())?;
    }
    if !node_to.is_null() {
        put(node_to, &me.node().to_le_bytes())?;
    }
    Ok(0)
}
