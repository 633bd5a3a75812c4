//! Shortage of memory: whether a process ends for it, the thread that needs memory waits, or gets
//! an error, and in which order.
//!
//! 1. Memory that is only kept for later is given up.
//! 2. Linux is asked what it has let go of ([`crate::quarantine`]): no process ends for memory that
//!    is free.
//! 3. The last victim is waited for: its memory, and what Linux holds of it until it has closed its
//!    files.
//! 4. The process whose end helps most ends: the one that has most, of the user that has most among
//!    those with a process.
//! 5. The end of no process would help: an error.
//!
//! A user without a process, of whose memory Linux holds much, cannot be made to pay. Therefore
//! Linux may hold only so much of a user's ([`held_max`](crate::userlimits::held_max)) before that
//! one's programs get no page and no process more.

use crate::quarantine::Want;

/// How long a killed process may take to end before another one is chosen, ns. CPUs of a busy host
/// stand still for seconds, and that is not the others' fault.
pub const PATIENCE_NS: u64 = 10_000_000_000;
/// How long Linux may hold frames of a process after that has ended, ns: it closes the files of a
/// process behind its memory.
pub const CLOSING_NS: u64 = 1_000_000_000;

/// Next step of a thread that needs memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<V> {
    /// There is room, or has been made: the thread that needs memory tries again.
    TryAgain,
    /// Linux is to be asked about what it holds.
    Ask,
    /// An answer of Linux' or the end of a victim is to come.
    Wait,
    /// The victim is to be killed.
    Kill(V),
    /// An error: the end of no process would help.
    Refuse,
}

/// Memory that is short, of an instance or of a limit.
pub trait Shortage {
    /// The process that may have to end.
    type Victim;
    /// Whether there is room by now.
    fn has_room(&mut self) -> bool;
    /// Gives up memory that is only kept for later. Whether there was any.
    fn give_back(&mut self) -> bool;
    /// The next question about frames that may come back.
    fn want(&mut self) -> Want;
    /// Whether the last victim's memory is to be waited for.
    fn is_victim_awaited(&mut self) -> bool;
    /// The process whose end helps most.
    fn victim(&mut self) -> Option<Self::Victim>;
}

/// The next step of a thread that needs memory.
pub fn step<S: Shortage>(short: &mut S) -> Step<S::Victim> {
    if short.has_room() || short.give_back() {
        return Step::TryAgain;
    }
    match short.want() {
        Want::Ask => return Step::Ask,
        Want::Await => return Step::Wait,
        Want::Settled => {}
    }
    if short.is_victim_awaited() {
        return Step::Wait;
    }
    short.victim().map_or(Step::Refuse, Step::Kill)
}

/// Time until which the last victim is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Patience {
    until_ns: u64,
    is_gone: bool,
}

impl Patience {
    /// With a process that is killed now.
    #[must_use]
    pub const fn new(now_ns: u64) -> Self {
        Self { until_ns: now_ns.saturating_add(PATIENCE_NS), is_gone: false }
    }

    /// Patience without a victim.
    pub const OVER: Self = Self { until_ns: 0, is_gone: true };

    /// Whether to wait on. `lives`: its memory has not been freed; `has_frames`: Linux may hold
    /// frames of it.
    pub fn goes_on(&mut self, now_ns: u64, lives: bool, has_frames: bool) -> bool {
        if !lives && !self.is_gone {
            *self = Self { until_ns: now_ns.saturating_add(CLOSING_NS), is_gone: true };
        }
        (lives || has_frames) && now_ns < self.until_ns
    }
}

/// Whether a process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The process is not ending.
    Not,
    /// The end of the process is to be expected soon.
    Soon,
    /// The process may never end: Linux may hold it as long as its user likes.
    Late,
}

/// A process that may have to end.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The user's id.
    pub user: u32,
    /// Weights for comparisons: of the user, and of the process itself.
    pub weight: [u64; 2],
    /// How far the process is on its way out.
    pub ending: Ending,
}

/// The user that has most, of those with a process whose end is to be expected.
pub fn richest(all: impl Iterator<Item = Candidate>) -> Option<u32> {
    let payers = all.filter(|candidate| candidate.ending != Ending::Late);
    payers.map(|candidate| (candidate.weight[0], candidate.user)).max().map(|(_, user)| user)
}

/// The process that has most, or one of them that is on its way out already.
pub fn heaviest<T>(all: impl Iterator<Item = (Candidate, T)>) -> Option<T> {
    let mut best: Option<([u64; 2], T)> = None;
    for (candidate, process) in all {
        match candidate.ending {
            Ending::Soon => return Some(process),
            Ending::Late => {}
            Ending::Not if best.as_ref().is_some_and(|best| best.0 >= candidate.weight) => {}
            Ending::Not => best = Some((candidate.weight, process)),
        }
    }
    best.map(|(_, process)| process)
}

#[cfg(test)]
mod explore;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn candidates(all: &[(u32, u64, u64, Ending)]) -> Vec<(Candidate, usize)> {
        let of = |(place, &(user, of_user, own, ending))| {
            (Candidate { user, weight: [of_user, own], ending }, place)
        };
        all.iter().enumerate().map(of).collect()
    }

    #[test]
    fn the_largest_user_pays_unless_it_never_ends() {
        use Ending::{Late, Not, Soon};
        let choose = |all: &[_]| {
            let all = candidates(all);
            (richest(all.iter().map(|a| a.0)), heaviest(all.into_iter()))
        };
        assert_eq!(choose(&[(1, 9, 2, Not), (2, 5, 5, Not), (1, 9, 3, Not)]), (Some(1), Some(2)));
        assert_eq!(choose(&[(1, 9, 9, Late), (2, 5, 5, Not)]), (Some(2), Some(1)));
        assert_eq!(choose(&[(1, 9, 9, Not), (1, 9, 1, Soon)]), (Some(1), Some(1)));
        assert_eq!(choose(&[(1, 9, 9, Late)]), (None, None));
        assert_eq!(choose(&[]), (None, None));
    }

    #[test]
    fn a_victim_is_waited_for_until_linux_has_closed_its_files() {
        let mut patience = Patience::new(5);
        assert!(patience.goes_on(4 + PATIENCE_NS, true, false));
        assert!(!patience.goes_on(5 + PATIENCE_NS, true, true));
        let mut patience = Patience::new(5);
        assert!(patience.goes_on(100, false, true));
        assert!(patience.goes_on(99 + CLOSING_NS, false, true));
        assert!(!patience.goes_on(99 + CLOSING_NS, false, false));
        assert!(!patience.goes_on(100 + CLOSING_NS, false, true));
        assert!(!{ Patience::OVER }.goes_on(0, true, true));
    }
}
