//! Models of the rings by which a program posts: each submission is executed once, with its
//! arguments, or never; no worker sleeps while one waits that no worker takes ([`workers`]);
//! results have always room; a waiter is rung once.

mod workers;

use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{explore, no_lost_wake_up};
use crate::posted::{
    ARGS, Armed, BEGINS_ANYWAY, Begun, Cancel, Credits, Entry, FREES_EARLY, Finished,
    FinishedEntry, Idle, LEAVES_TOKEN, Look, NO_TAG, Record, RecordRef, Slots, Submission,
    Submissions, Ticket, Watch,
};
use crate::sync::{AtomicU32, AtomicU64, NO_FENCE, NO_RELEASE, Ordering, REAL};

/// A queue of `N` credits.
struct Queue<const N: usize, const MUTANT: u8> {
    words: [AtomicU64; 5],
    entries: [Entry; N],
    finished: [FinishedEntry; N],
    records: [Record; N],
    links: [AtomicU32; N],
    idle: Idle<MUTANT>,
    armed: Armed<MUTANT>,
    watch: Watch<MUTANT>,
    /// Not zero: one more worker may be started.
    places: AtomicU32,
    /// How often each index was executed, or is owned.
    counts: [AtomicU32; N],
}

impl<const N: usize, const MUTANT: u8> Queue<N, MUTANT> {
    fn new() -> Self {
        let queue = Self {
            words: [N as u64, N as u64, N as u64, N as u64, 0].map(AtomicU64::new),
            entries: [(); N].map(|()| Entry::new()),
            finished: [(); N].map(|()| FinishedEntry::new()),
            records: std::array::from_fn(|index| Record::new(index as u16)),
            links: [(); N].map(|()| AtomicU32::new(0)),
            idle: Idle::new(),
            armed: Armed::new(),
            watch: Watch::new(),
            places: AtomicU32::new(0),
            counts: [(); N].map(|()| AtomicU32::new(0)),
        };
        (0..N).for_each(|index| queue.credits().give(index as u16));
        queue
    }

    fn submissions(&self) -> Submissions<'_, MUTANT> {
        Submissions::new(&self.words[0], Slots::new(&self.entries))
    }

    fn finished(&self) -> Finished<'_, MUTANT> {
        Finished::new(&self.words[2], &self.words[3], Slots::new(&self.finished))
    }

    fn credits(&self) -> Credits<'_, MUTANT> {
        Credits::new(&self.words[4], Slots::new(&self.links))
    }

    fn record(&self, ticket: Ticket) -> RecordRef<'_, MUTANT> {
        RecordRef::new(&self.records[usize::from(ticket.index()) % N])
    }

    fn ticket(index: u16) -> Ticket {
        Ticket::zero(index).next()
    }

    fn post(&self, position: u64, what: u32, ticket: Ticket) {
        self.submissions().fill(position, |_| what.into()).post(what, ticket.word());
    }

    /// A worker executes what it has taken: the result is ten times what was posted.
    fn execute(&self, taken: Submission) -> Ticket {
        assert_eq!(taken.args, [u64::from(taken.what); ARGS], "stale arguments");
        let ticket = Ticket::from_word(taken.ticket).expect("a ticket");
        assert_eq!(self.record(ticket).begin(ticket), Begun::Run);
        let _ = self.record(ticket).complete(ticket, u64::from(taken.what) * 10);
        ticket
    }
}

fn submission(what: u32, ticket: Ticket) -> Submission {
    Submission { what, ticket: ticket.word(), args: [what.into(); ARGS] }
}

