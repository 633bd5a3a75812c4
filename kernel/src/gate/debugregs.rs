//! Debug registers of threads, which a tracer sets (`PTRACE_POKEUSER`): watchpoints and
//! breakpoints of the CPU.

use crate::parts::tracee;
use crate::process::thread::Thread;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::debugregs::{DebugRegisters, STATUS_HITS, STATUS_STEP};
use hanare_core::gate::Who;
use hanare_hal::boot::CPUS_MAX;
use hanare_hal::traps::Regs;
use hanare_hal::{debugregs, percpu};

/// RFLAGS.RF: the instruction is let through though its address is watched.
const RESUME_FLAG: u64 = 1 << 16;

/// CPUs whose debug registers are on.
static LOADED: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];

/// CPUs whose steps go to the next branch.
static BLOCKS: [AtomicBool; CPUS_MAX] = [const { AtomicBool::new(false) }; CPUS_MAX];

/// Clears the running thread's debug registers: its new program has none.
pub fn reset(thread: &Thread) {
    if thread.debug.reset() {
        load(None);
    }
}

/// The CPU goes on with another thread, or none.
pub fn switch(next: Option<&Thread>) {
    step_blocks(false); // the next one's are set on its way to user mode
    let on = next.is_some_and(|n| n.debug.on.load(Ordering::Relaxed));
    if on || LOADED[percpu::index()].load(Ordering::Relaxed) {
        load(next.filter(|_| on));
    }
}

/// The running thread goes to user mode, and was stopped before that.
pub fn before_user(thread: &Thread) {
    let blocks = thread.ptrace.has(tracee::BLOCKS) && {
        let parking = thread.parking.now();
        parking.steps(Who::Tracer) && !parking.steps(Who::Debugger)
    };
    if thread.debug.changed.load(Ordering::Relaxed)
        && thread.debug.changed.swap(false, Ordering::Acquire)
    {
        switch(Some(thread));
    }
    step_blocks(blocks);
}

/// Whether the trap flag has the CPU trap after a branch, not after each instruction. A CPU that
/// traps forgets it. That also happens in the kernel (an address that is watched is touched in a
/// call), where it is not noted. So the CPU is told each time.
fn step_blocks(on: bool) {
    let is_on = &BLOCKS[percpu::index()];
    if on || is_on.load(Ordering::Relaxed) {
        debugregs::step_blocks(on);
        is_on.store(on, Ordering::Relaxed);
    }
}

fn load(thread: Option<&Thread>) {
    let (addresses, control) =
        thread.map_or(DebugRegisters::default(), |t| *t.debug.registers.lock()).hardware();
    debugregs::load(&addresses, control);
    LOADED[percpu::index()].store(thread.is_some(), Ordering::Relaxed);
}

/// Reason why a debug exception came.
pub enum Cause {
    /// The running thread met these of its addresses, one bit each; and it may have done a
    /// single step.
    Met(u64, bool),
    /// An address that is not watched any more: the registers are as they should be now.
    Stale,
    /// A single step; false: `int1`.
    Other(bool),
}

/// A debug exception of the running thread.
pub fn exception(thread: &Thread, regs: &mut Regs) -> Cause {
    let dr6 = debugregs::take_status();
    step_blocks(false);
    let (hits, before) = thread.debug.registers.lock().met(dr6);
    if before {
        regs.rflags |= RESUME_FLAG;
    }
    let stepped = dr6 & STATUS_STEP != 0;
    match (hits, stepped) {
        (0, false) if dr6 & STATUS_HITS != 0 => {
            switch(Some(thread));
            Cause::Stale
        }
        (0, _) => Cause::Other(stepped),
        _ => Cause::Met(hits, stepped),
    }
}
