//! Wrong steps, which the explorations have to find, and which break what.

use super::*;
use core::cell::Cell;
use std::thread_local;

/// A wrong step, which the exploration has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Mutant {
    None,
    /// Linux is given pages that are reserved.
    GivesReserved,
    /// A write to a shared page copies it without asking Linux.
    CopiesUnasked,
    /// A write to a shared page copies it while CPUs have translations of it.
    CopiesUnflushed,
    /// A copy is made while CPUs may still write to what a fork has just shared.
    CopiesBeforeForkIsFlushed,
    /// A page that was visible meanwhile counts as flushed.
    TrustsDisturbed,
    /// Linux, which could not be asked, counts as having forgotten.
    TrustsFailure,
    /// A page that Linux may write to is written down as one that it may read.
    ForgetsThatLinuxWrites,
    /// A fork shares what Linux may write to.
    ForkSharesWritten,
    /// A fork makes the child's copies before CPUs know that pages are read-only.
    ForkCopiesAtOnce,
    /// A fork shares what Linux has forgotten, and holds all the same.
    SharesHeld,
    /// A fork shares what has moved since Linux was asked, though Linux holds it by now.
    TrustsMoved,
    /// A page counts as lent only as long as Linux has it mapped.
    ForgetsLent,
    /// A fork asks what Linux holds before Linux has forgotten the pages.
    LooksBeforeZap,
    /// A write copies a page of which the child of a fork under way is to get a copy.
    CopiesLent,
    /// Pages move while Linux has them.
    MovesUnasked,
    /// Pages are discarded first, and Linux is asked then.
    DiscardsFirst,
    /// Frames are freed before Linux was asked for them.
    FreesUnasked,
    /// Frames are freed before CPUs have dropped their translations.
    FreesUnflushed,
    /// A page that others have, too, is given up while CPUs have translations of it.
    GivesUpUnflushed,
    /// A page that others have, too, is given up before Linux was asked to forget it.
    GivesUpUnasked,
    /// A page that others have, too, and Linux, is given up at once by a thread alone on its CPUs.
    GivesUpSeen,
    /// A failed fork leaves its count.
    LeavesFork,
    /// An unmapping thread takes addresses that another thread is busy with.
    TakesBusy,
    /// An unmapping thread takes addresses where another thread's mapping is to come.
    TakesComing,
    /// Addresses are free though Linux could not be asked to forget what it has there.
    FreesUnforgotten,
    /// CPUs are asked to drop their translations only after the lock was given back.
    AsksCpusUnlocked,
    /// A page whose memory was bad counts as one that Linux has not seen.
    ForgetsBad,
    /// An access to a page that Linux does not have ends in a signal, though the mapping was about
    /// to move.
    TouchesOnce,
    /// An access to what is being replaced finds that nothing is mapped.
    SeesHole,
    /// A mapping that is replaced is kept as if nothing had been mapped there.
    LeavesHole,
    /// A thread keeps addresses while another one has what it is about to wait for.
    KeepsWhileOthersMove,
}

thread_local! {
    pub(super) static MUTANT: Cell<Mutant> = const { Cell::new(Mutant::None) };
}

/// Whether the code under test is to take this wrong step.
pub(in super::super) fn is(mutant: Mutant) -> bool {
    MUTANT.get() == mutant
}

/// Each wrong step is found, by what it breaks.
#[test]
fn wrong_steps_are_found() {
    let without_pins = MUTANTS.iter().map(|m| (m, SCRIPTS, 0));
    for (&(mutant, script, breaks), scripts, pins) in
        without_pins.chain(MUTANTS_OF_PINS.iter().map(|m| (m, PINNED, 1)))
    {
        MUTANT.set(mutant);
        let found = explore(scripts[script], pins).expect_err("a wrong state");
        MUTANT.set(Mutant::None);
        assert!(found.starts_with(breaks), "{mutant:?}: {found}");
    }
}

/// Wrong steps, the script that shows each, and what is found.
const MUTANTS: &[(Mutant, usize, &str)] = &[
    (Mutant::GivesReserved, 1, "a read-only page can be written"),
    (Mutant::CopiesUnasked, 5, "a view of a page lacks a write"),
    (Mutant::CopiesUnflushed, 5, "a view of a page lacks a write"),
    (Mutant::CopiesBeforeForkIsFlushed, 9, "a child has a write, and not an earlier one"),
    (Mutant::TrustsDisturbed, 9, "a child has a write, and not an earlier one"),
    (Mutant::TrustsFailure, 1, "a read-only page can be written"),
    (Mutant::ForgetsThatLinuxWrites, 1, "a read-only page can be written"),
    (Mutant::ForkSharesWritten, 5, "a child has a write that is not its own"),
    (Mutant::ForkCopiesAtOnce, 5, "a child has a write, and not an earlier one"),
    (Mutant::MovesUnasked, 3, "what is mapped no more can be reached"),
    (Mutant::DiscardsFirst, 2, "a frame is free that Linux has"),
    (Mutant::FreesUnasked, 4, "a frame is free that Linux has"),
    (Mutant::FreesUnflushed, 2, "a frame is free that a table has"),
    (Mutant::GivesUpUnflushed, 6, "a parent has a write of its child"),
    (Mutant::GivesUpUnflushed, 14, "a parent has a write of its child"),
    (Mutant::GivesUpUnasked, 6, "a parent has a write of its child"),
    (Mutant::GivesUpSeen, 18, "a parent has a write of its child"),
    (Mutant::LeavesFork, 5, "something stays reserved"),
    (Mutant::TakesBusy, 10, "a discarded write is seen"),
    (Mutant::FreesUnforgotten, 11, "a discarded write is seen"),
    (Mutant::AsksCpusUnlocked, 11, "a write is lost"),
    (Mutant::ForgetsBad, 12, "what is mapped no more can be reached"),
    (Mutant::SeesHole, 15, "a signal at what is mapped all the time"),
    (Mutant::LeavesHole, 15, "a signal at what is mapped all the time"),
    (Mutant::TakesBusy, 17, "a child lacks what is mapped all the time"),
];

/// Mutants that scripts of [`PINNED`] find: the script's number, and the property that fails.
const MUTANTS_OF_PINS: &[(Mutant, usize, &str)] = &[
    (Mutant::SharesHeld, 0, "a child has a write that is not its own"),
    (Mutant::LooksBeforeZap, 0, "a child has a write that is not its own"),
    (Mutant::CopiesLent, 0, "a view of a page lacks a write"),
    (Mutant::ForgetsLent, 1, "a child has a write that is not its own"),
    (Mutant::TrustsMoved, 3, "a child has a write that is not its own"),
    (Mutant::ForgetsLent, 2, "a child has a write that is not its own"),
];
