//! Requests and calls that the LWK makes of Linux on its own account, by the worker of the running
//! thread, `me` (`docs/link.md`). Calls of programs take a route (`route/mod.rs`).

use crate::link::caller::Delegates;
use crate::link::direct;
use crate::sched::cpus;
use hanare_abi::control::Control;
use hanare_core::errno::{Errno, Result};
use hanare_core::link::{Call, Failure, Last, Outcome};

/// Has the proxy of the running thread serve a request of the LWK's, see [`direct::ask`].
pub fn ask(me: &dyn Delegates, request: Control) -> Outcome {
    direct::ask(me, request)
}

/// Like [`ask`], as a part of a call: its error is the call's.
pub fn result_of(me: &dyn Delegates, request: Control) -> Result<u64> {
    ask(me, request).result().map_err(Errno::from)
}

/// Has a part of the running thread's call executed by Linux. The part does not wait long, so if a
/// signal kept it from being started, it is made again at once.
pub fn linux(me: &dyn Delegates, nr: u32, args: [u64; 6]) -> Result<u64> {
    certainly(me, Call::new(nr, args)).map_err(Errno::from)
}

/// Like [`linux`], for others' sake: also of a thread that ends.
pub fn for_process(me: &dyn Delegates, nr: u32, args: [u64; 6]) -> Result<u64> {
    certainly(me, Call::of_process(nr, args)).map_err(Errno::from)
}

/// A call that a signal does not keep from being made. A proxy may say for ever that it has not
/// begun: meanwhile the CPU is the others', too.
fn certainly(me: &dyn Delegates, call: Call) -> core::result::Result<u64, Failure> {
    loop {
        match direct::call(me, call).result() {
            Err(Failure::NotStarted) => cpus::yield_now(),
            result => return result,
        }
    }
}

/// The running thread's process ends by something that is never answered: waits until Linux has
/// closed the space. `may_go_on` does not come back if the thread has to end meanwhile though its
/// process goes on (another thread's execve).
pub fn last_call(me: &dyn Delegates, last: Last, may_go_on: impl Fn()) {
    let ask = || {
        let _ = match last {
            Last::Call(call) => direct::call(me, call),
            Last::Request(request) => direct::ask(me, request),
        };
    };
    ask();
    // A signal may have come before the call: again.
    while !me.is_killed() {
        may_go_on();
        cpus::yield_now(); // or a proxy says so for ever
        ask();
    }
    cpus::until_told(|| me.is_killed(), cpus::NEVER);
}
