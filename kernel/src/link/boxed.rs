//! The request box: a call stays in its thread's slot, and a bit in the box of the process says that it waits for any of
//! the process' servers (`ikc/src/requestbox.rs`). What no server may execute, and what none takes in time, goes by
//! [`Direct`].

use crate::base::counts;
use crate::base::time;
use crate::link::bells;
use crate::link::caller::Delegates;
use crate::link::direct::{self, Direct};
use crate::link::interface::Link;
use crate::link::pool::{self, Pool, State};
use crate::sched::cpus;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use hanare_abi::requestbox::BOX_SLOTS;
use hanare_core::link::pool::{IDLE_NS, Watch};
use hanare_core::link::{self, Call, Outcome};
use hanare_core::syscalls::{self, By, Restart};
use hanare_hal::{cpu, shared};
use hanare_ikc::{Answer, BoxRef};
use linux_raw_sys::general::{__NR_setsockopt, __NR_signalfd, __NR_signalfd4};

/// How long no server is asked for after Linux had no thread to give, ns.
const REFUSED_NS: u64 = 1_000_000_000;

/// One more server of box `number` where a call would wait, one less where one was not needed for a while.
fn fit(pool: &Pool, number: usize, context: &(impl Delegates + ?Sized)) {
    let (load, now, state) = (pool.load(number), cpu::rdtsc(), pool.state(number));
    if load.grows()
        && now >= state.refused.load(Ordering::Relaxed)
        && !pool.grows.swap(true, Ordering::Acquire)
    {
        if !context.add_server(number) {
            state.refused.store(cpus::deadline(REFUSED_NS), Ordering::Relaxed);
        }
        state.since.store(now, Ordering::Relaxed);
        pool.grows.store(false, Ordering::Release);
    }
    let since_ns = time::cycles_to_ns(now.saturating_sub(state.since.load(Ordering::Relaxed)));
    if since_ns >= IDLE_NS {
        state.since.store(now, Ordering::Relaxed);
        let needed = state.needed.swap(load.calls + 1, Ordering::Relaxed);
        if load.shrinks(needed, since_ns) {
            context.end_server(number);
        }
    }
}

/// Has a call of the running thread `context` executed by a server where it may be, or by its own worker. Also whether it was
/// a server, which a signal interrupted.
#[cold]
#[inline(never)] // calls that go directly do not pay for it
pub fn call(context: &(impl Delegates + ?Sized), call: &Call) -> (Outcome, bool) {
    call_message(context, call, call)
}

/// Likewise, with `message` in place of the call.
pub fn call_message(
    context: &(impl Delegates + ?Sized),
    call: &Call,
    message: &Call,
) -> (Outcome, bool) {
    match by_server(context, call, message) {
        Some(done) => done,
        None => (Direct.call(context, *message), false),
    }
}

/// Calls on a socket with a timeout end with `EINTR` whatever SA_RESTART says, which only Linux knows.
fn sets_timeout(call: &Call) -> bool {
    const TIMEOUTS: [u64; 4] = [20, 21, 66, 67]; // SO_RCVTIMEO, SO_SNDTIMEO, and those for 64 bits
    call.nr == __NR_setsockopt
        && call.args[1] as u32 == 1 // SOL_SOCKET
        && TIMEOUTS.contains(&(call.args[2] & 0xffff_ffff))
}

/// `None`: it is the own worker's, and nobody has begun it.
fn by_server(
    context: &(impl Delegates + ?Sized),
    call: &Call,
    message: &Call,
) -> Option<(Outcome, bool)> {
    let (pool, by) = (context.pool(), syscalls::executed_by(call.nr.into()));
    if !pool.is_open() || context.port().slot_index >= BOX_SLOTS {
        return None;
    }
    if by == By::Own {
        // Who reads such a descriptor takes signals that are pending for the reading thread.
        if matches!(call.nr, __NR_signalfd | __NR_signalfd4) {
            context.close_box();
        }
        return None;
    }
    if sets_timeout(call) {
        context.close_box();
        return None;
    }
    context.tell_owed();
    if let Err(outcome) = link::may_begin(direct::asker(context), call.sake) {
        return Some((outcome, false));
    }
    if !context.may_box(by, call) || context.port().passes_by.is_so(time::since_boot_ns) {
        return None;
    }
    let number = pool::box_of(call.nr);
    fit(pool, number, context);
    let (calls, state) = (pool.request_box(number)?, pool.state(number));
    // Before its attributes are looked at: servers with others are made only while no call is under way.
    state.calls.fetch_add(1, Ordering::SeqCst);
    let present = state.present.load(Ordering::Acquire);
    let end = (present != 0 && context.fits_servers() && !context.must_end()).then(|| {
        context.asks_call(message);
        let end = exchange(context, state, calls, present, message);
        context.asked(None);
        end
    });
    let before = state.calls.fetch_sub(1, Ordering::Relaxed);
    state.needed.fetch_max(before, Ordering::Relaxed);
    Some(match end? {
        End::TakenBack => {
            shared::here().count_unboxed_call();
            return None;
        }
        End::Gone => (Outcome::PeerGone, false),
        End::Answered(answer) => {
            shared::here().count_delegated_call();
            counts::count(&context.port().counts.delegated);
            shared::here().count_boxed_call();
            match answer {
                Answer::Done(_) => {
                    state.ended.fetch_add(1, Ordering::Relaxed);
                }
                Answer::NotStarted => {
                    context.port().passes_by.was_taken_out(time::since_boot_ns());
                }
            }
            let by_signal = context.port().slot.is_ended_by_signal();
            (outcome(context, call.nr, answer, by_signal), by_signal)
        }
    })
}

