//! Signals: sets, actions, queues, and the frame a handler finds on its stack.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use hanare_abi::control::Mirror;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::errno::{EAGAIN, EINVAL, Result};
use crate::limits::MAX_QUEUED_SIGNALS;
use crate::lists;

mod frame;
mod mirror;
mod set;
pub use frame::*;
pub use mirror::{Mirrored, Told};
pub use set::*;

/// `sa_handler`: default action.
pub const SIG_DFL: u64 = 0;
/// `sa_handler`: ignore.
pub const SIG_IGN: u64 = 1;

/// `sa_flags`: no signal when a child stops.
pub const SA_NOCLDSTOP: u64 = 1;
/// `sa_flags`: children leave no zombies.
pub const SA_NOCLDWAIT: u64 = 2;
/// `sa_flags`: the handler takes three arguments.
pub const SA_SIGINFO: u64 = 4;
/// `sa_flags`: run on the alternate stack.
pub const SA_ONSTACK: u64 = 0x0800_0000;
/// `sa_flags`: restart interrupted calls.
pub const SA_RESTART: u64 = 0x1000_0000;
/// `sa_flags`: do not block the signal in its handler.
pub const SA_NODEFER: u64 = 0x4000_0000;
/// `sa_flags`: back to default when the handler starts.
pub const SA_RESETHAND: u64 = 0x8000_0000;
/// `sa_flags`: `restorer` is valid; x86-64 requires it.
pub const SA_RESTORER: u64 = 0x0400_0000;

/// `sa_flags`: the tag bits of `si_addr` are wanted (there are none).
pub const SA_EXPOSE_TAGBITS: u64 = 0x800;
/// All of `sa_flags` that mean something, Linux' `UAPI_SA_FLAGS`.
pub const SA_KNOWN: u64 = SA_NOCLDSTOP
    | SA_NOCLDWAIT
    | SA_SIGINFO
    | SA_ONSTACK
    | SA_RESTART
    | SA_NODEFER
    | SA_RESETHAND
    | SA_RESTORER
    | SA_EXPOSE_TAGBITS;

/// `struct kernel_sigaction` of x86-64, as `rt_sigaction` reads and writes it. 32 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SigAction {
    /// `SIG_DFL`, `SIG_IGN` or an address.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Address that the handler returns to.
    pub restorer: u64,
    /// Blocked while the handler runs.
    pub mask: SigSet,
}

impl SigAction {
    /// The default action.
    pub const DEFAULT: Self = Self { handler: SIG_DFL, flags: 0, restorer: 0, mask: SigSet::EMPTY };

    /// Whether there is a handler.
    #[must_use]
    pub const fn is_caught(&self) -> bool {
        self.handler > SIG_IGN
    }

    /// Whether interrupted calls restart.
    #[must_use]
    pub const fn restarts(&self) -> bool {
        self.flags & SA_RESTART != 0
    }

    /// The mask while the handler of `signal` runs, coming from `mask`.
    #[must_use]
    pub const fn mask_in_handler(&self, signal: u32, mask: SigSet) -> SigSet {
        let mask = mask.union(self.mask);
        let mask = if self.flags & SA_NODEFER == 0 { mask.with(signal) } else { mask };
        mask.blockable()
    }
}

/// The actions of one process.
#[derive(Clone, Debug)]
pub struct Actions {
    table: [SigAction; SIGNAL_MAX as usize],
    /// Whether this is the first process of a pid namespace: no signal has a default action, but
    /// for a fault of its own (Linux' `SIGNAL_UNKILLABLE`).
    pub is_init: bool,
}

impl Default for Actions {
    fn default() -> Self {
        Self::new()
    }
}

impl Actions {
    /// Actions that are all the default.
    #[must_use]
    pub const fn new() -> Self {
        Self { table: [SigAction::DEFAULT; SIGNAL_MAX as usize], is_init: false }
    }

    /// The actions of a program that starts with the signals in `ignored` ignored.
    #[must_use]
    pub fn with_ignored(ignored: SigSet) -> Self {
        let mut actions = Self::new();
        for signal in 1..=SIGNAL_MAX {
            if ignored.blockable().contains(signal) {
                actions.table[signal as usize - 1].handler = SIG_IGN;
            }
        }
        actions
    }

