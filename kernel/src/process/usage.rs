//! What ended children used, for `getrusage(RUSAGE_CHILDREN)`, `times` and the
//! `rusage` of `wait4`: Linux counts a proxy's time, not its program's.
//!
//! When a process ends, what it used is left with its parent, before Linux hears of
//! the end. A successful wait of the parent takes it.

use crate::base::heap;
use crate::process::Process;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use hanare_core::time::NS_PER_SEC;
use spin::Mutex;

/// CPU time, memory and page faults of ended processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Time in user mode.
    pub user_ns: u64,
    /// Time in this kernel.
    pub system_ns: u64,
    /// The most memory that one of them had.
    pub peak_bytes: u64,
    /// Page faults.
    pub faults: u64,
}

impl Usage {
    /// Of a process and its children.
    pub fn of(p: &Process) -> Self {
        let (user_ns, system_ns) = p.times_ns();
        Self { user_ns, system_ns, peak_bytes: p.memory_use().1, faults: p.faults() }
    }

    /// One more process that ended.
    pub fn add(&mut self, other: Self) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.faults += other.faults;
    }

    /// The first words of `struct rusage`, up to the faults.
    pub fn words(self) -> [u64; 9] {
        let seconds = |ns| ns / NS_PER_SEC;
        let micros = |ns| ns % NS_PER_SEC / 1000;
        [
            seconds(self.user_ns),
            micros(self.user_ns),
            seconds(self.system_ns),
            micros(self.system_ns),
            self.peak_bytes / 1024,
            0,
            0,
            0,
            self.faults,
        ]
    }
}

/// Children of a process that ended.
#[derive(Default)]
pub struct Children {
    /// What those used that it has waited for.
    pub waited: Usage,
    /// Those that it has not waited for, by process id.
    ended: BTreeMap<u32, Usage>,
}

/// Accounts of a process. One that goes on in memory of its own after execve (`depart`) keeps
/// them, so children from before leave there what they used.
#[derive(Clone, Default)]
pub struct Accounts {
    own: Arc<Mutex<Children>>,
    parents: Weak<Mutex<Children>>,
}

impl Accounts {
    /// The accounts of a new child of `parent`.
    pub fn of_child(parent: &Weak<Process>) -> Self {
        let parents = parent.upgrade().map_or(Weak::new(), |p| Arc::downgrade(&p.usage.lock().own));
        Self { own: Arc::default(), parents }
    }

    /// The use of the child `pid` that was waited for, which counts as waited for unless it is to
    /// `stay`. `None`: it has not ended.
    pub fn take(&self, pid: u32, stay: bool) -> Option<Usage> {
        let mut children = self.own.lock();
        let used = *children.ended.get(&pid)?;
        if !stay {
            children.ended.remove(&pid);
            children.waited.add(used);
        }
        Some(used)
    }

    /// The use of those children that were waited for.
    pub fn waited(&self) -> Usage {
        self.own.lock().waited
    }
}

/// Children that nobody waits for are forgotten, lowest ids first, beyond this.
const ENDED_MAX: usize = 4096;

/// A process ends; its memory is still there.
pub fn ended(p: &Process) {
    let accounts = p.usage.lock().clone();
    let Some(parents) = accounts.parents.upgrade() else { return }; // gone, or a process of Linux
    let mut used = Usage::of(p);
    used.add(accounts.waited());
    let pid = p.identity.lock().pid;
    let mut children = parents.lock();
    if heap::room_for_entry::<u32, Usage>().is_err() {
        return; // forgotten, as if there were too many
    }
    children.ended.insert(pid, used);
    if children.ended.len() > ENDED_MAX {
        children.ended.pop_first();
    }
}
