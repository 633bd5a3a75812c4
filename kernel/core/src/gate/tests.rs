//! The order of reasons; and every order of what a thread, its tracer and its debugger do, with
//! mistakes that have to be found.

use super::{Parking, Pass, Reason, Stop, TRAP_FLAG, Who};
use hanare_abi::observe::{OBSERVED_STEP, OBSERVED_STOPPED};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::println;
use std::vec::Vec;

/// A wrong transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Letting go of a thread for one side lets go of it for the other one, too.
    LetsGoOfBoth,
    /// Registers are dropped that the debugger, which holds all threads, relies on.
    ForgetsWhatIsReliedOn,
    /// The trap flag stays after a trap.
    KeepsTrapping,
    /// Where both step, only one hears of it.
    TellsDebuggerAlone,
    /// Threads are resumed before all of them stand.
    ResumesEarly,
    /// A thread that comes out of the kernel does not take back what it has left there.
    KeepsOldRegisters,
    /// A program begins with what was set of the registers of the one before.
    BeginsWithOldRegisters,
}

std::thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether the transition functions have this mistake.
pub fn has(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

#[test]
fn the_first_reason_that_stands_comes_first_and_each_one_comes() {
    for standing in 0u16..1 << Reason::ALL.len() {
        let mut left = standing;
        let mut pass = Pass::default();
        let mut came = Vec::new();
        // Each reason ends when it is seen to, but for those that remain.
        while let Some(reason) = pass.next(|r| left >> r as u16 & 1 != 0) {
            came.push(reason);
            assert!(came.len() < 100, "the thread never enters user mode: {came:?}");
            if !reason.remains() {
                left &= !(1 << reason as u16);
            }
        }
        let once: Vec<_> =
            Reason::ALL.into_iter().filter(|&r| standing >> r as u16 & 1 != 0).collect();
        assert_eq!(came.first(), once.first());
        assert!(once.iter().all(|r| came.contains(r)), "{standing:#b}: {came:?}");
        let passing: Vec<_> = came.iter().filter(|r| !r.remains()).collect();
        assert!(passing.is_sorted_by_key(|&&r| r as u16));
        // What came up again after a stop is seen to before the next one.
        for pair in came.windows(2) {
            let remains = |r: Reason| r.remains() && standing >> r as u16 & 1 != 0;
            let skipped = Reason::ALL
                .into_iter()
                .find(|&r| remains(r) && (r as u16) < pair[1] as u16 && !pair[0].remains());
            assert_eq!(skipped, None, "{came:?}");
        }
    }
}

#[test]
fn the_order_is_that_of_the_numbers() {
    assert!(Reason::ALL.iter().enumerate().all(|(i, &r)| r as usize == i));
}

/// Where the thread is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    User,
    /// In a call or a fault: the thread waits.
    Kernel,
    Gate,
    Parked,
}

/// A resume or the end of the debugger is three steps, between which the thread may do something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Going {
    No,
    /// The first step is over: how the thread goes on is set. Then the process is let go. Then its
    /// registers are dropped.
    Said,
    LetGo,
}

/// State of a single step that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Owed {
    #[default]
    Nothing,
    /// The thread has to execute an instruction.
    Instruction,
    /// The side that stepped has to be told.
    Word,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    at: At,
    parking: Parking,
    stop: Stop,
    all: bool,
    going: Going,
    /// The program has set the trap flag, of which it is to hear after each instruction.
    own_flag: bool,
    flags: u64,
    /// Whether a call, not a fault, has brought the thread into the kernel.
    calls: bool,
    /// A register: what the thread has, what was left of it, what it has to have.
    value: u8,
    left: Option<u8>,
    wanted: u8,
    /// A step of the tracer, of the debugger.
    owed: [Owed; 2],
    /// The tracer has held it, and has seen its registers.
    relies: bool,
    /// A tracer's stop begins when it has heard of the step.
    tells_tracer: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    // The thread.
    Executes,
    Calls,
    Interrupted,
    Faults,
    Returns,
    /// execve: the call ends with the registers of another program.
    Begins,
    LeavesInKernel,
    Gate,
    GoesOn,
    // The tracer.
    Holds,
    Looks,
    Sets,
    LetsGo {
        steps: bool,
    },
    // The debugger.
    Stops,
    Completes,
    DebuggerSets,
    Resumes {
        stays: bool,
        steps: bool,
    },
    Closes,
    Proceeds,
}

