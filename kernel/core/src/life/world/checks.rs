//! Steps that may happen next, and properties that have to hold.

use super::{Done, Kind, Limits, MOST, NONE, Proc, Stage, Step, Thread, World, check};
use crate::life::{ProcessState as P, ThreadState as T};
use std::format;

impl World {
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
            // Linux closes a space once no process uses its memory map.
            let uses = |q: &Proc| {
                q.used && q.member && q.space == s && {
                    let state = q.life.state();
                    q.opening || q.began && !state.is_deserted()
                }
            };
            if room.used && !room.life.word().is_closed() && !self.processes.iter().any(uses) {
                let fresh = self
                    .processes
                    .iter()
                    .any(|q| q.used && q.member && q.space == s && q.kind == Kind::Run && !q.began);
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
            if thread.stage == Stage::Bounded {
                steps(Step::GoOn(t));
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
            // From before its maker goes on: Linux is asked to tell it first.
            let is_watched =
                || self.threads.iter().any(|t| t.child == p && t.stage == Stage::Bounded);
            if q.kind == Kind::Fork
                && state == P::Expected
                && (q.life.is_entrusted() || is_watched())
            {
                steps(Step::ChildEnds(p));
            }
        }
        for s in 0..MOST as u8 {
            let opening =
                self.processes.iter().any(|q| q.used && q.opening && q.member && q.space == s);
            // Of processes of one thread, kills are as good.
            if limits.threaded && self.spaces[usize::from(s)].used && !opening {
                steps(Step::Close(s));
            }
        }
    }

    /// Checks the properties that hold in every state.
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
                let dumps = self.processes[usize::from(t.process)].life.state() == P::Dumping;
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

    /// Checks the properties that hold where no step is due: each thread that waits has something
    /// to wait for, and what is left lives.
    pub fn at_rest(&self) -> Done {
        for t in 0..MOST as u8 {
            let thread = self.threads[usize::from(t)];
            if thread.process == NONE || thread.state == T::New {
                continue;
            }
            let waits = matches!(thread.stage, Stage::Bounded | Stage::Unbounded)
                || matches!(thread.state, T::Replaces | T::Arrives | T::Dumps);
            check(!waits || !self.is_ready(t), || {
                format!("thread {t} sleeps though it may go on")
            })?;
            let is_bounded = |t: &Thread| t.stage == Stage::Bounded || t.state == T::Dumps;
            let bounded = is_bounded(&thread);
            let by_child = thread.stage == Stage::Unbounded && {
                let child = &self.processes[usize::from(thread.child)];
                let lives = self.threads.iter().any(|o| o.process == thread.child);
                child.vfork == t && (lives || child.life.is_entrusted())
            };
            // Those whose end it waits for wait for a bounded time themselves.
            let whose = match thread.state {
                T::Replaces => thread.process,
                T::Arrives => self.processes[usize::from(thread.process)].old,
                _ => NONE,
            };
            let by_others =
                whose != NONE && self.threads.iter().any(|o| o.process == whose && is_bounded(o));
            let runs = thread.state == T::Runs && !waits;
            check(runs || bounded || by_child || by_others, || {
                format!("thread {t} waits for nobody")
            })?;
            check(bounded || !self.has_to_end(t), || {
                format!("thread {t} has to end and does not")
            })?;
        }
        let lives = self.threads.iter().any(|t| t.process != NONE);
        let expected = self.processes.iter().any(|q| q.used && q.kind == Kind::Run && !q.began);
        // The end of one that is entrusted Linux tells, if it never comes.
        let is_left = |q: &Proc| q.used && !q.life.is_entrusted();
        let left = self.processes.iter().any(is_left) || self.spaces.iter().any(|s| s.used);
        check(lives || expected || !left, || "something is left at the end".into())
    }
}
