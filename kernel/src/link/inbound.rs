//! Requests of the module: the ring of each CPU, and those that wait.

use crate::sched::requests::{self, Server};
use crate::sched::{cpus, doorbell};
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_abi::boot::{EVENT_REQUEST, RING_ENTRIES};
use hanare_abi::request as abi;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{cpu, percpu, shared};
use spin::Once;

/// Requests that have been taken from the ring and are still to be served, oldest first: a ring
/// of which only its CPU knows. There are no more than the ring of the requests has room for.
#[repr(align(64))]
struct Deferred {
    requests: [AtomicU32; RING_ENTRIES],
    first: AtomicU32,
    end: AtomicU32,
}

impl Deferred {
    fn push(&self, request: u32) {
        let end = self.end.load(Ordering::Relaxed);
        self.requests[end as usize % RING_ENTRIES].store(request, Ordering::Relaxed);
        self.end.store(end.wrapping_add(1), Ordering::Relaxed);
    }

    fn has_some(&self) -> bool {
        self.first.load(Ordering::Relaxed) != self.end.load(Ordering::Relaxed)
    }

    fn pop(&self) -> Option<u32> {
        let first = self.first.load(Ordering::Relaxed);
        if first == self.end.load(Ordering::Relaxed) {
            return None;
        }
        self.first.store(first.wrapping_add(1), Ordering::Relaxed);
        Some(self.requests[first as usize % RING_ENTRIES].load(Ordering::Relaxed))
    }
}

static DEFERRED: [Deferred; CPUS_MAX] = [const {
    Deferred {
        requests: [const { AtomicU32::new(0) }; RING_ENTRIES],
        first: AtomicU32::new(0),
        end: AtomicU32::new(0),
    }
}; CPUS_MAX];

/// Serves the request with a number, and [completes](complete) it now or later.
type Serve = fn(u32);

static SERVE: Once<Serve> = Once::new();

/// Requests are served from now on, by the layers that know what they are about.
pub fn init(serve: Serve) {
    SERVE.call_once(|| serve);
    requests::init(&Server { is_asked, serve_one, drain });
}

fn serve(index: u32) {
    SERVE.get().expect("inbound::init")(index);
}

/// Serves what Linux has posted to this CPU: what was deferred, and some of the rest, so that the
/// caller goes on though more and more comes.
pub fn drain() {
    const BATCH: u32 = 16;
    let mut served = 0;
    while (served < BATCH || DEFERRED[percpu::index()].has_some()) && serve_one() {
        served += 1;
    }
}

/// Serves the oldest of what Linux has posted to this CPU. False: there is nothing.
pub fn serve_one() -> bool {
    // Serving may defer more, which are older than what is in the ring by then.
    let Some(index) = DEFERRED[percpu::index()].pop().or_else(next) else { return false };
    let from = cpu::rdtsc();
    serve(index);
    if let Some(running) = cpus::try_current() {
        running.not_its(cpu::rdtsc().saturating_sub(from)); // the request may be any user's
    }
    shared::here().beat();
    true
}

/// Whether there is something to serve.
pub fn is_asked() -> bool {
    DEFERRED[percpu::index()].has_some() || !doorbell::inbound().is_empty()
}

/// Serves what Linux takes back of its own pages, and defers the rest: for a thread that waits for
/// the service thread without leaving the CPU. The service thread may wait for memory, or for a
/// task that waits for memory, and Linux may wait for these pages to get some.
pub fn take_back() {
    while let Some(index) = next() {
        if shared::request(index).read().is_some_and(|call| call.kind == abi::REQUEST_INVALIDATE) {
            serve(index);
        } else {
            DEFERRED[percpu::index()].push(index);
            cpus::request_attention();
        }
    }
}

/// The next request of the ring.
fn next() -> Option<u32> {
    loop {
        let index = doorbell::inbound().pop()?;
        if index < shared::params().request_count.min(RING_ENTRIES as u32) {
            return Some(index);
        }
        crate::info!("request {index} does not exist; ignored");
    }
}

/// Answers a request and wakes its waiter.
pub fn complete(index: u32, status: i32) {
    let request = shared::request(index);
    if request.complete(status) {
        doorbell::ring(request.doorbell(), EVENT_REQUEST, u64::from(index));
    }
}
