//! A signal meets the worker at every instruction on its way through a call: the call is executed,
//! or it is reported as not started; never both, and the signal is never forgotten.
//!
//! Linux runs a handler between two instructions of the worker's thread, so here the worker looks
//! before each of its steps whether a signal has come.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Doorbell, explore_whole};
use crate::abort::{GoOn, Interrupted, Place, redirect};
use crate::slot::{Answer, SlotRef, SlotWords};
use crate::sync::{CLEARS_LATE, NEVER_CLEARS, NO_REDIRECT, REAL, REDIRECTS_DONE};

const EINTR: i64 = -4;
/// Result of the call that has read its data.
const READ: i64 = 7;

/// Knowledge of Linux and the LWK about the process.
#[derive(Default)]
struct State {
    /// Signals that Linux has for the worker.
    pending: u32,
    /// Signals that are still to be sent.
    to_come: u32,
    /// Signals that the LWK has queued, and not delivered.
    queued: u32,
    /// Times that the application's handler has run. After as many as are needed it makes the call
    /// return at once.
    handled: u32,
    /// The LWK has posted a call that the worker has not looked for.
    posted: bool,
    /// Calls that had an effect.
    executed: u32,
}

struct Shared<const MUTANT: u8> {
    slot: SlotWords,
    interrupted: Interrupted<MUTANT>,
    state: Mutex<State>,
    /// A signal or a call is there.
    changed: Condvar,
    answered: Doorbell,
    /// How many signals are sent, and how many the application's handler has to see before the call
    /// returns.
    signals: u32,
    needed: u32,
}

/// A step of the worker's thread.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Takes a call from the slot.
    Poll,
    /// `abortable_start`: looks at the mark.
    Look,
    /// The `jne` behind it, with what was seen.
    Jump(bool),
    /// `abortable_insn`: the system call.
    Call,
    /// After the system call, with its result.
    Made(i64),
    /// `abortable_abort`.
    Abort,
}

impl Step {
    fn place<const MUTANT: u8>(self) -> Place {
        match self {
            Self::Made(_) if MUTANT == REDIRECTS_DONE => Place::AtCall,
            Self::Look | Self::Jump(_) => Place::Before,
            Self::Call => Place::AtCall,
            Self::Poll | Self::Made(_) | Self::Abort => Place::Elsewhere,
        }
    }
}

impl<const MUTANT: u8> Shared<MUTANT> {
    /// Linux delivers what is pending before the step is made. Where the worker goes on.
    fn meets_signal(&self, step: Step) -> Step {
        let mut state = self.state.lock().unwrap();
        if state.pending == 0 {
            return step;
        }
        state.pending -= 1;
        state.queued += 1; // IOCTL_SIGNAL
        drop(state);
        self.interrupted.mark();
        match redirect::<MUTANT>(step.place::<MUTANT>(), false) {
            GoOn::There => step,
            GoOn::Abort => Step::Abort,
            GoOn::Interrupted => Step::Made(EINTR),
        }
    }

    /// The call: it reads what the application's handler has written, and waits for that without
    /// end. A signal ends it, or has it made again.
    fn blocking_call(&self, restart: bool) -> Step {
        let mut state = self.state.lock().unwrap();
        loop {
            if state.handled >= self.needed {
                state.executed += 1;
                return Step::Made(READ);
            }
            if state.pending > 0 {
                return if restart { Step::Call } else { Step::Made(EINTR) };
            }
            assert!(state.to_come > 0, "the call blocks for ever");
            state = self.changed.wait(state).unwrap();
        }
    }

