//! Out of memory: a process is killed, with all that share its memory, and threads that need memory
//! wait until it is gone.
//!
//! The victim is the process that has most, of the user who has most. Where a user has reached the
//! user's own limit, it is a process of that user. Where NUMA nodes that a policy insists on are
//! full, only pages there count, of users and of processes. The order of the steps is
//! `hanare_core::shortage`'s.
//!
//! Everything counts that is charged (`accounts`), not pages alone: also frames that a process has
//! given up and Linux still holds (`base/quarantine.rs`). Nothing here needs memory.

use crate::base::accounts::{self, Account, Refusal};
use crate::base::frames::{self, GROUPS};
use crate::base::lock::{Mutex, rank};
use crate::base::quarantine::{self, Of};
use crate::base::time;
use crate::link::services;
use crate::mm::pages::content;
use crate::mm::pages::quarantine::{How, ask};
use crate::process::Process;
use crate::process::spaces::{self, ProcessSpace};
use crate::process::thread::Thread;
use crate::sched::cpus;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use hanare_abi::service::{OUT_GROUP, OUT_INSTANCE, OUT_NODES, OUT_USER, SERVICE_KILL};
use hanare_core::fair::Owner;
use hanare_core::groups::Tag;
use hanare_core::nodes::Nodes;
use hanare_core::quarantine::{FRESH_NS, Want};
use hanare_core::shortage::{
    self, Candidate, Ending, PATIENCE_NS, Patience, Shortage, Step, heaviest, richest,
};
use hanare_hal::cpu;
use hanare_hal::paging::SMALL;

/// Time between two looks of a waiter, ns.
const LOOK_NS: u64 = 5_000_000;
/// More than this is room where as good as nothing was free, bytes.
const ROOM: u64 = 256 << 10;

/// Shortage that a process has met: the memory or the limit that is used up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Short {
    /// There is room by now.
    Not,
    /// The user with this id has reached the user's limit.
    User(u32),
    /// A control group has reached its limit.
    Group(Tag),
    /// The memory of these NUMA nodes, which a policy insists on, is in use.
    Nodes(Nodes),
    /// The memory of the instance is in use.
    All,
}

impl Short {
    /// Reason why `p` gets no page.
    fn of(p: &Process) -> Short {
        if p.memory().account.is_full() {
            return Short::User(p.memory().account.user().uid());
        }
        match p.memory().account.refusal() {
            Some(Refusal::Group(group)) if GROUPS.is_full(group) => Short::Group(group),
            Some(Refusal::Nodes(nodes)) if frames::are_full(&nodes) => Short::Nodes(nodes),
            Some(_) => Short::Not,
            None => Short::All,
        }
    }

    /// How much it helps if this space ends. The bytes that its user has come first, where there
    /// may be several users, then those that it has itself. `None`: it does not help.
    fn weight(self, space: &ProcessSpace) -> Option<[u64; 2]> {
        let counts = match self {
            Short::User(uid) => space.memory.account.user().uid() == uid,
            Short::Group(group) => space.memory.account.is_in(group),
            Short::Nodes(nodes) => {
                let pages = space.memory.pages_on(&nodes);
                let of_user = space.memory.account.user().on_nodes.load(Ordering::Relaxed);
                return (pages > 0).then_some([of_user, pages * SMALL]);
            }
            Short::Not | Short::All => false,
        };
        counts.then(|| [0, space.memory.account.bytes()])
    }

    /// Free bytes: of the nodes that are short, else of the instance.
    fn free(self) -> u64 {
        match self {
            Short::Nodes(nodes) => frames::usage_of(&nodes).0,
            _ => frames::usage().0,
        }
    }

    /// The space whose end helps most. One that does not end in time is passed over: Linux may hold
    /// it as long as its user likes.
    fn victim(self) -> Option<Arc<ProcessSpace>> {
        if let Short::Nodes(nodes) = self {
            count_on(&nodes);
        }
        let only = match self {
            Short::All => Some(richest(spaces::all().map(|space| self.candidate(&space, [0; 2])))?),
            _ => None,
        };
        let short = only.map_or(self, Short::User);
        heaviest(spaces::all().filter_map(|space| {
            let weight = short.weight(&space)?;
            Some((short.candidate(&space, weight), space))
        }))
    }

