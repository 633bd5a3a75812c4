//! What is asked for by way of the link, and what is made of its outcomes (`docs/link.md`).

use crate::link::boxed;
use crate::link::caller::{self, Delegates};
use crate::link::direct::Direct;
use crate::link::interface::Link;
use crate::sched::cpus;
use hanare_abi::control::Control;
use hanare_core::errno::{Errno, Result};
use hanare_core::link::{Call, Failure, Last, Outcome};
use hanare_ikc::Answer;

/// The link of this instance.
static LINK: Direct = Direct;

/// Has a call of the running thread `context`, to which nothing is special, executed by its own worker, see [`Link::call`].
#[inline(always)] // every delegated call of a program goes this way
pub fn call_at_once(context: &(impl Delegates + ?Sized), call: Call) -> Outcome {
    LINK.call_at_once(context, call)
}

/// The same where [`Pool::is_special`](crate::link::pool::Pool::is_special): by the request box where calls go by that, or
/// after Linux has been told what it is owed. Also whether a server executed it, which a signal interrupted.
#[cold] // calls that go directly do not pay for it
pub fn call_specially(context: &(impl Delegates + ?Sized), call: Call) -> (Outcome, bool) {
    boxed::call(context, &call)
}

/// The same, where what goes to Linux is a message that stands for `call`. `result` finds the result of the call in it,
/// where it was executed (0 is the result of the message).
pub fn call_message<E>(
    context: &(impl Delegates + ?Sized),
    call: &Call,
    message: &Call,
    result: impl FnOnce(Outcome) -> core::result::Result<Outcome, E>,
) -> core::result::Result<(Outcome, bool), E> {
    let (outcome, by_signal) = boxed::call_message(context, call, message);
    let outcome = match result(outcome)? {
        Outcome::Done(value) => boxed::outcome(context, call.nr, Answer::Done(value), by_signal),
        outcome => outcome,
    };
    Ok((outcome, by_signal))
}

/// The same, always by the thread's own worker.
pub fn call_worker(context: &(impl Delegates + ?Sized), call: Call) -> Outcome {
    LINK.call(context, call)
}

/// Has the proxy of the running thread serve a request of the LWK's, see [`Link::ask`].
pub fn ask(request: Control) -> Outcome {
    LINK.ask(caller::current(), request)
}

/// The same, as a part of a call: its error is the call's.
pub fn result_of(request: Control) -> Result<u64> {
    ask(request).result().map_err(Errno::from)
}

/// Has a part of the running thread's call executed by Linux. It does not wait long, so what a signal
/// kept from being started is made again at once.
pub fn linux(nr: u32, args: [u64; 6]) -> Result<u64> {
    certainly(Call::new(nr, args)).map_err(Errno::from)
}

/// The same, for others' sake: also of a thread that ends.
pub fn for_process(nr: u32, args: [u64; 6]) -> Result<u64> {
    certainly(Call::of_process(nr, args)).map_err(Errno::from)
}

/// A call that a signal does not keep from being made. A proxy may say for ever that it has not
/// begun: meanwhile the CPU is the others', too.
fn certainly(call: Call) -> core::result::Result<u64, Failure> {
    loop {
        match LINK.call(caller::current(), call).result() {
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
            Last::Call(call) => LINK.call(me, call),
            Last::Request(request) => LINK.ask(me, request),
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
