//! vfork: the parent waits until its child has a program of its own, or has ended.

use crate::process::thread::Thread;
use crate::process::{Process, clone, share};
use crate::sched::cpus;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_hal::cpu;

/// A parent that waits for its child.
pub struct Vfork {
    done: AtomicBool,
    /// The waiting thread.
    parent: Arc<Thread>,
}

impl Vfork {
    /// For a child that `parent` makes.
    pub fn new(parent: Arc<Thread>) -> Arc<Vfork> {
        Arc::new(Vfork { done: AtomicBool::new(false), parent })
    }

    /// The child has its own program, or does not use the parent's memory any more.
    pub fn release(&self) {
        if !self.done.swap(true, Ordering::AcqRel) {
            cpus::kick(&self.parent);
        }
    }

    /// The parent, which runs, waits for that. `child`: one that shares its memory, whose
    /// proxy may die before it has begun, of which nobody tells.
    pub fn wait(&self, child: Option<&Arc<Process>>) {
        let released = |deadline| Released { vfork: self, deadline };
        if let Some(child) = child {
            let late = cpus::deadline(clone::COMES_NS);
            cpus::wait(&released(late), 0);
            if cpu::rdtsc() > late {
                share::give_up_late(child);
            }
        }
        cpus::wait(&released(cpus::NEVER), 0);
    }
}

struct Released<'a> {
    vfork: &'a Vfork,
    deadline: u64,
}

impl cpus::Wait for Released<'_> {
    fn ready(&self) -> bool {
        let late = self.deadline != cpus::NEVER && cpu::rdtsc() > self.deadline;
        self.vfork.parent.must_end() || self.vfork.done.load(Ordering::Acquire) || late
    }
    fn announce(&self, _: bool) {}
    fn deadline(&self) -> u64 {
        self.deadline
    }
}
