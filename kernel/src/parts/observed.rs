//! Observers of a process: its trace, its debugger.

use crate::base::accounts::{Account, Charge};
use crate::base::counts::Counted;
use crate::base::lists;
use crate::base::lock::{Mutex, rank};
use crate::parts::ring::Ring;
use crate::sched::doorbell;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanare_abi::boot::EVENT_OBSERVE;
use hanare_core::debugregs::ADDRESSES;
use hanare_core::errno::Result;
use hanare_core::gate::Stop;
use hanare_core::lists::entry_bytes;

/// The observers of a process.
pub struct OfProcess<P> {
    /// [`TRACED`] and the like.
    pub flags: AtomicU32,
    /// The session that traces the process.
    pub trace: Mutex<Option<Arc<Trace>>, rank::Trace>,
    /// The session that debugs the process.
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
/// Linux traces a worker of the process.
pub const PTRACED: u32 = 8;
/// No observer watches, but arguments of its calls are copied (`route/copied.rs`), so none takes
/// the short way.
pub const COPIES: u32 = 16;

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
    /// Whether an observer or a tracer watches.
    pub fn is_on(&self) -> bool {
        self.has(!COPIES)
    }

    /// Whether one of these flags is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Sets flags, or clears them.
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

    /// Whether `hanare gdb` debugs the process.
    pub fn is_debugged(&self) -> bool {
        self.has(DEBUGGED)
    }

    /// Whether threads are to stop.
    pub fn holds(&self) -> bool {
        self.has(HELD)
    }
}

/// A thread as its process' observers have it.
#[derive(Default)]
pub struct OfThread {
    /// How its call used Linux: 0 not at all, 1 for a part, 2 for the call itself.
    pub asked: AtomicU32,
    /// TSC value at which it began the call whose beginning is in a trace; 0: it is in none.
    pub began: AtomicU64,
    /// The number of that call.
    pub number: AtomicU32,
    /// The session of that trace.
    pub session: AtomicU32,
    /// `ACTION_*` for the debugger's next resume, plus 1; 0: none. Signal << 8.
    pub action: AtomicU64,
    /// Signal that the debugger lets through.
    pub chosen: AtomicU64,
}

/// A process as its debugger has it.
pub struct Debuggee {
    /// Whether the process' threads stand, and why.
    pub stop: Stop,
    /// Addresses where `int3` stands.
    pub breakpoints: Breakpoints,
}

/// Bytes in whose place `int3` stands, by address. They are charged to the debugger's user.
pub struct Breakpoints {
    all: BTreeMap<u64, u8>,
    account: Arc<Account>,
}

impl Breakpoints {
    /// Kernel memory for one breakpoint, bytes: room for an entry is two nodes, which have ten at
    /// least.
    const COST: u64 = entry_bytes::<u64, u8>() as u64 / 10;

    /// Breakpoints of a process: none yet.
    pub fn new(account: Arc<Account>) -> Breakpoints {
        Breakpoints { all: BTreeMap::new(), account }
    }

    /// One more.
    ///
    /// # Errors
    /// `ENOMEM`: there is no memory, or it is beyond the user's limit.
    pub fn insert(&mut self, address: u64, byte: u8) -> Result<()> {
        if self.all.contains_key(&address) {
            return Ok(());
        }
        self.account.add_kernel(Self::COST)?;
        lists::insert(&mut self.all, address, byte)
            .inspect_err(|_| self.account.remove_kernel(Self::COST))
            .map(drop)
    }

    /// Removes the breakpoint at `address`, if there is one.
    pub fn remove(&mut self, address: u64) {
        if self.all.remove(&address).is_some() {
            self.account.remove_kernel(Self::COST);
        }
    }

    /// None any more.
    pub fn clear(&mut self) {
        self.account.remove_kernel(self.all.len() as u64 * Self::COST);
        self.all = BTreeMap::new();
    }

    /// All breakpoints.
    pub fn all(&self) -> &BTreeMap<u64, u8> {
        &self.all
    }
}

impl Drop for Breakpoints {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A session that debugs.
pub struct Debugger<P> {
    /// The session's number in the module.
    pub session: u32,
    /// The process that the session debugs.
    pub process: Weak<P>,
    /// Whether that stands, and where it is to.
    pub state: Mutex<Debuggee, rank::DebuggerStop>,
    /// Watchpoints.
    pub watches: Watches,
    /// Charge for the session itself.
    pub _charge: Charge,
    /// Counts the session until its last reference goes.
    pub _counted: Counted,
}

/// Tells the owner of a session that there is something to be asked for.
pub fn tell(session: u32) {
    doorbell::ring(0, EVENT_OBSERVE, u64::from(session));
}

/// A session that traces.
pub struct Trace {
    /// The session's number in the module.
    pub session: u32,
    /// Children are traced, too.
    pub follow: bool,
    /// Most bytes of data in a record.
    pub data_max: usize,
    /// Where records go, as long as there is a tracer.
    pub ring: Mutex<Option<Ring>, rank::TraceRing>,
    /// Number of processes that the session watches.
    pub watched: AtomicU64,
    /// The session's tracer is gone.
    pub closed: AtomicBool,
    /// Charge for the session itself.
    pub _charge: Charge,
    /// Counts the session until its last reference goes.
    pub _counted: Counted,
}

/// A watchpoint of a debugger.
#[derive(Clone, Copy, Default)]
pub struct Watch {
    /// Address of the watchpoint.
    pub address: u64,
    /// 0: there is none.
    pub bytes: u64,
    /// The accesses at which the CPU stops, see
    /// [`DebugRegisters`](hanare_core::debugregs::DebugRegisters).
    pub kind: u64,
}

/// All watchpoints of a process: its threads have the same.
#[derive(Default)]
pub struct Watches(pub Mutex<[Watch; ADDRESSES], rank::Watches>);
