//! Mappings of Linux' own that move (`calls/mremap.rs`), beside other calls at the same addresses: two
//! places, what the LWK has in its map there, and what Linux has. A call is a row of steps; each
//! is a section under the lock, or a question to Linux, which may fail.

use super::{Kept, MUTANT, Mutant, Unmapping, is};
use std::collections::{HashSet, VecDeque};
use std::string::String;
use std::vec::Vec;
use std::{format, println};

/// The mapping that is at place 0 at first, and the one that replaces it.
const OLD: u8 = 1;
const NEW: u8 = 2;

/// What the LWK has at a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Empty,
    Kept(Kept, usize),
    Mapped { id: u8, moving: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    /// mremap from place 0 to place 1; the old one stays as well with `keep`.
    Move { keep: bool },
    /// munmap at place 0.
    Unmap,
    /// mmap with MAP_FIXED at place 0.
    Replace,
    /// An access to place 0.
    Touch,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    Begin,
    MoveInLinux,
    Watch,
    Enter,
    MoveBack,
    MapDevice { failed: bool },
    Settle { failed: bool },
    UnmapInLinux,
    Reserve,
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
    /// An access to place 0 was a signal.
    signal: bool,
    /// Whether Linux could not move the mapping back.
    is_lost: bool,
}

impl State {
    fn new(ops: &[Op]) -> State {
        State {
            map: [Place::Mapped { id: OLD, moving: false }, Place::Empty],
            linux: [OLD, 0],
            threads: ops.iter().map(|&op| (op, Pc::Begin)).collect(),
            settled: 0,
            failures: 2,
            signal: false,
            is_lost: false,
        }
    }