    /// A space that may have to end. Of all memory all counts that its user has.
    fn candidate(self, space: &ProcessSpace, weight: [u64; 2]) -> Candidate {
        let user = space.memory.account.user();
        let weight = if self == Short::All { [user.bytes(), 0] } else { weight };
        Candidate { user: user.uid(), weight, ending: ending(space) }
    }

    /// Quarantined frames whose return may end the shortage: the user's, or all.
    fn held_of(self) -> Of {
        match self {
            Short::User(uid) => Of::User(uid),
            Short::Not | Short::Group(_) | Short::Nodes(_) | Short::All => Of::All,
        }
    }

    /// Arguments of `SERVICE_KILL` for `p`: bytes in use, bytes that there may be, and the limit's
    /// kind (`OUT_*`).
    fn report(self, p: &Process) -> [u64; 3] {
        let at_limit = match self {
            Short::Group(group) => Some((GROUPS.usage(group).map(|pages| pages * 4096), OUT_GROUP)),
            Short::User(_) => p.memory().account.user().excess().map(|usage| (usage, OUT_USER)),
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
            p.memory().account.user().uid(),
            p.memory().account.bytes() >> 20,
            used >> 10,
            most >> 10
        );
    }
}

/// The last victim, for what it was chosen, and how long it is waited for.
struct Last {
    space: Weak<ProcessSpace>,
    account: Weak<Account>,
    short: Short,
    patience: Patience,
}

impl Last {
    const NOBODY: Last = Last {
        space: Weak::new(),
        account: Weak::new(),
        short: Short::Not,
        patience: Patience::OVER,
    };

    /// Whether the last victim was chosen for the same shortage, and is still given time to end. A
    /// thread that is short for another reason does not wait for it.
    fn is_awaited(&mut self, short: Short) -> bool {
        let lives = self.space.strong_count() > 0;
        let has_held = self.account.upgrade().is_some_and(|account| account.has_held());
        self.short == short && self.patience.goes_on(time::since_boot_ns(), lives, has_held)
    }
}

static LAST: Mutex<Last, rank::LastShort> = Mutex::new(Last::NOBODY);

/// Memory of a victim that is gone.
pub fn trim() {
    let mut last = LAST.lock();
    if last.space.strong_count() == 0 {
        last.space = Weak::new();
    }
    if last.account.strong_count() == 0 {
        last.account = Weak::new();
    }
}

/// Whether a user may have more pages.
fn has_room(uid: u32) -> bool {
    accounts::first_from(uid).is_none_or(|user| user.uid() != uid || user.excess().is_none())
}

/// Whether a space is on its way out, and gets there in time.
fn ending(space: &ProcessSpace) -> Ending {
    if !(space.memory.is_closed() || space.first().is_some_and(|p| p.is_killed())) {
        Ending::Not
    } else if cpu::rdtsc() < space.patience(|| cpus::deadline(PATIENCE_NS)) {
        Ending::Soon
    } else {
        Ending::Late
    }
}

/// Counts each user's pages on some nodes.
fn count_on(nodes: &Nodes) {
    for space in spaces::all() {
        space.memory.account.user().on_nodes.store(0, Ordering::Relaxed);
    }
    for space in spaces::all() {
        let pages = space.memory.pages_on(nodes);
        space.memory.account.user().on_nodes.fetch_add(pages, Ordering::Relaxed);
    }
}

/// Memory that a process wants and does not get.
struct Need<'a> {
    process: &'a Process,
    short: Short,
    /// Free bytes that are no room yet: there has to be more.
    free: u64,
}

impl<'a> Need<'a> {
    fn of(process: &'a Process) -> Self {
        let short = Short::of(process);
        // As good as nothing is free: anything more is room.
        let is_shared = matches!(short, Short::Nodes(_) | Short::All);
        let free = if is_shared { short.free() + ROOM } else { 0 };
        Need { process, short, free }
    }

