//! Steps of threads.

use super::{
    Broken, Done, Kind, Limits, MOST, NO_THREAD, NONE, Proc, Stage, Step, Thread, World, check,
};
use crate::life::{Event, ProcessState as P, SpaceEvent, ThreadState as T};
use std::format;

impl World {
    /// The thread waits no more for what it made.
    pub(super) fn resume(&mut self, t: u8) -> Done {
        let p = self.th(t).process;
        let resumed = self.step(p, Some(t), Event::Resume);
        check(resumed.is_ok(), || format!("thread {t} does not wait, but may not go on"))?;
        let thread = self.th(t);
        (thread.stage, thread.child) = (Stage::Free, NONE);
        Ok(())
    }

    /// Continues the maker of a process after the answer to its call (`ok`: done), or after the
    /// wait for it.
    fn after_call(&mut self, t: u8, ok: bool) -> Done {
        let Thread { child, state, .. } = *self.th(t);
        let q = *self.pr(child);
        // Of a vfork: whether or not the child has left the memory by now.
        let vforks = state == T::Vforks || q.vfork == t;
        match q.kind {
            Kind::Program => {
                self.give_up(child)?;
                self.resume(t)
            }
            _ if ok => {
                let waits = Thread { stage: Stage::Bounded, kicked: true, ..*self.th(t) };
                *self.th(t) = waits;
                Ok(())
            }
            _ => {
                self.give_up(child)?;
                if vforks { self.wait_for_release(t) } else { self.resume(t) }
            }
        }
    }

    fn wait_for_release(&mut self, t: u8) -> Done {
        let thread = self.th(t);
        (thread.stage, thread.kicked) = (Stage::Unbounded, true);
        Ok(())
    }

    /// Whether what the thread waits for has come.
    pub(super) fn is_ready(&self, t: u8) -> bool {
        let thread = self.threads[usize::from(t)];
        let life = |p: u8| self.processes[usize::from(p)].life;
        let own = life(thread.process);
        let ends = self.has_to_end(t);
        match (thread.stage, thread.state) {
            (Stage::Bounded, T::Creates) => {
                let child = self.processes[usize::from(thread.child)];
                let ends = if child.kind == Kind::Fork { own.word().is_killed() } else { ends };
                ends || !child.life.state().is_awaited()
            }
            (Stage::Bounded, T::Vforks)
                if self.processes[usize::from(thread.child)].kind == Kind::Fork =>
            {
                own.word().is_killed() || !life(thread.child).state().is_awaited()
            }
            (Stage::Bounded | Stage::Unbounded, state) => {
                state != T::Vforks || ends || own.state() == P::Dumping
            }
            (_, T::Replaces) => own.is_alone() || ends,
            (_, T::Arrives) => {
                let old = self.processes[usize::from(thread.process)].old;
                ends || old == NONE || life(old).state().is_deserted()
            }
            (_, T::Dumps) => own.is_parked() || ends,
            _ => false,
        }
    }