    /// The action of a signal; the default for a number that is none.
    #[must_use]
    pub fn get(&self, signal: u32) -> SigAction {
        match signal.checked_sub(1).and_then(|index| self.table.get(index as usize)) {
            Some(action) => *action,
            None => SigAction::DEFAULT,
        }
    }

    /// Sets an action (`rt_sigaction`) and returns the one before. A caller that sets an action
    /// that ignores the signal also [discards](Pending::discard) it.
    ///
    /// # Errors
    /// `EINVAL`: no such signal, or SIGKILL or SIGSTOP.
    pub fn set(&mut self, signal: u32, action: SigAction) -> Result<SigAction> {
        if !is_valid(signal) || SigSet::UNBLOCKABLE.contains(signal) {
            return Err(EINVAL);
        }
        let action = SigAction { mask: action.mask.blockable(), ..action };
        Ok(core::mem::replace(&mut self.table[signal as usize - 1], action))
    }

    /// A new program: caught signals become default, ignored ones stay ignored,
    /// flags and masks are cleared (Linux' `flush_signal_handlers`).
    pub fn on_exec(&mut self) {
        for action in &mut self.table {
            let handler = if action.handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
            *action = SigAction { handler, ..SigAction::DEFAULT };
        }
    }

    /// A handler starts: with SA_RESETHAND its action becomes the default.
    pub fn on_handled(&mut self, signal: u32) {
        if let Some(action) =
            signal.checked_sub(1).and_then(|index| self.table.get_mut(index as usize))
            && action.flags & SA_RESETHAND != 0
        {
            action.handler = SIG_DFL;
        }
    }

    /// Whether `signal` need not be kept: nothing would happen if it were delivered, and no thread
    /// waits for it. An init process may block it and wait (sigwait(3)).
    #[must_use]
    pub fn ignores(&self, signal: u32) -> bool {
        let action = self.get(signal);
        let by_default =
            action.handler == SIG_DFL && default_action(signal) == DefaultAction::Ignore;
        action.handler == SIG_IGN || by_default
    }
}

/// Action for a signal that is delivered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Nothing.
    Ignore,
    /// Ends the process by the signal.
    Terminate {
        /// The process leaves a core dump.
        core: bool,
    },
    /// Stop.
    Stop,
    /// Nothing more: the process was continued when the signal was sent.
    Continue,
    /// Call the handler.
    Handle(SigAction),
}

/// The action for `signal`, given the process' actions.
#[must_use]
pub fn decide(signal: u32, actions: &Actions) -> Disposition {
    let action = actions.get(signal);
    if action.is_caught() {
        return Disposition::Handle(action);
    }
    if action.handler == SIG_IGN || actions.is_init {
        return Disposition::Ignore;
    }
    match default_action(signal) {
        DefaultAction::Terminate => Disposition::Terminate { core: false },
        DefaultAction::Core => Disposition::Terminate { core: true },
        DefaultAction::Ignore => Disposition::Ignore,
        DefaultAction::Stop => Disposition::Stop,
        DefaultAction::Continue => Disposition::Continue,
    }
}

/// The action for a fault of the program itself: as [`decide`], except that a blocked or ignored
/// signal ends the process (Linux' `force_sig_info`).
#[must_use]
pub fn decide_forced(signal: u32, actions: &Actions, blocked: SigSet) -> Disposition {
    match decide(signal, actions) {
        Disposition::Handle(action) if !blocked.contains(signal) => Disposition::Handle(action),
        _ => Disposition::Terminate { core: default_action(signal) == DefaultAction::Core },
    }
}

/// How the proxy has to treat a signal of which the application has this action. Caught or fatal by
/// default: forward. Stopping, continuing and doing nothing by default is left to Linux.
#[must_use]
pub const fn mirror(signal: u32, action: &SigAction) -> Mirror {
    if SigSet::UNBLOCKABLE.contains(signal) {
        return Mirror::Default;
    }
    if action.is_caught() {
        return Mirror::Forward;
    }
    if action.handler == SIG_IGN {
        return Mirror::Ignore;
    }
    match default_action(signal) {
        DefaultAction::Terminate | DefaultAction::Core => Mirror::Forward,
        DefaultAction::Ignore | DefaultAction::Stop | DefaultAction::Continue => Mirror::Default,
    }
}

