//! Signals (F10).

use crate::bench::figure::{Figure, Group, Needs, Target, by_guest};

/// Sent to oneself, and raised by a fault.
pub const SIGNALS: Group = Group {
    name: "signals",
    needs: Needs::Instance,
    figures: &[
        Figure::lower("signal.catch", "ns", "send oneself a signal and catch it")
            .target(Target::Ratio(1.0)),
        Figure::lower("signal.fault", "ns", "catch SIGSEGV, mprotect twice, go on"),
    ],
    measure: by_guest,
};
