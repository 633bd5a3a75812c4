//! The signals of a thread and of its process: masks, pending signals, actions.

use crate::base::heap;
use crate::base::lists;
use crate::base::lock::{Mutex, MutexGuard, rank};
use crate::sched::cpus;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use hanare_core::directed::Directed;
use hanare_core::errno::Result;
use hanare_core::limits::TASK_SIZE;
use hanare_core::signal::{
    self, Actions, AltStack, Mirrored, Pending, QueuedSignal, SigInfo, SigSet, UserSignals,
};
use hanare_core::syscalls::Restart;
use hanare_hal::traps::vector;

/// An exception, as frames show it.
#[derive(Clone, Copy, Default)]
pub struct Trap {
    /// Vector.
    pub number: u64,
    /// Error code of the CPU.
    pub error: u64,
    /// Address of the last page fault.
    pub cr2: u64,
}

impl Trap {
    /// A page fault, as Linux tells it: not which of Linux' own addresses are mapped.
    pub fn page_fault(error: u64, addr: u64) -> Trap {
        Trap {
            number: u64::from(vector::PAGE_FAULT),
            error: if addr >= TASK_SIZE { error | 1 } else { error },
            cr2: addr,
        }
    }
}

/// A call that a signal interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// Linux returned EINTR; what follows depends on the call.
    Started(Restart),
    /// The LWK itself ended the call.
    Local(Restart),
    /// The worker saw the signal before it made the call: always made again.
    NotStarted,
}

/// The rest of a call that a stop or a signal without a handler interrupted, which must not begin
/// anew; its family of calls knows what that is.
pub trait Rest: Send + Sync {
    /// Continues the call, as restart_syscall(2) does.
    fn go_on(&self) -> Result<u64>;
}

/// The signals of a process, shared by its threads.
#[derive(Default)]
pub struct ProcessSignals {
    /// Handlers and the like.
    pub actions: Box<Actions>,
    /// Sent to the process.
    pub pending: Pending,
    /// Sent to the process and not come, where what comes looks like a thread's.
    pub directed: Directed,
    /// The dispositions that Linux has been told.
    pub mirrored: Box<Mirrored>,
    /// A thread is telling Linux.
    pub telling: bool,
    /// Threads that wait for that.
    pub waiting_to_tell: u32,
}

impl ProcessSignals {
    /// Signals of a new process, which are counted for the `user`.
    pub fn new(user: Arc<UserSignals>) -> ProcessSignals {
        ProcessSignals { pending: Pending::of_user(user), ..ProcessSignals::default() }
    }

    /// Signals that the parent had ignored stay ignored.
    pub fn inherit_ignored(&mut self, ignored: u64) {
        *self.actions = Actions::with_ignored(SigSet(ignored));
        *self.mirrored = Mirrored::of(&self.actions);
    }

    /// Gives the signals that go over to the process that replaces this one in execve: the ignored
    /// ones, and the pending ones, which are taken.
    pub fn hand_over(&mut self) -> (SigSet, Pending) {
        let ignored =
            (1..=signal::SIGNAL_MAX).filter(|&s| self.actions.get(s).handler == signal::SIG_IGN);
        let left = self.pending.like();
        (ignored.fold(SigSet::EMPTY, SigSet::with), core::mem::replace(&mut self.pending, left))
    }

    /// Takes over what [`hand_over`](Self::hand_over) gave.
    pub fn take_over(&mut self, (ignored, pending): (SigSet, Pending)) {
        self.inherit_ignored(ignored.0);
        self.pending = pending;
    }

    /// The signals' state for the child of a fork.
    pub fn inherit(&self) -> ProcessSignals {
        ProcessSignals {
            actions: lists::boxed_within(Actions::clone(&self.actions)),
            mirrored: lists::boxed_within(self.mirrored.of_child()),
            pending: self.pending.like(),
            directed: Directed::default(),
            telling: false,
            waiting_to_tell: 0,
        }
    }
}

/// The mask with which the worker of a new thread begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WorkerMask {
    /// All signals are blocked.
    All,
    /// The mask that the worker of its creator has when it makes the new one: its mask now, or the
    /// one of its next request.
    Copied,
    /// The mask that the worker of its creator has now. The slot tells it.
    Told,
}

/// [`ThreadSignals`] behind their lock, and whether its worker has to be told of them.
pub struct OfThread {
    /// The lock was taken since [`news`](Self::news).
    touched: AtomicBool,
    inner: Mutex<ThreadSignals, rank::ThreadSignals>,
}

