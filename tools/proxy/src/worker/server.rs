//! A server of the request box: a thread that executes calls of any thread of the process.
//!
//! The server has a worker like others, with a slot of its own, which is its own queue: it looks
//! there first, for requests of the LWK, then into the box. While it executes a call its worker's
//! slot is the caller's, so that a signal which Linux raises for that call is told to the LWK as
//! the caller's.
//!
//! All signals are blocked but those that a call raises for the thread that makes it, and SIGBUS,
//! by which the caller's own worker interrupts it ([`crate::process::servers`]).

use hanare_abi::ioctl::{IOCTL_WAIT, WAIT_RING_SHIFT};
use hanare_abi::layout::SLOTS_MAX;
use hanare_abi::requestbox::{BOX_SLOTS, SERVERS_MAX};
use hanare_ikc::{Answer, BoxRef, Kind, Serving, SlotRef, Taken};
use linux_raw_sys::errno::{EINTR, EINVAL};
use linux_raw_sys::general::{SIGBUS, SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ};

use core::hint::spin_loop;
use core::sync::atomic::Ordering;

use super::slot::{answer, publish};
use crate::process::servers::{SERVERS, Server, set_used};
use crate::process::{self, Process, ring};
use crate::sys::arch::tsc;
use crate::sys::signal::{Action, Mask, bit};
use crate::sys::worker::Worker;
use crate::sys::{self, Errno, signal, thread};

/// Signals that servers block: all but those that a call raises, and interruptions.
const BLOCKED: Mask = !(bit(SIGBUS) | bit(SIGPIPE) | bit(SIGXFSZ) | bit(SIGTTIN) | bit(SIGTTOU));
/// Time that waking both sides takes at most where each has a CPU at once.
const QUICK_WAKE_UPS_US: u32 = 250;
/// Looks at the box between two pauses.
const LOOKS_PER_PAUSE: u32 = 32;

/// `Control::Server`: gives the thread id.
pub fn start(process: &Process, slot: u32, number: u32, has_cpus: bool) -> sys::Result<u32> {
    let server = SERVERS.get(number as usize).filter(|_| (1..SLOTS_MAX).contains(&slot));
    let server = server.ok_or(Errno(EINVAL))?;
    let cpus = has_cpus.then(|| process.space.window.cpus(slot));
    if cpus.is_some_and(|cpus| cpus.is_empty()) {
        return Err(Errno(EINVAL));
    }
    server.tid.store(0, Ordering::Relaxed);
    set_used();
    // Its handler ends calls on behalf of other signals: whether they are made again is the LWK's
    // to say.
    signal::set_action(SIGBUS, Action::Forward { restart: false })?;
    let tid = thread::spawn_server(slot, number)?;
    if let Some(cpus) = cpus {
        sys::run_on(tid, &cpus);
    }
    server.tid.store(tid, Ordering::Relaxed);
    process.space.window.slot(slot).set_tid(tid);
    Ok(tid)
}

/// Way in which a call is made, and a request served.
pub struct Means {
    /// Makes the call in a slot.
    pub call: fn(&Process, &'static Worker, SlotRef) -> Answer,
    /// Serves the request in a slot: its result, if there is one.
    pub request: fn(&Process, &Worker, SlotRef) -> Option<i64>,
}

/// Where the thread of server `number` begins, with all signals blocked.
pub fn begin(process: &Process, worker: &'static Worker, number: u32, means: &Means) -> ! {
    let of_box = process.space.window.request_box((number / SERVERS_MAX) as usize);
    let (calls, own) = (of_box, worker.slot());
    let Server { serving, tid } = &SERVERS[number as usize];
    let number = number % SERVERS_MAX; // in its box
    let own_tid = sys::thread_id();
    tid.store(own_tid, Ordering::Relaxed); // the creator may say so later
    serving.end();
    let _ = calls.first(number); // said to one that has ended
    signal::set_mask(BLOCKED);
    let server = Serves { process, worker, calls, number, own, tid: own_tid, serving, means };
    let mut rings = None;
    let mut from = 0;
    loop {
        let Some(Taken { slot, is_marked }) = server.next(&mut from, rings.take()) else {
            continue;
        };
        from = (slot + 1) % BOX_SLOTS;
        rings = server.execute(slot, is_marked);
    }
}

struct Serves<'a> {
    process: &'a Process,
    worker: &'static Worker,
    calls: BoxRef<'static>,
    number: u32,
    own: u32,
    tid: u32,
    serving: &'a Serving,
    means: &'a Means,
}

