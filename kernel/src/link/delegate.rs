//! The delegated call: post to the slot, wait, take the answer.

use crate::base::counts;
use crate::link::bells;
use crate::link::caller::{self, Delegates};
use crate::sched::{cpus, doorbell};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::EVENT_SLOT;
use hanare_abi::slot::{OP_REMAP, OP_SERVE, RESULT_NOT_STARTED};
use hanare_core::errno::{self, Errno};
use hanare_hal::{cpu, percpu, shared};

/// An answer within this time costs neither accounting nor a look at other threads, µs.
const SHORT_US: u64 = 5;
/// Calls up to this long are polled for, if the last one was no longer, µs.
const LONG_US: u64 = 150;
/// How long the worker polls for the next call, µs.
const WORKER_POLL_US: u32 = 50;

/// How long a CPU with nothing else to do polls for the answer, µs.
static SPIN_US: AtomicU64 = AtomicU64::new(0);

/// Takes the boot option `spin_us`.
pub fn init(spin_us: u32) {
    SPIN_US.store(spin_us.into(), Ordering::Relaxed);
}

/// Policy of a new slot.
pub fn worker_poll_us() -> u32 {
    WORKER_POLL_US.min(SPIN_US.load(Ordering::Relaxed) as u32)
}

fn cycles(us: u64) -> u64 {
    us * u64::from(shared::params().tsc_khz) / 1000
}

fn spin_cycles() -> u64 {
    cycles(SPIN_US.load(Ordering::Relaxed))
}

/// How long to poll for this answer: a thread whose last call took no longer than
/// [`LONG_US`] waits that long with the CPU kept, since a wake-up would cost about
/// as much; one that waits for something slower goes to sleep soon.
fn patience(caller: &(impl Delegates + ?Sized), base: u64) -> u64 {
    let long = cycles(LONG_US);
    if base != 0 && caller.port().last_call.load(Ordering::Relaxed) < long {
        base.max(long)
    } else {
        base
    }
}

struct Answer<'a, C: ?Sized> {
    caller: &'a C,
    result: Cell<Option<i64>>,
}

impl<C: Delegates + ?Sized> cpus::Wait for Answer<'_, C> {
    fn ready(&self) -> bool {
        if self.result.get().is_none() {
            self.result.set(self.caller.port().slot.lwk_poll());
        }
        self.result.get().is_some() || self.caller.is_killed()
    }
    fn near(&self) -> bool {
        self.caller.port().slot.worker_is_awake()
    }
    fn is_told(&self) -> bool {
        true // by its bell, and when its process is killed
    }
    fn announce(&self, asleep: bool) {
        let slot = &self.caller.port().slot;
        if asleep {
            bells::expect_ring(self.caller.owner().space, slot, self.caller.port().bell);
            // Whether an answer is there already is looked at by `ready`.
            let _ = slot.lwk_prepare_sleep();
        } else {
            slot.lwk_awake();
        }
    }
}

/// Has the running thread's worker execute `nr` (a Linux number or `OP_*`).
/// Returns what it returned; `-EINTR` if the process was killed meanwhile. A thread
/// that has to end though its process goes on begins no call; one in flight is awaited,
/// since its worker serves another thread next (`OP_INTERRUPT` sees to it that it ends soon). What keeps the
/// memory of its process the same on both sides is done all the same: the process goes on.
pub fn call(nr: u32, args: [u64; 6]) -> i64 {
    call_of(caller::current(), nr, args)
}

/// [`call`] of the running thread, which the caller knows.
#[inline(always)] // every delegated call of a program goes this way
pub fn call_of(caller: &(impl Delegates + ?Sized), nr: u32, args: [u64; 6]) -> i64 {
    caller.tell_owed();
    // After that, which may have taken the only interruption that there is.
    if caller.must_end() && (caller.is_killed() || !matches!(nr, OP_SERVE | OP_REMAP)) {
        return errno::EINTR.as_return();
    }
    begin(caller, nr, args)
}

/// [`call`] that a signal does not keep from being made. A proxy may say for ever that it has not
/// begun: meanwhile the CPU is the others', too.
pub fn certainly(nr: u32, args: [u64; 6]) -> i64 {
    until_begun(|| call(nr, args))
}

fn until_begun(mut ask: impl FnMut() -> i64) -> i64 {
    loop {
        match ask() {
            RESULT_NOT_STARTED => cpus::yield_now(),
            result => return result,
        }
    }
}

/// A short call that a thread makes which has to end, but for whose process there still
/// is a proxy.
pub fn last_word(nr: u32, args: [u64; 6]) {
    let me = caller::current();
    until_begun(|| if me.is_killed() { errno::EINTR.as_return() } else { begin(me, nr, args) });
}

#[inline(always)] // as `call_of`
fn begin(caller: &(impl Delegates + ?Sized), nr: u32, args: [u64; 6]) -> i64 {
    shared::cpu(percpu::index()).count_delegated_call();
    caller.asks(nr);
    let port = caller.port();
    counts::count(&port.counts.delegated);
    // The second cache line of the slot only when something changed.
    let mask = caller.mask();
    if port.slot.sigmask() != mask {
        port.slot.set_sigmask(mask);
    }
    let robust_list = caller.robust_list();
    if port.slot.robust_list() != robust_list {
        port.slot.set_robust_list(robust_list);
    }
    let asleep = port.slot.lwk_post(nr, args);
    if asleep {
        ring_worker(caller.owner().space, port.slot_index);
    }
    let answer = Answer { caller, result: Cell::new(None) };
    let base = spin_cycles();
    if !asleep && cpus::poll_for(&answer, base.min(cycles(SHORT_US))) {
        port.last_call.store(0, Ordering::Relaxed);
    } else {
        let start = cpu::rdtsc();
        cpus::wait(&answer, patience(caller, base));
        port.last_call.store(cpu::rdtsc().wrapping_sub(start), Ordering::Relaxed);
    }
    caller.answered(nr);
    answer.result.get().unwrap_or(errno::EINTR.as_return())
}

/// [`call`] with the result as Linux programs see it.
pub fn linux(nr: u32, args: [u64; 6]) -> Result<u64, Errno> {
    // What a signal kept from being started is made again at once: these calls are
    // parts of others, and do not wait long.
    let r = certainly(nr, args);
    match Errno::from_return(r) {
        Some(e) => Err(e),
        None => Ok(r as u64),
    }
}

/// Rings the worker of a slot, which sleeps.
pub fn ring_worker(space: u32, slot: u32) {
    doorbell::ring(EVENT_SLOT, u64::from(space) << 24 | u64::from(slot));
}

/// The running thread's process ends by a delegated call that never returns:
/// waits until Linux has closed the space. `may_go_on` does not come back if the thread has to end
/// meanwhile though its process goes on (another thread's execve).
pub fn last_call(nr: u32, args: [u64; 6], may_go_on: impl Fn()) {
    struct Killed(&'static dyn Delegates);
    impl cpus::Wait for Killed {
        fn ready(&self) -> bool {
            self.0.is_killed()
        }
        fn is_told(&self) -> bool {
            true
        }
        fn announce(&self, _: bool) {}
    }
    let me = caller::current();
    let _ = call(nr, args);
    // An abortable worker may have answered "not started": say it again.
    while !me.is_killed() {
        may_go_on();
        cpus::yield_now(); // or it says so for ever
        let _ = call(nr, args);
    }
    cpus::wait(&Killed(me), 0);
}
