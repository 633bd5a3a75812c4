//! Resources that a process and its ended children used.

use crate::base::lock::{Mutex, rank};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use hanare_core::time::NS_PER_SEC;

/// CPU time, memory and page faults of ended processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Time in user mode.
    pub user_ns: u64,
    /// Time in this kernel.
    pub system_ns: u64,
    /// The most memory that one of the processes had.
    pub peak_bytes: u64,
    /// Page faults.
    pub faults: u64,
}

impl Usage {
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
    /// Use of the ended children that the process has waited for.
    pub waited: Usage,
    /// Use of the ended children that it has not waited for, by process id.
    pub ended: BTreeMap<u32, Usage>,
}

/// Accounts of a process. One that goes on in memory of its own after execve (`depart`) keeps
/// them, so children from before leave there what they used.
#[derive(Clone, Default)]
pub struct Accounts {
    own: Arc<Mutex<Children, rank::ChildrenUsage>>,
    /// The accounts of the process' maker; none of a process that Linux started.
    pub parents: Weak<Mutex<Children, rank::ChildrenUsage>>,
}

impl Accounts {
    /// The accounts of a new child of the process with these.
    pub fn of_child(&self) -> Self {
        Self { own: Arc::default(), parents: Arc::downgrade(&self.own) }
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
