//! `hanare bench --native`: the shortest round trip between two CPUs of this Linux, by the words that
//! Linux and the LWK share and by what Linux itself offers. No VM, no instance and no right is needed.
//!
//! `cpus` chooses the two CPUs, `pair` keeps a thread on each and takes the times; `polled`, `woken` and
//! `uring` have a way of handing the turn over each; `report` prints.

mod cpus;
mod pair;
mod polled;
mod report;
#[cfg(feature = "io-uring")]
mod uring;
mod woken;

use anyhow::{Result, bail};

use self::cpus::Machine;
use self::pair::{Batches, Pair};
use self::report::Report;
use super::figure::{Figure, Target};
use crate::cpu_list::CpuList;

/// Name of the group on the command line.
pub const GROUP: &str = "native";

/// Slot and ring over the ping-pong, at most.
const LIMIT: Target = Target::Ratio(1.3);

/// Its figures: the first is what the others are compared with.
pub const FIGURES: &[Figure] = &[
    Figure::lower("native.pingpong", "ns", "a cache line there and back: the limit"),
    Figure::lower("native.slot", "ns", "slot: request and answer, both sides polling")
        .target(LIMIT),
    Figure::lower("native.ring", "ns", "rings: an element there and one back, both sides polling")
        .target(LIMIT),
    Figure::lower("native.futex", "ns", "futex: wake the other thread and sleep, both ways"),
    Figure::lower("native.pipe", "ns", "pipes: a byte there and back"),
    Figure::lower("native.eventfd", "ns", "eventfd: a count there and back"),
    Figure::lower("native.uring", "ns", "io_uring with SQPOLL: a NOP and its completion, polled"),
];

/// What is wanted.
pub struct Wish<'a> {
    /// The two CPUs; `None`: chosen.
    pub cpus: Option<&'a CpuList>,
    /// Rounds, in each of which every figure is measured once.
    pub rounds: u32,
    /// Small budgets.
    pub quick: bool,
    /// Machine-readable output.
    pub json: bool,
    /// Which figures.
    pub wants: &'a dyn Fn(&str) -> bool,
    /// Says how far it is.
    pub progress: &'a dyn Fn(&str),
}

/// Measures and prints.
pub fn execute(wish: &Wish) -> Result<i32> {
    let machine = Machine::look()?;
    let (asker, answerer) = machine.choose(wish.cpus)?;
    let mut report = Report::new(&machine, (asker, answerer), wish);
    let pair = Pair { asker, answerer, quick: wish.quick };
    for round in 1..=wish.rounds {
        for (number, figure) in FIGURES.iter().enumerate() {
            // The ping-pong is measured in any case: the others are compared with it.
            if report.has_failed(figure.id) || (number > 0 && !(wish.wants)(figure.id)) {
                continue;
            }
            (wish.progress)(&format!("{}: round {round} of {}", figure.id, wish.rounds));
            match measure(&pair, figure.id) {
                Ok(batches) => report.add(figure.id, &batches),
                Err(error) => report.fail(figure.id, &format!("{error:#}")),
            }
        }
    }
    (wish.progress)("");
    report.print(wish.json)?;
    Ok(i32::from(report.is_incomplete()))
}

fn measure(pair: &Pair, id: &str) -> Result<Batches> {
    match id {
        "native.pingpong" => pair.exchange(&polled::Line::new()),
        "native.slot" => pair.exchange(&polled::Slot::new()),
        "native.ring" => pair.exchange(&polled::Rings::new()),
        "native.futex" => pair.exchange(&woken::Futex::new()),
        "native.pipe" => pair.exchange(&woken::Pipes::new()?),
        "native.eventfd" => pair.exchange(&woken::Eventfds::new()?),
        #[cfg(feature = "io-uring")]
        "native.uring" => uring::measure(pair),
        #[cfg(not(feature = "io-uring"))]
        "native.uring" => bail!("this command was built without io_uring"),
        _ => bail!("nobody knows how to measure {id}"),
    }
}
