//! A worker's side of its slot: waits for requests, and answers them.

use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use hanare_abi::ioctl::{IOCTL_RING, IOCTL_WAIT, Ring, Wait};
use hanare_ikc::{Answer, Kind, SlotRef};
use linux_raw_sys::errno::{EINTR, EIO};

use crate::process::{self, Process};
use crate::sys::arch::tsc;
use crate::sys::worker::Worker;
use crate::sys::{self, Errno};

/// Looks at the slot between two pauses.
const LOOKS_PER_PAUSE: u32 = 32;
/// What a wake-up of the LWK's side may take.
const WAKE_UP_US: u32 = 1000;

/// Polls for a while, then sleeps, until it is asked for something.
#[inline(always)]
pub fn wait_for_request(process: &Process, worker: &Worker, slot: SlotRef) -> Kind {
    /// Looks without a pause or a look at the time: the next call of a busy thread
    /// comes about as soon.
    const EAGER: u32 = 512;
    match (0..EAGER).find_map(|_| slot.worker_poll()) {
        Some(kind) => kind,
        None => wait_on(process, worker, slot),
    }
}

#[cold]
fn wait_on(process: &Process, worker: &Worker, slot: SlotRef) -> Kind {
    loop {
        if let Some(kind) = poll(process, slot) {
            return kind;
        }
        if slot.worker_prepare_sleep() {
            sleep(process, worker);
            slot.worker_awake();
        }
    }
}

/// Looks for a request for as long as the LWK wants; at least once.
fn poll(process: &Process, slot: SlotRef) -> Option<Kind> {
    if slot.poll_us() == 0 {
        return slot.worker_poll();
    }
    // The window counts from when the LWK's thread is seen awake: one that was just
    // rung needs its wake-up time first, else both sides would for ever sleep just
    // before the other one is there.
    let mut near = slot.lwk_is_awake();
    let (mut start, ticks) = (tsc(), process.clock.ticks(slot.poll_us()));
    let wake_up = process.clock.ticks(WAKE_UP_US);
    loop {
        let now = tsc();
        if !near && slot.lwk_is_awake() {
            (near, start) = (true, now);
        }
        if now.wrapping_sub(start) >= if near { ticks } else { wake_up } {
            return None;
        }
        spin_loop();
        // A pause is costly where an emulator runs us: several looks for each.
        if let Some(kind) = (0..LOOKS_PER_PAUSE).find_map(|_| slot.worker_poll()) {
            return Some(kind);
        }
    }
}

fn sleep(process: &Process, worker: &Worker) {
    process.sleeps.fetch_add(1, Ordering::Relaxed);
    let mut wait = Wait { slot: worker.slot(), reserved: 0 };
    match sys::ioctl(process.space.fd, IOCTL_WAIT, &mut wait) {
        Ok(()) | Err(Errno(EINTR)) => {}
        Err(_) => process::lwk_died(),
    }
}

/// Publishes the answer and rings the LWK if it sleeps.
#[inline(always)]
pub fn answer(process: &Process, worker: &Worker, slot: SlotRef, answer: Answer) {
    if worker.interrupted.clear_and(|| slot.worker_complete(answer)) {
        ring(process, slot);
    }
}

#[cold]
fn ring(process: &Process, slot: SlotRef) {
    let mut ring = Ring { bell: slot.bell(), reserved: 0 };
    if sys::ioctl(process.space.fd, IOCTL_RING, &mut ring) == Err(Errno(EIO)) {
        process::lwk_died();
    }
}