/// One producer posts `count` times with `N` credits, and picks each result up; one worker.
fn single_model<const N: usize, const MUTANT: u8>(name: &str, count: u32) {
    explore(name, Some(2), move || {
        let queue = Arc::new(Queue::<N, MUTANT>::new());
        let other = queue.clone();
        let worker = thread::spawn(move || {
            for _ in 0..count {
                loop {
                    if let Some(taken) = other.submissions().take() {
                        let _ = other.execute(taken);
                        break;
                    }
                    thread::yield_now();
                }
            }
        });
        let producer = thread::spawn(move || {
            let mut tickets: [Ticket; N] = std::array::from_fn(|index| Ticket::zero(index as u16));
            let mut first = 1;
            while first <= count {
                let lap = first..=(first + N as u32 - 1).min(count);
                for (what, ticket) in lap.clone().zip(&mut tickets) {
                    *ticket = ticket.next();
                    queue.post((N as u32 + what - 1).into(), what, *ticket);
                }
                for (what, ticket) in lap.zip(tickets) {
                    while queue.record(ticket).result(ticket).is_none() {
                        thread::yield_now();
                    }
                    assert_eq!(queue.record(ticket).look(ticket), Look::Done(u64::from(what) * 10));
                }
                first += N as u32;
            }
        });
        producer.join().unwrap();
        worker.join().unwrap();
    });
}

/// Two workers find what was posted, and what is posted meanwhile.
fn workers_model<const MUTANT: u8>(name: &str) {
    explore(name, Some(2), move || {
        let queue = Arc::new(Queue::<2, MUTANT>::new());
        queue.post(2, 0, Queue::<2, MUTANT>::ticket(0));
        let run = |queue: &Queue<2, MUTANT>| {
            while let Some(taken) = queue.submissions().take() {
                let ticket = queue.execute(taken);
                let before = queue.counts[usize::from(ticket.index())].swap(1, Ordering::Relaxed);
                assert_eq!(before, 0, "executed twice");
            }
        };
        let workers = [(); 2].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || run(&queue))
        });
        queue.post(3, 1, Queue::<2, MUTANT>::ticket(1));
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        run(&queue);
        assert!(queue.counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    });
}

#[test]
fn each_submission_is_executed_once_with_its_arguments() {
    single_model::<1, REAL>("one credit, used twice", 2);
    single_model::<2, REAL>("two credits, three submissions", 3);
    workers_model::<REAL>("two workers");
}

#[test]
#[should_panic(expected = "assertion")]
fn submissions_without_release_show_stale_arguments() {
    single_model::<1, NO_RELEASE>("submissions without release", 1);
}

/// Two producers share `N` credits, if there is one for each of them; one worker gives them back.
fn shared_model<const N: usize, const MUTANT: u8>(name: &str) {
    explore(name, Some(2), || {
        let queue = Arc::new(Queue::<N, MUTANT>::new());
        let producers = [1, 2].map(|what| {
            let queue = queue.clone();
            thread::spawn(move || {
                let Some(index) = queue.credits().take() else { return 0 };
                // As many generations as this credit was used: the worker counts.
                let uses = queue.counts[usize::from(index)].load(Ordering::Relaxed);
                let first = Queue::<N, MUTANT>::ticket(index);
                let ticket = (0..uses).fold(first, |ticket, _| ticket.next());
                queue.submissions().post_shared(&queue.words[1], &submission(what, ticket));
                what
            })
        });
        let run = |queue: &Queue<N, MUTANT>| {
            let mut seen = 0;
            while let Some(taken) = queue.submissions().take() {
                assert_eq!(seen & taken.what, 0, "twice");
                seen |= taken.what;
                let ticket = queue.execute(taken);
                queue.counts[usize::from(ticket.index())].fetch_add(1, Ordering::Relaxed);
                queue.credits().give(ticket.index());
            }
            seen
        };
        let other = queue.clone();
        let worker = thread::spawn(move || {
            let seen = run(&other);
            thread::yield_now();
            seen | run(&other)
        });
        let posted = producers.map(|producer| producer.join().unwrap());
        let seen = worker.join().unwrap();
        assert_eq!(seen + run(&queue), posted[0] + posted[1]);
    });
}

