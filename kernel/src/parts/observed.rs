//! What is known of who watches a process from outside: its trace, its debugger.

use crate::base::counts::Counted;
use crate::base::lock::{Mutex, rank};
use crate::parts::registers::Snapshot;
use crate::parts::ring::Ring;
use crate::sched::doorbell;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::EVENT_OBSERVE;
use hanare_core::debugregs::ADDRESSES;

/// What is known of a process's observers.
pub struct OfProcess<P> {
    /// [`TRACED`] and the like.
    pub flags: AtomicU32,
    /// The session that traces it.
    pub trace: Mutex<Option<Arc<Trace>>, rank::Trace>,
    /// The one that debugs it.
    pub debugger: Mutex<Option<Arc<Debugger<P>>>, rank::Debugger>,
    /// Auxiliary vector of the program, for debuggers.
    pub auxv: Mutex<Vec<u8>, rank::AuxiliaryVector>,
    /// As of wait(2), with [`SAID`], once the process has begun to end.
    pub exit_status: AtomicU32,
}

/// In `exit_status`: the process itself said so. One that ends without a word was
/// killed from outside.
pub const SAID: u32 = 1 << 31;

/// `hanare trace` watches.
pub const TRACED: u32 = 1;
/// `hanare gdb` does.
pub const DEBUGGED: u32 = 2;
/// Every thread is to stop before it enters user mode.
pub const HELD: u32 = 4;
/// Linux traces a worker of it.
pub const PTRACED: u32 = 8;

impl<P> Default for OfProcess<P> {
    fn default() -> Self {
        OfProcess {
            flags: AtomicU32::new(0),
            trace: Mutex::new(None),
            debugger: Mutex::new(None),
            auxv: Mutex::new(Vec::new()),
            exit_status: AtomicU32::new(0),
        }
    }
}

impl<P> OfProcess<P> {
    /// Whether anybody watches.
    pub fn is_on(&self) -> bool {
        self.flags.load(Ordering::Relaxed) != 0
    }

    /// Whether one of these is so.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Sets flags, or takes them away.
    pub fn set(&self, flag: u32, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::Release);
        } else {
            self.flags.fetch_and(!flag, Ordering::Release);
        }
    }

    /// A thread of it has a tracer, or none has any more.
    pub fn set_ptraced(&self, on: bool) {
        self.set(PTRACED, on);
    }

    /// Whether `hanare gdb` debugs it.
    pub fn is_debugged(&self) -> bool {
        self.has(DEBUGGED)
    }

    /// Whether threads are to stop.
    pub fn holds(&self) -> bool {
        self.has(HELD)
    }
}

/// What is known of a thread.
#[derive(Default)]
pub struct OfThread {
    /// What its call asked of Linux: 0 nothing, 1 something, 2 the call itself.
    pub asked: AtomicU32,
    /// For its debugger.
    pub debug: Debugged,
}

/// A thread as its debugger has it.
#[derive(Default)]
pub struct Debugged {
    /// Its registers, once it has stopped.
    pub snapshot: Mutex<Option<Box<Snapshot>>, rank::DebuggerSnapshot>,
    /// It has no program yet: where it waits it has no registers either.
    pub loads: AtomicBool,
    /// Remains stopped although the others run.
    pub stays: AtomicBool,
    /// To stop after one instruction.
    pub steps: AtomicBool,
    /// It has: a call counts as one instruction.
    pub stepped: AtomicBool,
    /// `ACTION_*` for the next resume, plus 1; 0: none. Signal << 8.
    pub action: AtomicU64,
    /// Signal that the debugger lets through.
    pub chosen: AtomicU64,
}

/// A session that debugs.
pub struct Debugger<P> {
    /// Its number in the module.
    pub session: u32,
    /// What it debugs.
    pub process: Weak<P>,
    /// Whether that stands.
    pub state: Mutex<Stop, rank::DebuggerStop>,
    /// Watchpoints.
    pub watches: Watches,
    /// By which it is counted as long as anybody holds it.
    pub _counted: Counted,
}

/// Whether its threads stand, and why.
#[derive(Default)]
pub struct Stop {
    /// `OBSERVED_*`: why it stopped, or is about to.
    pub why: u64,
    /// Every thread is there.
    pub complete: bool,
    /// The thread because of which it stopped.
    pub tid: u32,
    /// The signal that it stopped by, or 0.
    pub signal: u32,
    /// The watchpoint that it met, or 0.
    pub address: u64,
    /// What `int3` stands for, by address.
    pub breakpoints: BTreeMap<u64, u8>,
    /// As of wait(2), once it has.
    pub ended: Option<u32>,
    /// The debugger lets go of it.
    pub closing: bool,
}

/// Tells the owner of a session that there is something to be asked for.
pub fn tell(session: u32) {
    doorbell::ring(EVENT_OBSERVE, u64::from(session));
}

/// A session that traces.
pub struct Trace {
    /// Its number in the module.
    pub session: u32,
    /// Children are traced, too.
    pub follow: bool,
    /// Most bytes of data in a record.
    pub data_max: usize,
    /// Where records go.
    pub ring: Mutex<Ring, rank::TraceRing>,
    /// Processes that it watches.
    pub watched: AtomicU64,
    /// Its tracer is gone.
    pub closed: AtomicBool,
    /// By which it is counted as long as anybody holds it.
    pub _counted: Counted,
}

/// A watchpoint of a debugger.
#[derive(Clone, Copy, Default)]
pub struct Watch {
    /// Where.
    pub address: u64,
    /// 0: there is none.
    pub bytes: u64,
    /// What the CPU stops at, see [`DebugRegisters`](hanare_core::debugregs::DebugRegisters).
    pub kind: u64,
}

/// All of them, the same for all threads.
#[derive(Default)]
pub struct Watches(pub Mutex<[Watch; ADDRESSES], rank::Watches>);