/// A signal interrupts the server through the thread's own worker, and may be taken before it does: where nothing is left
/// to be seen to, a call that has no timeout is made again. Not `close`, which has closed, and not what was no signal's doing:
/// drivers say `EINTR` on their own.
pub fn outcome(
    context: &(impl Delegates + ?Sized),
    nr: u32,
    answer: Answer,
    by_signal: bool,
) -> Outcome {
    const EINTR: i64 = hanare_core::errno::EINTR.as_return();
    let is_again = || {
        by_signal
            && syscalls::row(nr.into()).is_some_and(|row| row.restart == Restart::Sys)
            && !context.has_signal()
            && !context.must_end()
    };
    match answer {
        Answer::Done(EINTR) if is_again() => Outcome::NotStarted,
        Answer::Done(result) => Outcome::Done(result),
        Answer::NotStarted => Outcome::NotStarted,
    }
}

/// What has become of a call in the box.
enum End {
    Answered(Answer),
    /// Nobody has begun it, or will.
    TakenBack,
    /// The process has no proxy any more.
    Gone,
}

fn exchange(
    context: &(impl Delegates + ?Sized),
    state: &State,
    calls: BoxRef<'static>,
    present: u64,
    call: &Call,
) -> End {
    /// Looks at the slot without a look at anything else, as of a call that goes directly.
    const EAGER: u32 = 512;
    let port = context.port();
    port.slot.lwk_box(call.nr, call.args);
    let rung = calls.put(port.slot_index, present);
    let looks = match rung {
        Some(server) => {
            state.ring(port.space, server, calls.doorbell(server));
            0
        }
        None => EAGER,
    };
    match (0..looks).find_map(|_| port.slot.lwk_poll()) {
        Some(answer) => End::Answered(answer),
        None => await_answer(context, state, calls, rung),
    }
}

/// Waits for the answer to the running thread's call in the box.
struct Answered<'a, C: ?Sized> {
    caller: &'a C,
    state: &'a State,
    calls: BoxRef<'static>,
    answer: Cell<Option<Answer>>,
    /// The server that was rung for it, which begins with it.
    rung: Option<u32>,
    /// When it is looked at whether servers end calls, TSC.
    until: u64,
}

impl<C: Delegates + ?Sized> Answered<'_, C> {
    /// No server is left, and none has taken it.
    fn is_abandoned(&self) -> bool {
        self.state.servers() == 0 && self.calls.waits(self.caller.port().slot_index)
    }

    /// The server that was rung for it has been told to end.
    fn is_left(&self) -> bool {
        self.rung.is_some_and(|server| !self.state.has(server))
    }
}

impl<C: Delegates + ?Sized> cpus::Wait for Answered<'_, C> {
    fn ready(&self) -> bool {
        if self.answer.get().is_none() {
            self.answer.set(self.caller.port().slot.lwk_poll());
        }
        self.answer.get().is_some()
            || self.caller.is_killed()
            || self.is_abandoned()
            || self.is_left()
            || self.until != cpus::NEVER && cpu::rdtsc() >= self.until
    }
    fn near(&self) -> bool {
        self.rung.is_none()
    }
    fn is_told(&self) -> bool {
        true // by its bell, when its process is killed, and when servers end
    }
    fn deadline(&self) -> u64 {
        self.until
    }
    fn announce(&self, asleep: bool) {
        let port = self.caller.port();
        if asleep {
            bells::expect_ring(port.space, &port.slot, port.bell);
        } else {
            port.slot.lwk_awake();
        }
    }
}

#[cold]
fn await_answer(
    caller: &(impl Delegates + ?Sized),
    state: &State,
    calls: BoxRef<'static>,
    rung: Option<u32>,
) -> End {
    let (ended, now_ns) = (|| state.ended.load(Ordering::Relaxed), time::since_boot_ns);
    let slot = caller.port().slot_index;
    let mut watch = Watch::new(ended(), now_ns());
    let (answer, until) = (Cell::new(None), cpus::NEVER);
    let mut what = Answered { caller, state, calls, answer, rung, until };
    loop {
        // A server that was rung begins with it. One that waits for any server may find all of them blocked.
        if what.is_left() {
            what.rung = None;
        }
        let is_watched = what.rung.is_none() && calls.waits(slot);
        let left_ns = watch.deadline_ns().saturating_sub(now_ns());
        what.until = if is_watched { cpus::deadline(left_ns) } else { cpus::NEVER };
        direct::wait_for(caller, &mut what, rung.is_some());
        if let Some(answer) = what.answer.get() {
            return End::Answered(answer);
        }
        if caller.is_killed() {
            return End::Gone;
        }
        let gives_up = what.is_abandoned() || is_watched && watch.is_stalled(ended(), now_ns());
        if gives_up && calls.take_back(slot) {
            caller.port().slot.lwk_unbox();
            return End::TakenBack;
        }
    }
}
