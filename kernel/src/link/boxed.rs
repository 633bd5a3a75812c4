//! The request box: a call stays in its thread's slot, and a bit in the box of the process says that it waits for any of
//! the process' servers (`ikc/src/requestbox.rs`). What no server may execute, and what none takes in time, goes by
//! [`Direct`].

use crate::base::counts;
use crate::base::lock::{Mutex, rank};
use crate::base::time;
use crate::link::bells;
use crate::link::caller::Delegates;
use crate::link::direct::{self, Direct};
use crate::link::interface::Link;
use crate::sched::{cpus, doorbell};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::EVENT_SLOT;
use hanare_abi::requestbox::SERVERS_MAX;
use hanare_core::link::pool::{self, Load, Watch};
use hanare_core::link::{self, Call, Outcome};
use hanare_core::options::Dispatch;
use hanare_core::syscalls::{self, By};
use hanare_hal::{cpu, shared};
use hanare_ikc::{Answer, BoxRef, SlotRef};
use linux_raw_sys::general::{__NR_signalfd, __NR_signalfd4};
use spin::Once;

/// How long no server is asked for after Linux had no thread to give, ns.
const REFUSED_NS: u64 = 1_000_000_000;

static OPTIONS: Once<Dispatch> = Once::new();
/// Calls that servers have executed, of all processes; calls that were taken back; servers that were made.
static EXECUTED: AtomicU64 = AtomicU64::new(0);
static TAKEN_BACK: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);

/// Takes the boot options.
pub fn init(options: Dispatch) {
    OPTIONS.call_once(|| options);
}

/// The boot options.
pub fn options() -> Dispatch {
    OPTIONS.get().copied().unwrap_or_default()
}

/// Calls that servers have executed, those that were taken back, servers that were made.
pub fn counted() -> [u64; 3] {
    [&EXECUTED, &TAKEN_BACK, &MADE].map(|count| count.load(Ordering::Relaxed))
}

/// Most servers of a process.
fn most() -> u32 {
    let p = shared::params();
    pool::most(options().servers, p.linux_cpu_ids.saturating_sub(p.cpu_count), SERVERS_MAX)
}

/// Where a server is, or was.
#[derive(Default)]
pub struct Place {
    /// Its own slot, which a later server with this number has, too.
    pub slot: Option<(u32, SlotRef<'static>)>,
    /// It was started, and has not been told to end.
    pub is_used: bool,
}

/// A process' request box and its servers.
#[derive(Default)]
pub struct Pool {
    /// Calls go by the box where they may.
    is_open: AtomicBool,
    /// The box, once a server was made.
    page: Once<BoxRef<'static>>,
    /// Servers that take calls, a bit each.
    present: AtomicU64,
    /// Their slots, for who rings one.
    slots: [AtomicU32; SERVERS_MAX as usize],
    /// One thread at a time makes or ends servers.
    pub places: Mutex<[Place; SERVERS_MAX as usize], rank::Servers>,
    /// A thread is asking for a server.
    grows: AtomicBool,
    /// Until when none is asked for, TSC.
    refused: AtomicU64,
    /// What the servers have from the worker that made them (`workers`).
    pub attributes: AtomicU64,
    /// Calls in the box or with a server.
    calls: AtomicU32,
    /// Calls that servers have ended.
    ended: AtomicU32,
    /// Most of `calls` at once, since the TSC value `since`.
    needed: AtomicU32,
    since: AtomicU64,
}

impl Pool {
    /// Calls go by the box from now on, where they may.
    pub fn open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Whether calls go by the box where they may.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The box, which `make` finds the first time.
    pub fn page(&self, make: impl FnOnce() -> Option<BoxRef<'static>>) -> Option<BoxRef<'static>> {
        if let Some(page) = self.page.get() {
            return Some(*page);
        }
        let page = make()?;
        Some(*self.page.call_once(|| page))
    }

    /// Server `number`, whose slot is `slot`, takes calls from now on. The places are locked.
    pub fn enter(&self, number: usize, slot: u32) {
        self.slots[number].store(slot, Ordering::Relaxed);
        self.present.fetch_or(1 << number, Ordering::Release);
        MADE.fetch_add(1, Ordering::Relaxed);
    }

    /// Server `number` does not take calls any more. The places are locked.
    pub fn leave(&self, number: usize) {
        self.present.fetch_and(!(1 << number), Ordering::Relaxed);
    }

    /// A server that sleeps, and that nobody rings from now on but the caller.
    pub fn take_idle(&self) -> Option<usize> {
        let present = self.present.load(Ordering::Acquire);
        self.page.get()?.take_idle(present).map(|number| number as usize)
    }

    /// Whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.servers() == 0
    }

    fn servers(&self) -> u32 {
        self.present.load(Ordering::Relaxed).count_ones()
    }

    fn load(&self) -> Load {
        let calls = self.calls.load(Ordering::Relaxed);
        Load { servers: self.servers(), most: most(), calls }
    }

