//! What ended children used, for `getrusage(RUSAGE_CHILDREN)`, `times` and the
//! `rusage` of `wait4`: Linux counts a proxy's time, not its program's.
//!
//! When a process ends, what it used is left with its parent, before Linux hears of
//! the end. A successful wait of the parent takes it.

use crate::base::heap;
use crate::process::Process;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use hanare_core::errno::{self, Result};
use hanare_core::syscalls::Row;
use hanare_core::time::NS_PER_SEC;
use hanare_hal::usercopy;
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
        [seconds(self.user_ns), micros(self.user_ns), seconds(self.system_ns), micros(self.system_ns), self.peak_bytes / 1024, 0, 0, 0, self.faults]
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

/// Hook of `wait4` and `waitid` after Linux has answered `result`.
pub fn waited(p: &Process, row: &Row, a: &[u64; 6], result: u64) -> Result<()> {
    const WAITID: u16 = 247;
    const P_PID: u64 = 1;
    const WNOWAIT: u64 = 0x0100_0000;
    const SI_PID: u64 = 16;
    let fault = |_| errno::EFAULT;
    let (pid, rusage, keep) = if row.number != WAITID {
        (result as u32, a[3], false)
    } else if a[2] != 0 {
        let word = usercopy::read_u64(a[2] + SI_PID).map_err(fault)?;
        (word as u32, a[4], a[3] & WNOWAIT != 0)
    } else {
        (if a[0] == P_PID { a[1] as u32 } else { 0 }, a[4], a[3] & WNOWAIT != 0)
    };
    let own = p.usage.lock().own.clone();
    let used = {
        let mut children = own.lock();
        let Some(used) = children.ended.get(&pid).copied() else {
            return Ok(()); // stopped, continued, or none
        };
        if !keep {
            children.ended.remove(&pid);
            children.waited.add(used);
        }
        used
    };
    if rusage != 0 {
        usercopy::write(rusage, zerocopy::IntoBytes::as_bytes(&used.words())).map_err(fault)?;
    }
    Ok(())
}
