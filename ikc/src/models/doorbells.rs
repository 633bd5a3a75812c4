//! Events of the LWK's CPUs, and the handlers of several doorbells that take them.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Doorbell, explore};
use crate::doorbell::{DoorbellRef, DoorbellWords};
use crate::mailbox::Outbound as Events;
use crate::ring::{EntryPair, Ring, ToLinux};
use crate::sync::{AtomicU32, IN_C, NO_FENCE, NO_RELEASE, Ordering, REAL, SEES_LATE};

/// An outbound ring: its words, the lock of its readers, and what its entries are about.
struct Outbound {
    words: [AtomicU32; 3],
    entries: [EntryPair; 2],
    contents: [AtomicU32; 2],
    lock: Mutex<()>,
}

impl Outbound {
    fn new() -> Self {
        let new = || AtomicU32::new(0);
        Self {
            words: [new(), new(), new()],
            entries: [EntryPair::new(), EntryPair::new()],
            contents: [new(), new()],
            lock: Mutex::new(()),
        }
    }

    fn ring<const MUTANT: u8>(&self) -> Ring<'_, ToLinux, MUTANT> {
        let [head, tail, seen] = &self.words;
        Ring::new(head, tail, seen, &self.entries)
    }

    /// The CPU puts event `number` into it, from 1 on.
    fn push<const MUTANT: u8>(&self, number: u32) {
        self.contents[number as usize - 1].store(number, Ordering::Relaxed);
        self.ring::<MUTANT>().push(number.into()).expect("there is room");
    }

    /// A handler reads all that is new. How many there were.
    fn drain<const MUTANT: u8>(&self) -> u32 {
        let _locked = self.lock.lock().unwrap();
        let mut count = 0;
        while let Some(number) = Events::new(self.ring::<MUTANT>()).pop() {
            assert_eq!(
                u64::from(self.contents[number as usize - 1].load(Ordering::Relaxed)),
                number
            );
            count += 1;
        }
        count
    }
}

/// Each CPU of the LWK has an event for each of the doorbells named, one after the other. A handler
/// for each doorbell is interrupted, once more for what comes while it runs, and takes what there
/// is.
fn doorbells_model<const MUTANT: u8>(
    name: &str,
    cpus: &'static [&'static [usize]],
    doorbells: usize,
    preemptions: Option<usize>,
) {
    /// Counts that the handler of a doorbell has seen. One handler runs at a time.
    type Seen = std::sync::Mutex<[u32; 2]>;
    struct Shared {
        rings: Vec<Outbound>,
        doorbells: Vec<(DoorbellWords, Doorbell, Seen)>,
        taken: AtomicU32,
    }
    let events: u32 = cpus.iter().map(|rung| rung.len() as u32).sum();
    explore(name, preemptions, move || {
        let shared = Arc::new(Shared {
            rings: cpus.iter().map(|_| Outbound::new()).collect(),
            doorbells: (0..doorbells)
                .map(|_| (DoorbellWords::new(1), Doorbell::default(), Seen::default()))
                .collect(),
            taken: AtomicU32::new(0),
        });
        let lwk: Vec<_> = (0..cpus.len())
            .map(|cpu| {
                let shared = shared.clone();
                thread::spawn(move || {
                    for (i, &to) in cpus[cpu].iter().enumerate() {
                        shared.rings[cpu].push::<MUTANT>(i as u32 + 1);
                        let (words, interrupt, _) = &shared.doorbells[to];
                        assert_eq!(DoorbellRef::<MUTANT>::new(words).ring(cpu), 1);
                        interrupt.ring();
                    }
                })
            })
            .collect();
        let handle = |which: usize, shared: &Shared| {
            let (words, _, seen) = &shared.doorbells[which];
            let mut seen = seen.lock().unwrap();
            DoorbellRef::<MUTANT>::new(words).take(&mut *seen, |cpu| {
                let count = shared.rings[cpu].drain::<MUTANT>();
                shared.taken.fetch_add(count, Ordering::Relaxed);
            });
        };
        let handlers: Vec<_> = (0..doorbells)
            .filter(|which| cpus.iter().any(|rung| rung.contains(which)))
            .map(|which| {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.doorbells[which].1.wait();
                    handle(which, &shared);
                })
            })
            .collect();
        lwk.into_iter().for_each(|cpu| cpu.join().unwrap());
        handlers.into_iter().for_each(|handler| handler.join().unwrap());
        // An interrupt that came while its handler ran has it run once more.
        for which in 0..doorbells {
            if *shared.doorbells[which].1.rung.lock().unwrap() {
                handle(which, &shared);
            }
        }
        assert_eq!(shared.taken.load(Ordering::Relaxed), events, "lost event");
    });
}

