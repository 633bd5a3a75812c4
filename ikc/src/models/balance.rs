//! A thread that waits for its turn is taken over by a CPU that goes idle meanwhile, whatever else
//! wakes that CPU.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Doorbell, explore_whole};
use crate::balance::{Balance, Takers};
use crate::sync::{NO_FENCE, REAL, REMOVES_LATE};
use crate::wake::{Attention, QUEUE};

/// The CPU that goes idle, the one with a thread too many, and a third one.
const IDLE: usize = 0;
const BUSY: usize = 1;

struct Shared<const MUTANT: u8> {
    balance: Balance<1, MUTANT>,
    takers: Takers<1>,
    /// Threads that wait for their turn on `BUSY`.
    queue: Mutex<usize>,
    attention: Attention<MUTANT>,
    bell: Doorbell,
}

/// How the CPU that goes idle looks at a queue.
#[derive(Clone, Copy, PartialEq)]
enum Looks {
    WithTheLock,
    /// As if no thread waited there where another CPU has the lock.
    UnlessItIsLocked,
}

impl<const MUTANT: u8> Shared<MUTANT> {
    fn wakes_idle(&self) {
        if self.attention.post(QUEUE) {
            self.bell.ring();
        }
    }

    /// The CPU goes idle: it looks for work after it has said so, and halts if there is none. True:
    /// the CPU has taken the thread.
    fn goes_idle(&self, looks: Looks) -> bool {
        loop {
            let _ = self.attention.take(QUEUE);
            self.balance.begin_idle(IDLE);
            let has_source = self.balance.has_source(|| IDLE, |_| &self.takers);
            let took = has_source && self.takes(looks);
            if took || self.attention.end_looking() {
                if took {
                    self.balance.end_idle(IDLE);
                }
                return took;
            }
            self.balance.end_idle(IDLE);
            self.attention.begin_looking();
        }
    }

    fn takes(&self, looks: Looks) -> bool {
        let queue = match looks {
            Looks::WithTheLock => Some(self.queue.lock().unwrap()),
            Looks::UnlessItIsLocked => self.queue.try_lock().ok(),
        };
        queue.is_some_and(|mut waiting| {
            let takes = *waiting > 0;
            *waiting -= usize::from(takes);
            takes
        })
    }
}

/// `IDLE` goes idle, perhaps twice, while a thread comes to the queue of `BUSY`, which offers it,
/// and, if there is a `third` CPU, that wakes `IDLE` for something else.
fn model<const MUTANT: u8>(name: &str, looks: Looks, third: bool) {
    explore_whole(name, Some(2), move || {
        let shared = Arc::new(Shared::<MUTANT> {
            balance: Balance::new(),
            takers: Takers::new(),
            queue: Mutex::new(0),
            attention: Attention::new(),
            bell: Doorbell::default(),
        });
        let _ = shared.attention.take_any();
        shared.attention.begin_looking();
        let busy = {
            let shared = shared.clone();
            thread::spawn(move || {
                // With the lock of its queue, as the kernel: a thread waits there, and is offered.
                let mut queue = shared.queue.lock().unwrap();
                *queue += 1;
                shared.takers.add(&[u64::MAX]);
                shared.balance.set_busy(BUSY, true);
                shared.balance.offer(BUSY, &shared.takers, |cpu| {
                    assert_eq!(cpu, IDLE);
                    shared.wakes_idle();
                });
            })
        };
        let third = third.then(|| {
            let shared = shared.clone();
            thread::spawn(move || shared.balance.wake(IDLE, || shared.wakes_idle()))
        });
        let idle = {
            let shared = shared.clone();
            thread::spawn(move || {
                let took = shared.goes_idle(looks);
                // It halts. If it was interrupted already it looks once more, while the others are
                // still about it.
                took || shared.bell.take() && {
                    shared.balance.end_idle(IDLE);
                    shared.attention.begin_looking();
                    shared.goes_idle(looks)
                }
            })
        };
        busy.join().unwrap();
        third.into_iter().for_each(|third| third.join().unwrap());
        let took = idle.join().unwrap();
        assert!(took || shared.bell.is_rung(), "lost wake-up");
    });
}

#[test]
fn a_thread_is_taken_over_by_a_cpu_that_goes_idle() {
    model::<REAL>("balance", Looks::WithTheLock, false);
    model::<REAL>("balance, and a third CPU", Looks::WithTheLock, true);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_thread_is_not_taken_over_without_fence() {
    model::<NO_FENCE>("balance without fence", Looks::WithTheLock, false);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_thread_is_not_taken_over_by_a_cpu_that_is_taken_out_late() {
    model::<REMOVES_LATE>("balance, taken out late", Looks::WithTheLock, true);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_thread_is_not_taken_over_from_a_queue_that_is_left_out_while_it_is_locked() {
    model::<REAL>("balance, locked queues left out", Looks::UnlessItIsLocked, false);
}
