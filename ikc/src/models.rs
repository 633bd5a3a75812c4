//! Loom models: every interleaving of the wake-up protocols, and mutants that
//! must fail.
//!
//! Both sides are spawned: with one of them on the main thread loom explores next
//! to nothing. In the models of whole conversations a lost wake-up is a deadlock,
//! which loom reports (and aborts); [`no_lost_wake_up`] is the same question in one
//! step, with an answer that a mutant can be tested by.

use loom::sync::Arc;
use loom::thread;

use crate::bell::{BellRef, BellWord};
use crate::clock::{ClockReader, ClockWords};
use crate::mailbox::Inbound;
use crate::request::{RequestCall, RequestRef, RequestWords};
use crate::ring::{EntryPair, Ring, ToLwk};
use crate::service::{ServiceCall, ServiceRef, ServiceWords};
use crate::slot::{Answer, Asked, SlotRef, SlotWords};
use crate::sync::{AtomicU32, IN_C, NO_EXCHANGE, NO_FENCE, NO_RELEASE, Ordering, REAL};
use hanare_abi::control::Control;
use hanare_abi::service::SERVICE_READY;

mod abort;
mod alone;
mod balance;
mod bells;
mod cpus;
mod doorbells;
mod grants;
mod offers;
mod pooled;
mod posted;
mod preload;
mod requestboxes;
mod rings;
mod runs;

use runs::{Doorbell, explore, explore_whole};

/// Space that the slots and bells of the models belong to.
const SPACE: u32 = 7;

/// One side goes to sleep while the other has something for it: `sleeper` answers
/// whether it sleeps, `waker` whether it rings. No side sleeps without being rung.
fn no_lost_wake_up<T: Send + Sync + 'static>(
    name: &str,
    setup: fn() -> T,
    sleeper: fn(&T) -> bool,
    waker: fn(&T) -> bool,
) {
    explore(name, None, move || {
        let shared = Arc::new(setup());
        let other = shared.clone();
        let sleeper = thread::spawn(move || sleeper(&other));
        let waker = thread::spawn(move || waker(&shared));
        let (asleep, rings) = (sleeper.join().unwrap(), waker.join().unwrap());
        assert!(rings || !asleep, "lost wake-up");
    });
}

/// The words of an inbound ring, and its doorbell; and of what its entries are about.
struct Mailbox {
    head: AtomicU32,
    tail: AtomicU32,
    seen: AtomicU32,
    entries: [EntryPair; 2],
    contents: [AtomicU32; 2],
    wait: AtomicU32,
    bell: Doorbell,
}

impl Mailbox {
    fn new() -> Self {
        let mailbox = Self {
            // the counters wrap in the models
            head: AtomicU32::new(u32::MAX),
            tail: AtomicU32::new(u32::MAX),
            seen: AtomicU32::new(u32::MAX),
            entries: [EntryPair::new(), EntryPair::new()],
            contents: [AtomicU32::new(0), AtomicU32::new(0)],
            wait: AtomicU32::new(hanare_abi::wake::WAIT_AWAKE),
            bell: Doorbell::default(),
        };
        let _ = mailbox.ring::<REAL>().emptied(0);
        mailbox
    }

    fn ring<const MUTANT: u8>(&self) -> Ring<'_, ToLwk, MUTANT> {
        Ring::new(&self.head, &self.tail, &self.seen, &self.entries)
    }

    fn inbound<const MUTANT: u8>(&self) -> Inbound<'_, MUTANT> {
        Inbound::new(self.ring(), &self.wait)
    }
}

/// Whether an LWK thread may sleep, on CPU 0.
fn lwk_sleeps<const MUTANT: u8>((words, bell): &(SlotWords, BellWord)) -> bool {
    SlotRef::<MUTANT>::new(words).lwk_prepare_sleep(BellRef::new(bell), SPACE, 0)
}

/// Whether the worker that answers has that CPU rung.
fn worker_rings<const MUTANT: u8>((words, bell): &(SlotWords, BellWord), answer: Answer) -> bool {
    SlotRef::<MUTANT>::new(words).worker_complete(answer)
        && BellRef::<MUTANT>::new(bell).ring(SPACE) == Some(0)
}

