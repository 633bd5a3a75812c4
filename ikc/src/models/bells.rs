//! Bells: whose rings the module passes on, and how the LWK finds the threads they are for.

use loom::sync::Arc;
use loom::thread;

use super::{Doorbell, SPACE, explore};
use crate::bell::{BellRef, BellWord};
use crate::mailbox::Bells;
use crate::sync::{AtomicU32, AtomicU64, IN_C, NO_COUNT, NO_EXCHANGE, NO_RELEASE, Ordering, REAL};

/// The ring for a call that the thread did not wait for comes when it sleeps in the next one.
/// Neither is refused. A stranger gets none.
fn late_ring_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let shared = Arc::new((BellWord::new(), AtomicU32::new(0)));
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || {
                for call in 1..=2 {
                    BellRef::<MUTANT>::new(&shared.0).arm(SPACE, 3);
                    shared.1.store(call, Ordering::Release);
                }
            })
        };
        let worker = thread::spawn(move || {
            let bell = BellRef::<MUTANT>::new(&shared.0);
            for call in 1..=2 {
                while shared.1.load(Ordering::Acquire) < call {
                    thread::yield_now();
                }
                assert_eq!(bell.ring(SPACE + 1), None);
                assert_eq!(bell.ring(SPACE), Some(3));
            }
            assert_eq!(bell.ring(SPACE), None);
        });
        lwk.join().unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn late_ring_leaves_one_for_the_next_call() {
    late_ring_model::<REAL>("late ring");
    late_ring_model::<IN_C>("late ring in C");
}

#[test]
#[should_panic(expected = "assertion")]
fn late_ring_without_count_takes_that_of_the_next_call() {
    late_ring_model::<NO_COUNT>("late ring without count");
}

/// Two workers ring bells of one word; the CPU halts until both threads are awake. An
/// answer is there when its bell is taken.
fn bells_model<const MUTANT: u8>(name: &str, rings: &'static [u32], preemptions: Option<usize>) {
    explore(name, preemptions, move || {
        let zero = || AtomicU64::new(0);
        let shared = Arc::new((zero(), [zero(), zero()], [zero(), zero()], Doorbell::default()));
        let workers: Vec<_> = rings
            .iter()
            .enumerate()
            .map(|(i, &bell)| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (rung, words, answers, ipi) = &*shared;
                    answers[i].store(1, Ordering::Relaxed);
                    Bells::<MUTANT>::new(rung, words).ring(bell);
                    ipi.ring();
                })
            })
            .collect();
        let lwk = thread::spawn(move || {
            let (rung, words, answers, ipi) = &*shared;
            let bells = Bells::<MUTANT>::new(rung, words);
            let mut awake = vec![false; rings.len()];
            while awake.contains(&false) {
                if !bells.any() {
                    ipi.wait();
                }
                bells.take(|bell| {
                    let mut rang_for = 0;
                    for (i, _) in rings.iter().enumerate().filter(|(_, r)| **r == bell) {
                        let answered = answers[i].load(Ordering::Relaxed) == 1;
                        awake[i] |= answered;
                        rang_for += u32::from(answered);
                    }
                    assert!(rang_for > 0, "rung without an answer");
                });
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        lwk.join().unwrap();
    });
}

#[test]
fn bells_wake_their_threads() {
    bells_model::<REAL>("bells, one", &[70], None);
    bells_model::<REAL>("bells of one word", &[3, 4], Some(2));
    bells_model::<REAL>("one bell for two", &[5, 5], Some(2));
    bells_model::<IN_C>("bells in C, one", &[70], None);
    bells_model::<IN_C>("bells in C of one word", &[3, 4], Some(2));
}

#[test]
#[should_panic(expected = "rung without an answer")]
fn bells_in_c_without_release_come_before_the_answer() {
    bells_model::<{ IN_C | NO_RELEASE }>("bells in C without release", &[70], None);
}

/// Two workers ring a bell that was armed once: one of them does.
fn two_rings_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let word = Arc::new(BellWord::new());
        BellRef::<REAL>::new(&word).arm(SPACE, 3);
        let workers = [(); 2].map(|()| {
            let word = word.clone();
            thread::spawn(move || BellRef::<MUTANT>::new(&word).ring(SPACE).is_some())
        });
        let rings = workers.map(|worker| usize::from(worker.join().unwrap()));
        assert_eq!(rings[0] + rings[1], 1, "rings of a bell that was armed once");
    });
}

#[test]
fn a_ring_is_taken_once() {
    two_rings_model::<REAL>("two rings");
    two_rings_model::<IN_C>("two rings in C");
}

#[test]
#[should_panic(expected = "rings of a bell that was armed once")]
fn a_ring_in_c_without_exchange_is_taken_twice() {
    two_rings_model::<{ IN_C | NO_EXCHANGE }>("two rings in C without exchange");
}

#[test]
#[should_panic(expected = "rung without an answer")]
fn bells_without_release_come_before_the_answer() {
    bells_model::<NO_RELEASE>("bells without release", &[70], None);
}
