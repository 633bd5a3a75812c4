//! The transitions of a process and its threads.

#[cfg(test)]
use super::tests::{Mutant, has};
use super::{ProcessState as P, Refused, ThreadState as T, Word, must_end};

/// A process: its state, and how many threads are where. Each thread has its [`T`] itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Process {
    state: P,
    paused: bool,
    awaited: bool,
    /// The maker has gone on ([`Event::Entrust`]): Linux tells if the process ends before its proxy
    /// has come.
    entrusted: bool,
    /// Threads of the process.
    threads: u32,
    /// Number of the `threads` that are about to leave while others go on: [`T::Exits`],
    /// [`T::Replaced`].
    exiting: u32,
    /// Number of the `threads` that are [parked](T::Parked).
    parked: u32,
    /// Threads that [use their slots](T::Leaves) still.
    leaving: u32,
}

/// Event of a process, or of one of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The proxy of an expected process has come.
    Claim,
    /// The process that was claimed has not come to be.
    Fail,
    /// The maker gives up waiting for the process' proxy.
    GiveUp,
    /// The maker goes on before the proxy of an expected process has come. From now on the process'
    /// end on Linux is told ([`Event::Kill`]), and no maker gives it up.
    Entrust,
    /// The process begins to run with the thread, which it has already.
    Begin,
    /// Linux tells that the process' proxy is gone.
    Kill,
    /// The process goes on as another process.
    Move,
    /// Linux has stopped the process, or continued it.
    Pause(bool),
    /// A thread waits until the process is gone.
    Await,
    /// The process has left its space, or the space is freed.
    Finish,
    /// The end of the process has been told.
    Told,

    /// An expected process has the thread as its first one.
    Prepare,
    /// A thread in this state, of the same process, has made the thread.
    Enter(T),
    /// The thread makes a process, and will wait until that has begun.
    Create,
    /// The thread makes a process, and will wait until that has left the thread's memory.
    Vfork,
    /// The child of a vfork has left the thread's memory.
    Release,
    /// The thread waits no more.
    Resume,
    /// The thread is about to replace the program.
    Replace,
    /// The threads beside the one that replaces the program have ended.
    Alone,
    /// The first thread takes the thread's place, in whose state it goes on.
    HandOver,
    /// The thread has Linux make an execve.
    Depart,
    /// The thread is the first one of a program that left another space.
    Arrive,
    /// The thread is about to make a core dump.
    Dump,
    /// The thread parks for a core dump.
    Park,
    /// The thread calls exit(2).
    Exit,
    /// The last thread does not touch the memory any more.
    Quiet,
    /// The thread makes the call by which the process ends.
    LastCall,
    /// The thread ends.
    Leave,
    /// The thread does not use its slot any more.
    Left,
}

/// Effects of a step, which the thread that made the step carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// The process' threads are to look at what they wait for, or to come by the kernel.
    pub wakes: bool,
    /// Threads that have never run are dropped.
    pub drops: bool,
    /// The process has left its memory: a parent that waits for that (vfork) goes on.
    pub releases: bool,
    /// The process leaves its space. Said once.
    pub leaves: bool,
    /// The end of the process is to be told. Said once.
    pub tells: bool,
    /// A thread waits until the process is gone, and is to be woken.
    pub is_awaited: bool,
    /// The thread is the last one: the process ends with it.
    pub is_last: bool,
    /// The worker of the thread ends with it.
    pub dismisses_worker: bool,
}

const NOTHING: Effects = Effects {
    wakes: false,
    drops: false,
    releases: false,
    leaves: false,
    tells: false,
    is_awaited: false,
    is_last: false,
    dismisses_worker: false,
};
const WAKES: Effects = Effects { wakes: true, ..NOTHING };

impl Process {
    /// A process whose proxy is to come.
    pub const EXPECTED: Process = Process {
        state: P::Expected,
        paused: false,
        awaited: false,
        entrusted: false,
        threads: 0,
        exiting: 0,
        parked: 0,
        leaving: 0,
    };

