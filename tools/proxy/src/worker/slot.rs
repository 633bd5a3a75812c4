//! A worker's side of its slot: waits for requests, and answers them.

use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use hanare_abi::ioctl::{IOCTL_WAIT, WAIT_RING_SHIFT};
use hanare_ikc::{Answer, Kind, SlotRef};
use linux_raw_sys::errno::{EINTR, ETIME};

use crate::process::{self, Process, pooled, ring};
use crate::sys::arch::tsc;
use crate::sys::worker::Worker;
use crate::sys::{self, Errno};

/// Looks at the slot between two pauses.
const LOOKS_PER_PAUSE: u32 = 32;
/// Time that a wake-up of the LWK's side may take while this side polls, if it is as patient as it
/// can be.
const WAKE_UP_US: u32 = 1000;
/// Time that waking both sides takes at most where each has a CPU at once.
const QUICK_WAKE_UPS_US: u32 = 250;

/// Polls for a while, then sleeps, until it is asked for something. `rings`: the LWK's thread
/// sleeps until it is rung for the last answer.
#[inline(always)]
pub fn wait_for_request(process: &Process, worker: &Worker, slot: SlotRef, rings: bool) -> Kind {
    /// Looks without a pause or a look at the time: the next call of a busy thread
    /// comes about as soon.
    const EAGER: u32 = 512;
    let looks = if rings { 0 } else { EAGER };
    match (0..looks).find_map(|_| slot.worker_poll()) {
        Some(kind) => kind,
        None => wait_on(process, worker, slot, rings),
    }
}

#[cold]
fn wait_on(process: &Process, worker: &Worker, slot: SlotRef, rings: bool) -> Kind {
    let bell = rings.then(|| slot.bell());
    let poll_us = slot.poll_us();
    if poll_us == 0 {
        return wait_asleep(process, worker, slot, bell);
    }
    let ticks = |us| process.clock.ticks(us);
    let longest = ticks(poll_us);
    let window = worker.patience.window(longest);
    let start = tsc();
    if let Some(bell) = bell {
        ring(process, bell);
    }
    let kind = loop {
        if let Some(kind) = poll(process, worker, slot, window) {
            break kind;
        }
        if slot.worker_prepare_sleep() {
            sleep(process, worker, slot, None);
            slot.worker_awake();
        }
    };
    worker.patience.waited(tsc().wrapping_sub(start), longest, ticks(QUICK_WAKE_UPS_US));
    kind
}

/// Rings `bell`, if any, and sleeps, by one call, until it is asked for something.
fn wait_asleep(process: &Process, worker: &Worker, slot: SlotRef, mut bell: Option<u32>) -> Kind {
    loop {
        if slot.worker_prepare_sleep() {
            sleep(process, worker, slot, bell.take());
            slot.worker_awake();
        } else if let Some(bell) = bell.take() {
            ring(process, bell);
        }
        if let Some(kind) = slot.worker_poll() {
            return kind;
        }
    }
}

/// Looks for a request for that many ticks.
fn poll(process: &Process, worker: &Worker, slot: SlotRef, window: u64) -> Option<Kind> {
    // The window counts from when the LWK's thread is seen awake: one that was just
    // rung needs its wake-up time first, else both sides would for ever sleep just
    // before the other one is there.
    let (mut near, mut start) = (slot.lwk_is_awake(), tsc());
    let wake_up = worker.patience.window(process.clock.ticks(WAKE_UP_US));
    loop {
        let now = tsc();
        if !near && slot.lwk_is_awake() {
            (near, start) = (true, now);
        }
        if now.wrapping_sub(start) >= if near { window } else { wake_up } {
            return None;
        }
        spin_loop();
        // A pause is costly where an emulator runs us: several looks for each.
        if let Some(kind) = (0..LOOKS_PER_PAUSE).find_map(|_| slot.worker_poll()) {
            return Some(kind);
        }
    }
}

/// Rings `bell`, if any, and sleeps until the LWK rings.
fn sleep(process: &Process, worker: &Worker, slot: SlotRef, bell: Option<u32>) {
    process.sleeps.fetch_add(1, Ordering::Relaxed);
    let bell = bell.map_or(0, |bell| (u64::from(bell) + 1) << WAIT_RING_SHIFT);
    match sys::ioctl_number(process.space.fd, IOCTL_WAIT, bell | u64::from(worker.slot())) {
        Ok(doorbell) => slot.set_doorbell(doorbell as u32),
        Err(Errno(EINTR)) => {}
        Err(Errno(ETIME)) => pooled::had_nothing(&process.space, slot),
        Err(_) => process::lwk_died(),
    }
}

/// Publishes the answer. True: the LWK's thread sleeps, and has to be rung.
#[inline(always)]
#[must_use]
pub fn publish(worker: &Worker, slot: SlotRef, answer: Answer) -> bool {
    worker.interrupted.clear_and(|| slot.worker_complete(answer))
}

/// Publishes the answer and rings the LWK if it sleeps.
pub fn answer(process: &Process, worker: &Worker, slot: SlotRef, answer: Answer) {
    if publish(worker, slot, answer) {
        ring(process, slot.bell());
    }
}
