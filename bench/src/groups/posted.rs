//! Calls without a trap: tasks of some calls by each way to make them, on either kernel.

use anyhow::Result;

use crate::figure::{Figure, Group, Needs, Target};
use crate::lab::Lab;
use crate::samples::{Samples, Side};

/// Calls of a task; the measured program has the same.
const CALLS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Bytes that a call reads.
const BYTES: [u32; 5] = [1, 4096, 16_384, 65_536, 262_144];
/// Value of a crossing point in calls that is not reached: twice the most calls.
const NEVER_CALLS: f64 = 128.0;
/// Value of a crossing point in bytes that is not reached: twice the most bytes.
const NEVER_BYTES: f64 = 524_288.0;
/// Two ways take as long where one takes no less than this share of the other.
const ALIKE: f64 = 0.9;

/// Figures of each way and number; `more` stand in front.
macro_rules! curves {
    ($kind:literal, $what:literal, [$($more:expr),*], [$($way:literal, $means:literal: $($number:literal)*);*]) => {
        &[
            $($more,)*
            $($(
                Figure::lower(
                    concat!("posted.", $kind, ".", $way, ".", $number),
                    "us",
                    concat!($what, " ", $number, ", ", $means),
                ),
            )*)*
        ]
    };
}

/// From how many calls of a task on the first way is faster than the second.
const fn crossing(id: &'static str, what: &'static str) -> Figure {
    Figure::lower(id, "calls", what)
}

/// Tasks of 1 to 64 calls.
pub const POSTED: Group =
    Group { name: "posted", needs: Needs::Instance, figures: CALLS_FIGURES, measure: calls };

/// Tasks of four calls of growing length.
pub const LENGTHS: Group = Group {
    name: "posted-lengths",
    needs: Needs::Instance,
    figures: LENGTH_FIGURES,
    measure: lengths,
};

/// Functions that make no call.
pub const FUNCTIONS: Group = Group {
    name: "posted-functions",
    needs: Needs::Instance,
    figures: FUNCTION_FIGURES,
    measure: functions,
};

/// A solver that writes checkpoints, against the same that writes none.
pub const CHECKPOINTS: Group = Group {
    name: "checkpoints",
    needs: Needs::Instance,
    figures: &[
        lost(
            "posted.checkpoint.lost-blocking",
            "compute time lost by checkpoints, blocking writes",
        ),
        lost("posted.checkpoint.lost-thread", "the same, a helper thread"),
        lost("posted.checkpoint.lost-posted", "the same, posted writes").target(Target::Value(2.0)),
        lost("posted.checkpoint.lost-function", "the same, a posted function")
            .target(Target::Value(2.0)),
        Figure::lower("posted.checkpoint.none", "ms", "a solver, no checkpoints"),
        Figure::lower("posted.checkpoint.blocking", "ms", "the same, four, blocking writes"),
        Figure::lower("posted.checkpoint.thread", "ms", "the same, by a helper thread"),
        Figure::lower("posted.checkpoint.posted", "ms", "the same, posted writes"),
        Figure::lower("posted.checkpoint.function", "ms", "the same, a posted function"),
    ],
    measure: checkpoints,
};

const fn lost(id: &'static str, what: &'static str) -> Figure {
    Figure::lower(id, "%", what)
}

const CALLS_FIGURES: &[Figure] = curves!(
    "calls",
    "a task of calls:",
    [
        crossing("posted.crossing.function-trap", "calls of a task from which a function is faster than traps (128: none)")
            .target(Target::Value(2.0)),
        crossing("posted.crossing.function-posted", "the same, than calls that are posted one by one")
            .target(Target::Value(2.0)),
        crossing("posted.crossing.posted-trap", "the same, calls posted one by one faster than traps")
            .target(Target::Value(2.0)),
        crossing("posted.crossing.batch-trap", "the same, calls posted at once faster than traps"),
        crossing("posted.crossing.function-batch", "the same, a function faster than calls posted at once"),
        crossing("posted.crossing.function-uring-batch", "the same, a function faster than io_uring, submitted at once"),
        crossing("posted.crossing.batch-uring-batch", "the same, calls posted at once faster than io_uring's")
    ],
    [
            "trap", "each by a trap": 1 2 4 8 16 32 64;
            "posted", "each posted and waited for": 1 2 4 8 16 32 64;
            "batch", "posted at once": 1 2 4 8 16 32 64;
            "function", "in one posted function": 1 2 4 8 16 32 64;
            "ahead", "in functions, 16 of them posted ahead": 1 2 4 8 16 32 64;
            "uring", "each by io_uring, SQPOLL, and waited for": 1 2 4 8 16 32 64;
            "uring-batch", "by io_uring, SQPOLL, submitted at once": 1 2 4 8 16 32 64
    ]
);