impl Serves<'_> {
    /// Executes the call in `slot`. The bell of its thread, if that has to be rung.
    fn execute(&self, slot: u32, is_marked: bool) -> Option<u32> {
        let (worker, at) = (self.worker, self.process.space.window.slot(slot));
        self.restore_mask();
        worker.set_slot(slot);
        at.set_server(self.tid);
        let result = if is_marked {
            Answer::NotStarted
        } else {
            (self.means.call)(self.process, worker, at)
        };
        at.set_ended_by_signal(worker.interrupted.is_marked());
        self.restore_mask();
        worker.set_slot(self.own);
        self.serving.end();
        publish(worker, at, result).then(|| at.bell())
    }

    /// Takes again what a handler left blocked: it is whose slot the worker has.
    fn restore_mask(&self) {
        if self.worker.held.swap(false, Ordering::Relaxed) {
            signal::set_mask(BLOCKED);
        }
    }

    fn take(&self, from: u32) -> Option<Taken> {
        let slot_of = |slot| self.process.space.window.slot(slot);
        hanare_ikc::serve(self.calls, from, self.serving, &self.worker.interrupted, slot_of)
    }

    /// Serves the call or request in the server's own slot.
    fn serve_own(&self) {
        let own = self.slot();
        let result = match own.worker_poll() {
            Some(Kind::Request) => Answer::Done(
                (self.means.request)(self.process, self.worker, own).unwrap_or_default(),
            ),
            // No thread is here whose call it could be.
            Some(Kind::Call) => Answer::NotStarted,
            None => return,
        };
        answer(self.process, self.worker, own, result);
    }

    /// The next call, for which it polls, then sleeps once. `bell`: the thread of the last one has
    /// to be rung.
    fn next(&self, from: &mut u32, mut bell: Option<u32>) -> Option<Taken> {
        let longest = self.process.clock.ticks(self.slot().poll_us());
        if longest != 0
            && let Some(bell) = bell.take()
        {
            ring(self.process, bell);
        }
        let start = tsc();
        let window = self.worker.patience.window(longest);
        let looks = if longest == 0 { 1 } else { LOOKS_PER_PAUSE };
        let found = loop {
            if self.slot().worker_poll().is_some() {
                // Which may be to end.
                if let Some(bell) = bell.take() {
                    ring(self.process, bell);
                }
                self.serve_own();
                return None;
            }
            if let Some(taken) =
                (0..looks).find_map(|_| (!self.calls.is_empty()).then(|| self.take(*from))?)
            {
                break Some(taken);
            }
            if tsc().wrapping_sub(start) >= window {
                break None;
            }
            spin_loop();
        };
        if found.is_some() {
            if let Some(bell) = bell {
                ring(self.process, bell);
            }
        } else if self.calls.prepare_sleep(self.number) {
            self.sleep(bell);
            *from = self.calls.first(self.number).unwrap_or(*from) % BOX_SLOTS;
        } else if let Some(bell) = bell {
            ring(self.process, bell);
        }
        if longest != 0 {
            let quick = self.process.clock.ticks(QUICK_WAKE_UPS_US);
            self.worker.patience.waited(tsc().wrapping_sub(start), longest, quick);
        }
        found
    }

    fn slot(&self) -> SlotRef<'static> {
        self.process.space.window.slot(self.own)
    }

    /// Rings `bell`, if any, and sleeps until it is rung, or its bit in the box is still its own
    /// when something else ends the sleep, as a ring for a server with this number that has ended.
    fn sleep(&self, bell: Option<u32>) {
        let mut bell = bell.map_or(0, |bell| (u64::from(bell) + 1) << WAIT_RING_SHIFT);
        loop {
            self.process.sleeps.fetch_add(1, Ordering::Relaxed);
            let argument = bell | u64::from(self.own);
            match sys::ioctl_number(self.process.space.fd, IOCTL_WAIT, argument) {
                Ok(doorbell) => {
                    self.calls.set_doorbell(self.number, doorbell as u32);
                    // A ring for a request of the LWK's may have left the bit.
                    if self.calls.wakes(self.number)
                        || self.calls.is_told(self.number)
                        || self.slot().worker_poll().is_some()
                    {
                        return;
                    }
                    bell = 0; // a ring is about to come
                }
                Err(Errno(EINTR)) if self.calls.wakes(self.number) => return,
                Err(Errno(EINTR)) => bell = 0, // a ring is about to come
                Err(_) => process::lwk_died(),
            }
        }
    }
}
