//! Exhaustive exploration of [`Claims`]: threads of one process open, close and duplicate onto
//! descriptors, and claim them. What is decided is the code of the kernel.

use super::{Claims, Descriptors, Ticket};
use std::cell::Cell;
use std::collections::HashSet;
use std::vec;
use std::vec::Vec;

/// A wrong step, which the exploration has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// A question is asked while its descriptor is being changed.
    AsksBesideChanges,
    /// An answer holds although the descriptor was changed since it was asked for.
    TrustsOldAnswers,
    /// An answer is entered although claims are over.
    EntersAfterTheEnd,
    /// A question is asked although claims are over.
    AsksAfterTheEnd,
    /// Claims are taken after Linux has executed the call.
    TakesLate,
    /// A change ends before Linux has executed it.
    EndsEarly,
}

std::thread_local! {
    static MUTANT: Cell<Mutant> = const { Cell::new(Mutant::None) };
}

pub(super) fn is(mutant: Mutant) -> bool {
    MUTANT.get() == mutant
}

const DESCRIPTORS: u32 = 2;
const THREADS: usize = 3;
/// Files that are opened at most.
const FILES: u8 = 4;

/// A file, by its number.
type File = u8;

/// Call of a thread, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    /// Between calls.
    Idle,
    /// A descriptor is open, and is to be claimed.
    Opened(u32),
    Asked(u32, Ticket),
    /// Linux has said which file the descriptor is.
    Known(Ticket, Option<File>),
    /// Closes descriptors (`None`), or puts a new file in the place of one.
    Begun(Ticket, Descriptors, Option<File>),
    Taken(Ticket, Descriptors, Option<File>),
    Executed(Ticket, Descriptors),
    /// Shares the table with a process that Linux executes.
    Shares,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Linux' table.
    table: [Option<File>; DESCRIPTORS as usize],
    files: u8,
    claims: Claims<File>,
    threads: [Thread; THREADS],
    /// How many more calls each thread may make.
    left: [u8; THREADS],
    /// A process that the LWK does not see has the table, too.
    is_shared: bool,
}

impl World {
    /// Threads that may make so many calls each; `is_claimed`: a descriptor is.
    fn new(left: [u8; THREADS], is_claimed: bool) -> World {
        let mut new = World {
            table: [None; DESCRIPTORS as usize],
            files: 0,
            claims: Claims::default(),
            threads: [Thread::Idle; THREADS],
            left,
            is_shared: false,
        };
        if is_claimed {
            new.table[0] = new.new_file();
            let question = new.claims.ask(0).unwrap();
            new.claims.answered(question, new.table[0]).unwrap();
        }
        new
    }

    /// Tickets as low as they can be: worlds that differ only in these are one.
    fn normal(mut self) -> World {
        let mut tickets: Vec<u64> = self.claims.questions.iter().map(|q| q.ticket.0).collect();
        tickets.extend(self.claims.changes.iter().map(|(ticket, _)| ticket.0));
        tickets.sort_unstable();
        let low = |ticket: &mut Ticket| {
            // A change that has ended early has none any more.
            let place = tickets.binary_search(&ticket.0).unwrap_or(tickets.len());
            *ticket = Ticket(place as u64 + 1);
        };
        self.claims.questions.iter_mut().for_each(|question| low(&mut question.ticket));
        self.claims.changes.iter_mut().for_each(|(ticket, _)| low(ticket));
        for thread in &mut self.threads {
            match thread {
                Thread::Asked(_, ticket)
                | Thread::Known(ticket, _)
                | Thread::Begun(ticket, ..)
                | Thread::Taken(ticket, ..)
                | Thread::Executed(ticket, _) => low(ticket),
                Thread::Idle | Thread::Opened(_) | Thread::Shares => {}
            }
        }
        self.claims.next = tickets.len() as u64 + 1;
        self.claims.questions.sort_unstable_by_key(|question| question.ticket.0);
        self.claims.changes.sort_unstable_by_key(|(ticket, _)| ticket.0);
        self.claims.claimed.sort_unstable();
        self
    }

