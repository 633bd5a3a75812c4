//! futex(2): an operation goes to the kernel that has the waiters of its words.
//!
//! Where two words have their waiters in two kernels, none is moved from one to the other. A waiter
//! that would be moved is woken, as if for nothing, which programs have to expect, and looks for
//! itself.

use crate::base::user::UserAddr;
use crate::calls::context::handlers;
use crate::link::delegate;
use crate::parts::signals::Interrupted;
use crate::process::Process;
use crate::process::futex::{self, Waiting, count, is_read_only, place_of};
use crate::process::pi;
use crate::process::thread::Thread;
use crate::process::until::Until;
use crate::route;
use hanare_core::errno::{self, Result};
use hanare_core::futex::{Command, MATCH_ANY, Operation, Place, Timed, WakeOp};
use hanare_core::syscalls::Row;
use hanare_core::time::Clock;
use linux_raw_sys::general::{
    __NR_futex, FUTEX_CMP_REQUEUE, FUTEX_LOCK_PI2, FUTEX_REQUEUE, FUTEX_WAIT_BITSET, FUTEX_WAKE,
};

handlers! { call:
    __NR_futex => futex(call.thread, call.row, call.args),
}

/// futex(2).
fn futex(me: &Thread, row: &Row, a: [u64; 6]) -> Result<u64> {
    let p = &me.process;
    let op = Operation::of(a[1] as u32);
    let (value, most, bits) = (a[2], a[3], a[5] as u32);
    let words = [a[0], a[4]].map(UserAddr::of);
    let first = place_of(p, words[0], op.is_private);
    let second = match op.command() {
        Ok(
            Command::Requeue
            | Command::CmpRequeue
            | Command::WakeOp
            | Command::WaitRequeuePi
            | Command::CmpRequeuePi,
        ) => place_of(p, words[1], op.is_private),
        _ => first,
    };
    let second = match op.command() {
        Ok(Command::WakeOp | Command::WaitRequeuePi | Command::CmpRequeuePi)
            if !op.is_private && is_read_only(p, words[1]) =>
        {
            second.and(Err(errno::EFAULT))
        }
        _ => second,
    };
    if first == Ok(Place::Linux) && second == Ok(Place::Linux) {
        return route::call(me, row, a);
    }
    let until = until(p, op, UserAddr::of(a[3]))?;
    let key = || match first? {
        Place::Queues(key) => Ok(key),
        Place::Linux => Err(errno::EAGAIN), // the second is the first
    };
    let wait = |bitset| Waiting { word: key()?, value: value as u32, until, bitset }.wait(me);
    match op.command()? {
        Command::WaitBitset | Command::WakeBitset if bits == 0 => Err(errno::EINVAL),
        Command::Wait => wait(MATCH_ANY),
        Command::WaitBitset => wait(bits),
        Command::Wake => futex::wake(me, key()?, value, MATCH_ANY),
        Command::WakeBitset => futex::wake(me, key()?, value, bits),
        Command::Requeue | Command::CmpRequeue | Command::CmpRequeuePi
            if (value as i32) < 0 || (most as i32) < 0 =>
        {
            Err(errno::EINVAL)
        }
        Command::Requeue => requeue(me, row, (first?, second?), &a, None),
        Command::CmpRequeue => requeue(me, row, (first?, second?), &a, Some(bits)),
        Command::WakeOp => wake_op(me, (first?, second?), &a),
        Command::LockPi | Command::LockPi2 => pi::lock(me, key()?, until),
        Command::TrylockPi => pi::try_lock(me, key()?),
        Command::UnlockPi => {
            if first.is_err() {
                pi::check_owner(me, words[0])?;
            }
            pi::unlock(me, key()?)
        }
        Command::WaitRequeuePi | Command::CmpRequeuePi if a[0] == a[4] => Err(errno::EINVAL),
        Command::WaitRequeuePi => {
            let lock = second?;
            wait_for_lock(me, row, (first?, lock), &a, until)
        }
        Command::CmpRequeuePi if value as u32 != 1 => Err(errno::EINVAL),
        Command::CmpRequeuePi => match (first?, second?) {
            (Place::Queues(from), Place::Queues(lock)) => pi::requeue(me, from, lock, most, bits),
            places => requeue(me, row, places, &a, Some(bits)),
        },
    }
}

