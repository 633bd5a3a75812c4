//! Services of the module (abi::service): taking an entry, having it run, and
//! reading the answer.

use crate::base::heap;
use crate::base::lists;
use crate::base::lock::assert_none_held;
use crate::base::time::NEVER;
use crate::link::caller::{self, Delegates, Owner};
use crate::link::{delegate, direct, inbound};
use crate::sched::{cpus, doorbell, tlb};
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use hanare_abi::boot::EVENT_SERVICE;
use hanare_abi::control::Control;
use hanare_abi::service::{
    EXTENTS_MAX, SERVICE_BINFMT, SERVICE_FILE_GET, SERVICE_FILE_PUT, SERVICE_FILL, SERVICE_HELD,
    SERVICE_MAY, SERVICE_PROGRAM_GET, SERVICE_READY, SERVICE_READY_FAULT, SERVICE_READY_THREAD,
    SERVICE_ZAP,
};
use hanare_core::errno::{self, Errno};
use hanare_core::fair;
use hanare_core::link::Failure;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::{cpu, percpu, shared};
use hanare_ikc::ServiceCall;
use spin::Once;

/// How long a thread waits for the service thread of the module, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How long a CPU without a thread that can wait looks for its answer, ns.
const AT_ONCE_NS: u64 = 100_000_000;
/// Entries of a CPU that only the service thread gets, as bits: users whose files are slow must not
/// hold up what is asked of it.
const RESERVED: u64 = 0xff;
/// Time from one look of a thread for a free entry to the next, ns, at first.
const LOOK_NS: u64 = 1_000_000;
/// Longest time from one look to the next, ns. Many threads may wait for what one user holds, on a
/// CPU that others have, too.
const LOOK_MOST_NS: u64 = 32_000_000;

/// Bit i: entry i of this CPU's share is in use.
static USED: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];
/// Owners of the entries in use: user << 32 | space.
static OWNERS: [[AtomicU64; 64]; CPUS_MAX] =
    [const { [const { AtomicU64::new(0) }; 64] }; CPUS_MAX];
/// Bit i: entry i was posted without a waiter; free once it is done.
static ASYNC: [AtomicU64; CPUS_MAX] = [const { AtomicU64::new(0) }; CPUS_MAX];

/// Questions of services about the memory that they are for.
pub struct Memory {
    /// Frees entries for which no thread comes.
    pub sweep: fn(),
    /// The owner of the space with this id, if Linux still has the space.
    pub owner: fn(u32) -> Option<Owner>,
}

static MEMORY: Once<&Memory> = Once::new();

/// Said once, at boot.
pub fn init(memory: &'static Memory) {
    MEMORY.call_once(|| memory);
}

fn memory() -> Option<&'static Memory> {
    MEMORY.get().copied()
}

/// The task that is to run a service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A worker of the space.
    Worker,
    /// A task whose fault in the space needs the service.
    Fault,
    /// The service thread of the module.
    Thread,
}

/// An entry in use, freed when dropped; not while it is run.
pub struct Entry {
    index: u32,
}

/// Result of a service.
pub struct Answer {
    /// Non-negative result.
    pub status: u64,
    /// The kind's answer arguments.
    pub args: [u64; 5],
    /// Bit i: extent i is still held by Linux.
    pub held: u64,
    /// The extents, as answered.
    pub extents: Extents,
}

/// Numbers that an entry has room for.
pub struct Extents {
    all: [u64; EXTENTS_MAX],
    count: usize,
}

impl Extents {
    /// Takes some numbers, as many as there is room for.
    pub fn of(numbers: impl Iterator<Item = u64>) -> Extents {
        let (mut all, mut count) = ([0; EXTENTS_MAX], 0);
        for (place, number) in all.iter_mut().zip(numbers) {
            (*place, count) = (number, count + 1);
        }
        Extents { all, count }
    }
}

impl Deref for Extents {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.all[..self.count]
    }
}

fn per_cpu() -> u32 {
    (shared::params().service_count / shared::params().cpu_count).min(64)
}

