//! futex_waitv(2): waiting on several words at once.
//!
//! Words of the program's own memory are waited on here, those in memory that Linux shares among
//! processes on Linux. With a mixture the thread is in the queues for the first kind, and its
//! worker waits on Linux for the second (`hanare_core::futex::split`).

use crate::base::user;
use crate::base::{heap, lists};
use crate::calls::context::handlers;
use crate::parts::futexes::{Futexes, Note};
use crate::process::Process;
use crate::process::futex::{self, Sleeper};
use crate::process::thread::Thread;
use crate::process::until::Until;
use crate::route;
use crate::sched::{cpus, hold};
use alloc::vec::Vec;
use core::iter;
use core::sync::atomic::Ordering;
use hanare_abi::layout::scratch;
use hanare_core::errno::{self, Result};
use hanare_core::futex::split::{self, NOTE_WAITS};
use hanare_core::futex::{Key, MATCH_ANY, Operation, Place};
use hanare_core::syscalls::{Restart, Row};
use hanare_core::time::Clock;
use hanare_hal::memory;
use hanare_hal::paging::SMALL;
use hanare_hal::usercopy::UserAddr;
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
    let until = timeout(&thread.process, UserAddr::of(a[3]), a[4] as i32)?;
    let words = words(UserAddr::of(a[0]), count as usize)?;
    let p = &thread.process;
    let mut places = lists::filled(words.len(), Place::Linux)?;
    for (place, w) in places.iter_mut().zip(&words) {
        *place = futex::place_of(p, UserAddr::of(w.addr), w.flags & Operation::PRIVATE != 0)?;
    }
    if places.iter().all(|&place| place == Place::Linux) {
        return route::call(thread, row, *a);
    }
    heap::room(words.len() * Futexes::<Thread>::ENTRY_BYTES)?;
    let is_mixed = places.contains(&Place::Linux);
    let note = if is_mixed { Some(new_note(thread)?) } else { None };
    thread.futex_woken.store(false, Ordering::Relaxed);
    for (i, key) in local(&places) {
        if let Err(e) = queue(thread, i, key, words[i].value, note) {
            // Something may have been woken meanwhile, which counts.
            return give_up(thread, local(&places[..i])).ok_or(e);
        }
    }
    if let Some(note) = note {
        return wait_on_linux(thread, row, a, note, &words, &places);
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
fn timeout(p: &Process, pointer: UserAddr, clock: i32) -> Result<Until> {
    if pointer.is_null() {
        return Ok(Until::NEVER);
    }
    let clock = Clock::from_id(clock)
        .filter(|c| matches!(c, Clock::Realtime | Clock::Monotonic))
        .ok_or(errno::EINVAL)?;
    let ns = futex::read_timespec(pointer)?;
    Ok(Until::at(p, clock, ns))
}

fn words(addr: UserAddr, count: usize) -> Result<Vec<Waiter>> {
    let mut words = lists::filled(count, Waiter::default())?;
    user::read(addr, words.as_mut_bytes())?;
    if words.iter().any(|w| w.flags & !Operation::PRIVATE != SIZE_32 || w.reserved != 0) {
        return Err(errno::EINVAL);
    }
    if words.iter().any(|w| w.addr % 4 != 0) {
        return Err(errno::EINVAL);
    }
    Ok(words)
}

/// Waits on one word if it has the value wanted.
fn queue(me: &Thread, index: usize, key: Key, value: u64, note: Option<Note>) -> Result<()> {
    futex::with_queues(me, key, |queues| {
        let same = futex::value_of(key)? == value as u32;
        if same {
            return Ok(queues.push(key, Sleeper::one_of(me, index, note), MATCH_ANY));
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

/// Where the note of a thread lies in its scratch page: behind the words that Linux is told.
const NOTE_OFFSET: u64 = (MOST + 1) * size_of::<Waiter>() as u64;
const _: () = assert!(NOTE_OFFSET + 4 <= SMALL);

/// The note of the running thread, which none has woken.
fn new_note(thread: &Thread) -> Result<Note> {
    let page = scratch(thread.port.slot_index);
    let frame = thread.process.memory().control_page(page)?;
    let note = Note { addr: page + NOTE_OFFSET, place: frame + NOTE_OFFSET };
    memory::store_u32(note.place, NOTE_WAITS);
    Ok(note)
}

/// The rest of a wait on words of both kinds.
fn wait_on_linux(
    thread: &Thread,
    row: &Row,
    a: &[u64; 6],
    note: Note,
    words: &[Waiter],
    places: &[Place],
) -> Result<u64> {
    let flags = SIZE_32 | Operation::PRIVATE;
    let note = Waiter { value: NOTE_WAITS.into(), addr: note.addr, flags, reserved: 0 };
    let of_linux = split::of_linux(places).map(|i| words[i as usize]);
    let told = lists::collected(iter::once(note).chain(of_linux));
    hold::at("waitv-queued");
    let on_linux = told.and_then(|told| {
        loop {
            let scratch = thread.write_scratch(told.as_bytes())?;
            let args = [scratch, told.len() as u64, a[2], a[3], a[4], 0];
            let on_linux = route::call(thread, row, args);
            let is_woken = thread.futex_woken.load(Ordering::Acquire);
            if !split::is_late(&on_linux, is_woken) {
                break on_linux;
            }
            if thread.must_end() || thread.has_signal() {
                break futex::interrupted(thread, Until::NEVER, Restart::Sys);
            }
            // A proxy may say so for ever: meanwhile the CPU is the others', too.
            cpus::yield_now();
        }
    });
    let woken = give_up(thread, local(places));
    if woken.is_some() && on_linux.is_err() {
        thread.signals.lock().clear_interrupted();
    }
    split::result(on_linux, woken, places)
}
