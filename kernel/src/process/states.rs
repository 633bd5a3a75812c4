//! The states of threads and processes. `hanare_core::life` decides what each event makes of them;
//! here every step is made, under the lock of the process' threads, and what it says is done.

use super::memory::Listed;
use super::thread::{ParentWaits, Thread};
use super::{Process, process_gone};
use crate::base::{heap, lists};
use crate::sched::cpus;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hanare_core::errno::{self, Result};
use hanare_core::life::{self, Effects, Event, ProcessState, Refused, ThreadState, Word};
use hanare_core::link::ENDING;

/// Whether there was such a step.
type Step = core::result::Result<Effects, Refused>;
type Threads = Listed<life::Process, Thread>;

impl Process {
    /// Life-cycle state of the process, read without a lock.
    #[inline]
    pub fn life(&self) -> Word {
        Word::of(self.word.load(Ordering::Acquire))
    }

    /// The proxy is gone, or never will be again.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.life().is_killed()
    }

    /// Whether a thread of the process makes a core dump.
    #[inline]
    pub fn is_dumping(&self) -> bool {
        self.life().state() == ProcessState::Dumping
    }

    /// Whether Linux has stopped the process.
    pub fn is_paused(&self) -> bool {
        self.life().is_paused()
    }

    /// Whether the process' proxy is still to come.
    pub fn is_expected(&self) -> bool {
        self.life().state().is_awaited()
    }

    /// Whether no thread lives, and none that ended uses its slot any more.
    pub fn is_deserted(&self) -> bool {
        self.life().state().is_deserted()
    }

    /// Whether the process is gone for good: its memory is left, its use counted.
    pub fn is_gone(&self) -> bool {
        self.life().state() == ProcessState::Gone
    }

    /// Whether another process has its memory that is not about to end.
    pub fn shares_with_living(&self) -> bool {
        let other = |p: &Arc<Process>| !core::ptr::eq(&**p, self) && p.life().state().uses_memory();
        self.memory().is_shared() && self.space.processes().any(|p| other(&p))
    }

    /// A step, with the list of threads locked.
    fn step_in(&self, threads: &mut Threads, thread: Option<&Thread>, event: Event) -> Step {
        let mut state = thread.map_or(ThreadState::Gone, Thread::state);
        let effects = threads.life.step(&mut state, event)?;
        if let Some(thread) = thread {
            thread.set_state(state);
        }
        self.word.store(threads.life.word().bits(), Ordering::SeqCst);
        Ok(effects)
    }

    /// A step after which there is nothing to do but what the caller does.
    fn step(&self, thread: Option<&Thread>, event: Event) -> Step {
        self.step_in(&mut self.threads.lock(), thread, event)
    }

    /// A step of its end, and what has to be done then.
    fn end_step(self: &Arc<Self>, thread: Option<&Thread>, event: Event) -> Step {
        let (effects, dropped) = {
            let mut threads = self.threads.lock();
            let effects = self.step_in(&mut threads, thread, event)?;
            let dropped =
                if effects.drops { core::mem::take(&mut threads.all) } else { Vec::new() };
            (effects, dropped)
        };
        drop(dropped); // none has run
        if effects.drops {
            self.wake_parent();
        }
        if effects.wakes {
            self.kick_all();
        }
        if effects.leaves {
            self.space.process_left(self);
        }
        Ok(effects)
    }

    /// Wakes the threads of the parent: the one that made the process may wait until it has begun.
    pub fn wake_parent(&self) {
        if let Some(parent) = self.parent.upgrade() {
            parent.kick_all();
        }
    }

    /// Has the thread `first`, with which it begins once its proxy is there.
    ///
    /// # Errors
    /// [`ENDING`]: its proxy is gone already.
    pub fn prepare(&self, first: &Arc<Thread>) -> Result<()> {
        let mut threads = self.threads.lock();
        heap::more_room(&mut threads.all, 1)?;
        self.step_in(&mut threads, Some(first), Event::Prepare).map_err(|_| ENDING)?;
        self.list(&mut threads, first);
        Ok(())
    }

    /// Claims the process: its proxy has come.
    ///
    /// # Errors
    /// `EBUSY`: it was claimed before, or was given up.
    pub fn claim(&self) -> Result<()> {
        self.step(None, Event::Claim).map(drop).map_err(|_| errno::EBUSY)
    }

    /// Begins to run with that thread, which the caller has begin.
    ///
    /// # Errors
    /// `EBUSY`: it has begun, or never will.
    pub fn begin(&self, first: &Thread) -> Result<()> {
        self.step(Some(first), Event::Begin).map(drop).map_err(|_| errno::EBUSY)
    }

    /// Nothing comes of it, though its proxy has come. A parent that waits (vfork) goes on.
    pub fn fail(self: &Arc<Self>) {
        let _ = self.end_step(None, Event::Fail); // one that was killed meanwhile has ended by that
        self.release_parent();
    }

    /// Gives the process up: no thread waits for its proxy any more. False: the proxy has come.
    pub fn give_up(self: &Arc<Self>) -> bool {
        self.end_step(None, Event::GiveUp).is_ok()
    }

    /// Lets the maker go on before the proxy has come: Linux tells the end of the process then.
    /// False: the proxy has come, or the process has ended.
    pub fn entrust(&self) -> bool {
        self.step(None, Event::Entrust).is_ok()
    }

    /// Makes the threads end: the proxy is gone.
    pub fn kill(self: &Arc<Self>) {
        let _ = self.end_step(None, Event::Kill); // which there always is
    }

    /// Continues the process as `new`, which tells its end from now on. The threads here are to
    /// end.
    ///
    /// # Errors
    /// `ESRCH`: the process has ended, and tells that itself.
    pub fn move_on(self: &Arc<Self>, new: &Process) -> Result<()> {
        self.end_step(None, Event::Move).map_err(|_| errno::ESRCH)?;
        let usage = self.usage.lock().clone();
        *new.usage.lock() = usage;
        Ok(())
    }

    /// `REQUEST_SPACE_PAUSE`.
    pub fn pause(self: &Arc<Self>, paused: bool) {
        let _ = self.end_step(None, Event::Pause(paused));
    }

    /// Whether the thread waits while Linux has stopped the process. A traced thread stops and goes
    /// on when its tracer hears of it.
    pub fn pauses(&self, thread: &Thread) -> bool {
        self.is_paused() && !self.is_dumping() && !thread.must_end() && !thread.ptrace.is_on()
    }

    /// The thread waits that long.
    pub fn wait_while_paused(&self, thread: &Thread) {
        cpus::until(|| !self.pauses(thread), cpus::NEVER);
    }

    /// Puts a thread into the list, in which there is room. The thread may be traced already if it
    /// goes on for another one (execve). A tracer that detached from that one meanwhile has not
    /// found this thread.
    fn list(&self, threads: &mut Threads, thread: &Arc<Thread>) {
        lists::push_within(&mut threads.all, thread.clone());
        self.pool.follow(threads.all.len());
        if thread.ptrace.is_on() {
            self.observed.set_ptraced(true);
        }
    }

    /// Enters a thread made by `creator`, unless that has to end ([`ENDING`]).
    pub fn add_thread(&self, thread: &Arc<Thread>, creator: &Thread) -> Result<()> {
        let mut threads = self.threads.lock();
        heap::more_room(&mut threads.all, 1).map_err(|_| errno::EAGAIN)?;
        self.step_in(&mut threads, Some(thread), Event::Enter(creator.state()))
            .map_err(|_| ENDING)?;
        thread.seccomp.inherit(creator.seccomp.inherited());
        self.list(&mut threads, thread);
        Ok(())
    }

    /// Enters `new`, which takes the place of the running thread `me`; that ends next. False: the
    /// process ends.
    pub fn hand_over(&self, me: &Thread, new: &Arc<Thread>) -> bool {
        let mut threads = self.threads.lock();
        let entered = self.step_in(&mut threads, Some(new), Event::Enter(me.state())).is_ok();
        if entered {
            // There is room: where the first thread has ended, there were two.
            self.list(&mut threads, new);
            let _ = self.step_in(&mut threads, Some(me), Event::HandOver);
        }
        entered
    }

    /// The running thread `me` makes a process, and will wait for that to begin; `vfork`: and to
    /// leave the memory.
    ///
    /// # Errors
    /// [`ENDING`]: it has to end.
    pub fn create(&self, me: &Thread, vfork: bool) -> Result<()> {
        let event = if vfork { Event::Vfork } else { Event::Create };
        self.step(Some(me), event).map(drop).map_err(|_| ENDING)
    }

    /// The running thread `me` has Linux make an execve.
    ///
    /// # Errors
    /// [`ENDING`]: it has to end.
    pub fn depart(&self, me: &Thread) -> Result<()> {
        self.step(Some(me), Event::Depart).map(drop).map_err(|_| ENDING)
    }

    /// The running thread `me` is the first one of a program that left other memory, and waits for
    /// that to be left.
    pub fn arrive(&self, me: &Thread) {
        let _ = self.step(Some(me), Event::Arrive); // one that has to end need not
    }

    /// The running thread `me` waits no more.
    pub fn resume(&self, me: &Thread) {
        let _ = self.step(Some(me), Event::Resume);
    }

    /// The first half of what execve does to the other threads of `me`: they are to end. `EAGAIN`:
    /// another thread was first, with that or with a core dump, or `me` has to end.
    pub fn doom_others(&self, me: &Thread) -> Result<()> {
        self.step(Some(me), Event::Replace).map(drop).map_err(|_| errno::EAGAIN)
    }

    /// Whether the others have ended.
    pub fn is_alone(&self) -> bool {
        self.threads.lock().life.is_alone()
    }

    /// Whether a thread has called exit(2), or is replaced, and uses its slot still.
    pub fn is_being_left(&self) -> bool {
        self.threads.lock().life.is_being_left()
    }

    /// The others have ended: from now on it is as in any process of one thread.
    ///
    /// # Errors
    /// [`ENDING`]: so has the thread to.
    pub fn replaced(&self, me: &Thread) -> Result<()> {
        self.step(Some(me), Event::Alone).map(drop).map_err(|_| ENDING)
    }

    /// The thread `me` has crashed: a core dump begins.
    ///
    /// # Errors
    /// `Busy`: another one crashed first. `MustEnd`: another one's execve came first, which `me`
    /// ends by and nothing else.
    pub fn begin_dump(&self, me: &Thread) -> core::result::Result<(), Refused> {
        self.step(Some(me), Event::Dump).map(drop)
    }

    /// The thread `me` parks for a core dump. False: there is none, or it has to end.
    pub fn park(self: &Arc<Self>, me: &Thread) -> bool {
        self.end_step(Some(me), Event::Park).is_ok()
    }

    /// How many threads are parked, and whether all are but the one that makes the dump.
    pub fn parked(&self) -> (u32, bool) {
        let threads = self.threads.lock();
        (threads.life.parked(), threads.life.is_parked())
    }

    /// exit(2) of one thread. `true`: it is the last one, so the process ends.
    pub fn exit(&self, me: &Thread) -> bool {
        self.ends(me);
        self.step(Some(me), Event::Exit).is_ok_and(|effects| effects.is_last)
    }

    /// The last thread touches the memory no more.
    pub fn quiet(&self, me: &Thread) {
        if self.step(Some(me), Event::Quiet).is_ok_and(|effects| effects.releases) {
            self.release_parent();
        }
    }

    /// The thread `me` makes the call by which the process ends.
    pub fn last_call(&self, me: &Thread) {
        let _ = self.step(Some(me), Event::LastCall); // one that has ended makes none
    }

    /// Takes the thread `me`, which ends, from the list. It uses its slot until
    /// [`Process::has_left`]. Gives whether its worker ends with it, and whether a thread waits for
    /// it to be gone.
    pub fn begin_leaving(&self, me: &Thread) -> (bool, bool) {
        let mut threads = self.threads.lock();
        threads.all.retain(|t| !core::ptr::eq(&**t, me));
        self.pool.follow(threads.all.len());
        let effects = self.step_in(&mut threads, Some(me), Event::Leave).unwrap_or_default();
        (effects.dismisses_worker, effects.wakes)
    }

    /// A thread that ends is done with its slot.
    pub fn has_left(self: &Arc<Self>, me: &Thread) {
        let left = self.end_step(Some(me), Event::Left);
        if left.is_ok_and(|effects| effects.leaves)
            && let Some(waits) = self.successor()
        {
            cpus::kick(waits.task());
        }
    }

    /// Sets the parent that waits until the process has left its memory (vfork).
    pub fn set_parent_waits(&self, parent: ParentWaits) {
        *self.parent_waits.lock() = Some(parent);
    }

    /// The child of a vfork has left the memory of `parent`, a thread of it, which may go on.
    pub fn release(&self, parent: &Arc<Thread>) {
        if self.step(Some(parent), Event::Release).is_ok_and(|effects| effects.wakes) {
            cpus::kick(parent.task());
        }
    }

    /// Whether the parent waits for this process to leave its memory.
    pub fn is_vforked(&self) -> bool {
        self.parent_waits.lock().is_some()
    }

    /// The parent of a vfork may go on: the child has its own program, or is gone.
    pub fn release_parent(&self) {
        let parent = self.parent_waits.lock().take();
        drop(parent); // not under the lock
    }

    /// Notes that a thread waits until the process is gone: [`finish`](Self::finish) kicks the
    /// threads of the space then.
    pub fn await_gone(&self) {
        let _ = self.step(None, Event::Await);
    }

    /// Finishes the process: it has left its space, or the space is freed. A parent's vfork is
    /// over, and the end is told.
    pub fn finish(self: &Arc<Self>) {
        let Ok(effects) = self.step(None, Event::Finish) else { return };
        if effects.releases {
            self.release_parent();
        }
        let mut is_awaited = effects.is_awaited;
        if effects.tells {
            process_gone(self);
            is_awaited = self.step(None, Event::Told).is_ok_and(|effects| effects.is_awaited);
        }
        if is_awaited {
            self.space.processes().for_each(|other| other.kick_all());
        }
    }
}

/// The running thread has lent its memory to its child, and waits until the child has left that.
/// The wait also ends if the thread has to end or to park for a core dump, or at the TSC value
/// `late`. Gives whether the child has left.
pub fn wait_for_release(me: &Thread, late: u64) -> bool {
    let may_go = || me.state() != ThreadState::Vforks || me.must_end() || me.process.is_dumping();
    cpus::until(may_go, late);
    me.state() != ThreadState::Vforks
}