const LENGTH_FIGURES: &[Figure] = curves!(
    "length",
    "four calls, bytes that each reads:",
    [
        Figure::lower(
            "posted.crossing.length",
            "bytes",
            "bytes of a call from which four traps take no more than 10 % longer than a function (524288: none)"
        )
    ],
    [
            "trap", "each by a trap": 1 4096 16384 65536 262144;
            "posted", "each posted and waited for": 1 4096 16384 65536 262144;
            "batch", "posted at once": 1 4096 16384 65536 262144;
            "function", "in one posted function": 1 4096 16384 65536 262144;
            "ahead", "in functions, 16 of them posted ahead": 1 4096 16384 65536 262144;
            "uring", "each by io_uring, SQPOLL, and waited for": 1 4096 16384 65536 262144;
            "uring-batch", "by io_uring, SQPOLL, submitted at once": 1 4096 16384 65536 262144
    ]
);

const FUNCTION_FIGURES: &[Figure] = curves!(
    "function",
    "a function without calls, us:",
    [
        Figure::lower("posted.priority", "x", "a posted function of 256 us over the same function called here")
            .target(Target::Value(1.1))
    ],
    [
        "here", "called": 1 4 16 64 256;
        "posted", "posted and waited for": 1 4 16 64 256
    ]
);

/// Samples of one program.
struct Taken(Vec<(String, f64)>);

impl Taken {
    /// NaN where the kernel has no such way.
    fn of(&self, id: &str) -> f64 {
        self.0.iter().find(|sample| sample.0 == id).map_or(f64::NAN, |sample| sample.1)
    }
}

/// The measured program on both sides in turn, and what is made of the samples of each run.
fn measure(
    lab: &mut Lab,
    part: &str,
    derive: impl Fn(&Taken) -> Vec<(String, f64)>,
) -> Result<Samples> {
    lab.need_instance("")?;
    let mut samples = Samples::default();
    for round in 1..=lab.rounds {
        for side in [Side::Linux, Side::Lwk] {
            lab.progress(&format!("{part}: round {round} of {}", lab.rounds));
            lab.check_interrupted()?;
            let taken = Taken(lab.posted_guest(side, &[part])?.samples()?);
            for (id, value) in taken.0.iter().chain(&derive(&taken)) {
                samples.add(side, &format!("posted.{id}"), *value);
            }
        }
    }
    Ok(samples)
}

fn calls(lab: &mut Lab, _: &Group) -> Result<Samples> {
    const PAIRS: [[&str; 2]; 7] = [
        ["function", "trap"],
        ["function", "posted"],
        ["posted", "trap"],
        ["batch", "trap"],
        ["function", "batch"],
        ["function", "uring-batch"],
        ["batch", "uring-batch"],
    ];
    measure(lab, "tasks", |taken| {
        let at = |way: &str, calls: u32| taken.of(&format!("calls.{way}.{calls}"));
        let crossings = PAIRS.iter().map(|[one, other]| {
            let calls = first_from(&CALLS, |calls| at(one, calls) < at(other, calls));
            (format!("crossing.{one}-{other}"), calls.unwrap_or(NEVER_CALLS))
        });
        crossings.collect()
    })
}

fn lengths(lab: &mut Lab, _: &Group) -> Result<Samples> {
    measure(lab, "lengths", |taken| {
        let at = |way: &str, bytes: u32| taken.of(&format!("length.{way}.{bytes}"));
        let is_alike = |bytes| at("function", bytes) >= ALIKE * at("trap", bytes);
        vec![("crossing.length".into(), first_from(&BYTES, is_alike).unwrap_or(NEVER_BYTES))]
    })
}

fn functions(lab: &mut Lab, _: &Group) -> Result<Samples> {
    measure(lab, "functions", |taken| {
        let ratio = taken.of("function.posted.256") / taken.of("function.here.256");
        vec![("priority".into(), ratio)]
    })
}

fn checkpoints(lab: &mut Lab, _: &Group) -> Result<Samples> {
    measure(lab, "checkpoints", |taken| {
        let none = taken.of("checkpoint.none");
        let lost = |way| {
            let with = taken.of(&format!("checkpoint.{way}"));
            (format!("checkpoint.lost-{way}"), (with / none - 1.0) * 100.0)
        };
        ["blocking", "thread", "posted", "function"].map(lost).into()
    })
}

/// The first number from which on, to the last one, something holds.
fn first_from(numbers: &[u32], holds: impl Fn(u32) -> bool) -> Option<f64> {
    let from = numbers.iter().rev().take_while(|&&number| holds(number));
    from.last().map(|&number| f64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_is_where_it_stays_so() {
        assert_eq!(first_from(&CALLS, |calls| calls >= 4), Some(4.0));
        assert_eq!(first_from(&CALLS, |calls| calls % 3 == 2), None);
        assert_eq!(first_from(&CALLS, |calls| calls != 8), Some(16.0));
        // What a kernel has not is never faster.
        let missing = Taken(Vec::new()).of("calls.uring.1");
        assert_eq!(first_from(&CALLS, |_| missing < 1.0), None);
    }

    #[test]
    fn every_sample_of_a_curve_has_a_figure() {
        for way in ["trap", "posted", "batch", "function", "ahead", "uring", "uring-batch"] {
            for (kind, numbers, group) in
                [("calls", &CALLS[..], &POSTED), ("length", &BYTES[..], &LENGTHS)]
            {
                for number in numbers {
                    let id = format!("posted.{kind}.{way}.{number}");
                    assert!(group.figures.iter().any(|figure| figure.id == id), "{id}");
                }
            }
        }
    }
}
