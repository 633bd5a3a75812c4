//! A CPU that waits alone for the answer to its running thread, where another thread sleeps: both
//! are woken.

use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;

use super::cpus::Cpu;
use super::explore;
use crate::alone::Alone;
use crate::mailbox::Bells;
use crate::slot::Answer;
use crate::sync::{LEAVES_BELLS, REAL, TAKES_BELLS};
use crate::wake::{BEFORE_USER, CpuWake, QUEUE, SLEEPS};

/// Thread 1 as the CPU knows it.
struct Other<'a, const MUTANT: u8> {
    cpu: &'a Cpu<MUTANT>,
    /// Whether the thread sleeps until its bell rings.
    sleeps: Cell<bool>,
}

impl<const MUTANT: u8> Other<'_, MUTANT> {
    /// Thread 1 goes to sleep as the scheduler does it, unless its answer is there.
    fn goes_to_sleep(&self, is_told: bool) {
        if self.cpu.prepare_sleep(1) {
            self.sleeps.set(true);
            if is_told {
                self.cpu.attention.company().joined_by(SLEEPS);
            }
        } else {
            assert!(self.cpu.slot(1).lwk_poll().is_some());
        }
    }

    /// The long way to user mode: reasons are taken, and thread 1 is looked at if its bell rang.
    fn is_looked_at(&self) {
        let _ = self.cpu.attention.take(QUEUE | BEFORE_USER);
        self.cpu.bells().take(|bell| {
            if bell == 1 && self.sleeps.get() && self.cpu.slot(1).lwk_poll().is_some() {
                self.sleeps.set(false);
            }
        });
    }

    /// Thread 0 runs on the CPU, and waits alone until its worker has answered; then it goes to
    /// user mode.
    fn lets_thread_0_wait(&self) {
        let cpu = self.cpu;
        let mut ready = false;
        while !ready {
            if self.may_begin() && !self.has_bells_of_others() {
                let _ = cpu.prepare_sleep(0);
                (ready, _) = self.sleep(cpu);
                self.end();
            }
            if !ready {
                self.is_looked_at();
            }
        }
        while !cpu.attention.is_clear() {
            self.is_looked_at();
        }
    }
}

impl<const MUTANT: u8> Alone<MUTANT> for Other<'_, MUTANT> {
    fn wake(&self) -> CpuWake<'_, MUTANT> {
        self.cpu.wake()
    }
    fn bells(&self) -> Bells<'_, MUTANT> {
        self.cpu.bells()
    }
    fn look_for_company(&self) -> u32 {
        let kinds = if self.sleeps.get() { SLEEPS } else { 0 };
        self.cpu.attention.company().set(kinds);
        kinds
    }
}

/// Thread 1 sleeps, then thread 0 waits alone, while both workers answer. `is_told`: the scheduler
/// that puts thread 1 to sleep says so in the company. With `peer` another CPU posts something.
fn model<const MUTANT: u8>(name: &str, is_told: bool, peer: bool) {
    explore(name, Some(if peer { 1 } else { 2 }), move || {
        let shared = Arc::new(Cpu::<MUTANT>::new());
        let _ = shared.attention.take_any();
        assert!(shared.wake().prepare_user(false), "it is in user mode");
        let mut others = Vec::new();
        for of in [0, 1] {
            let cpu = shared.clone();
            others.push(thread::spawn(move || cpu.answer(of, 1)));
        }
        if peer {
            let cpu = shared.clone();
            others.push(thread::spawn(move || {
                if cpu.attention.post(QUEUE) {
                    cpu.mailbox.bell.ring();
                }
            }));
        }
        let cpu = shared.clone();
        let lwk = thread::spawn(move || {
            let other = Other { cpu: &*cpu, sleeps: Cell::new(false) };
            other.goes_to_sleep(is_told);
            other.lets_thread_0_wait();
            other.sleeps.get()
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        let sleeps = lwk.join().unwrap();
        let is_interrupted = shared.mailbox.bell.is_rung();
        assert!(!sleeps || is_interrupted, "lost wake-up");
    });
}

#[test]
fn a_thread_that_sleeps_where_another_waits_alone_is_woken() {
    model::<REAL>("alone, beside a thread that sleeps", true, false);
    model::<REAL>("alone, beside a thread that sleeps and a peer", true, true);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_thread_that_sleeps_unseen_is_not_woken() {
    model::<REAL>("alone, beside a thread that no side sees", false, false);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_thread_is_not_woken_without_a_look_before_user_mode() {
    model::<LEAVES_BELLS>("alone, without a look before user mode", true, false);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_thread_is_not_woken_where_its_bell_is_taken_for_nothing() {
    model::<TAKES_BELLS>("alone, bells taken for nothing", true, false);
}

/// Thread 1 has slept before, so the company says that it may sleep; now it has the CPU again while
/// its worker's ring comes late. Thread 0 waits alone meanwhile, and drops that. Then thread 1
/// sleeps in its next call, and the CPU halts.
fn late_ring_model<const MUTANT: u8>(name: &str) {
    explore(name, Some(2), || {
        let shared = Arc::new(Cpu::<MUTANT>::new());
        let _ = shared.attention.take_any();
        assert!(shared.wake().prepare_user(false), "it is in user mode");
        shared.attention.company().joined_by(SLEEPS);
        let workers = [0, 1].map(|of| {
            let cpu = shared.clone();
            thread::spawn(move || {
                cpu.answer(of, 1);
                if of == 1 {
                    while cpu.slot(1).worker_poll().is_none() {
                        thread::yield_now();
                    }
                    cpu.answer(1, 2);
                }
            })
        });
        let cpu = shared.clone();
        let lwk = thread::spawn(move || {
            let other = Other { cpu: &*cpu, sleeps: Cell::new(false) };
            // The worker may find it asleep; it finds its answer without the ring.
            let _ = cpu.prepare_sleep(1);
            while cpu.slot(1).lwk_poll() != Some(Answer::Done(1)) {
                thread::yield_now();
            }
            other.lets_thread_0_wait();
            let _ = cpu.slot(1).lwk_post(1, [1; 6]);
            other.goes_to_sleep(true);
            // Nothing else is to be done there: the CPU halts, unless a bell rang.
            if cpu.bells().any() {
                other.is_looked_at();
            }
            (other.sleeps.get(), cpu.bells().any())
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let (sleeps, is_rung) = lwk.join().unwrap();
        assert!(!sleeps || is_rung || shared.mailbox.bell.is_rung(), "lost wake-up");
    });
}

#[test]
fn a_ring_that_was_dropped_is_none_of_the_next_call() {
    late_ring_model::<REAL>("alone, a late ring");
}
