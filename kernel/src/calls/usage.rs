//! Use of resources by processes and threads.

use crate::base::user::put;
use crate::calls::context::{Context, handlers};
use crate::parts::usage::Usage;
use crate::process::{cputime, usage};
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use zerocopy::IntoBytes;

handlers! { call:
    __NR_getrusage => getrusage(call),
    __NR_times => times(call),
}

/// `struct rusage`: times, peak memory and page faults are ours, the rest is zero.
fn getrusage(call: &Context<'_>) -> Result<u64> {
    const CHILDREN: i32 = -1;
    const SELF: i32 = 0;
    const THREAD: i32 = 1;
    let p = call.process;
    let used = match call.args[0] as i32 {
        SELF => usage::of(p),
        THREAD => {
            let (user_ns, system_ns) = cputime::thread_ns(call.thread);
            Usage {
                user_ns,
                system_ns,
                faults: call.thread.task().counts.faults.load(Ordering::Relaxed),
                ..usage::of(p)
            }
        }
        CHILDREN => p.usage.lock().waited(),
        _ => return Err(errno::EINVAL),
    };
    let mut all = [0u64; 18];
    all[..9].copy_from_slice(&used.words());
    put(call.address(1), all.as_bytes())
}

/// `struct tms` in ticks of 10 ms.
fn times(call: &Context<'_>) -> Result<u64> {
    const TICK_NS: u64 = 10_000_000;
    let result = call.forward()?;
    if call.args[0] != 0 {
        let p = call.process;
        let (user, system) = p.times_ns();
        let children = p.usage.lock().waited();
        let all = [user, system, children.user_ns, children.system_ns].map(|ns| ns / TICK_NS);
        put(call.address(0), all.as_bytes())?;
    }
    Ok(result)
}
