//! Exhaustive exploration of `shortage` and `quarantine`: two users with a process each, a few
//! frames, and Linux, which holds frames as long as it likes, answers or does not, and lets killed
//! processes end or does not. What is decided is the code of the kernel.

use super::{CLOSING_NS, PATIENCE_NS};
use super::{Candidate, Ending, Patience, Shortage, Step, heaviest, richest, step};
use crate::quarantine::{Answer, FRESH_NS, Inquiry, Known, ROUND_NS, Round, SILENCE_NS, Want};
use crate::userlimits::{held_max, is_over};
use std::collections::HashSet;
use std::vec;
use std::vec::Vec;
use std::{assert, format};

const FRAMES: u64 = 4;
const USERS: usize = 2;
/// Actions one after the other.
const DEPTH: usize = 11;
/// Decisions, answers and pauses that any wait takes at most.
const WAIT_MAX: usize = 80;

/// A wrong step, which the exploration has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// A process ends before Linux is asked.
    KillsFirst,
    /// Frames that Linux held once are never asked about again.
    TrustsOldAnswers,
    /// Linux, which does not answer, is asked again and again.
    AsksForEver,
    /// A victim that has ended is not waited for, though Linux is still closing its files.
    DoesNotWaitForFiles,
    /// The process that has most ends, whatever its user has besides.
    CountsProcessesAlone,
    /// A process that never ends is waited for.
    WaitsForLate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Process {
    None,
    Runs,
    /// Killed, and not ended yet; until when that is waited for.
    Killed(u64),
}

#[derive(Clone, Debug)]
struct User {
    process: Process,
    /// Pages of the process.
    pages: u64,
    frames: Inquiry,
    is_over: bool,
    /// The last round of questions about the user's frames alone.
    round: Round,
}

/// A frame in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Frame {
    user: usize,
    /// List of the frame; `None`: Linux is asked about it.
    list: Option<usize>,
    /// Time at which Linux lets go of the frame.
    free_since_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    /// The process of a user takes a page, or decides what to do without one.
    Take(usize),
    /// The process of a user gives a page up that Linux holds.
    GiveUp(usize),
    /// A user starts a process.
    Start(usize),
    /// The process of a user ends.
    End(usize),
    /// Linux lets go of a user's frames.
    LetGo(usize),
    /// Linux answers what it is asked about a user's frames, or does not.
    Answer(usize, bool),
    /// Time goes by.
    Tick(u64),
}

fn actions() -> Vec<Action> {
    let of = |user| {
        let answers = [Action::Answer(user, true), Action::Answer(user, false)];
        [
            Action::Take(user),
            Action::GiveUp(user),
            Action::Start(user),
            Action::End(user),
            Action::LetGo(user),
        ]
        .into_iter()
        .chain(answers)
    };
    let ticks = [FRESH_NS, CLOSING_NS, PATIENCE_NS].map(Action::Tick);
    (0..USERS).flat_map(of).chain(ticks).collect()
}

#[derive(Clone, Debug)]
struct World {
    now_ns: u64,
    free: u64,
    users: [User; USERS],
    frames: Vec<Frame>,
    /// The last victim, when its memory went, and how long it is waited for.
    last: Option<(usize, Option<u64>)>,
    patience: Patience,
    /// The last round of questions about all frames.
    round: Round,
    /// Linux has not answered, and is left alone until then.
    silent_until_ns: u64,
    mutant: Mutant,
    fault: Option<&'static str>,
}

/// Result of a request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Page,
    Error,
    /// A question is to be answered.
    Asked,
    /// The process has to wait.
    Nothing,
}

impl World {
    fn new(mutant: Mutant) -> World {
        let user = || User {
            process: Process::Runs,
            pages: 0,
            frames: Inquiry::NOTHING,
            is_over: false,
            round: Round::NONE,
        };
        World {
            now_ns: 0,
            free: FRAMES,
            users: [user(), user()],
            frames: vec![],
            last: None,
            patience: Patience::OVER,
            round: Round::NONE,
            silent_until_ns: 0,
            mutant,
            fault: None,
        }
    }

    fn bytes(&self, user: usize) -> u64 {
        self.users[user].pages + self.users[user].frames.all()
    }

    /// Whether Linux holds more of a user's than it may, once its part has grown or shrunk.
    fn look_at_bound(&mut self, user: usize, grew: bool) {
        let others = (0..USERS).filter(|&other| other != user);
        let others = others.map(|other| self.users[other].frames.all()).sum();
        let has = &mut self.users[user];
        has.is_over = is_over(has.is_over, grew, has.frames.all(), held_max(FRAMES, others));
    }