    /// A process whose proxy has come.
    pub const CLAIMED: Process = Process { state: P::Claimed, ..Process::EXPECTED };

    /// The process' state.
    pub fn state(&self) -> P {
        self.state
    }

    /// The word that other threads read without a lock: state and pause.
    pub fn word(&self) -> Word {
        Word::new(self.state, self.paused)
    }

    /// Whether the thread that replaces the program is the only one.
    pub fn is_alone(&self) -> bool {
        self.threads == 1
    }

    /// Whether a thread has called exit(2), or is replaced, and uses its slot still.
    pub fn is_being_left(&self) -> bool {
        self.exiting != 0 || self.leaving != 0
    }

    /// Whether its proxy is to come, and its end before that is Linux' to tell.
    pub fn is_entrusted(&self) -> bool {
        self.entrusted && self.state == P::Expected
    }

    /// How many threads it has, and how many leave it.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.threads, self.leaving)
    }

    /// How many threads are parked for a core dump.
    pub fn parked(&self) -> u32 {
        self.parked
    }

    /// Whether all threads but the one that makes a core dump are parked.
    pub fn is_parked(&self) -> bool {
        self.parked + 1 >= self.threads
    }

    /// The one transition function of processes and threads: `event` happens to the process, or
    /// to its thread `t`. An event that is of no thread ignores that.
    ///
    /// # Errors
    /// There is no such step; nothing has changed.
    pub fn step(&mut self, t: &mut T, event: Event) -> Result<Effects, Refused> {
        match event {
            Event::Claim => self.begin_from(&[P::Expected], P::Claimed),
            Event::Fail if self.state == P::Claimed => Ok(self.cancel()),
            Event::GiveUp if self.state == P::Expected && !self.entrusted => Ok(self.cancel()),
            #[cfg(test)]
            Event::GiveUp if self.state == P::Claimed && has(Mutant::GivesUpClaimed) => {
                Ok(self.cancel())
            }
            Event::Begin if *t == T::New && self.threads == 1 => {
                let begun = self.begin_from(&[P::Expected, P::Claimed], P::Running)?;
                *t = T::Runs;
                Ok(begun)
            }
            Event::Entrust if self.state == P::Expected => {
                self.entrusted = true;
                #[cfg(test)]
                if has(Mutant::AbandonsChild) {
                    self.entrusted = false;
                }
                Ok(NOTHING)
            }
            Event::Fail | Event::GiveUp | Event::Entrust | Event::Begin => Err(Refused::Not),
            Event::Kill => Ok(self.kill()),
            Event::Move => self.leave_for_another(),
            Event::Pause(paused) => {
                self.paused = paused;
                Ok(WAKES)
            }
            Event::Await => {
                self.awaited = true;
                Ok(NOTHING)
            }
            Event::Finish => self.finish(),
            Event::Told if self.state == P::Telling => {
                self.state = P::Gone;
                Ok(Effects { is_awaited: self.awaited, ..NOTHING })
            }
            Event::Told => Err(Refused::Not),
            Event::Prepare | Event::Enter(_) => self.enter(t, event),
            Event::Leave => self.leave(t),
            Event::Left => self.left(t),
            Event::Release => {
                // One that waits no more does not mind: it has to end, or is parked.
                let waits = *t == T::Vforks;
                if waits {
                    *t = T::Runs;
                }
                Ok(Effects { wakes: waits, ..NOTHING })
            }
            Event::Resume => self.resume(t),
            Event::LastCall => {
                if !t.is_alive() {
                    return Err(Refused::Not);
                }
                if *t != T::Parked {
                    self.move_thread(t, T::Last);
                }
                Ok(NOTHING)
            }
            Event::Dump | Event::Park => self.dump(t, event),
            Event::Replace | Event::Alone | Event::HandOver => self.replace(t, event),
            Event::Create => self.wait(t, T::Creates),
            Event::Vfork => self.wait(t, T::Vforks),
            Event::Depart => self.wait(t, T::Departs),
            Event::Arrive => self.wait(t, T::Arrives),
            Event::Exit | Event::Quiet => self.exit(t, event),
        }
    }

    fn begin_from(&mut self, from: &[P], to: P) -> Result<Effects, Refused> {
        if !from.contains(&self.state) {
            return Err(if self.state.is_killed() { Refused::MustEnd } else { Refused::Busy });
        }
        self.state = to;
        Ok(NOTHING)
    }

    /// Ends a process that has not begun and never will.
    fn cancel(&mut self) -> Effects {
        *self = Process { state: P::Ended, threads: 0, ..*self };
        Effects { drops: true, leaves: true, ..NOTHING }
    }

    fn kill(&mut self) -> Effects {
        match self.state {
            P::Expected | P::Claimed => self.cancel(),
            P::Running | P::Replacing | P::Dumping | P::Ending => {
                self.state = P::Killed;
                Effects { wakes: true, ..self.desert() }
            }
            P::Killed | P::Moved => WAKES,
            P::Ended | P::Vacated | P::Telling | P::Gone => NOTHING,
        }
    }

    /// Moves a process without threads on: from [`P::Killed`] to [`P::Ended`], from [`P::Moved`] to
    /// [`P::Vacated`].
    fn desert(&mut self) -> Effects {
        let is_empty = self.threads == 0 && self.leaving == 0;
        #[cfg(test)]
        let is_empty = is_empty || has(Mutant::DesertsWhileLeaving) && self.threads == 0;
        match self.state {
            P::Killed if is_empty => self.state = P::Ended,
            P::Moved if is_empty => self.state = P::Vacated,
            _ => return NOTHING,
        }
        Effects { leaves: true, ..NOTHING }
    }

    fn leave_for_another(&mut self) -> Result<Effects, Refused> {
        match self.state {
            P::Running | P::Replacing | P::Dumping | P::Ending | P::Killed => {
                self.state = P::Moved;
                #[cfg(test)]
                if has(Mutant::TellsTwice) {
                    self.state = P::Killed;
                }
                Ok(Effects { wakes: true, ..self.desert() })
            }
            P::Expected | P::Claimed => Err(Refused::Not),
            P::Moved | P::Ended | P::Vacated | P::Telling | P::Gone => Err(Refused::MustEnd),
        }
    }

    fn finish(&mut self) -> Result<Effects, Refused> {
        let tells = match self.state {
            P::Ended => true,
            P::Vacated => false,
            _ => return Err(Refused::Not),
        };
        self.state = if tells { P::Telling } else { P::Gone };
        let releases = true;
        #[cfg(test)]
        let releases = releases && !has(Mutant::ForgetsParent);
        Ok(Effects { tells, releases, is_awaited: !tells && self.awaited, ..NOTHING })
    }

    fn must_end(&self, t: T) -> bool {
        must_end(self.word(), t)
    }

    /// A thread goes from one state to another, in which it is counted.
    fn move_thread(&mut self, t: &mut T, to: T) {
        match *t {
            T::Exits | T::Replaced => self.exiting -= 1,
            T::Parked => self.parked -= 1,
            _ => {}
        }
        match to {
            T::Exits | T::Replaced => self.exiting += 1,
            T::Parked => self.parked += 1,
            _ => {}
        }
        *t = to;
    }

    fn enter(&mut self, t: &mut T, event: Event) -> Result<Effects, Refused> {
        let creator = match event {
            Event::Enter(creator) => Some(creator),
            _ => None,
        };
        if *t != T::New {
            return Err(Refused::Not);
        }
        match creator {
            None if !self.state.is_awaited() => Err(Refused::MustEnd),
            None if self.threads != 0 => Err(Refused::Busy),
            None => {
                self.threads = 1;
                Ok(NOTHING)
            }
            Some(creator) if self.must_end(creator) || !creator.is_alive() => Err(Refused::MustEnd),
            Some(_) => {
                self.threads += 1;
                *t = T::Runs;
                Ok(NOTHING)
            }
        }
    }

    /// The thread will wait for what others do.
    fn wait(&mut self, t: &mut T, to: T) -> Result<Effects, Refused> {
        if self.must_end(*t) {
            return Err(Refused::MustEnd);
        }
        if *t != T::Runs {
            return Err(Refused::Not);
        }
        self.move_thread(t, to);
        Ok(NOTHING)
    }

    /// The parent of a vfork goes on while the child has its memory only if it is to end or to
    /// park: neither lets it touch that.
    fn resume(&mut self, t: &mut T) -> Result<Effects, Refused> {
        match *t {
            T::Vforks if !(self.must_end(*t) || self.state == P::Dumping) => Err(Refused::Not),
            T::Creates | T::Vforks | T::Departs | T::Arrives => {
                self.move_thread(t, T::Runs);
                Ok(NOTHING)
            }
            _ => Ok(NOTHING),
        }
    }

    fn dump(&mut self, t: &mut T, event: Event) -> Result<Effects, Refused> {
        if self.must_end(*t) {
            return Err(Refused::MustEnd); // by another thread's execve and nothing else
        }
        if !t.is_alive() {
            return Err(Refused::Not);
        }
        match (event, self.state) {
            (Event::Dump, P::Running) => {
                self.state = P::Dumping;
                self.move_thread(t, T::Dumps);
                Ok(WAKES)
            }
            (Event::Dump, P::Dumping) => Err(Refused::Busy),
            (Event::Park, P::Dumping) if !matches!(*t, T::Dumps | T::Parked) => {
                self.move_thread(t, T::Parked);
                Ok(WAKES)
            }
            _ => Err(Refused::Not),
        }
    }

    fn replace(&mut self, t: &mut T, event: Event) -> Result<Effects, Refused> {
        if self.must_end(*t) {
            return Err(Refused::MustEnd);
        }
        match (event, self.state, *t) {
            (Event::Replace, P::Running, T::Runs) => {
                self.state = P::Replacing;
                self.move_thread(t, T::Replaces);
                Ok(WAKES)
            }
            (Event::Replace, P::Dumping, T::Runs) => {
                #[cfg(test)]
                if has(Mutant::ReplacesInDump) {
                    self.state = P::Replacing;
                    self.move_thread(t, T::Replaces);
                    return Ok(WAKES);
                }
                Err(Refused::Busy)
            }
            (Event::Alone, P::Replacing, T::Replaces) if self.is_alone() => {
                self.state = P::Running;
                self.move_thread(t, T::Runs);
                Ok(NOTHING)
            }
            (Event::HandOver, P::Running | P::Dumping, T::Runs) => {
                self.move_thread(t, T::Replaced);
                Ok(NOTHING)
            }
            _ => Err(Refused::Not),
        }
    }

    fn exit(&mut self, t: &mut T, event: Event) -> Result<Effects, Refused> {
        if event == Event::Quiet {
            return match (self.state, *t) {
                (P::Running, T::Last) => {
                    self.state = P::Ending;
                    Ok(Effects { releases: true, ..NOTHING })
                }
                _ => Err(Refused::Not),
            };
        }
        if !t.is_alive() {
            return Err(Refused::Not);
        }
        self.move_thread(t, T::Exits);
        let is_last = self.exiting == self.threads;
        if is_last {
            self.move_thread(t, T::Last);
        }
        Ok(Effects { is_last, ..NOTHING })
    }

    fn leave(&mut self, t: &mut T) -> Result<Effects, Refused> {
        if !t.is_alive() {
            return Err(Refused::Not);
        }
        let dismisses_worker = *t == T::Replaced || self.state == P::Replacing;
        let awaited = matches!(self.state, P::Replacing | P::Dumping);
        #[cfg(test)]
        let awaited = awaited && !has(Mutant::WakesNobody);
        self.move_thread(t, T::Leaves);
        self.threads -= 1;
        self.leaving += 1;
        Ok(Effects { wakes: awaited, dismisses_worker, ..NOTHING })
    }

    fn left(&mut self, t: &mut T) -> Result<Effects, Refused> {
        if *t != T::Leaves {
            return Err(Refused::Not);
        }
        *t = T::Gone;
        self.leaving -= 1;
        Ok(self.desert())
    }
}
