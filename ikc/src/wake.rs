//! The wake-up protocol (`docs/wakeup.md`). The sleeper says that it sleeps, and looks once more.
//! The waker stores the news for it, and looks whether to ring.
//!
//! Between kernels the two are different words, each written by one side: `Sleeper`. Between the
//! CPUs of the LWK they are bits of one word: [`Attention`]. [`CpuWake`] is all that an LWK CPU
//! does about both. [`Whereabouts`] leads news for a thread to the CPU where it sleeps.

use crate::mailbox::Inbound;
use crate::sync::{AtomicU32, Ordering, REAL, exchanges};

/// The CPU looks at its word by itself before it halts or returns to user mode: no interrupt is
/// needed.
const LOOKS: u32 = 1;
/// The next return to user mode goes the long way.
pub const BEFORE_USER: u32 = 1 << 1;
/// The slice of the running thread may be over.
pub const RESCHEDULE: u32 = 1 << 2;
/// A thread came to the run queue, or could be taken over from another CPU.
pub const QUEUE: u32 = 1 << 3;
/// Threads are on the list of those that are to be looked at.
pub const THREADS: u32 = 1 << 4;
/// The TLB mailbox has a range.
pub const FLUSH: u32 = 1 << 5;
/// Reasons that keep a CPU from halting and from user mode. The rest is the CPU's own, seen to
/// before user mode.
const FOR_OTHERS: u32 = QUEUE | THREADS | FLUSH;

/// Reasons for a CPU of the LWK to look: a bit for each, and whether it looks by itself. Any CPU
/// sets bits, the owner takes them. The word has a cache line of its own, with its [`Company`].
/// Entry code looks whether the word is 0.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Attention<const MUTANT: u8 = REAL>(AtomicU32, Company);

impl<const MUTANT: u8> Attention<MUTANT> {
    /// The word of a CPU that has to look at everything before its first return to user mode.
    #[must_use]
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default, reason = "const")]
    pub const fn new() -> Self {
        Self(AtomicU32::new(BEFORE_USER), Company::new())
    }
    #[cfg(loom)]
    #[allow(clippy::new_without_default, missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(BEFORE_USER), Company::new())
    }

    /// Company of the CPU: threads beside the running one.
    #[must_use]
    #[inline(always)]
    pub const fn company(&self) -> &Company {
        &self.1
    }

    /// Another CPU: there are `reasons` to look, and what they are about was stored before. `true`:
    /// interrupt the CPU, which would not look by itself. One that was given the reason before is
    /// looking, or has been interrupted.
    #[must_use]
    pub fn post(&self, reasons: u32) -> bool {
        self.0.fetch_or(reasons, exchanges::<MUTANT>()) & (LOOKS | reasons) == 0
    }

    /// The CPU itself: there are `reasons` to look before user mode.
    pub fn ask(&self, reasons: u32) {
        if self.0.load(Ordering::Relaxed) & reasons != reasons {
            self.0.fetch_or(reasons, exchanges::<MUTANT>());
        }
    }

    /// The CPU: whether there is one of `reasons`. It is looked at now, and what was stored before
    /// is visible.
    #[must_use]
    #[inline]
    pub fn take(&self, reasons: u32) -> bool {
        self.has(reasons) && self.0.fetch_and(!reasons, exchanges::<MUTANT>()) & reasons != 0
    }

    /// The CPU: whether there is one of `reasons`, as far as it sees.
    #[must_use]
    #[inline]
    pub fn has(&self, reasons: u32) -> bool {
        self.0.load(Ordering::Relaxed) & reasons != 0
    }

    /// The CPU: whether there is nothing at all, nor does it look by itself.
    #[must_use]
    #[inline(always)]
    pub fn is_clear(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The CPU, last before user mode: whether it has to go the long way. That sees to all reasons,
    /// and [ends](Self::end_looking) what makes this true.
    #[must_use]
    #[inline(always)]
    pub fn take_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0 && {
            let _ = self.take(BEFORE_USER);
            true
        }
    }

    /// Begins to poll: the CPU looks at this word by itself, and need not be interrupted.
    pub fn begin_looking(&self) {
        self.ask(LOOKS);
    }

    /// Ends polling. `false`: another CPU has posted a reason, which is to be seen to first.
    #[must_use]
    pub fn end_looking(&self) -> bool {
        if MUTANT == crate::sync::NO_EXCHANGE {
            let quiet = !self.has(FOR_OTHERS);
            self.0.fetch_and(!LOOKS, Ordering::AcqRel);
            return quiet;
        }
        self.0.fetch_and(!LOOKS, exchanges::<MUTANT>()) & FOR_OTHERS == 0
    }

    /// The CPU, after [`end_looking`](Self::end_looking): whether nothing has come since, by itself
    /// either.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        !self.has(FOR_OTHERS)
    }
}

