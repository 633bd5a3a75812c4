//! Out of memory: of the user who has most the process that has most is killed, with all that
//! share its memory, and who asked waits until it is gone. Where a user has come to his own
//! limit it is a process of his.
//!
//! Everything counts that is charged (`accounts`), not pages alone. Nothing here needs memory.

use crate::base::frames;
use crate::base::accounts::{self, User};
use crate::link::services;
use crate::mm::space::{self, Space};
use crate::process::Process;
use crate::sched::cpus;
use alloc::sync::{Arc, Weak};
use hanare_abi::service::SERVICE_KILL;
use hanare_hal::cpu;
use spin::Mutex;

/// How long a killed process may take to end before another one is chosen, ns.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How often a waiter looks, ns.
const LOOK_NS: u64 = 5_000_000;

/// The last victim, and the TSC value until which it is waited for.
static LAST: Mutex<(Weak<Space>, u64)> = Mutex::new((Weak::new(), 0));

/// Memory of a victim that is gone.
pub fn trim() {
    let mut last = LAST.lock();
    if last.0.strong_count() == 0 {
        last.0 = Weak::new();
    }
}

/// Whether the last victim is still given time to end.
fn waits_for(last: &(Weak<Space>, u64)) -> bool {
    last.0.strong_count() > 0 && cpu::rdtsc() < last.1
}

/// The space that has most of those of a user, or that one of his which is on its way out already.
/// One that does not get there is passed over: Linux may hold it as long as its user likes.
fn most_of(user: &Arc<User>) -> Option<Arc<Space>> {
    let mut best: Option<Arc<Space>> = None;
    for space in space::all().filter(|s| Arc::ptr_eq(s.account.user(), user)) {
        if space.is_closed() || space.first().is_some_and(|p| p.is_killed()) {
            if cpu::rdtsc() < space.patience(|| cpus::deadline(PATIENCE_NS)) {
                return Some(space);
            }
            continue;
        }
        if best.as_ref().is_none_or(|best| best.account.bytes() < space.account.bytes()) {
            best = Some(space);
        }
    }
    best
}

/// Has Linux kill the processes whose end helps `p` most, unless the last ones are still on their
/// way out. False: there is none, so nothing will get better. Waits for nobody.
pub fn relieve(p: &Process) -> bool {
    if waits_for(&LAST.lock()) {
        return true;
    }
    let user = if p.account.is_full() { Some(p.account.user().clone()) } else { accounts::richest() };
    let Some(victim) = user.as_ref().and_then(most_of) else { return false };
    {
        let mut last = LAST.lock();
        if waits_for(&last) {
            return true; // another CPU was faster
        }
        *last = (Arc::downgrade(&victim), cpus::deadline(PATIENCE_NS));
    }
    let Some(first) = victim.first().filter(|p| !p.is_killed()) else { return true };
    log(&first);
    services::post(SERVICE_KILL, victim.space, &in_use(&first), &[])
}

/// Bytes in use, and all there are: for the user of `p` where he is at his limit, or for all.
fn in_use(p: &Process) -> [u64; 2] {
    let (free, total) = frames::usage();
    p.account.user().excess().unwrap_or([total - free, total])
}

fn log(p: &Process) {
    let (free, total) = frames::usage();
    let exe = p.exe.lock();
    let name = exe.rsplit(|&b| b == b'/').next().unwrap_or(&[]);
    crate::info!(
        "out of memory: process {} ({}) of user {} killed: it has {} MiB; {} KiB of {} MiB are free",
        p.identity.lock().pid,
        core::str::from_utf8(name).unwrap_or("?"),
        p.account.user().uid(),
        p.account.bytes() >> 20,
        free >> 10,
        total >> 20
    );
}

/// No other process' end would help the running one: it is killed.
pub fn kill_current() {
    log(&cpus::current().process);
    let _ = services::by_worker(SERVICE_KILL, &in_use(&cpus::current().process), &[]);
}

struct Room<'a> {
    process: &'a Process,
    free: u64,
    until: u64,
}

impl Room<'_> {
    fn is_there(&self) -> bool {
        self.process.is_killed() || frames::usage().0 > self.free && !self.process.account.is_full()
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
    // As good as nothing is free: anything more is room.
    let free = if p.account.is_full() { 0 } else { frames::usage().0 + (256 << 10) };
    let end = cpus::deadline(4 * PATIENCE_NS);
    while relieve(p) && cpu::rdtsc() < end {
        let room = Room { process: p, free, until: cpus::deadline(PATIENCE_NS / 10) };
        cpus::wait(&room, 0);
        if room.is_there() {
            return true;
        }
    }
    false
}