const STEPS: [Step; 23] = [
    Step::Executes,
    Step::Calls,
    Step::Interrupted,
    Step::Faults,
    Step::Returns,
    Step::Begins,
    Step::LeavesInKernel,
    Step::Gate,
    Step::GoesOn,
    Step::Holds,
    Step::Looks,
    Step::Sets,
    Step::LetsGo { steps: false },
    Step::LetsGo { steps: true },
    Step::Stops,
    Step::Completes,
    Step::DebuggerSets,
    Step::Resumes { stays: false, steps: false },
    Step::Resumes { stays: false, steps: true },
    Step::Resumes { stays: true, steps: false },
    Step::Resumes { stays: true, steps: true },
    Step::Closes,
    Step::Proceeds,
];

/// The register of a program that begins: no tracer sets it so.
const PROGRAM: u8 = 3;

/// Description of a property that does not hold.
type Broken = &'static str;

fn ensure(holds: bool, what: Broken) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(what) }
}

impl World {
    fn new(own_flag: bool) -> World {
        World {
            at: At::User,
            parking: Parking::default(),
            stop: Stop::default(),
            all: false,
            going: Going::No,
            own_flag,
            flags: if own_flag { TRAP_FLAG } else { 0 },
            calls: false,
            value: 0,
            left: None,
            wanted: 0,
            owed: [Owed::Nothing; 2],
            relies: false,
            tells_tracer: false,
        }
    }

    /// As the kernel does under the lock of the registers.
    fn leave(&mut self, in_kernel: bool) {
        if !in_kernel {
            self.parking.disarm(&mut self.flags);
        }
        if self.parking.contains(Parking::SET) {
            self.value = self.left.expect("registers that were set");
        }
        self.left = Some(self.value);
        self.parking.leave(in_kernel);
    }

    fn take(&mut self) {
        self.parking.disarm(&mut self.flags);
        let left = self.left.take();
        if self.parking.take() {
            self.value = left.expect("registers that were set");
        }
    }

    fn settle(&mut self) {
        if self.parking.settle(self.all) {
            self.left = None;
        }
    }

    fn set(&mut self, who: Who) {
        if self.parking.may_set(who) {
            self.parking.insert(Parking::SET);
            self.wanted = (self.wanted + 1) % 3;
            self.left = Some(self.wanted);
        }
    }

    fn asked(&mut self, who: Who, steps: bool) {
        self.owed[who as usize] = if steps { Owed::Instruction } else { Owed::Nothing };
    }

    /// The thread has done what counts as an instruction.
    fn executed(&mut self) -> Result<(), Broken> {
        for owed in &mut self.owed {
            ensure(*owed != Owed::Word, "a second instruction of one step")?;
            if *owed == Owed::Instruction {
                *owed = Owed::Word;
            }
        }
        Ok(())
    }

    /// A side hears that a step is over.
    fn told(&mut self, who: Who) -> Result<(), Broken> {
        ensure(self.owed[who as usize] == Owed::Word, "a step without an instruction")?;
        self.asked(who, false);
        Ok(())
    }

    /// The thread tells its debugger of a step, unless the threads stop for another reason.
    fn tell_debugger(&mut self) -> Result<(), Broken> {
        self.told(Who::Debugger)?;
        self.parking.disarm(&mut self.flags);
        if self.stop.begin(OBSERVED_STEP, 1, 0, 0) {
            self.all = true;
            self.parking.step(Who::Debugger, false);
        }
        Ok(())
    }

    fn steps_for_debugger(&self) -> bool {
        self.parking.steps(Who::Debugger)
    }

