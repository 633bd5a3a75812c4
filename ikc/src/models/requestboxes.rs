//! The request box. No server sleeps while a call waits that no server takes. Each call is executed
//! once or taken back. A signal that comes at any moment keeps the call from beginning, or reaches
//! the server that executes it.

use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{explore, no_lost_wake_up};
use crate::abort::Interrupted;
use crate::requestbox::{BoxRef, BoxWords, Serving, Taken, interrupt, is_interrupted, serve};
use crate::slot::{Answer, SlotRef, SlotWords};
use crate::sync::{
    ANNOUNCES_LATE, AtomicU32, NO_EXCHANGE, NO_FENCE, NO_LOOK, NO_MARK, NO_RELEASE, Ordering, REAL,
};

/// A box, the slots of two threads, and two servers; and a box for calls of another kind, in which
/// none waits.
struct Shared<const MUTANT: u8> {
    calls: BoxWords,
    others: BoxWords,
    slots: [SlotWords; 2],
    servers: [(Serving<MUTANT>, Interrupted<MUTANT>); 2],
    /// How often each thread's call was executed.
    executed: [AtomicU32; 2],
}

impl<const MUTANT: u8> Shared<MUTANT> {
    fn new() -> Self {
        Self {
            calls: BoxWords::new(),
            others: BoxWords::new(),
            slots: [SlotWords::new(), SlotWords::new()],
            servers: [(); 2].map(|()| (Serving::new(), Interrupted::new())),
            executed: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    fn calls(&self) -> BoxRef<'_, MUTANT> {
        BoxRef::new(&self.calls)
    }

    fn slot(&self, slot: u32) -> SlotRef<'_, MUTANT> {
        SlotRef::new(&self.slots[slot as usize])
    }

    fn put(&self, slot: u32) -> Option<u32> {
        self.slot(slot).lwk_box(100 + slot, [0; 6]);
        self.calls().put(slot, 0b11)
    }

    /// Takes a call.
    fn serve(&self, server: usize) -> Option<Taken> {
        let (serving, interrupted) = &self.servers[server];
        let taken = serve(self.calls(), 0, serving, interrupted, |slot| self.slot(slot));
        if let Some(Taken { slot, .. }) = taken {
            assert_eq!(self.slot(slot).number(), 100 + slot, "before it was written");
        }
        taken
    }

    /// Takes calls as long as there are some, and executes them.
    fn work(&self, server: usize) {
        while let Some(taken) = self.serve(server) {
            if !taken.is_marked {
                self.executed[taken.slot as usize].fetch_add(1, Ordering::Relaxed);
            }
            self.servers[server].0.end();
            let answer = if taken.is_marked { Answer::NotStarted } else { Answer::Done(1) };
            let _ = self.slot(taken.slot).worker_complete(answer);
        }
    }

    fn executed(&self, slot: u32) -> u32 {
        self.executed[slot as usize].load(Ordering::Relaxed)
    }
}

fn wake_up<const MUTANT: u8>(name: &str) {
    no_lost_wake_up(
        name,
        Shared::<MUTANT>::new,
        |shared| shared.calls().prepare_sleep(1),
        |shared| shared.put(0) == Some(1),
    );
}

#[test]
fn a_server_does_not_sleep_while_a_call_waits() {
    wake_up::<REAL>("server goes to sleep");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_server_that_sleeps_without_fence_is_not_rung() {
    wake_up::<NO_FENCE>("server goes to sleep without fence");
}

/// Two threads put calls in while a server goes to sleep and another one works: calls that no
/// server has taken by the end are no more than servers that were rung, and each server is rung
/// once.
fn two_callers<const MUTANT: u8>(name: &str) {
    explore(name, Some(2), || {
        let shared = Arc::new(Shared::<MUTANT>::new());
        let asleep = {
            let shared = shared.clone();
            thread::spawn(move || shared.calls().prepare_sleep(0))
        };
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || shared.work(1))
        };
        let callers = [0, 1].map(|slot| {
            let shared = shared.clone();
            thread::spawn(move || shared.put(slot))
        });
        let asleep = asleep.join().unwrap();
        worker.join().unwrap();
        let rung: Vec<u32> = (0..)
            .zip(callers)
            .filter_map(|(slot, caller)| caller.join().unwrap().map(|_| slot))
            .collect();
        assert!(rung.len() <= 1, "the one server that sleeps was rung twice");
        if asleep && rung.is_empty() {
            assert!(shared.calls().is_empty(), "lost wake-up");
        }
        assert!(asleep || rung.is_empty(), "rung, and does not wait for it");
        assert_eq!(shared.calls().first(0), rung.first().copied(), "begins with another call");
        // The server that was rung, or did not sleep, does the rest.
        shared.work(0);
        for slot in [0, 1] {
            assert_eq!(shared.executed(slot), 1, "executed once");
            assert_eq!(shared.slot(slot).lwk_poll(), Some(Answer::Done(1)), "answered");
        }
    });
}

