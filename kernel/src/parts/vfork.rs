//! vfork: the parent waits until its child has a program of its own, or has ended.

use crate::base::lists;
use crate::sched::cpus;
use crate::sched::task::Runs;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_hal::cpu;

/// How long a child's proxy may take to come up, ns.
pub const COMES_NS: u64 = 10_000_000_000;

/// A parent that waits for its child.
pub struct Vfork {
    done: AtomicBool,
    /// The waiting thread.
    parent: Arc<dyn Runs>,
}

impl Vfork {
    /// For a child that `parent` makes, which has asked for room.
    pub fn new(parent: Arc<dyn Runs>) -> Arc<Vfork> {
        lists::arc_within(Vfork { done: AtomicBool::new(false), parent })
    }

    /// The child has its own program, or does not use the parent's memory any more.
    pub fn release(&self) {
        if !self.done.swap(true, Ordering::AcqRel) {
            cpus::kick(self.parent.task());
        }
    }

    /// The parent, which runs, waits for that.
    pub fn wait(&self) {
        cpus::wait(&Released { vfork: self, deadline: cpus::NEVER }, 0);
    }

    /// The same for [`COMES_NS`] at most: whose memory a child shares may not be told that its proxy died before
    /// it began. False: it is too late.
    pub fn wait_for_start(&self) -> bool {
        let late = cpus::deadline(COMES_NS);
        cpus::wait(&Released { vfork: self, deadline: late }, 0);
        cpu::rdtsc() <= late
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
