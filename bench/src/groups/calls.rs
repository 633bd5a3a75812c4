//! Null calls. Linux makes the same call itself.

use anyhow::Result;

use crate::figure::{Figure, Group, Needs, Target, by_guest};
use crate::lab::Lab;
use crate::samples::Samples;

/// System calls one after the other, without a pause.
pub const CALLS: Group = Group {
    name: "calls",
    needs: Needs::Instance,
    figures: &[
        Figure::lower("call.local", "ns", "null call served by the LWK (getpid)")
            .target(Target::Ratio(0.7)),
        Figure::lower("call.clock", "ns", "clock_gettime by way of the vDSO"),
        Figure::lower("call.delegated", "ns", "null delegated call, polling (getppid)")
            .target(Target::Ratio(2.5)),
    ],
    measure: by_guest,
};

/// System calls after a pause in which the program computes.
pub const AFTER: Group = Group {
    name: "after",
    needs: Needs::Instance,
    figures: &[
        Figure::lower("call.after-20us", "ns", "null delegated call, 20 us after the last"),
        Figure::lower(
            "call.after-1ms",
            "ns",
            "null delegated call, 1 ms after the last: the worker sleeps",
        ),
    ],
    measure: by_guest,
};

/// System calls where neither side polls, so that both are woken.
pub const DOORBELL: Group = Group {
    name: "doorbell",
    needs: Needs::Machine,
    figures: &[Figure::lower(
        "call.doorbell",
        "ns",
        "null delegated call, both sides asleep (spin_us=0)",
    )],
    measure: doorbell,
};

fn doorbell(lab: &mut Lab, group: &Group) -> Result<Samples> {
    lab.need_instance("spin_us=0")?;
    let samples = lab.pairs(&[group.name]);
    lab.shutdown()?;
    samples
}
