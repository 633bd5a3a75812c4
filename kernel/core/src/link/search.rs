//! How a native task comes by a pooled proxy when none is free: whether one more is made, or the
//! task waits until the pool changes.

use crate::errno::{EAGAIN, Errno};

/// A pool, as a task sees it that has found no proxy that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Proxies that there are.
    pub proxies: usize,
    /// Proxies that are being made, for any task.
    pub asked: usize,
    /// Most proxies that the pool may have, at least one.
    pub limit: usize,
    /// Number of proxies that have come so far.
    pub came: u32,
    /// Number of proxies that have gone so far.
    pub left: u32,
}

impl Seen {
    /// Whether something is about to change by itself: a proxy is given back, comes, or goes.
    #[must_use]
    pub const fn will_change(self) -> bool {
        self.proxies + self.asked > 0
    }
}

/// Next step of a task that has found no proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Asks for one more proxy.
    Ask,
    /// Waits until a proxy comes, goes or is given back, or the making of one has ended, and that
    /// long at most, ns on its clock.
    Wait(u64),
}

/// Reason why a task does not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    /// [`Seen::left`] when the task was refused. Before one more proxy goes, the task would
    /// probably be refused again.
    left: u32,
    /// Time after which the task asks all the same, ns: tasks that have proxies may keep them, and
    /// the reason against one more may be gone.
    until_ns: u64,
}

/// How long a task does not ask that was refused for the first time, ns; twice as long each time,
/// up to [`LONGEST_NS`].
const FIRST_NS: u64 = 100_000_000;
/// Longest time for which a refused task does not ask, ns (see [`FIRST_NS`]).
const LONGEST_NS: u64 = 64 * FIRST_NS;

/// A task's search for a proxy. No task waits for what will not change ([`Seen::will_change`]), and
/// together tasks ask for no more than the pool may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    refused: Option<Refused>,
    pause_ns: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self { refused: None, pause_ns: FIRST_NS }
    }
}

impl Search {
    /// After the pool was looked through.
    pub fn next(&mut self, seen: Seen, now_ns: u64) -> Step {
        let holds = |r: &Refused| r.left == seen.left && seen.will_change() && now_ns < r.until_ns;
        self.refused = self.refused.filter(holds);
        match self.refused {
            None if seen.proxies + seen.asked < seen.limit => Step::Ask,
            refused => Step::Wait(refused.map_or(u64::MAX, |refused| refused.until_ns)),
        }
    }

    /// Takes in what has become of the proxy that the task asked for when it had seen `before`;
    /// `seen`: afterwards. If a proxy was reported as made, and none has come, this is a refusal,
    /// too.
    ///
    /// # Errors
    /// The error of `made`: there is none to wait for either.
    pub fn answered(
        &mut self,
        made: Result<(), Errno>,
        before: Seen,
        seen: Seen,
        now_ns: u64,
    ) -> Result<(), Errno> {
        let made = made.and(if seen.came != before.came { Ok(()) } else { Err(EAGAIN) });
        if made.is_ok() || !seen.will_change() {
            return made;
        }
        self.refused =
            Some(Refused { left: before.left, until_ns: now_ns.saturating_add(self.pause_ns) });
        self.pause_ns = if self.pause_ns < LONGEST_NS { 2 * self.pause_ns } else { LONGEST_NS };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::ENOMEM;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    /// A task of the model.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Task {
        /// Looks through the pool. The number: how many had gone when it was refused.
        Looks(Option<u32>),
        /// Waits for a change.
        Waits(Option<u32>),
        /// Has asked, when so many had gone.
        Asks(u32),
        Has,
        Failed,
        Ended,
    }