/// The wake-up step of every protocol.
fn wake_ups<const MUTANT: u8>(which: &str) {
    match which {
        "worker" => no_lost_wake_up(
            "worker sleeps",
            SlotWords::new,
            |words| SlotRef::<MUTANT>::new(words).worker_prepare_sleep(),
            |words| SlotRef::<MUTANT>::new(words).lwk_post(1, [1; 6]),
        ),
        "lwk" => no_lost_wake_up(
            "LWK thread sleeps until its bell rings",
            || (SlotWords::new(), BellWord::new()),
            |words| lwk_sleeps::<MUTANT>(words),
            |words| worker_rings::<MUTANT>(words, Answer::Done(1)),
        ),
        "asked_worker" => no_lost_wake_up(
            "worker sleeps, and is asked by the LWK itself",
            SlotWords::new,
            |words| SlotRef::<MUTANT>::new(words).worker_prepare_sleep(),
            |words| SlotRef::<MUTANT>::new(words).lwk_ask(Control::TakeMask),
        ),
        "not_started" => no_lost_wake_up(
            "LWK thread sleeps, and its call is not started",
            || (SlotWords::new(), BellWord::new()),
            |words| lwk_sleeps::<MUTANT>(words),
            |words| worker_rings::<MUTANT>(words, Answer::NotStarted),
        ),
        "bell_of_before" => no_lost_wake_up(
            "LWK thread sleeps on another CPU than before, with rings left",
            || {
                let bell = BellWord::new();
                (0..3).for_each(|_| BellRef::<REAL>::new(&bell).arm(SPACE, 1));
                (SlotWords::new(), bell)
            },
            |words| lwk_sleeps::<MUTANT>(words),
            |words| worker_rings::<MUTANT>(words, Answer::Done(1)),
        ),
        "inbound" => no_lost_wake_up(
            "CPU halts",
            Mailbox::new,
            |mailbox| mailbox.inbound::<MUTANT>().prepare_halt(),
            |mailbox| mailbox.inbound::<MUTANT>().post(1).expect("there is room"),
        ),
        "request" => no_lost_wake_up(
            "module sleeps",
            RequestWords::new,
            |words| RequestRef::<MUTANT>::new(words).module_prepare_sleep(),
            |words| RequestRef::<MUTANT>::new(words).complete(0),
        ),
        "abandoned_request" => no_lost_wake_up(
            "module goes away, and the entry is to be free",
            RequestWords::new,
            |words| !RequestRef::<MUTANT>::new(words).module_abandon(),
            |words| RequestRef::<MUTANT>::new(words).complete(0),
        ),
        "service" => no_lost_wake_up(
            "LWK waits for a service",
            ServiceWords::new,
            |words| ServiceRef::<MUTANT>::new(words).prepare_sleep(0),
            |words| ServiceRef::<MUTANT>::new(words).module_complete(0, 0),
        ),
        _ => unreachable!(),
    }
}

macro_rules! wake_up_tests {
    ($($which:ident),*; in C: $($in_c:ident),*) => {
        /// The module's half is that in C; the fence that is left out is the module's.
        mod wake_up_in_c {
            $(#[test]
            fn $in_c() {
                super::wake_ups::<{ super::IN_C }>(stringify!($in_c));
            })*
        }

        mod wake_up_in_c_without_fence {
            $(#[test]
            #[should_panic(expected = "lost wake-up")]
            fn $in_c() {
                super::wake_ups::<{ super::IN_C | super::NO_FENCE }>(stringify!($in_c));
            })*
        }

        mod wake_up {
            $(#[test]
            fn $which() {
                super::wake_ups::<{ super::REAL }>(stringify!($which));
            })*
        }

        mod wake_up_without_fence {
            $(#[test]
            #[should_panic(expected = "lost wake-up")]
            fn $which() {
                super::wake_ups::<{ super::NO_FENCE }>(stringify!($which));
            })*
        }
    };
}

wake_up_tests!(
    worker, lwk, asked_worker, not_started, bell_of_before, inbound, request, abandoned_request, service;
    in C: inbound, request, abandoned_request, service
);

#[test]
fn an_answer_rings_a_bell_in_c() {
    for which in ["lwk", "not_started", "bell_of_before"] {
        wake_ups::<IN_C>(which);
    }
}

/// Question and answer number `number`: a call that is done, or a request that is refused.
fn asked(number: u32) -> (Asked, Answer) {
    if number % 2 == 1 {
        let call = Asked { is_control: false, nr: number, args: [number as u64; 6] };
        (call, Answer::Done(-(number as i64)))
    } else {
        let (nr, args) = Control::Interrupt { tid: number }.encode();
        (Asked { is_control: true, nr, args }, Answer::NotStarted)
    }
}