/// Until when an operation waits.
fn until(p: &Process, op: Operation, pointer: UserAddr) -> Result<Until> {
    let clock = match op.timed() {
        Timed::No => return Ok(Until::NEVER),
        _ if pointer.is_null() => return Ok(Until::NEVER),
        Timed::FromNow => return Ok(Until::after(futex::read_timespec(pointer)?)),
        Timed::Monotonic => Clock::Monotonic,
        Timed::Realtime => Clock::Realtime,
    };
    Ok(Until::at(p, clock, futex::read_timespec(pointer)?))
}

/// FUTEX_REQUEUE, FUTEX_CMP_REQUEUE; and FUTEX_CMP_REQUEUE_PI where a kernel has the waiters and
/// the other one the lock.
fn requeue(
    me: &Thread,
    row: &Row,
    places: (Place, Place),
    a: &[u64; 6],
    expected: Option<u32>,
) -> Result<u64> {
    let all = count(a[2]).saturating_add(count(a[3])).min(i32::MAX as usize) as u64;
    match places {
        (Place::Queues(from), Place::Queues(to)) => {
            futex::requeue(me, (from, to), (a[2], a[3]), expected)
        }
        (Place::Queues(from), Place::Linux) => futex::requeue(me, (from, from), (all, 0), expected),
        (Place::Linux, _) => {
            let op = if expected.is_some() { FUTEX_CMP_REQUEUE } else { FUTEX_REQUEUE };
            route::call(me, row, [a[0], op.into(), all, 0, a[0], a[5]])
        }
    }
}

/// FUTEX_WAKE_OP.
fn wake_op(me: &Thread, places: (Place, Place), a: &[u64; 6]) -> Result<u64> {
    let code = WakeOp::of(a[5] as u32);
    let wake = |place, addr, most| match place {
        Place::Queues(key) => futex::wake(me, key, most, MATCH_ANY),
        Place::Linux => delegate::linux(me, __NR_futex, [addr, FUTEX_WAKE.into(), most, 0, 0, 0]),
    };
    let old = futex::exchange(UserAddr::of(a[4]), |old| code.apply(old))?;
    let also = code.also_wakes(old)?;
    let woken = wake(places.0, a[0], a[2])?;
    let also_woken = if also { wake(places.1, a[4], a[3])? } else { 0 };
    Ok(woken.saturating_add(also_woken)) // a proxy says what it likes
}

/// FUTEX_WAIT_REQUEUE_PI. Where a kernel has the word and the other one the lock, the thread gets
/// the lock by itself.
fn wait_for_lock(
    me: &Thread,
    row: &Row,
    places: (Place, Place),
    a: &[u64; 6],
    until: Until,
) -> Result<u64> {
    let value = a[2] as u32;
    let clock = a[1] & u64::from(Operation::CLOCK_REALTIME);
    match places {
        (Place::Queues(word), Place::Queues(lock)) => {
            pi::wait_for_lock(me, word, value, until, Some(lock))
        }
        (Place::Queues(word), Place::Linux) => {
            pi::wait_for_lock(me, word, value, until, None)?;
            let op = u64::from(FUTEX_LOCK_PI2) | clock;
            route::call(me, row, [a[4], op, 0, a[3], 0, 0])
        }
        (Place::Linux, lock) => {
            let op = u64::from(FUTEX_WAIT_BITSET) | clock;
            let wait = [a[0], op, a[2], a[3], 0, u64::from(MATCH_ANY)];
            route::call(me, row, wait).inspect_err(|&error| {
                if error == errno::EINTR {
                    me.signals.lock().set_interrupted(Interrupted::NotStarted);
                }
            })?;
            match lock {
                Place::Queues(lock) => pi::lock(me, lock, until),
                Place::Linux => Err(errno::EAGAIN),
            }
        }
    }
}
