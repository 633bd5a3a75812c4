//! The slot: one delegated call or control request at a time between a thread and its worker.

use hanare_abi::control::Control;
#[cfg(not(loom))]
use hanare_abi::slot::Slot;
use hanare_abi::slot::{
    SLOT_ANSWERED, SLOT_ASKED, SLOT_BOXED, SLOT_CONTROL, SLOT_DONE, SLOT_IDLE, SLOT_NOT_STARTED,
    SLOT_REQUESTED,
};
use hanare_abi::wake::WAIT_AWAKE;

use crate::bell::BellRef;
use crate::one_writer::{OneWriter, Turn};
use crate::same_layout;
use crate::sleeper::Sleeper;
use crate::sync::{AtomicU32, AtomicU64, NO_LATE_RING, Ordering, REAL, publish};

/// [`Slot`] as atomics.
#[repr(C)]
#[cfg_attr(not(loom), repr(align(256)))]
#[derive(Debug)]
pub struct SlotWords {
    pub(crate) state: OneWriter<AtomicU32, Turn>,
    nr: AtomicU32,
    args: [AtomicU64; 6],
    result: AtomicU64,
    lwk_wait: AtomicU32,
    bell: AtomicU32,
    poll_us: AtomicU32,
    reserved0: AtomicU32,
    sigmask: AtomicU64,
    robust_list: AtomicU64,
    #[cfg(not(loom))]
    reserved1: [AtomicU64; 4],
    worker_wait: AtomicU32,
    tid: AtomicU32,
    doorbell: AtomicU32,
    interrupted: AtomicU32,
    ended_by_signal: AtomicU32,
    server: AtomicU32,
    #[cfg(not(loom))]
    reserved3: [AtomicU64; 13],
}

same_layout!(SlotWords, Slot:
    state, nr, args, result, lwk_wait, bell, poll_us, sigmask, robust_list, worker_wait, tid, doorbell,
    interrupted, ended_by_signal, server);

#[cfg(not(loom))]
#[allow(clippy::new_without_default, reason = "const")]
impl SlotWords {
    /// An idle slot of one's own, for measurements and models of both sides.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: OneWriter::new(SLOT_IDLE),
            nr: AtomicU32::new(0),
            args: [const { AtomicU64::new(0) }; 6],
            result: AtomicU64::new(0),
            lwk_wait: AtomicU32::new(WAIT_AWAKE),
            bell: AtomicU32::new(0),
            poll_us: AtomicU32::new(0),
            reserved0: AtomicU32::new(0),
            sigmask: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            reserved1: [const { AtomicU64::new(0) }; 4],
            worker_wait: AtomicU32::new(WAIT_AWAKE),
            tid: AtomicU32::new(0),
            doorbell: AtomicU32::new(0),
            interrupted: AtomicU32::new(0),
            ended_by_signal: AtomicU32::new(0),
            server: AtomicU32::new(0),
            reserved3: [const { AtomicU64::new(0) }; 13],
        }
    }
}

#[cfg(loom)]
#[allow(clippy::new_without_default, reason = "for the models")]
impl SlotWords {
    /// An idle slot.
    pub fn new() -> Self {
        Self {
            state: OneWriter::new(SLOT_IDLE),
            nr: AtomicU32::new(0),
            args: core::array::from_fn(|_| AtomicU64::new(0)),
            result: AtomicU64::new(0),
            worker_wait: AtomicU32::new(WAIT_AWAKE),
            lwk_wait: AtomicU32::new(WAIT_AWAKE),
            bell: AtomicU32::new(0),
            poll_us: AtomicU32::new(0),
            sigmask: AtomicU64::new(0),
            tid: AtomicU32::new(0),
            reserved0: AtomicU32::new(0),
            robust_list: AtomicU64::new(0),
            doorbell: AtomicU32::new(0),
            interrupted: AtomicU32::new(0),
            ended_by_signal: AtomicU32::new(0),
            server: AtomicU32::new(0),
        }
    }
}

/// A call or control request as it lies in the slot. A call is on its way to be made, so nothing is
/// decoded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// A control request, not a system call.
    pub is_control: bool,
    /// Number of the call, or of the request.
    pub nr: u32,
    /// Arguments of the call, or the request's fields.
    pub args: [u64; 6],
}

impl Asked {
    /// The control request, if it is one that this side knows.
    #[must_use]
    pub fn request(&self) -> Option<Control> {
        if self.is_control { Control::decode(self.nr, &self.args) } else { None }
    }
}