    /// Continues a thread whose wait is over, or has taken too long (`late`).
    fn goes_on(&mut self, t: u8, late: bool) -> Done {
        let Thread { stage, state, child, process: p, .. } = *self.th(t);
        match (stage, state) {
            (Stage::Bounded, _) => {
                let is_fork = self.pr(child).kind == Kind::Fork;
                let released = self.pr(child).vfork != t;
                // That of a fork always, as `fork::process` does; of another, if it is late.
                if is_fork || late {
                    self.give_up(child)?;
                }
                if state == T::Creates || state == T::Runs && released {
                    return self.resume(t);
                }
                self.wait_for_release(t)
            }
            (Stage::Unbounded, _) => self.resume(t),
            (_, T::Replaces) if !self.has_to_end(t) => {
                let alone = self.step(p, Some(t), Event::Alone);
                check(alone.is_ok(), || format!("thread {t} is alone and may not go on"))?;
                let shares = |q: &Proc| q.member && q.life.state().uses_memory();
                let space = self.pr(p).space;
                let shared = (0..MOST).any(|q| {
                    let other = &self.processes[q];
                    q != usize::from(p) && other.used && other.space == space && shares(other)
                });
                if !shared {
                    self.th(t).stage = Stage::Built;
                    self.pr(p).own = true;
                    self.release(p)?;
                }
                Ok(())
            }
            (_, T::Arrives) => {
                let old = core::mem::replace(&mut self.pr(p).old, NONE);
                let deserted = old == NONE || self.pr(old).life.state().is_deserted();
                check(deserted || self.has_to_end(t), || {
                    format!("the program of process {p} begins before the old one has ended")
                })?;
                self.resume(t)
            }
            (_, T::Dumps) if !self.has_to_end(t) => {
                let running = |o: &Thread| {
                    o.process == p && o.state.is_alive() && !matches!(o.state, T::Parked | T::Dumps)
                };
                check(late || !self.threads.iter().any(running), || {
                    format!("the core dump of process {p} sees a thread that runs")
                })?;
                let _ = self.step(p, Some(t), Event::LastCall);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The maker of a child that Linux has, and that does not come, waits for its coming no more:
    /// Linux tells its end. False: the proxy has come, or it is a vfork that shares memory, whose
    /// maker waits for more than that.
    fn goes_on_alone(&mut self, t: u8) -> Result<bool, Broken> {
        let Thread { child, state, .. } = *self.th(t);
        let vforks = state == T::Vforks;
        if vforks && self.pr(child).kind == Kind::Share
            || self.step(child, None, Event::Entrust).is_err()
        {
            return Ok(false);
        }
        if vforks {
            self.wait_for_release(t)?
        } else {
            self.resume(t)?
        }
        Ok(true)
    }

    /// A thread begins something, in which others have a part.
    pub(super) fn thread_begins(&mut self, step: Step, limits: Limits) -> Result<bool, Broken> {
        match step {
            Step::Clone(t) => {
                let p = self.th(t).process;
                let by = self.th(t).state;
                let Some(new) = self.first(p, limits) else { return Ok(false) };
                if self.step(p, Some(new), Event::Enter(by)).is_err() {
                    *self.th(new) = NO_THREAD;
                }
            }
            Step::Fork(t, vfork) => {
                let (p, q) = (self.th(t).process, self.free_process(limits));
                let Some(q) = q else { return Ok(false) };
                let event = if vfork { Event::Vfork } else { Event::Create };
                if self.step(p, Some(t), event).is_err() {
                    return Ok(false);
                }
                self.expect(q, t, Kind::Fork, vfork);
                self.th(t).stage = Stage::Call;
            }
            Step::Share(t, vfork) => {
                let (p, q) = (self.th(t).process, self.free_process(limits));
                let Some(q) = q else { return Ok(false) };
                let s = self.pr(p).space;
                if self.spaces[usize::from(s)].life.step(SpaceEvent::Enter).is_err() {
                    return Ok(false);
                }
                self.expect(q, t, Kind::Share, vfork);
                (self.pr(q).space, self.pr(q).member) = (s, true);
                let event = if vfork { Event::Vfork } else { Event::Create };
                if self.step(p, Some(t), event).is_ok() {
                    self.th(t).stage = Stage::Entered;
                } else {
                    self.give_up(q)?;
                    self.resume(t)?;
                }
            }
            Step::Prepare(t, fails) => {
                let q = self.th(t).child;
                let first = if fails { None } else { self.first(q, limits) };
                let prepared =
                    first.is_some_and(|first| self.step(q, Some(first), Event::Prepare).is_ok());
                if prepared {
                    self.th(t).stage = Stage::Call;
                } else {
                    if let Some(first) = first {
                        *self.th(first) = NO_THREAD;
                    }
                    self.after_call(t, false)?;
                }
            }
            Step::Depart(t) => {
                let (p, q) = (self.th(t).process, self.free_process(limits));
                let Some(q) = q else { return Ok(false) };
                if self.step(p, Some(t), Event::Depart).is_err() {
                    return Ok(false);
                }
                self.expect(q, t, Kind::Program, false);
                self.pr(q).old = p;
                self.th(t).stage = Stage::Call;
            }
            Step::Replace(t) => {
                let p = self.th(t).process;
                let Ok(effects) = self.step(p, Some(t), Event::Replace) else { return Ok(false) };
                if effects.wakes {
                    self.kick_all(p);
                }
                self.th(t).kicked = true;
            }
            Step::HandOver(t) => {
                let p = self.th(t).process;
                let by = self.th(t).state;
                let Some(new) = self.first(p, limits) else { return Ok(false) };
                if self.step(p, Some(new), Event::Enter(by)).is_err() {
                    *self.th(new) = NO_THREAD;
                } else {
                    let handed = self.step(p, Some(t), Event::HandOver);
                    check(handed.is_ok(), || format!("thread {t} goes on beside its successor"))?;
                }
                self.th(t).stage = Stage::Free;
            }
            other => unreachable!("{other:?}"),
        }
        Ok(true)
    }

    /// A thread ends, or goes on with what it has begun.
    pub(super) fn thread_goes_on(&mut self, step: Step) -> Result<bool, Broken> {
        match step {
            Step::Exit(t) => {
                let p = self.th(t).process;
                if self.step(p, Some(t), Event::Exit).is_ok_and(|effects| effects.is_last) {
                    self.th(t).stage = Stage::Quiet;
                } else {
                    self.th(t).stage = Stage::Free;
                }
            }
            Step::Quiet(t) => {
                let p = self.th(t).process;
                self.th(t).stage = Stage::Free;
                if self.step(p, Some(t), Event::Quiet).is_ok_and(|effects| effects.releases) {
                    self.release(p)?;
                }
            }
            Step::LastCall(t) => {
                let p = self.th(t).process;
                let _ = self.step(p, Some(t), Event::LastCall);
                self.th(t).stage = Stage::Free;
            }
            Step::Dump(t) => {
                let p = self.th(t).process;
                self.th(t).stage = Stage::Free;
                if let Ok(effects) = self.step(p, Some(t), Event::Dump) {
                    if effects.wakes {
                        self.kick_all(p);
                    }
                    self.th(t).kicked = true;
                }
            }
            Step::Park(t) => {
                let p = self.th(t).process;
                self.th(t).stage = Stage::Free;
                let _ = self.end_step(p, Some(t), Event::Park);
            }
            Step::Answer(t, ok) => self.after_call(t, ok)?,
            Step::Look(t) => {
                self.th(t).kicked = false;
                if self.is_ready(t) {
                    self.goes_on(t, false)?;
                }
            }
            Step::Late(t) => self.goes_on(t, true)?,
            Step::GoOn(t) => return self.goes_on_alone(t),
            Step::Arrive(t) => {
                let p = self.th(t).process;
                let thread = self.th(t);
                (thread.stage, thread.kicked) = (Stage::Free, true);
                let _ = self.step(p, Some(t), Event::Arrive);
            }
            Step::Leave(t) => {
                let p = self.th(t).process;
                let left = self.step(p, Some(t), Event::Leave);
                let effects = left.map_err(|_| format!("thread {t} has to end and does not"))?;
                if effects.wakes {
                    self.kick_all(p);
                }
                self.th(t).stage = Stage::Free;
            }
            Step::Left(t) => {
                let p = self.th(t).process;
                let left = self.end_step(p, Some(t), Event::Left);
                let effects = left.map_err(|_| format!("thread {t} does not leave"))?;
                *self.th(t) = NO_THREAD;
                for q in &mut self.processes {
                    // The thread is neither kicked nor let go by processes that it made.
                    q.maker = if q.maker == t { NONE } else { q.maker };
                    q.vfork = if q.vfork == t { NONE } else { q.vfork };
                }
                if effects.leaves {
                    for q in 0..MOST as u8 {
                        if self.pr(q).used && self.pr(q).old == p {
                            self.kick_all(q);
                        }
                    }
                }
            }
            other => unreachable!("{other:?}"),
        }
        Ok(true)
    }
}
