//! A small machine whose threads, processes and spaces live by the transition functions: what
//! kernel, Linux and proxies do beside those, one lock at a time, in any order.
//!
//! A kick is modelled as the kernel's: a waiting thread looks once, and then only when it was
//! kicked. So a wake-up that is lost shows as a thread that sleeps though it may go on.

mod checks;
mod requests;
mod threads;

use super::{
    Effects, Event, Process, ProcessState as P, Refused, Space, SpaceEvent, SpaceState as S,
    ThreadState as T, must_end,
};
use std::format;
use std::string::String;

/// Value of an index where there is none.
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
    /// The thread waits, for a bounded time, until the child has begun or has released it.
    Bounded,
    /// The thread waits for the child to leave its memory.
    Unbounded,
    /// The thread has replaced the program, and may go on as the first thread.
    Built,
    /// The thread is the first one of a program that left another space.
    Program,
    /// The thread is the last one, and has called exit(2).
    Quiet,
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub state: T,
    pub process: u8,
    /// The process that the thread makes.
    pub child: u8,
    pub stage: Stage,
    /// The thread looks at what it waits for.
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
    /// The process is in the list of its space.
    pub member: bool,
    /// The thread that makes the process.
    pub maker: u8,
    /// The thread that waits until the process has left the memory.
    pub vfork: u8,
    /// The process that goes on as this one (execve), or none.
    pub old: u8,
    /// The process has to leave its space.
    pub leaves: bool,
    /// A request is making it.
    pub opening: bool,
    pub began: bool,
    pub moved: bool,
    /// Whether the end of the process is told. A program's end is told once the program goes on as
    /// the process that it was.
    pub heard: bool,
    /// The process has a program of its own in memory of its own.
    pub own: bool,
}

/// A space.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub used: bool,
    pub life: Space,
}

/// Step of the model. Numbers are those of threads, processes and spaces.
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
    GoOn(u8),
    Arrive(u8),
    Leave(u8),
    Left(u8),
    Claim(u8),
    OpenFails(u8),
    OpenFailsLate(u8),
    Open(u8),
    Begin(u8),
    Kill(u8),
    ChildEnds(u8),
    Close(u8),
    CloseKills(u8),
    LeaveSpace(u8),
}

/// The machine of the model.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub threads: [Thread; MOST],
    pub processes: [Proc; MOST],
    pub spaces: [Room; MOST],
}

/// Limits of a configuration.
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
    heard: true,
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
        w.processes[0] = Proc { used: true, space: 0, member: true, own: true, ..NO_PROCESS };
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

    /// Kicks the threads of the maker of `p`.
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

    /// Wakes the thread whose memory its child `p` has left.
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
        let effects =
            finished.map_err(|_| format!("process {p} is finished twice, or while it lives"))?;
        if effects.releases {
            self.release(p)?;
        }
        let q = self.pr(p);
        check(effects.tells != q.moved, || {
            format!("the end of process {p} is told where it is none, or is not told")
        })?;
        check(!effects.tells || q.kind != Kind::Program || q.heard == q.began, || {
            format!("process {p} tells the end of the one that it has not become")
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

    /// Drops a process that has not come to be.
    fn drop_it(&mut self, p: u8) -> Done {
        self.pr(p).leaves = false;
        self.finish(p)
    }

    /// Makes a process: its slot and its maker.
    fn expect(&mut self, q: u8, t: u8, kind: Kind, vfork: bool) {
        *self.pr(q) = Proc {
            used: true,
            kind,
            maker: t,
            vfork: if vfork { t } else { NONE },
            own: kind != Kind::Share,
            heard: kind != Kind::Program,
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

    /// Makes a step. False: there is no room for it.
    pub fn take(&mut self, step: Step, limits: Limits) -> Result<bool, Broken> {
        let made = match step {
            Step::Clone(_)
            | Step::Fork(..)
            | Step::Share(..)
            | Step::Prepare(..)
            | Step::Depart(_)
            | Step::Replace(_)
            | Step::HandOver(_) => self.thread_begins(step, limits)?,
            Step::Exit(_)
            | Step::Quiet(_)
            | Step::LastCall(_)
            | Step::Dump(_)
            | Step::Park(_)
            | Step::Answer(..)
            | Step::Look(_)
            | Step::Late(_)
            | Step::GoOn(_)
            | Step::Arrive(_)
            | Step::Leave(_)
            | Step::Left(_) => self.thread_goes_on(step)?,
            Step::Start(..)
            | Step::Claim(_)
            | Step::OpenFails(_)
            | Step::OpenFailsLate(_)
            | Step::Open(_)
            | Step::Begin(_)
            | Step::Kill(_)
            | Step::CloseKills(_)
            | Step::ChildEnds(_)
            | Step::Close(_)
            | Step::LeaveSpace(_) => self.request(step, limits)?,
        };
        self.tidy();
        Ok(made)
    }

    /// Forgets what is gone and no longer known to anything, so that its place is free.
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
            // A thread that does not wait looks anyway, before it waits.
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

    /// The world as one number: equal worlds have equal keys.
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
            let entrusted = q.life.is_entrusted();
            for bit in [q.member, q.leaves, q.opening, q.began, q.moved, q.heard, q.own, entrusted]
            {
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
