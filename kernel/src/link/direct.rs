//! The direct server: a slot and a worker for each thread, the same addresses on both sides. Post
//! to the slot, wait, take the answer.

use crate::base::counts;
use crate::base::line::Line;
use crate::link::bells;
use crate::link::caller::Delegates;
use crate::sched::{cpus, doorbell};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::EVENT_SLOT;
use hanare_abi::control::Control;
use hanare_core::link::{self, Asker, Call, Outcome, Sake};
use hanare_hal::{cpu, shared};
use hanare_ikc::{Answer, SlotRef};

/// An answer within this time costs neither accounting nor a look at other threads, µs.
const SHORT_US: u64 = 5;
/// Calls up to this long are polled for, if those before were no longer, µs.
const LONG_US: u64 = 150;
/// Time that waking both sides takes at most where each has a CPU at once, µs.
const QUICK_WAKE_UPS_US: u64 = 250;
/// Looks at the slot without a look at anything else: an answer that comes at once takes about as
/// long, half a microsecond. A CPU that shoots down TLB entries waits that much longer at most,
/// which is less than an interrupt takes.
const EAGER: u32 = 512;
/// How long the worker polls for the next call, µs.
const WORKER_POLL_US: u32 = 50;

/// Times of the policy, in cycles: constant after [`init`].
struct Times {
    /// How long a CPU with nothing else to do polls for an answer.
    spin: AtomicU64,
    /// How long a call is polled for at most: an answer within that time is worth the CPU, since a
    /// wake-up would cost about as much. Less where the thread's calls take longer
    /// ([`hanare_ikc::Patience`]).
    longest: AtomicU64,
    /// [`SHORT_US`].
    short: AtomicU64,
    /// [`QUICK_WAKE_UPS_US`].
    quick: AtomicU64,
}

static TIMES: Line<Times> = Line(Times {
    spin: AtomicU64::new(0),
    longest: AtomicU64::new(0),
    short: AtomicU64::new(0),
    quick: AtomicU64::new(0),
});
/// How long the worker polls for the next call, µs.
static WORKER_US: AtomicU32 = AtomicU32::new(0);

/// Takes the boot option `spin_us`.
pub fn init(spin_us: u32) {
    let cycles = |us| us * u64::from(shared::params().tsc_khz) / 1000;
    let spin = cycles(u64::from(spin_us));
    let longest = if spin == 0 { 0 } else { spin.max(cycles(LONG_US)) };
    TIMES.spin.store(spin, Ordering::Relaxed);
    TIMES.longest.store(longest, Ordering::Relaxed);
    TIMES.short.store(cycles(SHORT_US), Ordering::Relaxed);
    TIMES.quick.store(cycles(QUICK_WAKE_UPS_US), Ordering::Relaxed);
    WORKER_US.store(WORKER_POLL_US.min(spin_us), Ordering::Relaxed);
}

/// Policy of a new slot.
pub fn worker_poll_us() -> u32 {
    WORKER_US.load(Ordering::Relaxed)
}

/// How long a CPU with nothing else to do polls for an answer.
pub fn spin_cycles() -> u64 {
    TIMES.spin.load(Ordering::Relaxed)
}

/// Waits for the answer of the running thread's worker, or until there is none any more.
struct Answered<'a, C: ?Sized> {
    caller: &'a C,
    answer: Cell<Option<Answer>>,
}

impl<C: Delegates + ?Sized> cpus::Wait for Answered<'_, C> {
    fn ready(&self) -> bool {
        if self.answer.get().is_none() {
            self.answer.set(self.caller.port().slot.lwk_poll());
        }
        self.answer.get().is_some() || self.caller.is_killed()
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
            bells::expect_ring(self.caller.port().space, slot, self.caller.port().task.bell);
        } else {
            slot.lwk_awake();
        }
    }
}

/// Has a call of the running thread `context` executed by its worker, and waits for the outcome.
///
/// A thread that has to end though its process goes on begins no call. One in flight is awaited,
/// since its worker serves another thread next (`Control::Interrupt` sees to it that it ends soon).
pub fn call(context: &(impl Delegates + ?Sized), call: Call) -> Outcome {
    if call.sake == Sake::Thread {
        context.tell_owed();
    }
    call_at_once(context, call)
}

/// Like [`call`], where Linux need not be told anything first, or has been.
#[inline(always)] // every delegated call of a program goes this way
pub fn call_at_once(context: &(impl Delegates + ?Sized), call: Call) -> Outcome {
    // After what Linux was told, which may have taken the only interruption that there is.
    if let Err(outcome) = link::may_begin(asker(context), call.sake) {
        return outcome;
    }
    context.asks_call(&call);
    let outcome = exchange(context, true, |slot| slot.lwk_post(call.nr, call.args));
    context.asked(None);
    outcome
}

