//! Until when a thread waits. It is Linux' clock that decides, not the TSC value which was
//! expected when the wait began: the clock is set, and its rate changes.

use crate::base::time;
use crate::process::spaces;
use crate::process::{Process, timens};
use crate::sched::cpus;
use hanare_core::time::Clock;

/// A time of one of the machine's clocks.
#[derive(Clone, Copy)]
pub struct Until {
    clock: Clock,
    ns: u64,
}

impl Until {
    /// A time that never comes.
    pub const NEVER: Until = Until { clock: Clock::Monotonic, ns: u64::MAX };

    /// The time at which a clock of `p` shows `ns`.
    pub fn at(p: &Process, clock: Clock, ns: u64) -> Until {
        Until { clock, ns: timens::of_machine(p, clock, ns) }
    }

    /// So much later than now.
    pub fn after(ns: u64) -> Until {
        let clock = Clock::Monotonic;
        Until { clock, ns: time::now(clock).unwrap_or(0).saturating_add(ns) }
    }

    /// Whether there is no end: the wait has no timeout.
    pub fn is_never(self) -> bool {
        self.ns == u64::MAX
    }

    /// Whether setting Linux' clocks changes how long it is until then.
    pub fn follows_clock(self) -> bool {
        !self.is_never() && matches!(self.clock, Clock::Realtime | Clock::Tai)
    }

    fn left(self) -> u64 {
        self.ns.saturating_sub(time::now(self.clock).unwrap_or(0))
    }

    /// Whether the clock shows the time.
    pub fn has_come(self) -> bool {
        !self.is_never() && self.left() == 0
    }

    /// Whether a clock that can be set shows the time. Before the deadline, it has been set
    /// ([`on_set`]).
    pub fn was_set_to(self) -> bool {
        self.follows_clock() && self.has_come()
    }

    /// TSC value at which it makes sense to look at the clock.
    pub fn deadline(self) -> u64 {
        if self.is_never() { cpus::NEVER } else { cpus::deadline(self.left()) }
    }
}

/// `REQUEST_CLOCK_SET`: a time that a thread waits for may have come. A thread that says that it
/// follows the clock only after it was looked at here reads the new one: both do so under a lock.
/// Others are not interrupted.
pub fn on_set() {
    spaces::each_thread(|t| {
        if *t.follows_clock.lock() {
            cpus::kick(t.task());
        }
    });
}
