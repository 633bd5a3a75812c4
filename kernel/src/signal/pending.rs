//! Signals that are blocked: they wait on Linux, except for what is on its way.

use crate::base::heap;
use crate::base::user::put;
use crate::link::delegate;
use crate::process::thread::Thread;
use crate::process::{Process, cputimers};
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::directed::looks_like_threads;
use hanare_core::errno::{self, Result};
use hanare_core::signal::{self, Pending, SigInfo, SigSet};
use hanare_hal::usercopy::{self, UserAddr};
use linux_raw_sys::general::__NR_rt_sigpending;
use zerocopy::IntoBytes;

/// Signals that a worker never blocks: by SIGBUS the module tells of the LWK's death. They wait
/// here if the program blocks them.
const NEVER_BLOCKED: SigSet = SigSet::EMPTY.with(signal::SIGBUS);

/// Signals that a worker never blocks where there are utility threads: their code may raise these
/// on Linux, too.
const RAISED: SigSet = NEVER_BLOCKED
    .with(signal::SIGSEGV)
    .with(signal::SIGILL)
    .with(signal::SIGFPE)
    .with(signal::SIGTRAP)
    .with(signal::SIGSYS);

/// Signals that a worker of the process may take while all its threads block them.
pub fn never_blocked(p: &Process) -> SigSet {
    if p.has_utility_threads.load(Ordering::Relaxed) { RAISED } else { NEVER_BLOCKED }
}

/// Signals that are blocked wait on Linux, where `sigtimedwait`, `signalfd` and `sigpending` see
/// them. One that was forwarded before its mask was known there goes back. If it is for the
/// process, Linux knows which other threads take it, and interrupts the call that it is in.
pub fn give_back_blocked(thread: &Thread) {
    let p = &thread.process;
    while !thread.must_end() {
        let taken = {
            let mut own = thread.signals.lock();
            let stays = SigSet(!own.mask.difference(never_blocked(p)).0);
            // The last one first: each comes before those that are on Linux.
            let for_thread = own.pending.dequeue_last(stays).map(|q| (q, false));
            if let Some((q, _)) = for_thread
                && q.info.code == signal::SI_QUEUE
            {
                own.directed.sent(q.signal);
            }
            for_thread.or_else(|| p.signals.lock().pending.dequeue_last(stays).map(|q| (q, true)))
        };
        let Some((queued, to_process)) = taken else { return };
        let is_marked = to_process && is_to_be_marked(p, &queued.info);
        if is_marked {
            p.signals.lock().directed.sent(queued.signal);
        }
        let sent = thread.write_scratch(queued.info.as_bytes()).and_then(|_| {
            let signal = queued.signal;
            let request = Control::RequeueSignal { signal, for_process: to_process, is_back: true };
            delegate::result_of(thread, request)
        });
        if sent.is_ok() {
            cputimers::take_back(p, &queued.info);
        } else {
            // Linux takes no more of them: it stays here.
            let add = |to: &mut Pending| to.add(queued.signal, queued.info, true);
            if to_process {
                let mut shared = p.signals.lock();
                if is_marked {
                    shared.directed.take(queued.signal);
                }
                heap::fallible(|| add(&mut shared.pending));
            } else {
                let mut own = thread.signals.lock();
                own.directed.take(queued.signal);
                heap::fallible(|| add(&mut own.pending));
            }
            return;
        }
    }
}

/// Whether the process has to remember of a signal that is for it, and comes from Linux, that it is
/// not for a thread.
pub fn is_to_be_marked(p: &Process, info: &SigInfo) -> bool {
    looks_like_threads(info.code) && !cputimers::is_for_process(p, info)
}

/// Has Linux send the process a signal of the LWK's.
pub fn send(thread: &Thread, signal: u32, info: SigInfo) -> Result<u64> {
    thread.write_scratch(info.as_bytes())?;
    delegate::result_of(
        thread,
        Control::RequeueSignal { signal, for_process: true, is_back: false },
    )
}

/// rt_sigtimedwait where one of its signals waits here. `None`: Linux answers.
pub fn waited(thread: &Thread, args: &[u64; 6]) -> Option<Result<u64>> {
    let [set, info, timeout, size, ..] = args;
    let others = SigSet(!usercopy::read_u64(UserAddr::of(*set)).ok()?);
    let shared = &thread.process.signals;
    let own = thread.signals.lock().pending.set();
    let all = shared.lock().pending.set();
    // Linux looks at the arguments before it looks at signals.
    if own.union(all).difference(others).is_empty()
        || *size != 8
        || *timeout != 0 && !is_time(*timeout)
    {
        return None;
    }
    let taken = thread.signals.lock().dequeue(&mut shared.lock().pending, others)?;
    let told = if *info == 0 {
        Ok(())
    } else {
        usercopy::write(UserAddr::of(*info), taken.info.as_bytes())
    };
    Some(told.map(|()| u64::from(taken.signal)).map_err(|_| errno::EFAULT))
}

/// Whether a `struct timespec` at this address is one that Linux takes.
fn is_time(at: u64) -> bool {
    let field = |at| usercopy::read_u64(UserAddr::of(at)).ok();
    field(at).is_some_and(|s| s as i64 >= 0)
        && at.checked_add(8).and_then(field).is_some_and(|ns| ns < 1_000_000_000)
}

/// rt_sigpending: what waits here and what waits on Linux.
pub fn pending(thread: &Thread, set: UserAddr, size: u64) -> Result<u64> {
    if size > 8 {
        return Err(errno::EINVAL);
    }
    let address = thread.write_scratch(&[0; 8])?;
    delegate::linux(thread, __NR_rt_sigpending, [address, 8, 0, 0, 0, 0])?;
    let on_linux: u64 = thread.process.memory().control(address);
    let s = thread.signals.lock();
    let here =
        s.pending.set().union(thread.process.signals.lock().pending.set()).intersection(s.mask);
    let all = on_linux | here.0;
    drop(s);
    put(set, &all.to_le_bytes()[..size as usize])?;
    Ok(0)
}
