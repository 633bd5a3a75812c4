//! Every order of events of small configurations, and mistakes that have to be found.

use super::world::{Broken, Limits, Step, World};
use super::{Event, Process, ProcessState, ThreadState};
use std::cell::Cell;
use std::collections::HashSet;
use std::format;
use std::hash::{BuildHasherDefault, Hasher};
use std::println;
use std::string::String;
use std::vec::Vec;

/// A wrong transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A process that was claimed may be given up.
    GivesUpClaimed,
    /// A process has ended while a thread of it uses its slot.
    DesertsWhileLeaving,
    /// The end of a process is told though it goes on as another one.
    TellsTwice,
    /// The end of an execve's program is told to a parent before the old process has moved.
    HandsOverEarly,
    /// The parent of a vfork is not let go by the child's end.
    ForgetsParent,
    /// A program is replaced while a core dump is made.
    ReplacesInDump,
    /// A thread that ends does not wake the threads that wait for that.
    WakesNobody,
    /// A space is freed while processes have it.
    FreesOccupied,
    /// The maker of a child goes on before that has come, and Linux is not asked to tell its end.
    AbandonsChild,
}

std::thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether the transition functions have this mistake.
pub fn has(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// Hashes of keys, spread by a multiplication.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }
    fn write_u128(&mut self, n: u128) {
        let mixed = (n as u64) ^ ((n >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// Result of an exploration.
struct Found {
    states: usize,
    at_rest: usize,
    broken: Option<Broken>,
}

/// Explores every order of events, the shortest first, until a property does not hold.
fn explore(limits: Limits) -> Found {
    let first = World::new();
    let mut seen: HashSet<u128, BuildHasherDefault<Spread>> = HashSet::default();
    seen.insert(first.key());
    // How each state was reached, by the number of the state before.
    let mut ways: Vec<(u32, Option<Step>)> = std::vec![(0, None)];
    let mut layer = std::vec![(0u32, first)];
    let mut found = Found { states: 1, at_rest: 0, broken: None };
    while !layer.is_empty() && found.broken.is_none() {
        let mut next = Vec::new();
        for (number, world) in layer {
            let mut due = Vec::new();
            world.due(&mut |step| due.push(step));
            if due.is_empty() {
                found.at_rest += 1;
                if let Err(broken) = world.at_rest() {
                    found.broken = Some(told(&ways, number, None, &broken, &world));
                    return found;
                }
            }
            world.free_will(limits, &mut |step| due.push(step));
            for step in due {
                let mut after = world;
                let result = after.take(step, limits).and_then(|made| {
                    if made { after.invariants().map(|()| true) } else { Ok(false) }
                });
                match result {
                    Err(broken) => {
                        found.broken = Some(told(&ways, number, Some(step), &broken, &world));
                        return found;
                    }
                    Ok(false) => {}
                    Ok(true) => {
                        if seen.insert(after.key()) {
                            next.push((ways.len() as u32, after));
                            ways.push((number, Some(step)));
                        }
                    }
                }
            }
        }
        layer = next;
        found.states = seen.len();
    }
    found
}

fn told(
    ways: &[(u32, Option<Step>)],
    mut number: u32,
    last: Option<Step>,
    broken: &str,
    world: &World,
) -> String {
    let mut steps: Vec<Step> = last.into_iter().collect();
    while let (before, Some(step)) = ways[number as usize] {
        steps.push(step);
        number = before;
    }
    steps.reverse();
    format!("{broken}, after {steps:?} from {world:?}")
}

const THREADED: Limits = Limits { threads: 3, processes: 2, threaded: true };
const PROCESSES: Limits = Limits { threads: 3, processes: 3, threaded: false };

#[test]
fn two_processes_with_three_threads_live_and_end_in_every_order() {
    let found = explore(THREADED);
    println!("{} states, {} at rest", found.states, found.at_rest);
    assert_eq!(found.broken, None);
    assert!(found.states > 100_000, "the exploration has become small");
}

#[test]
fn three_processes_live_and_end_in_every_order() {
    let found = explore(PROCESSES);
    println!("{} states, {} at rest", found.states, found.at_rest);
    assert_eq!(found.broken, None);
    assert!(found.states > 10_000, "the exploration has become small");
}

#[test]
fn each_wrong_transition_breaks_a_property() {
    for mutant in [
        Mutant::GivesUpClaimed,
        Mutant::DesertsWhileLeaving,
        Mutant::TellsTwice,
        Mutant::HandsOverEarly,
        Mutant::ForgetsParent,
        Mutant::ReplacesInDump,
        Mutant::WakesNobody,
        Mutant::FreesOccupied,
        Mutant::AbandonsChild,
    ] {
        MUTANT.set(Some(mutant));
        let found = explore(THREADED);
        println!("{mutant:?}: {} states, {:?}", found.states, found.broken);
        assert!(found.broken.is_some(), "{mutant:?} is not found");
    }
    MUTANT.set(None);
}

/// A process that runs, and its thread.
fn running() -> (Process, ThreadState) {
    let (mut process, mut thread) = (Process::EXPECTED, ThreadState::New);
    process.step(&mut thread, Event::Prepare).expect("a first thread");
    process.step(&mut thread, Event::Begin).expect("a begin");
    (process, thread)
}

#[test]
fn a_thread_passes_by_a_process_that_runs_and_is_not_stopped_alone() {
    let (mut process, mut thread) = running();
    assert!(process.word().is_calm());
    process.step(&mut thread, Event::Pause(true)).expect("a stop");
    assert!(process.word().is_paused() && !process.word().is_calm());
    process.step(&mut thread, Event::Dump).expect("a stopped process is dumped");
    process.step(&mut thread, Event::Pause(false)).expect("a continue");
    assert!(!process.word().is_calm());
}

#[test]
fn a_waiter_for_the_end_is_woken_once_it_is_told() {
    let (mut process, mut thread) = running();
    process.step(&mut thread, Event::Await).expect("a waiter");
    process.step(&mut thread, Event::Kill).expect("an end");
    process.step(&mut thread, Event::Leave).expect("the thread ends");
    assert!(process.step(&mut thread, Event::Left).expect("and is gone").leaves);
    assert!(process.step(&mut thread, Event::Finish).expect("nothing is left").tells);
    assert!(process.step(&mut thread, Event::Told).expect("it is told").is_awaited);
    assert_eq!(process.state(), ProcessState::Gone);
    assert!(process.step(&mut thread, Event::Finish).is_err());
}