    fn wants_a_page(&mut self, user: usize) -> Came {
        let of = self.users[user].is_over.then_some(user);
        if of.is_none() && self.free > 0 {
            self.free -= 1;
            self.users[user].pages += 1;
            return Came::Page;
        }
        let mut short = Short { world: self, of };
        match step(&mut short) {
            Step::TryAgain => panic!("room, where there is none"),
            Step::Ask => {
                short.ask();
                Came::Asked
            }
            Step::Wait => Came::Nothing,
            Step::Kill(victim) => {
                short.check_kill(victim);
                if self.users[victim].process == Process::Runs {
                    self.users[victim].process = Process::Killed(self.now_ns + PATIENCE_NS);
                    self.last = Some((victim, None));
                    self.patience = Patience::new(self.now_ns);
                }
                Came::Nothing
            }
            Step::Refuse => {
                if short.candidates().iter().any(|c| c.0.ending != Ending::Late) {
                    self.fault = Some("an error, though a process could end");
                }
                Came::Error
            }
        }
    }

    fn end(&mut self, user: usize) {
        self.free += core::mem::take(&mut self.users[user].pages);
        self.users[user].process = Process::None;
        if let Some(last) = self.last.as_mut().filter(|last| last.0 == user) {
            last.1 = Some(self.now_ns);
        }
    }

    fn answer(&mut self, user: usize, answers: bool) {
        for at in (0..self.frames.len()).rev() {
            let frame = self.frames[at];
            if frame.user != user || frame.list.is_some() {
                continue;
            }
            let answer = match frame.free_since_ns {
                _ if !answers => Answer::Unclear,
                None => Answer::Held,
                Some(_) => Answer::Free,
            };
            match self.users[user].frames.answered(1, answer) {
                list @ Some(_) => self.frames[at].list = list,
                None => {
                    self.frames.remove(at);
                    self.free += 1;
                }
            }
        }
        if !answers {
            self.silent_until_ns = self.now_ns + SILENCE_NS;
        }
        self.look_at_bound(user, false);
    }

    /// Takes an action. False: it cannot be taken now.
    fn does(&mut self, action: Action) -> bool {
        match action {
            Action::Take(user) if self.users[user].process == Process::Runs => {
                // Its process is killed that gets an error.
                if self.wants_a_page(user) == Came::Error {
                    self.end(user);
                }
            }
            Action::GiveUp(user) if self.users[user].pages > 0 => {
                self.users[user].pages -= 1;
                let list = Some(self.users[user].frames.add(1, Known::Unasked));
                self.frames.push(Frame { user, list, free_since_ns: None });
                self.look_at_bound(user, true);
            }
            Action::Start(user) if self.users[user].process == Process::None => {
                if self.users[user].is_over {
                    return false;
                }
                self.users[user].process = Process::Runs;
                if self.last.is_some_and(|last| last.0 == user) {
                    self.last = None; // its memory is another one's
                }
            }
            Action::End(user) if self.users[user].process != Process::None => self.end(user),
            Action::LetGo(user) => {
                let now = self.now_ns;
                let held = |frame: &&mut Frame| frame.user == user && frame.free_since_ns.is_none();
                let let_go = self.frames.iter_mut().filter(held);
                return let_go.map(|frame| frame.free_since_ns = Some(now)).count() > 0;
            }
            Action::Answer(user, answers) if self.is_asked(user) => self.answer(user, answers),
            Action::Tick(ns) => self.now_ns += ns,
            _ => return false,
        }
        self.check();
        true
    }

    fn is_asked(&self, user: usize) -> bool {
        self.frames.iter().any(|frame| frame.user == user && frame.list.is_none())
    }

    fn check(&mut self) {
        let pages: u64 = self.users.iter().map(|user| user.pages).sum();
        if pages + self.free + self.frames.len() as u64 != FRAMES {
            self.fault = Some("a frame is lost");
        }
        for user in 0..USERS {
            let has = |unasked: Option<bool>| {
                let list = self.users[user].frames.unasked_list();
                let known = |frame: &Frame| frame.list.map(|l| l == list);
                self.frames.iter().filter(|f| f.user == user && known(f) == unasked).count() as u64
            };
            let frames = &self.users[user].frames;
            let counts = [frames.unasked(), frames.held(), frames.all()];
            let [unasked, held] = [Some(true), Some(false)].map(has);
            if counts != [unasked, held, unasked + held + has(None)] {
                self.fault = Some("a frame is in another list than it counts in");
            }
        }
    }

