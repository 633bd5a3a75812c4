//! Parking state of a thread, for the sides that may stop it: which side holds it, whether its
//! registers are there, which side steps it.

#![expect(
    clippy::disallowed_methods,
    reason = "bitflags implements Extend, which allocates nothing here"
)]

use super::Reason;
#[cfg(test)]
use super::tests::{Mutant, has};
use bitflags::bitflags;

/// RFLAGS.TF: the CPU raises a debug exception after one instruction.
pub const TRAP_FLAG: u64 = 0x100;

/// Side that may stop a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Who {
    /// The process that traces the thread by ptrace(2).
    Tracer,
    /// `hanare gdb`. It also holds all threads of a process at once ([`Stop`](super::Stop)).
    Debugger,
}

bitflags! {
    /// The state of one thread. It is changed under the lock of its registers, and read without.
    ///
    /// `all`: the debugger holds all threads of the process.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Parking: u32 {
        /// The tracer holds it.
        const HELD = 1;
        /// The debugger does, though the others run.
        const STAYS = 1 << 1;
        /// The tracer has the thread stop after one instruction.
        const STEPS = 1 << 2;
        /// The debugger has the thread stop after one instruction.
        const STEPS_DEBUGGED = 1 << 3;
        /// The thread has made a step after which the CPU does not trap: a call, or the beginning
        /// of a handler.
        const STEPPED = 1 << 4;
        /// The debugger's bit for such a step; `STEPPED` is the tracer's.
        const STEPPED_DEBUGGED = 1 << 5;
        /// The thread has left its registers, and executes nothing of the program's as long as it
        /// is held.
        const REGISTERS = 1 << 6;
        /// The registers are those from where the thread waits in the kernel.
        const IN_KERNEL = 1 << 7;
        /// The registers were set: the thread has to take them on.
        const SET = 1 << 8;
        /// The trap flag is set because a tracer or a debugger steps the thread.
        const TRAPS = 1 << 9;
        /// The thread has no program yet: while it waits it has no registers for a debugger.
        const LOADS = 1 << 10;
    }
}

/// Sides that are told of a debug exception which the trap flag has caused. All false: the side
/// that stepped has detached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trap {
    /// The program has set the flag.
    pub program: bool,
    /// The debugger's step is over.
    pub debugger: bool,
    /// The tracer's step is over.
    pub tracer: bool,
}

impl Parking {
    const ALL_STEPS: Parking = Parking::STEPS.union(Parking::STEPS_DEBUGGED);

    fn of(tracers: Parking, who: Who) -> Parking {
        Parking::from_bits_retain(tracers.bits() << who as u32)
    }

    /// Whether the thread may not enter user mode.
    pub const fn is_held(self, all: bool) -> bool {
        all || self.intersects(Parking::HELD.union(Parking::STAYS))
    }

    /// Whether a side waits for the thread's registers, which the thread can leave where it waits.
    pub const fn is_awaited(self, all: bool) -> bool {
        let by_debugger = (all || self.contains(Parking::STAYS)) && !self.contains(Parking::LOADS);
        !self.contains(Parking::REGISTERS) && (by_debugger || self.contains(Parking::HELD))
    }

    /// Whether the thread has to leave what it waits for, to take on registers that were set there.
    pub const fn gives_up(self) -> bool {
        self.contains(Parking::IN_KERNEL.union(Parking::SET)) && !self.contains(Parking::HELD)
    }

    /// Whether the thread is in the middle of a step, or the trap flag is left of one.
    pub const fn is_stepped(self) -> bool {
        self.intersects(Parking::ALL_STEPS.union(Parking::TRAPS))
    }

    /// Whether the thread is to stop after one instruction for `who`.
    pub fn steps(self, who: Who) -> bool {
        self.contains(Parking::of(Parking::STEPS, who))
    }

    fn has_stepped(self, who: Who) -> bool {
        self.contains(Parking::of(Parking::STEPS | Parking::STEPPED, who))
    }

    /// Whether this is a reason of that kind to stop. A thread that comes out of the kernel and is
    /// not held takes back the registers that it has left there, set or not: it is about to change
    /// them.
    pub fn stands(self, reason: Reason, all: bool) -> bool {
        match reason {
            Reason::DebuggerStep => self.has_stepped(Who::Debugger),
            Reason::TracerStep => self.has_stepped(Who::Tracer),
            Reason::Hold => self.is_held(all),
            #[cfg(test)]
            Reason::Registers if has(Mutant::KeepsOldRegisters) => self.gives_up(),
            Reason::Registers => self.contains(Parking::REGISTERS),
            _ => false,
        }
    }

