//! From the start of a program to its end.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::figure::{Figure, Group, Needs};
use crate::lab::Lab;
use crate::samples::{Samples, Side};

/// `/bin/true`, dynamically linked.
pub const START: Group = Group {
    name: "start",
    needs: Needs::Instance,
    figures: &[Figure::lower("start.true", "ms", "/bin/true: start, run, end, be waited for")],
    measure,
};

/// Runs of each round and kernel, of which the fastest counts.
const TRIES: u32 = 3;

fn measure(lab: &mut Lab, _: &Group) -> Result<Samples> {
    lab.need_instance("")?;
    let mut samples = Samples::default();
    for _ in 0..lab.rounds {
        lab.check_interrupted()?;
        for side in [Side::Linux, Side::Lwk] {
            let mut best = f64::INFINITY;
            for _ in 0..TRIES {
                let start = Instant::now();
                let status = lab.command(side, &[], "/bin/true")?.stdin(Stdio::null()).status()?;
                best = best.min(start.elapsed().as_secs_f64() * 1e3);
                if !status.success() {
                    bail!("/bin/true failed: {status}");
                }
            }
            samples.add(side, "start.true", best);
        }
    }
    Ok(samples)
}
