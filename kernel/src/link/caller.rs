//! Who calls Linux: a thread, as the link knows it.

use crate::base::lock::{Mutex, rank};
use crate::sched::task::{Runs, Task};
use alloc::vec::Vec;
use core::ops::Deref;
use hanare_abi::control::Control;
pub use hanare_core::fair::Owner;
use hanare_core::link::Call;
use hanare_core::link::pool::PassesBy;
use hanare_ikc::{Patience, SlotRef};
use spin::Once;

/// The link's part of a thread. It dereferences to its [`Task`]. What each call needs is on one cache line.
#[repr(C, align(64))]
pub struct Port {
    /// The slot shared with its worker.
    pub slot: SlotRef<'static>,
    /// Slot index in the space; 0 is the first thread's of its first process.
    pub slot_index: u32,
    /// Its space, which it never leaves.
    pub space: u32,
    /// How long it polls for an answer.
    pub patience: Patience,
    /// The scheduler's part.
    pub task: Task,
    /// File references that it drops, while they are to go together (`services::put_together`).
    pub puts: Mutex<Option<Vec<u64>>, rank::Puts>,
    /// Until when its calls go past the request box.
    pub passes_by: PassesBy,
}

impl Port {
    /// Of a thread of `space` with a slot.
    pub fn new(task: Task, space: u32, slot_index: u32, slot: SlotRef<'static>) -> Port {
        let (patience, puts) = (Patience::new(), Mutex::new(None));
        Port { slot, slot_index, space, patience, task, puts, passes_by: PassesBy::default() }
    }
}

impl Deref for Port {
    type Target = Task;
    fn deref(&self) -> &Task {
        &self.task
    }
}

/// What has a [`Port`], and what the link asks of it.
pub trait Delegates: Runs {
    /// Its part that the link knows.
    fn port(&self) -> &Port;
    /// Its space, and whose that is.
    fn owner(&self) -> Owner;
    /// Whether Linux has no proxy of its process any more.
    fn is_killed(&self) -> bool;
    /// Its signal mask in a call, and the head of its list of robust futexes, for its worker; unless both are as
    /// they were when that was asked for last.
    fn news(&self) -> Option<(u64, u64)>;
    /// The latter, as it is now.
    fn robust_list(&self) -> u64;
    /// Before Linux executes something for it: what Linux has not been told yet, it is told.
    fn tell_owed(&self);
    /// Its worker is about to serve this request.
    fn asks(&self, request: &Control);
    /// Its worker, or a server, is about to execute this call.
    fn asks_call(&self, call: &Call);
    /// It has done so, or is gone.
    fn asked(&self, request: Option<&Control>);
}

/// How the running thread is found.
type Current = fn() -> Option<&'static dyn Delegates>;

static CURRENT: Once<Current> = Once::new();

/// Says how the running thread is found; once, at boot.
pub fn init(current: Current) {
    CURRENT.call_once(|| current);
}

/// The running thread, if any.
pub fn try_current() -> Option<&'static dyn Delegates> {
    CURRENT.get().and_then(|current| current())
}

/// The running thread.
pub fn current() -> &'static dyn Delegates {
    try_current().expect("no thread runs here")
}