    /// Whether a process that wants a page now gets one, or an error, if others do nothing. Linux
    /// is `silent`, or answers; killed processes are `stuck`, or end.
    fn wait_ends(&self, user: usize, silent: bool, stuck: bool) -> bool {
        let mut world = self.clone();
        (0..WAIT_MAX).any(|_| {
            let came = world.wants_a_page(user);
            (0..USERS).for_each(|user| world.answer(user, !silent));
            for other in 0..USERS {
                if matches!(world.users[other].process, Process::Killed(_)) && !stuck {
                    world.end(other);
                }
            }
            if came == Came::Nothing {
                world.now_ns += CLOSING_NS;
            }
            let ends = matches!(world.users[user].process, Process::None | Process::Killed(_));
            ends || matches!(came, Came::Page | Came::Error)
        })
    }

    /// Key of the state: equal for states that go on alike. Times count only as far as decisions
    /// depend on them.
    fn key(&self) -> impl core::hash::Hash + Eq + use<> {
        let age = |at: u64, most: u64| (self.now_ns.saturating_sub(at)).min(most);
        let left = |until: u64| until.saturating_sub(self.now_ns);
        let users = self.users.each_ref().map(|user| {
            let process = match user.process {
                Process::Killed(until) => (2, left(until)),
                other => (u64::from(other == Process::Runs), 0),
            };
            let (frames, round) = (user.frames.key(self.now_ns), user.round.key(self.now_ns));
            (process, user.pages, frames, user.is_over, round)
        });
        let mut frames: Vec<_> = self
            .frames
            .iter()
            .map(|f| {
                let list = f.list.map(|list| list == self.users[f.user].frames.unasked_list());
                (f.user, list, f.free_since_ns.map(|at| age(at, STALE_NS + 1)))
            })
            .collect();
        frames.sort_unstable();
        let last = self.last.map(|(user, gone)| (user, gone.map(|at| age(at, CLOSING_NS))));
        let patience = (left(self.patience.until_ns), self.patience.is_gone);
        (users, frames, last, patience, self.round.key(self.now_ns), left(self.silent_until_ns))
    }
}

/// How long frames may be free and not found: an answer may be as old as its round, and counts for
/// a while.
const STALE_NS: u64 = ROUND_NS + FRESH_NS;

/// Memory that a process wants and does not get: of all there is, or up to its user's bound.
struct Short<'a> {
    world: &'a mut World,
    of: Option<usize>,
}

impl Short<'_> {
    fn users(&self) -> impl Iterator<Item = usize> + use<> {
        let of = self.of;
        (0..USERS).filter(move |&user| of.is_none_or(|only| only == user))
    }

    /// Asks about one user's frames, or about all.
    fn ask(&mut self) {
        for user in self.users() {
            let World { users, frames, .. } = &mut *self.world;
            let known = &mut users[user].frames;
            let unasked = Some(known.unasked_list());
            for frame in frames.iter_mut().filter(|f| f.user == user && f.list == unasked) {
                frame.list = None;
                known.take(1);
            }
        }
    }

    fn candidates(&self) -> Vec<(Candidate, usize)> {
        let world = &*self.world;
        let of = |user: usize| {
            let ending = match world.users[user].process {
                Process::None => return None,
                Process::Runs => Ending::Not,
                Process::Killed(until) if world.now_ns < until => Ending::Soon,
                Process::Killed(_) if world.mutant == Mutant::WaitsForLate => Ending::Soon,
                Process::Killed(_) => Ending::Late,
            };
            let pages = world.users[user].pages;
            let alone = world.mutant == Mutant::CountsProcessesAlone;
            let of_user = if alone { pages } else { world.bytes(user) };
            Some((Candidate { user: user as u32, weight: [of_user, pages], ending }, user))
        };
        self.users().filter_map(of).collect()
    }

    fn check_kill(&mut self, victim: usize) {
        let users: Vec<usize> = self.users().collect();
        let world = &mut *self.world;
        let is_old = |frame: &Frame| {
            let user = &world.users[frame.user];
            let is_excused = world.now_ns < world.silent_until_ns || frame.list.is_none();
            let is_unasked = frame.list == Some(user.frames.unasked_list());
            let is_stale = |since: u64| is_unasked || world.now_ns.saturating_sub(since) > STALE_NS;
            users.contains(&frame.user) && !is_excused && frame.free_since_ns.is_some_and(is_stale)
        };
        let pays = |user: usize| match world.users[user].process {
            Process::None => false,
            Process::Runs => true,
            Process::Killed(until) => world.now_ns < until,
        };
        // Linux, which is slow, is not waited for without an end.
        let answers = users.iter().all(|&user| !world.is_asked(user));
        if answers && world.frames.iter().any(is_old) {
            world.fault = Some("a process is killed for memory that is free");
        } else if !users.contains(&victim) {
            world.fault = Some("another user pays for a user's own bound");
        } else if users.iter().any(|&user| pays(user) && world.bytes(user) > world.bytes(victim)) {
            world.fault = Some("a user pays while another one has more and can be made to pay");
        } else if let Some((last, Some(gone))) = world.last
            && world.now_ns - gone < CLOSING_NS
            && world.users[last].frames.all() > 0
            && world.users[last].process == Process::None
        {
            world.fault = Some("the last victim's files are not waited for");
        }
    }
}

