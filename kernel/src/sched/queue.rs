//! Queues of threads.
//!
//! A thread that exists is not refused to run, to wait or to end: where the heap has no room for
//! its entry, that is of the reserve (`base/heap.rs`).

#![expect(
    clippy::disallowed_methods,
    reason = "entries for threads that exist, few each, if need be of the reserve"
)]

use crate::sched::task::Runs;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Key of a thread that sleeps until it is told: the bit of its bell and its address.
pub type Sleeper = (u32, usize);

/// Puts a thread at the end of a run queue.
pub fn add_last(queue: &mut VecDeque<Arc<dyn Runs>>, thread: Arc<dyn Runs>) {
    queue.push_back(thread);
}

/// Puts a thread at the head of a run queue.
pub fn add_first(queue: &mut VecDeque<Arc<dyn Runs>>, thread: Arc<dyn Runs>) {
    queue.push_front(thread);
}

/// Adds a thread to a list.
pub fn add(list: &mut Vec<Arc<dyn Runs>>, thread: Arc<dyn Runs>) {
    list.push(thread);
}

/// Adds threads to a list.
pub fn add_all(list: &mut Vec<Arc<dyn Runs>>, threads: impl Iterator<Item = Arc<dyn Runs>>) {
    list.extend(threads);
}

/// Adds a thread that sleeps until it is told.
pub fn add_sleeper(
    sleepers: &mut BTreeMap<Sleeper, Arc<dyn Runs>>,
    at: Sleeper,
    thread: Arc<dyn Runs>,
) {
    sleepers.insert(at, thread);
}

/// Adds the time at which a sleeping thread is woken at the latest.
pub fn add_alarm(alarms: &mut BTreeSet<(u64, Sleeper)>, alarm: (u64, Sleeper)) {
    alarms.insert(alarm);
}
