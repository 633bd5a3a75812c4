//! Wake-ups of a CPU of the LWK by its peers, Linux and the bells of its threads, all at once; and
//! how news of a thread finds the CPU where that sleeps.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Mailbox, SPACE, explore};
use crate::alone::{Alone, Waits};
use crate::bell::{BellRef, BellWord};
use crate::mailbox::Bells;
use crate::set::CpuSet;
use crate::slot::{Answer, SlotRef, SlotWords};
use crate::sync::{AtomicU32, AtomicU64, NO_EXCHANGE, NO_FENCE, NO_RELEASE, Ordering, REAL};
use crate::wake::{Attention, CpuWake, FLUSH, QUEUE, SLEEPS, THREADS, WANTS_CPU, Whereabouts};

/// A CPU, and what others have for it.
pub(super) struct Cpu<const MUTANT: u8> {
    pub(super) attention: Attention<MUTANT>,
    pub(super) mailbox: Mailbox,
    /// Counts what its peers have posted.
    posted: [AtomicU32; 2],
    /// Slots of two threads of the CPU, which sleep in calls.
    slots: [SlotWords; 2],
    thread_bells: [BellWord; 2],
    rung: AtomicU64,
    bells: [AtomicU64; 1],
}

impl<const MUTANT: u8> Cpu<MUTANT> {
    pub(super) fn new() -> Self {
        Self {
            attention: Attention::new(),
            mailbox: Mailbox::new(),
            posted: [AtomicU32::new(0), AtomicU32::new(0)],
            slots: [SlotWords::new(), SlotWords::new()],
            thread_bells: [BellWord::new(), BellWord::new()],
            rung: AtomicU64::new(0),
            bells: [AtomicU64::new(0)],
        }
    }

    pub(super) fn wake(&self) -> CpuWake<'_, MUTANT> {
        CpuWake { attention: &self.attention, inbound: self.mailbox.inbound() }
    }

    pub(super) fn bells(&self) -> Bells<'_, MUTANT> {
        Bells::new(&self.rung, &self.bells)
    }

    pub(super) fn slot(&self, of: usize) -> SlotRef<'_, MUTANT> {
        SlotRef::new(&self.slots[of])
    }

    /// Thread `of` says that it sleeps, and looks once more. Whether its answer is not there.
    pub(super) fn prepare_sleep(&self, of: usize) -> bool {
        self.slot(of).lwk_prepare_sleep(BellRef::new(&self.thread_bells[of]), SPACE, 0)
    }

    /// The worker of thread `of` answers, and rings if it has to: by the doorbell of the mailbox,
    /// too.
    pub(super) fn answer(&self, of: usize, result: i64) {
        let rings = self.slot(of).worker_complete(Answer::Done(result));
        if rings && BellRef::<MUTANT>::new(&self.thread_bells[of]).ring(SPACE).is_some() {
            self.bells().ring(of as u32);
            self.mailbox.bell.ring();
        }
    }

    /// Peer `which` has something: the IPI is the doorbell of the mailbox, for all of them the
    /// same.
    fn post(&self, which: usize, reason: u32) {
        self.posted[which].store(1, Ordering::Relaxed);
        if self.attention.post(reason) {
            self.mailbox.bell.ring();
        }
    }
}

/// The model's CPU has the same company all the time.
impl<const MUTANT: u8> Alone<MUTANT> for Cpu<MUTANT> {
    fn wake(&self) -> CpuWake<'_, MUTANT> {
        self.wake()
    }
    fn bells(&self) -> Bells<'_, MUTANT> {
        self.bells()
    }
    fn look_for_company(&self) -> u32 {
        self.attention.company().kinds()
    }
}

/// Thread 0 waits for its worker.
impl<const MUTANT: u8> Waits for Cpu<MUTANT> {
    fn may_halt(&self) -> bool {
        true
    }
    fn is_ready(&self) -> bool {
        self.slot(0).lwk_poll().is_some()
    }
    fn halt(&self) {
        self.mailbox.bell.wait();
    }
}

/// Source of a wake-up in a model.
#[derive(Clone, Copy, PartialEq)]
enum Waker {
    /// Another CPU, with this reason.
    Peer(usize, u32),
    /// The module, with a request.
    Linux,
    /// The worker of a thread that sleeps here: thread 0 is the one that the CPU runs.
    Worker(usize),
}

