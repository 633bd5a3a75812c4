//! Out of memory: of the user who has most the process that has most is killed, with all that
//! share its memory, and who asked waits until it is gone. Where a user has come to his own
//! limit it is a process of his. Where NUMA nodes that a policy insists on are full only pages there
//! count, of users and of processes.
//!
//! Everything counts that is charged (`accounts`), not pages alone: also what Linux holds of that which a process has
//! given up (`base/quarantine.rs`). Nothing here needs memory.

use crate::base::accounts::{self, Refusal};
use crate::base::frames::{self, GROUPS};
use crate::base::lock::{Mutex, rank};
use crate::link::services;
use crate::mm::{self, content};
use crate::process::Process;
use crate::process::spaces::{self, ProcessSpace};
use crate::process::thread;
use crate::sched::cpus;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use hanare_abi::service::{OUT_GROUP, OUT_INSTANCE, OUT_NODES, OUT_USER, SERVICE_KILL};
use hanare_core::fair::Owner;
use hanare_core::groups::Tag;
use hanare_core::nodes::Nodes;
use hanare_hal::cpu;
use hanare_hal::paging::SMALL;

/// How long a killed process may take to end before another one is chosen, ns. CPUs of a busy host stand still for seconds, and that
/// is not the others' fault.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How long who needs memory waits before it is looked for a victim again, ns.
const ROOM_NS: u64 = 500_000_000;
/// How often a waiter looks, ns.
const LOOK_NS: u64 = 5_000_000;

/// Whose memory it is that is short.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Short {
    /// There is room by now.
    Not,
    /// The user with this id has what he may have.
    User(u32),
    /// A control group has.
    Group(Tag),
    /// That of these NUMA nodes, which a policy insists on.
    Nodes(Nodes),
    /// The instance's.
    All,
}

impl Short {
    /// Why `p` gets no page.
    fn of(p: &Process) -> Short {
        if p.account.is_full() {
            return Short::User(p.account.user().uid());
        }
        match p.account.refusal() {
            Some(Refusal::Group(group)) if GROUPS.is_full(group) => Short::Group(group),
            Some(Refusal::Nodes(nodes)) if frames::are_full(&nodes) => Short::Nodes(nodes),
            Some(_) => Short::Not,
            None => Short::All,
        }
    }

    /// How much it helps if this space ends: the bytes that its user has, where there may be several
    /// users, then those that it has itself. `None`: it does not help.
    fn weight(self, space: &ProcessSpace) -> Option<[u64; 2]> {
        let counts = match self {
            Short::User(uid) => space.account.user().uid() == uid,
            Short::Group(group) => space.account.is_in(group),
            Short::Nodes(nodes) => {
                let pages = space.pages_on(&nodes);
                let of_user = space.account.user().on_nodes.load(Ordering::Relaxed);
                return (pages > 0).then_some([of_user, pages * SMALL]);
            }
            Short::Not | Short::All => false,
        };
        counts.then(|| [0, space.account.bytes()])
    }

    /// What is free there, bytes.
    fn free(self) -> u64 {
        match self {
            Short::Nodes(nodes) => frames::usage_of(&nodes).0,
            _ => frames::usage().0,
        }
    }

    /// The space whose end helps most.
    fn victim(self) -> Option<Arc<ProcessSpace>> {
        match self {
            Short::All => richest().and_then(|uid| most_of(Short::User(uid))),
            _ => most_of(self),
        }
    }

    /// What Linux is told of it when `p` is killed: bytes in use, all that there may be, and whose
    /// (`SERVICE_KILL`).
    fn report(self, p: &Process) -> [u64; 3] {
        let at_limit = match self {
            Short::Group(group) => Some((GROUPS.usage(group).map(|pages| pages * 4096), OUT_GROUP)),
            Short::User(_) => p.account.user().excess().map(|usage| (usage, OUT_USER)),
            Short::Not | Short::Nodes(_) | Short::All => None,
        };
        let ((free, total), whose_all) = match self {
            Short::Nodes(nodes) => (frames::usage_of(&nodes), OUT_NODES),
            _ => (frames::usage(), OUT_INSTANCE),
        };
        let ([used, most], whose) = at_limit.unwrap_or(([total - free, total], whose_all));
        [used, most, whose]
    }

    /// Says which process is killed.
    fn log(self, p: &Process) {
        let [used, most, whose] = self.report(p);
        let pid = p.pid();
        let exe = p.exe.lock();
        let name = exe.rsplit(|&b| b == b'/').next().unwrap_or(&[]);
        let whose = match whose {
            OUT_GROUP => "its control group",
            OUT_USER => "its user",
            OUT_NODES => "a policy's set of NUMA nodes",
            _ => "the instance",
        };
        crate::info!(
            "out of memory: process {} ({}) of user {} killed: it has {} MiB; {whose} has {} of {} KiB",
            pid,
            core::str::from_utf8(name).unwrap_or("?"),
            p.account.user().uid(),
            p.account.bytes() >> 20,
            used >> 10,
            most >> 10
        );
    }
}

/// The last victim, the TSC value until which it is waited for, and for whom it was chosen.
static LAST: Mutex<(Weak<ProcessSpace>, u64, Short), rank::LastShort> =
    Mutex::new((Weak::new(), 0, Short::Not));

/// Memory of a victim that is gone.
pub fn trim() {
    let mut last = LAST.lock();
    if last.0.strong_count() == 0 {
        last.0 = Weak::new();
    }
}