    /// The step, if it can be made.
    fn make(mut self, step: Step) -> Result<Option<World>, Broken> {
        let w = &mut self;
        let traced = Who::Tracer;
        match step {
            // The resuming side holds the lock that a thread needs to stop the others.
            Step::Executes
                if w.at == At::User && w.going != Going::No && w.steps_for_debugger() =>
            {
                return Ok(None);
            }
            Step::Gate if w.at == At::Gate && w.going != Going::No && w.steps_for_debugger() => {
                return Ok(None);
            }
            Step::Executes if w.at == At::User => {
                ensure(w.value == w.wanted, "registers that were set are lost")?;
                w.executed()?;
                if w.flags & TRAP_FLAG != 0 {
                    let trap = w.parking.trapped(&mut w.flags);
                    ensure(trap.program == w.own_flag, "the program's trap flag")?;
                    w.at = At::Gate;
                    if trap.debugger {
                        w.tell_debugger()?;
                    }
                    if trap.tracer || trap.program && w.owed[0] == Owed::Word {
                        w.told(traced)?; // as a signal
                        w.tells_tracer = true;
                    }
                    if trap.program && w.owed[1] == Owed::Word {
                        w.told(Who::Debugger)?; // as a signal
                        w.parking.step(Who::Debugger, false);
                    }
                }
            }
            Step::Calls if w.at == At::User => {
                w.parking.disarm(&mut w.flags);
                (w.at, w.calls) = (At::Kernel, true);
            }
            Step::Faults if w.at == At::User => (w.at, w.calls) = (At::Kernel, false),
            Step::Interrupted if w.at == At::User => w.at = At::Gate,
            Step::LeavesInKernel if w.at == At::Kernel && w.parking.is_awaited(w.all) => {
                w.leave(true);
            }
            Step::Returns if w.at == At::Kernel => {
                if w.calls {
                    w.executed()?;
                    w.parking.stepped();
                }
                w.at = At::Gate;
            }
            Step::Begins if w.at == At::Kernel && w.calls => {
                // Registers that no side has set, so that old ones are known by their value.
                (w.value, w.wanted) = (PROGRAM, PROGRAM);
                if w.parking.begin() {
                    w.left = Some(w.value);
                    w.settle();
                }
            }
            Step::Gate if w.at == At::Gate && w.tells_tracer => {
                // A stop of the tracer's: it holds the thread when it hears of it.
                w.leave(false);
                w.parking.hold(Who::Tracer, true);
                (w.tells_tracer, w.relies, w.at) = (false, true, At::Parked);
            }
            Step::Gate if w.at == At::Gate => {
                let (parking, all) = (w.parking, w.all);
                match Pass::default().next(|reason| parking.stands(reason, all)) {
                    Some(Reason::DebuggerStep) => {
                        w.parking.take_step(Who::Debugger);
                        w.tell_debugger()?;
                    }
                    Some(Reason::Hold) => {
                        w.leave(false);
                        w.at = At::Parked;
                    }
                    Some(Reason::Registers) => w.take(),
                    Some(_) => {
                        w.parking.take_step(Who::Tracer);
                        w.told(traced)?;
                        w.tells_tracer = true;
                    }
                    None => {
                        w.parking.arm(&mut w.flags);
                        w.at = At::User;
                    }
                }
            }
            Step::GoesOn if w.at == At::Parked && !w.parking.is_held(w.all) => {
                w.take();
                w.at = At::Gate;
            }
            Step::Holds if !w.parking.contains(Parking::HELD) => w.parking.hold(Who::Tracer, true),
            Step::Looks
                if w.parking.contains(Parking::HELD) && w.parking.contains(Parking::REGISTERS) =>
            {
                w.relies = true;
            }
            Step::Sets if w.relies => w.set(Who::Tracer),
            Step::LetsGo { steps } if w.relies => {
                w.relies = false;
                w.parking.step(Who::Tracer, steps);
                w.asked(traced, steps);
                w.parking.hold(Who::Tracer, false);
                w.settle();
            }
            Step::Stops if w.going == Going::No => {
                if !w.stop.begin(OBSERVED_STOPPED, 0, 0, 0) {
                    return Ok(None);
                }
                w.all = true;
            }
            Step::Completes
                if w.going == Going::No
                    && w.stop.is_pending()
                    && w.parking.contains(Parking::REGISTERS) =>
            {
                w.stop.complete(1);
            }
            Step::DebuggerSets if w.stop.is_complete() => w.set(Who::Debugger),
            Step::Resumes { stays, steps } if w.going == Going::No => {
                if !w.stop.resume() {
                    return Ok(None);
                }
                w.parking.hold(Who::Debugger, stays);
                w.parking.step(Who::Debugger, steps);
                w.asked(Who::Debugger, steps);
                w.going = Going::Said;
            }
            Step::Closes if w.going == Going::No => {
                w.stop.close();
                w.parking.hold(Who::Debugger, false);
                w.parking.step(Who::Debugger, false);
                w.asked(Who::Debugger, false);
                w.going = Going::Said;
            }
            Step::Proceeds if w.going == Going::Said => {
                w.all = false;
                w.going = Going::LetGo;
            }
            Step::Proceeds if w.going == Going::LetGo => {
                w.settle();
                w.going = Going::No;
            }
            _ => return Ok(None),
        }
        Ok(Some(self))
    }

    /// Checks the properties that hold in every state.
    fn check(&self) -> Result<(), Broken> {
        let p = self.parking;
        ensure(
            p.contains(Parking::REGISTERS) == self.left.is_some(),
            "registers are there, or are not",
        )?;
        let relied_on = self.relies || self.stop.is_complete();
        ensure(
            !relied_on || p.contains(Parking::REGISTERS) && self.at != At::User,
            "a thread whose registers are relied on goes on",
        )?;
        ensure(!relied_on || p.is_held(self.all), "who relies on a thread does not hold it")?;
        if self.at == At::User {
            ensure(!p.contains(Parking::REGISTERS), "registers are left of a thread that runs")?;
            ensure(self.owed.iter().all(|o| *o != Owed::Word), "a step is not told")?;
            let (flag, own) = (self.flags & TRAP_FLAG != 0, self.own_flag);
            ensure(flag || !own, "the program's trap flag is gone")?;
        } else {
            // The stepping side's flag is in no registers that a side sees.
            ensure(
                !p.contains(Parking::REGISTERS)
                    || p.contains(Parking::IN_KERNEL)
                    || (self.flags & TRAP_FLAG != 0) == self.own_flag,
                "a trap flag is seen",
            )?;
        }
        // No side waits without a reason.
        if self.at == At::Kernel && self.going == Going::No && !p.is_held(self.all) {
            ensure(!p.contains(Parking::REGISTERS) || p.gives_up(), "a call is not given up")?;
        }
        Ok(())
    }
}