/// Place in its code where the CPU is when it is woken.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// The CPU halts after it polled.
    Halt,
    /// The CPU is in user mode, where it came from polling.
    User,
    /// A call's answer is waited for as in user mode: the CPU does not poll, halts as it is, and
    /// goes back to user mode.
    Call,
}

/// The CPU halts, or runs in user mode, until all `wakers` have woken it, each once. A lost wake-up
/// is a deadlock.
fn cpu_model<const MUTANT: u8>(
    name: &str,
    at: At,
    wakers: &'static [Waker],
    preemptions: Option<usize>,
) {
    explore(name, preemptions, move || {
        let shared = Arc::new(Cpu::<MUTANT>::new());
        let _ = shared.attention.take_any();
        if at == At::Call {
            assert!(shared.wake().prepare_user(false), "it is in user mode");
        }
        let spawned: Vec<_> = wakers
            .iter()
            .map(|&waker| {
                let cpu = shared.clone();
                thread::spawn(move || match waker {
                    Waker::Peer(which, reason) => cpu.post(which, reason),
                    Waker::Linux => {
                        if cpu.mailbox.inbound::<MUTANT>().post(1).expect("there is room") {
                            cpu.mailbox.bell.ring();
                        }
                    }
                    Waker::Worker(of) => cpu.answer(of, 1),
                })
            })
            .collect();
        let lwk = thread::spawn(move || {
            let (cpu, wake) = (&*shared, shared.wake());
            let (bells, slot) = (cpu.bells(), |of: usize| cpu.slot(of));
            let mut left = wakers.to_vec();
            for of in [1, 0] {
                if left.contains(&Waker::Worker(of)) && !cpu.prepare_sleep(of) {
                    assert_eq!(slot(of).lwk_poll(), Some(Answer::Done(1)));
                    left.retain(|&waker| waker != Waker::Worker(of));
                }
            }
            if at == At::Call {
                if left.contains(&Waker::Worker(1)) {
                    cpu.attention.company().joined_by(SLEEPS);
                }
                if left.contains(&Waker::Worker(0)) {
                    let (ready, _) = Alone::<MUTANT>::sleep(cpu, cpu);
                    Alone::<MUTANT>::end(cpu);
                    left.retain(|&waker| waker != Waker::Worker(0) || !ready);
                }
                // In user mode again, or not yet since there is something.
                if !left.is_empty() && !cpu.attention.take_any() {
                    cpu.mailbox.bell.wait();
                }
            }
            while !left.is_empty() {
                wake.begin_polling();
                if wake.inbound.pop().is_some() {
                    left.retain(|&waker| waker != Waker::Linux);
                }
                for reason in [QUEUE, THREADS, FLUSH] {
                    if cpu.attention.take(reason) {
                        left.retain(|&waker| match waker {
                            Waker::Peer(which, why) if why == reason => {
                                // One of two with the same reason may still be on its way.
                                let visible = cpu.posted[which].load(Ordering::Relaxed) == 1;
                                assert!(
                                    visible || wakers.len() > 1,
                                    "posted without what it is about"
                                );
                                !visible
                            }
                            _ => true,
                        });
                    }
                }
                // The ring may be late: the thread has found its answer before it slept.
                bells.take(|of| {
                    let worker = Waker::Worker(of as usize);
                    if left.contains(&worker) {
                        assert_eq!(slot(of as usize).lwk_poll(), Some(Answer::Done(1)));
                        left.retain(|&waker| waker != worker);
                    }
                });
                let quiet =
                    if at == At::Halt { wake.prepare_halt() } else { wake.prepare_user(false) };
                if quiet && !left.is_empty() {
                    cpu.mailbox.bell.wait();
                }
            }
        });
        spawned.into_iter().for_each(|waker| waker.join().unwrap());
        lwk.join().unwrap();
    });
}

#[test]
fn one_peer_wakes_a_cpu() {
    cpu_model::<REAL>("CPU halts, one peer", At::Halt, &[Waker::Peer(0, QUEUE)], None);
    cpu_model::<REAL>("CPU in user mode, one peer", At::User, &[Waker::Peer(0, FLUSH)], None);
}