const ONE: &[&[usize]] = &[&[0]];
const TWO_EVENTS: &[&[usize]] = &[&[0, 0]];
const TWO_CPUS: &[&[usize]] = &[&[0], &[0]];

#[test]
fn a_handler_finds_what_its_doorbell_was_rung_for() {
    doorbells_model::<REAL>("doorbell, one event", ONE, 1, None);
    doorbells_model::<REAL>("doorbell, two events", TWO_EVENTS, 1, None);
    doorbells_model::<REAL>("doorbell of two CPUs", TWO_CPUS, 1, Some(3));
    doorbells_model::<IN_C>("doorbell in C, one event", ONE, 1, None);
    doorbells_model::<IN_C>("doorbell in C, two events", TWO_EVENTS, 1, Some(3));
    doorbells_model::<IN_C>("doorbell in C of two CPUs", TWO_CPUS, 1, Some(2));
}

#[test]
fn two_handlers_share_the_rings() {
    doorbells_model::<REAL>("two doorbells of one CPU", &[&[0, 1]], 2, Some(3));
    doorbells_model::<REAL>("two doorbells of two CPUs", &[&[0], &[1]], 2, Some(2));
    doorbells_model::<IN_C>("two doorbells in C of one CPU", &[&[0, 1]], 2, Some(2));
}

#[test]
#[should_panic(expected = "lost event")]
fn a_handler_that_remembers_after_it_read_loses_an_event() {
    doorbells_model::<SEES_LATE>("doorbell seen late", TWO_EVENTS, 1, None);
}

#[test]
#[should_panic(expected = "lost event")]
fn a_doorbell_in_c_without_acquire_is_taken_before_its_event() {
    doorbells_model::<{ IN_C | NO_RELEASE }>("doorbell in C without acquire", TWO_CPUS, 1, Some(3));
}

#[test]
#[should_panic(expected = "lost event")]
fn a_doorbell_without_release_is_rung_before_its_event() {
    doorbells_model::<NO_RELEASE>("doorbell without release", TWO_CPUS, 1, Some(3));
}

/// The interrupt moves while a CPU rings: what is sent to where it was is not heard any more, and
/// the CPU that moves it looks.
fn moving_model<const MUTANT: u8>(name: &str) {
    const NEW: u64 = 2;
    explore(name, None, || {
        let shared = Arc::new((Outbound::new(), DoorbellWords::new(1)));
        let other = shared.clone();
        let lwk = thread::spawn(move || {
            other.0.push::<MUTANT>(1);
            DoorbellRef::<MUTANT>::new(&other.1).ring(0) == NEW
        });
        let mover = thread::spawn(move || {
            DoorbellRef::<MUTANT>::new(&shared.1).move_to(NEW);
            shared.0.drain::<MUTANT>() == 1
        });
        let (heard, found) = (lwk.join().unwrap(), mover.join().unwrap());
        assert!(heard || found, "lost event");
    });
}

#[test]
fn the_mover_of_a_doorbell_finds_what_rang_elsewhere() {
    moving_model::<REAL>("doorbell that moves");
    moving_model::<IN_C>("doorbell in C that moves");
}

#[test]
#[should_panic(expected = "lost event")]
fn a_doorbell_in_c_that_moves_without_fence_loses_an_event() {
    moving_model::<{ IN_C | NO_FENCE }>("doorbell in C that moves without fence");
}

#[test]
#[should_panic(expected = "lost event")]
fn a_doorbell_that_moves_without_fence_loses_an_event() {
    moving_model::<NO_FENCE>("doorbell that moves without fence");
}