impl OfThread {
    /// With the mask of a new thread, whose signals are counted for the `user`.
    pub fn new(mask: u64, user: Arc<UserSignals>) -> OfThread {
        let inner = Mutex::new(ThreadSignals::new(mask, Pending::of_user(user)));
        OfThread { touched: AtomicBool::new(true), inner }
    }

    /// The thread's signals, under their lock.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, ThreadSignals, rank::ThreadSignals> {
        let inner = self.inner.lock();
        self.touched.store(true, Ordering::Relaxed);
        inner
    }

    /// Whether the worker has the mask already that its next call needs.
    pub fn is_told(&self) -> bool {
        // Most holders of the lock have only looked.
        !self.touched.load(Ordering::Relaxed) || {
            let s = self.inner.lock();
            s.applied == s.lasting && !s.is_owed
        }
    }

    /// The mask for the worker's next call, unless it is certainly the mask of its last call. The
    /// worker will then apply it. The mask that a call with a mask of its own brings is not in it:
    /// Linux applies that.
    #[inline]
    pub fn news(&self) -> Option<u64> {
        self.touched.load(Ordering::Relaxed).then(|| self.mask())
    }

    #[cold]
    fn mask(&self) -> u64 {
        let mut s = self.lock();
        self.touched.store(false, Ordering::Relaxed); // changes now wait for the lock
        s.is_owed = false;
        s.applied = if s.is_held_back { SigSet::ALL.blockable() } else { s.lasting };
        s.applied.0
    }
}

/// Signals of one thread: mask, pending signals, alternate stack.
pub struct ThreadSignals {
    /// Signals that are blocked.
    pub mask: SigSet,
    /// The mask that comes back after a call with a mask of its own; otherwise the same as `mask`.
    pub lasting: SigSet,
    /// Signals sent to the thread, or raised by what it does.
    pub pending: Pending,
    /// Sent to the process, and taken for it by the thread's worker: as on Linux no other
    /// thread's business unless this one blocks them or ends.
    chosen: Pending,
    /// Sent to it and not come, where what comes does not tell.
    pub directed: Directed,
    /// Stack of handlers with SA_ONSTACK.
    pub alt: AltStack,
    /// Mask the worker has on Linux.
    pub applied: SigSet,
    /// A tracer has set the worker's mask, of which the worker does not know.
    is_owed: bool,
    /// The worker blocks all signals: the thread is in a call that none interrupts.
    is_held_back: bool,
    interrupted: Option<Interrupted>,
    /// The rest of a call, with which restart_syscall(2) goes on.
    rest: Option<Arc<dyn Rest>>,
    /// The last exception that raised a signal: later frames show it, too.
    pub trap: Trap,
}

impl ThreadSignals {
    /// With the mask of a new thread, and the queue of its own signals.
    pub fn new(mask: u64, pending: Pending) -> ThreadSignals {
        let mask = SigSet(mask).blockable();
        let chosen = pending.like();
        ThreadSignals {
            mask,
            lasting: mask,
            pending,
            chosen,
            directed: Directed::default(),
            alt: AltStack::DISABLED,
            applied: mask,
            is_owed: false,
            is_held_back: false,
            interrupted: None,
            rest: None,
            trap: Trap::default(),
        }
    }

    /// Whether one of the thread's own signals could be delivered.
    pub fn is_deliverable(&self) -> bool {
        self.pending.is_deliverable(self.mask) || self.chosen.is_deliverable(self.mask)
    }

    /// All signals for the thread itself that wait, blocked or not.
    pub fn waiting(&self) -> SigSet {
        self.pending.set().union(self.chosen.set())
    }

    /// Takes the next signal of the thread or, behind them, of its process; as Linux.
    pub fn dequeue(&mut self, shared: &mut Pending, blocked: SigSet) -> Option<QueuedSignal> {
        self.pending
            .dequeue(blocked)
            .or_else(|| signal::dequeue_thread(&mut self.chosen, shared, blocked))
    }

    /// Gives up one that was sent to the process and taken for this thread, of `set`.
    pub fn give_up(&mut self, set: SigSet) -> Option<QueuedSignal> {
        self.chosen.dequeue(SigSet(!set.0))
    }

    /// PTRACE_SETSIGMASK. The worker, which is stopped, has it on Linux, and is to learn of that
    /// when the thread goes on.
    pub fn replace_mask(&mut self, mask: SigSet) {
        self.set(mask);
        self.is_owed = true;
    }

    /// Signals that wait for the process and were taken for it by the thread's worker.
    pub fn of_process(&self) -> &Pending {
        &self.chosen
    }

    /// Has the thread's worker block all signals, from its next request on, until
    /// [`let_in`](Self::let_in).
    pub fn hold_back(&mut self) {
        self.is_held_back = true;
    }

