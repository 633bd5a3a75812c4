//! The direct link: a slot and a worker for each thread, the same addresses on both sides. Post to
//! the slot, wait, take the answer.

use crate::base::counts;
use crate::link::bells;
use crate::link::caller::Delegates;
use crate::link::interface::Link;
use crate::sched::{cpus, doorbell};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::EVENT_SLOT;
use hanare_abi::control::Control;
use hanare_core::link::{self, Asker, Call, Outcome, Sake};
use hanare_hal::{cpu, shared};
use hanare_ikc::{Answer, SlotRef};

/// An answer within this time costs neither accounting nor a look at other threads, µs.
const SHORT_US: u64 = 5;
/// Calls up to this long are polled for, if the last one was no longer, µs.
const LONG_US: u64 = 150;
/// Looks at the slot without a look at anything else: an answer that comes at once takes about as long, half a
/// microsecond. A CPU that shoots down TLB entries waits that much longer at most, which is less than an interrupt takes.
const EAGER: u32 = 512;
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

/// How long a CPU with nothing else to do polls for an answer.
pub fn spin_cycles() -> u64 {
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
            bells::expect_ring(self.caller.owner().space, slot, self.caller.port().bell);
            // Whether an answer is there already is looked at by `ready`.
            let _ = slot.lwk_prepare_sleep();
        } else {
            slot.lwk_awake();
        }
    }
}

/// The one direct link.
pub struct Direct;

impl Link for Direct {
    /// A thread that has to end though its process goes on begins no call; one in flight is awaited, since its worker
    /// serves another thread next (`Control::Interrupt` sees to it that it ends soon).
    #[inline(always)] // every delegated call of a program goes this way
    fn call(&self, context: &(impl Delegates + ?Sized), call: Call) -> Outcome {
        if call.sake == Sake::Thread {
            context.tell_owed();
        }
        // After that, which may have taken the only interruption that there is.
        if let Err(outcome) = link::may_begin(asker(context), call.sake) {
            return outcome;
        }
        context.asks(None);
        let outcome = exchange(context, |slot| slot.lwk_post(call.nr, call.args));
        context.asked(None);
        outcome
    }

    fn ask(&self, context: &(impl Delegates + ?Sized), request: Control) -> Outcome {
        loop {
            if !matches!(request, Control::SignalAction { .. }) {
                context.tell_owed(); // which makes such requests
            }
            if let Err(outcome) = link::may_begin(asker(context), link::sake(&request)) {
                return outcome;
            }
            context.asks(Some(&request));
            let outcome = exchange(context, |slot| slot.lwk_ask(request));
            context.asked(Some(&request));
            if outcome != Outcome::NotStarted {
                return outcome;
            }
            cpus::yield_now(); // a proxy may say so for ever: the CPU is the others', too
        }
    }
}

fn asker(context: &(impl Delegates + ?Sized)) -> Asker {
    match context.must_end() {
        false => Asker::Runs,
        true if context.is_killed() => Asker::IsAlone,
        true => Asker::Ends,
    }
}

/// Posts to the slot of the running thread and waits for the answer. [`Outcome::PeerGone`]: the
/// process was killed meanwhile.
#[inline(always)] // as `call`
fn exchange(
    caller: &(impl Delegates + ?Sized),
    post: impl FnOnce(&SlotRef<'_>) -> bool,
) -> Outcome {
    shared::here().count_delegated_call();
    let port = caller.port();
    counts::count(&port.counts.delegated);
    // The second cache line of the slot only when something changed.
    if let Some((mask, robust_list)) = caller.news() {
        port.slot.set_sigmask(mask);
        port.slot.set_robust_list(robust_list);
    }
    let asleep = post(&port.slot);
    let answer = if asleep { None } else { (0..EAGER).find_map(|_| port.slot.lwk_poll()) };
    if answer.is_some() {
        port.last_call.store(0, Ordering::Relaxed);
    }
    match answer.or_else(|| await_answer(caller, asleep)) {
        Some(Answer::Done(result)) => Outcome::Done(result),
        Some(Answer::NotStarted) => Outcome::NotStarted,
        None => Outcome::PeerGone,
    }
}

/// The answer of the running thread's worker, which has not come at once; `asleep`: it has to be rung.
#[cold]
fn await_answer(caller: &(impl Delegates + ?Sized), asleep: bool) -> Option<Answer> {
    let port = caller.port();
    if asleep {
        ring_worker(caller.owner().space, port.slot_index);
    }
    let mut answered = Answered { caller, answer: Cell::new(None) };
    let base = spin_cycles();
    if !asleep && cpus::poll_for(&answered, base.min(cycles(SHORT_US))) {
        port.last_call.store(0, Ordering::Relaxed);
    } else {
        let start = cpu::rdtsc();
        cpus::wait(&mut answered, patience(caller, base));
        port.last_call.store(cpu::rdtsc().wrapping_sub(start), Ordering::Relaxed);
    }
    answered.answer.get()
}

/// Asks a worker that has no thread: nobody waits here, the answer is in its slot later.
pub fn ask_worker(space: u32, index: u32, slot: SlotRef<'_>, request: Control) {
    if slot.lwk_ask(request) {
        ring_worker(space, index);
    }
}

/// Rings the worker of a slot, which sleeps.
pub fn ring_worker(space: u32, slot: u32) {
    doorbell::ring(EVENT_SLOT, u64::from(space) << 24 | u64::from(slot));
}