#[test]
fn two_peers_wake_a_cpu() {
    const SAME: &[Waker] = &[Waker::Peer(0, THREADS), Waker::Peer(1, THREADS)];
    const OTHER: &[Waker] = &[Waker::Peer(0, QUEUE), Waker::Peer(1, FLUSH)];
    cpu_model::<REAL>("CPU halts, two peers with one reason", At::Halt, SAME, Some(2));
    cpu_model::<REAL>("CPU in user mode, two peers", At::User, OTHER, Some(2));
}

#[test]
fn linux_and_a_peer_wake_a_cpu() {
    const BOTH: &[Waker] = &[Waker::Linux, Waker::Peer(0, QUEUE)];
    cpu_model::<REAL>("CPU halts, Linux and a peer", At::Halt, BOTH, Some(2));
    cpu_model::<REAL>("CPU in user mode, Linux and a peer", At::User, BOTH, Some(2));
}

#[test]
fn a_worker_linux_and_a_peer_wake_a_cpu() {
    const ALL: &[Waker] = &[Waker::Worker(0), Waker::Linux, Waker::Peer(0, THREADS)];
    cpu_model::<REAL>("CPU halts, all at once", At::Halt, ALL, Some(2));
}

#[test]
fn what_comes_while_a_call_is_waited_for_as_in_user_mode_is_seen() {
    const LINUX: &[Waker] = &[Waker::Worker(0), Waker::Linux];
    const PEER: &[Waker] = &[Waker::Worker(0), Waker::Peer(0, FLUSH)];
    const OTHER: &[Waker] = &[Waker::Worker(0), Waker::Worker(1)];
    cpu_model::<REAL>("CPU in a call, its answer", At::Call, &[Waker::Worker(0)], None);
    cpu_model::<REAL>("CPU in a call, its answer and another thread's", At::Call, OTHER, Some(2));
    cpu_model::<REAL>("CPU in a call, its answer and Linux", At::Call, LINUX, Some(2));
    cpu_model::<REAL>("CPU in a call, its answer and a peer", At::Call, PEER, Some(2));
}

#[test]
#[should_panic(expected = "posted without what it is about")]
fn a_peer_without_release_posts_before_what_it_is_about() {
    const ONE: &[Waker] = &[Waker::Peer(0, QUEUE)];
    cpu_model::<NO_RELEASE>("peer without release", At::Halt, ONE, None);
}

/// One step of that, with an answer: the CPU halts while a peer posts.
fn halting_model<const MUTANT: u8>(name: &str) {
    super::no_lost_wake_up(
        name,
        || {
            let attention = Attention::<MUTANT>::new();
            attention.begin_looking();
            attention
        },
        |attention| attention.end_looking(),
        |attention| attention.post(QUEUE),
    );
}

#[test]
fn a_cpu_that_halts_is_interrupted() {
    halting_model::<REAL>("CPU halts, one step");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_cpu_that_halts_in_two_steps_is_not_interrupted() {
    halting_model::<NO_EXCHANGE>("CPU halts in two steps");
}

/// A thread on CPU 0 goes to CPU 1, where it looks for `news` and sleeps if there is none, while
/// one or two others have news for it, and CPU 0 looks at its list. CPU 1 sleeps until it is
/// posted.
fn moving_model<const MUTANT: u8>(name: &str, tellers: usize, preemptions: Option<usize>) {
    struct Shared<const MUTANT: u8> {
        thread: Whereabouts<MUTANT>,
        news: AtomicU32,
        lists: [Mutex<u32>; 2],
        attention: [Attention<MUTANT>; 2],
    }
    impl<const MUTANT: u8> Shared<MUTANT> {
        fn tell(&self) {
            let cpu = self.thread.tell(|cpu| *self.lists[cpu].lock().unwrap() += 1);
            let _ = self.attention[cpu].post(THREADS);
        }
        /// CPU `here` looks at its list. Whether it found the thread there.
        fn looks(&self, here: usize) -> bool {
            self.attention[here].take(THREADS)
                && std::mem::take(&mut *self.lists[here].lock().unwrap()) > 0
                && (self.thread.is_found(here) || {
                    self.tell();
                    false
                })
        }
    }
    explore(name, preemptions, move || {
        let shared = Arc::new(Shared::<MUTANT> {
            thread: Whereabouts::new(),
            news: AtomicU32::new(0),
            lists: [Mutex::new(0), Mutex::new(0)],
            attention: [Attention::new(), Attention::new()],
        });
        let tellers: Vec<_> = (0..tellers)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.news.fetch_add(1, Ordering::Relaxed);
                    shared.tell();
                })
            })
            .collect();
        let there = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.thread.moves_to(1);
                shared.news.load(Ordering::Relaxed)
            })
        };
        let here = {
            let shared = shared.clone();
            thread::spawn(move || shared.looks(0))
        };
        let count = tellers.len() as u32;
        tellers.into_iter().for_each(|teller| teller.join().unwrap());
        let seen = there.join().unwrap();
        let _ = here.join().unwrap();
        // Both CPUs go on looking as long as there is a reason.
        let mut found = false;
        while shared.attention.iter().any(|word| word.has(THREADS)) {
            let _ = shared.looks(0);
            found |= shared.looks(1);
        }
        assert!(seen == count || found, "lost wake-up");
        assert_eq!((*shared.lists[0].lock().unwrap(), *shared.lists[1].lock().unwrap()), (0, 0));
    });
}