struct Found {
    states: usize,
    broken: Option<(Broken, Vec<Step>)>,
}

/// Every order of steps, the shortest first, until something does not hold.
fn explore() -> Found {
    let mut ways: HashMap<World, Option<(World, Step)>> = HashMap::new();
    let mut next = VecDeque::new();
    for first in [World::new(false), World::new(true)] {
        ways.insert(first, None);
        next.push_back(first);
    }
    let way = |ways: &HashMap<World, Option<(World, Step)>>, to: World| {
        let mut steps = Vec::new();
        let mut at = to;
        while let Some((before, step)) = ways[&at] {
            steps.insert(0, step);
            at = before;
        }
        steps
    };
    while let Some(world) = next.pop_front() {
        for step in STEPS {
            let made = world
                .make(step)
                .and_then(|made| made.map_or(Ok(None), |made| made.check().map(|()| Some(made))));
            match made {
                Err(broken) => {
                    let mut steps = way(&ways, world);
                    steps.push(step);
                    return Found { states: ways.len(), broken: Some((broken, steps)) };
                }
                Ok(Some(made)) if !ways.contains_key(&made) => {
                    ways.insert(made, Some((world, step)));
                    next.push_back(made);
                }
                Ok(_) => {}
            }
        }
    }
    Found { states: ways.len(), broken: None }
}

#[test]
fn a_tracer_and_a_debugger_stop_and_step_a_thread_in_every_order() {
    let found = explore();
    println!("{} states", found.states);
    assert_eq!(found.broken, None);
    assert!(found.states > 1_000, "the exploration has become small");
}

#[test]
fn each_wrong_transition_breaks_a_property() {
    for mutant in [
        Mutant::LetsGoOfBoth,
        Mutant::ForgetsWhatIsReliedOn,
        Mutant::KeepsTrapping,
        Mutant::TellsDebuggerAlone,
        Mutant::ResumesEarly,
        Mutant::KeepsOldRegisters,
        Mutant::BeginsWithOldRegisters,
    ] {
        MUTANT.set(Some(mutant));
        let found = explore();
        println!("{mutant:?}: {} states, {:?}", found.states, found.broken);
        assert!(found.broken.is_some(), "{mutant:?} is not found");
    }
    MUTANT.set(None);
}

#[test]
fn a_debugger_sets_no_registers_of_a_thread_that_waits_in_the_kernel() {
    let mut parking = Parking::default();
    assert!(!parking.may_set(Who::Tracer));
    parking.leave(true);
    assert!(!parking.may_set(Who::Debugger) && parking.may_set(Who::Tracer));
    parking.leave(false);
    assert!(parking.may_set(Who::Debugger));
}

#[test]
fn a_thread_that_loads_its_program_has_no_registers_for_a_debugger() {
    let mut parking = Parking::default();
    parking.insert(Parking::LOADS);
    assert!(!parking.is_awaited(true) && parking.is_held(true));
    parking.remove(Parking::LOADS);
    assert!(parking.is_awaited(true));
}

#[test]
fn a_debugger_is_told_why_the_threads_stand() {
    use hanare_abi::observe::{OBSERVED_BREAK, OBSERVED_ENDED, OBSERVED_STOPPING};
    let mut stop = Stop::default();
    assert_eq!(stop.status(), [1, 0, 0, 0]);
    assert!(stop.begin(OBSERVED_BREAK, 7, 5, 0x1000));
    assert!(!stop.begin(OBSERVED_STOPPED, 0, 0, 0), "another reason");
    assert!(!stop.resume(), "not all of them stand");
    assert_eq!(stop.status(), [1, OBSERVED_STOPPING | 5 << 8 | 7 << 32, 0, 0x1000]);
    stop.complete(1);
    assert_eq!(stop.status(), [1, OBSERVED_BREAK | 5 << 8 | 7 << 32, 0, 0x1000]);
    assert!(stop.resume() && stop.runs());
    stop.end(9);
    assert_eq!(stop.status(), [0, OBSERVED_ENDED, 9, 0]);
    stop.close();
    assert!(!stop.begin(OBSERVED_BREAK, 7, 5, 0x1000), "the debugger goes");
}
