//! Requests and calls that the LWK makes of Linux on its own account, by the running thread's
//! worker (`docs/link.md`). Calls of programs take a route (`route/mod.rs`).

use crate::link::caller;
use crate::link::direct;
use crate::sched::cpus;
use hanare_abi::control::Control;
use hanare_core::errno::{Errno, Result};
use hanare_core::link::{Call, Failure, Last, Outcome};

/// Has the proxy of the running thread serve a request of the LWK's, see [`direct::ask`].
pub fn ask(request: Control) -> Outcome {
    direct::ask(caller::current(), request)
}

/// Like [`ask`], as a part of a call: its error is the call's.
pub fn result_of(request: Control) -> Result<u64> {
    ask(request).result().map_err(Errno::from)
}

/// Has a part of the running thread's call executed by Linux. The part does not wait long, so if a
/// signal kept it from being started, it is made again at once.
pub fn linux(nr: u32, args: [u64; 6]) -> Result<u64> {
    certainly(Call::new(nr, args)).map_err(Errno::from)
}

/// Like [`linux`], for others' sake: also of a thread that ends.
pub fn for_process(nr: u32, args: [u64; 6]) -> Result<u64> {
    certainly(Call::of_process(nr, args)).map_err(Errno::from)
}

/// A call that a signal does not keep from being made. A proxy may say for ever that it has not
/// begun: meanwhile the CPU is the others', too.
fn certainly(call: Call) -> core::result::Result<u64, Failure> {
    loop {
        match direct::call(caller::current(), call).result() {
            Err(Failure::NotStarted) => cpus::yield_now(),
            result => return result,
        }
    }
}

/// The running thread's process ends by something that is never answered: waits until Linux has
/// closed the space. `may_go_on` does not come back if the thread has to end meanwhile though its
/// process goes on (another thread's execve).
pub fn last_call(last: Last, may_go_on: impl Fn()) {
    let me = caller::current();
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
