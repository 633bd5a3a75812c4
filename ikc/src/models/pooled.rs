//! Pooled proxies: each is one task's at a time, none leaves with a task's call, and no call is
//! executed twice.

use loom::sync::Arc;
use loom::thread;

use super::{Doorbell, SPACE, explore};
use crate::bell::{BellRef, BellWord};
use crate::pooled::{MemberRef, MemberWords};
use crate::slot::{Answer, SlotRef, SlotWords};
use crate::sync::{AtomicU32, BEGINS_LATE, NO_EXCHANGE, NO_LATE_RING, Ordering, REAL, spin};

/// Two tasks want a proxy that is about to leave.
fn claims<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        let shared = Arc::new((MemberWords::new(), AtomicU32::new(0)));
        let take = |leaves: bool| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, owners) = &*shared;
                let member = MemberRef::<MUTANT>::new(words);
                let is_mine = if leaves { member.leave() } else { member.claim() };
                if is_mine {
                    assert_eq!(owners.fetch_add(1, Ordering::Relaxed), 0, "two have it");
                    if !leaves {
                        owners.fetch_sub(1, Ordering::Relaxed);
                        member.free();
                    }
                }
            })
        };
        let all = [take(false), take(false), take(true)];
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// A proxy is killed at any moment of a call. Its task makes the call elsewhere where it has not
/// begun.
fn dies<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        // What it executed, and whether it is gone.
        let shared = Arc::new((MemberWords::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let member = |shared: &Arc<(MemberWords, AtomicU32, AtomicU32)>| {
            assert!(MemberRef::<MUTANT>::new(&shared.0).claim());
        };
        member(&shared);
        let proxy = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, executed, gone) = &*shared;
                let member = MemberRef::<MUTANT>::new(words);
                // It dies in the call, so what it would do behind that is not done.
                member.begin(|| {
                    executed.fetch_add(1, Ordering::Relaxed);
                    gone.store(1, Ordering::Release);
                });
            })
        };
        let killer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, executed, gone) = &*shared;
                if gone.load(Ordering::Acquire) == 0 {
                    return;
                }
                if !MemberRef::<MUTANT>::new(words).has_begun() {
                    executed.fetch_add(1, Ordering::Relaxed);
                }
                assert_eq!(executed.load(Ordering::Relaxed), 1, "executed twice");
            })
        };
        proxy.join().unwrap();
        killer.join().unwrap();
    });
}

/// Two tasks have their calls executed by one proxy, one after the other. The first one sees its
/// answer by itself; the second one sleeps, and a ring that comes before its answer leaves it
/// asleep, and its bell as it is.
fn serves<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        let bells = [BellWord::new(), BellWord::new()];
        let shared = Arc::new((SlotWords::new(), bells, Doorbell::default()));
        let proxy = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, bells, called) = &*shared;
                let slot = SlotRef::<MUTANT>::new(words);
                let mut rings = false;
                for _ in 0..2 {
                    while slot.worker_poll().is_none() {
                        if slot.worker_prepare_sleep() {
                            called.wait();
                            slot.worker_awake();
                        }
                    }
                    rings = slot.worker_complete(Answer::Done(1)) && {
                        let bell = &bells[slot.bell() as usize];
                        BellRef::<MUTANT>::new(bell).ring(SPACE).is_some()
                    };
                }
                rings
            })
        };
        let (words, bells, called) = &*shared;
        let slot = SlotRef::<MUTANT>::new(words);
        let mut sleeps = false;
        for task in 0..2 {
            if slot.lwk_post(1, [0; 6]) {
                called.ring();
            }
            slot.set_bell(task as u32);
            sleeps = slot.lwk_prepare_shared_sleep(BellRef::new(&bells[task]), SPACE, 0);
            while task == 0 && slot.lwk_poll().is_none() {
                spin();
            }
            if task == 0 {
                slot.lwk_awake();
            }
        }
        assert!(proxy.join().unwrap() || !sleeps, "lost wake-up");
    });
}

#[test]
fn a_task_is_rung_though_the_ring_for_the_task_before_is_late() {
    serves::<REAL>("pooled proxy of two tasks");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_late_ring_takes_the_place_of_the_next_task_s() {
    serves::<NO_LATE_RING>("pooled proxy of two tasks without a ring more");
}

#[test]
fn a_pooled_proxy_has_one_task_and_leaves_without_any() {
    claims::<REAL>("pooled proxy");
}

#[test]
fn a_call_that_a_dead_proxy_has_begun_is_not_made_again() {
    dies::<REAL>("pooled proxy that dies");
}

#[test]
#[should_panic(expected = "two have it")]
fn a_pooled_proxy_taken_without_an_exchange_is_two_tasks() {
    claims::<NO_EXCHANGE>("pooled proxy without exchange");
}

#[test]
#[should_panic(expected = "executed twice")]
fn a_call_begun_before_it_is_said_is_made_twice() {
    dies::<BEGINS_LATE>("pooled proxy that says so late");
}