/// The `SA_*` flags of `signal` that Linux has to know besides: what becomes of
/// children that end or stop.
#[must_use]
pub const fn mirror_flags(signal: u32, action: &SigAction) -> u64 {
    if signal == SIGCHLD { action.flags & (SA_NOCLDSTOP | SA_NOCLDWAIT) } else { 0 }
}

/// A signal with its information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedSignal {
    /// Number, 1..=64.
    pub signal: u32,
    /// Information for a handler with SA_SIGINFO.
    pub info: SigInfo,
}

impl QueuedSignal {
    /// Whether the signal is queued though there is no room: a standard signal from the kernel or
    /// kill(2) (Linux' `override_rlimit`), or from a timer, for which Linux has an entry from the
    /// timer's beginning. A queue has one of each at most, so that no sender can fill memory with
    /// them.
    const fn overrides_limit(&self) -> bool {
        self.signal < SIGRTMIN && (self.info.code >= SI_USER || self.info.code == SI_TIMER)
    }
}

/// Signals that are queued with information for one user, in all queues of all processes. Standard
/// signals from the kernel, kill(2) and timers are counted, and are never too many.
#[derive(Debug, Default)]
pub struct UserSignals(AtomicUsize);

impl UserSignals {
    /// A user without queued signals.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Number of the user's queued signals.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more, unless there are as many as there may be.
    fn add(&self, limit: usize) -> bool {
        let more = |count| (count < limit).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts one more signal, however many there are.
    fn add_anyway(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Signals sent and not delivered yet, of a thread or a process.
#[derive(Debug)]
pub struct Pending {
    set: SigSet,
    queue: VecDeque<QueuedSignal>,
    limit: usize,
    /// Where the queue's entries are counted; `None`: nowhere.
    user: Option<Arc<UserSignals>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.uncount(self.queue.len());
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self::new(MAX_QUEUED_SIGNALS)
    }
}

impl Pending {
    /// Nothing pending; at most `limit` entries with information (RLIMIT_SIGPENDING).
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { set: SigSet::EMPTY, queue: VecDeque::new(), limit, user: None }
    }

    /// Nothing pending; at most as many entries with information as the user may have in all
    /// queues (RLIMIT_SIGPENDING binds a user).
    #[must_use]
    pub const fn of_user(user: Arc<UserSignals>) -> Self {
        Self {
            set: SigSet::EMPTY,
            queue: VecDeque::new(),
            limit: MAX_QUEUED_SIGNALS,
            user: Some(user),
        }
    }

    /// An empty queue, counted where this one is.
    #[must_use]
    pub fn like(&self) -> Self {
        Self {
            set: SigSet::EMPTY,
            queue: VecDeque::new(),
            limit: self.limit,
            user: self.user.clone(),
        }
    }

    /// Whether the entry was added: the queue and the user have room, or it needs none, and the
    /// kernel has memory.
    fn enqueue(&mut self, queued: QueuedSignal) -> bool {
        let user = self.user.as_deref();
        if queued.overrides_limit() {
            user.inspect(|user| user.add_anyway());
        } else if self.queue.len() >= self.limit || !user.is_none_or(|u| u.add(self.limit)) {
            return false;
        }
        let is_added = lists::enqueue(&mut self.queue, queued).is_ok();
        if !is_added {
            self.uncount(1);
        }
        is_added
    }

    /// Takes the entry at a place out.
    fn remove(&mut self, position: Option<usize>) -> Option<QueuedSignal> {
        let queued = self.queue.remove(position?)?;
        self.uncount(1);
        Some(queued)
    }

    fn uncount(&self, count: usize) {
        if let Some(user) = self.user.as_ref().filter(|_| count != 0) {
            user.remove(count);
        }
    }

    /// The signals pending.
    #[must_use]
    pub const fn set(&self) -> SigSet {
        self.set
    }

    /// Queues a signal. A standard signal that is pending already is dropped
    /// (`Ok(false)`); real-time signals queue up. SIGCONT removes pending stop
    /// signals and the other way round.
    ///
    /// # Errors
    /// `EINVAL`: no such signal. `EAGAIN`: the queue or its user has no room, or there is no
    /// memory, and the signal was sent with data that would be lost (a real-time signal not from
    /// `kill`); others become pending without their information.
    pub fn queue(&mut self, signal: u32, info: SigInfo) -> Result<bool> {
        if !self.admits(signal)? {
            return Ok(false);
        }
        let is_queued = self.enqueue(QueuedSignal { signal, info });
        if !is_queued && signal >= SIGRTMIN && info.code != SI_USER {
            return Err(EAGAIN);
        }
        self.set = self.set.with(signal);
        Ok(true)
    }

    /// As [`queue`](Self::queue), where no sender can be told any more that the signal is lost:
    /// without what came with it where the kernel has no `room`, or the queue, as Linux does behind
    /// RLIMIT_SIGPENDING.
    pub fn add(&mut self, signal: u32, info: SigInfo, room: bool) {
        if (!room || self.queue(signal, info).is_err()) && self.admits(signal).is_ok() {
            self.set = self.set.with(signal);
        }
    }

    /// Whether a signal becomes pending, after what it does to others.
    fn admits(&mut self, signal: u32) -> Result<bool> {
        if !is_valid(signal) {
            return Err(EINVAL);
        }
        if SigSet::STOP.contains(signal) {
            self.discard(SigSet::of(SIGCONT));
        } else if signal == SIGCONT {
            self.discard(SigSet::STOP);
        }
        Ok(signal >= SIGRTMIN || !self.set.contains(signal))
    }

    /// Takes the signal that Linux would deliver next, none of `blocked`:
    /// synchronous ones first, then by number, equal ones in order.
    #[inline]
    pub fn dequeue(&mut self, blocked: SigSet) -> Option<QueuedSignal> {
        // Mostly there is none.
        if self.is_deliverable(blocked) { self.take_next(blocked) } else { None }
    }

    fn take_next(&mut self, blocked: SigSet) -> Option<QueuedSignal> {
        let signal = self.set.difference(blocked).first()?;
        let position = self.queue.iter().position(|queued| queued.signal == signal);
        let queued = match self.remove(position) {
            Some(queued) => queued,
            // it became pending when the queue was full
            None => QueuedSignal { signal, info: SigInfo::user(signal, 0, 0) },
        };
        if !self.queue.iter().any(|other| other.signal == signal) {
            self.set = self.set.without(signal);
        }
        Some(queued)
    }

    /// Takes the signal that was queued last, none of `blocked`.
    pub fn dequeue_last(&mut self, blocked: SigSet) -> Option<QueuedSignal> {
        let position = self.queue.iter().rposition(|queued| !blocked.contains(queued.signal));
        let Some(queued) = self.remove(position) else {
            return self.dequeue(blocked);
        };
        if !self.queue.iter().any(|other| other.signal == queued.signal) {
            self.set = self.set.without(queued.signal);
        }
        Some(queued)
    }

    /// Queued signals, in the order in which they came, without those that became pending without
    /// information.
    pub fn queued(&self) -> impl ExactSizeIterator<Item = &QueuedSignal> {
        self.queue.iter()
    }

    /// Whether [`dequeue`](Self::dequeue) would give one.
    #[must_use]
    pub const fn is_deliverable(&self, blocked: SigSet) -> bool {
        !self.set.difference(blocked).is_empty()
    }

    /// Forgets the signals in `set`.
    pub fn discard(&mut self, set: SigSet) {
        if !self.set.intersection(set).is_empty() {
            self.set = self.set.difference(set);
            let before = self.queue.len();
            self.queue.retain(|queued| !set.contains(queued.signal));
            self.uncount(before - self.queue.len());
        }
    }

    /// Forgets all signals.
    pub fn clear(&mut self) {
        self.discard(SigSet::ALL);
    }
}

/// Takes the next signal of a thread: its own ones before the process's.
#[inline]
pub fn dequeue_thread(
    own: &mut Pending,
    shared: &mut Pending,
    blocked: SigSet,
) -> Option<QueuedSignal> {
    own.dequeue(blocked).or_else(|| shared.dequeue(blocked))
}

#[cfg(test)]
mod tests;