    /// `kept_for`.
    fn kept(&self, at: usize) -> Option<Kept> {
        match self.map[at] {
            Place::Kept(what, _) => Some(what),
            Place::Mapped { moving: true, .. } => Some(Kept::Busy),
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

    /// Frees what thread `t` has kept for `what`.
    fn release(&mut self, at: usize, what: Kept, t: usize, is_forgotten: bool) {
        if self.map[at] == Place::Kept(what, t) {
            let next = Kept::after_asking(is_forgotten);
            self.map[at] = next.map_or(Place::Empty, |what| Place::Kept(what, 0));
        }
    }

    /// `shared::give_up` of the target.
    fn give_up(&mut self, t: usize) {
        self.linux[1] = 0;
        self.release(1, Kept::Coming, t, true);
    }

    /// The next step of thread `t`, in which Linux fails or not. `None`: it waits, or there is no
    /// such step.
    fn step(&self, t: usize, fails: bool) -> Option<State> {
        let mut s = self.clone();
        let (op, pc) = s.threads[t];
        let asks = matches!(
            pc,
            Pc::MoveInLinux | Pc::Watch | Pc::MoveBack | Pc::MapDevice { .. } | Pc::UnmapInLinux
        );
        if fails {
            if !asks || s.failures == 0 {
                return None;
            }
            s.failures -= 1;
        }
        let next = match op {
            _ if pc == Pc::Done => return None,
            Op::Move { keep } => s.move_step(t, pc, keep, fails)?,
            Op::Unmap | Op::Replace => s.replace_step(t, pc, op == Op::Replace, fails)?,
            Op::Touch => s.touch_step(pc)?,
        };
        s.threads[t].1 = next;
        Some(s)
    }

    fn move_step(&mut self, t: usize, pc: Pc, keep: bool, fails: bool) -> Option<Pc> {
        Some(match pc {
            Pc::Begin if self.map[1] == Place::Empty => {
                self.map[1] = Place::Kept(Kept::Coming, t);
                Pc::Begin
            }
            Pc::Begin if self.waits(0) => return None,
            Pc::Begin => match self.map[0] {
                Place::Mapped { id, .. } => {
                    self.map[0] = Place::Mapped { id, moving: true };
                    Pc::MoveInLinux
                }
                _ => {
                    self.give_up(t); // EFAULT
                    Pc::Done
                }
            },
            Pc::MoveInLinux if fails => Pc::Settle { failed: true },
            Pc::MoveInLinux => {
                self.linux[1] = self.linux[0];
                self.linux[0] *= u8::from(keep);
                Pc::Watch
            }
            Pc::Watch if fails => Pc::MoveBack,
            Pc::Watch => Pc::Enter,
            Pc::Enter if self.id(0) == 0 => Pc::MoveBack,
            Pc::Enter => {
                self.map[1] = Place::Mapped { id: self.id(0), moving: false };
                if keep {
                    Pc::Settle { failed: false }
                } else {
                    self.map[0] = Place::Kept(Kept::Busy, t);
                    Pc::MapDevice { failed: false }
                }
            }
            Pc::MoveBack if keep => Pc::Settle { failed: true },
            Pc::MoveBack if fails => {
                self.map[0] = Place::Kept(Kept::Busy, t);
                self.is_lost = true;
                Pc::MapDevice { failed: true }
            }
            Pc::MoveBack => {
                self.linux[0] = core::mem::take(&mut self.linux[1]);
                Pc::Settle { failed: true }
            }
            Pc::MapDevice { failed } => {
                self.linux[0] *= u8::from(fails);
                self.release(0, Kept::Busy, t, !fails);
                self.settled += 1;
                if failed {
                    self.give_up(t);
                }
                Pc::Done
            }
            Pc::Settle { failed } => {
                if let Place::Mapped { moving, .. } = &mut self.map[0] {
                    *moving = false;
                }
                self.settled += 1;
                if failed {
                    self.give_up(t);
                }
                Pc::Done
            }
            _ => unreachable!(),
        })
    }

    fn replace_step(&mut self, t: usize, pc: Pc, replaces: bool, fails: bool) -> Option<Pc> {
        let unmapped = if replaces { Pc::Reserve } else { Pc::Done };
        Some(match pc {
            Pc::Begin => match self.kept(0).map(|what| what.to_unmap(false)) {
                Some(Unmapping::Wait) => return None,
                Some(Unmapping::Take) => {
                    self.map[0] = Place::Empty;
                    unmapped
                }
                None if self.map[0] == Place::Empty => unmapped,
                None | Some(Unmapping::Ask) => {
                    self.map[0] = Place::Kept(Kept::Busy, t);
                    Pc::UnmapInLinux
                }
            },
            Pc::UnmapInLinux => {
                self.linux[0] *= u8::from(fails);
                self.release(0, Kept::Busy, t, !fails);
                self.settled += 1;
                if fails { Pc::Done } else { unmapped }
            }
            Pc::Reserve if self.map[0] != Place::Empty => Pc::Begin,
            Pc::Reserve => {
                self.map[0] = Place::Kept(Kept::Coming, t);
                Pc::MapInLinux
            }
            Pc::MapInLinux => {
                self.linux[0] = NEW;
                Pc::EnterNew
            }
            Pc::EnterNew => {
                if self.map[0] == Place::Kept(Kept::Coming, t) {
                    self.map[0] = Place::Mapped { id: NEW, moving: false };
                } else {
                    self.linux[0] = 0; // it was unmapped
                }
                Pc::Done
            }
            _ => unreachable!(),
        })
    }

    fn touch_step(&mut self, pc: Pc) -> Option<Pc> {
        Some(match pc {
            Pc::Begin if self.waits(0) && self.id(0) != 0 => return None,
            Pc::Begin if self.id(0) == 0 => {
                self.signal = true;
                Pc::Done
            }
            Pc::Begin => Pc::Resolve { settled: self.settled },
            Pc::Resolve { .. } if self.linux[0] != 0 => Pc::Done,
            Pc::Resolve { settled } => {
                let may_have_moved = self.settled != settled || self.waits(0);
                if may_have_moved && !is(Mutant::TouchesOnce) {
                    Pc::Begin
                } else {
                    self.signal = true;
                    Pc::Done
                }
            }
            _ => unreachable!(),
        })
    }

    /// What has to hold when all calls are over.
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
        if !removes && !self.is_lost && self.id(0) != OLD && self.id(1) != OLD {
            return Some("a mapping is lost");
        }
        if self.signal && !removes && self.id(0) == OLD {
            return Some("a signal at what is mapped all the time");
        }
        None
    }
}

fn explore(ops: &[Op]) -> Result<usize, String> {
    let start = State::new(ops);
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

const MOVE: Op = Op::Move { keep: false };
const COPY: Op = Op::Move { keep: true };
const CALLS: &[&[Op]] = &[
    &[MOVE, Op::Replace, Op::Touch],
    &[COPY, Op::Replace, Op::Touch],
    &[MOVE, Op::Unmap, Op::Replace],
    &[MOVE, Op::Touch, Op::Touch],
    &[COPY, Op::Touch, Op::Touch],
    &[Op::Replace, Op::Replace, Op::Unmap],
];

#[test]
fn both_sides_have_the_same_mappings() {
    let counts = CALLS.iter().map(|ops| explore(ops).expect("no wrong state"));
    println!("moves: {} states", counts.sum::<usize>());
}

#[test]
fn wrong_steps_of_moves_are_found() {
    for (mutant, calls, breaks) in [
        (Mutant::TakesBusy, 0, "Linux has another mapping"),
        (Mutant::TakesBusy, 3, "a signal at what is mapped all the time"),
        (Mutant::TakesComing, 5, "Linux has another mapping"),
        (Mutant::TouchesOnce, 3, "a signal at what is mapped all the time"),
        (Mutant::FreesUnforgotten, 2, "Linux has a mapping that is gone"),
    ] {
        MUTANT.set(mutant);
        let found = explore(CALLS[calls]).expect_err("a wrong state");
        MUTANT.set(Mutant::None);
        assert!(found.starts_with(breaks), "{mutant:?}: {found}");
    }
}