    /// `who` holds the thread from now on, or lets it go; see [`Parking::settle`].
    pub fn hold(&mut self, who: Who, on: bool) {
        #[cfg(test)]
        if has(Mutant::LetsGoOfBoth) && !on {
            self.remove(Parking::HELD | Parking::STAYS);
        }
        self.set(Parking::of(Parking::HELD, who), on);
    }

    /// A side holds the thread no more. Registers of a thread that waits in the kernel are worth
    /// nothing once it may go on, unless they were set. True: they are to be dropped.
    pub fn settle(&mut self, all: bool) -> bool {
        #[cfg(test)]
        let all = all && !has(Mutant::ForgetsWhatIsReliedOn);
        let drops =
            self.contains(Parking::IN_KERNEL) && !self.contains(Parking::SET) && !self.is_held(all);
        if drops {
            self.remove(Parking::REGISTERS | Parking::IN_KERNEL);
        }
        drops
    }

    /// The thread leaves its registers. What was set in earlier ones is a part of these.
    pub fn leave(&mut self, in_kernel: bool) {
        self.remove(Parking::SET);
        self.set(Parking::IN_KERNEL, in_kernel);
        self.insert(Parking::REGISTERS);
    }

    /// The thread has a program from now on, and new registers with it: what was set of the old
    /// ones is void, since on Linux no tracer sees a thread in between. True: new ones go in the
    /// place of those that it has left.
    pub fn begin(&mut self) -> bool {
        #[cfg(test)]
        if has(Mutant::BeginsWithOldRegisters) {
            return false;
        }
        self.remove(Parking::SET);
        self.contains(Parking::REGISTERS)
    }

    /// Whether one of them may set its registers. A debugger sets those of a thread that is on its
    /// way to user mode.
    pub const fn may_set(self, who: Who) -> bool {
        let there = self.contains(Parking::REGISTERS);
        there && (matches!(who, Who::Tracer) || !self.contains(Parking::IN_KERNEL))
    }

    /// The thread takes its registers back; the result says whether they were set.
    pub fn take(&mut self) -> bool {
        let set = self.contains(Parking::SET);
        self.remove(Parking::REGISTERS | Parking::IN_KERNEL | Parking::SET);
        set
    }

    /// `who` has the thread stop after one instruction from now on, or no longer.
    pub fn step(&mut self, who: Who, on: bool) {
        self.remove(Parking::of(Parking::STEPPED, who));
        self.set(Parking::of(Parking::STEPS, who), on);
    }

    /// The thread has done what counts as one instruction, and after which the CPU does not trap.
    pub fn stepped(&mut self) {
        for who in [Who::Tracer, Who::Debugger] {
            let stepped = self.steps(who);
            self.set(Parking::of(Parking::STEPPED, who), stepped);
        }
    }

    /// Takes a finished step of `who`'s, which is told of it now. False: there is none.
    pub fn take_step(&mut self, who: Who) -> bool {
        let stepped = self.has_stepped(who);
        self.remove(Parking::of(Parking::STEPPED, who));
        stepped
    }

    /// Before user mode: sets the trap flag if a side steps the thread. True: RFLAGS has changed.
    pub fn arm(&mut self, rflags: &mut u64) -> bool {
        let arms = self.intersects(Parking::ALL_STEPS) && *rflags & TRAP_FLAG == 0;
        if arms {
            *rflags |= TRAP_FLAG;
            self.insert(Parking::TRAPS);
        }
        arms
    }

    /// After user mode: leaves no trap flag among the registers but the program's own.
    pub fn disarm(&mut self, rflags: &mut u64) {
        if self.contains(Parking::TRAPS) {
            *rflags &= !TRAP_FLAG;
        }
        self.remove(Parking::TRAPS);
    }

    /// The CPU has trapped after an instruction.
    pub fn trapped(&mut self, rflags: &mut u64) -> Trap {
        if !self.contains(Parking::TRAPS) {
            return Trap { program: true, ..Trap::default() };
        }
        #[cfg(test)]
        self.set(Parking::TRAPS, !has(Mutant::KeepsTrapping));
        self.disarm(rflags);
        let tracer = self.steps(Who::Tracer);
        #[cfg(test)]
        let tracer = tracer && !(has(Mutant::TellsDebuggerAlone) && self.steps(Who::Debugger));
        Trap { program: false, debugger: self.steps(Who::Debugger), tracer }
    }
}