impl Entry {
    /// A free entry of this CPU, filled in. `None`: the space or its user has its share, or all are
    /// in use. The workers that run them may be stopped, or wait for a file that does not come:
    /// other users' programs do not wait for them.
    pub fn of(p: Owner, by: By, kind: u32, args: &[u64], extents: &[u64]) -> Option<Entry> {
        assert!(extents.len() <= EXTENTS_MAX);
        let me = percpu::index();
        let base = me as u32 * per_cpu();
        collect_async(me, base);
        let (ready, parts) = match by {
            By::Worker => (SERVICE_READY, &[common()][..]),
            By::Fault => (SERVICE_READY_FAULT, &[common()][..]),
            By::Thread => (SERVICE_READY_THREAD, &[RESERVED, common()][..]),
        };
        let used = USED[me].load(Ordering::Relaxed);
        let i = parts.iter().find_map(|&part| fair::find(part, used, p, owner_of))?;
        USED[me].fetch_or(1 << i, Ordering::Relaxed);
        OWNERS[me][i as usize]
            .store(u64::from(p.user) << 32 | u64::from(p.space), Ordering::Relaxed);
        let mut all = [0; 5];
        all[..args.len()].copy_from_slice(args);
        let call = ServiceCall { kind, space: p.space, args: all, extents, ready };
        shared::service(base + i).prepare(&call);
        Some(Entry { index: base + i })
    }

    /// Index of the entry, for `STATUS_SERVE_FIRST`.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether the service was run.
    pub fn is_done(&self) -> bool {
        shared::service(self.index).poll().is_some()
    }

    /// Takes it back unless it is being run: until it is done it and its frames are Linux'.
    pub fn withdraw(&self) -> bool {
        shared::service(self.index).withdraw()
    }