    /// Has the thread's worker block what the thread does, from its next request on.
    pub fn let_in(&mut self) {
        self.is_held_back = false;
    }

    /// Whether the thread's worker blocks all signals.
    pub fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Blocks `mask`, and nothing else.
    pub fn set(&mut self, mask: SigSet) {
        self.mask = mask;
        self.lasting = mask;
    }

    /// For a new thread or process: the mask and, with `alt`, the alternate stack are
    /// inherited, pending signals are not.
    pub fn inherit(&self, alt: bool, worker: WorkerMask) -> ThreadSignals {
        let new = ThreadSignals::new(self.lasting.0, self.pending.like());
        let applied = match worker {
            WorkerMask::All => SigSet::ALL.blockable(),
            WorkerMask::Copied => self.applied.union(new.applied),
            WorkerMask::Told => self.applied,
        };
        let alt = if alt { self.alt } else { new.alt };
        ThreadSignals { trap: self.trap, alt, applied, ..new }
    }

    /// Whether Linux may keep signals back that the thread does not block, or the worker does not
    /// know its mask.
    pub fn keeps_back(&self) -> bool {
        self.is_owed || !self.applied.difference(self.mask).is_empty()
    }

    /// Whether nothing has to be done about the mask: no signal waits here that it blocks, `shared`
    /// being those of the process, and Linux keeps none back that it does not.
    pub fn is_settled(&self, shared: &Pending) -> bool {
        let here = self.pending.set().union(self.chosen.set()).union(shared.set());
        here.intersection(self.mask).is_empty() && !self.keeps_back()
    }

    /// Adds a signal for this thread.
    pub fn queue(&mut self, signal: u32, info: SigInfo) -> Result<bool> {
        heap::fallible(|| self.pending.queue(signal, info))
    }

    /// A signal that the thread's worker has taken; `room`: see [`Pending::add`]. False: it was
    /// sent to the process, and the thread blocks it by now.
    pub fn take(&mut self, signal: u32, info: SigInfo, to_process: bool, room: bool) -> bool {
        if to_process && self.mask.contains(signal) {
            self.worker_blocks(signal);
            return false;
        }
        let pending = if to_process { &mut self.chosen } else { &mut self.pending };
        heap::fallible(|| pending.add(signal, info, room));
        true
    }

    /// The thread's worker blocks a signal that it has taken, until its next request.
    pub fn worker_blocks(&mut self, signal: u32) {
        self.applied = self.applied.with(signal);
    }

    /// Remembers an interrupted call until delivery.
    pub fn set_interrupted(&mut self, what: Interrupted) {
        cpus::request_attention();
        self.interrupted = Some(what);
    }

    /// Whether a call was interrupted, and it is not decided yet whether it is made again.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// Takes the interrupted call, whose result is to be decided now.
    pub fn take_interrupted(&mut self) -> Option<Interrupted> {
        self.interrupted.take()
    }

    /// A call ended early that goes on with `rest` unless a handler runs; without memory for it, it
    /// ends with EINTR.
    pub fn set_rest(&mut self, rest: impl Rest + 'static) {
        self.rest = heap::arc(rest).ok().map(|rest| rest as Arc<dyn Rest>);
        self.set_interrupted(Interrupted::Local(Restart::Block));
    }

    /// Takes the rest of a call, with which restart_syscall(2) goes on once.
    pub fn take_rest(&mut self) -> Option<Arc<dyn Rest>> {
        self.rest.take()
    }

    /// The call has a result after all.
    pub fn clear_interrupted(&mut self) {
        self.interrupted = None;
    }

    /// A call with a mask of its own begins.
    pub fn begin_temporary(&mut self, mask: SigSet) {
        cpus::request_attention();
        self.mask = mask.blockable();
    }

    /// A call with a mask of its own is over: unless a signal ended it, that may be one
    /// that only this mask lets through.
    pub fn end_temporary(&mut self) {
        if !matches!(self.interrupted, Some(Interrupted::Started(_))) {
            self.mask = self.lasting;
        }
    }

    /// For the thread that takes this one's place: all there is.
    pub fn hand_over(&mut self) -> ThreadSignals {
        let chosen = core::mem::replace(&mut self.chosen, self.pending.like());
        let pending = core::mem::replace(&mut self.pending, chosen.like());
        ThreadSignals { chosen, trap: self.trap, ..ThreadSignals::new(self.mask.0, pending) }
    }

    /// exec: the alternate stack goes, the rest stays.
    pub fn on_exec(&mut self) {
        self.alt = AltStack::DISABLED;
    }
}
