//! Requests of Linux to the LWK, and what follows from them.

use super::{
    Broken, Done, Kind, Limits, MOST, NO_SPACE, NO_THREAD, NONE, Proc, Room, Stage, Step, World,
    check,
};
use crate::life::tests::{Mutant, has};
use crate::life::{Event, SpaceEffect, SpaceEvent};
use std::format;

impl World {
    /// A request that opens a space has failed.
    fn open_fails(&mut self, p: u8) -> Done {
        let q = self.pr(p);
        q.opening = false;
        let (kind, old, member) = (q.kind, q.old, q.member);
        // Before it has a space there is only the entry in a list, which is dropped: no other
        // thread sees that.
        let failed = self.end_step(p, None, Event::Fail);
        let killed = member && self.pr(p).life.word().is_killed();
        check(failed.is_ok() || killed, || format!("process {p} was claimed, and does not fail"))?;
        if !member {
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

    /// Frees what is left of a space.
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

    /// A request is served, or a process leaves its space.
    pub(super) fn request(&mut self, step: Step, limits: Limits) -> Result<bool, Broken> {
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
                    self.pr(p).heard = has(Mutant::HandsOverEarly);
                    if self.end_step(old, None, Event::Move).is_err() {
                        *self.th(t) = NO_THREAD;
                        self.open_fails(p)?;
                        return Ok(true);
                    }
                    (self.pr(old).moved, self.pr(p).heard) = (true, true);
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
            Step::ChildEnds(p) => {
                let killed = self.end_step(p, None, Event::Kill);
                check(killed.is_ok(), || format!("process {p} is not to be killed"))?;
                self.drop_it(p)?;
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
                let effect =
                    left.map_err(|_| format!("process {p} leaves a space that is freed"))?;
                match effect {
                    SpaceEffect::Remove => self.finish(p)?,
                    SpaceEffect::Free => self.free(s)?,
                    SpaceEffect::None => {}
                }
            }
            other => unreachable!("{other:?}"),
        }
        Ok(true)
    }
}
