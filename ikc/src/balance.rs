//! Which CPU takes over a thread that waits for its turn on another one.
//!
//! A CPU that has nothing to do says that it is idle, then looks which CPU has a thread for it; a
//! CPU with a thread too many says so, then looks which CPU is idle. One of the two sees the other.
//! The CPU that takes another one out of the idle ones, so that only one thread is offered to it,
//! wakes that one then: until then no CPU offers it anything, so it has to look once more.

use crate::set::CpuSet;
use crate::sync::{REAL, REMOVES_LATE};

/// CPUs of which others want to know.
#[derive(Debug)]
pub struct Balance<const WORDS: usize, const MUTANT: u8 = REAL> {
    /// CPUs where a thread waits for its turn.
    busy: CpuSet<WORDS, MUTANT>,
    /// CPUs that halt, or are about to and look for work once more.
    idle: CpuSet<WORDS, MUTANT>,
}

#[allow(clippy::new_without_default, reason = "const")]
impl<const WORDS: usize, const MUTANT: u8> Balance<WORDS, MUTANT> {
    /// No CPU is busy, and none idle.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { busy: CpuSet::new(), idle: CpuSet::new() }
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self { busy: CpuSet::new(), idle: CpuSet::new() }
    }

    /// On CPU `cpu` a thread waits for its turn, or none does any more. Its takers were told
    /// before.
    pub fn set_busy(&self, cpu: usize, is_busy: bool) {
        if is_busy {
            self.busy.insert(cpu);
        } else {
            self.busy.remove(cpu);
        }
    }

    /// CPU `me` has nothing to do, and is about to halt: it looks for work once more after that.
    #[inline(always)]
    pub fn begin_idle(&self, me: usize) {
        self.idle.insert(me);
    }

    /// CPU `me` halts no more.
    #[inline(always)]
    pub fn end_idle(&self, me: usize) {
        self.idle.remove(me);
    }

    /// Whether a CPU halts, as far as other CPUs know.
    #[must_use]
    pub fn is_idle(&self, cpu: usize) -> bool {
        self.idle.contains(cpu)
    }

    /// CPUs where a thread waits for its turn that `me` could take over; `takers` are those of a
    /// CPU.
    pub fn sources<'a>(
        &self,
        me: usize,
        takers: impl Fn(usize) -> &'a Takers<WORDS>,
    ) -> impl Iterator<Item = usize> {
        self.busy.others(me).filter(move |&cpu| takers(cpu).0.contains(me))
    }

    /// Whether there is such a CPU for the one that `me` names.
    #[must_use]
    #[inline(always)]
    pub fn has_source<'a>(
        &self,
        me: impl FnOnce() -> usize,
        takers: impl Fn(usize) -> &'a Takers<WORDS>,
    ) -> bool {
        !self.busy.is_empty() && self.looks_for_source(me, takers)
    }

    #[cold]
    fn looks_for_source<'a>(
        &self,
        me: impl FnOnce() -> usize,
        takers: impl Fn(usize) -> &'a Takers<WORDS>,
    ) -> bool {
        self.sources(me(), takers).next().is_some()
    }

    /// A thread waits for its turn on CPU `me`, which has said that it is busy: an idle CPU that
    /// may take it is woken by `post`.
    pub fn offer(&self, me: usize, takers: &Takers<WORDS>, post: impl FnOnce(usize)) {
        let may_take = |cpu: usize| cpu != me && takers.0.contains(cpu);
        if let Some(cpu) = self.idle.after_change().first(may_take) {
            self.wake(cpu, || post(cpu)); // one of them is enough
        }
    }

    /// CPU `cpu`, which may halt, is woken by `post` for a thread, and offered no other one.
    pub fn wake(&self, cpu: usize, post: impl FnOnce()) {
        if MUTANT == REMOVES_LATE {
            post();
            return self.idle.remove(cpu);
        }
        if self.idle.contains(cpu) {
            self.idle.remove(cpu);
        }
        // It may have halted before another CPU saw it idle again, and looks now.
        post();
    }
}

/// CPUs that may take a thread over from one CPU: those where one of its waiting threads may run,
/// and perhaps others, where one might that is gone. Changed with the lock of that CPU's queue.
#[derive(Debug)]
pub struct Takers<const WORDS: usize>(CpuSet<WORDS>);

#[allow(clippy::new_without_default, reason = "const")]
impl<const WORDS: usize> Takers<WORDS> {
    /// A set without a CPU.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(CpuSet::new())
    }
    #[cfg(loom)]
    #[allow(missing_docs, reason = "for the models")]
    pub fn new() -> Self {
        Self(CpuSet::new())
    }

    /// A thread comes to the queue that may run on these CPUs.
    #[inline]
    pub fn add(&self, mask: &[u64; WORDS]) {
        self.0.set_words(|i, word| word | mask[i]);
    }

    /// The threads of the queue may run on these CPUs, and on no others: a CPU found none there for
    /// itself.
    pub fn set(&self, mask: &[u64; WORDS]) {
        self.0.set_words(|i, _| mask[i]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn only_a_cpu_with_a_thread_for_this_one_counts() {
        let balance = Balance::<2>::new();
        let takers: [Takers<2>; 70] = core::array::from_fn(|_| Takers::new());
        let has_source = |me| balance.has_source(|| me, |cpu| &takers[cpu]);
        // A thread that is bound to CPU 3 waits there.
        takers[3].add(&[1 << 3, 0]);
        balance.set_busy(3, true);
        assert!((0..70).all(|me| !has_source(me)), "no CPU could take it");
        // One that may run on 3 and on 65 comes.
        takers[3].add(&[1 << 3, 1 << 1]);
        assert_eq!((0..70).filter(|&me| has_source(me)).collect::<Vec<_>>(), [65]);
        // Any CPU but its own counts for one that is free.
        takers[5].add(&[u64::MAX; 2]);
        balance.set_busy(5, true);
        assert!((0..70).all(|me| has_source(me) == (me != 5)));
        assert_eq!(balance.sources(65, |cpu| &takers[cpu]).collect::<Vec<_>>(), [3, 5]);
        balance.set_busy(5, false);
        takers[3].set(&[1 << 3, 0]); // that one is gone
        assert!((0..70).all(|me| !has_source(me)));
    }

    #[test]
    fn an_offer_wakes_one_idle_cpu_that_may_take_the_thread() {
        let balance = Balance::<1>::new();
        let takers = Takers::new();
        takers.add(&[0b1_0110]);
        let offer = || {
            let mut woken = None;
            balance.offer(1, &takers, |cpu| woken = Some(cpu));
            woken
        };
        assert_eq!(offer(), None);
        [0, 1, 3, 4, 2].into_iter().for_each(|cpu| balance.begin_idle(cpu));
        assert_eq!([offer(), offer(), offer()], [Some(2), Some(4), None]);
        assert!(balance.is_idle(3) && !balance.is_idle(4));
        let mut woken = 0;
        balance.wake(3, || woken += 1);
        balance.wake(3, || woken += 1);
        assert_eq!((woken, balance.is_idle(3)), (2, false));
    }
}