/// `calls` delegated calls and requests, both sides sleeping whenever they may.
fn slot_model<const MUTANT: u8>(name: &str, calls: u32, preemptions: Option<usize>) {
    explore(name, preemptions, move || {
        let doorbells = (Doorbell::default(), Doorbell::default());
        let shared = Arc::new((SlotWords::new(), BellWord::new(), doorbells.0, doorbells.1));
        let worker = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, bell, worker_bell, lwk_bell) = &*shared;
                let slot = SlotRef::<MUTANT>::new(words);
                for call in 1..=calls {
                    let found = loop {
                        if let Some(found) = slot.worker_poll().map(|kind| slot.worker_takes(kind))
                        {
                            break found;
                        }
                        if slot.worker_prepare_sleep() {
                            worker_bell.wait();
                            slot.worker_awake();
                        }
                    };
                    let (expected, answer) = asked(call);
                    assert_eq!(found, expected);
                    // Perhaps when the LWK sleeps in the next call already.
                    if slot.worker_complete(answer)
                        && BellRef::<MUTANT>::new(bell).ring(SPACE).is_some()
                    {
                        lwk_bell.ring();
                    }
                }
            })
        };
        let lwk = thread::spawn(move || {
            let (words, bell, worker_bell, lwk_bell) = &*shared;
            let slot = SlotRef::<MUTANT>::new(words);
            for call in 1..=calls {
                let (question, expected) = asked(call);
                let sleeps = match question.request() {
                    Some(request) => slot.lwk_ask(request),
                    None => slot.lwk_post(question.nr, question.args),
                };
                if sleeps {
                    worker_bell.ring();
                }
                let answer = loop {
                    if let Some(answer) = slot.lwk_poll() {
                        break answer;
                    }
                    if slot.lwk_prepare_sleep(BellRef::new(bell), SPACE, 0) {
                        lwk_bell.wait();
                        slot.lwk_awake();
                    }
                };
                assert_eq!(answer, expected);
            }
        });
        worker.join().unwrap();
        lwk.join().unwrap();
    });
}

#[test]
fn slot_one_call() {
    slot_model::<REAL>("slot, one call", 1, None);
}

#[test]
fn slot_two_calls() {
    slot_model::<REAL>("slot, two calls", 2, Some(3));
}

#[test]
#[should_panic(expected = "assertion")]
fn slot_without_release_shows_stale_arguments() {
    slot_model::<NO_RELEASE>("slot without release", 1, None);
}

/// The module posts `count` requests; the CPU serves them and halts in between.
fn inbound_model<const MUTANT: u8>(name: &str, count: u32, preemptions: Option<usize>) {
    explore(name, preemptions, move || {
        let shared = Arc::new(Mailbox::new());
        let module = {
            let shared = shared.clone();
            thread::spawn(move || {
                for index in 1..=count {
                    shared.contents[index as usize - 1].store(index, Ordering::Relaxed);
                    if shared.inbound::<MUTANT>().post(index).expect("there is room") {
                        shared.bell.ring();
                    }
                }
            })
        };
        let lwk = thread::spawn(move || {
            let inbound = shared.inbound::<MUTANT>();
            for index in 1..=count {
                let got = loop {
                    if let Some(got) = inbound.pop() {
                        break got;
                    }
                    if inbound.prepare_halt() {
                        shared.bell.wait();
                        inbound.set_polling();
                    }
                };
                let content = shared.contents[index as usize - 1].load(Ordering::Relaxed);
                assert_eq!((got, content), (index, index));
            }
        });
        module.join().unwrap();
        lwk.join().unwrap();
    });
}

#[test]
fn inbound_wakes_the_cpu() {
    inbound_model::<REAL>("inbound, one request", 1, None);
    inbound_model::<REAL>("inbound, two requests", 2, Some(3));
    inbound_model::<IN_C>("inbound in C, one request", 1, None);
    inbound_model::<IN_C>("inbound in C, two requests", 2, Some(3));
}

#[test]
#[should_panic(expected = "assertion")]
fn inbound_in_c_without_release_shows_stale_entries() {
    inbound_model::<{ IN_C | NO_RELEASE }>("inbound in C without release", 1, None);
}

#[test]
#[should_panic(expected = "assertion")]
fn inbound_without_release_shows_stale_entries() {
    inbound_model::<NO_RELEASE>("inbound without release", 1, None);
}

/// The module waits asleep for the answer to a request.
fn request_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let shared = Arc::new((RequestWords::new(), Doorbell::default(), Doorbell::default()));
        let call = RequestCall { kind: 5, space: 1, args: [1, 2, 3, 4] };
        let module = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, posted, done) = &*shared;
                let request = RequestRef::<MUTANT>::new(words);
                request.module_post(call);
                posted.ring();
                let answer = loop {
                    if let Some(answer) = request.module_poll() {
                        break answer;
                    }
                    if request.module_prepare_sleep() {
                        done.wait();
                    }
                };
                assert_eq!(answer, (-5, 9));
            })
        };
        let lwk = thread::spawn(move || {
            let (words, posted, done) = &*shared;
            let request = RequestRef::<MUTANT>::new(words);
            posted.wait();
            assert_eq!(request.read(), Some(call));
            request.set_arg(0, 9);
            if request.complete(-5) {
                done.ring();
            }
        });
        module.join().unwrap();
        lwk.join().unwrap();
    });
}