    fn worker(&self, restart: bool) {
        let slot = SlotRef::<REAL>::new(&self.slot);
        let mut step = Step::Poll;
        loop {
            step = self.meets_signal(step);
            let answer = match step {
                Step::Poll => {
                    let mut state = self.state.lock().unwrap();
                    while !state.posted && state.pending == 0 {
                        state = self.changed.wait(state).unwrap();
                    }
                    if std::mem::take(&mut state.posted) {
                        match slot.worker_poll() {
                            Some(_) if slot.number() == 0 => return,
                            Some(_) => step = Step::Look,
                            None => unreachable!("it was posted"),
                        }
                    }
                    continue;
                }
                Step::Look => {
                    step = Step::Jump(self.interrupted.is_marked());
                    continue;
                }
                Step::Jump(marked) => {
                    step = if marked { Step::Abort } else { Step::Call };
                    continue;
                }
                Step::Call => {
                    let next = self.blocking_call(restart);
                    // Interrupted, it stands where it goes on when Linux runs the handler.
                    step = self.meets_signal(next);
                    continue;
                }
                Step::Made(result) => Answer::Done(result),
                Step::Abort => Answer::NotStarted,
            };
            // Signals come before, in between and after, as in every step.
            let _ = self.interrupted.clear_and(|| {
                assert!(self.meets_signal(Step::Poll) == Step::Poll);
                let asleep = slot.worker_complete(answer);
                self.answered.ring();
                assert!(self.meets_signal(Step::Poll) == Step::Poll);
                asleep
            });
            step = Step::Poll;
        }
    }

    /// The thread on the LWK makes the call until it has read.
    fn thread(&self) {
        let slot = SlotRef::<REAL>::new(&self.slot);
        let mut not_started = 0;
        loop {
            {
                let mut state = self.state.lock().unwrap();
                state.handled += state.queued;
                state.queued = 0;
            }
            self.post(1);
            self.answered.wait();
            let answer = slot.lwk_poll().expect("it was answered");
            match answer {
                Answer::Done(READ) => break,
                Answer::Done(_) => {}
                Answer::NotStarted => {
                    not_started += 1;
                    assert!(not_started <= self.signals, "one signal aborts two calls");
                    let executed = self.state.lock().unwrap().executed;
                    assert_eq!(executed, 0, "executed, and reported as not started");
                }
            }
        }
        self.post(0); // the worker ends
    }

    fn post(&self, nr: u32) {
        let _ = SlotRef::<REAL>::new(&self.slot).lwk_post(nr, [0; 6]);
        self.state.lock().unwrap().posted = true;
        self.changed.notify_one();
    }
}

fn abort_model<const MUTANT: u8>(name: &str, signals: u32, needed: u32, restart: bool) {
    explore_whole(name, Some(2), move || {
        let shared = Arc::new(Shared::<MUTANT> {
            slot: SlotWords::new(),
            interrupted: Interrupted::new(),
            state: Mutex::new(State { to_come: signals, ..State::default() }),
            changed: Condvar::new(),
            answered: Doorbell::default(),
            signals,
            needed,
        });
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || {
                for _ in 0..signals {
                    let mut state = shared.state.lock().unwrap();
                    state.to_come -= 1;
                    state.pending += 1;
                    drop(state);
                    shared.changed.notify_one();
                }
            })
        };
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || shared.worker(restart))
        };
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || shared.thread())
        };
        sender.join().unwrap();
        lwk.join().unwrap();
        worker.join().unwrap();
        assert_eq!(shared.state.lock().unwrap().executed, 1);
    });
}

#[test]
fn a_call_is_executed_once_or_not_started() {
    abort_model::<REAL>("a signal meets a call", 1, 1, false);
    abort_model::<REAL>("a signal meets a call that is made again", 1, 1, true);
    abort_model::<REAL>("two signals meet a call", 2, 2, false);
    abort_model::<REAL>("a signal meets a call, another one its end", 2, 1, true);
}

#[test]
#[should_panic(expected = "blocks for ever")]
fn a_mark_that_is_cleared_late_is_lost() {
    abort_model::<CLEARS_LATE>("mark cleared late", 2, 2, false);
}

#[test]
#[should_panic(expected = "blocks for ever")]
fn a_call_that_the_handler_does_not_move_is_started() {
    abort_model::<NO_REDIRECT>("call is not moved", 1, 1, false);
}

#[test]
#[should_panic(expected = "executed, and reported as not started")]
fn a_call_that_is_over_is_not_moved() {
    abort_model::<REDIRECTS_DONE>("call is moved when it is over", 2, 1, false);
}

#[test]
#[should_panic(expected = "aborts two calls")]
fn a_mark_that_stays_aborts_two_calls() {
    abort_model::<NEVER_CLEARS>("mark stays", 1, 1, false);
}
