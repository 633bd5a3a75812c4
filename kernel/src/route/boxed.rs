//! The request box: a call stays in its thread's slot, and a bit in the box of the process says
//! that it waits for any of the process' servers (`ikc/src/requestbox.rs`). A call that no server
//! may execute, or that none takes in time, is its own worker's.

use crate::base::counts;
use crate::base::time;
use crate::link::caller::Delegates;
use crate::link::pool::{self, Pool, State};
use crate::link::{bells, direct};
use crate::process::servers;
use crate::process::thread::Thread;
use crate::sched::cpus;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use hanare_abi::requestbox::BOX_SLOTS;
use hanare_core::link::pool::{IDLE_NS, Watch};
use hanare_core::link::{self, Call, Outcome};
use hanare_core::syscalls::{self, Restart};
use hanare_hal::{cpu, shared};
use hanare_ikc::{Answer, BoxRef};
use linux_raw_sys::general::{__NR_setsockopt, __NR_signalfd, __NR_signalfd4};

/// How long no server is asked for after Linux had no thread to give, ns.
const REFUSED_NS: u64 = 1_000_000_000;

/// One more server of box `number` where a call would wait, one less where one was not needed for a
/// while.
fn fit(pool: &Pool, number: usize, me: &Thread) {
    let (load, now, state) = (pool.load(number), cpu::rdtsc(), pool.state(number));
    if load.grows()
        && now >= state.refused.load(Ordering::Relaxed)
        && !pool.grows.swap(true, Ordering::Acquire)
    {
        if !servers::add(me, number) {
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
            servers::end_one(&me.process, number);
        }
    }
}

/// Whether servers may not execute the calls of a process any more once it makes `call`. A thread
/// that reads a descriptor of signals takes those that are pending for itself. A call on a socket
/// with a timeout ends with `EINTR` whatever SA_RESTART says, which only Linux knows.
fn closes_box(call: &Call) -> bool {
    const TIMEOUTS: [u64; 4] = [20, 21, 66, 67]; // SO_RCVTIMEO, SO_SNDTIMEO, and those for 64 bits
    match call.nr {
        __NR_signalfd | __NR_signalfd4 => true,
        __NR_setsockopt => {
            call.args[1] as u32 == 1 // SOL_SOCKET
                && TIMEOUTS.contains(&(call.args[2] & 0xffff_ffff))
        }
        _ => false,
    }
}

/// Whether a call of the running thread `me` may be put into the box of its process, which `call`
/// may close.
pub fn is_open(me: &Thread, call: &Call) -> bool {
    let is_open = me.process.pool.is_open() && me.port.slot_index < BOX_SLOTS;
    if is_open && closes_box(call) {
        servers::close(&me.process);
        return false;
    }
    is_open
}

/// Has a server execute `message`, which stands for the call `call` of the running thread `me`.
/// Also whether a signal interrupted the server. `None`: no server has begun the call, which is the
/// own worker's to execute.
#[cold]
#[inline(never)] // calls that go directly do not pay for it
pub fn call(me: &Thread, call: &Call, message: &Call) -> Option<(Outcome, bool)> {
    let pool = &me.process.pool;
    me.tell_owed();
    if let Err(outcome) = link::may_begin(direct::asker(me), call.sake) {
        return Some((outcome, false));
    }
    let by = syscalls::executed_by(call.nr.into());
    if !servers::may_execute(me, by, call) || me.port.passes_by.is_so(time::since_boot_ns) {
        return None;
    }
    let number = pool::box_of(call.nr);
    fit(pool, number, me);
    let (calls, state) = (pool.request_box(number)?, pool.state(number));
    // Before its attributes are looked at: servers with others are made only while no call is under
    // way.
    state.calls.fetch_add(1, Ordering::SeqCst);
    let present = state.present.load(Ordering::Acquire);
    let end = (present != 0 && servers::are_like(me) && !me.must_end()).then(|| {
        me.asks_call(message);
        let end = exchange(me, state, calls, present, message);
        me.asked(None);
        end
    });
    let before = state.calls.fetch_sub(1, Ordering::Relaxed);
    state.needed.fetch_max(before, Ordering::Relaxed);
    Some(match end? {
        End::TakenBack { is_stalled } => {
            shared::here().count_unboxed_call();
            if is_stalled {
                me.port.passes_by.was_taken_out(time::since_boot_ns());
            }
            return None;
        }
        End::Gone => (Outcome::PeerGone, false),
        End::Answered(answer) => {
            shared::here().count_delegated_call();
            counts::count(&me.task().counts.delegated);
            shared::here().count_boxed_call();
            match answer {
                Answer::Done(_) => {
                    state.ended.fetch_add(1, Ordering::Relaxed);
                }
                Answer::NotStarted => me.port.passes_by.was_taken_out(time::since_boot_ns()),
            }
            let by_signal = me.port.slot.is_ended_by_signal();
            (outcome(me, call.nr, answer, by_signal), by_signal)
        }
    })
}