/// Whether the last victim was chosen for the same, and is still given time to end. Who is short for
/// another reason does not wait for it.
fn waits_for(last: &(Weak<ProcessSpace>, u64, Short), short: Short) -> bool {
    last.2 == short && last.0.strong_count() > 0 && cpu::rdtsc() < last.1
}

/// The space that has most of those that count, or that one of them which is on its way out already.
/// One that does not get there is passed over: Linux may hold it as long as its user likes.
fn most_of(short: Short) -> Option<Arc<ProcessSpace>> {
    if let Short::Nodes(nodes) = short {
        count_on(&nodes);
    }
    let mut best: Option<([u64; 2], Arc<ProcessSpace>)> = None;
    for space in spaces::all() {
        let Some(weight) = short.weight(&space) else { continue };
        if is_ending(&space) {
            if is_passed_over(&space) {
                continue;
            }
            return Some(space);
        }
        if best.as_ref().is_none_or(|best| best.0 < weight) {
            best = Some((weight, space));
        }
    }
    best.map(|(_, space)| space)
}

/// Whether a user may have more pages.
fn has_room(uid: u32) -> bool {
    accounts::first_from(uid).is_none_or(|user| user.uid() != uid || user.excess().is_none())
}

/// The user who has most, of those that have a space whose end is still to be expected.
fn richest() -> Option<u32> {
    let users = spaces::all().filter(|space| !is_passed_over(space));
    let users = users.map(|space| (space.account.user().bytes(), space.account.user().uid()));
    users.max().map(|(_, uid)| uid)
}

/// Whether a space is on its way out, and does not get there in time.
fn is_passed_over(space: &ProcessSpace) -> bool {
    is_ending(space) && cpu::rdtsc() >= space.patience(|| cpus::deadline(PATIENCE_NS))
}

fn is_ending(space: &ProcessSpace) -> bool {
    space.is_closed() || space.first().is_some_and(|p| p.is_killed())
}

/// Counts each user's pages on some nodes.
fn count_on(nodes: &Nodes) {
    for space in spaces::all() {
        space.account.user().on_nodes.store(0, Ordering::Relaxed);
    }
    for space in spaces::all() {
        let pages = space.pages_on(nodes);
        space.account.user().on_nodes.fetch_add(pages, Ordering::Relaxed);
    }
}

/// Has Linux kill the processes whose end helps `p` most, unless the last ones are still on their
/// way out. False: there is none, so nothing will get better. Waits for nobody.
pub fn relieve(p: &Process) -> bool {
    relieve_of(Short::of(p))
}

fn relieve_of(short: Short) -> bool {
    // What is kept for nobody helps nobody who is at a limit of his own.
    let gives_back = || match short {
        Short::Nodes(_) | Short::All => content::give_back(),
        // What his ended processes gave up may be free by now.
        Short::User(uid) => mm::has_unasked() && mm::retry_quarantine() && has_room(uid),
        Short::Not | Short::Group(_) => false,
    };
    if short == Short::Not || gives_back() || waits_for(&LAST.lock(), short) {
        return true;
    }
    let Some(victim) = short.victim() else { return false };
    {
        let mut last = LAST.lock();
        if waits_for(&last, short) {
            return true; // another CPU was faster
        }
        *last = (Arc::downgrade(&victim), cpus::deadline(PATIENCE_NS), short);
    }
    let Some(first) = victim.first().filter(|p| !p.is_killed()) else { return true };
    short.log(&first);
    let is_asked =
        services::post(SERVICE_KILL, Owner::kernel(victim.space), &short.report(&first), &[]);
    let mut last = LAST.lock();
    if !is_asked && core::ptr::eq(last.0.as_ptr(), &raw const *victim) {
        *last = (Weak::new(), 0, Short::Not); // he is not on his way out
    }
    is_asked
}

/// No other process' end would help the running one: it is killed.
pub fn kill_current() {
    let p = &thread::current().process;
    let short = Short::of(p);
    short.log(p);
    let _ = services::by_worker(SERVICE_KILL, &short.report(p), &[]);
}

struct Room<'a> {
    process: &'a Process,
    short: Short,
    free: u64,
    until: u64,
}

impl Room<'_> {
    fn is_there(&self) -> bool {
        let has_come = match self.short {
            Short::Not => true,
            Short::Group(group) => !GROUPS.is_full(group),
            Short::User(_) | Short::Nodes(_) | Short::All => self.short.free() > self.free,
        };
        self.process.is_killed() || has_come && !self.process.account.is_full()
    }
}

impl cpus::Wait for Room<'_> {
    fn ready(&self) -> bool {
        self.is_there() || cpu::rdtsc() > self.until
    }
    fn announce(&self, _: bool) {}
    fn deadline(&self) -> u64 {
        cpus::deadline(LOOK_NS).min(self.until)
    }
}

/// For a thread that needs memory: kills and waits. False: it did not help.
pub fn wait_for_room(p: &Process) -> bool {
    let short = Short::of(p);
    // As good as nothing is free: anything more is room.
    let is_shared = matches!(short, Short::Nodes(_) | Short::All);
    let free = if is_shared { short.free() + (256 << 10) } else { 0 };
    let end = cpus::deadline(4 * PATIENCE_NS);
    while relieve_of(short) && cpu::rdtsc() < end {
        let mut room = Room { process: p, short, free, until: cpus::deadline(ROOM_NS) };
        cpus::wait(&mut room, 0);
        if room.is_there() {
            return true;
        }
    }
    false
}