    fn with(&self, thread: usize, becomes: Thread) -> World {
        let mut next = self.clone();
        next.threads[thread] = becomes;
        next
    }

    fn new_file(&mut self) -> Option<File> {
        (self.files < FILES).then(|| {
            self.files += 1;
            self.files
        })
    }

    /// Takes all claims of these descriptors.
    fn take(&mut self, which: Descriptors) {
        while self.claims.take(which).is_some() {}
    }

    fn begin(&self, thread: usize, which: Descriptors, file: Option<File>) -> World {
        let mut next = self.clone();
        let ticket = next.claims.begin(which);
        next.threads[thread] = Thread::Begun(ticket, which, file);
        next
    }

    /// Worlds after each call that an idle thread may begin.
    fn calls(&self, thread: usize) -> Vec<World> {
        let mut all = vec![];
        let free = (0..DESCRIPTORS).find(|&d| self.table[d as usize].is_none());
        if let Some(descriptor) = free {
            let mut next = self.with(thread, Thread::Opened(descriptor));
            if let Some(file) = next.new_file() {
                next.table[descriptor as usize] = Some(file);
                all.push(next);
            }
        }
        for descriptor in 0..DESCRIPTORS {
            all.push(self.begin(thread, Descriptors::one(descriptor), None));
            let mut replaced = self.clone();
            if let Some(file) = replaced.new_file() {
                all.push(replaced.begin(thread, Descriptors::one(descriptor), Some(file)));
            }
        }
        all.push(self.begin(thread, Descriptors::ALL, None));
        let mut shares = self.with(thread, Thread::Shares);
        shares.claims.are_over();
        all.push(shares);
        all
    }

    /// Worlds after each step that a thread may take.
    fn step(&self, thread: usize) -> Vec<World> {
        let done = Thread::Idle;
        let mut next = self.clone();
        match self.threads[thread] {
            Thread::Idle if self.left[thread] == 0 => return vec![],
            Thread::Idle => {
                next.left[thread] -= 1;
                return next.calls(thread);
            }
            Thread::Opened(descriptor) => {
                let asked = next.claims.ask(descriptor);
                next.threads[thread] =
                    asked.map_or(done, |ticket| Thread::Asked(descriptor, ticket));
            }
            Thread::Asked(descriptor, ticket) => {
                next.threads[thread] = Thread::Known(ticket, self.table[descriptor as usize]);
            }
            Thread::Known(ticket, file) => {
                let _ = next.claims.answered(ticket, file);
                next.threads[thread] = done;
            }
            Thread::Begun(ticket, which, file) => {
                if is(Mutant::EndsEarly) {
                    next.claims.end(ticket);
                }
                if !is(Mutant::TakesLate) {
                    next.take(which);
                }
                next.threads[thread] = Thread::Taken(ticket, which, file);
            }
            Thread::Taken(ticket, which, file) => {
                for descriptor in (0..DESCRIPTORS).filter(|&descriptor| which.has(descriptor)) {
                    next.table[descriptor as usize] = file;
                }
                next.threads[thread] = Thread::Executed(ticket, which);
            }
            Thread::Executed(ticket, which) => {
                if is(Mutant::TakesLate) {
                    next.take(which);
                }
                if !is(Mutant::EndsEarly) {
                    next.claims.end(ticket);
                }
                next.threads[thread] = done;
            }
            Thread::Shares => {
                next.take(Descriptors::ALL);
                next.is_shared = true;
                next.threads[thread] = done;
            }
        }
        vec![next]
    }

    /// All that may follow.
    fn next(&self) -> Vec<World> {
        let mut all: Vec<World> = (0..THREADS).flat_map(|thread| self.step(thread)).collect();
        if self.is_shared {
            let mut closed = self.clone();
            closed.table = [None; DESCRIPTORS as usize];
            all.push(closed);
        }
        all.into_iter().map(World::normal).collect()
    }

