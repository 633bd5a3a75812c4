//! Rings: one in which there is seldom room, and two of opposite directions with their entries on
//! one line.

use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::ring::{EntryPair, Ring, Side, ToLinux, ToLwk, Word};
use crate::sync::{AtomicU32, NO_LAP, NO_RELEASE, Ordering, REAL};

/// A ring of one entry takes `count` values: the producer waits until there is room again.
fn ring_model<const MUTANT: u8>(name: &str, count: u32) {
    explore(name, Some(3), move || {
        let words = [0; 3].map(AtomicU32::new);
        let shared = Arc::new((words, [EntryPair::new()]));
        fn ring<const MUTANT: u8>(
            shared: &([AtomicU32; 3], [EntryPair; 1]),
        ) -> Ring<'_, ToLwk, MUTANT> {
            let ([head, tail, seen], entries) = shared;
            Ring::new(head, tail, seen, entries)
        }
        let other = shared.clone();
        let producer = thread::spawn(move || {
            for value in 1..=count {
                while ring::<MUTANT>(&other).push(value).is_err() {
                    thread::yield_now();
                }
            }
        });
        let consumer = thread::spawn(move || {
            for value in 1..=count {
                loop {
                    if let Some(got) = ring::<MUTANT>(&shared).pop() {
                        assert_eq!(got, value);
                        break;
                    }
                    thread::yield_now();
                }
            }
        });
        producer.join().unwrap();
        consumer.join().unwrap();
    });
}

#[test]
fn ring_is_reused_only_after_it_was_read() {
    ring_model::<REAL>("ring of one", 3);
}

#[test]
#[should_panic(expected = "assertion")]
fn ring_without_laps_shows_an_entry_twice() {
    ring_model::<NO_LAP>("ring without laps", 2);
}

/// Two rings of one pair of entries: each message to the LWK is answered by one to Linux.
fn conversation_model<const MUTANT: u8>(name: &str, count: u32) {
    explore(name, Some(3), move || {
        let words = [0; 6].map(AtomicU32::new);
        let contents = [AtomicU32::new(0), AtomicU32::new(0)];
        let shared = Arc::new((words, [EntryPair::new()], contents));
        type Shared = ([AtomicU32; 6], [EntryPair; 1], [AtomicU32; 2]);
        fn rings<const M: u8>(shared: &Shared) -> (Ring<'_, ToLwk, M>, Ring<'_, ToLinux, M>) {
            let ([a, b, c, d, e, f], entries, _) = shared;
            (Ring::new(a, b, c, entries), Ring::new(d, e, f, entries))
        }
        fn take<S: Side, const M: u8>(ring: &Ring<'_, S, M>) -> <S::Word as Word>::Value {
            loop {
                match ring.pop() {
                    Some(value) => return value,
                    None => thread::yield_now(),
                }
            }
        }
        let other = shared.clone();
        let linux = thread::spawn(move || {
            let (there, back) = rings::<MUTANT>(&other);
            for value in 1..=count {
                other.2[0].store(value, Ordering::Relaxed);
                there.push(value).expect("the one before was answered");
                assert_eq!(take(&back), value.into());
                assert_eq!(other.2[1].load(Ordering::Relaxed), value, "stale answer");
            }
        });
        let lwk = thread::spawn(move || {
            let (there, back) = rings::<MUTANT>(&shared);
            for value in 1..=count {
                assert_eq!(take(&there), value);
                assert_eq!(shared.2[0].load(Ordering::Relaxed), value, "stale message");
                shared.2[1].store(value, Ordering::Relaxed);
                back.push(value.into()).expect("the one before was taken");
            }
        });
        linux.join().unwrap();
        lwk.join().unwrap();
    });
}

#[test]
fn rings_that_share_a_line_carry_message_and_answer() {
    conversation_model::<REAL>("conversation", 3);
}

#[test]
#[should_panic(expected = "stale")]
fn a_conversation_without_release_shows_stale_contents() {
    conversation_model::<NO_RELEASE>("conversation without release", 1);
}
