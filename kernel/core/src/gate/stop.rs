//! A process as its debugger has it: all threads run, or are to stop.

#[cfg(test)]
use super::tests::{Mutant, has};
use hanare_abi::observe::{OBSERVED_ENDED, OBSERVED_RUNS, OBSERVED_STOPPING};

/// Whether the threads of a process stand, and why.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stop {
    /// `OBSERVED_*`: reason why the threads stopped, or are about to.
    why: u64,
    /// Every thread is there.
    complete: bool,
    /// The thread because of which the threads stopped, or 0.
    tid: u32,
    /// The signal by which the threads stopped, or 0.
    signal: u32,
    /// The breakpoint or watchpoint that was met, or 0.
    address: u64,
    /// Status of wait(2), once the process has ended.
    ended: Option<u32>,
    /// The debugger lets go of the process.
    closing: bool,
}

impl Stop {
    /// Stops them for a reason. False: they stop for another one already, or never again.
    pub fn begin(&mut self, why: u64, tid: u32, signal: u32, address: u64) -> bool {
        let begins = !self.closing && self.why == OBSERVED_RUNS;
        if begins {
            *self = Stop { why, complete: false, tid, signal, address, ..*self };
        }
        begins
    }

    /// Whether threads are waited for.
    pub const fn is_pending(&self) -> bool {
        self.why != OBSERVED_RUNS && !self.complete && !self.closing
    }

    /// Whether the threads run: no stop was asked for.
    pub const fn runs(&self) -> bool {
        self.why == OBSERVED_RUNS
    }

    /// Whether all threads stand.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// All threads have stopped; `first` is the one to be told of where none of them is the reason.
    pub fn complete(&mut self, first: u32) {
        self.complete = true;
        if self.tid == 0 {
            self.tid = first;
        }
    }

    /// Lets all threads go on. False: not all of them have stopped.
    pub fn resume(&mut self) -> bool {
        #[cfg(test)]
        let resumes = self.complete || has(Mutant::ResumesEarly);
        #[cfg(not(test))]
        let resumes = self.complete;
        if resumes {
            *self = Stop { ended: self.ended, closing: self.closing, ..Stop::default() };
        }
        resumes
    }

    /// The debugger goes: the threads stop no more.
    pub fn close(&mut self) {
        (self.closing, self.complete) = (true, false);
    }

    /// The process has ended, with this status of wait(2).
    pub fn end(&mut self, status: u32) {
        self.ended = Some(status);
    }

    /// Words of the answer to `OBSERVE_STATUS`: whether the process lives, why it stands, how it
    /// ended, where.
    pub fn status(&self) -> [u64; 4] {
        let why = match self.ended {
            Some(_) => OBSERVED_ENDED,
            None if self.is_pending() => OBSERVED_STOPPING,
            None => self.why,
        };
        [
            u64::from(self.ended.is_none()),
            why | u64::from(self.signal) << 8 | u64::from(self.tid) << 32,
            u64::from(self.ended.unwrap_or(0)),
            self.address,
        ]
    }
}
