//! Out of memory: the process that has most of it is killed, and who asked waits
//! until it is gone.

use crate::process::Process;
use crate::{cpus, frames, services};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use hanare_abi::service::SERVICE_KILL;
use hanare_hal::cpu;
use spin::Mutex;

/// How long a killed process may take to end before another one is chosen, ns.
const PATIENCE_NS: u64 = 5_000_000_000;
/// How often a waiter looks, ns.
const LOOK_NS: u64 = 5_000_000;

/// Every process of the instance.
static ALL: Mutex<Vec<Weak<Process>>> = Mutex::new(Vec::new());

/// The last victim, and the TSC value until which it is waited for.
static LAST: Mutex<(Weak<Process>, u64)> = Mutex::new((Weak::new(), 0));

/// Enters a new process.
pub fn enter(p: &Arc<Process>) {
    let mut all = ALL.lock();
    all.retain(|w| w.strong_count() > 0);
    all.push(Arc::downgrade(p));
}

/// Memory of processes that are gone.
pub fn trim() {
    {
        let mut all = ALL.lock();
        all.retain(|w| w.strong_count() > 0);
        if all.is_empty() {
            *all = Vec::new();
        }
    }
    let mut last = LAST.lock();
    if last.0.strong_count() == 0 {
        last.0 = Weak::new();
    }
}

/// Whether the last victim is still given time to end.
fn waits_for(last: &(Weak<Process>, u64)) -> bool {
    last.0.strong_count() > 0 && cpu::rdtsc() < last.1
}

/// What would be free without a process: as Linux counts, not its pages alone.
fn weight(p: &Process) -> u64 {
    let mm = p.mm.lock();
    (mm.resident + mm.table.pages()) * 4096 + mm.map_bytes()
}

/// Has Linux kill the process with most memory, unless the last one is still on its
/// way out. False: there is none, so nothing will get better. Waits for nobody.
pub fn relieve() -> bool {
    if waits_for(&LAST.lock()) {
        return true;
    }
    // No lock is held: that of a process' memory may be another CPU's, which waits for a
    // shootdown by a third one that comes here.
    let all: Vec<Arc<Process>> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    if all.iter().any(|p| p.is_killed()) {
        return true;
    }
    let Some(p) = all.into_iter().max_by_key(|p| weight(p)) else { return false };
    {
        let mut last = LAST.lock();
        if waits_for(&last) {
            return true; // another CPU was faster
        }
        *last = (Arc::downgrade(&p), cpus::deadline(PATIENCE_NS));
    }
    let (free, total) = frames::usage();
    let exe = p.exe.lock().clone();
    let name = exe.rsplit(|&b| b == b'/').next().unwrap_or(&[]);
    crate::info!(
        "out of memory: process {} ({}) killed: it has {} MiB; {} KiB of {} MiB are free",
        p.identity.lock().pid,
        core::str::from_utf8(name).unwrap_or("?"),
        p.memory_use().0 >> 20,
        free >> 10,
        total >> 20
    );
    services::post(SERVICE_KILL, p.space, &[], &[])
}

struct Room<'a> {
    process: &'a Process,
    free: u64,
    until: u64,
}

impl Room<'_> {
    fn is_there(&self) -> bool {
        self.process.is_killed() || frames::usage().0 > self.free
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
    let free = frames::usage().0 + (256 << 10);
    let end = cpus::deadline(4 * PATIENCE_NS);
    while relieve() && cpu::rdtsc() < end {
        let room = Room { process: p, free, until: cpus::deadline(PATIENCE_NS / 10) };
        cpus::wait(&room, 0);
        if room.is_there() {
            return true;
        }
    }
    false
}
