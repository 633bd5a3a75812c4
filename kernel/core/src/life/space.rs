//! The transitions of a space.

#[cfg(test)]
use super::tests::{Mutant, has};
use super::{Refused, SpaceState as S, SpaceWord};

/// A space: its state, and how many processes have it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Space {
    state: S,
    /// Processes that have the space.
    processes: u32,
    /// Number of the `processes` that have not [left](SpaceEvent::Leave) the space.
    occupied: u32,
}

/// Event of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceEvent {
    /// A program starts in it, of Linux or as a child.
    Start,
    /// A process has the space from now on.
    Enter,
    /// A process has no thread in it any more. Said once of each.
    Leave,
    /// Linux has no mapping of the space any more.
    Close,
}

/// Effect of a step, which the thread that made the step carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceEffect {
    /// The step has no effect beside the new state.
    None,
    /// The process is one of its processes no more, and is finished.
    Remove,
    /// The whole space is freed, and all its processes are finished. Said once.
    Free,
}

impl Space {
    /// A space that no process has yet.
    pub const NEW: Space = Space { state: S::Open, processes: 0, occupied: 0 };

    /// The space's state.
    pub fn state(&self) -> S {
        self.state
    }

    /// The word that other threads read without a lock: the state and the number of processes.
    pub fn word(&self) -> SpaceWord {
        SpaceWord::of(self.processes << 8 | self.state as u32)
    }

    /// The transition function of spaces.
    ///
    /// # Errors
    /// There is no such step; nothing has changed.
    pub fn step(&mut self, event: SpaceEvent) -> Result<SpaceEffect, Refused> {
        match (event, self.state) {
            (SpaceEvent::Start, S::Open) => {
                self.state = S::Started;
                Ok(SpaceEffect::None)
            }
            (SpaceEvent::Start, S::Started) => Err(Refused::Busy),
            (SpaceEvent::Enter, S::Open | S::Started) => {
                self.processes += 1;
                self.occupied += 1;
                Ok(SpaceEffect::None)
            }
            (SpaceEvent::Start | SpaceEvent::Enter, S::Closed | S::Freed) => Err(Refused::MustEnd),
            (SpaceEvent::Leave, S::Open | S::Started) => {
                self.occupied -= 1;
                // The last one stays until Linux has closed the space, and is told of then.
                if self.processes == 1 {
                    return Ok(SpaceEffect::None);
                }
                self.processes -= 1;
                Ok(SpaceEffect::Remove)
            }
            (SpaceEvent::Leave, S::Closed) => {
                self.occupied -= 1;
                Ok(self.free())
            }
            (SpaceEvent::Close, S::Open | S::Started) => {
                self.state = S::Closed;
                Ok(self.free())
            }
            (SpaceEvent::Leave, S::Freed) | (SpaceEvent::Close, S::Closed | S::Freed) => {
                Err(Refused::Not)
            }
        }
    }

    fn free(&mut self) -> SpaceEffect {
        let is_empty = self.occupied == 0;
        #[cfg(test)]
        let is_empty = is_empty || has(Mutant::FreesOccupied);
        if !is_empty {
            return SpaceEffect::None;
        }
        self.state = S::Freed;
        SpaceEffect::Free
    }
}
