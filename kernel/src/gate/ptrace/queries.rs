//! Requests of a tracer about a tracee's signals and filters, beside registers and memory. Linux
//! has a part of each: what waits for the worker, its mask, and the right to look.

use super::held::{hold, linux};
use crate::base::user::{self, put};
use crate::parts::seccomp::FILTER;
use crate::parts::tracee::GONE;
use crate::process::thread::Thread;
use crate::signal::pending;
use alloc::sync::Arc;
use hanare_core::errno::{self, Result};
use hanare_core::ptrace::{PeekSigInfo, request};
use hanare_core::signal::{SigInfo, SigSet};
use hanare_hal::usercopy::UserAddr;
use zerocopy::IntoBytes;

/// PTRACE_GETSIGMASK. In a call with a mask of its own it is the mask that comes back.
pub fn mask(me: &Thread, thread: &Arc<Thread>, size: u64, data: u64) -> Result<u64> {
    let thread = hold(me, thread)?;
    if size != 8 {
        return Err(errno::EINVAL);
    }
    let mask = thread.signals.lock().lasting;
    put(UserAddr::of(data), &mask.0.to_le_bytes())
}

/// PTRACE_SETSIGMASK. The worker has the mask, too, before it goes on: what waits on Linux and is
/// blocked now stays there.
pub fn set_mask(me: &Thread, thread: &Arc<Thread>, size: u64, data: u64) -> Result<u64> {
    let thread = hold(me, thread)?;
    if size != 8 {
        return Err(errno::EINVAL);
    }
    let mask = SigSet(user::get::<u64>(UserAddr::of(data))?).blockable();
    // Its slot is there as long as its space, which it may have left while the mask was read.
    let _stays = thread.process.space.visit().ok_or(errno::ESRCH)?;
    if thread.ptrace.has(GONE) || thread.must_end() {
        return Err(errno::ESRCH);
    }
    let applied = mask.difference(pending::never_blocked(&thread.process));
    let is_held_back = thread.signals.lock().is_held_back();
    if !is_held_back {
        let scratch = me.write_scratch(&applied.0.to_le_bytes())?;
        thread.port.slot.set_sigmask(mask.0); // where the worker itself puts its mask back after the stop
        linux(me, [request::SETSIGMASK, thread.tid().into(), 8, scratch, 0, 0])?;
    }
    thread.signals.lock().replace_mask(mask);
    Ok(0)
}

/// PTRACE_PEEKSIGINFO. What the worker has fetched from Linux is older than what waits there.
pub fn pending_signals(me: &Thread, thread: &Arc<Thread>, args: u64, data: u64) -> Result<u64> {
    let thread = hold(me, thread)?;
    let args = PeekSigInfo::new(user::get::<[u64; 2]>(UserAddr::of(args))?)?;
    let size = size_of::<SigInfo>() as u64;
    let mut copied = 0;
    while copied < args.count {
        let at = data.saturating_add(copied * size);
        let number = args.first.saturating_add(copied);
        let told = match fetched(&thread, args.is_shared, number) {
            Ok(info) => put(UserAddr::of(at), info.as_bytes()).map(|_| true),
            Err(here) => {
                linux_pending(me, &thread, &args.of_linux(copied, here), at).map(|count| {
                    copied += count.min(args.count - copied); // a proxy may say anything
                    false
                })
            }
        };
        match told {
            Ok(true) => copied += 1,
            Ok(false) => break,
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied)
}

/// Signal `number` of those that wait with the LWK for the thread or, `shared`, for its process, or
/// how many these are.
fn fetched(thread: &Thread, shared: bool, number: u64) -> core::result::Result<SigInfo, u64> {
    let own = thread.signals.lock();
    let all = thread.process.signals.lock();
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let (first, second) = if shared {
        (own.of_process().queued(), Some(all.pending.queued()))
    } else {
        (own.pending.queued(), None)
    };
    let count = first.len() + second.as_ref().map_or(0, ExactSizeIterator::len);
    let mut queued = first.chain(second.into_iter().flatten());
    queued.nth(number).map(|queued| queued.info).ok_or(count as u64)
}

/// As [`pending_signals`], of what waits on Linux: how many were copied.
fn linux_pending(me: &Thread, thread: &Thread, args: &PeekSigInfo, to: u64) -> Result<u64> {
    let scratch = me.write_scratch(args.words().as_bytes())?;
    linux(me, [request::PEEKSIGINFO, thread.tid().into(), scratch, to, 0, 0])
}

/// PTRACE_SECCOMP_GET_METADATA. The worker has filters of the same number, with the same flags.
pub fn filter_metadata(me: &Thread, thread: &Arc<Thread>, a: &[u64; 6]) -> Result<u64> {
    let thread = hold(me, thread)?;
    with_filters(&thread, linux(me, *a))
}

/// PTRACE_SECCOMP_GET_FILTER: the instructions that the program has set, not those of the worker.
pub fn filter_program(me: &Thread, thread: &Arc<Thread>, a: &[u64; 6]) -> Result<u64> {
    let thread = hold(me, thread)?;
    with_filters(&thread, linux(me, [a[0], a[1], a[2], 0, 0, 0]))?;
    let filters = thread.seccomp.filters.lock().clone();
    let filter = usize::try_from(a[2]).ok().and_then(|at| filters.as_ref()?.get(at));
    let instructions = filter.ok_or(errno::ENOENT)?.instructions();
    if a[3] != 0 {
        put(UserAddr::of(a[3]), instructions.as_bytes())?;
    }
    Ok(instructions.len() as u64)
}

/// Turns Linux' answer about the worker's filters into one about the thread's. Where the thread has
/// SECCOMP_MODE_STRICT, its worker has a filter instead.
fn with_filters(thread: &Thread, answer: Result<u64>) -> Result<u64> {
    let knows_mode = matches!(answer, Ok(_) | Err(errno::ENOENT | errno::EFAULT));
    if knows_mode && thread.seccomp.mode() != FILTER { Err(errno::EINVAL) } else { answer }
}
