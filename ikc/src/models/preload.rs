//! Models of a preloaded library and its worker: nothing is posted for one that is not there, none
//! is left where none is wanted, and a thread that waits for a call is woken when that is done.

use loom::sync::Arc;
use loom::thread;

use super::{explore, no_lost_wake_up};
use crate::preload::{
    FORGETS_LATE, Nap, Progress, STARTS_BLINDLY, THERE_EARLY, TURNS_BLINDLY, WAKES_LATE, Way,
    Worker,
};
use crate::sync::{AtomicU32, AtomicU64, NO_FENCE, Ordering, REAL};

#[derive(Default)]
struct Library<const MUTANT: u8> {
    worker: Worker<MUTANT>,
    /// Address of the buffer that the worker needs; 0: it is not there.
    data: AtomicU64,
    is_off: AtomicU32,
    posted: AtomicU32,
    threads: AtomicU32,
}

impl<const MUTANT: u8> Library<MUTANT> {
    fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Acquire) != 0
    }

    /// Starts the worker, if no other thread does and `can` says that there is room for a thread.
    fn start(&self, can: bool) {
        if self.worker.begin_start(|| self.is_off()) {
            self.data.store(4096, Ordering::Relaxed);
            self.threads.fetch_add(u32::from(can), Ordering::Relaxed);
            self.worker.started(can);
        }
    }
}

/// One thread starts the worker, another one posts meanwhile if it is there.
fn start_model<const MUTANT: u8>(name: &str, can: bool) {
    explore(name, None, move || {
        let library = Arc::new(Library::<MUTANT>::default());
        // Where no thread can be made that is what goes wrong.
        library.data.store(if can { 0 } else { 4096 }, Ordering::Relaxed);
        let other = library.clone();
        let starter = thread::spawn(move || other.start(can));
        let other = library.clone();
        let producer = thread::spawn(move || {
            other.start(can);
            if other.worker.is_there() {
                assert_ne!(other.data.load(Ordering::Relaxed), 0, "there is no buffer");
                other.posted.fetch_add(1, Ordering::Relaxed);
            }
        });
        starter.join().unwrap();
        producer.join().unwrap();
        let (posted, threads) = (&library.posted, library.threads.load(Ordering::Relaxed));
        assert_eq!(threads, u32::from(can), "threads");
        assert!(posted.load(Ordering::Relaxed) <= threads, "posted without a worker");
    });
}

#[test]
fn nothing_is_posted_before_the_worker_is_there() {
    start_model::<REAL>("worker starts", true);
    start_model::<REAL>("worker cannot be started", false);
}

#[test]
#[should_panic(expected = "there is no buffer")]
fn a_poster_finds_no_buffer_while_the_worker_starts() {
    start_model::<THERE_EARLY>("worker is there early", true);
}

#[test]
#[should_panic(expected = "posted without a worker")]
fn a_post_while_the_worker_starts_may_have_no_worker() {
    start_model::<THERE_EARLY>("worker is there early, and cannot be started", false);
}

/// One thread starts the worker, another one wants no worker any more.
fn stop_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let library = Arc::new(Library::<MUTANT>::default());
        let other = library.clone();
        let starter = thread::spawn(move || other.start(true));
        let stopper = thread::spawn(move || {
            library.is_off.store(1, Ordering::Release);
            if library.worker.begin_end(thread::yield_now) {
                library.threads.fetch_sub(1, Ordering::Relaxed);
                library.worker.ended();
            }
            // It makes a call that is refused where there is a worker; one that starts later finds
            // no need.
            assert!(!library.worker.is_there(), "a worker is there");
            library
        });
        starter.join().unwrap();
        let library = stopper.join().unwrap();
        assert_eq!(library.threads.load(Ordering::Relaxed), 0, "a worker is left");
    });
}

#[test]
fn no_worker_is_left_where_none_is_wanted() {
    stop_model::<REAL>("worker starts, and is not wanted");
}

#[test]
#[should_panic(expected = "a worker is")]
fn a_worker_that_is_started_blindly_is_left() {
    stop_model::<STARTS_BLINDLY>("worker is started blindly");
}

#[test]
#[should_panic(expected = "a worker is")]
fn without_a_fence_a_worker_is_left() {
    stop_model::<NO_FENCE>("worker starts without fence, and is not wanted");
}

/// One thread starts the worker, another one turns posting off and looks whether there may be one:
/// if not, there is none for ever.
fn look_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let library = Arc::new(Library::<MUTANT>::default());
        let other = library.clone();
        let starter = thread::spawn(move || other.start(true));
        let other = library.clone();
        let looker = thread::spawn(move || {
            other.is_off.store(1, Ordering::Release);
            other.worker.may_be_there()
        });
        starter.join().unwrap();
        let may_be_there = looker.join().unwrap();
        let threads = library.threads.load(Ordering::Relaxed);
        assert!(may_be_there || threads == 0, "a worker was overlooked");
    });
}

