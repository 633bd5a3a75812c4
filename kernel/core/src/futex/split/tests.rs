//! Every order of steps of a waiter of two words, one of each kind, and of all that end its wait.

use super::*;
use crate::errno::{EAGAIN, EINTR, Errno};
use crate::futex::{Key, WAITERS};
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::println;
use std::vec::Vec;

/// A mistake, which has to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    None,
    /// Linux is told the word itself, which a waker need not have changed, not a note.
    NoNote,
    /// The note is written after it was woken on Linux.
    WritesLate,
    /// The note is reset when the thread is in the queues.
    ResetsLate,
    /// The note comes behind the other words.
    NoteLast,
    /// A wake-up of the note is taken for one of the thread.
    TrustsNote,
}

const PLACES: [Place; 2] = [Place::Queues(Key(8)), Place::Linux];
/// The index of each in what the program has given.
const OWN: u64 = 0;
const COMMON: u64 = 1;

/// The next step of the waiter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Waiter {
    Resets,
    Queues,
    /// Linux compares and queues the word of that number of those that it was told.
    Begins(u8),
    Sleeps,
    /// Leaves Linux' queues, with the error if none was woken.
    Leaves(Errno),
    Judges(Result<u64>),
    GivesUp(Result<u64>),
    Done(Result<u64>),
}

/// The next step of a thread that wakes one of the words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Waker {
    Changes,
    /// Under the lock of the queues; a waker on Linux has its only step there.
    Wakes,
    Writes,
    WakesOnLinux,
    /// Whether it woke the waiter.
    Done(bool),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    own: u32,
    common: u32,
    note: u32,
    in_queues: bool,
    /// Whether the thread was marked as woken (`futex_woken`).
    is_woken: bool,
    /// Linux' queues: the worker waits for the word told at that place.
    on_linux: [bool; 2],
    waiter: Waiter,
    own_waker: Waker,
    common_waker: Waker,
    /// A wake-up of the note that is late, from a wait before.
    late: bool,
    /// A signal may come.
    signal: bool,
    /// Whether the own word's waker changes that, as it does where it has to: a lock's owner.
    changes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Waiter,
    OwnWaker,
    CommonWaker,
    Late,
    Signal,
}
const STEPS: [Step; 5] =
    [Step::Waiter, Step::OwnWaker, Step::CommonWaker, Step::Late, Step::Signal];

impl World {
    /// The place of the note among the words that Linux is told; of the common word.
    fn note_at(mutant: Mutant) -> (usize, usize) {
        if mutant == Mutant::NoteLast { (1, 0) } else { (0, 1) }
    }

    fn wake_on_linux(&mut self, at: usize) -> bool {
        core::mem::take(&mut self.on_linux[at])
    }

    fn has_value(&self, told: usize, mutant: Mutant) -> bool {
        if told == Self::note_at(mutant).1 {
            self.common == 0
        } else if mutant == Mutant::NoNote {
            self.own == 0
        } else {
            self.note == NOTE_WAITS
        }
    }

    fn waiter_steps(&mut self, mutant: Mutant) -> bool {
        self.waiter = match self.waiter {
            Waiter::Resets => {
                if mutant != Mutant::ResetsLate {
                    self.note = NOTE_WAITS;
                }
                Waiter::Queues
            }
            Waiter::Queues if self.own != 0 => Waiter::Done(Err(EAGAIN)),
            Waiter::Queues => {
                self.in_queues = true;
                Waiter::Begins(0)
            }
            Waiter::Begins(told) => {
                if mutant == Mutant::ResetsLate && told == 0 {
                    self.note = NOTE_WAITS;
                }
                if self.has_value(told.into(), mutant) {
                    self.on_linux[usize::from(told)] = true;
                    if told == 0 { Waiter::Begins(1) } else { Waiter::Sleeps }
                } else {
                    // It leaves those before, of which one may have been woken.
                    self.leave(Err(EAGAIN), told.into(), mutant)
                }
            }
            Waiter::Sleeps if self.on_linux == [true; 2] => return false,
            Waiter::Sleeps => self.leave(Err(EINTR), 2, mutant),
            Waiter::Leaves(error) => self.leave(Err(error), 2, mutant),
            Waiter::Judges(result) => {
                if is_late(&result, self.is_woken || mutant == Mutant::TrustsNote) {
                    Waiter::Begins(0)
                } else {
                    Waiter::GivesUp(result)
                }
            }
            Waiter::GivesUp(on_linux) => {
                let woken = (!core::mem::take(&mut self.in_queues)).then_some(OWN);
                Waiter::Done(result(on_linux, woken, &PLACES))
            }
            Waiter::Done(_) => return false,
        };
        true
    }

    /// futex_unqueue_multiple: of the first words, the last one that was woken.
    fn leave(&mut self, otherwise: Result<u64>, words: usize, mutant: Mutant) -> Waiter {
        let woken = (0..words).rev().find(|&at| !self.on_linux[at]);
        self.on_linux = [false; 2];
        // The index as the real order of words has it.
        let told = |at| if at == Self::note_at(mutant).0 { NOTE } else { 1 };
        Waiter::Judges(woken.map(told).map_or(otherwise, Ok))
    }

