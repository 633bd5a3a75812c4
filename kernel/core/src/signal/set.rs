//! Signals by number, what each does by default, and sets of them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! signals {
    ($($name:ident = $number:literal $action:ident;)*) => {
        $(#[doc = concat!("Number of `", stringify!($name), "`.")] pub const $name: u32 = $number;)*

        /// The default action for `signal`.
        #[must_use]
        pub const fn default_action(signal: u32) -> DefaultAction {
            match signal {
                $($number => DefaultAction::$action,)*
                _ => DefaultAction::Terminate,
            }
        }

        /// Name of a standard signal, e.g. `SIGSEGV`.
        #[must_use]
        pub const fn name(signal: u32) -> Option<&'static str> {
            match signal {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

signals! {
    SIGHUP = 1 Terminate;
    SIGINT = 2 Terminate;
    SIGQUIT = 3 Core;
    SIGILL = 4 Core;
    SIGTRAP = 5 Core;
    SIGABRT = 6 Core;
    SIGBUS = 7 Core;
    SIGFPE = 8 Core;
    SIGKILL = 9 Terminate;
    SIGUSR1 = 10 Terminate;
    SIGSEGV = 11 Core;
    SIGUSR2 = 12 Terminate;
    SIGPIPE = 13 Terminate;
    SIGALRM = 14 Terminate;
    SIGTERM = 15 Terminate;
    SIGSTKFLT = 16 Terminate;
    SIGCHLD = 17 Ignore;
    SIGCONT = 18 Continue;
    SIGSTOP = 19 Stop;
    SIGTSTP = 20 Stop;
    SIGTTIN = 21 Stop;
    SIGTTOU = 22 Stop;
    SIGURG = 23 Ignore;
    SIGXCPU = 24 Core;
    SIGXFSZ = 25 Core;
    SIGVTALRM = 26 Terminate;
    SIGPROF = 27 Terminate;
    SIGWINCH = 28 Ignore;
    SIGIO = 29 Terminate;
    SIGPWR = 30 Terminate;
    SIGSYS = 31 Core;
}

/// First real-time signal (as the kernel counts; libc keeps some for itself).
pub const SIGRTMIN: u32 = 32;
/// Highest signal.
pub const SIGNAL_MAX: u32 = 64;

/// Default action of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    /// End the process.
    Terminate,
    /// End the process, with a core dump.
    Core,
    /// Nothing.
    Ignore,
    /// Stop the process.
    Stop,
    /// Continue the process.
    Continue,
}

/// A set of signals: bit n-1 = signal n.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct SigSet(pub u64);

impl SigSet {
    /// The set without a signal.
    pub const EMPTY: Self = Self(0);
    /// Every signal.
    pub const ALL: Self = Self(u64::MAX);
    /// Signals that cannot be caught, blocked or ignored.
    pub const UNBLOCKABLE: Self = Self::of(SIGKILL).with(SIGSTOP);
    /// Raised by the program's own instructions: delivered before all others.
    pub const SYNCHRONOUS: Self =
        Self::of(SIGSEGV).with(SIGBUS).with(SIGILL).with(SIGTRAP).with(SIGFPE).with(SIGSYS);
    /// Signals that stop a process by default.
    pub const STOP: Self = Self::of(SIGSTOP).with(SIGTSTP).with(SIGTTIN).with(SIGTTOU);

    /// The set of one signal; empty if there is no such signal.
    #[must_use]
    pub const fn of(signal: u32) -> Self {
        if is_valid(signal) { Self(1 << (signal - 1)) } else { Self(0) }
    }

    /// The set with `signal` added.
    #[must_use]
    pub const fn with(self, signal: u32) -> Self {
        Self(self.0 | Self::of(signal).0)
    }

    /// The set with `signal` removed.
    #[must_use]
    pub const fn without(self, signal: u32) -> Self {
        Self(self.0 & !Self::of(signal).0)
    }

    /// Whether the set has `signal`.
    #[must_use]
    pub const fn contains(self, signal: u32) -> bool {
        self.0 & Self::of(signal).0 != 0
    }

    /// Whether the set has no signal.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Signals in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Signals in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Signals in this set and not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// A mask as the kernel keeps it: SIGKILL and SIGSTOP are never blocked.
    #[must_use]
    pub const fn blockable(self) -> Self {
        self.difference(Self::UNBLOCKABLE)
    }

    /// The signal that Linux takes first: synchronous ones, then the lowest number.
    #[must_use]
    pub const fn first(self) -> Option<u32> {
        let urgent = self.intersection(Self::SYNCHRONOUS);
        let set = if urgent.is_empty() { self } else { urgent };
        if set.is_empty() { None } else { Some(set.0.trailing_zeros() + 1) }
    }
}

impl core::fmt::Debug for SigSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SigSet({:#x})", self.0)
    }
}

/// Whether there is such a signal: 1..=64.
#[must_use]
pub const fn is_valid(signal: u32) -> bool {
    signal >= 1 && signal <= SIGNAL_MAX
}
