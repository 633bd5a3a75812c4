//! Calls whose arguments are copied: they come as a message in memory that the LWK shares with this
//! slot's worker (`hanare_core::marshal`), and are made with arguments that lead into it.

use core::sync::atomic::Ordering;

use hanare_core::marshal::{Decoded, Malformed, Place, decode, finish};
use hanare_ikc::Answer;
use linux_raw_sys::errno::{EBADMSG, ENOMEM, ENOSYS};

use crate::process::Process;
use crate::requests::pseudo;
use crate::sys::arch::delegated_call;
use crate::sys::worker::Worker;

/// Makes the call that the message is. Its result goes there; the answer is 0, or an error where
/// nothing was executed.
pub fn call(process: &Process, worker: &Worker, args: &[u64; 6]) -> Answer {
    let refused = |errno: u32| Answer::Done(-i64::from(errno));
    let place = (args[0], args[1]);
    let call = match taken(process, worker, place) {
        Some(Ok(call)) => call,
        Some(Err(Malformed::NoRoom)) => return refused(ENOMEM),
        Some(Err(_)) => return refused(EBADMSG),
        None => return refused(ENOSYS),
    };
    worker.call.store(call.number, Ordering::Relaxed);
    let answer = delegated_call(call.number, &call.args);
    let Answer::Done(result) = pseudo::after(process, call.number, &call.args, answer) else {
        return Answer::NotStarted;
    };
    let done = process.space.messages().and_then(|window| {
        window.with_message(worker.slot(), place, |bytes| {
            worker.with_lists(|_, lists| finish(bytes, &call, lists, result));
        })
    });
    done.map_or_else(|| refused(ENOSYS), |()| Answer::Done(0))
}

/// The call. Memory for its lists is made where it is needed first.
fn taken(
    process: &Process,
    worker: &Worker,
    place: (u64, u64),
) -> Option<Result<Decoded, Malformed>> {
    let window = process.space.messages()?;
    let look = || {
        window.with_message(worker.slot(), place, |bytes| {
            worker.with_lists(|own, lists| {
                decode(&*bytes, Place { message: place.0, own, has_guard: true }, lists)
            })
        })
    };
    match look()? {
        Err(Malformed::NoRoom) if worker.make_lists() => look(),
        taken => Some(taken),
    }
}
