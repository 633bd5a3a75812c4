//! Queues of threads.
//!
//! A thread that exists is not refused to run, to wait or to end: where the heap has no room for its entry, that is
//! of the reserve (`base/heap.rs`).

#![expect(
    clippy::disallowed_methods,
    reason = "entries for threads that exist, few each, if need be of the reserve"
)]

use crate::sched::task::Runs;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A thread that is told: the bit of its bell and its address.
pub type Sleeper = (u32, usize);

/// It runs after all others.
pub fn add_last(queue: &mut VecDeque<Arc<dyn Runs>>, thread: Arc<dyn Runs>) {
    queue.push_back(thread);
}

/// It runs next.
pub fn add_first(queue: &mut VecDeque<Arc<dyn Runs>>, thread: Arc<dyn Runs>) {
    queue.push_front(thread);
}

/// One more.
pub fn add(list: &mut Vec<Arc<dyn Runs>>, thread: Arc<dyn Runs>) {
    list.push(thread);
}

/// Some more.
pub fn add_all(list: &mut Vec<Arc<dyn Runs>>, threads: impl Iterator<Item = Arc<dyn Runs>>) {
    list.extend(threads);
}

/// It sleeps until it is told.
pub fn add_sleeper(
    sleepers: &mut BTreeMap<Sleeper, Arc<dyn Runs>>,
    at: Sleeper,
    thread: Arc<dyn Runs>,
) {
    sleepers.insert(at, thread);
}

/// It is woken at a time at the latest.
pub fn add_alarm(alarms: &mut BTreeSet<(u64, Sleeper)>, alarm: (u64, Sleeper)) {
    alarms.insert(alarm);
}