    /// A pool, and tasks of which each makes one call.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct World {
        free: usize,
        /// Proxies that lie: no task has them, and yet they are not free.
        lying: usize,
        left: u32,
        tasks: Vec<Task>,
    }

    const LEFT_MAX: u32 = 3;

    impl World {
        fn seen(&self, limit: usize) -> Seen {
            let number =
                |what: fn(&Task) -> bool| self.tasks.iter().filter(|task| what(task)).count();
            let asked = number(|task| matches!(task, Task::Asks(_)));
            let proxies = self.free + self.lying + number(|task| *task == Task::Has);
            Seen { proxies, asked, limit, came: 0, left: self.left }
        }

        /// Has all waiting tasks look again.
        fn changed(mut self) -> World {
            for task in &mut self.tasks {
                if let Task::Waits(refused) = *task {
                    *task = Task::Looks(refused);
                }
            }
            self
        }

        fn with(&self, task: usize, becomes: Task) -> World {
            let mut next = self.clone();
            next.tasks[task] = becomes;
            next
        }

        /// All states that may follow. `lies`: proxies that come by themselves are among them.
        fn next(&self, limit: usize, lies: bool) -> Vec<World> {
            let (mut all, seen) = (Vec::new(), self.seen(limit));
            let goes = |world: &World| World { left: world.left + 1, ..world.clone() }.changed();
            let may_go = self.left < LEFT_MAX;
            for (index, task) in self.tasks.iter().enumerate() {
                match *task {
                    Task::Looks(_) if self.free > 0 => {
                        all.push(World { free: self.free - 1, ..self.with(index, Task::Has) });
                    }
                    Task::Looks(refused) => {
                        // No time passes: progress must not depend on a task that asks again after
                        // a while.
                        let refused = refused.map(|left| Refused { left, until_ns: 1 });
                        let mut search = Search { refused, ..Search::default() };
                        let becomes = match search.next(seen, 0) {
                            Step::Ask => Task::Asks(self.left),
                            Step::Wait(_) => Task::Waits(search.refused.map(|r| r.left)),
                        };
                        all.push(self.with(index, becomes));
                    }
                    Task::Asks(left) => {
                        // It comes, where there is room for it still, or does not.
                        let asked_no_more = self.with(index, Task::Looks(None));
                        if seen.proxies < limit {
                            let came = World { free: self.free + 1, ..asked_no_more.clone() };
                            all.push(came.changed());
                        }
                        let after = asked_no_more.seen(limit);
                        // None has come: refused, or a lie.
                        let before = Seen { left, ..after };
                        let task = match Search::default().answered(Ok(()), before, after, 0) {
                            Ok(()) => Task::Looks(Some(left)),
                            Err(_) => Task::Failed,
                        };
                        all.push(self.with(index, task).changed());
                    }
                    Task::Has => {
                        let given = World { free: self.free + 1, ..self.with(index, Task::Ended) };
                        all.push(given.changed());
                        if may_go {
                            all.push(goes(&self.with(index, Task::Ended)));
                        }
                    }
                    Task::Waits(_) | Task::Failed | Task::Ended => {}
                }
            }
            if may_go && self.free > 0 {
                all.push(goes(&World { free: self.free - 1, ..self.clone() }));
            }
            if may_go && self.lying > 0 {
                all.push(goes(&World { lying: self.lying - 1, ..self.clone() }));
            }
            if lies && seen.proxies < limit && self.left + (self.lying as u32) < LEFT_MAX {
                all.push(World { lying: self.lying + 1, ..self.clone() }.changed());
            }
            all
        }
    }

    /// Each state that can be reached, and those that follow from it.
    fn explore(tasks: usize, limit: usize, lies: bool, mut check: impl FnMut(&World, &[World])) {
        let first =
            World { free: 0, lying: 0, left: 0, tasks: alloc::vec![Task::Looks(None); tasks] };
        let (mut known, mut new) = (BTreeSet::from([first.clone()]), alloc::vec![first]);
        while let Some(world) = new.pop() {
            let next = world.next(limit, lies);
            check(&world, &next);
            new.extend(next.into_iter().filter(|world| known.insert(world.clone())));
        }
    }

    #[test]
    fn no_task_waits_for_what_will_not_change() {
        let mut waited = 0;
        for (tasks, limit, lies) in [(3, 1, false), (3, 2, false), (3, 3, true), (3, 2, true)] {
            explore(tasks, limit, lies, |world, next| {
                let waits = world.tasks.iter().any(|task| matches!(task, Task::Waits(_)));
                // Nothing goes by itself any more where the model has it go no more.
                assert!(!waits || !next.is_empty() || world.lying > 0, "{world:?} of {limit}");
                assert!(!waits || world.seen(limit).will_change(), "{world:?} of {limit}");
                waited += usize::from(waits);
            });
        }
        assert!(waited > 100, "{waited}");
    }

    #[test]
    fn together_they_ask_for_no_more_than_there_may_be() {
        for limit in 1..=3 {
            explore(3, limit, false, |world, _| {
                let seen = world.seen(limit);
                assert!(seen.proxies + seen.asked <= limit, "{world:?} of {limit}");
            });
        }
    }

    #[test]
    fn a_refused_task_asks_again_when_one_has_gone_or_after_a_while() {
        let seen = Seen { proxies: 1, asked: 0, limit: 2, came: 5, left: 4 };
        let refused = |search: &mut Search, seen: Seen, now_ns| {
            search.answered(Err(ENOMEM), seen, seen, now_ns)
        };
        let mut search = Search::default();
        assert_eq!(search.next(seen, 0), Step::Ask);
        assert_eq!(refused(&mut search, seen, 0), Ok(()));
        assert_eq!(search.next(seen, 1), Step::Wait(FIRST_NS));
        let less = Seen { left: 5, ..seen };
        assert_eq!(search.next(less, 1), Step::Ask);
        assert_eq!(refused(&mut search, less, 10), Ok(()));
        assert_eq!(search.next(less, 10), Step::Wait(10 + 2 * FIRST_NS));
        assert_eq!(search.next(less, 10 + 2 * FIRST_NS), Step::Ask);
        assert_eq!(refused(&mut search, Seen { proxies: 0, ..seen }, 0), Err(ENOMEM));
        for _ in 0..20 {
            assert_eq!(refused(&mut search, seen, 0), Ok(()));
        }
        assert_eq!(search.next(seen, 1), Step::Wait(LONGEST_NS));
        let full = Seen { proxies: 2, ..seen };
        assert_eq!(Search::default().next(full, 1), Step::Wait(u64::MAX));
    }

    #[test]
    fn a_proxy_that_says_that_one_was_made_is_not_asked_for_ever() {
        let seen = Seen { proxies: 1, asked: 0, limit: 2, came: 5, left: 4 };
        let mut search = Search::default();
        assert_eq!(search.answered(Ok(()), seen, seen, 0), Ok(()));
        assert_eq!(search.next(seen, 1), Step::Wait(FIRST_NS));
        let nothing = Seen { proxies: 0, ..seen };
        assert_eq!(Search::default().answered(Ok(()), nothing, nothing, 0), Err(EAGAIN));
        // One that has come is looked for, and another one asked for if another task has it.
        let mut search = Search::default();
        let came = Seen { came: 6, ..seen };
        assert_eq!(search.answered(Ok(()), seen, came, 0), Ok(()));
        assert_eq!(search.next(came, 1), Step::Ask);
    }
}