/// All that others wake a CPU of the LWK for, from that CPU: what its peers post, and requests of
/// Linux. For a bell or a service of one of its threads Linux always interrupts it: that thread has
/// said that it sleeps.
#[derive(Clone, Copy, Debug)]
pub struct CpuWake<'a, const MUTANT: u8 = REAL> {
    /// Reasons that other CPUs post.
    pub attention: &'a Attention<MUTANT>,
    /// Requests of Linux.
    pub inbound: Inbound<'a, MUTANT>,
}

impl<const MUTANT: u8> CpuWake<'_, MUTANT> {
    /// Begins to poll: no side need interrupt the CPU. It looks before it halts; before user mode
    /// it goes the long way.
    pub fn begin_polling(&self) {
        self.attention.begin_looking();
        self.inbound.set_polling();
    }

    /// Whether the CPU has to be interrupted (it polls nothing), and there is nothing for it to see
    /// to, nor before user mode. News from now on comes by an interrupt, so that the CPU may halt
    /// as it is if its interrupts are off.
    #[must_use]
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.attention.is_clear() && !self.inbound.is_polling() && self.inbound.is_empty()
    }

    /// Ends polling, before the CPU halts. `false`: something has come that is to be seen to first.
    #[must_use]
    pub fn prepare_halt(&self) -> bool {
        self.attention.end_looking() && self.inbound.prepare_halt()
    }

    /// Ends polling, before user mode; `rests`: requests of Linux wait for a timer. `false`:
    /// something has come that is to be seen to first.
    #[must_use]
    pub fn prepare_user(&self, rests: bool) -> bool {
        let quiet = self.attention.end_looking();
        if rests {
            self.inbound.set_polling(); // no side rings before the timer does
            return quiet;
        }
        quiet && (!self.inbound.is_polling() || self.inbound.prepare_halt())
    }
}

/// Threads of a CPU beside the running one, as flags. By them the running thread learns that it is
/// alone without the lock of the CPU's queues. The flags are set under that lock when a thread is
/// put there, and may stay set when it is gone again.
#[derive(Debug)]
pub struct Company(AtomicU32);

/// A thread may be on the run queue, or wait for what no side tells.
pub const WANTS_CPU: u32 = 1;
/// A thread may sleep until its bell rings.
pub const SLEEPS: u32 = 1 << 1;

#[allow(clippy::new_without_default, reason = "const")]
impl Company {
    /// The company of a CPU without threads.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Any CPU, with the lock of the queues: a thread comes there. If another CPU has it come, it
    /// posts [`QUEUE`] after that.
    #[inline(always)]
    pub fn joined_by(&self, kind: u32) {
        let before = self.0.load(Ordering::Relaxed);
        if before & kind == 0 {
            self.0.store(before | kind, Ordering::Relaxed);
        }
    }

    /// The CPU whose it is, with the lock: there are these kinds, and no others.
    pub fn set(&self, kinds: u32) {
        self.0.store(kinds, Ordering::Relaxed);
    }

