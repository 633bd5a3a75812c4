//! Records: what has become of a submission. One for each credit, used again and again.
//!
//! A record's word says for which generation of its credit it stands: while a submission waits in
//! the ring, its record is still that of the one before. So the poster does not write the record,
//! and one that has been picked up is free as it is.
//!
//! A waiter that sleeps has written the number of its *bell* into the word. The thread that takes
//! it out by an exchange rings that bell once, and the waiter does not go before it was rung, or
//! has taken the number out itself.

use super::{BEGINS_ANYWAY, LEAVES_TOKEN};
use crate::sync::{AtomicU64, Ordering, REAL, exchanges, publish};

/// A ticket: generation, and index of the credit. As a word it is what the record of a submission
/// that is done says. The index stands where it is the offset of that record, whose size is 16
/// bytes, so that to find it takes one mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ticket(u64);

const TAG: u64 = 0xf;
const DONE: u64 = 1;
const QUEUED: u64 = 2;
const RUNNING: u64 = 3;
const CANCELLED: u64 = 4;
const ABANDONED: u64 = 5;
const ASKED: u64 = 6;
const INDEX_SHIFT: u32 = 4;
const BELL_SHIFT: u32 = 20;
const BELL: u64 = 0xff << BELL_SHIFT;
const GENERATION: u64 = 1 << 28;
const SIGN: u64 = 1 << 63;

impl Ticket {
    /// The ticket in a record that was never used.
    #[must_use]
    #[inline(always)]
    pub const fn zero(index: u16) -> Self {
        Self(DONE | (index as u64) << INDEX_SHIFT)
    }

    /// The ticket of which this is the word; `None`: it is none.
    #[must_use]
    #[inline(always)]
    pub const fn from_word(word: u64) -> Option<Self> {
        if word & (SIGN | BELL | TAG) == DONE { Some(Self(word)) } else { None }
    }

    /// The ticket of a word that a credit holds, unchecked.
    #[must_use]
    #[inline(always)]
    pub const fn from_live(word: u64) -> Self {
        Self(word)
    }

    /// The ticket's word: above zero as a signed number.
    #[must_use]
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The ticket of the next submission with this credit.
    #[must_use]
    #[inline(always)]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(GENERATION) & !SIGN)
    }

    /// The next ticket; `None`: generations begin anew.
    #[must_use]
    #[inline(always)]
    pub const fn next_unless_last(self) -> Option<Self> {
        let next = self.0.wrapping_add(GENERATION);
        if next & SIGN == 0 { Some(Self(next)) } else { None }
    }

    const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(GENERATION) & !SIGN)
    }

    /// The credit's index.
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> u16 {
        (self.0 >> INDEX_SHIFT) as u16
    }

    const fn tagged(self, tag: u64) -> u64 {
        self.0 ^ DONE ^ tag
    }
}

const fn bell_of(state: u64) -> u8 {
    (state >> BELL_SHIFT) as u8
}

/// A record.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct Record {
    state: AtomicU64,
    result: AtomicU64,
}

impl Record {
    /// A record that was never used.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(index: u16) -> Self {
        Self { state: AtomicU64::new(Ticket::zero(index).word()), result: AtomicU64::new(0) }
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new(index: u16) -> Self {
        Self { state: AtomicU64::new(Ticket::zero(index).word()), result: AtomicU64::new(0) }
    }
}

/// The verdict of a record on a submission that a worker has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Execute the submission.
    Run,
    /// The submission was cancelled: complete it with ECANCELED.
    Cancelled,
    /// The submission was cancelled and that has been picked up: give the credit back.
    Abandoned,
    /// The ring names no such submission: its entry is forged.
    Forged,
}

/// Duties of a worker after a submission is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Ring this bell; 0: none.
    pub bell: u8,
    /// The submission was interrupted, or is about to be.
    pub is_asked: bool,
}

/// Progress of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The submission is not done.
    NotYet,
    /// Done, with this result.
    Done(u64),
    /// Cancelled before it began.
    Cancelled,
}

/// Result of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// The submission never begins. Ring this bell, if it is not 0.
    Never(u8),
    /// The submission runs: interrupt it.
    Runs,
    /// The submission was done before.
    Done,
}

/// A record in use.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a, const MUTANT: u8 = REAL> {
    record: &'a Record,
}

impl<'a, const MUTANT: u8> RecordRef<'a, MUTANT> {
    /// A reference to this record.
    #[must_use]
    #[inline(always)]
    pub const fn new(record: &'a Record) -> Self {
        Self { record }
    }

    /// Makes it what it was at first. No other thread uses it.
    pub fn reset(&self, ticket: Ticket) {
        self.record.state.store(ticket.word(), Ordering::Release);
    }

