//! Mappings of Linux' own that move (`calls/mremap.rs`) or take each other's place, beside other
//! calls at the same addresses: two places, what the LWK has in its map there, and what Linux has.
//! A call is a row of steps; each is a section under the lock, or a question to Linux, which may
//! fail.

use super::mutants::MUTANT;
use super::{Kept, Mutant, Unmapping, is, must_wait_to_keep};
use std::collections::{HashSet, VecDeque};
use std::string::String;
use std::vec::Vec;
use std::{format, println};

/// The mapping that is at place 0 at first, the one that replaces it, and what may be at place 1 at
/// first.
const OLD: u8 = 1;
const NEW: u8 = 2;
const OTHER: u8 = 3;

/// State of a place in the LWK's map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Empty,
    Kept(Kept, usize),
    Mapped { id: u8, moving: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    /// mremap from a place to the other one; the old one stays as well with `keep`. What is mapped
    /// there is replaced.
    Move { from: usize, keep: bool },
    /// munmap at place 0.
    Unmap,
    /// mmap with MAP_FIXED at place 0.
    Replace,
    /// An access to a place.
    Touch(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    Begin,
    UnmapTarget,
    Mark,
    MoveInLinux,
    Watch,
    Enter,
    MoveBack,
    MapDevice { failed: bool },
    Settle { failed: bool },
    UnmapInLinux,
    MapInLinux,
    EnterNew,
    Resolve { settled: u8 },
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    map: [Place; 2],
    linux: [u8; 2],
    threads: Vec<(Op, Pc)>,
    settled: u8,
    failures: u8,
    /// An access to the place was a signal.
    signals: [bool; 2],
    /// Whether Linux could not move the mapping back, or make one in place of another.
    is_lost: bool,
}

impl State {
    fn new(ops: &[Op], other: bool) -> State {
        let target = match other {
            true => Place::Mapped { id: OTHER, moving: false },
            false => Place::Empty,
        };
        State {
            map: [Place::Mapped { id: OLD, moving: false }, target],
            linux: [OLD, if other { OTHER } else { 0 }],
            threads: ops.iter().map(|&op| (op, Pc::Begin)).collect(),
            settled: 0,
            failures: 2,
            signals: [false; 2],
            is_lost: false,
        }
    }

    /// `kept_for`.
    fn kept(&self, at: usize) -> Option<Kept> {
        match self.map[at] {
            Place::Kept(what, _) => Some(what),
            Place::Mapped { moving: true, .. } => Some(Kept::Replaced),
            _ => None,
        }
    }

    fn waits(&self, at: usize) -> bool {
        self.kept(at).is_some_and(Kept::keeps_waiting)
    }

    fn id(&self, at: usize) -> u8 {
        match self.map[at] {
            Place::Mapped { id, .. } => id,
            _ => 0,
        }
    }

    /// Whether thread `t` has kept a place for a mapping to come.
    fn reserves(&self, at: usize, t: usize) -> bool {
        matches!(self.map[at], Place::Kept(Kept::Coming | Kept::Replaced, by) if by == t)
    }

    /// Frees what thread `t` has kept for `what`.
    fn release(&mut self, at: usize, what: Kept, t: usize, is_forgotten: bool) {
        if self.map[at] == Place::Kept(what, t) {
            let next = Kept::after_asking(is_forgotten);
            self.map[at] = next.map_or(Place::Empty, |what| Place::Kept(what, 0));
        }
    }

    /// `unreserve_after`.
    fn unreserve(&mut self, at: usize, t: usize, is_forgotten: bool) {
        self.release(at, Kept::Coming, t, is_forgotten);
        self.release(at, Kept::Replaced, t, is_forgotten);
        self.settled += 1;
    }

    /// `shared::give_up`.
    fn give_up(&mut self, at: usize, t: usize) {
        self.linux[at] = 0;
        self.is_lost |= self.map[at] == Place::Kept(Kept::Replaced, t);
        self.unreserve(at, t, true);
    }

    /// The next step of thread `t`, in which Linux fails or not. `None`: it waits, or there is no
    /// such step.
    fn step(&self, t: usize, fails: bool) -> Option<State> {
        let mut s = self.clone();
        let (op, pc) = s.threads[t];
        let asks = matches!(
            pc,
            Pc::MoveInLinux
                | Pc::Watch
                | Pc::MoveBack
                | Pc::MapDevice { .. }
                | Pc::UnmapInLinux
                | Pc::UnmapTarget
                | Pc::MapInLinux
        );
        if fails {
            if !asks || s.failures == 0 {
                return None;
            }
            s.failures -= 1;
        }
        let next = match op {
            _ if pc == Pc::Done => return None,
            Op::Move { from, keep } => s.move_step(t, pc, from, keep, fails)?,
            Op::Unmap | Op::Replace => s.replace_step(t, pc, op == Op::Replace, fails)?,
            Op::Touch(at) => s.touch_step(pc, at)?,
        };
        s.threads[t].1 = next;
        Some(s)
    }

    fn move_step(&mut self, t: usize, pc: Pc, from: usize, keep: bool, fails: bool) -> Option<Pc> {
        let to = 1 - from;
        Some(match pc {
            Pc::Begin
                if must_wait_to_keep(self.kept(to).into_iter(), self.kept(from).into_iter()) =>
            {
                return None;
            }
            Pc::Begin => self.keep(to, t, Pc::UnmapTarget, Pc::Mark),
            Pc::UnmapTarget if fails => {
                self.unreserve(to, t, false);
                self.is_lost = true;
                Pc::Done
            }
            Pc::UnmapTarget => {
                self.linux[to] = 0;
                Pc::Mark
            }
            Pc::Mark if self.waits(from) => return None,
            Pc::Mark => match self.map[from] {
                Place::Mapped { id, .. } => {
                    self.map[from] = Place::Mapped { id, moving: true };
                    Pc::MoveInLinux
                }
                _ => {
                    self.give_up(to, t); // EFAULT
                    Pc::Done
                }
            },
            Pc::MoveInLinux if fails => Pc::Settle { failed: true },
            Pc::MoveInLinux => {
                self.linux[to] = self.linux[from];
                self.linux[from] *= u8::from(keep);
                Pc::Watch
            }
            Pc::Watch if fails => Pc::MoveBack,
            Pc::Watch => Pc::Enter,
            Pc::Enter if self.id(from) == 0 || !self.reserves(to, t) => Pc::MoveBack,
            Pc::Enter => {
                self.map[to] = Place::Mapped { id: self.id(from), moving: false };
                self.settled += 1;
                if keep {
                    Pc::Settle { failed: false }
                } else {
                    self.map[from] = Place::Kept(Kept::Busy, t);
                    Pc::MapDevice { failed: false }
                }
            }
            Pc::MoveBack if keep => Pc::Settle { failed: true },
            Pc::MoveBack if fails => {
                self.map[from] = Place::Kept(Kept::Busy, t);
                self.is_lost = true;
                Pc::MapDevice { failed: true }
            }
            Pc::MoveBack => {
                self.linux[from] = core::mem::take(&mut self.linux[to]);
                Pc::Settle { failed: true }
            }
            Pc::MapDevice { failed } => {
                self.linux[from] *= u8::from(fails);
                self.release(from, Kept::Busy, t, !fails);
                self.settled += 1;
                if failed {
                    self.give_up(to, t);
                }
                Pc::Done
            }
            Pc::Settle { failed } => {
                if let Place::Mapped { moving, .. } = &mut self.map[from] {
                    *moving = false;
                }
                self.settled += 1;
                if failed {
                    self.give_up(to, t);
                }
                Pc::Done
            }
            _ => unreachable!(),
        })
    }

    /// Takes away what is mapped at a place, if anything, for a mapping to come; `asks` if Linux
    /// has it, then `kept`.
    fn keep(&mut self, at: usize, t: usize, asks: Pc, kept: Pc) -> Pc {
        let there = self.map[at];
        let was_mapped = matches!(there, Place::Mapped { .. });
        let is_unforgotten = self.kept(at).map(Kept::to_unmap) == Some(Unmapping::Ask);
        self.map[at] = Place::Kept(Kept::for_mapping(was_mapped), t);
        if was_mapped || is_unforgotten { asks } else { kept }
    }

    fn replace_step(&mut self, t: usize, pc: Pc, replaces: bool, fails: bool) -> Option<Pc> {
        Some(match pc {
            Pc::Begin if must_wait_to_keep(self.kept(0).into_iter(), None.into_iter()) => {
                return None;
            }
            Pc::Begin if replaces => self.keep(0, t, Pc::UnmapInLinux, Pc::MapInLinux),
            Pc::Begin => match (self.kept(0).map(Kept::to_unmap), self.map[0]) {
                (Some(Unmapping::Take), _) => {
                    self.map[0] = Place::Empty;
                    Pc::Done
                }
                (_, Place::Empty) => Pc::Done,
                _ => {
                    self.map[0] = Place::Kept(Kept::Busy, t);
                    Pc::UnmapInLinux
                }
            },
            Pc::UnmapInLinux if replaces && fails => {
                self.unreserve(0, t, false);
                self.is_lost = true;
                Pc::Done
            }
            Pc::UnmapInLinux => {
                self.linux[0] *= u8::from(fails);
                if replaces {
                    return Some(Pc::MapInLinux);
                }
                self.release(0, Kept::Busy, t, !fails);
                self.settled += 1;
                Pc::Done
            }
            Pc::MapInLinux if fails => {
                self.give_up(0, t);
                Pc::Done
            }
            Pc::MapInLinux => {
                self.linux[0] = NEW;
                Pc::EnterNew
            }
            Pc::EnterNew => {
                if self.reserves(0, t) {
                    self.map[0] = Place::Mapped { id: NEW, moving: false };
                    self.settled += 1;
                } else {
                    self.linux[0] = 0; // it was unmapped
                }
                Pc::Done
            }
            _ => unreachable!(),
        })
    }

    fn touch_step(&mut self, pc: Pc, at: usize) -> Option<Pc> {
        Some(match pc {
            Pc::Begin if self.kept(at).is_some_and(Kept::holds_accesses) => return None,
            Pc::Begin if self.id(at) == 0 => {
                self.signals[at] = true;
                Pc::Done
            }
            Pc::Begin => Pc::Resolve { settled: self.settled },
            Pc::Resolve { .. } if self.linux[at] != 0 => Pc::Done,
            Pc::Resolve { settled } => {
                let may_have_moved = self.settled != settled || self.waits(at);
                if may_have_moved && !is(Mutant::TouchesOnce) {
                    Pc::Begin
                } else {
                    self.signals[at] = true;
                    Pc::Done
                }
            }
            _ => unreachable!(),
        })
    }

    /// The property that does not hold when all calls are over, if there is one.
    fn check(&self) -> Option<&'static str> {
        let removes = self.threads.iter().any(|t| matches!(t.0, Op::Unmap | Op::Replace));
        if self.threads.iter().any(|t| t.1 != Pc::Done) {
            return None;
        }
        for at in 0..2 {
            match self.map[at] {
                Place::Empty if self.linux[at] != 0 => {
                    return Some("Linux has a mapping that is gone");
                }
                Place::Mapped { id, moving: false } if self.linux[at] != id => {
                    return Some("Linux has another mapping");
                }
                Place::Mapped { moving: true, .. } | Place::Kept(Kept::Coming | Kept::Busy, _) => {
                    return Some("addresses stay taken");
                }
                _ => {}
            }
        }
        let swaps = |t: &&(Op, Pc)| matches!(t.0, Op::Move { .. });
        let is_one = self.threads.iter().filter(swaps).count() == 1;
        if is_one && !removes && !self.is_lost && self.id(0) != OLD && self.id(1) != OLD {
            return Some("a mapping is lost");
        }
        let empties = |t: &(Op, Pc), at| match t.0 {
            Op::Unmap => at == 0,
            Op::Move { from, keep } => from == at && !keep && self.id(at) != OLD,
            _ => false,
        };
        for at in 0..2 {
            if self.signals[at] && !self.is_lost && !self.threads.iter().any(|t| empties(t, at)) {
                return Some("a signal at what is mapped all the time");
            }
        }
        None
    }
}