    /// The answer, if the service is done.
    pub fn answer(&self) -> Option<Result<Answer, Errno>> {
        let r = shared::service(self.index);
        let status = r.poll()?;
        Some(match Errno::from_return(status) {
            Some(e) => Err(e),
            None => {
                let mut all = [0; EXTENTS_MAX];
                let count = r.extents(&mut all);
                Ok(Answer {
                    status: status as u64,
                    args: r.args(),
                    held: r.held(),
                    extents: Extents { all, count },
                })
            }
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        assert!(self.withdraw(), "service {} is given up while Linux runs it", self.index);
        let i = self.index % per_cpu();
        USED[(self.index / per_cpu()) as usize].fetch_and(!(1 << i), Ordering::Relaxed);
    }
}

/// The owner of an entry of the calling CPU.
fn owner_of(i: u32) -> Owner {
    let owner = OWNERS[percpu::index()][i as usize].load(Ordering::Relaxed);
    Owner { user: (owner >> 32) as u32, space: owner as u32 }
}

/// Whether an entry may become free for the service thread while the calling CPU is kept. Those
/// that threads of this CPU wait for do not.
fn may_come(p: Owner) -> bool {
    let me = percpu::index();
    let (used, pending) = (USED[me].load(Ordering::Relaxed), ASYNC[me].load(Ordering::Relaxed));
    [RESERVED, common()].iter().any(|&part| fair::may_come(part, used, pending, p, owner_of))
}

/// Whether an entry of the calling CPU is free that only the service thread gets.
fn has_reserved() -> bool {
    USED[percpu::index()].load(Ordering::Relaxed) & RESERVED != RESERVED
}

/// Entries of a CPU that are not the service thread's.
fn common() -> u64 {
    u64::MAX >> (64 - per_cpu()) & !RESERVED
}

fn collect_async(me: usize, base: u32) {
    let mut pending = ASYNC[me].load(Ordering::Relaxed);
    while pending != 0 {
        let i = pending.trailing_zeros();
        pending &= pending - 1;
        if shared::service(base + i).poll().is_some() {
            ASYNC[me].fetch_and(!(1 << i), Ordering::Relaxed);
            drop(Entry { index: base + i });
        }
    }
}

/// Run by the worker of the running thread `me`. One that has to end keeps the memory the same on
/// both sides, but does not begin what may wait for a file: who replaces the program waits for it.
pub fn by_worker(
    me: &dyn Delegates,
    kind: u32,
    args: &[u64],
    extents: &[u64],
) -> Result<Answer, Failure> {
    by_worker_in(me, Turn::Awaited, kind, args, extents)
}

/// Like [`by_worker`], but for a thread that can come again: if a signal comes while it waits for
/// its turn, it is not begun ([`Failure::NotStarted`]).
pub fn by_worker_unless_signalled(
    me: &dyn Delegates,
    kind: u32,
    args: &[u64],
    extents: &[u64],
) -> Result<Answer, Failure> {
    by_worker_in(me, Turn::UnlessSignalled, kind, args, extents)
}

/// Like [`by_worker`], for what can be done without: where threads of the process hold all that it
/// may have, which may be for ever, it is not begun ([`Failure::NotStarted`]).
pub fn by_worker_at_once(
    me: &dyn Delegates,
    kind: u32,
    args: &[u64],
    extents: &[u64],
) -> Result<Answer, Failure> {
    by_worker_in(me, Turn::AtOnce, kind, args, extents)
}

/// Way in which a service waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Awaited,
    UnlessSignalled,
    AtOnce,
}

fn by_worker_in(
    me: &dyn Delegates,
    turn: Turn,
    kind: u32,
    args: &[u64],
    extents: &[u64],
) -> Result<Answer, Failure> {
    if matches!(
        kind,
        SERVICE_FILL | SERVICE_PROGRAM_GET | SERVICE_BINFMT | SERVICE_FILE_GET | SERVICE_MAY
    ) && me.must_end()
    {
        return Err(Failure::ThreadEnding);
    }
    let mut pause_ns = LOOK_NS;
    let entry = loop {
        if let Some(e) = Entry::of(me.owner(), By::Worker, kind, args, extents) {
            break e;
        }
        // Threads of the process may wait for files with all that it may have, for ever. The
        // module's thread waits for none, and has entries of its own.
        if matches!(kind, SERVICE_ZAP | SERVICE_HELD)
            && has_reserved()
            && let Some(answer) = by_thread(me, kind, me.owner(), args, extents)
        {
            return Ok(answer);
        }
        let gives_up = || {
            let gives_up = || match turn {
                Turn::Awaited => false,
                Turn::UnlessSignalled => me.has_signal(),
                Turn::AtOnce => true,
            };
            let ends = me.must_end().then_some(Failure::ThreadEnding);
            ends.or_else(|| gives_up().then_some(Failure::NotStarted))
        };
        if let Some(why) = gives_up() {
            return Err(why);
        }
        if let Some(memory) = memory() {
            (memory.sweep)();
        }
        cpus::until_told(|| gives_up().is_some(), cpus::deadline(pause_ns));
        pause_ns = (pause_ns * 2).min(LOOK_MOST_NS);
    };
    let outcome = delegate::ask(me, Control::Serve { service: entry.index });
    if let Some(answer) = entry.answer() {
        return answer.map_err(Failure::Refused);
    }
    if entry.withdraw() {
        return Err(outcome.result().err().unwrap_or(Failure::Refused(errno::EIO)));
    }
    // A broken proxy: another of its threads runs it.
    cpus::wait(&mut Done { entry: &entry, until: NEVER }, 0);
    entry.answer().expect("done").map_err(Failure::Refused)
}

/// Waits for the worker that runs an entry, at most until then. That ends: it is inside the module,
/// and can be killed.
struct Done<'a> {
    entry: &'a Entry,
    until: u64,
}

impl cpus::Wait for Done<'_> {
    fn ready(&self) -> bool {
        self.entry.is_done() || cpu::rdtsc() >= self.until
    }
    fn announce(&self, asleep: bool) {
        let r = shared::service(self.entry.index);
        if asleep {
            // Whether it is done already is looked at by `ready`.
            let _ = r.prepare_sleep(percpu::index() as u32);
        } else {
            r.awake();
        }
    }
    fn deadline(&self) -> u64 {
        self.until
    }
}

fn make_async(entry: Entry) {
    let i = entry.index % per_cpu();
    ASYNC[(entry.index / per_cpu()) as usize].fetch_or(1 << i, Ordering::Relaxed);
    core::mem::forget(entry);
}