    fn is_met(&self) -> bool {
        match self.short {
            Short::Not => true,
            Short::Group(group) => !GROUPS.is_full(group),
            Short::User(uid) => has_room(uid),
            Short::Nodes(_) | Short::All => self.short.free() > self.free,
        }
    }

    /// Has Linux kill the processes that share a memory. Returns without waiting.
    fn kill(&self, victim: &Arc<ProcessSpace>) {
        {
            let mut last = LAST.lock();
            if last.is_awaited(self.short) {
                return; // another CPU was faster
            }
            *last = Last {
                space: Arc::downgrade(victim),
                account: Arc::downgrade(&victim.memory.account),
                short: self.short,
                patience: Patience::new(time::since_boot_ns()),
            };
        }
        let Some(first) = victim.first().filter(|p| !p.is_killed()) else { return };
        self.short.log(&first);
        let owner = Owner::kernel(victim.memory.id);
        let is_asked = services::post(SERVICE_KILL, owner, &self.short.report(&first), &[]);
        let mut last = LAST.lock();
        if !is_asked && core::ptr::eq(last.space.as_ptr(), &raw const **victim) {
            *last = Last::NOBODY; // it is not on its way out
        }
    }
}

impl Shortage for Need<'_> {
    type Victim = Arc<ProcessSpace>;

    fn has_room(&mut self) -> bool {
        self.is_met()
    }

    fn give_back(&mut self) -> bool {
        // Contents that no process maps do not help where a user or a group has reached its own
        // limit.
        matches!(self.short, Short::Nodes(_) | Short::All) && content::give_back()
    }

    fn want(&mut self) -> Want {
        quarantine::want(self.short.held_of())
    }

    fn is_victim_awaited(&mut self) -> bool {
        LAST.lock().is_awaited(self.short)
    }

    fn victim(&mut self) -> Option<Self::Victim> {
        self.short.victim()
    }
}

/// Makes room for `p`, where no thread can wait: asks Linux for frames, or has it kill the
/// processes whose end helps most. Kills none while the last victims are still given time to end.
/// False: there is no victim, so nothing will get better.
pub fn relieve(p: &Process) -> bool {
    let mut need = Need::of(p);
    loop {
        match shortage::step(&mut need) {
            Step::TryAgain | Step::Wait => return true,
            // There may be more to ask: Linux comes again, and others' requests first.
            Step::Ask if ask(need.short.held_of(), How::AtOnce) => return true,
            Step::Ask if quarantine::want(need.short.held_of()) == Want::Ask => return true,
            Step::Ask => {}
            Step::Kill(victim) => {
                need.kill(&victim);
                return true;
            }
            Step::Refuse => return false,
        }
    }
}

/// No other process' end would help that of the running thread `me`: it is killed.
pub fn kill_own(me: &Thread) {
    let p = &me.process;
    let short = Short::of(p);
    short.log(p);
    let _ = services::by_worker(me, SERVICE_KILL, &short.report(p), &[]);
}

struct Room<'a> {
    need: &'a Need<'a>,
    until: u64,
}

impl Room<'_> {
    fn is_there(&self) -> bool {
        let process = self.need.process;
        process.is_killed() || self.need.is_met() && !process.memory().account.is_full()
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

/// For the running thread, which needs memory: makes room, and waits for it. False: there is none.
pub fn wait_for_room(me: &Thread) -> bool {
    let p = &me.process;
    let mut need = Need::of(p);
    let end = cpus::deadline(4 * PATIENCE_NS);
    while cpu::rdtsc() < end {
        if p.is_killed() {
            return true; // it ends when it tries again, and nothing is asked of Linux for it any more
        }
        match shortage::step(&mut need) {
            Step::TryAgain => return true,
            Step::Ask if ask(need.short.held_of(), How::Waiting(me)) => return true,
            Step::Ask => continue,
            Step::Wait => {}
            Step::Kill(victim) => need.kill(&victim),
            Step::Refuse => return false,
        }
        let mut room = Room { need: &need, until: cpus::deadline(FRESH_NS) };
        cpus::wait(&mut room, 0);
        if room.is_there() {
            return true;
        }
    }
    false
}