/// The outcome of an answer from a server. A signal interrupts the server through the thread's own
/// worker, and may be taken before it does. Where nothing is left to be seen to, a call that has no
/// timeout is made again. Not `close`, which has closed; and not after an `EINTR` without a signal:
/// drivers return that on their own.
pub fn outcome(me: &Thread, nr: u32, answer: Answer, by_signal: bool) -> Outcome {
    const EINTR: i64 = hanare_core::errno::EINTR.as_return();
    let is_again = || {
        by_signal
            && syscalls::row(nr.into()).is_some_and(|row| row.restart == Restart::Sys)
            && !me.has_signal()
            && !me.must_end()
    };
    match answer {
        Answer::Done(EINTR) if is_again() => Outcome::NotStarted,
        Answer::Done(result) => Outcome::Done(result),
        Answer::NotStarted => Outcome::NotStarted,
    }
}

/// The end of a call in the box.
enum End {
    Answered(Answer),
    /// No server has begun it, or will. `is_stalled`: all of them are blocked.
    TakenBack {
        is_stalled: bool,
    },
    /// The process has no proxy any more.
    Gone,
}

fn exchange(me: &Thread, state: &State, calls: BoxRef<'static>, present: u64, call: &Call) -> End {
    /// Looks at the slot without a look at anything else, as of a call that goes directly.
    const EAGER: u32 = 512;
    let port = &me.port;
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
        None => await_answer(me, state, calls, rung),
    }
}

/// Waits for the answer to the running thread's call in the box.
struct Answered<'a> {
    me: &'a Thread,
    state: &'a State,
    calls: BoxRef<'static>,
    answer: Cell<Option<Answer>>,
    /// The server that was rung for it, which begins with it.
    rung: Option<u32>,
    /// When it is looked at whether servers end calls, TSC.
    until: u64,
}

impl Answered<'_> {
    /// No server is left, and none has taken it.
    fn is_abandoned(&self) -> bool {
        self.state.servers() == 0 && self.calls.waits(self.me.port.slot_index)
    }

    /// The server that was rung for it has been told to end.
    fn is_left(&self) -> bool {
        self.rung.is_some_and(|server| !self.state.has(server))
    }
}

impl cpus::Wait for Answered<'_> {
    fn ready(&self) -> bool {
        if self.answer.get().is_none() {
            self.answer.set(self.me.port.slot.lwk_poll());
        }
        self.answer.get().is_some()
            || Delegates::is_killed(self.me)
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
        let port = &self.me.port;
        if asleep {
            bells::expect_ring(port.space, &port.slot, port.task.bell);
        } else {
            port.slot.lwk_awake();
        }
    }
}

#[cold]
fn await_answer(me: &Thread, state: &State, calls: BoxRef<'static>, rung: Option<u32>) -> End {
    let (ended, now_ns) = (|| state.ended.load(Ordering::Relaxed), time::since_boot_ns);
    let slot = me.port.slot_index;
    let mut watch = Watch::new(ended(), now_ns());
    let (answer, until) = (Cell::new(None), cpus::NEVER);
    let mut what = Answered { me, state, calls, answer, rung, until };
    loop {
        // A server that was rung begins with it. One that waits for any server may find all of them
        // blocked.
        if what.is_left() {
            what.rung = None;
        }
        let is_watched = what.rung.is_none() && calls.waits(slot);
        let left_ns = watch.deadline_ns().saturating_sub(now_ns());
        what.until = if is_watched { cpus::deadline(left_ns) } else { cpus::NEVER };
        direct::wait_for(me, &mut what, rung.is_some());
        if let Some(answer) = what.answer.get() {
            return End::Answered(answer);
        }
        if Delegates::is_killed(me) {
            return End::Gone;
        }
        let is_stalled = is_watched && watch.is_stalled(ended(), now_ns());
        if (is_stalled || what.is_abandoned()) && calls.take_back(slot) {
            me.port.slot.lwk_unbox();
            return End::TakenBack { is_stalled };
        }
    }
}