    /// One more server where a call would wait, one less where one was not needed for a while.
    fn fit(&self, context: &(impl Delegates + ?Sized)) {
        let (load, now) = (self.load(), cpu::rdtsc());
        if load.grows()
            && now >= self.refused.load(Ordering::Relaxed)
            && !self.grows.swap(true, Ordering::Acquire)
        {
            if !context.add_server() {
                self.refused.store(cpus::deadline(REFUSED_NS), Ordering::Relaxed);
            }
            self.since.store(now, Ordering::Relaxed);
            self.grows.store(false, Ordering::Release);
        }
        let since_ns = time::cycles_to_ns(now.saturating_sub(self.since.load(Ordering::Relaxed)));
        if since_ns >= pool::IDLE_NS {
            self.since.store(now, Ordering::Relaxed);
            let needed = self.needed.swap(load.calls + 1, Ordering::Relaxed);
            if load.shrinks(needed, since_ns) {
                context.end_server();
            }
        }
    }

    fn ring(&self, space: u32, server: u32, near: u32) {
        let slot = self.slots[(server % SERVERS_MAX) as usize].load(Ordering::Relaxed);
        doorbell::ring(near, EVENT_SLOT, u64::from(space) << 24 | u64::from(slot));
    }
}

/// Has a call of the running thread `context` executed by a server, or by its own worker.
#[inline(never)] // calls that go directly do not pay for it
pub fn call(context: &(impl Delegates + ?Sized), call: Call) -> Outcome {
    by_server(context, &call).unwrap_or_else(|| Direct.call(context, call))
}

/// `None`: it is the own worker's, and nobody has begun it.
fn by_server(context: &(impl Delegates + ?Sized), call: &Call) -> Option<Outcome> {
    let (pool, by) = (context.pool(), syscalls::executed_by(call.nr.into()));
    if by == By::Own {
        // Who reads such a descriptor takes signals that are pending for the reading thread.
        if matches!(call.nr, __NR_signalfd | __NR_signalfd4) {
            pool.open(false);
        }
        return None;
    }
    if !pool.is_open() {
        context.port().boxes.store(false, Ordering::Relaxed);
        return None;
    }
    context.tell_owed();
    if let Err(outcome) = link::may_begin(direct::asker(context), call.sake) {
        return Some(outcome);
    }
    if !context.may_box(by, call) {
        return None;
    }
    pool.fit(context);
    let (present, calls) = (pool.present.load(Ordering::Acquire), *pool.page.get()?);
    if present == 0 || context.must_end() {
        return None;
    }
    context.asks(None);
    pool.calls.fetch_add(1, Ordering::Relaxed);
    let end = exchange(context, pool, calls, present, call);
    let before = pool.calls.fetch_sub(1, Ordering::Relaxed);
    pool.needed.fetch_max(before, Ordering::Relaxed);
    context.asked(None);
    Some(match end {
        End::TakenBack => {
            TAKEN_BACK.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        End::Gone => Outcome::PeerGone,
        End::Answered(answer) => {
            shared::here().count_delegated_call();
            counts::count(&context.port().counts.delegated);
            pool.ended.fetch_add(1, Ordering::Relaxed);
            EXECUTED.fetch_add(1, Ordering::Relaxed);
            outcome(context, answer)
        }
    })
}

/// A signal interrupts the server through the thread's own worker, and may be taken before it does: where nothing is left
/// to be seen to, the call is made again.
fn outcome(context: &(impl Delegates + ?Sized), answer: Answer) -> Outcome {
    const EINTR: i64 = hanare_core::errno::EINTR.as_return();
    match answer {
        Answer::Done(EINTR) if !context.has_signal() && !context.must_end() => Outcome::NotStarted,
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
    pool: &Pool,
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
            pool.ring(port.space, server, calls.doorbell(server));
            0
        }
        None => EAGER,
    };
    match (0..looks).find_map(|_| port.slot.lwk_poll()) {
        Some(answer) => End::Answered(answer),
        None => await_answer(context, pool, calls, rung.is_some()),
    }
}

/// Waits for the answer to the running thread's call in the box.
struct Answered<'a, C: ?Sized> {
    caller: &'a C,
    pool: &'a Pool,
    calls: BoxRef<'static>,
    answer: Cell<Option<Answer>>,
    /// A server was rung for it.
    is_rung: bool,
    /// When it is looked at whether servers end calls, TSC.
    until: u64,
}

impl<C: Delegates + ?Sized> Answered<'_, C> {
    /// No server is left, and none has taken it.
    fn is_abandoned(&self) -> bool {
        self.pool.servers() == 0 && self.calls.waits(self.caller.port().slot_index)
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
            || self.until != cpus::NEVER && cpu::rdtsc() >= self.until
    }
    fn near(&self) -> bool {
        !self.is_rung
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
    pool: &Pool,
    calls: BoxRef<'static>,
    is_rung: bool,
) -> End {
    let (ended, now_ns) =
        (|| pool.ended.load(Ordering::Relaxed), || time::cycles_to_ns(cpu::rdtsc()));
    let slot = caller.port().slot_index;
    let mut watch = Watch::new(ended(), now_ns());
    let (answer, until) = (Cell::new(None), cpus::NEVER);
    let mut what = Answered { caller, pool, calls, answer, is_rung, until };
    loop {
        // A server that was rung begins with it. One that waits for any server may find all of them blocked.
        let is_watched = !is_rung && calls.waits(slot);
        let left_ns = watch.deadline_ns().saturating_sub(now_ns());
        what.until = if is_watched { cpus::deadline(left_ns) } else { cpus::NEVER };
        direct::wait_for(caller, &mut what, is_rung);
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
