//! A trace: records of system calls and signals into a ring.

use crate::base::accounts::Account;
use crate::base::counts::{Counted, Kind};
use crate::base::heap;
use crate::base::lock::Mutex;
use crate::base::time;
use crate::base::usermemory::Running;
use crate::parts::observed::{TRACED, Trace, tell};
use crate::parts::ring::Ring;
use crate::process::thread::Thread;
use crate::process::{Process, outside};
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanare_abi::observe::*;
use hanare_core::errno::{self, Result};
use hanare_core::signal::QueuedSignal;
use hanare_core::syscalls::arguments::Direction;
use hanare_core::syscalls::capture::{Captures, capture};
use hanare_core::syscalls::{self, Service};
use hanare_core::time::Clock;
use hanare_hal::addr::PhysAddr;
use hanare_hal::cpu;
use zerocopy::IntoBytes;

/// Most bytes kept of data.
const DATA_MAX: u64 = 4096;
/// How long a thread waits for a tracer that does not keep up, before records are lost.
const PATIENCE_NS: u64 = 50_000_000;
/// How often a waiting thread looks whether the tracer has caught up, ns.
const LOOK_NS: u64 = 1_000_000;

impl Trace {
    /// A trace with the flags and sizes of `OBSERVE_TRACE`.
    pub fn new(
        session: u32,
        flags: u64,
        data_max: u64,
        account: &Arc<Account>,
    ) -> Result<Arc<Trace>> {
        if flags & !TRACE_FOLLOW != 0 || data_max > DATA_MAX {
            return Err(errno::EINVAL);
        }
        heap::arc(Trace {
            session,
            follow: flags & TRACE_FOLLOW != 0,
            data_max: data_max as usize,
            ring: Mutex::new(Some(Ring::new(account)?)),
            watched: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            _charge: account.charge(size_of::<Trace>() as u64)?,
            _counted: Counted::new(Kind::Trace),
        })
    }

    /// Physical address of the ring, and bytes of its text, as `OBSERVE_TRACE` answers. `None`: the
    /// trace is closed.
    pub fn place(&self) -> Option<(PhysAddr, u64)> {
        self.ring.lock().as_ref().map(Ring::place)
    }

    /// Number of processes that the trace watches.
    pub fn watched(&self) -> u64 {
        self.watched.load(Ordering::Relaxed)
    }

    /// Whether children are traced, too.
    pub fn follows(&self) -> bool {
        self.follow && !self.closed.load(Ordering::Relaxed)
    }

    /// Begins with a process.
    pub fn watch(self: &Arc<Self>, p: &Process) {
        self.will_watch().watch(p);
    }

    /// A process is to be watched that does not run yet, and counts from now on.
    pub fn will_watch(self: &Arc<Self>) -> Expected {
        self.count(1);
        Expected(Some(self.clone()))
    }

    /// So many processes more are watched. Once there is none the tracer is told that it has read
    /// all when it has read what is there.
    fn count(&self, more: i64) {
        let ring = self.ring.lock();
        let watched = self.watched.load(Ordering::Relaxed).saturating_add_signed(more);
        self.watched.store(watched, Ordering::Relaxed);
        ring.iter().for_each(|ring| ring.set_over(watched == 0));
    }

    /// The tracer is gone, or has read all: processes let go of the trace at their next call. The
    /// ring is free.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let ring = self.ring.lock().take();
        drop(ring);
    }

    /// Whether the tracer is gone.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Notes that a watched process is gone.
    pub fn gone(&self, p: &Process) {
        let pid = p.pid();
        self.record(&Record { kind: RECORD_GONE, pid, tid: pid, ..record() }, &Captures::default());
        self.count(-1);
        tell(self.session);
    }

    fn record(&self, r: &Record, captures: &Captures) {
        let size = (size_of::<Record>() + captures.bytes.len()) as u32;
        let head = head(&Record { size, ..*r });
        let mut ring = self.ring.lock();
        let hurry = ring.as_mut().is_some_and(|r| r.push(&[head.as_bytes(), &captures.bytes]));
        drop(ring);
        if hurry {
            tell(self.session);
        }
    }

    /// Gives a tracer that is behind some time. Without any lock.
    fn give_time(&self, thread: &Thread) {
        let end = cpus::deadline(PATIENCE_NS);
        let is_tight = || self.ring.lock().as_ref().is_some_and(Ring::is_tight);
        let has_room = || !is_tight() || self.is_closed() || thread.must_end();
        // No wake-up comes when there is room again: look every now and then.
        while !has_room() && cpu::rdtsc() <= end {
            cpus::until(has_room, cpus::deadline(LOOK_NS).min(end));
        }
    }
}

/// A process that a trace is to watch: a child, whose parent may be gone before it begins. As long
/// as one is expected the trace is not over.
pub struct Expected(Option<Arc<Trace>>);

impl Expected {
    /// Has the trace watch `p`, the process that was expected.
    pub fn watch(mut self, p: &Process) {
        *p.observed.trace.lock() = self.0.take();
        p.observed.set(TRACED, true);
        outside::call_back(p);
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        if let Some(trace) = self.0.take() {
            trace.count(-1);
            tell(trace.session);
        }
    }
}

