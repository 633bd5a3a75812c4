//! Waiting for Linux with a CPU that only the running thread wants (`docs/wakeup.md`, *in a call*):
//! the CPU stays one that has to be interrupted, as in user mode, and halts as it is.
//!
//! An interrupt that ends the halt is not kept: it may have been for a thread that sleeps there,
//! too. What it was for is in a word that is looked at before the running thread is in user mode
//! again.

use crate::mailbox::Bells;
use crate::sync::{LEAVES_BELLS, REAL, TAKES_BELLS};
use crate::wake::{BEFORE_USER, CpuWake, SLEEPS, WANTS_CPU};

/// The running thread of a CPU that waits alone: what that asks it and does for it.
pub trait Waits {
    /// Whether the CPU may halt: no side wants the running thread elsewhere, and there is no thread
    /// to take over.
    fn may_halt(&self) -> bool;
    /// Whether what the running thread waits for has come.
    fn is_ready(&self) -> bool;
    /// Halts the CPU until an interrupt.
    fn halt(&self);
    /// An interrupt has ended the halt, and it was not for the running thread: it may halt anew.
    /// Linux looks whether a CPU still halts that was rung since.
    fn halts_on(&self) {}
}

/// A CPU whose running thread waits alone.
pub trait Alone<const MUTANT: u8 = REAL> {
    /// Words by which others wake the CPU.
    fn wake(&self) -> CpuWake<'_, MUTANT>;
    /// Bells of threads that wait there.
    fn bells(&self) -> Bells<'_, MUTANT>;
    /// Looks at the queues of the CPU, sets the flags of its [`Company`](crate::wake::Company), and
    /// returns them.
    fn look_for_company(&self) -> u32;

    /// Whether the CPU may have company of a kind.
    #[inline(always)]
    fn may_have(&self, kind: u32) -> bool {
        self.wake().attention.company().kinds() & kind != 0
    }

    /// Whether the CPU may begin to wait so: no side has something for it, and no other thread
    /// wants to run there or waits for what no side tells. That stays so as long as it is
    /// [quiet](CpuWake::is_quiet): a CPU that puts a thread on its queue posts that.
    #[inline(always)]
    fn may_begin(&self) -> bool {
        let is_quiet = self.wake().is_quiet();
        is_quiet && (!self.may_have(WANTS_CPU) || self.look_for_company() & WANTS_CPU == 0)
    }

    /// Whether bells rang that may be those of threads which sleep there. Where none does they are
    /// the running thread's, which looks for itself; a thread that went to sleep there has looked
    /// since.
    #[inline(always)]
    fn has_bells_of_others(&self) -> bool {
        self.may_have(SLEEPS) && self.bells().any() && {
            let others = MUTANT != TAKES_BELLS && self.look_for_company() & SLEEPS != 0;
            if !others {
                self.bells().take(|_| {});
            }
            others
        }
    }

    /// Halts the CPU until what `thread`, the running one, waits for has come, or another thread is
    /// to be served. The side that makes it ready knows that it sleeps. Whether it has come, and
    /// whether the CPU has halted.
    #[inline(always)]
    fn sleep(&self, thread: &impl Waits) -> (bool, bool) {
        let (mut is_ready, mut has_halted) = (thread.is_ready(), false);
        if !is_ready && thread.may_halt() {
            while !is_ready && self.wake().is_quiet() && !self.has_bells_of_others() {
                thread.halt();
                has_halted = true;
                is_ready = thread.is_ready();
                if !is_ready {
                    thread.halts_on();
                }
            }
        }
        (is_ready, has_halted)
    }

    /// Ends the wait: what an interrupt may have been for that ended a halt keeps the running
    /// thread from user mode. (What other CPUs post does so itself.)
    #[inline(always)]
    fn end(&self) {
        let is_asked = !self.wake().inbound.is_empty();
        if is_asked || MUTANT != LEAVES_BELLS && self.has_bells_of_others() {
            self.wake().attention.ask(BEFORE_USER);
        }
    }
}
