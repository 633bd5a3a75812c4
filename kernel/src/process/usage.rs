//! Resources that ended children used, for `getrusage(RUSAGE_CHILDREN)`, `times` and the `rusage`
//! of `wait4`: Linux counts a proxy's time, not its program's.
//!
//! When a process ends, what it used is left with its parent, before Linux hears of the end. A
//! successful wait of the parent takes it.

use crate::base::heap;
use crate::base::lists;
use crate::parts::usage::Usage;
use crate::process::Process;

/// Resources that a process and its threads used: CPU time, the peak of memory, page faults.
pub fn of(p: &Process) -> Usage {
    let (user_ns, system_ns) = p.times_ns();
    Usage { user_ns, system_ns, peak_bytes: p.memory().memory_use().1, faults: p.faults() }
}

/// Children that their parent does not wait for are forgotten, lowest ids first, beyond this.
const ENDED_MAX: usize = 4096;

/// A process ends; its memory is still there.
pub fn ended(p: &Process) {
    let accounts = p.usage.lock().clone();
    let Some(parents) = accounts.parents.upgrade() else { return }; // gone, or a process of Linux
    let mut used = of(p);
    used.add(accounts.waited());
    let pid = p.pid();
    let mut children = parents.lock();
    if heap::room_for_entry::<u32, Usage>().is_err() {
        return; // forgotten, as if there were too many
    }
    lists::insert_within(&mut children.ended, pid, used);
    if children.ended.len() > ENDED_MAX {
        children.ended.pop_first();
    }
}