    fn own_waker_steps(&mut self, mutant: Mutant) -> bool {
        self.own_waker = match self.own_waker {
            Waker::Changes => {
                self.own = u32::from(self.changes);
                Waker::Wakes
            }
            Waker::Wakes if core::mem::take(&mut self.in_queues) => {
                self.is_woken = true;
                if mutant == Mutant::WritesLate {
                    Waker::WakesOnLinux
                } else {
                    self.note = NOTE_WOKEN;
                    Waker::WakesOnLinux
                }
            }
            Waker::Wakes => Waker::Done(false),
            Waker::WakesOnLinux => {
                self.wake_on_linux(Self::note_at(mutant).0);
                if mutant == Mutant::WritesLate { Waker::Writes } else { Waker::Done(true) }
            }
            Waker::Writes => {
                self.note = NOTE_WOKEN;
                Waker::Done(true)
            }
            Waker::Done(_) => return false,
        };
        true
    }

    fn common_waker_steps(&mut self, mutant: Mutant) -> bool {
        self.common_waker = match self.common_waker {
            Waker::Changes => {
                self.common = 1;
                Waker::Wakes
            }
            Waker::Wakes => Waker::Done(self.wake_on_linux(Self::note_at(mutant).1)),
            _ => return false,
        };
        true
    }

    fn steps(mut self, step: Step, mutant: Mutant) -> Option<Self> {
        let made = match step {
            Step::Waiter => self.waiter_steps(mutant),
            Step::OwnWaker => self.own_waker_steps(mutant),
            Step::CommonWaker => self.common_waker_steps(mutant),
            Step::Late if self.late => {
                self.wake_on_linux(Self::note_at(mutant).0);
                self.late = false;
                true
            }
            Step::Signal if self.signal && self.waiter == Waiter::Sleeps => {
                self.signal = false;
                self.waiter = Waiter::Leaves(EINTR);
                true
            }
            Step::Late | Step::Signal => false,
        };
        made.then_some(self)
    }

    /// Conditions of a state in which no step is left.
    fn rests(&self) -> core::result::Result<(), &'static str> {
        let Waiter::Done(result) = self.waiter else {
            // A waker that changed nothing has come before it, and found none.
            let is_due = self.own_waker == Waker::Done(true) || self.own != 0 || self.common != 0;
            return if is_due { Err("a wake-up is lost") } else { Ok(()) };
        };
        let woken = [(self.own_waker, OWN), (self.common_waker, COMMON)]
            .map(|(waker, index)| (waker == Waker::Done(true), index));
        match result {
            Ok(index) if woken.contains(&(true, index)) => Ok(()),
            Ok(_) => Err("a word is told that was not woken"),
            Err(_) if woken.iter().any(|&(was, _)| was) => Err("a wake-up is not told"),
            Err(EAGAIN) => Ok(()),
            Err(EINTR) if !self.signal => Ok(()),
            Err(_) => Err("an error is told that did not come"),
        }
    }
}

fn first([changes, late, signal, is_common_woken]: [bool; 4]) -> World {
    World {
        own: 0,
        common: 0,
        note: NOTE_WOKEN, // of a wait before
        in_queues: false,
        is_woken: false,
        on_linux: [false; 2],
        waiter: Waiter::Resets,
        own_waker: Waker::Changes,
        common_waker: if is_common_woken { Waker::Changes } else { Waker::Done(false) },
        late,
        signal,
        changes,
    }
}

/// How many states there are, and the steps to one that is wrong.
fn explore(mutant: Mutant) -> (usize, Option<(&'static str, Vec<Step>)>) {
    let mut ways: HashMap<World, Vec<Step>> = HashMap::new();
    let mut next = VecDeque::new();
    for bits in 0..16 {
        let world = first([1, 2, 4, 8].map(|bit| bits & bit != 0));
        ways.insert(world, Vec::new());
        next.push_back(world);
    }
    while let Some(world) = next.pop_front() {
        let way = ways[&world].clone();
        let mut rests = true;
        for step in STEPS {
            let Some(after) = world.steps(step, mutant) else { continue };
            rests &= step == Step::Signal;
            if let Entry::Vacant(new) = ways.entry(after) {
                new.insert(way.iter().copied().chain([step]).collect());
                next.push_back(after);
            }
        }
        if rests && let Err(broken) = world.rests() {
            return (ways.len(), Some((broken, way)));
        }
    }
    (ways.len(), None)
}

#[test]
fn no_wake_up_is_lost_in_any_order() {
    let (states, broken) = explore(Mutant::None);
    println!("{states} states");
    assert_eq!(broken, None);
    assert!(states > 1_000, "{states} states");
}

#[test]
fn each_mistake_is_found() {
    for (mutant, wanted) in [
        (Mutant::NoNote, "a wake-up is lost"),
        (Mutant::WritesLate, "a wake-up is lost"),
        (Mutant::ResetsLate, "a wake-up is lost"),
        (Mutant::NoteLast, "a wake-up is not told"),
        (Mutant::TrustsNote, "an error is told that did not come"),
    ] {
        let (_, broken) = explore(mutant);
        println!("{mutant:?}: {broken:?}");
        assert_eq!(broken.map(|(what, _)| what), Some(wanted), "{mutant:?}");
    }
}

#[test]
fn words_are_told_by_their_index() {
    let own = Place::Queues(Key(8));
    let places = [own, Place::Linux, own, Place::Linux];
    assert_eq!(of_linux(&places).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(result(Ok(2), None, &places), Ok(3));
    assert_eq!(result(Ok(1), Some(2), &places), Ok(1));
    assert_eq!(result(Ok(0), Some(2), &places), Ok(2));
    assert_eq!(result(Err(EINTR), Some(0), &places), Ok(0));
    assert_eq!(result(Err(EINTR), None, &places), Err(EINTR));
    for wrong in [0, 3, u64::from(WAITERS), u64::MAX] {
        assert_eq!(result(Ok(wrong), None, &places), Err(EINVAL), "{wrong}");
    }
}