/// Has the proxy serve a request of the LWK's own, by a worker that is in no call: that of the
/// running thread `context`. Never [`Outcome::NotStarted`]: the request is made again at once.
pub fn ask(context: &(impl Delegates + ?Sized), request: Control) -> Outcome {
    loop {
        if !matches!(request, Control::SignalAction { .. }) {
            context.tell_owed(); // which makes such requests
        }
        if let Err(outcome) = link::may_begin(asker(context), link::sake(&request)) {
            return outcome;
        }
        context.asks(&request);
        counts::count(&context.port().task.counts.controls);
        let outcome = exchange(context, needs_mask(&request), |slot| slot.lwk_ask(request));
        context.asked(Some(&request));
        if outcome != Outcome::NotStarted {
            return outcome;
        }
        cpus::yield_now(); // a proxy may say so for ever: the CPU is the others', too
    }
}

/// The thread as one that asks: it runs, it ends, or its process has no proxy any more.
pub fn asker(context: &(impl Delegates + ?Sized)) -> Asker {
    match context.must_end() {
        false => Asker::Runs,
        true if context.is_killed() => Asker::IsAlone,
        true => Asker::Ends,
    }
}

/// Whether the worker is to have the thread's mask while it serves a request. A request that makes
/// a thread or a process blocks all signals meanwhile. Programs do as well, and with the mask as it
/// was their opening it again is no request.
fn needs_mask(request: &Control) -> bool {
    !matches!(request, Control::Fork { .. } | Control::Share { .. } | Control::Thread { .. })
}

/// Posts to the slot of the running thread and waits for the answer. [`Outcome::PeerGone`]: the
/// process was killed meanwhile.
#[inline(always)] // as `call`
fn exchange(
    caller: &(impl Delegates + ?Sized),
    needs_mask: bool,
    post: impl FnOnce(&SlotRef<'_>) -> bool,
) -> Outcome {
    shared::here().count_delegated_call();
    let port = caller.port();
    counts::count(&port.task.counts.delegated);
    // The second cache line of the slot only when something changed.
    if !needs_mask {
        port.slot.set_robust_list(caller.robust_list());
    } else if let Some((mask, robust_list)) = caller.news() {
        port.slot.set_sigmask(mask);
        port.slot.set_robust_list(robust_list);
    }
    let asleep = post(&port.slot);
    let answer = if asleep { None } else { (0..EAGER).find_map(|_| port.slot.lwk_poll()) };
    match answer.or_else(|| await_answer(caller, asleep)) {
        Some(Answer::Done(result)) => Outcome::Done(result),
        Some(Answer::NotStarted) => Outcome::NotStarted,
        None => Outcome::PeerGone,
    }
}

/// The answer of the running thread's worker, which has not come at once; `asleep`: it has to be
/// rung.
#[cold]
fn await_answer(caller: &(impl Delegates + ?Sized), asleep: bool) -> Option<Answer> {
    let port = caller.port();
    if asleep {
        ring_worker(port.space, port.slot_index, &port.slot);
    }
    let mut answered = Answered { caller, answer: Cell::new(None) };
    wait_for(caller, &mut answered, asleep);
    answered.answer.get()
}

/// Waits for the side that answers the running thread: polls for a while, unless that side was
/// `asleep`, then sleeps.
#[inline(always)]
pub fn wait_for(caller: &(impl Delegates + ?Sized), answered: &mut impl cpus::Wait, asleep: bool) {
    let port = caller.port();
    let longest = TIMES.longest.load(Ordering::Relaxed);
    let window = if longest == 0 { 0 } else { port.patience.window(longest) };
    let short = TIMES.short.load(Ordering::Relaxed);
    if !asleep && cpus::poll_for(answered, window.min(short)) {
        return;
    }
    let start = cpu::rdtsc();
    // A thread that halts alone looks at no deadline.
    let alone = match answered.deadline() {
        cpus::NEVER => cpus::wait_alone(caller, answered, start, window),
        _ => None,
    };
    let now = alone.unwrap_or_else(|| {
        cpus::wait(answered, window);
        cpu::rdtsc()
    });
    if longest != 0 {
        let quick = TIMES.quick.load(Ordering::Relaxed);
        port.patience.waited(now.wrapping_sub(start), longest, quick);
    }
}

/// Asks a worker that has no thread: the caller does not wait, and the answer is in the worker's
/// slot later.
pub fn ask_worker(space: u32, index: u32, slot: SlotRef<'_>, request: Control) {
    if slot.lwk_ask(request) {
        ring_worker(space, index, &slot);
    }
}

/// Rings the worker of a slot, which sleeps, at the CPU of Linux' where it went to sleep.
pub fn ring_worker(space: u32, index: u32, slot: &SlotRef<'_>) {
    doorbell::ring(slot.doorbell(), EVENT_SLOT, u64::from(space) << 24 | u64::from(index));
}
