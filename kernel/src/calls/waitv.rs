//! futex_waitv(2): waiting on several words at once.
//!
//! Words of the program's own memory are waited on here, those in memory that Linux shares among
//! processes on Linux. Of a mixture Linux has all: to it the words of the program are private ones,
//! and a wake-up here reaches them there, too.

use crate::base::user;
use crate::base::{heap, lists};
use crate::calls::context::handlers;
use crate::parts::futexes::Futexes;
use crate::process::Process;
use crate::process::futex::{self, Sleeper};
use crate::process::thread::Thread;
use crate::process::until::Until;
use crate::route;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::futex::{Key, MATCH_ANY, Operation, Place};
use hanare_core::syscalls::{Restart, Row};
use hanare_core::time::Clock;
use hanare_hal::usercopy::{self, UserAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

handlers! { call:
    __NR_futex_waitv => futex_waitv(call.thread, call.row, &call.args),
}

const MOST: u64 = 128;
const SIZE_32: u32 = 2;

/// `struct futex_waitv`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Waiter {
    value: u64,
    addr: u64,
    flags: u32,
    reserved: u32,
}

/// futex_waitv(2): the index of a word that was woken.
fn futex_waitv(thread: &Thread, row: &Row, a: &[u64; 6]) -> Result<u64> {
    let (count, flags) = (a[1] as u32, a[2] as u32);
    if flags != 0 || count == 0 || u64::from(count) > MOST || a[0] == 0 {
        return Err(errno::EINVAL);
    }
    let until = timeout(&thread.process, a[3], a[4] as i32)?;
    let words = words(a[0], count as usize)?;
    let p = &thread.process;
    let mut places = lists::filled(words.len(), Place::Linux)?;
    for (place, w) in places.iter_mut().zip(&words) {
        *place = futex::place_of(p, w.addr, w.flags & Operation::PRIVATE != 0)?;
    }
    if places.iter().all(|&place| place == Place::Linux) {
        return route::call(thread, row, *a);
    }
    heap::room(words.len() * Futexes::<Thread>::ENTRY_BYTES)?;
    let mixed = places.contains(&Place::Linux);
    thread.futex_woken.store(false, Ordering::Relaxed);
    for (i, key) in local(&places) {
        if let Err(e) = queue(thread, i, key, words[i].value, mixed) {
            // Something may have been woken meanwhile, which counts.
            return give_up(thread, local(&places[..i])).ok_or(e);
        }
    }
    if mixed {
        return wait_on_linux(thread, row, a, &words, &places);
    }
    futex::wait_until(thread, until);
    match give_up(thread, local(&places)) {
        Some(index) => Ok(index),
        None => futex::interrupted(thread, until, Restart::Sys),
    }
}

/// The words that the queues have, with their indices.
fn local(places: &[Place]) -> impl Iterator<Item = (usize, Key)> + '_ {
    places.iter().enumerate().filter_map(|(i, &place)| match place {
        Place::Queues(key) => Some((i, key)),
        Place::Linux => None,
    })
}

/// The timeout, a time of one of two clocks.
fn timeout(p: &Process, pointer: u64, clock: i32) -> Result<Until> {
    if pointer == 0 {
        return Ok(Until::NEVER);
    }
    let clock = Clock::from_id(clock)
        .filter(|c| matches!(c, Clock::Realtime | Clock::Monotonic))
        .ok_or(errno::EINVAL)?;
    let ns = futex::read_timespec(pointer)?;
    Ok(Until::at(p, clock, ns))
}

fn words(addr: u64, count: usize) -> Result<Vec<Waiter>> {
    let mut words = lists::filled(count, Waiter::default())?;
    user::read(UserAddr::of(addr), words.as_mut_bytes())?;
    if words.iter().any(|w| w.flags & !Operation::PRIVATE != SIZE_32 || w.reserved != 0) {
        return Err(errno::EINVAL);
    }
    if words.iter().any(|w| w.addr % 4 != 0) {
        return Err(errno::EINVAL);
    }
    Ok(words)
}

/// Waits on one word if it has the value wanted.
fn queue(me: &Thread, index: usize, key: Key, value: u64, mixed: bool) -> Result<()> {
    futex::with_queues(me, key.addr(), |queues| {
        let same = usercopy::read_u32(UserAddr::of(key.addr()))? == value as u32;
        if same {
            let sleeper = Sleeper::one_of(me, index, mixed.then_some(key.addr()));
            return Ok(queues.push(key, sleeper, MATCH_ANY));
        }
        Ok(Err(errno::EAGAIN))
    })?
}

/// Waits no more on `words`, which were queued; the last of those that were woken.
fn give_up(me: &Thread, words: impl Iterator<Item = (usize, Key)>) -> Option<u64> {
    let mut queues = me.process.space.futexes.lock();
    let mut woken = None;
    for (i, key) in words {
        if queues.remove(key, &Sleeper::one_of(me, i, None)).is_none() {
            woken = Some(i as u64);
        }
    }
    woken
}

/// The rest of a wait on words of both kinds.
fn wait_on_linux(
    thread: &Thread,
    row: &Row,
    a: &[u64; 6],
    words: &[Waiter],
    places: &[Place],
) -> Result<u64> {
    let told = words.iter().zip(places).map(|(w, &place)| {
        let private = if place == Place::Linux { 0 } else { Operation::PRIVATE };
        Waiter { flags: w.flags | private, ..*w }
    });
    let scratch = lists::collected(told).and_then(|told| thread.write_scratch(told.as_bytes()));
    let result =
        scratch.and_then(|scratch| route::call(thread, row, [scratch, a[1], a[2], a[3], a[4], 0]));
    match give_up(thread, local(places)) {
        Some(index) if result.is_err() => {
            thread.signals.lock().clear_interrupted();
            Ok(index)
        }
        _ => result,
    }
}
