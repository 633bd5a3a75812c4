//! A thread as its tracer has it: see `gate::ptrace`.

use crate::base::lock::{Mutex, rank};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanare_core::ptrace::Stop;
use hanare_core::ptrace::permitted::Permitted;
use hanare_core::signal::QueuedSignal;

/// Linux traces the thread's worker.
pub const TRACED: u32 = 1;
/// The tracer came by PTRACE_SEIZE.
pub const SEIZED: u32 = 2;
/// The tracee stops at system calls (PTRACE_SYSCALL).
pub const CALLS: u32 = 4;
/// The tracee has a new program, which it has to report.
pub const EXECED: u32 = 8;
/// The tracer has heard of the call that the tracee makes, and will hear of the call's end.
pub const TOLD: u32 = 0x10;
/// The thread has ended.
pub const GONE: u32 = 0x20;
/// The thread has, or had, tracees.
pub const TRACER: u32 = 0x40;
/// The tracer has given the tracee selectors with which no CPU enters user mode.
pub const WRONG_SELECTORS: u32 = 0x80;
/// The tracee's steps go to the next branch (PTRACE_SINGLEBLOCK).
pub const BLOCKS: u32 = 0x100;
/// The tracer has given the tracee a signal at the beginning of the call that it makes.
pub const GIVEN: u32 = 0x200;
/// The tracee makes a call that its filters have left to its tracer.
pub const PERMITTED: u32 = 0x400;
/// Linux is to hear of its tracer's options when its worker has stopped.
pub const UNTOLD: u32 = 0x800;
/// The tracee has a new program, and has not left the execve.
pub const REPLACED: u32 = 0x2000;
/// Another thread of its tracer's process has heard of its stop.
pub const HEARD: u32 = 0x1000;

/// State of one thread as a tracee of ptrace(2).
pub struct OfThread<T> {
    /// [`TRACED`] and the like.
    pub flags: AtomicU32,
    /// `PTRACE_O_*`.
    pub options: AtomicU64,
    /// The signal of `Control::Trap`, while that is under way.
    pub trapping: AtomicU32,
    /// Messages between tracee and tracer.
    pub state: Mutex<State<T>, rank::Tracee>,
}

/// The messages between a tracee and its tracer.
pub struct State<T> {
    /// The last stop.
    pub stop: Stop,
    /// The tracer has heard of the stop.
    pub reported: bool,
    /// The signal of `Control::Trap`, if the tracer lets it through.
    pub let_through: Option<QueuedSignal>,
    /// The signal that its tracer gives it at the stop at the beginning or the end of a call, or 0.
    pub given: u32,
    /// The signal of [`GIVEN`], which comes behind the call.
    pub given_at_entry: u32,
    /// The call of [`PERMITTED`].
    pub permitted: Permitted,
    /// The tracer has let the tracee go on from its stop at a call that a filter leaves to the
    /// tracer.
    pub is_answered: bool,
    /// The options of [`UNTOLD`].
    pub untold: u64,
    /// The number of the call that the thread makes.
    pub call: u64,
    /// The status that Linux has told of the stop of [`HEARD`].
    pub heard: u32,
    /// The tracer, if that is a thread here.
    pub tracer: Weak<T>,
    /// A child that is not to begin before the tracer has heard of it.
    pub child: Option<Arc<T>>,
    /// The thread's id before it became the first thread by execve, until that is told.
    pub former: u32,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        State {
            stop: Stop::Signal,
            reported: false,
            let_through: None,
            given: 0,
            given_at_entry: 0,
            permitted: Permitted::new(0),
            is_answered: false,
            untold: 0,
            call: 0,
            heard: 0,
            tracer: Weak::new(),
            child: None,
            former: 0,
        }
    }
}

impl<T> Default for OfThread<T> {
    fn default() -> Self {
        OfThread {
            flags: AtomicU32::new(0),
            options: AtomicU64::new(0),
            trapping: AtomicU32::new(0),
            state: Mutex::new(State::default()),
        }
    }
}

impl<T> OfThread<T> {
    /// Whether one of these flags is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    /// Sets flags.
    pub fn set(&self, flag: u32) {
        self.flags.fetch_or(flag, Ordering::SeqCst);
    }

    /// Clears flags; whether one of them was set.
    pub fn clear(&self, flag: u32) -> bool {
        self.flags.fetch_and(!flag, Ordering::SeqCst) & flag != 0
    }

    /// Whether its tracer has asked for that, one of `PTRACE_O_*`.
    pub fn wants(&self, wanted: u64) -> bool {
        self.has(TRACED) && self.options.load(Ordering::Relaxed) & wanted != 0
    }

    /// Whether the thread is traced.
    pub fn is_on(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TRACED != 0
    }

    /// A signal that Linux forwards is the one of `Control::Trap`: true, and it is kept apart.
    pub fn takes(&self, queued: QueuedSignal) -> bool {
        let ours = self
            .trapping
            .compare_exchange(queued.signal, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
            && queued.signal != 0;
        if ours {
            self.state.lock().let_through = Some(queued);
        }
        ours
    }
}