#[test]
fn producers_that_share_credits_find_room() {
    shared_model::<1, REAL>("two producers, one credit");
    shared_model::<2, REAL>("two producers, two credits");
}

#[test]
#[should_panic(expected = "assertion")]
fn shared_submissions_without_release_show_stale_arguments() {
    shared_model::<2, NO_RELEASE>("shared submissions without release");
}

/// One thread takes two credits, another takes two and gives the first one back.
fn credits_model<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        let queue = Arc::new(Queue::<4, MUTANT>::new());
        fn own<const MUTANT: u8>(queue: &Queue<4, MUTANT>) -> Option<u16> {
            let index = queue.credits().take()?;
            let before = queue.counts[usize::from(index)].swap(1, Ordering::Relaxed);
            assert_eq!(before, 0, "credit {index} is given to two");
            Some(index)
        }
        let other = queue.clone();
        let first = thread::spawn(move || {
            let _ = (own(&queue), own(&queue));
        });
        let second = thread::spawn(move || {
            let (index, _) = (own(&other).expect("there are four"), own(&other));
            other.counts[usize::from(index)].store(0, Ordering::Relaxed);
            other.credits().give(index);
        });
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn a_credit_has_one_owner() {
    credits_model::<REAL>("credits");
}

#[test]
#[should_panic(expected = "is given to two")]
fn credits_without_a_tag_have_two_owners() {
    credits_model::<NO_TAG>("credits without a tag");
}

/// Workers finish one submission after the other with one credit each; the owner takes any.
fn finished_model<const N: usize, const MUTANT: u8>(name: &str) {
    explore(name, Some(if N > 1 { 1 } else { 2 }), move || {
        let queue = Arc::new(Queue::<N, MUTANT>::new());
        // counts[i]: how often credit i was posted.
        queue.counts.iter().for_each(|count| count.store(1, Ordering::Relaxed));
        let worker = |index: usize| {
            let queue = queue.clone();
            thread::spawn(move || {
                // The first one comes again.
                for round in 1..=if index == 0 { 2 } else { 1 } {
                    while queue.counts[index].load(Ordering::Acquire) < round {
                        thread::yield_now();
                    }
                    queue.finished().push(index as u16);
                }
            })
        };
        let workers: Vec<_> = (0..N).map(worker).collect();
        let owner = thread::spawn(move || {
            for _ in 0..=N {
                while queue.finished().is_empty() {
                    thread::yield_now();
                }
                if MUTANT == FREES_EARLY {
                    queue.counts.iter().for_each(|count| {
                        count.fetch_add(1, Ordering::Release);
                    });
                    thread::yield_now();
                }
                let index = queue.finished().take().expect("no other thread takes");
                assert!(usize::from(index) < N);
                if MUTANT != FREES_EARLY {
                    queue.counts[usize::from(index)].fetch_add(1, Ordering::Release);
                }
            }
        });
        owner.join().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn results_have_room_for_each_holder_of_a_credit() {
    finished_model::<1, REAL>("finished, one credit");
    finished_model::<2, REAL>("finished, two credits");
}

#[test]
#[should_panic(expected = "no room")]
fn results_have_no_room_where_credits_are_given_back_early() {
    finished_model::<1, FREES_EARLY>("finished, credits given back early");
}

/// A waiter sleeps, and gives up, while a worker executes what it waits for. It is rung as often as
/// it has to wait for that.
fn waiter_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let queue = Arc::new(Queue::<1, MUTANT>::new());
        let ticket = Queue::<1, MUTANT>::ticket(0);
        let other = queue.clone();
        let worker = thread::spawn(move || {
            assert_eq!(other.record(ticket).begin(ticket), Begun::Run);
            let bell = other.record(ticket).complete(ticket, 5).bell;
            assert!(bell == 0 || bell == 9);
            u32::from(bell == 9)
        });
        let waiter = thread::spawn(move || {
            let record = queue.record(ticket);
            if record.prepare_sleep(ticket, 9) {
                u32::from(!record.leave(ticket, 9))
            } else {
                assert_eq!(record.look(ticket), Look::Done(5));
                0
            }
        });
        assert_eq!(worker.join().unwrap(), waiter.join().unwrap(), "rings, and rings waited for");
    });
}

