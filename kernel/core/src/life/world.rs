//! A small machine whose threads, processes and spaces live by the transition functions: what kernel,
//! Linux and proxies do beside those, one lock at a time, in any order.
//!
//! A kick is modelled as the kernel's: who waits looks once, and then only when it was kicked. So
//! a wake-up that is lost shows as a thread that sleeps though it may go on.

use super::{
    Effects, Event, Process, ProcessState as P, Refused, Space, SpaceEffect, SpaceEvent,
    SpaceState as S, ThreadState as T, must_end,
};
use std::format;
use std::string::String;

/// Nothing, where there may be an index.
pub const NONE: u8 = 3;
/// Threads, processes and spaces that there may be at once.
pub const MOST: usize = 3;

/// Where a thread is in what it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Stage {
    #[default]
    Free,
    /// The process that it makes is one of the space's, and has no thread.
    Entered,
    /// Linux has been asked.
    Call,
    /// It waits for the child's begin, or its release, for a bounded time.
    Bounded,
    /// It waits for the child to leave its memory.
    Unbounded,
    /// It has replaced the program, and may go on as the first thread.
    Built,
    /// It is the first thread of a program that left another space.
    Program,
    /// It is the last thread, by exit(2).
    Quiet,
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub state: T,
    pub process: u8,
    /// The process that it makes.
    pub child: u8,
    pub stage: Stage,
    /// It looks at what it waits for.
    pub kicked: bool,
}

/// How a process comes to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    #[default]
    Run,
    Fork,
    Share,
    Program,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub struct Proc {
    pub used: bool,
    pub life: Process,
    pub kind: Kind,
    pub space: u8,
    /// It is in the list of its space.
    pub member: bool,
    /// The thread that makes it.
    pub maker: u8,
    /// The thread that waits until it has left the memory.
    pub vfork: u8,
    /// The process that goes on as it.
    pub old: u8,
    /// It has to leave its space.
    pub leaves: bool,
    /// A request is making it.
    pub opening: bool,
    pub began: bool,
    pub moved: bool,
    /// It has a program of its own in memory of its own.
    pub own: bool,
}

/// A space.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub used: bool,
    pub life: Space,
}

/// What happens next. Numbers are those of threads, processes and spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Start(u8, bool),
    Clone(u8),
    Fork(u8, bool),
    Share(u8, bool),
    Prepare(u8, bool),
    Depart(u8),
    Replace(u8),
    HandOver(u8),
    Exit(u8),
    Quiet(u8),
    LastCall(u8),
    Dump(u8),
    Park(u8),
    Answer(u8, bool),
    Look(u8),
    Late(u8),
    Arrive(u8),
    Leave(u8),
    Left(u8),
    Claim(u8),
    OpenFails(u8),
    OpenFailsLate(u8),
    Open(u8),
    Begin(u8),
    Kill(u8),
    Close(u8),
    CloseKills(u8),
    LeaveSpace(u8),
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub threads: [Thread; MOST],
    pub processes: [Proc; MOST],
    pub spaces: [Room; MOST],
}

/// What a configuration allows.
#[derive(Clone, Copy)]
pub struct Limits {
    pub threads: u8,
    pub processes: u8,
    /// Everything. Else processes of one thread, vfork, exit, and execve in a space of its own.
    pub threaded: bool,
}

/// A property does not hold.
pub type Broken = String;
type Done = Result<(), Broken>;

const NO_THREAD: Thread =
    Thread { state: T::Gone, process: NONE, child: NONE, stage: Stage::Free, kicked: false };
const NO_PROCESS: Proc = Proc {
    used: false,
    life: Process::EXPECTED,
    kind: Kind::Run,
    space: NONE,
    member: false,
    maker: NONE,
    vfork: NONE,
    old: NONE,
    leaves: false,
    opening: false,
    began: false,
    moved: false,
    own: false,
};
const NO_SPACE: Room = Room { used: false, life: Space::NEW };

