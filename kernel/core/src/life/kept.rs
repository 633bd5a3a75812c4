//! The use that a space has made of the machine, kept for Linux, which asks for it in two ways.
//!
//! An answer that is awaited (`CLOSE_AWAITED`) comes with the end of the space and carries its use.
//! An answer that comes at once (`CLOSE_TOLD`) may come before the end: then the use is kept until
//! Linux asks again. Linux asks until an answer says that nothing is left. An answer without the
//! use, which another one has had, is an error, so that it hides none.

/// Resources that a space has used when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// Time in user mode, ns.
    pub user_ns: u64,
    /// Time in the kernel, ns.
    pub system_ns: u64,
    /// Most bytes that were resident.
    pub peak_bytes: u64,
    /// Space of the pooled proxy that the space, a native task's, had at its end; 0: none.
    pub member: u32,
}

/// Kept for a space from the first answer that came before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept(Option<Used>);

impl Kept {
    /// Notes the use of the space, which ends now.
    pub const fn ended(&mut self, used: Used) {
        self.0 = Some(used);
    }

    /// The use of the space, if it has ended.
    #[must_use]
    pub const fn used(self) -> Option<Used> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const USED: Used = Used { user_ns: 1, system_ns: 2, peak_bytes: 3, member: 4 };

    /// Answer that nothing is left, with the use or (`ESRCH`) without it.
    type Answer = Option<Used>;

    /// A space as the kernel has it, and its end as the module has it (`hanare_unconfirmed`).
    #[derive(Clone, Default)]
    struct World {
        has_ended: bool,
        is_closed: bool,
        awaits: bool,
        kept: Option<Kept>,
        /// Answer to the told question that the module has not noted yet.
        told: Option<Answer>,
        /// Answer to the awaited question that its task has not looked at yet.
        awaited: Option<Answer>,
        is_confirmed: bool,
        noted: Option<Used>,
        /// The task that ended goes on, with this use.
        taken: Option<Answer>,
        /// Whether the module has still to look at an answer for which the task has not waited.
        is_kept_open: bool,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        Told,
        Awaited,
        End,
        /// The module notes the told answer.
        Note,
        /// The task of the end takes what is known once its request is answered or needless.
        Take,
        /// The task's patience is over, though an answer is still to come or to be noted.
        GiveUp,
        /// The module looks at the answer to the awaited question for which no task waits.
        Look,
    }

    const STEPS: [Step; 7] =
        [Step::Told, Step::Awaited, Step::End, Step::Note, Step::Take, Step::GiveUp, Step::Look];

    impl World {
        /// As `kernel/src/process/spaces.rs`, `kernel/src/requests.rs` and `module/link/closes.c`.
        fn step(&mut self, step: Step) -> bool {
            match step {
                Step::Told if self.is_confirmed || self.told.is_some() => return false,
                Step::Told if !self.has_ended => {
                    self.is_closed = true;
                    self.kept.get_or_insert_default();
                }
                Step::Told => self.told = Some(self.kept.take().and_then(Kept::used)),
                Step::Awaited if self.awaits || self.taken.is_some() => return false,
                Step::Awaited => {
                    self.awaits = true;
                    self.is_closed = true;
                    if self.has_ended {
                        self.awaited = Some(self.kept.and_then(Kept::used));
                    }
                }
                Step::End if self.has_ended || !self.is_closed => return false,
                Step::End => {
                    self.has_ended = true;
                    if let Some(kept) = &mut self.kept {
                        kept.ended(USED);
                    }
                    if self.awaits {
                        self.awaited = Some(Some(USED));
                    }
                }
                Step::Note => {
                    let Some(answer) = self.told.take() else { return false };
                    self.noted = self.noted.or(answer);
                    self.is_confirmed = true;
                }
                Step::Take | Step::GiveUp if self.taken.is_some() => return false,
                Step::Take => {
                    let is_over = !self.awaits && self.is_confirmed;
                    let is_answered = self.awaited.is_some_and(|answer| answer.is_some());
                    if !(is_over || is_answered || self.awaited.is_some() && self.is_confirmed) {
                        return false;
                    }
                    self.taken = Some(self.noted.or(self.awaited.flatten()));
                }
                Step::GiveUp if !self.awaits => return false,
                Step::GiveUp => {
                    self.taken = Some(self.noted);
                    self.is_kept_open = self.awaited != Some(None);
                }
                Step::Look if !self.is_kept_open => return false,
                Step::Look => {
                    let Some(answer) = self.awaited else { return false };
                    self.noted = self.noted.or(answer);
                    self.is_kept_open = false;
                }
            }
            true
        }

        fn check(&self) {
            let taken = self.taken.flatten();
            assert!(taken.is_none_or(|used| used == USED));
            // A task without the use leaves it to the confirmation, which ends the proxy.
            if self.is_confirmed && self.taken.is_some() && !self.is_kept_open {
                assert_eq!(taken.or(self.noted), Some(USED));
                assert_eq!(self.kept, None);
            }
        }
    }

    /// In whichever order Linux asks, notes the answers and the space ends: the use of the space
    /// comes to the task of the end, or is noted when the end is confirmed, and is kept no longer.
    #[test]
    fn use_of_a_space_is_taken_or_noted() {
        let (mut worlds, mut ends) = (vec![World::default()], 0);
        for _ in 0..7 {
            let mut next = Vec::new();
            for world in &worlds {
                for step in STEPS {
                    let mut world = world.clone();
                    if world.step(step) {
                        world.check();
                        assert!(
                            step != Step::Take || world.taken == Some(Some(USED)),
                            "a task that waited has the use"
                        );
                        ends += usize::from(world.is_confirmed && world.taken.is_some());
                        next.push(world);
                    }
                }
            }
            worlds = next;
        }
        assert!(ends > 20);
    }
}
