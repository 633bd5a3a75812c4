//! Claims: descriptors whose calls a driver of the LWK executes, instead of Linux
//! (`docs/drivers.md`).
//!
//! Linux alone knows which file a descriptor is. So a claim is an answer of Linux', and holds while
//! nothing gives the descriptor another meaning. Calls that may do so are [changes](Claims::begin):
//! from their beginning the descriptors that they name are not claimed, and an answer to a question
//! that was asked before their end is void.

use crate::errno::{EBUSY, Result};
use crate::lists;
use alloc::vec::Vec;

#[cfg(test)]
mod explore;

/// Names of the LWK's drivers.
pub const DRIVERS: [&str; 2] = ["edu", "nvme"];

/// Device of Linux', as files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The number as `st_rdev` has it, with 8 bits of the minor number below the major one (Linux'
    /// `new_encode_dev`).
    pub number: u64,
    /// A block device.
    pub is_block: bool,
}

impl Device {
    /// A character device. `None`: there is none with such numbers.
    #[must_use]
    pub const fn character(major: u32, minor: u32) -> Option<Self> {
        if major >> 12 != 0 || minor >> 20 != 0 {
            return None;
        }
        let number = minor & 0xff | major << 8 | (minor & !0xff) << 12;
        Some(Self { number: number as u64, is_block: false })
    }
}

/// Descriptors from one to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptors {
    first: u32,
    last: u32,
}

impl Descriptors {
    /// All that there can be.
    pub const ALL: Self = Self { first: 0, last: u32::MAX };

    /// A single one.
    #[must_use]
    pub const fn one(descriptor: u32) -> Self {
        Self { first: descriptor, last: descriptor }
    }

    /// The descriptors from `first` up to `last`, which is one of them.
    #[must_use]
    pub const fn between(first: u32, last: u32) -> Self {
        Self { first, last }
    }

    const fn has(self, descriptor: u32) -> bool {
        self.first <= descriptor && descriptor <= self.last
    }
}

/// Most claims of a table: each read and write looks through them.
const CLAIMS_MAX: usize = 64;

/// Number of a question or a change under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// Question whose answer has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Question {
    ticket: Ticket,
    descriptor: u32,
    /// The descriptor may be another file since it was asked.
    is_void: bool,
}

/// Claims of the descriptors of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claims<C> {
    claimed: Vec<(u32, C)>,
    questions: Vec<Question>,
    changes: Vec<(Ticket, Descriptors)>,
    /// Changes under way for which there was no memory: of any descriptor.
    unnamed: u32,
    /// Others change descriptors unseen from now on.
    are_over: bool,
    next: u64,
}

impl<C> Default for Claims<C> {
    fn default() -> Self {
        Self {
            claimed: Vec::new(),
            questions: Vec::new(),
            changes: Vec::new(),
            unnamed: 0,
            are_over: false,
            next: 1,
        }
    }
}

impl<C> Claims<C> {
    /// The claim of a descriptor.
    #[must_use]
    pub fn get(&self, descriptor: u32) -> Option<&C> {
        self.claimed.iter().find(|(claimed, _)| *claimed == descriptor).map(|(_, claim)| claim)
    }

    /// Whether there is a claim.
    #[must_use]
    pub fn are_some(&self) -> bool {
        !self.claimed.is_empty()
    }

    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next - 1)
    }

    /// Begins to ask Linux what a descriptor is. The answer goes to [`answered`](Self::answered).
    ///
    /// # Errors
    /// `EBUSY`: it is claimed, or being changed, or no claim would hold, or there are enough.
    /// `ENOMEM`.
    pub fn ask(&mut self, descriptor: u32) -> Result<Ticket> {
        let changes = || self.changes.iter().any(|(_, which)| which.has(descriptor));
        let is_changing = (self.unnamed > 0 || changes()) && !wrong!(AsksBesideChanges);
        let is_over = self.are_over && !wrong!(AsksAfterTheEnd);
        let are_enough = self.claimed.len() + self.questions.len() >= CLAIMS_MAX;
        if is_over || is_changing || are_enough || self.get(descriptor).is_some() {
            return Err(EBUSY);
        }
        lists::more_room(&mut self.questions, 1)?;
        let question = Question { ticket: self.ticket(), descriptor, is_void: false };
        lists::push_within(&mut self.questions, question);
        Ok(question.ticket)
    }

    /// Enters the claim that is the answer to a question. If the answer is void, or there is no
    /// memory, the claim comes back.
    ///
    /// # Errors
    /// The claim.
    pub fn answered(&mut self, ticket: Ticket, claim: Option<C>) -> core::result::Result<(), C> {
        let asked = self.questions.iter().position(|question| question.ticket == ticket);
        let question = asked.map(|index| self.questions.swap_remove(index));
        let Some(claim) = claim else { return Ok(()) };
        match question {
            Some(Question { descriptor, is_void: false, .. })
                if self.get(descriptor).is_none()
                    && lists::more_room(&mut self.claimed, 1).is_ok() =>
            {
                lists::push_within(&mut self.claimed, (descriptor, claim));
                Ok(())
            }
            _ => Err(claim),
        }
    }

    /// Begins a call that may give descriptors another meaning: before Linux executes it, and
    /// before the claims that it ends are [taken](Self::take).
    pub fn begin(&mut self, which: Descriptors) -> Ticket {
        for question in &mut self.questions {
            question.is_void |= which.has(question.descriptor) && !wrong!(TrustsOldAnswers);
        }
        let ticket = self.ticket();
        match lists::more_room(&mut self.changes, 1) {
            Ok(()) => lists::push_within(&mut self.changes, (ticket, which)),
            Err(_) => self.unnamed += 1,
        }
        ticket
    }

    /// Takes out a claim of one of these descriptors, for whoever gives it up. Until there is none
    /// Linux is not to execute the call that changes them.
    pub fn take(&mut self, which: Descriptors) -> Option<C> {
        let index = self.claimed.iter().position(|(descriptor, _)| which.has(*descriptor))?;
        Some(self.claimed.swap_remove(index).1)
    }

    /// Ends a call that may have given descriptors another meaning: Linux has executed it.
    pub fn end(&mut self, ticket: Ticket) {
        match self.changes.iter().position(|(change, _)| *change == ticket) {
            Some(index) => drop(self.changes.swap_remove(index)),
            None => self.unnamed -= 1,
        }
    }

    /// No claim holds any more, since others change descriptors unseen: before the call by which
    /// that begins. The claims that there are are [taken](Self::take) next.
    pub fn are_over(&mut self) {
        self.are_over = true;
        for question in &mut self.questions {
            question.is_void |= !wrong!(EntersAfterTheEnd);
        }
    }
}
