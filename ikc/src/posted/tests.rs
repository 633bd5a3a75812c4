//! Rings, credits and records against simple models, and with any words in them.

use super::*;
use crate::sync::{AtomicU32, REAL};
use proptest::prelude::*;
use std::array::from_fn;
use std::collections::VecDeque;
use std::vec::Vec;

const SLOTS: usize = 8;

struct Words {
    head: AtomicU64,
    tail: AtomicU64,
    top: AtomicU64,
    entries: [Entry; SLOTS],
    finished: [FinishedEntry; SLOTS],
    links: [AtomicU32; SLOTS],
    records: [Record; SLOTS],
}

impl Words {
    fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            top: AtomicU64::new(0),
            entries: from_fn(|_| Entry::new()),
            finished: from_fn(|_| FinishedEntry::new()),
            links: from_fn(|_| AtomicU32::new(0)),
            records: from_fn(|index| Record::new(index as u16)),
        }
    }

    const fn submissions(&self) -> Submissions<'_> {
        Submissions::new(&self.head, Slots::new(&self.entries))
    }

    const fn finished(&self) -> Finished<'_> {
        Finished::new(&self.head, &self.tail, Slots::new(&self.finished))
    }

    const fn credits(&self) -> Credits<'_> {
        Credits::new(&self.top, Slots::new(&self.links))
    }

    fn record(&self, ticket: Ticket) -> RecordRef<'_> {
        RecordRef::new(Slots::new(&self.records).at(ticket.index().into()))
    }
}

const CASES: u32 = if cfg!(miri) { 4 } else { 256 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn submissions_are_a_queue(start in any::<u64>(), ops in proptest::collection::vec(any::<bool>(), 0..200)) {
        let words = Words::new();
        let ring = words.submissions();
        let mut tail = ring.reset();
        // Positions wrap as well.
        if start % 2 == 1 {
            tail = start & !7 | 1 << 35;
            words.head.store(tail, Ordering::Relaxed);
        }
        let mut model = VecDeque::new();
        for (what, posts) in (0..).zip(ops) {
            if posts && model.len() < SLOTS {
                let args = from_fn(|index| u64::from(what) * 10 + index as u64);
                ring.fill(tail, |index| args[index]).post(what, what.into());
                tail = tail.wrapping_add(1);
                model.push_back(Submission { what, ticket: what.into(), args });
            } else {
                prop_assert_eq!(ring.take(), model.pop_front());
            }
            prop_assert_eq!(ring.is_empty(), model.is_empty());
        }
    }

    /// Whatever stands in the words, no more are taken than there are, and each operation ends.
    #[test]
    fn any_words_are_taken_once_at_most(
        head in any::<u64>(), tail in any::<u64>(), top in any::<u64>(), seed in any::<u64>(), fits in any::<bool>(),
    ) {
        let words = Words::new();
        let mut state = seed | 1;
        let mut any = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state ^ state >> 29
        };
        let _ = words.submissions().reset();
        for index in 0..SLOTS as u64 {
            // Some look as if they were published.
            let position = if fits { head.wrapping_add(index) } else { any() };
            words.submissions().fill(position, |_| any_of(seed)).post(any() as u32, any());
            words.links[index as usize].store(any() as u32, Ordering::Relaxed);
        }
        words.head.store(head, Ordering::Relaxed);
        words.tail.store(tail, Ordering::Relaxed);
        words.top.store(top, Ordering::Relaxed);
        let taken: Vec<_> = std::iter::from_fn(|| words.submissions().take()).take(100).collect();
        prop_assert!(taken.len() <= SLOTS);
        let mut given = 0;
        words.credits().take_all(|index| {
            assert!(usize::from(index) < SLOTS);
            given += 1;
        });
        prop_assert!(given <= SLOTS);
        words.top.store(top, Ordering::Relaxed);
        for _ in 0..100 {
            prop_assert!(words.credits().take().is_none_or(|index| usize::from(index) < SLOTS));
        }
        words.finished().push(3);
        let finished = std::iter::from_fn(|| words.finished().take()).take(100).count();
        prop_assert!(finished <= SLOTS);
    }

    /// Whatever a record says, a worker executes what it has taken once at most, and nothing loops.
    #[test]
    fn any_record_is_survived(word in any::<u64>(), state in any::<u64>(), mask in any::<u64>()) {
        let words = Words::new();
        // Any generation and index.
        if let Some(ticket) = Ticket::from_word((word & 0x7fff_ffff_f00f_fff0) | 1) {
            let record = words.record(ticket);
            for state in [state, ticket.word() ^ mask & 0xff_0000f, ticket.word() ^ 1 << (mask % 64)] {
                record.reset(Ticket::from_live(state));
                let _ = record.begin(ticket);
                record.reset(Ticket::from_live(state));
                let _ = (record.cancel(ticket), record.look(ticket), record.abandon(ticket), record.is_asked(ticket));
                record.reset(Ticket::from_live(state));
                let _ = (record.prepare_sleep(ticket, 9), record.leave(ticket, 9));
                record.reset(Ticket::from_live(state));
                let _ = record.complete_cancelled(ticket, 1);
                record.complete(ticket, 7);
                prop_assert_eq!(record.look(ticket), Look::Done(7));
            }
        }
    }
}