    /// The CPU whose it is: which there may be. What it does not see yet is posted to it later.
    #[must_use]
    #[inline(always)]
    pub fn kinds(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// On which CPU a thread runs or sleeps, and whether it is on a CPU's list of threads to be looked
/// at: one word, so that a CPU with news for it learns both at once.
#[derive(Debug)]
pub struct Whereabouts<const MUTANT: u8 = REAL>(AtomicU32);

/// The thread is on the list of its CPU.
const LISTED: u32 = 1 << 31;

#[allow(clippy::new_without_default, reason = "a thread is made once")]
impl<const MUTANT: u8> Whereabouts<MUTANT> {
    /// The whereabouts of a new thread: CPU 0, on no list.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The CPU of the thread, which may have moved meanwhile.
    #[must_use]
    pub fn cpu(&self) -> usize {
        (self.0.load(Ordering::Relaxed) & !LISTED) as usize
    }

    /// Moves the thread to `cpu`; only the CPU that has the thread may do so. The thread looks
    /// there at what it waits for before it sleeps.
    pub fn moves_to(&self, cpu: usize) {
        let from = self.cpu();
        if from == cpu {
            return;
        }
        if MUTANT == crate::sync::NO_EXCHANGE {
            let listed = self.0.load(Ordering::Acquire) & LISTED;
            return self.0.store(cpu as u32 | listed, Ordering::Release);
        }
        // The lower bits are changed only here, so the highest one stays.
        self.0.fetch_add((cpu as u32).wrapping_sub(from as u32), exchanges::<MUTANT>());
    }

    /// Tells the thread of news, which were stored before. `list` puts it on the list of its CPU,
    /// unless it is on one already. The caller posts [`THREADS`] to the CPU that is returned.
    pub fn tell(&self, list: impl FnOnce(usize)) -> usize {
        let before = self.0.fetch_or(LISTED, exchanges::<MUTANT>());
        let cpu = (before & !LISTED) as usize;
        if before & LISTED == 0 {
            list(cpu);
        }
        cpu
    }

    /// CPU `here` has taken it from its list. `false`: it has moved, and is to be
    /// [told](Self::tell) again: it may sleep there.
    #[must_use]
    pub fn is_found(&self, here: usize) -> bool {
        let before = self.0.fetch_and(!LISTED, exchanges::<MUTANT>());
        (before & !LISTED) as usize == here
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::boxed::Box;
    use std::mem::MaybeUninit;

    use hanare_abi::boot::CpuShared;

    use super::*;
    use crate::mailbox::CpuRef;

    #[test]
    fn a_cpu_that_polls_or_has_something_to_do_does_not_halt_as_it_is() {
        let zeroed = Box::new(MaybeUninit::<CpuShared>::zeroed());
        // SAFETY: a mailbox of zeros is a mailbox.
        let mut memory: Box<CpuShared> = unsafe { Box::from_raw(Box::into_raw(zeroed).cast()) };
        // SAFETY: the memory outlives it, and nothing else touches it meanwhile.
        let cpu = unsafe { CpuRef::from_raw(&raw mut *memory) };
        let attention = Attention::<REAL>::new();
        let wake = CpuWake { attention: &attention, inbound: cpu.inbound() };
        let _ = attention.take_any();
        wake.begin_polling();
        assert!(!wake.is_quiet(), "no side would interrupt it");
        assert!(wake.prepare_user(false) && wake.is_quiet());
        attention.begin_looking();
        assert!(!wake.is_quiet());
        assert!(attention.end_looking() && wake.is_quiet());
        assert!(attention.post(FLUSH) && !wake.is_quiet());
        assert!(attention.take(FLUSH) && wake.is_quiet());
        attention.ask(BEFORE_USER);
        assert!(!wake.is_quiet(), "there is something before user mode");
    }

    #[test]
    fn a_cpu_that_looks_is_not_interrupted_and_does_not_halt() {
        let attention = Attention::<REAL>::new();
        assert!(attention.take_any() && !attention.take_any());
        assert!(attention.post(THREADS)); // in user mode
        assert!(!attention.post(THREADS)); // the interrupt is on its way
        assert!(attention.post(FLUSH)); // of another kind
        attention.begin_looking();
        assert!(!attention.post(QUEUE) && !attention.end_looking() && !attention.is_quiet());
        assert!(attention.take(THREADS) && !attention.take(THREADS));
        assert!(attention.take(QUEUE | FLUSH) && attention.is_quiet() && !attention.take_any());
        attention.ask(RESCHEDULE);
        attention.begin_looking();
        assert!(attention.end_looking(), "its own reasons are seen to before user mode only");
        assert!(!attention.is_clear(), "but they are there");
        assert!(attention.take_any() && attention.has(RESCHEDULE));
    }

    #[test]
    fn a_thread_is_found_where_it_went() {
        let thread = Whereabouts::<REAL>::new();
        assert_eq!(thread.tell(|cpu| assert_eq!(cpu, 0)), 0);
        thread.moves_to(255);
        assert_eq!(thread.tell(|_| panic!("it is on a list")), 255);
        assert!(!thread.is_found(0));
        let mut listed = None;
        assert_eq!(thread.tell(|cpu| listed = Some(cpu)), 255);
        assert_eq!(listed, Some(255));
        assert!(thread.is_found(255));
        thread.moves_to(3);
        assert_eq!(thread.cpu(), 3);
    }
}