    /// Whether each claim is of the file that its descriptor is.
    fn is_right(&self) -> bool {
        let is_of =
            |(descriptor, file): &(u32, File)| self.table[*descriptor as usize] == Some(*file);
        self.claims.claimed.iter().all(is_of)
    }
}

/// Looks at each state that can be reached until one is wrong: how many, how many of them have a
/// claim, and whether one is wrong.
fn explore(mutant: Mutant) -> (usize, usize, bool) {
    MUTANT.set(Mutant::None);
    let starts = [([1, 1, 1], false), ([1, 1, 1], true), ([2, 2, 0], false), ([2, 2, 0], true)];
    let mut new: Vec<World> =
        starts.into_iter().map(|(left, is_claimed)| World::new(left, is_claimed)).collect();
    MUTANT.set(mutant);
    let mut known: HashSet<World> = new.iter().cloned().collect();
    let (mut claimed, mut is_wrong) = (0, false);
    while let Some(world) = new.pop() {
        claimed += usize::from(world.claims.are_some());
        is_wrong |= !world.is_right();
        if is_wrong {
            break;
        }
        new.extend(world.next().into_iter().filter(|world| known.insert(world.clone())));
    }
    MUTANT.set(Mutant::None);
    (known.len(), claimed, is_wrong)
}

#[test]
fn a_claim_is_of_the_file_that_its_descriptor_is() {
    let (worlds, claimed, is_wrong) = explore(Mutant::None);
    assert!(!is_wrong && worlds > 1000 && claimed > 100, "{worlds} {claimed} {is_wrong}");
}

#[test]
fn wrong_steps_of_claims_are_found() {
    for mutant in [
        Mutant::AsksBesideChanges,
        Mutant::TrustsOldAnswers,
        Mutant::EntersAfterTheEnd,
        Mutant::AsksAfterTheEnd,
        Mutant::TakesLate,
        Mutant::EndsEarly,
    ] {
        assert!(explore(mutant).2, "{mutant:?}");
    }
}

#[test]
fn a_descriptor_that_nobody_changes_is_claimed_once() {
    let mut claims = Claims::default();
    let question = claims.ask(5).unwrap();
    let other = claims.begin(Descriptors::between(6, 9));
    assert_eq!(claims.answered(question, Some('a')), Ok(()));
    assert_eq!((claims.get(5), claims.get(6)), (Some(&'a'), None));
    assert!(claims.ask(5).is_err() && claims.ask(7).is_err());
    claims.end(other);
    let nothing = claims.ask(7).unwrap();
    assert_eq!(claims.answered(nothing, None), Ok(()));
    assert_eq!(claims.get(7), None);
    // Two threads that claim the same one: one of them has it.
    let (one, two) = (claims.ask(8).unwrap(), claims.ask(8).unwrap());
    assert_eq!(claims.answered(two, Some('c')), Ok(()));
    assert_eq!(claims.answered(one, Some('b')), Err('b'));
    assert_eq!(claims.take(Descriptors::ALL), Some('a'));
    assert_eq!(claims.take(Descriptors::one(9)), None);
    assert_eq!(claims.take(Descriptors::one(8)), Some('c'));
    assert!(!claims.are_some());
}

#[test]
fn without_memory_nothing_is_asked_beside_a_change() {
    let mut claims: Claims<char> = Claims::default();
    let (ticket, failed) = crate::lists::failing::at(0, || claims.begin(Descriptors::one(3)));
    assert!(failed && claims.ask(4).is_err());
    claims.end(ticket);
    assert!(claims.ask(4).is_ok());
}

#[test]
fn numbers_of_devices_are_as_linux_has_them() {
    let number = |major, minor| super::Device::character(major, minor).map(|device| device.number);
    assert_eq!(number(1, 3), Some(0x103));
    assert_eq!(number(4095, 0xf_ffff), Some(0xffff_ffff));
    assert_eq!(number(240, 0x12345), Some(0x1230_f045));
    assert_eq!((number(4096, 0), number(0, 1 << 20)), (None, None));
}
