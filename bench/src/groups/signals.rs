//! Signals.

use crate::figure::{Figure, Group, Needs, Target, by_guest};

/// Signals that a program sends itself, and that a fault raises.
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