    fn exchange(&self, from: u64, to: u64) -> bool {
        self.record.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Worker: has taken a submission.
    #[must_use]
    #[inline(always)]
    pub fn begin(&self, ticket: Ticket) -> Begun {
        let state = &self.record.state;
        let seen = state.load(Ordering::Acquire);
        if MUTANT == BEGINS_ANYWAY {
            state.store(ticket.tagged(RUNNING), Ordering::Release);
            return Begun::Run;
        }
        if seen == ticket.previous().word() && self.exchange(seen, ticket.tagged(RUNNING)) {
            return Begun::Run;
        }
        self.begin_other(ticket)
    }

    #[cold]
    fn begin_other(&self, ticket: Ticket) -> Begun {
        // Each round another thread has changed the state; waiters do so twice each.
        for _ in 0..1 << 16 {
            let seen = self.record.state.load(Ordering::Acquire);
            let bell = seen & BELL;
            if seen == ticket.previous().word() || seen & !BELL == ticket.tagged(QUEUED) {
                if self.exchange(seen, ticket.tagged(RUNNING) | bell) {
                    return Begun::Run;
                }
            } else if seen & !BELL == ticket.tagged(CANCELLED) {
                return Begun::Cancelled;
            } else if seen == ticket.tagged(ABANDONED) {
                self.record.state.store(ticket.word(), Ordering::Release);
                return Begun::Abandoned;
            } else {
                return Begun::Forged;
            }
        }
        Begun::Forged
    }

    /// Worker: the submission is done.
    #[inline(always)]
    pub fn complete(&self, ticket: Ticket, result: u64) -> Completed {
        self.record.result.store(result, Ordering::Relaxed);
        let before = self.record.state.swap(ticket.word(), exchanges::<MUTANT>());
        Completed { bell: bell_of(before), is_asked: before & TAG == ASKED }
    }

    /// Worker: a cancelled one is done, unless that was picked up already (`None`): then the credit
    /// is to be given back.
    pub fn complete_cancelled(&self, ticket: Ticket, result: u64) -> Option<Completed> {
        self.record.result.store(result, Ordering::Relaxed);
        for _ in 0..1 << 16 {
            let seen = self.record.state.load(Ordering::Acquire);
            if seen == ticket.tagged(ABANDONED) {
                self.record.state.store(ticket.word(), Ordering::Release);
                return None;
            }
            if self.exchange(seen, ticket.word()) {
                return Some(Completed { bell: bell_of(seen), is_asked: false });
            }
        }
        None
    }

    /// Poster: has executed the submission itself, which was never in a ring.
    pub fn complete_at_once(&self, ticket: Ticket, result: u64) {
        self.record.result.store(result, Ordering::Relaxed);
        self.record.state.store(ticket.word(), publish::<MUTANT>());
    }

    /// Owner: the result, if the submission is done: one look.
    #[must_use]
    #[inline(always)]
    pub fn result(&self, ticket: Ticket) -> Option<u64> {
        (self.record.state.load(Ordering::Acquire) == ticket.word())
            .then(|| self.record.result.load(Ordering::Relaxed))
    }

    /// Owner: the progress of the submission.
    #[must_use]
    pub fn look(&self, ticket: Ticket) -> Look {
        let state = self.record.state.load(Ordering::Acquire);
        if state == ticket.word() {
            Look::Done(self.record.result.load(Ordering::Relaxed))
        } else if state & !BELL == ticket.tagged(CANCELLED) {
            Look::Cancelled
        } else {
            Look::NotYet
        }
    }

    /// Owner, of one that is cancelled: no thread wants it any more. `false`: the worker has
    /// completed it meanwhile.
    #[must_use]
    pub fn abandon(&self, ticket: Ticket) -> bool {
        // A waiter that is about to leave takes its bell out first.
        for _ in 0..1 << 16 {
            let seen = self.record.state.load(Ordering::Acquire);
            if seen & !BELL != ticket.tagged(CANCELLED) {
                return false;
            }
            if seen & BELL == 0 && self.exchange(seen, ticket.tagged(ABANDONED)) {
                return true;
            }
        }
        false
    }

    /// Waiter: sleeps until its bell rings. `false`: it need not, or another waits.
    #[must_use]
    pub fn prepare_sleep(&self, ticket: Ticket, bell: u8) -> bool {
        for _ in 0..1 << 16 {
            let seen = self.record.state.load(Ordering::Acquire);
            let waits = if seen == ticket.previous().word() {
                ticket.tagged(QUEUED)
            } else if [QUEUED, RUNNING, ASKED].iter().any(|&tag| seen == ticket.tagged(tag)) {
                seen
            } else {
                return false;
            };
            if self.exchange(seen, waits | u64::from(bell) << BELL_SHIFT) {
                return true;
            }
        }
        false
    }

    /// Waiter: sleeps no more, though its bell has not rung. `false`: it rings, and that has to be
    /// waited for.
    #[must_use]
    pub fn leave(&self, ticket: Ticket, bell: u8) -> bool {
        for _ in 0..1 << 16 {
            let seen = self.record.state.load(Ordering::Acquire);
            let is_mine = bell_of(seen) == bell && (seen ^ ticket.word()) & !(BELL | TAG) == 0;
            if !is_mine {
                return MUTANT == LEAVES_TOKEN;
            }
            if self.exchange(seen, seen & !BELL) {
                return true;
            }
        }
        false
    }

    /// Owner: it is not to begin, or to be interrupted.
    #[must_use]
    pub fn cancel(&self, ticket: Ticket) -> Cancel {
        for _ in 0..1 << 16 {
            let seen = self.record.state.load(Ordering::Acquire);
            let is_queued =
                seen == ticket.previous().word() || seen & !BELL == ticket.tagged(QUEUED);
            if is_queued {
                if self.exchange(seen, ticket.tagged(CANCELLED)) {
                    let is_waited_for = seen & TAG == QUEUED;
                    return Cancel::Never(if is_waited_for { bell_of(seen) } else { 0 });
                }
            } else if seen & !BELL == ticket.tagged(RUNNING) {
                if self.exchange(seen, ticket.tagged(ASKED) | seen & BELL) {
                    return Cancel::Runs;
                }
            } else if seen & !BELL == ticket.tagged(ASKED) {
                return Cancel::Runs;
            } else if seen & !BELL == ticket.tagged(CANCELLED) {
                return Cancel::Never(0);
            } else {
                return Cancel::Done;
            }
        }
        Cancel::Done
    }

    /// Whether the submission runs, and a thread has asked that it end.
    #[must_use]
    pub fn is_asked(&self, ticket: Ticket) -> bool {
        self.record.state.load(Ordering::Acquire) & !BELL == ticket.tagged(ASKED)
    }
}