fn check(holds: bool, what: impl FnOnce() -> String) -> Done {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    /// A process that Linux is about to start.
    pub fn new() -> World {
        let mut w = World {
            threads: [NO_THREAD; MOST],
            processes: [NO_PROCESS; MOST],
            spaces: [NO_SPACE; MOST],
        };
        w.spaces[0].used = true;
        let _ = w.spaces[0].life.step(SpaceEvent::Enter);
        w.processes[0] =
            Proc { used: true, space: 0, member: true, own: true, ..NO_PROCESS };
        w
    }

    fn th(&mut self, t: u8) -> &mut Thread {
        &mut self.threads[usize::from(t)]
    }

    fn pr(&mut self, p: u8) -> &mut Proc {
        &mut self.processes[usize::from(p)]
    }

    fn has_to_end(&self, t: u8) -> bool {
        let t = &self.threads[usize::from(t)];
        must_end(self.processes[usize::from(t.process)].life.word(), t.state)
    }

    fn free_thread(&self, limits: Limits) -> Option<u8> {
        (0..limits.threads).find(|&t| self.threads[usize::from(t)].process == NONE)
    }

    fn free_process(&self, limits: Limits) -> Option<u8> {
        (0..limits.processes).find(|&p| !self.processes[usize::from(p)].used)
    }

    fn free_space(&self) -> Option<u8> {
        (0..MOST as u8).find(|&s| !self.spaces[usize::from(s)].used)
    }

    fn kick_all(&mut self, p: u8) {
        self.threads.iter_mut().filter(|t| t.process == p).for_each(|t| t.kicked = true);
    }

    /// Kicks the threads of who made `p`.
    fn wake_parent(&mut self, p: u8) {
        let maker = self.pr(p).maker;
        if maker != NONE {
            let parent = self.th(maker).process;
            self.kick_all(parent);
        }
    }

    fn step(&mut self, p: u8, t: Option<u8>, event: Event) -> Result<Effects, Refused> {
        let mut state = t.map_or(T::Gone, |t| self.th(t).state);
        let effects = self.pr(p).life.step(&mut state, event)?;
        if let Some(t) = t {
            self.th(t).state = state;
        }
        Ok(effects)
    }

    /// `Process::end_step` of the kernel, up to where it leaves its space.
    fn end_step(&mut self, p: u8, t: Option<u8>, event: Event) -> Result<Effects, Refused> {
        let effects = self.step(p, t, event)?;
        if effects.drops {
            for t in self.threads.iter_mut().filter(|t| t.process == p && t.state == T::New) {
                *t = NO_THREAD;
            }
            self.wake_parent(p);
        }
        if effects.wakes {
            self.kick_all(p);
        }
        if effects.leaves {
            self.pr(p).leaves = true;
        }
        Ok(effects)
    }

    /// The child `p` has left the memory of who waits for that.
    fn release(&mut self, p: u8) -> Done {
        let parent = core::mem::replace(&mut self.pr(p).vfork, NONE);
        if parent == NONE {
            return Ok(());
        }
        let q = self.processes[usize::from(p)];
        check(q.own || !q.life.state().uses_memory(), || {
            format!("the parent of a vfork goes on while process {p} has its memory")
        })?;
        let of = self.th(parent).process;
        if of != NONE && self.step(of, Some(parent), Event::Release).is_ok_and(|e| e.wakes) {
            self.th(parent).kicked = true;
        }
        Ok(())
    }

    fn finish(&mut self, p: u8) -> Done {
        let finished = self.step(p, None, Event::Finish);
        let effects = finished.map_err(|_| format!("process {p} is finished twice, or while it lives"))?;
        if effects.releases {
            self.release(p)?;
        }
        let q = self.pr(p);
        check(effects.tells != q.moved, || {
            format!("the end of process {p} is told where it is none, or is not told")
        })?;
        q.member = false;
        if effects.tells {
            let told = self.step(p, None, Event::Told);
            check(told.is_ok(), || format!("the end of process {p} is told twice"))?;
        }
        Ok(())
    }

    fn give_up(&mut self, p: u8) -> Result<bool, Broken> {
        let was = self.pr(p).life.state();
        let given_up = self.end_step(p, None, Event::GiveUp).is_ok();
        check(!given_up || was == P::Expected, || {
            format!("process {p} is given up though its proxy has come")
        })?;
        if given_up && !self.pr(p).member {
            self.drop_it(p)?;
        }
        Ok(given_up)
    }

    /// What has not become a process is dropped.
    fn drop_it(&mut self, p: u8) -> Done {
        self.pr(p).leaves = false;
        self.finish(p)
    }

    /// The thread waits no more for what it made.
    fn resume(&mut self, t: u8) -> Done {
        let p = self.th(t).process;
        let resumed = self.step(p, Some(t), Event::Resume);
        check(resumed.is_ok(), || format!("thread {t} does not wait, but may not go on"))?;
        let thread = self.th(t);
        (thread.stage, thread.child) = (Stage::Free, NONE);
        Ok(())
    }

    /// What the maker of a process does when it was answered `ok`, or waits no more.
    fn after_call(&mut self, t: u8, ok: bool) -> Done {
        let Thread { child, state, process, .. } = *self.th(t);
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
                let _ = process;
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
    fn is_ready(&self, t: u8) -> bool {
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

    /// What a thread does whose waiting is over, or that waits too long (`late`).
    fn goes_on(&mut self, t: u8, late: bool) -> Done {
        let Thread { stage, state, child, process: p, .. } = *self.th(t);
        match (stage, state) {
            (Stage::Bounded, _) => {
                let is_fork = self.pr(child).kind == Kind::Fork;
                let released = self.pr(child).vfork != t;
                if is_fork || late || state == T::Creates {
                    // That of a fork always, as `fork::process` does; of another, if it is late.
                    if is_fork || late {
                        self.give_up(child)?;
                    }
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

    /// Makes a process: its slot and its maker.
    fn expect(&mut self, q: u8, t: u8, kind: Kind, vfork: bool) {
        *self.pr(q) = Proc {
            used: true,
            kind,
            maker: t,
            vfork: if vfork { t } else { NONE },
            own: kind != Kind::Share,
            ..NO_PROCESS
        };
        let thread = self.th(t);
        (thread.child, thread.kicked) = (q, false);
    }

    /// A first thread for a process that is being made.
    fn first(&mut self, p: u8, limits: Limits) -> Option<u8> {
        let t = self.free_thread(limits)?;
        *self.th(t) = Thread { state: T::New, process: p, ..NO_THREAD };
        Some(t)
    }

    /// A request that opens a space has failed.
    fn open_fails(&mut self, p: u8) -> Done {
        let q = self.pr(p);
        q.opening = false;
        let (kind, old, member) = (q.kind, q.old, q.member);
        if !member {
            let failed = self.end_step(p, None, Event::Fail);
            check(failed.is_ok(), || format!("process {p} was claimed, and does not fail"))?;
            self.drop_it(p)?;
        }
        if kind == Kind::Program {
            if old != NONE {
                let _ = self.end_step(old, None, Event::Kill);
            }
            self.pr(p).old = NONE;
            return Ok(());
        }
        // `states::release`: no child is there that would.
        let parent = core::mem::replace(&mut self.pr(p).vfork, NONE);
        if parent != NONE {
            let of = self.th(parent).process;
            if of != NONE && self.step(of, Some(parent), Event::Release).is_ok() {
                self.th(parent).kicked = true;
            }
        }
        self.settle(p);
        Ok(())
    }

    /// `fork::come`.
    fn settle(&mut self, p: u8) {
        let maker = self.pr(p).maker;
        if maker != NONE {
            self.th(maker).kicked = true;
        }
    }

    /// Makes a step. False: there is no room for it.
    pub fn take(&mut self, step: Step, limits: Limits) -> Result<bool, Broken> {
        match step {
            Step::Start(p, fails) => {
                let s = usize::from(self.pr(p).space);
                if self.spaces[s].life.step(SpaceEvent::Start).is_err() {
                    return Ok(false);
                }
                if !fails {
                    let Some(t) = self.first(p, limits) else { return Ok(false) };
                    self.begin(p, t)?;
                }
            }
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
                let prepared = first
                    .is_some_and(|first| self.step(q, Some(first), Event::Prepare).is_ok());
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
                    // Nobody is kicked by who made it, and nobody let go.
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
            Step::Claim(p) => {
                let claimed = self.step(p, None, Event::Claim);
                if claimed.is_err() {
                    return Ok(false);
                }
                self.pr(p).opening = true;
            }
            Step::OpenFails(p) => self.open_fails(p)?,
            Step::OpenFailsLate(p) => {
                if !self.make_room(p) {
                    return Ok(false);
                }
                self.open_fails(p)?;
            }
            Step::Open(p) => {
                let Some(t) = self.first(p, limits) else { return Ok(false) };
                if !self.make_room(p) {
                    return Ok(false);
                }
                let Proc { kind, old, .. } = *self.pr(p);
                if kind == Kind::Program {
                    if self.end_step(old, None, Event::Move).is_err() {
                        *self.th(t) = NO_THREAD;
                        self.open_fails(p)?;
                        self.tidy();
                        return Ok(true);
                    }
                    self.pr(old).moved = true;
                    self.th(t).stage = Stage::Program;
                }
                self.pr(p).opening = false;
                self.begin(p, t)?;
                self.settle(p);
            }
            Step::Begin(p) => {
                let first = (0..MOST as u8)
                    .find(|&t| self.threads[usize::from(t)].process == p)
                    .ok_or_else(|| format!("process {p} was claimed without a thread"))?;
                let begun = self.step(p, Some(first), Event::Begin);
                check(begun.is_ok(), || format!("process {p} was claimed and does not begin"))?;
                (self.pr(p).began, self.pr(p).opening) = (true, false);
                if self.pr(p).vfork == NONE {
                    self.wake_parent(p);
                }
            }
            Step::Kill(p) | Step::CloseKills(p) => {
                let killed = self.end_step(p, None, Event::Kill);
                check(killed.is_ok(), || format!("process {p} is not to be killed"))?;
            }
            Step::Close(s) => {
                let closed = self.spaces[usize::from(s)].life.step(SpaceEvent::Close);
                match closed {
                    Ok(SpaceEffect::Free) => self.free(s)?,
                    Ok(_) => {}
                    Err(_) => return Ok(false),
                }
            }
            Step::LeaveSpace(p) => {
                self.pr(p).leaves = false;
                let s = self.pr(p).space;
                let left = self.spaces[usize::from(s)].life.step(SpaceEvent::Leave);
                let effect = left.map_err(|_| format!("process {p} leaves a space that is freed"))?;
                match effect {
                    SpaceEffect::Remove => self.finish(p)?,
                    SpaceEffect::Free => self.free(s)?,
                    SpaceEffect::None => {}
                }
            }
        }
        self.tidy();
        Ok(true)
    }

    fn begin(&mut self, p: u8, t: u8) -> Done {
        let begun = self.step(p, Some(t), Event::Prepare).is_ok()
            && self.step(p, Some(t), Event::Begin).is_ok();
        self.pr(p).began = true;
        check(begun, || format!("process {p} does not begin"))
    }

    /// A space for a process that is being made.
    fn make_room(&mut self, p: u8) -> bool {
        let Some(s) = self.free_space() else { return false };
        let room = &mut self.spaces[usize::from(s)];
        *room = Room { used: true, ..NO_SPACE };
        let _ = room.life.step(SpaceEvent::Enter);
        let _ = room.life.step(SpaceEvent::Start);
        (self.pr(p).space, self.pr(p).member) = (s, true);
        true
    }

    /// What is left of a space is freed.
    fn free(&mut self, s: u8) -> Done {
        for p in 0..MOST as u8 {
            let q = *self.pr(p);
            if q.used && q.member && q.space == s {
                let lives = self.threads.iter().any(|t| t.process == p);
                check(!lives, || format!("space {s} is freed under a thread"))?;
                self.finish(p)?;
            }
        }
        Ok(())
    }

    /// Forgets what is gone and nobody knows any more, so that its place is free.
    fn tidy(&mut self) {
        // Twice: one that is forgotten may have known another.
        for p in (0..MOST as u8).chain(0..MOST as u8) {
            let q = *self.pr(p);
            let known = self.threads.iter().any(|t| t.process == p || t.child == p)
                || self.processes.iter().any(|o| o.used && o.old == p);
            if q.used && q.life.state() == P::Gone && !known {
                *self.pr(p) = NO_PROCESS;
            }
        }
        for s in 0..MOST as u8 {
            let room = self.spaces[usize::from(s)];
            let known = self.processes.iter().any(|q| q.used && q.member && q.space == s);
            if room.used && room.life.state() == S::Freed && !known {
                self.spaces[usize::from(s)] = NO_SPACE;
            }
        }
        for t in &mut self.threads {
            // Who waits for nothing looks anyway, before it does.
            let waits = matches!(t.stage, Stage::Bounded | Stage::Unbounded)
                || matches!(t.state, T::Replaces | T::Arrives | T::Dumps);
            t.kicked &= waits;
        }
        self.sort();
    }

    /// Threads have no order: one that is chosen makes states the same that differ in it alone.
    fn sort(&mut self) {
        let code = |t: &Thread| (t.process, t.state, t.stage as u8, t.child, t.kicked);
        let mut order: [u8; MOST] = core::array::from_fn(|i| i as u8);
        order.sort_unstable_by_key(|&i| code(&self.threads[usize::from(i)]));
        let mut new = [NONE; MOST + 1];
        for (to, &from) in order.iter().enumerate() {
            new[usize::from(from)] = to as u8;
        }
        self.threads = order.map(|from| self.threads[usize::from(from)]);
        for q in &mut self.processes {
            (q.maker, q.vfork) = (new[usize::from(q.maker)], new[usize::from(q.vfork)]);
        }
    }

    /// Steps that are made sooner or later: what a thread, the kernel or Linux is about to do.
    pub fn due(&self, steps: &mut impl FnMut(Step)) {
        for t in 0..MOST as u8 {
            let thread = self.threads[usize::from(t)];
            if thread.process == NONE {
                continue;
            }
            let life = self.processes[usize::from(thread.process)].life;
            match (thread.stage, thread.state) {
                (Stage::Entered, _) => {
                    steps(Step::Prepare(t, false));
                    steps(Step::Prepare(t, true));
                }
                (Stage::Call, _) => {
                    steps(Step::Answer(t, false));
                    let is_program =
                        self.processes[usize::from(thread.child)].kind == Kind::Program;
                    // One whose process is killed is answered EINTR.
                    if !is_program && !life.word().is_killed() {
                        steps(Step::Answer(t, true));
                    }
                }
                (Stage::Bounded | Stage::Unbounded, _) if thread.kicked => steps(Step::Look(t)),
                (Stage::Bounded | Stage::Unbounded, _) => {}
                (Stage::Program, _) => steps(Step::Arrive(t)),
                (_, T::Leaves) => steps(Step::Left(t)),
                (_, state) if state.is_alive() && self.has_to_end(t) => steps(Step::Leave(t)),
                (_, T::Replaces | T::Arrives | T::Dumps) if thread.kicked => steps(Step::Look(t)),
                (_, T::Exits) => steps(Step::Leave(t)),
                (Stage::Quiet, _) => steps(Step::Quiet(t)),
                (_, T::Runs) if life.state() == P::Dumping => steps(Step::Park(t)),
                (_, T::Last | T::Parked) => steps(Step::Kill(thread.process)),
                _ => {}
            }
        }
        for p in 0..MOST as u8 {
            let q = self.processes[usize::from(p)];
            if !q.used {
                continue;
            }
            if q.leaves {
                steps(Step::LeaveSpace(p));
            }
            if q.opening && q.kind != Kind::Share {
                steps(Step::OpenFails(p));
                steps(Step::OpenFailsLate(p));
                steps(Step::Open(p));
            }
            if q.opening && q.kind == Kind::Share {
                steps(Step::Begin(p));
            }
            if q.member && !q.opening && !q.life.word().is_killed() {
                let closed = self.spaces[usize::from(q.space)].life.word().is_closed();
                if closed {
                    steps(Step::CloseKills(p));
                }
            }
        }
        for s in 0..MOST as u8 {
            let room = self.spaces[usize::from(s)];
            // Linux closes a space once nobody uses its memory map.
            let uses = |q: &Proc| {
                q.used && q.member && q.space == s && {
                    let state = q.life.state();
                    q.opening || q.began && !state.is_deserted()
                }
            };
            if room.used && !room.life.word().is_closed() && !self.processes.iter().any(uses) {
                let fresh = self.processes.iter().any(|q| {
                    q.used && q.member && q.space == s && q.kind == Kind::Run && !q.began
                });
                if !fresh {
                    steps(Step::Close(s));
                }
            }
        }
    }

    /// Steps that may be made, or never.
    pub fn free_will(&self, limits: Limits, steps: &mut impl FnMut(Step)) {
        for t in 0..MOST as u8 {
            let thread = self.threads[usize::from(t)];
            if thread.process == NONE || thread.state == T::New {
                continue;
            }
            if thread.stage == Stage::Bounded || thread.state == T::Dumps {
                steps(Step::Late(t));
            }
            if thread.stage == Stage::Built && thread.state == T::Runs {
                steps(Step::HandOver(t));
            }
            if thread.state != T::Runs
                || !matches!(thread.stage, Stage::Free | Stage::Built)
                || self.has_to_end(t)
            {
                continue;
            }
            steps(Step::Share(t, true));
            steps(Step::Depart(t));
            steps(Step::Exit(t));
            if limits.threaded {
                steps(Step::Share(t, false));
                steps(Step::Fork(t, false));
                steps(Step::Fork(t, true));
                steps(Step::LastCall(t));
                steps(Step::Clone(t));
                steps(Step::Replace(t));
                steps(Step::Dump(t));
            }
        }
        for p in 0..MOST as u8 {
            let q = self.processes[usize::from(p)];
            if !q.used {
                continue;
            }
            let state = q.life.state();
            let prepared = self.threads.iter().any(|t| t.process == p);
            match q.kind {
                Kind::Run if state == P::Expected => {
                    steps(Step::Start(p, false));
                    steps(Step::Start(p, true));
                }
                Kind::Fork | Kind::Program if state == P::Expected => steps(Step::Claim(p)),
                Kind::Share if state == P::Expected && prepared => steps(Step::Claim(p)),
                _ => {}
            }
            if q.member && !q.opening && !state.is_killed() {
                steps(Step::Kill(p));
            }
        }
        for s in 0..MOST as u8 {
            let opening =
                self.processes.iter().any(|q| q.used && q.opening && q.member && q.space == s);
            if self.spaces[usize::from(s)].used && !opening {
                steps(Step::Close(s));
            }
        }
    }

    /// What holds in every state.
    pub fn invariants(&self) -> Done {
        for (p, q) in self.processes.iter().enumerate().filter(|(_, q)| q.used) {
            let of = |t: &&Thread| usize::from(t.process) == p;
            let alive = self.threads.iter().filter(of).filter(|t| t.state != T::Leaves);
            let leaving = self.threads.iter().filter(of).filter(|t| t.state == T::Leaves);
            let counts = (alive.clone().count(), leaving.count());
            let state = q.life.state();
            check(q.life.counts() == (counts.0 as u32, counts.1 as u32), || {
                format!("process {p} counts other threads than it has")
            })?;
            check(!state.is_deserted() || counts == (0, 0), || {
                format!("process {p} has ended, and threads of it live")
            })?;
            check(state != P::Gone || q.vfork == NONE, || {
                format!("process {p} is gone, and a parent waits for it")
            })?;
            let parent = q.vfork;
            if parent != NONE && !q.own && q.life.state().uses_memory() {
                let t = self.threads[usize::from(parent)];
                let dumps =
                    self.processes[usize::from(t.process)].life.state() == P::Dumping;
                let stays = t.state == T::Vforks
                    || dumps
                    || t.state == T::Leaves
                    || self.has_to_end(parent)
                    || matches!(t.state, T::Parked | T::Last | T::Exits);
                check(stays, || {
                    format!("thread {parent} runs beside its vforked child, process {p}")
                })?;
            }
        }
        for t in 0..MOST as u8 {
            let thread = self.threads[usize::from(t)];
            if thread.process != NONE {
                let q = self.processes[usize::from(thread.process)];
                check(q.used && (!q.member || self.spaces[usize::from(q.space)].used), || {
                    format!("thread {t} has no process, or no memory")
                })?;
            }
        }
        Ok(())
    }

    /// What holds where nothing is due: nobody waits for nobody, and what is left lives.
    pub fn at_rest(&self) -> Done {
        for t in 0..MOST as u8 {
            let thread = self.threads[usize::from(t)];
            if thread.process == NONE || thread.state == T::New {
                continue;
            }
            let waits = matches!(thread.stage, Stage::Bounded | Stage::Unbounded)
                || matches!(thread.state, T::Replaces | T::Arrives | T::Dumps);
            check(!waits || !self.is_ready(t), || format!("thread {t} sleeps though it may go on"))?;
            let is_bounded = |t: &Thread| t.stage == Stage::Bounded || t.state == T::Dumps;
            let bounded = is_bounded(&thread);
            let by_child = thread.stage == Stage::Unbounded && {
                let child = &self.processes[usize::from(thread.child)];
                let lives = self.threads.iter().any(|o| o.process == thread.child);
                child.vfork == t && lives
            };
            // Those whose end it waits for wait for a bounded time themselves.
            let whose = match thread.state {
                T::Replaces => thread.process,
                T::Arrives => self.processes[usize::from(thread.process)].old,
                _ => NONE,
            };
            let by_others = whose != NONE
                && self.threads.iter().any(|o| o.process == whose && is_bounded(o));
            let runs = thread.state == T::Runs && !waits;
            check(runs || bounded || by_child || by_others, || format!("thread {t} waits for nobody"))?;
            check(bounded || !self.has_to_end(t), || {
                format!("thread {t} has to end and does not")
            })?;
        }
        let lives = self.threads.iter().any(|t| t.process != NONE);
        let expected = self.processes.iter().any(|q| q.used && q.kind == Kind::Run && !q.began);
        let left = self.processes.iter().any(|q| q.used) || self.spaces.iter().any(|s| s.used);
        check(lives || expected || !left, || "something is left at the end".into())
    }

    /// All of it as one number.
    pub fn key(&self) -> u128 {
        let mut key = 0u128;
        let mut put = |value: u8, bits: u32| key = key << bits | u128::from(value);
        for t in &self.threads {
            put(t.state as u8, 4);
            put(t.process, 2);
            put(t.child, 2);
            put(t.stage as u8, 4);
            put(t.kicked.into(), 1);
        }
        for q in &self.processes {
            put(q.used.into(), 1);
            put(q.life.state() as u8, 4);
            put(q.kind as u8, 2);
            put(q.space, 2);
            put(q.maker, 2);
            put(q.vfork, 2);
            put(q.old, 2);
            for bit in [q.member, q.leaves, q.opening, q.began, q.moved, q.own] {
                put(bit.into(), 1);
            }
        }
        for s in &self.spaces {
            put(s.life.state() as u8, 2);
            put(s.used.into(), 1);
        }
        key
    }
}
