//! Threads and processes.

use crate::figure::{Figure, Group, Needs, Target, by_guest};

/// Making them, and handing the turn from one to the other.
pub const PROCESSES: Group = Group {
    name: "processes",
    needs: Needs::Instance,
    figures: &[
        Figure::lower("thread.create", "ns", "pthread_create and pthread_join")
            .target(Target::Ratio(1.5)),
        Figure::lower("thread.wake", "ns", "futex: wake a thread that waits")
            .target(Target::Ratio(1.0)),
        Figure::lower("thread.switch", "ns", "futex: the same on one CPU, a context switch")
            .target(Target::Ratio(0.7)),
        Figure::lower("process.fork", "ns", "fork, exit, wait").target(Target::Ratio(2.0)),
        Figure::lower("process.spawn", "ns", "posix_spawn of a static program, wait"),
    ],
    measure: by_guest,
};