/// The kind of a message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A system call.
    Call,
    /// A control request.
    Request,
}

/// How a worker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call or the request was executed, with this result.
    Done(i64),
    /// A signal has kept the call from being started.
    NotStarted,
}

/// A slot in shared memory, from either side. `MUTANT` is for the models.
#[derive(Clone, Copy, Debug)]
pub struct SlotRef<'a, const MUTANT: u8 = REAL> {
    words: &'a SlotWords,
}

impl<'a> SlotRef<'a> {
    /// The slot at `slot`.
    ///
    /// # Safety
    /// `slot` points to a [`Slot`] aligned to 256 bytes that stays mapped,
    /// readable and writable for `'a`, and that is accessed only through this
    /// crate (or by the other side's equivalent).
    #[must_use]
    #[cfg(not(loom))]
    pub const unsafe fn from_raw(slot: *mut Slot) -> Self {
        // SAFETY: same layout (asserted above); all fields are atomics, which
        // others may change; the caller vouches for the memory.
        let words = unsafe { &*slot.cast::<SlotWords>() };
        Self { words }
    }
}

impl<'a, const MUTANT: u8> SlotRef<'a, MUTANT> {
    /// The slot made of these words.
    #[must_use]
    pub const fn new(words: &'a SlotWords) -> Self {
        Self { words }
    }