#[test]
fn news_find_a_thread_that_moves() {
    moving_model::<REAL>("news of a thread that moves", 1, None);
    moving_model::<REAL>("news of two of a thread that moves", 2, Some(2));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn news_miss_a_thread_that_moves_in_two_steps() {
    moving_model::<NO_EXCHANGE>("thread that moves in two steps", 1, None);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn news_miss_a_thread_that_does_not_acquire_them() {
    moving_model::<NO_RELEASE>("thread that moves without release", 1, None);
}

/// A CPU enters a set, then looks; another stores, then searches the set.
fn set_model<const MUTANT: u8>(name: &str) {
    super::no_lost_wake_up(
        name,
        || (CpuSet::<1, MUTANT>::new(), AtomicU32::new(0)),
        |(set, load)| {
            set.insert(3);
            load.load(Ordering::Relaxed) == 0
        },
        |(set, load)| {
            load.store(1, Ordering::Relaxed);
            set.after_change().first(|cpu| cpu == 3).is_some()
        },
    );
}

#[test]
fn an_idle_cpu_is_offered_a_thread_or_finds_it() {
    set_model::<REAL>("idle CPUs");
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn an_idle_cpu_is_not_seen_without_fence() {
    set_model::<NO_FENCE>("idle CPUs without fence");
}

/// A peer puts a thread on the queue of a CPU, which halts in a call if it is alone: `MUTANT`
/// without release posts before the thread is there. Before that the CPU has looked at its queue,
/// and seen to what was posted.
fn company_model<const MUTANT: u8>(name: &str) {
    explore(name, None, || {
        let queue = Mutex::new(0);
        let shared = Arc::new((Attention::<MUTANT>::new(), queue));
        let _ = shared.0.take_any();
        let peer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (attention, queue) = &*shared;
                let mut queue = queue.lock().unwrap();
                *queue += 1;
                attention.company().joined_by(WANTS_CPU);
                drop(queue);
                attention.post(QUEUE)
            })
        };
        let cpu = thread::spawn(move || {
            let (attention, queue) = &*shared;
            let company = attention.company();
            // Another way than the one that waits alone: it looks at the queue after it has taken
            // the reason, or leaves the thread there.
            if attention.take(QUEUE) {
                assert_ne!(company.kinds(), 0, "posted without company");
            }
            if company.kinds() != 0 {
                let queue = queue.lock().unwrap();
                company.set(if *queue > 0 { WANTS_CPU } else { 0 });
            }
            company.kinds() == 0 && attention.is_clear()
        });
        let (rings, halts) = (peer.join().unwrap(), cpu.join().unwrap());
        assert!(rings || !halts, "lost wake-up");
    });
}

#[test]
fn a_cpu_that_waits_alone_sees_a_thread_that_comes() {
    company_model::<REAL>("company");
}

#[test]
#[should_panic(expected = "posted without company")]
fn a_thread_that_is_posted_without_release_is_not_seen() {
    company_model::<NO_RELEASE>("company without release");
}
