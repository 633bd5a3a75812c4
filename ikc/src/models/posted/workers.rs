//! Models of workers that poll, sleep, begin to work and end, and of the keeper that starts more:
//! nothing waits that no worker takes.

use loom::sync::Arc;
use loom::thread;

use super::{Queue, explore, no_lost_wake_up};
use crate::posted::{ENDS_SILENTLY, LOOKS_FOR_SLEEPERS, NO_SECOND_LOOK, SLEEPS_BLINDLY};
use crate::sync::{NO_FENCE, Ordering, REAL};

impl<const N: usize, const MUTANT: u8> Queue<N, MUTANT> {
    /// Posts, and takes a worker that sleeps; whether there was one, or the keeper is rung.
    fn post_and_wake(&self, what: u32) -> bool {
        self.post((N as u32 + what).into(), what, Self::ticket(what as u16));
        self.wakes()
    }

    fn wakes(&self) -> bool {
        self.idle.take_sleeper().is_some() || self.watch.rings(|| self.needs_more())
    }

    fn needs_more(&self) -> bool {
        self.idle.are_all_busy()
            && !self.submissions().is_empty()
            && self.places.load(Ordering::Acquire) != 0
    }

    /// Worker that has polled or slept: takes something, and is long busy with it. Whether it wakes
    /// another.
    fn begins_to_work(&self) -> bool {
        assert!(self.submissions().take().is_some(), "no other worker takes");
        self.idle.leaves_more(|| self.submissions().is_empty()) && self.wakes()
    }
}

/// The step in which a worker goes to sleep, while something is posted for it.
fn sleep_model<const MUTANT: u8>(name: &str) {
    no_lost_wake_up(
        name,
        Queue::<2, MUTANT>::new,
        |queue| {
            queue.idle.begin_polling(1);
            queue.idle.prepare_sleep(1, || queue.submissions().is_empty()) == Ok(true)
        },
        |queue| {
            queue.post(2, 1, Queue::<2, MUTANT>::ticket(0));
            !queue.idle.has_no_sleeper() && queue.idle.take_sleeper() == Some(1)
        },
    );
}

#[test]
fn no_worker_sleeps_while_something_waits() {
    sleep_model::<REAL>("worker sleeps");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn without_a_fence_a_worker_sleeps_while_something_waits() {
    sleep_model::<NO_FENCE>("worker sleeps, without fence");
}

/// Worker 0 polls. Worker 1 sleeps, or could be started. Two submissions come; worker 0 takes one,
/// and is long busy with it.
fn second_look_model<const MUTANT: u8>(name: &str, sleeps: bool) {
    explore(name, None, move || {
        let queue = Arc::new(Queue::<2, MUTANT>::new());
        queue.idle.begin_polling(0);
        if sleeps {
            assert_eq!(queue.idle.prepare_sleep(1, || true), Ok(true));
        } else {
            queue.places.store(1, Ordering::Relaxed);
        }
        let other = queue.clone();
        let producer = thread::spawn(move || other.post_and_wake(0) | other.post_and_wake(1));
        let worker = thread::spawn(move || {
            while queue.submissions().is_empty() {
                thread::yield_now();
            }
            queue.idle.end_polling(0);
            queue.begins_to_work()
        });
        assert!(producer.join().unwrap() | worker.join().unwrap(), "lost wake-up");
    });
}

#[test]
fn a_worker_that_begins_to_work_wakes_another_for_the_rest() {
    second_look_model::<REAL>("one polls, one sleeps", true);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn without_a_second_look_the_rest_waits() {
    second_look_model::<NO_SECOND_LOOK>("one polls, one sleeps, without a second look", true);
}

#[test]
fn a_worker_that_begins_to_work_has_another_started_for_the_rest() {
    second_look_model::<REAL>("one polls, one may be started", false);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_second_look_for_sleepers_alone_lets_the_rest_wait_for_a_worker() {
    second_look_model::<LOOKS_FOR_SLEEPERS>("one polls, one may be started, no look for it", false);
}

/// Worker 1 sleeps. Worker 0 is about to sleep as well while two submissions come: it sleeps, and
/// is woken, or takes one, and is long busy with it. One of both is there for the other one.
fn change_of_mind_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let queue = Arc::new(Queue::<2, MUTANT>::new());
        assert_eq!(queue.idle.prepare_sleep(1, || true), Ok(true));
        queue.idle.begin_polling(0);
        let other = queue.clone();
        let producer = thread::spawn(move || {
            let post = |what: u32| {
                other.post((2 + what).into(), what, Queue::<2, MUTANT>::ticket(what as u16));
                other.idle.take_sleeper().map_or(0, |worker| 1 << worker)
            };
            post(0) | post(1)
        });
        let other = queue.clone();
        let worker = thread::spawn(move || {
            match other.idle.prepare_sleep(0, || other.submissions().is_empty()) {
                Ok(true) => None,
                // It goes on, woken or not.
                Ok(false) | Err(_) => Some(other.begins_to_work()),
            }
        });
        let woken: u32 = producer.join().unwrap();
        let is_found = match worker.join().unwrap() {
            None => woken != 0,
            Some(wakes) => wakes || woken & 2 != 0 || queue.submissions().is_empty(),
        };
        assert!(is_found, "lost wake-up");
    });
}

#[test]
fn a_worker_that_does_not_sleep_after_all_wakes_another_for_the_rest() {
    change_of_mind_model::<REAL>("one does not sleep after all, one sleeps");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn without_a_second_look_the_rest_waits_for_a_sleeper() {
    change_of_mind_model::<NO_SECOND_LOOK>("one does not sleep after all, without a second look");
}

/// The last worker that is free sleeps, and ends of its own accord while something is posted.
fn end_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let queue = Arc::new(Queue::<2, MUTANT>::new());
        assert_eq!(queue.idle.prepare_sleep(0, || true), Ok(true));
        let other = queue.clone();
        let producer = thread::spawn(move || other.post_and_wake(0));
        let worker = thread::spawn(move || {
            let goes_on = !queue.idle.end_sleep(0) || !queue.submissions().is_empty();
            goes_on
                || queue
                    .watch
                    .ends(|| queue.places.store(1, Ordering::Release), || queue.needs_more())
        });
        assert!(producer.join().unwrap() | worker.join().unwrap(), "lost wake-up");
    });
}

#[test]
fn a_worker_that_ends_has_another_started_for_what_waits() {
    end_model::<REAL>("the last free worker ends");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_worker_that_ends_without_a_look_lets_a_submission_wait() {
    end_model::<ENDS_SILENTLY>("the last free worker ends silently");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_worker_that_ends_without_a_fence_lets_a_submission_wait() {
    end_model::<NO_FENCE>("the last free worker ends without fence");
}

/// The step in which the keeper goes to sleep, while something is posted that needs one more
/// worker.
fn keeper_model<const MUTANT: u8>(name: &str) {
    no_lost_wake_up(
        name,
        || {
            let queue = Queue::<2, MUTANT>::new();
            queue.places.store(1, Ordering::Relaxed);
            assert!(queue.watch.rings(|| true));
            queue
        },
        |queue| queue.watch.sleeps(|| queue.needs_more()),
        |queue| queue.post_and_wake(0),
    );
}

#[test]
fn the_keeper_does_not_sleep_while_a_worker_is_needed() {
    keeper_model::<REAL>("keeper sleeps");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_keeper_that_does_not_look_again_sleeps_while_a_worker_is_needed() {
    keeper_model::<SLEEPS_BLINDLY>("keeper sleeps blindly");
}
