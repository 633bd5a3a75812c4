//! The caller of Linux: a thread, as the link knows it.

use crate::base::lock::{Mutex, rank};
use crate::sched::task::{Runs, Task};
use alloc::vec::Vec;
use hanare_abi::control::Control;
pub use hanare_core::fair::Owner;
use hanare_core::link::Call;
use hanare_core::link::pool::PassesBy;
use hanare_ikc::{Patience, SlotRef};
use spin::Once;

/// The link's part of a thread, with the scheduler's in it. All that each call needs is on one
/// cache line.
#[repr(C, align(64))]
pub struct Port {
    /// The slot that the thread shares with its worker.
    pub slot: SlotRef<'static>,
    /// Slot index in the space; 0 is the first thread's of its first process.
    pub slot_index: u32,
    /// The thread's space, which it never leaves.
    pub space: u32,
    /// How long the thread polls for an answer.
    pub patience: Patience,
    /// The scheduler's part.
    pub task: Task,
    /// File references that it drops, while they are to go together (`services::put_together`).
    pub puts: Mutex<Option<Vec<u64>>, rank::Puts>,
    /// Until when the thread's calls go past the request box.
    pub passes_by: PassesBy,
}

impl Port {
    /// Makes the link's part of a thread of `space` with a slot.
    pub fn new(task: Task, space: u32, slot_index: u32, slot: SlotRef<'static>) -> Port {
        let (patience, puts) = (Patience::new(), Mutex::new(None));
        Port { slot, slot_index, space, patience, task, puts, passes_by: PassesBy::default() }
    }
}

/// An object with a [`Port`], and what the link asks of it. Only threads are: they stand above the
/// link, which calls up to tell tracers and debuggers, and to learn masks and dispositions.
pub trait Delegates: Runs {
    /// The link's part of the thread.
    fn port(&self) -> &Port;
    /// The thread's space, and the user of the space.
    fn owner(&self) -> Owner;
    /// Whether Linux has no proxy of its process any more.
    fn is_killed(&self) -> bool;
    /// The thread's signal mask in a call, and the head of its list of robust futexes, for its
    /// worker. `None`: both are as they were when this was asked for last.
    fn news(&self) -> Option<(u64, u64)>;
    /// The head of the list of robust futexes, as it is now.
    fn robust_list(&self) -> u64;
    /// Before Linux executes something for the thread: tells Linux the dispositions that it has not
    /// been told yet.
    fn tell_owed(&self);
    /// Called before the thread's worker serves this request.
    fn asks(&self, request: &Control);
    /// Called before the thread's worker, or a server, executes this call.
    fn asks_call(&self, call: &Call);
    /// Called after the worker or server has done so, or is gone.
    fn asked(&self, request: Option<&Control>);
}

/// Function that finds the running thread.
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