fn record() -> Record {
    Record { time_ns: time::now(Clock::Realtime).unwrap_or(0), ..Record::default() }
}

fn of_thread(thread: &Thread) -> Record {
    Record { pid: thread.process.pid(), tid: thread.tid(), ..record() }
}

/// The fields as the words that they are: `Record` has no padding.
fn head(r: &Record) -> [u64; size_of::<Record>() / 8] {
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let [a, b, c, d, e, f] = r.args;
    [
        two(r.size, r.kind),
        two(r.pid, r.tid),
        two(r.number, r.served),
        r.time_ns,
        r.duration_ns,
        r.result as u64,
        a,
        b,
        c,
        d,
        e,
        f,
    ]
}

/// The trace that wants to know of this thread.
fn of(thread: &Thread) -> Option<Arc<Trace>> {
    let o = &thread.process.observed;
    if !o.has(TRACED) {
        return None;
    }
    let mut own = o.trace.lock();
    let t = own.as_ref()?;
    if t.is_closed() {
        *own = None;
        o.set(TRACED, false);
        return None;
    }
    (t.follow || thread.port.slot_index == thread.process.first_slot).then(|| t.clone())
}

/// A call whose beginning was recorded, as its thread's `observe` says. That names the trace and
/// holds no reference to it: exit(2) does not come back, so nothing on its thread's stack is ever
/// dropped.
pub struct Entered {
    args: [u64; 6],
}

/// A call begins.
pub fn enter(thread: &Thread, number: u64, args: [u64; 6]) -> Option<Entered> {
    let trace = of(thread)?;
    let captures = capture(&Running, number, &args, 0, Direction::In, trace.data_max);
    trace.give_time(thread);
    trace.record(
        &Record { kind: RECORD_ENTER, number: number as u32, args, ..of_thread(thread) },
        &captures,
    );
    thread.observe.asked.store(0, Ordering::Relaxed);
    thread.observe.session.store(trace.session, Ordering::Relaxed);
    thread.observe.number.store(number as u32, Ordering::Relaxed);
    thread.observe.began.store(cpu::rdtsc(), Ordering::Relaxed);
    Some(Entered { args })
}

/// A call of the thread's has succeeded that does not come back to it: an execve. What it refers to
/// is gone.
pub fn has_left(trace: &Trace, thread: &Thread) {
    if let Some((number, duration_ns)) = ended(thread, trace) {
        let served = SERVED_HELPED;
        trace.record(
            &Record { kind: RECORD_EXIT, number, served, duration_ns, ..of_thread(thread) },
            &Captures::default(),
        );
    }
}

/// The call that the thread is in is over: its number and its time, ns. `None`: this trace has not
/// seen it begin.
fn ended(thread: &Thread, trace: &Trace) -> Option<(u32, u64)> {
    let own = &thread.observe;
    let began = own.began.swap(0, Ordering::Relaxed);
    let duration_ns = time::cycles_to_ns(cpu::rdtsc().wrapping_sub(began));
    let is_seen = began != 0 && own.session.load(Ordering::Relaxed) == trace.session;
    is_seen.then(|| (own.number.load(Ordering::Relaxed), duration_ns))
}

impl Entered {
    /// The call is over: its record is completed.
    pub fn leave(self, thread: &Thread, result: i64) {
        if thread.must_end() {
            return; // it never comes back to the program
        }
        let Some(trace) = of(thread) else { return };
        let Some((number, duration_ns)) = ended(thread, &trace) else { return };
        let served = match (
            syscalls::row(number.into()).map(|row| row.service),
            thread.observe.asked.load(Ordering::Relaxed),
        ) {
            (None | Some(Service::Refused(..)), _) => SERVED_REFUSED,
            (_, 0) => SERVED_LOCAL,
            (Some(Service::Delegated(_)), _) | (_, 2) => SERVED_DELEGATED,
            _ => SERVED_HELPED,
        };
        let captures =
            capture(&Running, number.into(), &self.args, result, Direction::Out, trace.data_max);
        trace.record(
            &Record {
                kind: RECORD_EXIT,
                number,
                served,
                duration_ns,
                result,
                args: self.args,
                ..of_thread(thread)
            },
            &captures,
        );
    }
}

/// A signal is about to be delivered.
pub fn signal(thread: &Thread, queued: &QueuedSignal) {
    if let Some(t) = of(thread) {
        let mut args = [0; 6];
        args.copy_from_slice(&queued.info.to_words()[..6]);
        t.record(
            &Record { kind: RECORD_SIGNAL, number: queued.signal, args, ..of_thread(thread) },
            &Captures::default(),
        );
    }
}

/// The process ends by a signal.
pub fn killed(thread: &Thread, signal: u32) {
    if let Some(t) = of(thread) {
        t.record(
            &Record { kind: RECORD_KILLED, number: signal, ..of_thread(thread) },
            &Captures::default(),
        );
    }
}