#[test]
fn request_answer_wakes_the_module() {
    request_model::<REAL>("request");
    request_model::<IN_C>("request in C");
}

#[test]
#[should_panic(expected = "assertion")]
fn request_in_c_without_acquire_shows_a_stale_answer() {
    request_model::<{ IN_C | NO_RELEASE }>("request in C without acquire");
}

#[test]
#[should_panic(expected = "assertion")]
fn request_without_release_shows_a_stale_answer() {
    request_model::<NO_RELEASE>("request without release");
}

/// The LWK waits asleep for a service of the module's.
fn service_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let shared = Arc::new((ServiceWords::new(), Doorbell::default(), Doorbell::default()));
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, ready, done) = &*shared;
                let service = ServiceRef::<MUTANT>::new(words);
                service.prepare(&ServiceCall {
                    kind: 3,
                    space: 1,
                    args: [7; 5],
                    extents: &[1],
                    ready: SERVICE_READY,
                });
                ready.ring();
                let status = loop {
                    if let Some(status) = service.poll() {
                        break status;
                    }
                    if service.prepare_sleep(0) {
                        done.wait();
                        service.awake();
                    }
                };
                assert_eq!(status, 4096);
                assert!(service.withdraw());
            })
        };
        let module = thread::spawn(move || {
            let (words, ready, done) = &*shared;
            let service = ServiceRef::<MUTANT>::new(words);
            ready.wait();
            assert!(service.module_begin(1, SERVICE_READY));
            assert_eq!(service.args(), [7; 5]);
            if service.module_complete(1, 4096) {
                done.ring();
            }
        });
        lwk.join().unwrap();
        module.join().unwrap();
    });
}

#[test]
fn service_wakes_the_lwk() {
    service_model::<REAL>("service");
    service_model::<IN_C>("service in C");
}

/// The LWK gives a service up while the module may begin it: the frames are the LWK's again
/// only when the module does not, or no longer, write to them.
fn withdrawal_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let given_up = AtomicU32::new(0);
        let shared = Arc::new((ServiceWords::new(), given_up, Doorbell::default()));
        ServiceRef::<MUTANT>::new(&shared.0).prepare(&ServiceCall {
            kind: 3,
            space: 1,
            args: [7; 5],
            extents: &[1],
            ready: SERVICE_READY,
        });
        let lwk = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, given_up, done) = &*shared;
                let service = ServiceRef::<MUTANT>::new(words);
                while !service.withdraw() {
                    if service.prepare_sleep(0) {
                        done.wait();
                    }
                }
                assert!(service.is_free());
                given_up.store(1, Ordering::Relaxed);
            })
        };
        let module = thread::spawn(move || {
            let (words, given_up, done) = &*shared;
            let service = ServiceRef::<MUTANT>::new(words);
            if service.module_begin(1, SERVICE_READY) {
                assert_eq!(given_up.load(Ordering::Relaxed), 0);
                if service.module_complete(1, 4096) {
                    done.ring();
                }
            }
        });
        lwk.join().unwrap();
        module.join().unwrap();
    });
}

#[test]
fn service_is_withdrawn_or_run() {
    withdrawal_model::<REAL>("withdrawal");
    withdrawal_model::<IN_C>("withdrawal in C");
}

#[test]
#[should_panic(expected = "assertion")]
fn withdrawal_in_c_without_exchange_gives_frames_up_in_use() {
    withdrawal_model::<{ IN_C | NO_EXCHANGE }>("withdrawal in C without exchange");
}

#[test]
#[should_panic(expected = "assertion")]
fn withdrawal_without_exchange_gives_frames_up_in_use() {
    withdrawal_model::<NO_EXCHANGE>("withdrawal without exchange");
}

/// A reader never sees half an update.
fn clock_model<const MUTANT: u8>(name: &str) {
    explore(name, Some(3), || {
        let words = Arc::new(ClockWords::new());
        let other = words.clone();
        let writer = thread::spawn(move || {
            other.module_write::<MUTANT>(1, 3);
            other.module_write::<MUTANT>(2, 6);
        });
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(page) = ClockReader::<MUTANT>::new(&words).try_read() {
                    assert_eq!(page.monotonic_ns, page.tsc * 3);
                }
            }
        });
        writer.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn clock_is_consistent() {
    clock_model::<REAL>("clock");
    clock_model::<IN_C>("clock in C");
}

#[test]
#[should_panic(expected = "assertion")]
fn clock_in_c_without_fence_is_torn() {
    clock_model::<{ IN_C | NO_FENCE }>("clock in C without fence");
}

#[test]
#[should_panic(expected = "assertion")]
fn clock_without_fence_is_torn() {
    clock_model::<NO_FENCE>("clock without fence");
}
