//! Requests of the module: one function for each kind.

use crate::machinecheck;
use crate::base::{failing, frames};
use crate::mm::linux;
use crate::mm::space::{self, Space};
use crate::process::{Process, exec, info, share, until};
use crate::sched::{cpus, doorbell};
use crate::signal::signals;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use hanare_abi::boot::{EVENT_REQUEST, INBOUND_ENTRIES};
use hanare_abi::layout::{SCRATCH_BASE, SLOT_BASE};
use hanare_abi::request as abi;
use hanare_core::errno;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{cpu, percpu, shared};
use hanare_ikc::{RequestCall, RequestRef};

/// Requests that have been taken from the ring and are still to be served, oldest first: a ring
/// of which only its CPU knows. There are no more than the ring of the requests has room for.
struct Deferred {
    requests: [AtomicU32; INBOUND_ENTRIES],
    first: AtomicU32,
    end: AtomicU32,
}

impl Deferred {
    fn push(&self, request: u32) {
        let end = self.end.load(Ordering::Relaxed);
        self.requests[end as usize % INBOUND_ENTRIES].store(request, Ordering::Relaxed);
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
        Some(self.requests[first as usize % INBOUND_ENTRIES].load(Ordering::Relaxed))
    }
}

static DEFERRED: [Deferred; CPUS_MAX] = [const {
    Deferred { requests: [const { AtomicU32::new(0) }; INBOUND_ENTRIES], first: AtomicU32::new(0), end: AtomicU32::new(0) }
}; CPUS_MAX];

/// Serves what Linux has posted to this CPU: what was deferred, and some of the rest, lest who calls this never goes
/// on while more and more comes.
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
    serve(index);
    shared::cpu(percpu::index()).beat();
    true
}

/// Whether there is something to serve.
pub fn is_asked() -> bool {
    DEFERRED[percpu::index()].has_some() || !doorbell::inbound().is_empty()
}

/// Serves what Linux takes back of its own pages, and defers the rest: for who waits for the
/// service thread without leaving the CPU. That thread may wait for memory, or for who waits
/// for memory, and Linux may wait for these pages to get some.
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
        if index < shared::params().request_count.min(INBOUND_ENTRIES as u32) {
            return Some(index);
        }
        crate::info!("request {index} does not exist; ignored");
    }
}

/// Answers a request and wakes its waiter.
pub fn complete(index: u32, status: i32) {
    if shared::request(index).complete(status) {
        doorbell::ring(EVENT_REQUEST, u64::from(index));
    }
}

fn serve(index: u32) {
    let r = shared::request(index);
    let Some(call) = r.read() else {
        crate::info!("request {index} is not posted; ignored");
        return;
    };
    let space = call.space;
    let status = match call.kind {
        abi::REQUEST_PING => {
            machinecheck::look();
            Ok(())
        }
        abi::REQUEST_SPACE_OPEN => open(&r, &call),
        abi::REQUEST_STOP => {
            complete(index, 0);
            crate::sched::panic::park()
        }
        abi::REQUEST_INFO if space == 0 => {
            info::memory(&r, call.args[1]);
            Ok(())
        }
        abi::REQUEST_CLOCK_SET => {
            until::on_set();
            Ok(())
        }
        abi::REQUEST_DEBUG => debug(&r, &call),
        abi::REQUEST_OBSERVE => crate::gate::observe::request(&r, &call),
        abi::REQUEST_SPACE_CLOSE => return close(index, space),
        kind => match process_of(&call) {
            None => Err(errno::ESRCH),
            Some(p) => match kind {
                abi::REQUEST_SPACE_START if call.args[0] != 0 => share::begin(&p, call.args[1]),
                abi::REQUEST_SPACE_START => exec::start(&p),
                abi::REQUEST_PROCESS_END => {
                    share::ended(&p);
                    Ok(())
                }
                abi::REQUEST_FAULT => return complete(index, fault(&p, &r, &call)),
                abi::REQUEST_INVALIDATE => {
                    linux::invalidate(&p, call.args[0], call.args[1]);
                    Ok(())
                }
                abi::REQUEST_SIGNAL => signals::from_linux(&p, call.args[0] as u32, call.args[1] as u32, &r.siginfo()),
                abi::REQUEST_SPACE_PAUSE => {
                    p.pause(call.args[0] != 0);
                    Ok(())
                }
                abi::REQUEST_SPACE_GROUPS => p.enter_groups(&r.words()[..abi::GROUPS_WORDS]),
                abi::REQUEST_INFO => info::of_process(&p, &r, &call),
                abi::REQUEST_USAGE => {
                    usage(&p, &r);
                    Ok(())
                }
                _ => Err(errno::EINVAL),
            },
        },
    };
    complete(index, status.map_or_else(|e| -e.0, |()| 0));
}