impl Shortage for Short<'_> {
    type Victim = usize;

    fn has_room(&mut self) -> bool {
        match self.of {
            Some(user) => !self.world.users[user].is_over,
            None => self.world.free > 0,
        }
    }

    fn give_back(&mut self) -> bool {
        false
    }

    fn want(&mut self) -> Want {
        let World { now_ns, mutant, silent_until_ns: silent, .. } = *self.world;
        if mutant == Mutant::KillsFirst || now_ns < silent && mutant != Mutant::AsksForEver {
            return Want::Settled;
        }
        let mut round = self.of.map_or(self.world.round, |user| self.world.users[user].round);
        let since =
            if mutant == Mutant::TrustsOldAnswers { 0 } else { round.since(now_ns, silent) };
        let wants = self.users().map(|user| self.world.users[user].frames.want(since, now_ns));
        let want = round.judge(wants.max().unwrap_or(Want::Settled), now_ns);
        *self.of.map_or(&mut self.world.round, |user| &mut self.world.users[user].round) = round;
        want
    }

    fn is_victim_awaited(&mut self) -> bool {
        let world = &mut *self.world;
        let Some((last, _)) = world.last else { return false };
        let lives = world.users[last].process != Process::None;
        let has_frames = world.users[last].frames.all() > 0;
        let has_frames = has_frames && world.mutant != Mutant::DoesNotWaitForFiles;
        world.patience.goes_on(world.now_ns, lives, has_frames)
    }

    fn victim(&mut self) -> Option<usize> {
        let all = self.candidates();
        let user = richest(all.iter().map(|candidate| candidate.0))?;
        heaviest(all.into_iter().filter(|candidate| candidate.0.user == user))
    }
}

/// How many states there are; what was found in one of them, with the way there.
fn explore(mutant: Mutant) -> Result<usize, std::string::String> {
    let actions = actions();
    let mut known = HashSet::new();
    let mut states = vec![(World::new(mutant), vec![])];
    for _ in 0..DEPTH {
        let mut next = vec![];
        for (world, way) in &states {
            for &action in &actions {
                let mut after = world.clone();
                if !after.does(action) || !known.insert(after.key()) {
                    continue;
                }
                let way = [&way[..], &[action]].concat();
                if let Some(fault) = after.fault {
                    return Err(format!("{fault}: {way:?}"));
                }
                for user in (0..USERS).filter(|&u| after.users[u].process == Process::Runs) {
                    for (silent, stuck) in
                        [(false, false), (true, false), (false, true), (true, true)]
                    {
                        if !after.wait_ends(user, silent, stuck) {
                            return Err(format!("user {user} waits for ever: {way:?}"));
                        }
                    }
                }
                next.push((after, way));
            }
        }
        states = next;
    }
    Ok(known.len())
}

#[test]
fn no_user_pays_for_others_and_every_wait_ends() {
    let states = explore(Mutant::None).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(states > 10_000, "{states} states");
    std::println!("{states} states");
}

#[test]
fn each_wrong_step_is_found() {
    for (mutant, fault) in [
        (Mutant::KillsFirst, "memory that is free"),
        (Mutant::TrustsOldAnswers, "memory that is free"),
        (Mutant::AsksForEver, "waits for ever"),
        (Mutant::DoesNotWaitForFiles, "files are not waited for"),
        (Mutant::CountsProcessesAlone, "another one has more"),
        (Mutant::WaitsForLate, "waits for ever"),
    ] {
        let found = explore(mutant).expect_err(&format!("{mutant:?} is not found"));
        assert!(found.contains(fault), "{mutant:?}: {found}");
    }
}
