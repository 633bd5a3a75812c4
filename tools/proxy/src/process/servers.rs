//! Servers of the request box (`worker/server.rs`) as workers know them, so that signals reach
//! them.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hanare_abi::requestbox::{ALL_SERVERS, BOX_SLOTS, BOXES};
use hanare_ikc::Serving;

use super::{Process, ring};
use crate::sys::worker::Worker;

/// State of a server for other threads, by the server's number. It has a cache line of its own,
/// since it changes with each call.
#[repr(align(64))]
pub struct Server {
    /// Call that the server executes.
    pub serving: Serving,
    /// Linux thread id of the server.
    pub tid: AtomicU32,
}

/// The servers.
pub static SERVERS: [Server; ALL_SERVERS] =
    [const { Server { serving: Serving::new(), tid: AtomicU32::new(0) } }; ALL_SERVERS];
/// There is a server, or was.
static USED: AtomicBool = AtomicBool::new(false);

/// In the child of a fork: servers were not inherited.
pub fn begin_child() {
    USED.store(false, Ordering::Relaxed);
    SERVERS.iter().for_each(|server| server.serving.end());
}

/// Whether the process has, or had, servers.
pub fn are_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// There are servers from now on.
pub fn set_used() {
    USED.store(true, Ordering::Relaxed);
}

/// Takes the call of this thread back from the box, or interrupts the server that has it, whose
/// thread id `send` is given. Called in the handler of a signal of which the LWK knows, on the
/// thread of a worker that is no server.
pub fn interrupt(process: &Process, worker: &Worker, send: impl Fn(u32)) {
    let (number, window) = (worker.slot(), process.space.window);
    let slot = window.slot(number);
    // What the worker itself is asked for it has been kept from by its own mark.
    if !are_used() || number >= BOX_SLOTS || slot.worker_poll().is_some() {
        return;
    }
    let servers = SERVERS.iter().map(|server| &server.serving);
    let send = |server: usize| send(SERVERS[server].tid.load(Ordering::Relaxed));
    let boxes = (0..BOXES).map(|number| window.request_box(number));
    if hanare_ikc::interrupt(boxes, number, slot, servers, send) {
        ring(process, slot.bell());
    }
}

/// In the handler of an interruption, on the thread of server `number`: the mark of the call that
/// is executed, which is for this interruption if it is there, interrupts no later one.
pub fn forget_signal(process: &Process, number: u32) {
    let serving = &SERVERS[number as usize].serving;
    let _ = hanare_ikc::is_interrupted(serving, |slot| process.space.window.slot(slot));
}