#[test]
fn a_waiter_that_gives_up_waits_for_its_ring() {
    waiter_model::<REAL>("waiter gives up");
}

#[test]
#[should_panic(expected = "rings waited for")]
fn a_waiter_that_does_not_look_leaves_a_ring_behind() {
    waiter_model::<LEAVES_TOKEN>("waiter leaves a ring behind");
}

/// A submission is cancelled, and picked up, while a worker takes it. It was executed or cancelled;
/// its credit comes back once.
fn cancel_model<const MUTANT: u8>(name: &str, has_waiter: bool) {
    explore(name, Some(3), move || {
        let queue = Arc::new(Queue::<1, MUTANT>::new());
        let ticket = Queue::<1, MUTANT>::ticket(0);
        let waiter = has_waiter.then(|| {
            let queue = queue.clone();
            thread::spawn(move || u32::from(queue.record(ticket).prepare_sleep(ticket, 9)))
        });
        let other = queue.clone();
        // Executed; credits given back; rings.
        let worker = thread::spawn(move || {
            let record = other.record(ticket);
            match record.begin(ticket) {
                Begun::Run => (1, 0, u32::from(record.complete(ticket, 5).bell == 9)),
                Begun::Cancelled => match record.complete_cancelled(ticket, 6) {
                    Some(completed) => (0, 0, u32::from(completed.bell == 9)),
                    None => (0, 1, 0),
                },
                Begun::Abandoned => (0, 1, 0),
                Begun::Forged => panic!("it is posted"),
            }
        });
        let owner = thread::spawn(move || {
            let record = queue.record(ticket);
            let cancel = record.cancel(ticket);
            let rings = u32::from(cancel == Cancel::Never(9));
            let given = match record.look(ticket) {
                Look::Cancelled => u32::from(!record.abandon(ticket)),
                Look::Done(_) => 1,
                Look::NotYet => u32::from(!has_waiter || cancel == Cancel::Runs),
            };
            (matches!(cancel, Cancel::Never(_)), given, rings)
        });
        let (executed, by_worker, worker_rings) = worker.join().unwrap();
        let (never, by_owner, owner_rings) = owner.join().unwrap();
        assert_eq!(u32::from(never) + executed, 1, "executed, though it was cancelled, or neither");
        assert_eq!(by_worker + by_owner, 1, "the credit");
        let sleeps = waiter.map_or(0, |waiter| waiter.join().unwrap());
        assert_eq!(worker_rings + owner_rings, sleeps, "rings");
    });
}

#[test]
fn a_cancelled_submission_is_not_executed() {
    cancel_model::<REAL>("cancellation", false);
    cancel_model::<REAL>("cancellation, and a waiter", true);
}

#[test]
#[should_panic(expected = "though it was cancelled")]
fn without_an_exchange_a_cancelled_submission_is_executed() {
    cancel_model::<BEGINS_ANYWAY>("cancellation without an exchange", false);
}

/// A thread that has found nothing asks to be told, while a worker finishes something.
fn armed_model<const MUTANT: u8>(name: &str) {
    no_lost_wake_up(
        name,
        Queue::<1, MUTANT>::new,
        |queue| queue.armed.arm(|| (), || queue.finished().is_empty()),
        |queue| {
            queue.finished().push(0);
            queue.armed.tells()
        },
    );
}

#[test]
fn a_waiter_for_any_is_told() {
    armed_model::<REAL>("waits for any");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn without_a_fence_a_waiter_for_any_is_not_told() {
    armed_model::<NO_FENCE>("waits for any, without fence");
}