fn explore(&(ops, other): &(&[Op], bool)) -> Result<usize, String> {
    let start = State::new(ops, other);
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        let mut steps = 0;
        for t in 0..ops.len() {
            for next in [false, true].into_iter().filter_map(|fails| state.step(t, fails)) {
                steps += 1;
                if let Some(wrong) = next.check() {
                    return Err(format!("{wrong}, of {ops:?}: {next:?}"));
                }
                if seen.insert(next.clone()) {
                    queue.push_back(next);
                }
            }
        }
        if steps == 0 && state.threads.iter().any(|t| t.1 != Pc::Done) {
            return Err(format!("all wait, of {ops:?}: {state:?}"));
        }
    }
    Ok(seen.len())
}

const MOVE: Op = Op::Move { from: 0, keep: false };
const BACK: Op = Op::Move { from: 1, keep: false };
const COPY: Op = Op::Move { from: 0, keep: true };
const TOUCH: Op = Op::Touch(0);
/// Calls, and whether something is mapped at place 1.
const CALLS: &[(&[Op], bool)] = &[
    (&[MOVE, Op::Replace, TOUCH], false),
    (&[COPY, Op::Replace, TOUCH], false),
    (&[MOVE, Op::Unmap, Op::Replace], false),
    (&[MOVE, TOUCH, TOUCH], false),
    (&[COPY, TOUCH, TOUCH], false),
    (&[Op::Replace, Op::Replace, Op::Unmap], false),
    (&[Op::Replace, Op::Replace, TOUCH], false),
    (&[MOVE, Op::Touch(1), TOUCH], true),
    (&[COPY, Op::Touch(1), TOUCH], true),
    (&[MOVE, Op::Replace, Op::Touch(1)], true),
    (&[MOVE, BACK, Op::Replace], true),
];

#[test]
fn both_sides_have_the_same_mappings() {
    let counts = CALLS.iter().map(|calls| explore(calls).expect("no wrong state"));
    println!("moves: {} states", counts.sum::<usize>());
}

#[test]
fn wrong_steps_of_moves_are_found() {
    for (mutant, calls, breaks) in [
        (Mutant::TakesBusy, 0, "Linux has another mapping"),
        (Mutant::TakesComing, 5, "Linux has a mapping that is gone"),
        (Mutant::TouchesOnce, 3, "a signal at what is mapped all the time"),
        (Mutant::FreesUnforgotten, 2, "Linux has a mapping that is gone"),
        (Mutant::SeesHole, 6, "a signal at what is mapped all the time"),
        (Mutant::LeavesHole, 7, "a signal at what is mapped all the time"),
        (Mutant::KeepsWhileOthersMove, 10, "all wait"),
    ] {
        MUTANT.set(mutant);
        let found = explore(&CALLS[calls]);
        let found = found.expect_err(&format!("a wrong state for {mutant:?}"));
        MUTANT.set(Mutant::None);
        assert!(found.starts_with(breaks), "{mutant:?}: {found}");
    }
}