    fn lwk(&self) -> Sleeper<'a, MUTANT> {
        Sleeper::new(&self.words.lwk_wait)
    }

    fn worker(&self) -> Sleeper<'a, MUTANT> {
        Sleeper::new(&self.words.worker_wait)
    }

    /// LWK: posts a call. The slot is idle. Answers whether the worker sleeps
    /// and has to be rung (`EVENT_SLOT`).
    #[must_use]
    pub fn lwk_post(&self, nr: u32, args: [u64; 6]) -> bool {
        self.post(SLOT_REQUESTED, nr, args)
    }

    /// LWK: posts a control request, as [`lwk_post`](Self::lwk_post) does a call.
    #[must_use]
    pub fn lwk_ask(&self, request: Control) -> bool {
        let (number, words) = request.encode();
        self.post(SLOT_CONTROL, number, words)
    }

    #[inline(always)]
    fn post(&self, state: u32, nr: u32, args: [u64; 6]) -> bool {
        self.write(nr, args);
        self.words.state.store(Turn, state, publish::<MUTANT>());
        self.worker().must_be_rung()
    }

    #[inline(always)]
    fn write(&self, nr: u32, args: [u64; 6]) {
        self.words.nr.store(nr, Ordering::Relaxed);
        for (word, arg) in self.words.args.iter().zip(args) {
            word.store(arg, Ordering::Relaxed);
        }
    }

    /// LWK: writes a call that any server may execute; [`BoxRef::put`](crate::BoxRef::put)
    /// publishes it. The slot is idle.
    pub fn lwk_box(&self, nr: u32, args: [u64; 6]) {
        self.write(nr, args);
        self.words.state.store(Turn, SLOT_BOXED, Ordering::Relaxed);
    }

    /// LWK: whether its call is in the box, or with a server.
    #[must_use]
    pub fn is_boxed(&self) -> bool {
        self.words.state.load(Ordering::Relaxed) == SLOT_BOXED
    }

    /// LWK: has taken the call out of the box again: the slot is idle.
    pub fn lwk_unbox(&self) {
        self.words.state.store(Turn, SLOT_IDLE, Ordering::Relaxed);
    }

    /// Worker, in a signal's handler: the thread's call in the box, or the next one, is not to be
    /// started, or to end.
    pub fn mark(&self) {
        self.words.interrupted.store(1, Ordering::Relaxed);
    }

    /// Takes the mark of a signal that came for the thread. Called by the owner of a call that was
    /// in the box.
    #[must_use]
    pub fn take_mark(&self) -> bool {
        let is_marked = self.words.interrupted.load(Ordering::Relaxed) != 0;
        if is_marked {
            self.words.interrupted.store(0, Ordering::Relaxed);
        }
        is_marked
    }

    /// Server, before its answer: whether a signal has interrupted it in the call. A line of its
    /// own is written only where that changes.
    pub fn set_ended_by_signal(&self, by_signal: bool) {
        if self.is_ended_by_signal() != by_signal {
            self.words.ended_by_signal.store(by_signal.into(), Ordering::Relaxed);
        }
    }

    /// LWK, after the answer: whether a signal has interrupted the server that has given it, as
    /// that says.
    #[must_use]
    pub fn is_ended_by_signal(&self) -> bool {
        self.words.ended_by_signal.load(Ordering::Relaxed) != 0
    }

    /// Server: stores its Linux thread id in the slot whose call it has taken, if that changes it.
    pub fn set_server(&self, tid: u32) {
        if self.server() != tid {
            self.words.server.store(tid, Ordering::Relaxed);
        }
    }

    /// Linux thread id of the server that has taken the last call of this slot, or 0.
    pub fn server(&self) -> u32 {
        self.words.server.load(Ordering::Relaxed)
    }

    /// LWK: takes the answer if there is one; the slot is idle then.
    #[must_use]
    pub fn lwk_poll(&self) -> Option<Answer> {
        let state = self.words.state.load(Ordering::Acquire);
        if state & SLOT_ANSWERED == 0 {
            return None;
        }
        let result = self.words.result.load(Ordering::Relaxed);
        self.words.state.store(Turn, SLOT_IDLE, Ordering::Relaxed);
        Some(if state == SLOT_NOT_STARTED {
            Answer::NotStarted
        } else {
            Answer::Done(result as i64)
        })
    }

    /// LWK: says that this thread, of `space`, is about to sleep on `cpu`, arms its bell and looks
    /// once more. `true`: it may sleep, and will be rung. `false`: the answer is there.
    #[must_use]
    #[inline(always)]
    pub fn lwk_prepare_sleep(&self, bell: BellRef<'_, MUTANT>, space: u32, cpu: u32) -> bool {
        // The worker looks at the bell last, after both words: a worker that finds it unarmed has
        // answered before this looks.
        self.lwk().prepare_sleep_by_exchange(
            || bell.arm(space, cpu),
            || self.words.state.load(Ordering::Relaxed) & SLOT_ANSWERED != 0,
        )
    }

    /// LWK: likewise, on the slot of a worker that answers one thread after the other. The worker
    /// reads which bell to ring when it has answered. So its ring for the thread before may come by
    /// this thread's bell, or by that of a thread that has used another worker meanwhile. Then this
    /// thread would be left without a ring: so its bell may ring once more.
    #[must_use]
    pub fn lwk_prepare_shared_sleep(
        &self,
        bell: BellRef<'_, MUTANT>,
        space: u32,
        cpu: u32,
    ) -> bool {
        if MUTANT != NO_LATE_RING {
            bell.arm(space, cpu);
        }
        self.lwk_prepare_sleep(bell, space, cpu)
    }

    /// LWK: whether the worker polls or works (as far as it has told).
    #[must_use]
    pub fn worker_is_awake(&self) -> bool {
        self.worker().is_awake()
    }

    /// Worker: whether the LWK's thread polls or works (as far as it has told).
    #[must_use]
    pub fn lwk_is_awake(&self) -> bool {
        self.lwk().is_awake()
    }

    /// LWK: says that this thread polls again.
    pub fn lwk_awake(&self) {
        self.lwk().wakes();
    }

    /// LWK: whether something can be posted.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.words.state.load(Ordering::Relaxed) == SLOT_IDLE
    }

    /// `SLOT_*`, as far as can be seen, for listings. Eight bits, whatever a proxy writes.
    #[must_use]
    #[cfg(not(loom))]
    pub fn state(&self) -> u32 {
        self.words.state.load(Ordering::Relaxed) & 0xff
    }

    /// LWK: makes the slot of a new thread: idle, no side asleep.
    pub fn lwk_reset(&self) {
        self.lwk_awake();
        self.worker().wakes();
        self.words.interrupted.store(0, Ordering::Relaxed);
        self.words.state.store(Turn, SLOT_IDLE, Ordering::Release);
    }

    /// Worker: of which kind is what it is asked for, if it is;
    /// [`worker_takes`](Self::worker_takes) that.
    #[must_use]
    #[inline(always)]
    pub fn worker_poll(&self) -> Option<Kind> {
        let state = self.words.state.load(Ordering::Acquire);
        if state & SLOT_ASKED == 0 {
            return None;
        }
        Some(if state == SLOT_CONTROL { Kind::Request } else { Kind::Call })
    }

    /// Worker: takes the call or request from the slot.
    #[must_use]
    pub fn worker_takes(&self, kind: Kind) -> Asked {
        let args = core::array::from_fn(|i| self.words.args[i].load(Ordering::Relaxed));
        Asked { is_control: kind == Kind::Request, nr: self.number(), args }
    }

    /// Worker: number of the call that it is asked for.
    #[must_use]
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.words.nr.load(Ordering::Relaxed)
    }

    /// Worker: where the six arguments of that lie.
    #[must_use]
    #[inline(always)]
    #[cfg(not(loom))]
    pub const fn arguments(&self) -> *const u64 {
        (&raw const self.words.args).cast()
    }

    /// Worker: says that it is about to sleep and looks once more. `true`: it may
    /// sleep (`IOCTL_WAIT`), and will be rung. `false`: it is asked for something.
    #[must_use]
    pub fn worker_prepare_sleep(&self) -> bool {
        self.worker().prepare_sleep(|| self.words.state.load(Ordering::Relaxed) & SLOT_ASKED != 0)
    }

    /// Worker: says that it polls again.
    pub fn worker_awake(&self) {
        self.worker().wakes();
    }

    /// Worker: answers. Answers whether the LWK thread sleeps and its CPU has to be rung
    /// (`IOCTL_RING`).
    #[must_use]
    pub fn worker_complete(&self, answer: Answer) -> bool {
        let state = match answer {
            Answer::Done(result) => {
                self.words.result.store(result as u64, Ordering::Relaxed);
                SLOT_DONE
            }
            Answer::NotStarted => SLOT_NOT_STARTED,
        };
        self.words.state.store(Turn, state, publish::<MUTANT>());
        self.lwk().must_be_rung()
    }

    /// Bell to ring for this thread.
    #[must_use]
    pub fn bell(&self) -> u32 {
        self.words.bell.load(Ordering::Relaxed)
    }

    /// LWK: sets the bell to ring, before [`lwk_prepare_sleep`](Self::lwk_prepare_sleep) arms it.
    pub fn set_bell(&self, bell: u32) {
        self.words.bell.store(bell, Ordering::Relaxed);
    }

    /// How long the worker polls before it sleeps, microseconds.
    #[must_use]
    pub fn poll_us(&self) -> u32 {
        self.words.poll_us.load(Ordering::Relaxed)
    }

    /// LWK: sets how long the worker polls, microseconds; 0: not at all.
    pub fn set_poll_us(&self, poll_us: u32) {
        self.words.poll_us.store(poll_us, Ordering::Relaxed);
    }

    /// Signal mask the worker must have during the next call (bit n-1 = signal n).
    #[must_use]
    pub fn sigmask(&self) -> u64 {
        self.words.sigmask.load(Ordering::Relaxed)
    }

    /// LWK: the doorbell next to where the worker sleeps, plus 1, as it says; 0: not known.
    #[must_use]
    #[inline(always)]
    pub fn doorbell(&self) -> u32 {
        self.words.doorbell.load(Ordering::Relaxed)
    }

    /// Worker: sets the doorbell for the next time that it sleeps. A line of its own is written
    /// only where something changes.
    #[inline(always)]
    pub fn set_doorbell(&self, doorbell: u32) {
        if self.doorbell() != doorbell {
            self.words.doorbell.store(doorbell, Ordering::Relaxed);
        }
    }

    /// LWK: sets the mask, before [`lwk_post`](Self::lwk_post).
    pub fn set_sigmask(&self, mask: u64) {
        self.words.sigmask.store(mask, Ordering::Relaxed);
    }

    /// The list of robust futexes that Linux has to know of during the next call.
    #[must_use]
    pub fn robust_list(&self) -> u64 {
        self.words.robust_list.load(Ordering::Relaxed)
    }

    /// LWK: sets that, before [`lwk_post`](Self::lwk_post).
    pub fn set_robust_list(&self, head: u64) {
        self.words.robust_list.store(head, Ordering::Relaxed);
    }

    /// Whether the slot has a worker, as that one says.
    #[must_use]
    pub fn has_worker(&self) -> bool {
        self.tid() != 0
    }

    /// Linux thread id of the worker, as the proxy says. The LWK asks its bell instead
    /// ([`BellRef::worker`](crate::BellRef::worker)).
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.words.tid.load(Ordering::Relaxed)
    }

    /// Worker: stores its Linux thread id.
    pub fn set_tid(&self, tid: u32) {
        self.words.tid.store(tid, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bell::BellWord;
    use std::boxed::Box;
    use std::mem::MaybeUninit;

    fn poll(side: SlotRef<'_>) -> Option<Asked> {
        side.worker_poll().map(|kind| side.worker_takes(kind))
    }

    fn slot() -> Box<Slot> {
        let zeroed = Box::new(MaybeUninit::<Slot>::zeroed());
        // SAFETY: a slot of zeros is a slot.
        unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) }
    }

    #[test]
    fn a_call_is_posted_seen_and_answered() {
        let mut memory = slot();
        // SAFETY: the memory outlives both, and nothing else touches it.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        let word = BellWord::new();
        let sleeps = || side.lwk_prepare_sleep(BellRef::new(&word), 7, 3);
        assert!(side.is_idle());
        assert_eq!(poll(side), None);
        assert!(side.worker_prepare_sleep());
        assert!(side.lwk_post(1, [1, 2, 3, 4, 5, 6]));
        side.worker_awake();
        assert_eq!(side.lwk_poll(), None);
        let call = Asked { is_control: false, nr: 1, args: [1, 2, 3, 4, 5, 6] };
        assert_eq!(poll(side), Some(call));
        assert_eq!(call.request(), None);
        assert!(!side.worker_prepare_sleep());
        assert!(sleeps());
        assert!(side.worker_complete(Answer::Done(-14)));
        assert!(!sleeps());
        assert_eq!(BellRef::<REAL>::new(&word).ring(7), Some(3));
        assert_eq!(side.lwk_poll(), Some(Answer::Done(-14)));
        assert_eq!(side.lwk_poll(), None);
        side.set_bell(9);
        side.set_poll_us(50);
        side.set_sigmask(1 << 63);
        side.set_tid(7);
        side.set_robust_list(1 << 40);
        assert_eq!((side.bell(), side.poll_us(), side.sigmask(), side.tid()), (9, 50, 1 << 63, 7));
        assert_eq!((memory.bell, memory.poll_us, memory.sigmask, memory.tid), (9, 50, 1 << 63, 7));
        assert_eq!(
            (memory.state, memory.nr, memory.result, memory.robust_list),
            (SLOT_IDLE, 1, -14, 1 << 40)
        );
    }

    #[test]
    fn a_request_is_no_call() {
        let mut memory = slot();
        // SAFETY: the memory outlives both, and nothing else touches it.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        let request = Control::Interrupt { tid: 7 };
        assert!(!side.lwk_ask(request));
        assert!(!side.is_idle() && !side.worker_prepare_sleep());
        let asked = poll(side).expect("it is there");
        assert_eq!((asked.is_control, asked.request()), (true, Some(request)));
        assert!(!side.worker_complete(Answer::Done(0)));
        assert_eq!(side.lwk_poll(), Some(Answer::Done(0)));
        memory.nr = u32::MAX;
        memory.state = SLOT_CONTROL;
        // SAFETY: as above.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        let asked = poll(side).expect("it is there");
        assert_eq!((asked.is_control, asked.request()), (true, None));
    }

    #[test]
    fn no_result_of_linux_is_taken_for_a_call_that_was_not_started() {
        let mut memory = slot();
        // SAFETY: the memory outlives both, and nothing else touches it.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        // F_GETOWN of process group 513, among others.
        let _ = side.worker_complete(Answer::Done(-513));
        assert_eq!(side.lwk_poll(), Some(Answer::Done(-513)));
        let _ = side.worker_complete(Answer::NotStarted);
        assert!(!side.lwk_prepare_sleep(BellRef::new(&BellWord::new()), 7, 3));
        assert_eq!(side.lwk_poll(), Some(Answer::NotStarted));
        assert!(side.is_idle());
    }

    #[test]
    fn two_threads_make_each_call_once() {
        const CALLS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let mut memory = slot();
        // SAFETY: the memory outlives both threads, and nothing else touches it.
        let side = unsafe { SlotRef::from_raw(&raw mut *memory) };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for call in 0..CALLS {
                    let asked = loop {
                        match poll(side) {
                            Some(found) => break found,
                            None => std::thread::yield_now(),
                        }
                    };
                    assert_eq!((asked.nr, asked.args), (call as u32, [call; 6]));
                    let _ = side.worker_complete(Answer::Done(-(call as i64)));
                }
            });
            for call in 0..CALLS {
                let _ = side.lwk_post(call as u32, [call; 6]);
                let result = loop {
                    match side.lwk_poll() {
                        Some(result) => break result,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(result, Answer::Done(-(call as i64)));
            }
        });
    }
}