const fn any_of(seed: u64) -> u64 {
    seed.rotate_left(17)
}

#[test]
fn a_ticket_is_positive_and_good_once() {
    let mut ticket = Ticket::zero(0xffff);
    for _ in 0..1000 {
        let next = ticket.next();
        assert!(next.word() as i64 > 0 && next != ticket && next.index() == 0xffff);
        assert_eq!(Ticket::from_word(next.word()), Some(next));
        assert_eq!(next.next_unless_last(), Some(next.next()));
        ticket = next;
    }
    // The generations begin anew.
    let last = Ticket::from_word(!0 >> 1 & !0xfff_ffff | 3 << 4 | 1).expect("a ticket");
    assert_eq!((last.next(), last.next_unless_last()), (Ticket::zero(3), None));
    for bad in [0, 2, 1 << 63 | 1, 1 << 20 | 1, !0] {
        assert_eq!(Ticket::from_word(bad), None);
    }
}

#[test]
fn credits_are_given_out_until_there_are_none() {
    let words = Words::new();
    let credits = words.credits();
    (0..SLOTS as u16).for_each(|index| credits.give(index));
    let mut taken: Vec<_> = std::iter::from_fn(|| credits.take()).collect();
    taken.sort_unstable();
    assert!(taken.iter().copied().eq(0..SLOTS as u16));
    [5, 2].into_iter().for_each(|index| credits.give(index));
    let mut all = Vec::new();
    credits.take_all(|index| all.push(index));
    assert_eq!((all, credits.take()), (std::vec![2, 5], None));
}

#[test]
fn one_sleeper_is_taken_for_each_submission_unless_a_worker_polls() {
    let idle = Idle::<REAL>::new();
    assert!(idle.are_all_busy() && idle.has_no_sleeper() && idle.take_sleeper().is_none());
    for worker in [3, 31] {
        idle.begin_polling(worker);
        assert_eq!(idle.prepare_sleep(worker, || true), Ok(true));
    }
    idle.begin_polling(0);
    assert!(!idle.has_no_sleeper() && idle.take_sleeper().is_none(), "worker 0 polls");
    idle.end_polling(0);
    assert!(idle.leaves_more(|| false) && !idle.leaves_more(|| true));
    assert_eq!(
        [idle.take_sleeper(), idle.take_sleeper(), idle.take_sleeper()],
        [Some(3), Some(31), None]
    );
    assert_eq!(idle.prepare_sleep(7, || false), Ok(false));
    let woken = idle.prepare_sleep(7, || {
        assert!(idle.wake(7) && !idle.wake(7));
        false
    });
    assert!(woken.is_err(), "another thread wakes it");
}

#[test]
fn several_threads_lose_nothing() {
    const COUNT: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let words = Words::new();
    let tail = AtomicU64::new(words.submissions().reset());
    (0..SLOTS as u16).for_each(|index| words.credits().give(index));
    let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
    let live: [AtomicU64; SLOTS] =
        from_fn(|index| AtomicU64::new(Ticket::zero(index as u16).next().word()));
    std::thread::scope(|scope| {
        for producer in 0..2 {
            let (words, tail, live) = (&words, &tail, &live);
            scope.spawn(move || {
                for number in 0..COUNT {
                    let index = loop {
                        match words.credits().take() {
                            Some(index) => break index,
                            None => std::thread::yield_now(),
                        }
                    };
                    let ticket = live[usize::from(index)].load(Ordering::Relaxed);
                    let args = [number * 2 + producer; ARGS];
                    words.submissions().post_shared(tail, &Submission { what: 1, ticket, args });
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while count.load(Ordering::Relaxed) < COUNT * 2 {
                    let Some(taken) = words.submissions().take() else {
                        std::thread::yield_now();
                        continue;
                    };
                    let ticket = Ticket::from_word(taken.ticket).expect("a ticket");
                    assert_eq!(words.record(ticket).begin(ticket), Begun::Run);
                    assert!(taken.args.iter().all(|&arg| arg == taken.args[0]));
                    words.record(ticket).complete(ticket, 0);
                    live[usize::from(ticket.index())]
                        .store(ticket.next().word(), Ordering::Relaxed);
                    words.credits().give(ticket.index());
                    sum.fetch_add(taken.args[0], Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), (0..COUNT * 2).sum::<u64>());
    assert!(words.submissions().is_empty());
}
