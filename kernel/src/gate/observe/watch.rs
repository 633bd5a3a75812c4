//! Watchpoints of a debugger: debug registers, the same of all threads.

use super::debug;
use crate::gate::park::debugger_of;
use crate::parts::observed::{Watch, Watches};
use crate::process::Process;
use crate::process::thread::Thread;
use crate::sched::cpus;
use hanare_abi::observe::OBSERVED_WATCH;
use hanare_core::debugregs::{ADDRESSES, DebugRegisters};
use hanare_core::errno::{self, Result};
use hanare_core::signal;
use hanare_hal::traps::Regs;

impl Watches {
    /// `OBSERVE_WATCH`.
    pub fn set(&self, p: &Process, n: u64, address: u64, words: &[u64]) -> Result<()> {
        let &[bytes, kind, ..] = words else { return Err(errno::EINVAL) };
        let n = usize::try_from(n).unwrap_or(ADDRESSES);
        DebugRegisters::default().watch(n, address, bytes, kind)?;
        // First here: a thread that is made meanwhile has it from here, or is among the others.
        self.0.lock()[n] = Watch { address, bytes, kind };
        p.threads().try_for_each(|t| t.debug.watch(n, address, bytes, kind))
    }

    /// Clears all watchpoints, also in the threads of `p`, if the program is the same.
    pub fn clear(&self, p: Option<&Process>) {
        let had = core::mem::take(&mut *self.0.lock());
        for t in p.iter().flat_map(|p| p.threads()) {
            // The others may be a tracer's.
            for (n, _) in had.iter().enumerate().filter(|(_, w)| w.bytes != 0) {
                let _ = t.debug.watch(n, 0, 0, 0); // always possible
            }
        }
    }

    /// The first of the watchpoints that were met.
    fn first_of(&self, hits: u64) -> Option<Watch> {
        let all = self.0.lock();
        (0..ADDRESSES).filter(|n| hits >> n & 1 != 0).map(|n| all[n]).find(|w| w.bytes != 0)
    }

    fn give(&self, thread: &Thread) {
        for (n, w) in self.0.lock().iter().enumerate().filter(|(_, w)| w.bytes != 0) {
            let _ = thread.debug.watch(n, w.address, w.bytes, w.kind);
        }
    }
}

/// A new thread is in its process' list.
pub fn on_thread(thread: &Thread) {
    if let Some(d) = debugger_of(thread) {
        d.watches.give(thread);
    }
}

/// The running thread has met addresses of its debug registers. False: they are no
/// debugger's.
pub fn met(thread: &Thread, regs: &mut Regs, hits: u64) -> bool {
    let Some(watch) = debugger_of(thread).and_then(|d| d.watches.first_of(hits)) else {
        return false;
    };
    cpus::request_attention();
    // If the threads stop for another reason, so does this one, and tells afterwards.
    debug::certainly_report(thread, regs, OBSERVED_WATCH, signal::SIGTRAP, watch.address);
    true
}