#[test]
fn two_callers_wake_one_server_and_each_call_is_executed_once() {
    two_callers::<REAL>("two callers");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn callers_that_look_for_servers_without_fence_wake_none() {
    two_callers::<NO_FENCE>("two callers without fence");
}

/// Two servers look into the box while calls are put in.
fn two_servers<const MUTANT: u8>(name: &str) {
    explore(name, Some(2), || {
        let shared = Arc::new(Shared::<MUTANT>::new());
        let servers = [0, 1].map(|server| {
            let shared = shared.clone();
            thread::spawn(move || shared.work(server))
        });
        let caller = {
            let shared = shared.clone();
            thread::spawn(move || [0, 1].map(|slot| shared.put(slot)))
        };
        servers.into_iter().for_each(|server| server.join().unwrap());
        caller.join().unwrap();
        shared.work(0);
        for slot in [0, 1] {
            assert_eq!(shared.executed(slot), 1, "executed once");
        }
    });
}

#[test]
fn two_servers_execute_each_call_once() {
    two_servers::<REAL>("two servers");
}

#[test]
#[should_panic(expected = "executed once")]
fn servers_that_take_calls_in_two_steps_execute_one_twice() {
    two_servers::<NO_EXCHANGE>("two servers in two steps");
}

#[test]
#[should_panic(expected = "before it was written")]
fn a_call_that_is_put_in_without_release_is_not_seen() {
    two_servers::<NO_RELEASE>("box without release");
}

/// The LWK takes a call back that has waited for too long while a server looks into the box, and a
/// signal comes.
fn taken_back<const MUTANT: u8>(name: &str) {
    explore(name, Some(2), || {
        let shared = Arc::new(Shared::<MUTANT>::new());
        let server = {
            let shared = shared.clone();
            thread::spawn(move || shared.work(0))
        };
        let handler = {
            let shared = shared.clone();
            thread::spawn(move || {
                let servers = shared.servers.iter().map(|(serving, _)| serving);
                let _ = interrupt([shared.calls()], 0, shared.slot(0), servers, |_| ());
            })
        };
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _ = shared.put(0);
                shared.calls().take_back(0)
            })
        };
        let is_back = lwk.join().unwrap();
        server.join().unwrap();
        handler.join().unwrap();
        shared.work(0);
        let answer = shared.slot(0).lwk_poll();
        if is_back {
            assert_eq!((answer, shared.executed(0)), (None, 0), "it has one owner");
        } else {
            let expected = u32::from(answer.expect("it has one owner") != Answer::NotStarted);
            assert_eq!(shared.executed(0), expected, "it has one owner");
        }
    });
}

#[test]
fn a_call_that_is_taken_back_has_one_owner() {
    taken_back::<REAL>("taken back");
}

#[test]
#[should_panic(expected = "it has one owner")]
fn a_call_that_is_taken_back_in_two_steps_is_executed_all_the_same() {
    taken_back::<NO_EXCHANGE>("taken back in two steps");
}

/// A call that blocks for ever is put in and taken by a server, and a signal comes.
fn signalled<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        let shared = Arc::new(Shared::<MUTANT>::new());
        let server = {
            let shared = shared.clone();
            thread::spawn(move || shared.serve(0))
        };
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _ = shared.put(0);
            })
        };
        let handler = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut sent = Vec::new();
                let servers = shared.servers.iter().map(|(serving, _)| serving);
                let boxes = [BoxRef::new(&shared.others), shared.calls()];
                let _ = interrupt(boxes, 0, shared.slot(0), servers, |server| {
                    sent.push(server);
                });
                sent
            })
        };
        let first = server.join().unwrap();
        lwk.join().unwrap();
        let sent = handler.join().unwrap();
        let (server, taken) = match first {
            Some(taken) => (0, taken),
            None => match shared.serve(1) {
                Some(taken) => (1, taken),
                None => {
                    let answer = shared.slot(0).lwk_poll();
                    assert_eq!(answer, Some(Answer::NotStarted), "the signal is lost");
                    return;
                }
            },
        };
        // It blocks: it never ends by itself. What Linux delivers to the server after it was sent
        // finds the mark.
        let serving = &shared.servers[server].0;
        let reached = sent.contains(&server) && is_interrupted(serving, |slot| shared.slot(slot));
        assert!(taken.is_marked || reached, "the signal is lost");
    });
}

#[test]
fn a_signal_keeps_a_call_from_beginning_or_reaches_its_server() {
    signalled::<REAL>("signalled");
}

#[test]
#[should_panic(expected = "the signal is lost")]
fn a_signal_does_not_find_a_server_that_announces_late() {
    signalled::<ANNOUNCES_LATE>("signalled, announced late");
}

#[test]
#[should_panic(expected = "the signal is lost")]
fn a_signal_that_comes_first_is_lost_without_a_mark() {
    signalled::<NO_MARK>("signalled, no mark");
}

#[test]
#[should_panic(expected = "the signal is lost")]
fn a_signal_that_comes_first_is_lost_on_a_server_that_does_not_look() {
    signalled::<NO_LOOK>("signalled, no look");
}