/// The process of its space that a request means.
fn process_of(call: &RequestCall) -> Option<Arc<Process>> {
    let space = space::find(percpu::index(), call.space)?;
    match call.kind {
        abi::REQUEST_SPACE_START | abi::REQUEST_PROCESS_END => space.process(call.args[0] as u32),
        abi::REQUEST_SPACE_PAUSE => space.process(call.args[1] as u32),
        abi::REQUEST_SIGNAL => space.process_of(call.args[1] as u32),
        _ => space.first(),
    }
}

/// A proxy's page fault; without memory it is tried again once there is some.
fn fault(p: &Process, r: &RequestRef<'_>, call: &RequestCall) -> i32 {
    match linux::fault(p, r, call) {
        e if e == -errno::ENOMEM.0 && crate::mm::oom::relieve(p) => -errno::EAGAIN.0,
        status => status,
    }
}

fn open(r: &RequestRef<'_>, call: &RequestCall) -> errno::Result<()> {
    let (p, whole) = Space::open(call.space, &call.args, &r.words())?;
    r.set_arg(0, whole.into());
    r.set_pages(&[SLOT_BASE, SCRATCH_BASE].map(|page| p.control_page(page).unwrap_or(0)));
    Ok(())
}

fn close(index: u32, space: u32) {
    match space::find(percpu::index(), space) {
        None => complete(index, 0),
        Some(space) => space.close(index),
    }
}

fn usage(p: &Process, r: &RequestRef<'_>) {
    let (user, system) = p.times_ns();
    let (resident, peak) = p.memory_use();
    for (i, v) in [user, system, resident, peak].into_iter().enumerate() {
        r.set_arg(i, v);
    }
}

/// Calls itself until the stack is full.
#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let filler = core::hint::black_box([depth; 32]);
    if core::hint::black_box(depth) == u64::MAX {
        return depth;
    }
    overflow(depth + size_of_val(&filler) as u64) + core::hint::black_box(filler)[31]
}

fn debug(r: &RequestRef<'_>, call: &RequestCall) -> hanare_core::errno::Result<()> {
    match call.args[0] {
        abi::DEBUG_PANIC => panic!("asked for by hanare debug panic"),
        abi::DEBUG_OVERFLOW => {
            crate::info!("{} bytes deep", overflow(0));
            Ok(())
        }
        abi::DEBUG_HANG => {
            crate::info!("hanging, as asked for by hanare debug hang");
            // By Linux' ticks: the TSC of an emulated machine may run ahead for a while.
            let linux_ns = || shared::clock().read().monotonic_coarse_ns;
            let end = linux_ns().saturating_add(call.args[1].saturating_mul(1_000_000));
            while call.args[1] == 0 || linux_ns() < end {
                cpu::pause();
            }
            crate::info!("no longer hanging");
            Ok(())
        }
        abi::DEBUG_MEMORY => {
            crate::mm::retry_quarantine();
            crate::base::heap::trim();
            let (free, total) = frames::usage();
            let processes = space::count(percpu::index()) as u64;
            crate::info!("memory: {} KiB free of {} KiB, {} KiB quarantined, {processes} processes here", free >> 10, total >> 10, frames::quarantined() >> 10);
            for (i, v) in [free, total, frames::quarantined(), processes].into_iter().enumerate() {
                r.set_arg(i, v);
            }
            Ok(())
        }
        abi::DEBUG_FAIL_ALLOC => {
            r.set_arg(0, failing::set(call.args[1], call.args[2]));
            Ok(())
        }
        _ => Err(errno::EINVAL),
    }
}