#[test]
fn no_worker_is_overlooked() {
    look_model::<REAL>("worker starts, and is looked for");
}

#[test]
#[should_panic(expected = "a worker was overlooked")]
fn a_worker_that_is_started_blindly_is_overlooked() {
    look_model::<STARTS_BLINDLY>("worker is started blindly, and is looked for");
}

#[test]
#[should_panic(expected = "a worker was overlooked")]
fn without_a_fence_a_worker_is_overlooked() {
    look_model::<NO_FENCE>("worker starts without fence, and is looked for");
}

/// A thread waits for the first of two calls, of which the second one lasts for ever.
fn progress_model<const MUTANT: u8>(name: &str) {
    no_lost_wake_up(
        name,
        || (Progress::<MUTANT>::new(), AtomicU64::new(0)),
        |(progress, done)| progress.prepare_sleep(1, || done.load(Ordering::Acquire)).is_some(),
        |(progress, done)| {
            done.store(1, Ordering::Release);
            progress.wakes(1)
        },
    );
}

#[test]
fn a_waiter_for_a_call_is_woken_when_that_is_done() {
    progress_model::<REAL>("waits for a call");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_waiter_woken_with_the_next_call_waits_for_that() {
    progress_model::<WAKES_LATE>("waits for a call, and is woken with the next one");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn without_a_fence_a_waiter_for_a_call_is_not_woken() {
    progress_model::<NO_FENCE>("waits for a call, without fence");
}

/// Two threads wait, for the first call and for the second one.
fn waiters_model<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        let shared = Arc::new((Progress::<MUTANT>::new(), AtomicU64::new(0)));
        let waiters = [1, 2].map(|count| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.0.prepare_sleep(count, || shared.1.load(Ordering::Acquire))
            })
        });
        let other = shared.clone();
        let worker = thread::spawn(move || {
            for done in 1..=2 {
                other.1.store(done, Ordering::Release);
                let _ = other.0.wakes(done);
            }
        });
        worker.join().unwrap();
        for waiter in waiters {
            let value = waiter.join().unwrap();
            let word = shared.0.word().load(Ordering::Acquire);
            assert!(value != Some(word), "lost wake-up");
        }
    });
}

#[test]
fn each_of_several_that_wait_is_woken() {
    waiters_model::<REAL>("two wait");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_late_waiter_is_forgotten_by_a_worker_that_forgets_late() {
    waiters_model::<FORGETS_LATE>("two wait, and are forgotten late");
}

/// A worker that is about to sleep in that way, and perhaps finds that it cannot be rung, while a
/// call is posted.
fn nap_model<const MUTANT: u8>(name: &str, way: Way, turns: bool) {
    explore(name, None, move || {
        let shared = Arc::new((Nap::<MUTANT>::new(), AtomicU64::new(0)));
        let other = shared.clone();
        let worker = thread::spawn(move || {
            let (nap, posted) = &*other;
            if !nap.begins(way, || posted.load(Ordering::Acquire) != 0) {
                return None;
            }
            if !turns {
                return Some(way);
            }
            nap.turns_to_futex().then_some(Way::Futex)
        });
        let other = shared.clone();
        let producer = thread::spawn(move || {
            other.1.store(1, Ordering::Release);
            other.0.wakes()
        });
        let (asleep, woken) = (worker.join().unwrap(), producer.join().unwrap());
        let sleeps = match asleep {
            None => false,
            Some(Way::Rung) => woken != Some(Way::Rung),
            Some(Way::Futex) => {
                // It sleeps only while the word says so, and the thread that changes that wakes it.
                let word = shared.0.word().load(Ordering::Acquire);
                word == Nap::<MUTANT>::VALUE
                    || woken != Some(Way::Futex) && woken != Some(Way::Rung)
            }
        };
        assert!(!sleeps, "lost wake-up");
    });
}

#[test]
fn a_worker_that_sleeps_is_woken_in_its_way() {
    nap_model::<REAL>("sleeps on a futex", Way::Futex, false);
    nap_model::<REAL>("sleeps until it is rung", Way::Rung, false);
    nap_model::<REAL>("cannot be rung", Way::Rung, true);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn without_a_fence_a_worker_sleeps_on() {
    nap_model::<NO_FENCE>("sleeps without a fence", Way::Rung, false);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_worker_that_turns_blindly_to_the_futex_sleeps_on() {
    nap_model::<TURNS_BLINDLY>("turns blindly", Way::Rung, true);
}
