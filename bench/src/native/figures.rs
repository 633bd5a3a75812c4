//! Definitions of the native figures, and the wish which of them to measure.

use crate::figure::{Figure, Target};
use hanare_common::cpu_list::CpuList;

/// Name of the group on the command line.
pub const GROUP: &str = "native";

/// Slot and ring over the ping-pong, at most.
const LIMIT: Target = Target::Ratio(1.3);

/// Figures of the group: the first is what the others are compared with.
pub const FIGURES: &[Figure] = &[
    Figure::lower("native.pingpong", "ns", "a cache line there and back: the limit"),
    Figure::lower(
        "native.lines",
        "ns",
        "two lines, one for each way: the limit where each has a writer",
    ),
    Figure::lower("native.slot", "ns", "slot: request and answer, both sides polling")
        .target(LIMIT),
    Figure::lower(
        "native.box",
        "ns",
        "request box: a call by a server that looks for it, and its answer",
    ),
    Figure::lower(
        "native.packed",
        "ns",
        "packed page: a call written, read and answered, both sides polling",
    ),
    Figure::lower("native.ring", "ns", "rings: an element there and one back, both sides polling")
        .target(LIMIT),
    Figure::lower("native.futex", "ns", "futex: wake the other thread and sleep, both ways"),
    Figure::lower("native.pipe", "ns", "pipes: a byte there and back"),
    Figure::lower("native.eventfd", "ns", "eventfd: a count there and back"),
    Figure::lower("native.uring", "ns", "io_uring with SQPOLL: a NOP and its completion, polled"),
];

/// Options of the measurement, by the command line.
pub struct Wish<'a> {
    /// The two CPUs; `None`: chosen.
    pub cpus: Option<&'a CpuList>,
    /// Rounds, in each of which every figure is measured once.
    pub rounds: u32,
    /// Small budgets.
    pub quick: bool,
    /// Machine-readable output.
    pub json: bool,
    /// Whether a figure, by its id, is wanted.
    pub wants: &'a dyn Fn(&str) -> bool,
    /// Says how far the measurement is.
    pub progress: &'a dyn Fn(&str),
}
