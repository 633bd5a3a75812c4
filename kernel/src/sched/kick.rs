//! Threads that are to be looked at, by the CPU on whose queue they are.

use crate::base::line::Line;
use crate::base::lock::{Mutex, rank};
use crate::sched::attention::{self, THREADS, post};
use crate::sched::queue;
use crate::sched::task::{Runs, Task};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::percpu;

type List = Mutex<Vec<Arc<dyn Runs>>, rank::Kicked>;

/// Lists of kicked threads, one for each CPU: those whose whereabouts say that they are on a list.
static LISTS: [Line<List>; CPUS_MAX] = [const { Line(List::new(Vec::new())) }; CPUS_MAX];

/// Something happened that `thread` may be waiting for, or has to see before it goes
/// on in user mode: its CPU looks.
pub fn kick(thread: &Task) {
    let cpu = thread.whereabouts.tell(|cpu| {
        if let Some(whole) = thread.whole() {
            queue::add(&mut LISTS[cpu].lock(), whole);
        }
    });
    post(cpu, THREADS);
}

/// Takes the threads of the calling CPU that were kicked; it looks at them now.
pub fn take() -> Vec<Arc<dyn Runs>> {
    if !attention::mine().take(THREADS) {
        return Vec::new();
    }
    let index = percpu::index();
    let mut kicked = core::mem::take(&mut *LISTS[index].lock());
    kicked.retain(|thread| {
        let found = thread.task().whereabouts.is_found(index);
        if !found {
            kick(thread.task());
        }
        found
    });
    kicked
}