/// Run by the module's service thread, for kinds that need no process; the running thread `me`
/// waits. `None`: it failed, or there is no answer in time; or it drops files, no entry is free,
/// and the thread's process is killed, which somebody may wait for. A zap is owed to who shares the
/// memory.
pub fn by_thread(
    me: &dyn Delegates,
    kind: u32,
    p: Owner,
    args: &[u64],
    extents: &[u64],
) -> Option<Answer> {
    assert_none_held();
    let until = cpus::deadline(PATIENCE_NS);
    let gives_up = || kind == SERVICE_FILE_PUT && me.is_killed();
    let entry = loop {
        // The service thread frees the entries of what was posted.
        if let Some(entry) = Entry::of(p, By::Thread, kind, args, extents) {
            break entry;
        }
        if cpu::rdtsc() >= until || gives_up() {
            return None;
        }
        cpus::until_told(gives_up, cpus::deadline(LOOK_NS));
    };
    doorbell::ring(0, EVENT_SERVICE, u64::from(entry.index));
    cpus::wait(&mut Done { entry: &entry, until }, direct::spin_cycles());
    answer_or_leave(entry)
}

/// Like [`by_thread`], for where no thread can wait: while a request of Linux' is served, or when
/// the last thread of a space is gone. The CPU is kept, for a moment at most, and not where the
/// user alone has all that a user may have: the share grows by others' entries only.
pub fn by_thread_at_once(kind: u32, p: Owner, args: &[u64], extents: &[u64]) -> Option<Answer> {
    assert_none_held();
    let until = cpus::deadline(AT_ONCE_NS);
    let entry = spin_for(until, || match Entry::of(p, By::Thread, kind, args, extents) {
        None if !may_come(p) => {
            inbound::take_back(); // Linux asks the retrying CPU meanwhile
            Some(None)
        }
        entry => entry.map(Some),
    })??;
    doorbell::ring(0, EVENT_SERVICE, u64::from(entry.index));
    let _ = spin_for(until, || entry.is_done().then_some(()));
    answer_or_leave(entry)
}

/// The answer, if there is one. If not the service is run some time all the same.
fn answer_or_leave(entry: Entry) -> Option<Answer> {
    if entry.is_done() {
        return entry.answer().and_then(Result::ok);
    }
    make_async(entry);
    None
}

/// Waits, with this CPU kept, for what the service thread makes come. `None`: it is too late.
fn spin_for<T>(until: u64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let found = look();
        if found.is_some() || cpu::rdtsc() > until {
            return found;
        }
        inbound::take_back();
        tlb::serve();
        cpu::pause();
    }
}

/// Run by the module's service thread some time; no thread waits. False: no entry is free.
pub fn post(kind: u32, p: Owner, args: &[u64], extents: &[u64]) -> bool {
    let Some(entry) = Entry::of(p, By::Thread, kind, args, extents) else { return false };
    let index = entry.index;
    make_async(entry);
    doorbell::ring(0, EVENT_SERVICE, u64::from(index));
    true
}

/// Drops a file reference; no thread waits. A space that ends needs none of this: the module drops
/// all its files.
pub fn put_file(space: u32, id: u64) {
    let Some(owner) = memory().and_then(|memory| (memory.owner)(space)) else { return };
    if let Some(caller) = caller::try_current().filter(|c| c.owner().space == space)
        && let Some(list) = caller.port().puts.lock().as_mut()
        && list.len() < EXTENTS_MAX
    {
        return lists::push_within(list, id);
    }
    post_puts(owner, &[id]);
}

fn post_puts(p: Owner, ids: &[u64]) {
    if !post(SERVICE_FILE_PUT, p, &[], ids) {
        // Left to the module, which drops all of a space's files at its end.
        crate::debug!("no service entry to drop files {ids:?}");
    }
}

/// Has the file references that the running thread drops in `f` be dropped by one service. When
/// this returns they are gone: locks, leases and the ban to run or to write a file go with them.
pub fn put_together<T>(f: impl FnOnce() -> T) -> T {
    // Not an argument: what is dropped finds its list by the running thread, too (`put_file`).
    let me = caller::current();
    // Without room for a list each goes by itself.
    let list = heap::with_room(EXTENTS_MAX).ok();
    let outer = core::mem::replace(&mut *me.port().puts.lock(), list);
    let result = f();
    let ids = core::mem::replace(&mut *me.port().puts.lock(), outer).unwrap_or_default();
    if ids.is_empty() || by_worker(me, SERVICE_FILE_PUT, &[], &ids).is_ok() {
        return result;
    }
    // The thread has to end, and its process may go on: what is not dropped now would be held until
    // that ends.
    if me.is_killed() || by_thread(me, SERVICE_FILE_PUT, me.owner(), &[], &ids).is_none() {
        post_puts(me.owner(), &ids); // others may have its space
    }
    result
}
