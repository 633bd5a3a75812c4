//! `hanare bench --native`: the shortest round trip between two CPUs of this Linux, by the words
//! that Linux and the LWK share and by what Linux itself offers. No VM, no instance and no right is
//! needed.
//!
//! `cpus` chooses the two CPUs, `figures` says what is measured, `pair` keeps a thread on each and
//! takes the times; `polled`, `packed`, `woken` and `uring` have a way of handing the turn over
//! each; `report` prints.

mod cpus;
mod figures;
mod packed;
mod pair;
mod polled;
mod report;
#[cfg(feature = "io-uring")]
mod uring;
mod woken;

use anyhow::{Result, bail};

use self::cpus::Machine;
pub use self::figures::{FIGURES, GROUP, Wish};
use self::pair::{Batches, Pair};
use self::report::Report;

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
        "native.lines" => pair.exchange(&polled::Lines::new()),
        "native.slot" => pair.exchange(&polled::Slot::new()),
        "native.box" => pair.exchange(&polled::Box::new()),
        "native.packed" => pair.exchange(&packed::Packed::new()),
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
