//! membarrier(2).

use crate::calls::context::{Context, handlers};
use crate::process::spaces::{self, ProcessSpace};
use crate::sched::tlb::{self, CpuSet};
use alloc::sync::Arc;
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;

handlers! { call:
    __NR_membarrier => membarrier(call),
}

/// membarrier(2): every CPU that runs a thread of the process, or of another one that may
/// have to do with it, passes through the kernel.
fn membarrier(call: &Context<'_>) -> Result<u64> {
    const QUERY: u64 = 0;
    /// GLOBAL, GLOBAL_EXPEDITED, PRIVATE_EXPEDITED, PRIVATE_EXPEDITED_SYNC_CORE, and RSEQ.
    const BARRIERS: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 5 | RSEQ;
    const REGISTER: u64 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;
    /// Only for processes that have registered, by the next higher bit.
    const EXPEDITED: u64 = 1 << 3 | 1 << 5 | RSEQ;
    const GLOBAL: u64 = 1;
    /// Barriers for memory that processes share: GLOBAL and GLOBAL_EXPEDITED.
    const OF_ALL: u64 = GLOBAL | 1 << 1;
    /// Restartable sequences begin anew, besides.
    const RSEQ: u64 = 1 << 7;
    /// Only on one CPU; all will do.
    const FLAG_CPU: u64 = 1;
    let (command, flags) = (u64::from(call.args[0] as u32), u64::from(call.args[1] as u32));
    let (p, space) = (call.process, call.space);
    if flags != 0 && (command, flags) != (RSEQ, FLAG_CPU) {
        return Err(errno::EINVAL);
    }
    match command {
        QUERY => Ok(BARRIERS | REGISTER),
        c if !c.is_power_of_two() => Err(errno::EINVAL),
        c if c & EXPEDITED != 0 && p.identity.lock().membarrier & c << 1 == 0 => Err(errno::EPERM),
        c if c & BARRIERS != 0 => {
            if c == RSEQ {
                p.each_thread(|t| t.rseq.disturb());
                p.kick_all(); // each looks before it goes on
            }
            if c & OF_ALL != 0 {
                tlb::shoot(&concerned(space, c == GLOBAL), PageRange::NONE);
            } else {
                tlb::shoot(space.memory.mm.active(), PageRange::NONE);
            }
            Ok(0)
        }
        c if c & REGISTER != 0 => {
            p.identity.lock().membarrier |= c;
            Ok(0)
        }
        _ => Err(errno::EINVAL),
    }
}

/// The CPUs whose memory a barrier for all processes orders. These are the caller's and those of
/// processes that have registered for it. With GLOBAL they are also those of the user's other
/// processes that share memory with others. Other users' CPUs are not interrupted at any rate that
/// a caller likes. Nor are those of a process that computes in memory of its own.
fn concerned(own: &ProcessSpace, is_global: bool) -> CpuSet {
    const REGISTER_GLOBAL_EXPEDITED: u64 = 1 << 2;
    let cpus = CpuSet::new();
    cpus.add(own.memory.mm.active());
    for space in spaces::all() {
        let is_his = || Arc::ptr_eq(space.memory.account.user(), own.memory.account.user());
        if is_global && is_his() && space.memory.mm.shares_memory()
            || space
                .processes()
                .any(|p| p.identity.lock().membarrier & REGISTER_GLOBAL_EXPEDITED != 0)
        {
            cpus.add(space.memory.mm.active());
        }
    }
    cpus
}
